"""The three array libraries, and the way there and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from hesse.backends.executable import executable
from hesse.backends.target import target_named
from hesse.ir import Node
from oracles import fast_jit


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


def values_of(roots: Sequence[Node], values: Mapping[str, np.ndarray], library: Library, dtype: str) -> Any:
    """The values of some nodes, by a program of the library; JAX compiles it in a hurry."""
    target = target_named(library.name)
    if library is JAX:
        target = target.configured(jit=False)
    given = {
        name: library.array(value, dtype if value.dtype.kind == "f" else None)
        for name, value in values.items()
    }
    known = target.dtype([library.array(0.0, dtype).dtype])
    runs = executable(roots, list(given), known, target)
    function = runs.compiled.function
    if library is JAX:
        function = fast_jit(function)
    return function(*given.values())
