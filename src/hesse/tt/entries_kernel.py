"""Compiled kernels for entries of trains: one pass over the samples, without any array that grows with them.

The rank is a constant of the compiled code, so that inner loops are unrolled; smaller ones are filled up with
zeros. Kernels release the lock of the interpreter, and parts of the samples run on several threads, each with
deltas of its own. Without numba, `serves` says no.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from hesse.tt.arrays import Array
from hesse.tt.train import TensorTrain

ALONE = 4096
"""So many samples at least for each thread."""
TILE = 4096
"""Axes longer than this are cut into tiles of this length, in whose order samples are taken."""


@functools.cache
def _is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def serves(train: TensorTrain) -> bool:
    """Whether these kernels compute with the cores of a train."""
    return len(train) > 1 and isinstance(train.cores[0], np.ndarray) and _is_installed()


class Packed(NamedTuple):
    """Cores by positions: (n, rank) at both ends, and all (rank, rank) matrices between them in a row."""

    first: np.ndarray
    middle: np.ndarray
    last: np.ndarray


def packed(cores: Sequence[np.ndarray], rank: int) -> Packed:
    """Cores in the layout of the kernels."""
    sizes = [core.shape[1] for core in cores[1:-1]]
    middle = np.zeros((sum(sizes), rank, rank), cores[0].dtype)
    start = 0
    for core, size in zip(cores[1:-1], sizes, strict=True):
        middle[start : start + size, : core.shape[0], : core.shape[2]] = core.transpose(1, 0, 2)
        start += size
    ends = [np.zeros((core.shape[1], rank), core.dtype) for core in (cores[0], cores[-1])]
    ends[0][:, : cores[0].shape[2]] = cores[0][0]
    ends[1][:, : cores[-1].shape[0]] = cores[-1][:, :, 0].T
    return Packed(ends[0], middle, ends[1])


def unpacked(parts: Packed, cores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays with the shapes of cores, from the layout of the kernels."""
    made = [np.ascontiguousarray(parts.first[:, : cores[0].shape[2]])[None]]
    start = 0
    for core in cores[1:-1]:
        left, size, right = core.shape
        made.append(parts.middle[start : start + size, :left, :right].transpose(1, 0, 2).copy())
        start += size
    return [*made, parts.last[:, : cores[-1].shape[0]].T.copy()[:, :, None]]


class Samples:
    """Positions in the layout of the kernels, sorted if axes are long."""

    def __init__(self, columns: Sequence[np.ndarray], shape: Sequence[int]) -> None:
        starts = np.concatenate([[0], np.cumsum(shape[1:-1])]).astype(np.int64)
        self._order = _by_tiles(columns, shape)
        self.rows = np.empty((len(columns[0]), len(columns)), np.int32)
        for k, column in enumerate(columns):
            self.rows[:, k] = self.sorted(column)
            if 0 < k < len(columns) - 1:
                self.rows[:, k] += starts[k - 1]

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
        threads = importlib.import_module("numba").get_num_threads()
        count = max(1, min(threads, len(self.rows) // ALONE))
        edges = np.linspace(0, len(self.rows), count + 1).astype(int)
        return [slice(a, b) for a, b in itertools.pairwise(edges)]


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
    rank = _rank(cores)
    parts = packed(cores, rank)
    result = np.empty(len(samples.rows), cores[0].dtype)
    kernel = _kernels(rank)[0]
    _run(samples, lambda part: kernel(*parts, samples.rows[part], result[part]))
    return samples.unsorted(result)


def push(
    left: Sequence[Array], right: Sequence[Array], tangent: Sequence[Array], samples: Samples
) -> np.ndarray:
    """The entries of a tangent vector."""
    rank = _rank(right)
    chains = [packed(cores, rank) for cores in (left, right, tangent)]
    result = np.empty(len(samples.rows), right[0].dtype)
    kernel = _kernels(rank)[1]
    _run(samples, lambda part: kernel(*chains[0], *chains[1], *chains[2], samples.rows[part], result[part]))
    return samples.unsorted(result)


def pull(
    left: Sequence[Array], right: Sequence[Array], weights: np.ndarray, samples: Samples
) -> list[np.ndarray]:
    """The deltas of a weighted sum of entries."""
    rank = _rank(right)
    chains = [packed(cores, rank) for cores in (left, right)]
    kernel = _kernels(rank)[2]
    weights = np.ascontiguousarray(samples.sorted(weights))

    def deltas(part: slice) -> Packed:
        made = Packed(*map(np.zeros_like, chains[0]))
        kernel(*chains[0], *chains[1], weights[part], samples.rows[part], *made)
        return made

    first, *others = _run(samples, deltas)
    for other in others:
        for mine, more in zip(first, other, strict=True):
            np.add(mine, more, out=mine)
    return unpacked(first, left)


def _rank(cores: Sequence[Array]) -> int:
    return int(max(core.shape[2] for core in cores))


def _run(samples: Samples, task: Callable[[slice], Any]) -> list[Any]:
    parts = samples.parts()
    if len(parts) == 1:
        return [task(parts[0])]
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(task, parts))


@functools.lru_cache(maxsize=64)
def _kernels(rank: int) -> tuple[Any, Any, Any]:
    """The kernels for a rank."""
    numba = importlib.import_module("numba")
    compiled = numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"}, boundscheck=False)

    @compiled
    def value_kernel(first, middle, last, rows, result):  # type: ignore[no-untyped-def]
        row, new = np.empty(rank, first.dtype), np.empty(rank, first.dtype)
        end = rows.shape[1] - 1
        for s in range(rows.shape[0]):
            for a in range(rank):
                row[a] = first[rows[s, 0], a]
            for k in range(1, end):
                matrix = middle[rows[s, k]]
                for b in range(rank):
                    new[b] = 0.0
                for a in range(rank):
                    factor = row[a]
                    for b in range(rank):
                        new[b] += factor * matrix[a, b]
                for a in range(rank):
                    row[a] = new[a]
            total = row[0] * last[rows[s, end], 0]
            for a in range(1, rank):
                total += row[a] * last[rows[s, end], a]
            result[s] = total

    @compiled
    def push_kernel(  # type: ignore[no-untyped-def]
        ufirst, umiddle, ulast, vfirst, vmiddle, vlast, zfirst, zmiddle, zlast, rows, result
    ):
        row, new = np.empty(rank, ufirst.dtype), np.empty(rank, ufirst.dtype)
        tail, newer = np.empty(rank, ufirst.dtype), np.empty(rank, ufirst.dtype)
        end = rows.shape[1] - 1
        for s in range(rows.shape[0]):
            for a in range(rank):
                row[a] = vlast[rows[s, end], a]
                tail[a] = zlast[rows[s, end], a]
            for k in range(end - 1, 0, -1):
                u, v, z = umiddle[rows[s, k]], vmiddle[rows[s, k]], zmiddle[rows[s, k]]
                for a in range(rank):
                    plain, moved = row[0] * v[a, 0], row[0] * z[a, 0] + tail[0] * u[a, 0]
                    for b in range(1, rank):
                        plain += row[b] * v[a, b]
                        moved += row[b] * z[a, b] + tail[b] * u[a, b]
                    new[a], newer[a] = plain, moved
                for a in range(rank):
                    row[a], tail[a] = new[a], newer[a]
            i = rows[s, 0]
            total = zfirst[i, 0] * row[0] + ufirst[i, 0] * tail[0]
            for a in range(1, rank):
                total += zfirst[i, a] * row[a] + ufirst[i, a] * tail[a]
            result[s] = total

    @compiled
    def pull_kernel(  # type: ignore[no-untyped-def]
        ufirst, umiddle, ulast, vfirst, vmiddle, vlast, weights, rows, dfirst, dmiddle, dlast
    ):
        end = rows.shape[1] - 1
        behind = np.empty((end + 1, rank), ufirst.dtype)
        row, new = np.empty(rank, ufirst.dtype), np.empty(rank, ufirst.dtype)
        for s in range(rows.shape[0]):
            weight = weights[s]
            for a in range(rank):
                behind[end, a] = vlast[rows[s, end], a]
                row[a] = weight * ufirst[rows[s, 0], a]
            for k in range(end - 1, 0, -1):
                v = vmiddle[rows[s, k]]
                for a in range(rank):
                    total = behind[k + 1, 0] * v[a, 0]
                    for b in range(1, rank):
                        total += behind[k + 1, b] * v[a, b]
                    behind[k, a] = total
            for a in range(rank):
                dfirst[rows[s, 0], a] += weight * behind[1, a]
            for k in range(1, end):
                u, d = umiddle[rows[s, k]], dmiddle[rows[s, k]]
                for b in range(rank):
                    new[b] = 0.0
                for a in range(rank):
                    factor = row[a]
                    for b in range(rank):
                        d[a, b] += factor * behind[k + 1, b]
                    for b in range(rank):
                        new[b] += factor * u[a, b]
                for a in range(rank):
                    row[a] = new[a]
            for a in range(rank):
                dlast[rows[s, end], a] += row[a]

    return value_kernel, push_kernel, pull_kernel
