"""Separate scales of trains in single precision, which does not hold their norms.

Sizes by which parts are divided are numbers of Python where arrays can be read. For JAX, which compiles, they
are arrays without derivatives: what is divided by them is multiplied by them again. Their logarithms and all
numbers that a short type does not hold are in double precision, which JAX has only where it is asked for.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hesse.tt.arrays import Array, Library
from hesse.tt.orthogonal import gram


def is_short(library: Library, cores: Sequence[Array]) -> bool:
    """Whether norms may not fit into the type of cores, but can be known: in single precision on a CPU."""
    core = cores[0]
    if any(hasattr(core, "node") for core in cores):  # expressions have no size yet
        return False
    if len(core.shape) != 3 or not str(getattr(core, "dtype", "")).endswith("float32"):
        return False
    if library.name == "torch":
        return not library.is_wide(core) and not any(map(library.is_watched, cores))
    return library.name == "numpy" or not library.is_wide(core)


def widely(library: Library, cores: Sequence[Array]) -> AbstractContextManager[Any]:
    """Where double precision can be used beside cores, whether or not the library is set to it."""
    if library.name != "jax" or not is_short(library, cores):
        return nullcontext()
    context: AbstractContextManager[Any] = importlib.import_module("jax").enable_x64(True)
    return context


def narrowed(library: Library, number: Array) -> Array:
    """A result as the library keeps such numbers, where double precision was used only on the way."""
    if library.name != "jax":
        return number
    return number.astype(importlib.import_module("jax").dtypes.canonicalize_dtype(number.dtype))


def measured(library: Library, number: Array) -> Any:
    """A number that is not negative, but for rounding, to divide by: one if there is nothing to divide."""
    if library.name == "jax":
        jax = importlib.import_module("jax")
        return jax.numpy.where(number <= 0.0, 1.0, jax.lax.stop_gradient(number)).astype(number.dtype)
    read = float(number)
    return 1.0 if read <= 0.0 else read


def logarithm(size: Any) -> Any:
    """That of a size."""
    if isinstance(size, float):
        return math.log(size)
    jnp = importlib.import_module("jax.numpy")
    return jnp.log(size.astype(jnp.float64))


def exponential(log_scale: Any) -> Any:
    """That of any number; infinite where it is too large."""
    if isinstance(log_scale, float | int):
        return math.exp(log_scale) if log_scale < 709.0 else math.inf
    return importlib.import_module("jax.numpy").exp(log_scale)


def of_size_one(library: Library, cores: Sequence[Array]) -> tuple[list[Array], Any]:
    """Cores of the train divided by about its norm, and the logarithm of what it was divided by."""
    behind, made, log_scale = library.zeros((1, 1), cores[0]) + 1.0, [], 0.0
    for given in reversed(cores):
        largest = measured(library, abs(given).max())
        core = given / largest
        behind = gram(core, behind)
        size = measured(library, library.einsum("aa->", behind)) ** 0.5
        behind = behind / (size * size)
        made.append(core / size)
        log_scale = log_scale + logarithm(largest) + logarithm(size)
    return made[::-1], log_scale
