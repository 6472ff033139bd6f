"""Structured tensors for JAX's transformations: their parts are leaves, everything else is static.

Expressions are interned, so two tensors have the same static part if and only if they have the same patterns.
What `vmap` gives back has an axis more in its leaves than its patterns say: only another `vmap` takes that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax

from hesse.structured.base import Form, Patterns


def _leaves(tensor: Patterns) -> tuple[Sequence[Any], Form]:
    return tensor._arrays, tensor._form


@functools.cache
def register(kind: type[Patterns]) -> None:
    """Make JAX know the class."""
    jax.tree_util.register_pytree_node(kind, _leaves, kind)
