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
    """The parts, and all the rest; called with every result, so `parts`, which copies, is not read."""
    values = tensor._values
    static = (tensor._node, tuple(values), tensor._groups, tensor._dtype, tensor._target)
    return tuple(values.values()), static


@functools.cache
def register(kind: type[Patterns]) -> None:
    """Make JAX know the class."""

    def rebuilt(static: tuple[Any, ...], leaves: Iterable[Any]) -> Patterns:
        node, names, groups, dtype, target = static
        parts = dict(zip(names, leaves))  # noqa: B905 (JAX gives as many as it was given)
        return kind(node, parts, groups, dtype, target)

    jax.tree_util.register_pytree_node(kind, _leaves, rebuilt)
