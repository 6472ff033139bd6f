"""NumPy kernels of the operation records: `kernel(name)` finds one, here or among the shared ones.

Those named by `IN_PLACE` in `program.py` can write to a given array, which may be the one they read.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.backends import records
from hesse.backends.foreign import pick, results_on_host
from hesse.backends.kernels import Kernel, find
from hesse.backends.names import words

Array = np.ndarray
Params = tuple[Any, ...]

FEW = 32
"""Up to this many terms of `logsumexp` one call of a slower function takes less time than several calls."""
FEW_ADDED = 200
"""Up to this many terms `scatter` adds one by one."""
SHORT, ROWS_PER_COLUMN = 16, 12
"""Up to how many columns, and from how many rows for each, a maximum is taken column by column."""
LONG = 256
"""Rows with more entries are added by NumPy, whose sums in pairs lose fewer digits than those of BLAS."""


def kernel(name: str) -> Kernel:
    """The kernel of the record with this name."""
    return find(name, KERNELS, "hesse.backends.numpy.records.KERNELS")


def _repeat(step: Callable[[Any, Array | None], Any], counts: Array, state: Any) -> Any:
    least, most = int(counts.min()), int(counts.max())
    for level in range(most):
        state = step(state, None if level < least else counts > level)
    return state


def _checked(index: Array, size: int) -> Array:
    if index.size and (index.min() < -size or index.max() >= size):
        outside = index[(index < -size) | (index >= size)]
        raise IndexError(f"index {outside.flat[0]} is out of bounds for an axis of size {size}")
    return index


def _solve_triangular(a: Array, b: Array) -> Array:
    if a.ndim == 2 and a.size:
        found: Array = _linalg().solve_triangular(a, b, lower=True)
        return found
    return np.linalg.solve(np.tril(a), b)  # many at once


@functools.cache
def _linalg() -> Any:
    return importlib.import_module("scipy.linalg")


XP = records.Namespace(
    np,
    **words("numpy"),
    checked=_checked,
    repeat=_repeat,
    solve_triangular=_solve_triangular,
)


def adjugate(params: Params, a: Array) -> Array:
    """By the inverse, if there is one."""
    try:
        return np.asarray(np.linalg.det(a)[..., None, None] * np.linalg.inv(a))
    except np.linalg.LinAlgError:
        return np.asarray(records.adjugate(XP, params, a))


def logsumexp(params: Params, x: Array, soft: Array | None = None) -> Array:
    """`soft` is the softmax, if it is known: its largest entry is 1 over the sum of the exponentials."""
    if x.size <= FEW:
        return np.asarray(np.logaddexp.reduce(x, axis=-1))
    largest = _largest(x)
    if soft is not None:
        result = np.asarray(largest - np.log(_largest(soft)))
        np.copyto(result, largest, where=np.isinf(largest))
        return result
    shift = _finite(largest)
    with np.errstate(divide="ignore"):  # the value is -inf where the maximum is
        return np.asarray(np.log(_sums(np.exp(x - shift[..., None]))) + shift)


def softmax(params: Params, x: Array, out: Array | None = None) -> Array:
    result: Array = np.subtract(x, _largest(x)[..., None], out=out)
    np.exp(result, out=result)
    result /= _sums(result)[..., None]
    return result


def log_softmax(params: Params, x: Array, soft: Array | None = None) -> Array:
    """`soft` is the softmax, if it is known."""
    shift = _finite(_largest(x))[..., None]
    result: Array = x - shift
    if soft is not None:
        result += np.log(_largest(soft))[..., None]
        return result
    total = _sums(np.exp(result, out=result))
    np.subtract(x, shift, out=result)  # again: cheaper than another array
    result -= np.log(total)[..., None]
    return result


def _largest(x: Array) -> Array:
    """The maximum along the last axis; along a short one column by column, with loops along the rows."""
    columns = x.shape[-1]
    if not 1 < columns <= SHORT or x.size < ROWS_PER_COLUMN * columns * columns:
        return np.asarray(np.maximum.reduce(x, axis=-1))
    result: Array = np.maximum(x[..., 0], x[..., 1])
    for column in range(2, columns):
        np.maximum(result, x[..., column], out=result)
    return result


def _sums(x: Array) -> Array:
    """The sums along the last axis; BLAS is faster where NumPy's loops would be short."""
    if x.shape[-1] > LONG:
        return np.asarray(np.add.reduce(x, axis=-1))
    return np.asarray(np.matmul(x, _ones(x.shape[-1], x.dtype)))


@functools.cache
def _ones(count: int, dtype: np.dtype[Any]) -> Array:
    return np.ones(count, dtype)


def _finite(x: Array) -> Array:
    """The array with the largest numbers there are instead of infinite ones."""
    limit = _limit(x.dtype)
    return np.asarray(np.minimum(np.maximum(x, -limit), limit))


@functools.cache
def _limit(dtype: np.dtype[Any]) -> np.floating[Any]:
    limit: np.floating[Any] = np.finfo(dtype).max
    return limit


def gather(params: Params, x: Array, index: Array) -> Array:
    return np.asarray(np.take(x, index, axis=0))  # always a copy, also for a single position


def add_at(params: Params, u: Array, index: Array) -> Array:
    """Zeros with u[k] added to entry index[k]."""
    (size,) = params
    result = np.zeros((size, *u.shape[index.ndim :]), u.dtype)
    np.add.at(result, index, u)
    return result


def scatter(params: Params, u: Array, index: Array) -> Array:
    (size,) = params
    if u.size <= FEW_ADDED:
        try:
            return add_at(params, u, index)
        except IndexError:
            _checked(index, size)  # which says more
            raise
    rest = u.shape[index.ndim :]
    positions = _checked(index.reshape(-1), size)
    positions = np.where(positions < 0, positions + size, positions)
    rows = u.reshape(len(positions), math.prod(rest))
    if rows.shape[1] == 1:
        sums = np.bincount(positions, weights=rows[:, 0], minlength=size)
        return sums.astype(u.dtype, copy=False).reshape((size, *rest))
    result = np.zeros((size, rows.shape[1]), u.dtype)
    if len(positions) and np.bincount(positions).max() > 1:
        order = np.argsort(positions, kind="stable")
        targets, starts = np.unique(positions[order], return_index=True)
        result[targets] = np.add.reduceat(rows[order], starts, axis=0)
    else:
        result[positions] = rows
    return result.reshape((size, *rest))


def foreign(params: Params, *operands: Array) -> list[Array]:
    return results_on_host(params[0], operands)


KERNELS: dict[str, Kernel] = {
    **records.shared(XP),
    "adjugate": adjugate,
    "foreign": foreign,
    "gather": gather,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "pick": pick,
    "scatter": scatter,
    "softmax": softmax,
}
