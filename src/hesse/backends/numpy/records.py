"""NumPy kernels of the operation records: `kernel(name)` finds one, here or among the shared ones.

Those named by `hesse.plan.program.IN_PLACE` can write to a given array, which may be the one they read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.backends import records
from hesse.backends.foreign import pick, results_on_host
from hesse.backends.kernels import Kernel, find

Array = np.ndarray
Params = tuple[Any, ...]

FEW = 32
"""Up to this many terms of `logsumexp` one call of a slower function takes less time than several calls."""


def kernel(name: str) -> Kernel:
    """The kernel of the record with this name."""
    return find(name, KERNELS, "hesse.backends.numpy.records.KERNELS")


def _repeat(step: Callable[[Any, Array | None], Any], counts: Array, state: Any) -> Any:
    least, most = int(counts.min()), int(counts.max())
    for level in range(most):
        state = step(state, None if level < least else counts > level)
    return state


XP = records.Namespace(
    np,
    arange=lambda size, like: np.arange(size),
    eye=lambda size, like: np.eye(size, dtype=like.dtype),
    repeat=_repeat,
    zeros=lambda shape, like: np.zeros(shape, like.dtype),
)


def logsumexp(params: Params, x: Array) -> Array:
    if x.size <= FEW:
        return np.asarray(np.logaddexp.reduce(x, axis=-1))
    shift = _finite_maximum(x)
    with np.errstate(divide="ignore", over="ignore"):  # the value is -inf or inf where the maximum is
        return np.asarray(np.log(np.exp(x - shift).sum(axis=-1)) + shift[..., 0])


def softmax(params: Params, x: Array, out: Array | None = None) -> Array:
    result: Array = np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(result, out=result)
    result /= result.sum(axis=-1, keepdims=True)
    return result


def log_softmax(params: Params, x: Array) -> Array:
    largest = _finite_maximum(x)
    result: Array = x - largest
    total = np.exp(result, out=result).sum(axis=-1, keepdims=True)
    np.subtract(x, largest, out=result)  # again: cheaper than another array
    result -= np.log(total)
    return result


def _finite_maximum(x: Array) -> Array:
    maximum = x.max(axis=-1, keepdims=True)
    return np.asarray(np.where(np.isfinite(maximum), maximum, np.zeros_like(maximum)))


def gather(params: Params, x: Array, index: Array) -> Array:
    return np.asarray(np.take(x, index, axis=0))  # always a copy, also for a single position


def scatter(params: Params, u: Array, index: Array) -> Array:
    (size,) = params
    rest = u.shape[index.ndim :]
    positions = index.reshape(-1)
    positions = np.where(positions < 0, positions + size, positions)
    if positions.size and (positions.min() < 0 or positions.max() >= size):
        raise IndexError(f"an index is out of bounds for an axis of size {size}")
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
    "foreign": foreign,
    "gather": gather,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "pick": pick,
    "scatter": scatter,
    "softmax": softmax,
}
