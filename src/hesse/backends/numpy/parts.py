"""Products with small matrices, in parts for which BLAS has a loop of its own.

OpenBLAS multiplies small matrices as they lie and copies larger ones into blocks first, which takes most of
the time where one of the matrices is small. It tells them apart by the number of multiplications, so a long
product with a small matrix is quicker in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from hesse.backends.numpy.machine import NumpyMachine
from hesse.backends.processors import blas_threads
from hesse.backends.text import Matrices, tuple_text

ROUND = 16
"""Parts have a multiple of so many rows or columns, which keeps them in line with the cache."""


def parts_source(
    found: Matrices, sizes: Mapping[int, int], machine: NumpyMachine, buffer: Callable[[], str | None]
) -> str | None:
    """A product in parts, if that is quicker; it may be written to the array of `buffer()`.

    BLAS shares the rows or columns of a product among its threads, but not the terms of a sum.
    """
    rows, summed, columns = (
        math.prod(sizes[label] for label in group) for group in (found.rows, found.summed, found.columns)
    )
    if found.batch or min(rows, summed, columns) < 2:
        return None
    if not 1 < rows * summed * columns / machine.small_product <= machine.most_parts:
        return None
    left, right = found.first, found.second
    if rows * columns <= machine.small_matrix:
        return f"long_product({left}, {right}, {_length(summed, rows * columns, machine)})"
    if blas_threads() > 1:
        return None
    if rows * summed <= machine.small_matrix:
        function, length = "wide_product", _length(columns, rows * summed, machine)
        if right.endswith(".T") and not left.endswith(".T"):  # dot products of rows: the slowest loop
            left = f"np.asfortranarray({left})"
    elif summed * columns <= machine.small_matrix:
        function, length = "tall_product", _length(rows, summed * columns, machine)
        right = f"np.ascontiguousarray({right})" if right.endswith(".T") else right
    else:
        return None
    target = buffer() or f"np.empty({tuple_text((rows, columns))}, dtype)"
    return f"{function}({left}, {right}, {length}, {target})"


def _length(whole: int, others: int, machine: NumpyMachine) -> int:
    """The length of equal parts that are small, where the small matrix has so many entries."""
    most = max(machine.small_product // others // ROUND, 1) * ROUND
    return math.ceil(whole / math.ceil(whole / most) / ROUND) * ROUND


def wide_product(left: np.ndarray, right: np.ndarray, length: int, out: np.ndarray) -> np.ndarray:
    """A product of matrices, so many columns at a time."""
    for start in range(0, right.shape[1], length):
        columns = slice(start, start + length)
        np.matmul(left, right[:, columns], out=out[:, columns])
    return out


def tall_product(left: np.ndarray, right: np.ndarray, length: int, out: np.ndarray) -> np.ndarray:
    """A product of matrices, so many rows at a time."""
    for start in range(0, len(left), length):
        rows = slice(start, start + length)
        np.matmul(left[rows], right, out=out[rows])
    return out


def long_product(left: np.ndarray, right: np.ndarray, length: int) -> np.ndarray:
    """A product of matrices, so many terms of its sums at a time."""
    result: np.ndarray = np.matmul(left[:, :length], right[:length])
    for start in range(length, len(right), length):
        terms = slice(start, start + length)
        result += np.matmul(left[:, terms], right[terms])
    return result


FUNCTIONS = {function.__name__: function for function in (wide_product, tall_product, long_product)}
"""What the sources call."""
