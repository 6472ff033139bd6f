"""Entries of longer trains by compiled loops around products of BLAS.

Samples are taken in chunks that stay near the processor. Along each axis but the ends, those of a chunk are
sorted by their place, so that a run of rows is multiplied by one matrix; rows go from the order of one axis
to that of the next. BLAS is called from compiled code: nothing is filled up, and the lock of the interpreter
is free, so that threads share the chunks. Without numba, `serves` says no.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.tt import compiler
from hesse.tt.chunks import MANY
from hesse.tt.compiler import compiled, inner
from hesse.tt.threads import on_threads, shares
from hesse.tt.train import TensorTrain

WORTH = 2**20
"""Multiplications for an axis from which on it pays to compile."""
GEMM = {"float64": "dgemm", "float32": "sgemm"}


def serves(train: TensorTrain, count: int) -> bool:
    """Whether these kernels compute so many entries of a train, which may be a merged one."""
    is_long = len(train) > 2 and train.library.name == "numpy" and str(train.dtype) in GEMM
    return (
        is_long
        and count * max(train.ranks) ** 2 >= WORTH
        and count >= MANY * max(train.shape[1:-1])
        and compiler.is_installed()
    )


class Runs(NamedTuple):
    """Positions in chunks, sorted along each axis of each chunk; whole numbers of four bytes.

    Where a sample is in the order of an axis is counted from the start of its chunk.
    """

    samples: np.ndarray
    """In the order of the first axis: which sample it is."""
    first: np.ndarray
    """The places along the first axis, in its order."""
    from_first: np.ndarray
    """For the order of the first axis: where it is in that of the second one."""
    places: np.ndarray
    """For each axis but the ends the places along it, in its order."""
    last: np.ndarray
    """The places along the last axis, in its order."""
    from_last: np.ndarray
    """For the order of the last axis: where it is in that of the one before it."""
    ahead: np.ndarray
    """For the order of each axis between, but the first of them: where it is in that of the one before it."""
    back: np.ndarray
    """The same from right to left."""
    edges: np.ndarray
    """Where chunks begin, and where the last one ends."""

    def of(self, part: slice) -> Runs:
        """Some of the chunks."""
        return self._replace(edges=self.edges[part.start : part.stop + 1])


def runs(
    columns: Sequence[np.ndarray], shape: Sequence[int], order: np.ndarray | None, edges: Sequence[int]
) -> Runs:
    """Positions along all axes, in chunks of samples that follow each other in an order."""
    count = len(columns[0])
    given = np.arange(count) if order is None else order
    lengths = np.diff(edges)
    chunks, starts = (np.repeat(which, lengths) for which in (np.arange(len(lengths)), edges[:-1]))
    orders, inverses = [], []
    for column, size in zip(columns, shape, strict=True):
        orders.append(given[np.argsort(chunks * size + column[given], kind="stable")])
        inverses.append(np.empty(count, np.intp))
        inverses[-1][orders[-1]] = np.arange(count)
    sorted_columns = [column[own].astype(np.int32) for column, own in zip(columns, orders, strict=True)]

    def where(order: int, other: int) -> np.ndarray:
        """For the order of an axis where samples are in that of another one."""
        found: np.ndarray = inverses[other][orders[order]] - starts
        return found.astype(np.int32)

    last = len(columns) - 1
    pairs = [*itertools.pairwise(range(1, last))]
    return Runs(
        orders[0].astype(np.int32),
        sorted_columns[0],
        where(0, 1),
        np.array(sorted_columns[1:-1]),
        sorted_columns[-1],
        where(last, last - 1),
        np.array([where(after, before) for before, after in pairs], np.int32).reshape((-1, count)),
        np.array([where(before, after) for before, after in pairs], np.int32).reshape((-1, count)),
        np.array(edges),
    )


class Matrices(NamedTuple):
    """The matrices of a train at the places of each axis; of its ends only rows."""

    first: np.ndarray
    middle: tuple[np.ndarray, ...]
    last: np.ndarray


def matrices(first: np.ndarray, middle: Sequence[np.ndarray], last: np.ndarray) -> Matrices:
    """All in one layout and none to be written to: kernels are compiled for that."""
    return Matrices(_fixed(first), tuple(map(_fixed, middle)), _fixed(last))


def _fixed(array: np.ndarray) -> np.ndarray:
    made = np.ascontiguousarray(array)[...]
    made.flags.writeable = False
    return made


class Buffers(NamedTuple):
    """Rows of a chunk: before and behind each sorted axis in its order, and as products leave them."""

    before: tuple[np.ndarray, ...]
    """They take the memory of rows that are not read any more, so that caches hold all of them."""
    behind: tuple[np.ndarray, ...]
    made: tuple[np.ndarray, ...]
    """For each bond between the ends."""
    numbers: np.ndarray
    """One and zero."""
    sizes: np.ndarray
    """Those of a product of matrices."""


def _buffers(edges: np.ndarray, bonds: Sequence[int], dtype: Any) -> Buffers:
    longest = int(np.diff(edges).max())

    def rows(bonds: Sequence[int]) -> tuple[np.ndarray, ...]:
        return tuple(np.empty((longest, bond), dtype) for bond in bonds)

    behind, made = rows(bonds[1:]), rows(bonds)
    return Buffers((made[0], *behind[:-1]), behind, made, np.array([1.0, 0.0], dtype), np.empty(3, np.int32))


def value(right: Matrices, bonds: Sequence[int], places: Runs) -> np.ndarray:
    """The entries; the matrices are transposed, for products from the right."""
    dtype = right.first.dtype
    result = np.empty(len(places.samples), dtype)
    kernel = _kernels(str(dtype))[0]

    def entries(part: slice) -> None:
        own = places.of(part)
        kernel(right, own, _buffers(own.edges, bonds, dtype), result)

    on_threads(entries, shares(len(places.edges) - 1))
    return result


def pull(
    left: Matrices, right: Matrices, bonds: Sequence[int], weights: np.ndarray, places: Runs
) -> list[np.ndarray]:
    """The derivatives of a weighted sum of entries, by the matrices at each place of an axis."""
    dtype = left.first.dtype
    kernel = _kernels(str(dtype))[1]
    weights = _fixed(weights)

    def deltas(part: slice) -> list[np.ndarray]:
        own = places.of(part)
        made = np.zeros_like(left.first), tuple(map(np.zeros_like, left.middle)), np.zeros_like(right.last)
        kernel(left, right, own, _buffers(own.edges, bonds, dtype), weights, *made)
        return [made[0], *made[1], made[2]]

    first, *others = on_threads(deltas, shares(len(places.edges) - 1))
    for more in others:
        for mine, other in zip(first, more, strict=True):
            np.add(mine, other, out=mine)
    return first


@functools.cache
def _kernels(dtype: str) -> tuple[Any, Any]:
    """Those of entries and of derivatives, for a type of numbers."""
    address = importlib.import_module("numba.extending").get_cython_function_address
    gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address("scipy.linalg.cython_blas", GEMM[dtype]))
    size = np.dtype(dtype).itemsize
    plain, turned = (np.frombuffer(letter, np.uint8) for letter in (b"N", b"T"))

    @inner
    def multiply(rows, start, count, matrix, place, made, numbers, sizes):  # type: ignore[no-untyped-def]
        """Some rows times the matrix at a place; BLAS counts along columns, and so transposes all."""
        a, b = matrix.shape[1], matrix.shape[2]
        sizes[0], sizes[1], sizes[2] = b, count, a
        s, one = sizes.ctypes.data, numbers.ctypes.data
        factor, given = matrix.ctypes.data + place * a * b * size, rows.ctypes.data + start * a * size
        result, no = made.ctypes.data + start * b * size, plain.ctypes.data
        gemm(no, no, s, s + 4, s + 8, one, factor, s, given, s + 8, one + size, result, s)

    @inner
    def add_outer(left, right, start, count, total, place, numbers, sizes):  # type: ignore[no-untyped-def]
        """The sum of the products of some rows, added to the matrix at a place."""
        a, b = left.shape[1], right.shape[1]
        sizes[0], sizes[1], sizes[2] = b, a, count
        s, one = sizes.ctypes.data, numbers.ctypes.data
        first, second = left.ctypes.data + start * a * size, right.ctypes.data + start * b * size
        result, no, yes = total.ctypes.data + place * a * b * size, plain.ctypes.data, turned.ctypes.data
        gemm(no, yes, s, s + 4, s + 8, one, second, s, first, s + 4, one, result, s)

    take, run_end = inner(_take), inner(_run_end)
    behind = inner(_behind_kernel(take, run_end, multiply))
    ahead = inner(_ahead_kernel(take, run_end, multiply, add_outer))
    return compiled(_value_kernel(behind)), compiled(_pull_kernel(behind, ahead))


def _take(table, at, start, count, made):  # type: ignore[no-untyped-def]
    for t in range(count):
        i = at[start + t]
        for a in range(table.shape[1]):
            made[t, a] = table[i, a]


def _run_end(places, start, end):  # type: ignore[no-untyped-def]
    """Where the places are others for the first time."""
    place = places[start]
    while start < end and places[start] == place:
        start += 1
    return start


def _behind_kernel(take: Any, run_end: Any, multiply: Any) -> Any:
    def kernel(right, places, buffers, start, end):  # type: ignore[no-untyped-def]
        """The rows behind each axis of a chunk, and behind the first one."""
        count = len(right.middle)
        behind = buffers.behind[count - 1]
        for t in range(start, end):
            i, to = places.last[t], places.from_last[t]
            for a in range(behind.shape[1]):
                behind[to, a] = right.last[i, a]
        for k in range(count - 1, -1, -1):
            at, rows, made = start, buffers.behind[k], buffers.made[k]
            while at < end:
                after, place = run_end(places.places[k], at, end), places.places[k, at]
                multiply(
                    rows, at - start, after - at, right.middle[k], place, made, buffers.numbers, buffers.sizes
                )
                at = after
            if k:
                take(made, places.back[k - 1], start, end - start, buffers.behind[k - 1])

    return kernel


def _value_kernel(behind: Any) -> Any:
    def kernel(right, places, buffers, result):  # type: ignore[no-untyped-def]
        for chunk in range(len(places.edges) - 1):
            start, end = places.edges[chunk], places.edges[chunk + 1]
            behind(right, places, buffers, start, end)
            rows = buffers.made[0]
            for t in range(start, end):
                i, at = places.first[t], places.from_first[t]
                total = right.first[i, 0] * rows[at, 0]
                for a in range(1, rows.shape[1]):
                    total += right.first[i, a] * rows[at, a]
                result[places.samples[t]] = total

    return kernel


def _ahead_kernel(take: Any, run_end: Any, multiply: Any, add_outer: Any) -> Any:
    def kernel(left, places, buffers, start, end, totals):  # type: ignore[no-untyped-def]
        """The rows before each axis of a chunk, and before the last one; at each axis all products."""
        count, numbers, sizes = len(left.middle), buffers.numbers, buffers.sizes
        for k in range(count):
            at, rows, others, made = start, buffers.before[k], buffers.behind[k], buffers.made[k + 1]
            while at < end:
                after, place = run_end(places.places[k], at, end), places.places[k, at]
                multiply(rows, at - start, after - at, left.middle[k], place, made, numbers, sizes)
                add_outer(rows, others, at - start, after - at, totals[k], place, numbers, sizes)
                at = after
            if k + 1 < count:
                take(made, places.ahead[k], start, end - start, buffers.before[k + 1])

    return kernel


def _pull_kernel(behind: Any, ahead: Any) -> Any:
    def kernel(left, right, places, buffers, weights, first, middle, last):  # type: ignore[no-untyped-def]
        for chunk in range(len(places.edges) - 1):
            start, end = places.edges[chunk], places.edges[chunk + 1]
            behind(right, places, buffers, start, end)
            rows, before = buffers.made[0], buffers.before[0]
            for t in range(start, end):
                i, at, weight = places.first[t], places.from_first[t], weights[places.samples[t]]
                for a in range(rows.shape[1]):
                    first[i, a] += weight * rows[at, a]
                for a in range(rows.shape[1]):
                    before[at, a] = weight * left.first[i, a]
            ahead(left, places, buffers, start, end, middle)
            rows = buffers.made[len(left.middle)]
            for t in range(start, end):
                i, at = places.last[t], places.from_last[t]
                for a in range(rows.shape[1]):
                    last[i, a] += rows[at, a]

    return kernel
