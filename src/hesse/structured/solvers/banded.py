"""Banded matrices: chains, one-dimensional stencils, in linear time."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from hesse.backends.target import Array
from hesse.ir import Node, add, combine, einsum_of, remembered
from hesse.structured.base import Patterns
from hesse.structured.patterns import count, interval, matrix_axes, products, same_positions, touched
from hesse.structured.solvers.dense import dense, else_dense
from hesse.structured.solvers.reduction import solve_bands
from hesse.structured.solvers.systems import Solver, check, is_close, singular, with_probe

DENSE_BAND = 128
"""Up to this many unknowns the dense system takes less time where bands are reduced block by block."""


@remembered
def bandwidths(node: Node, rank: int) -> tuple[int, int]:
    """Number of diagonals below and above the main one that the terms reach."""
    lower = upper = 0
    for term in products(node):
        row, column = matrix_axes(term, node.shape, rank)
        least, most = interval(combine([(1, row), (-1, column)]), term.ranges)
        lower, upper = max(lower, most), max(upper, -least)
    return lower, upper


def bands(node: Node, rank: int) -> Node:
    """The diagonals in LAPACK's order, `H[i, j]` at `[upper + i - j, j]`: patterns placed as patterns."""
    lower, upper = bandwidths(node, rank)
    shape = (lower + upper + 1, count(node.shape[:rank]))
    placed = []
    for term in products(node):
        row, column = matrix_axes(term, node.shape, rank)
        output = (combine([(1, row), (-1, column)], upper), column)
        placed.append(einsum_of(term._replace(output=output), shape))
    return add(placed, shape)


@remembered
def _is_banded(node: Node, rank: int) -> bool:
    """Whether the band is narrow and not mostly zeros (a sparse solver does better then)."""
    lower, upper = bandwidths(node, rank)
    width = lower + upper + 1
    size = count(node.shape[:rank])
    same = same_positions(node, rank)
    block = size // count(tuple(node.shape[p] for p in same))
    return 2 * width <= block and (width <= 9 or width * size <= 4 * touched(node))


def banded(tensor: Patterns, damping: float) -> Solver | None:
    """A matrix with few diagonals: Cholesky's method for bands, else LU, or cyclic reduction."""
    rank = tensor.groups[-1]
    size = count(tensor.node.shape[:rank])
    if not _is_banded(tensor.node, rank):
        return None
    widths, target = bandwidths(tensor.node, rank), tensor.target
    if not target.algebra.raises and size <= DENSE_BAND:
        return Solver("banded", dense(tensor, damping).solve)

    def solve(right: Array) -> Array:
        (matrix,) = target.converted([tensor.run(bands, rank)], [right.dtype])
        eliminate = target.algebra.compiled(_by_rows if target.algebra.raises else solve_bands, widths)
        return eliminate(matrix, right.reshape(size, -1), damping).reshape(right.shape)

    return else_dense(Solver("banded", solve), tensor, damping)


def _by_rows(
    xp: Any, widths: tuple[int, int], matrix: np.ndarray, right: np.ndarray, damping: float
) -> np.ndarray:
    """Elimination row by row, by LAPACK."""
    linalg = importlib.import_module("scipy.linalg")
    matrix[widths[1]] += damping
    with np.errstate(all="ignore"):
        solution = _eliminated(linalg, widths, matrix, with_probe(xp, right))
        norm = np.abs(matrix).sum(0).max()
    return np.asarray(check(xp, solution[:, :-1], norm * np.abs(solution[:, -1]).max()))


def _eliminated(linalg: Any, widths: tuple[int, int], matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    main = widths[1]
    if (matrix[main] > 0).all() and _symmetric_bands(matrix, *widths):
        try:
            return np.asarray(linalg.solveh_banded(matrix[: main + 1], right, check_finite=False))
        except np.linalg.LinAlgError:
            pass  # not positive definite
    try:
        return np.asarray(linalg.solve_banded(widths, matrix, right, check_finite=False))
    except np.linalg.LinAlgError:
        raise singular(len(right)) from None


def _symmetric_bands(matrix: np.ndarray, lower: int, upper: int) -> bool:
    """Whether the diagonals above the main one are those below it."""
    if lower != upper:
        return False
    return all(
        is_close(np, matrix[upper - k, k:], matrix[upper + k, : matrix.shape[1] - k])
        for k in range(1, upper + 1)
    )
