"""Compiled kernels for entries of matrices of low rank: one pass, without any array that grows with them.

The rank is a constant of the compiled code, so that inner loops are unrolled. Kernels release the lock of
the interpreter, and parts of the entries run on several threads, each with deltas of its own. Without numba,
`serves` says no.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.tt import compiler
from hesse.tt.arrays import Array
from hesse.tt.compiler import compiled
from hesse.tt.threads import on_threads, shares
from hesse.tt.train import TensorTrain

ALONE = 4096
"""So many samples at least for each thread."""
TILE = 4096
"""Axes longer than this are cut into tiles of this length, in whose order samples are taken."""


def serves(train: TensorTrain) -> bool:
    """Whether these kernels compute with the cores of a train."""
    return len(train) == 2 and isinstance(train.cores[0], np.ndarray) and compiler.is_installed()


def _factors(cores: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of both factors of a matrix."""
    return np.ascontiguousarray(cores[0][0]), np.ascontiguousarray(cores[1][:, :, 0].T)


class Samples:
    """Positions in a matrix in the layout of the kernels, sorted if axes are long."""

    def __init__(self, columns: Sequence[np.ndarray], shape: Sequence[int]) -> None:
        self._order = _by_tiles(columns, shape)
        self.rows = np.empty((len(columns[0]), len(columns)), np.int32)
        for k, column in enumerate(columns):
            self.rows[:, k] = self.sorted(column)

    def sorted(self, values: np.ndarray) -> np.ndarray:
        """Values of the samples in the order of the kernels."""
        return values if self._order is None else values[self._order]

    def unsorted(self, values: np.ndarray) -> np.ndarray:
        """Values in the order of the kernels, in that of the samples."""
        if self._order is None:
            return values
        result = np.empty_like(values)
        result[self._order] = values
        return result

    def parts(self) -> list[slice]:
        """Parts of the samples, one for each thread."""
        return shares(len(self.rows), ALONE)


def _by_tiles(columns: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray | None:
    """An order in which samples with near positions follow each other, so that caches hold what they read."""
    tiles, key = 1, np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, shape, strict=True):
        if size > TILE and tiles < 2**16 // (size // TILE + 1):
            count = size // TILE + 1
            tiles, key = tiles * count, key * count + column // TILE
    return None if tiles == 1 else np.argsort(key.astype(np.uint16), kind="stable")


def value(cores: Sequence[Array], samples: Samples) -> np.ndarray:
    """The entries."""
    left, right = _factors(cores)
    result = np.empty(len(samples.rows), left.dtype)
    kernel = _value_kernel(left.shape[1])
    on_threads(lambda part: kernel(left, right, samples.rows[part], result[part]), samples.parts())
    return samples.unsorted(result)


def push(
    left: Sequence[Array], right: Sequence[Array], tangent: Sequence[Array], samples: Samples
) -> np.ndarray:
    """The entries of a tangent vector, `Z1 @ V + U @ Z2`."""
    (u, _), (_, v), (first, second) = _factors(left), _factors(right), _factors(tangent)
    joined = np.concatenate([first, u], 1), np.concatenate([v, second], 1)
    result = np.empty(len(samples.rows), u.dtype)
    kernel = _value_kernel(2 * u.shape[1])
    on_threads(lambda part: kernel(*joined, samples.rows[part], result[part]), samples.parts())
    return samples.unsorted(result)


def pull(
    left: Sequence[Array], right: Sequence[Array], weights: np.ndarray, samples: Samples
) -> list[np.ndarray]:
    """The deltas of a weighted sum of entries."""
    u, v = _factors(left)[0], _factors(right)[1]
    kernel = _pull_kernel(u.shape[1])
    weights = np.ascontiguousarray(samples.sorted(weights))

    def deltas(part: slice) -> tuple[np.ndarray, np.ndarray]:
        made = np.zeros_like(u), np.zeros_like(v)
        kernel(u, v, weights[part], samples.rows[part], *made)
        return made

    (first, second), *others = on_threads(deltas, samples.parts())
    for mine, more in others:
        first += mine
        second += more
    return [first[None], second.T[:, :, None].copy()]


@functools.lru_cache(maxsize=64)
def _value_kernel(rank: int) -> Any:
    """Products of rows of two factors, for a rank."""

    def kernel(left, right, rows, result):  # type: ignore[no-untyped-def]
        for s in range(rows.shape[0]):
            i, j = rows[s, 0], rows[s, 1]
            total = left[i, 0] * right[j, 0]
            for a in range(1, rank):
                total += left[i, a] * right[j, a]
            result[s] = total

    return compiled(kernel)


@functools.lru_cache(maxsize=64)
def _pull_kernel(rank: int) -> Any:
    """Weighted rows of each factor, added where the other one was read."""

    def kernel(left, right, weights, rows, first, second):  # type: ignore[no-untyped-def]
        for s in range(rows.shape[0]):
            i, j, weight = rows[s, 0], rows[s, 1], weights[s]
            for a in range(rank):
                first[i, a] += weight * right[j, a]
            for a in range(rank):
                second[j, a] += weight * left[i, a]

    return compiled(kernel)
