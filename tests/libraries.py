"""The three array libraries, and the way there and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch


class Library(NamedTuple):
    """An array library: the class of its arrays, how to make one and how to read one."""

    name: str
    array_class: type
    array: Callable[..., Any]
    """`array(values, dtype)`; the dtype by name."""


NUMPY = Library("numpy", np.ndarray, lambda values, dtype=None: np.array(values, dtype))
TORCH = Library(
    "torch",
    torch.Tensor,
    lambda values, dtype=None: torch.tensor(
        np.array(values), dtype=None if dtype is None else getattr(torch, dtype)
    ),
)
JAX = Library("jax", jax.Array, lambda values, dtype=None: jnp.array(np.array(values), dtype))
LIBRARIES = {library.name: library for library in (NUMPY, TORCH, JAX)}
over_libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)


def plain(array: Any) -> Any:
    """A result, or a tuple of them, as NumPy arrays."""
    if isinstance(array, tuple):
        return tuple(map(plain, array))
    return array.detach().numpy().copy() if isinstance(array, torch.Tensor) else np.array(array)


def dtype_name(array: Any) -> str:
    """The name of a dtype, which is the same in all libraries."""
    return str(array.dtype).removeprefix("torch.")
