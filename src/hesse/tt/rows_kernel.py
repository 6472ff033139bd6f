"""Compiled inner products of long rows: Gram matrices of large cores, and cores read by words.

BLAS is at its best where all three sizes of a product are large. Here two of them are ranks or numbers of
words: sums stay in registers, and each core is read once. Without numba, `serves` says no.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.tt import compiler
from hesse.tt.compiler import compiled, inner, once
from hesse.tt.tiles import DotSizes, Sizes, dot_sizes, dots, sizes, tile

WORTH = 2**18
"""Multiplications of a product from which on it pays to compile."""
MOST = 32
"""Rows on one side up to which BLAS is slower."""
BLOCK = 512
"""So many numbers of each row at a time, which caches hold."""


def serves(dtype: Any, rank: int, multiplications: int) -> bool:
    """Whether these kernels compute such products of arrays of NumPy."""
    return (
        dtype in (np.float64, np.float32)
        and rank <= MOST
        and multiplications >= WORTH
        and compiler.is_installed()
    )


def gram(a: np.ndarray) -> np.ndarray:
    """`a.T @ a` of a tall matrix, whose rows or columns follow each other in memory."""
    count = a.shape[1]
    if not a.flags.c_contiguous:
        size = dot_sizes(count, a.itemsize)
        total = square(count, size, a)
        _rows_kernel(size)(fixed(a.T), total)
        return total[:count, :count]
    total, some = np.zeros((count, count), a.dtype), np.empty((count, count), a.dtype)
    a = fixed(a)
    _sums_kernel(sizes(count, count, a.itemsize))(a[None], a, some, total[None])
    return total


def read(words: np.ndarray, core: np.ndarray) -> np.ndarray:
    """A core times each word at its position, with axes (left bond, right bond, word). Words are best read
    with their vectors as columns, one after the other.
    """
    left, _, right = core.shape
    total = np.zeros((left, right, len(words)), core.dtype)
    some = np.empty((right, len(words)), core.dtype)
    kernel = _sums_kernel(sizes(right, len(words), core.itemsize))
    kernel(fixed(core), fixed(words.T), some, total)
    return total


def square(count: int, size: DotSizes, like: np.ndarray) -> np.ndarray:
    """Zeros for inner products of rows, with a margin for the last ones."""
    whole = -(-count // size.side) * size.side
    return np.zeros((whole, whole), like.dtype)


def fixed(array: np.ndarray) -> np.ndarray:
    """In one layout and not to be written to: kernels are compiled for that."""
    made = np.ascontiguousarray(array)[...]
    made.flags.writeable = False
    return made


@once
def _sums_kernel(size: Sizes) -> Any:
    """Products of transposed matrices with a matrix. Sums of parts are added up: that is more exact.

    Tiles at the end begin before it, and are made twice in part.
    """
    write = tile(size)
    rows, columns = size.rows, size.registers * size.width

    def kernel(left, right, some, total):  # type: ignore[no-untyped-def]
        count, length, height = left.shape
        for start in range(0, length, BLOCK):
            end = min(start + BLOCK, length)
            own = right[start:end]
            for a in range(count):
                part = left[a, start:end]
                for first in range(0, height, rows):
                    i = min(first, height - rows)
                    for j in range(0, own.shape[1], columns):
                        write(some, part, own, part[:0], own[:0], i, j)
                for i in range(height):
                    for j in range(own.shape[1]):
                        total[a, i, j] += some[i, j]

    return compiled(kernel)


@once
def _rows_kernel(size: DotSizes) -> Any:
    """The products of rows with each other."""
    add = add_products(size)

    def kernel(rows, total):  # type: ignore[no-untyped-def]
        for start in range(0, rows.shape[1], BLOCK):
            add(rows, start, min(BLOCK, rows.shape[1] - start), total)

    return compiled(kernel)


@once
def add_products(size: DotSizes) -> Any:
    """The inner products of parts of rows with each other, added to others."""
    write, side = dots(size), size.side

    def add(rows, start, count, total):  # type: ignore[no-untyped-def]
        for j in range(0, rows.shape[0], side):
            for k in range(0, j + side, side):
                write(total, rows, start, count, j, k)
        for j in range(rows.shape[0]):
            for k in range(j):
                total[k, j] = total[j, k]

    return inner(add)
