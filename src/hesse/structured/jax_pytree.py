"""Structured tensors for JAX's transformations: their parts are leaves, everything else is static.

Expressions are interned, so two tensors have the same static part if and only if they have the same patterns.
What `vmap` gives back has an axis more in its leaves than its patterns say: only another `vmap` takes that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax

from hesse.structured.base import Patterns


def _leaves(tensor: Patterns) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    static = (tensor.node, tuple(tensor.parts), tensor.groups, tensor.dtype, tensor.target)
    return tuple(tensor.parts.values()), static


@functools.cache
def register(kind: type[Patterns]) -> None:
    """Make JAX know the class."""

    def rebuilt(static: tuple[Any, ...], leaves: Iterable[Any]) -> Patterns:
        node, names, groups, dtype, target = static
        return kind(node, dict(zip(names, leaves, strict=True)), groups, dtype, target)

    jax.tree_util.register_pytree_node(kind, _leaves, rebuilt)
