"""Banded systems where there is no elimination row by row: block cyclic reduction.

The matrix is block tridiagonal with blocks of at least its bandwidth,
`L[k] x[k-1] + D[k] x[k] + U[k] x[k+1] = g[k]`. Eliminating every second block leaves a block tridiagonal
system of half the size: after as many steps as its number of blocks has bits, one block is left. All blocks
of a step are handled at once. Pivots are only chosen inside of blocks, so digits can be lost; corrections by
the residual give them back, or show that it failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hesse.backends.target import Array
from hesse.structured.solvers.systems import check, with_probe

SMALLEST_BLOCK = 8
"""Larger blocks than the band needs leave fewer steps, and more choice of pivots inside."""

LAST_BLOCKS = 32
"""So many blocks are solved as one dense matrix."""

PASSES = 3
"""The solution and its corrections by the residual."""

RESIDUAL = 100.0
"""A solution is accepted when its residual is this many roundings of its terms."""


class _Step(NamedTuple):
    """One step: inverses of the blocks that go, what they take from their neighbours, and those that stay."""

    inverse: Array
    before: Array
    after: Array
    lower: Array
    upper: Array


def solve_bands(xp: Any, widths: tuple[int, int], bands: Array, right: Array, damping: float) -> Array:
    """The solution for diagonals in LAPACK's order, `A[i, j]` at `[upper + i - j, j]`."""
    size = right.shape[0]
    both = with_probe(xp, right)
    main = xp.arange(sum(widths) + 1, bands)[:, None] == widths[1]
    bands = bands + damping * main
    if max(widths) <= 1 and xp.solve_tridiagonal is not None:
        return _checked(xp, *_tridiagonal(xp, widths, bands, both), both, size)
    block = max(*widths, SMALLEST_BLOCK)
    rows = block_rows(xp, widths, bands, block)
    given = _padded(xp, both, len(rows) * block).reshape(len(rows), block, -1)
    steps, last = _reduced(xp, rows, block)

    def corrected(solution: Array) -> Array:
        return solution + _solved(xp, steps, last, given - _product(xp, rows, solution))

    solution = xp.iterated(corrected, PASSES, xp.zeros_like(given))
    residual = given - _product(xp, rows, solution)
    flat = solution.reshape(-1, both.shape[1])[:size]
    return _checked(xp, flat, residual, xp.amax(xp.abs(rows).sum(-1)), both, size)


def _checked(xp: Any, solution: Array, residual: Array, norm: Array, both: Array, size: int) -> Array:
    limit = RESIDUAL * float(xp.finfo(solution.dtype).eps) * norm * xp.amax(xp.abs(solution))
    bound = norm * xp.amax(xp.abs(solution[:, -1]))
    is_exact = xp.amax(xp.abs(residual)) <= limit
    return check(xp, solution[:, :-1], xp.where(is_exact, bound, float("inf")))


def _tridiagonal(xp: Any, widths: tuple[int, int], bands: Array, right: Array) -> tuple[Array, Array, Array]:
    """The solution, its residual and the norm of the matrix, by elimination with pivots."""
    lower_width, upper_width = widths
    none = xp.zeros_like(bands[0])
    upper = xp.roll(bands[upper_width - 1], -1) if upper_width else none
    main = bands[upper_width]
    lower = xp.roll(bands[upper_width + 1], 1) if lower_width else none
    solution = xp.solve_tridiagonal(lower, main, upper, right)
    above, below = _shifted(xp, solution, -1), _shifted(xp, solution, 1)
    product = lower[:, None] * below + main[:, None] * solution + upper[:, None] * above
    return solution, right - product, xp.amax(xp.abs(bands).sum(0))


def block_rows(xp: Any, widths: tuple[int, int], bands: Array, block: int) -> Array:
    """The rows `[L D U]` of the block tridiagonal matrix, with ones on the diagonal behind its end."""
    width, size = bands.shape
    count = -(-size // block)
    behind = xp.zeros((width, count * block - size), bands)
    main = xp.arange(width, bands)[:, None] == widths[1]
    edge = xp.zeros((width, block), bands)
    columns = xp.concatenate([edge, bands, behind + main, edge], 1).reshape(width, count + 2, block)
    columns = xp.moveaxis(columns, 1, 0)
    windows = xp.concatenate([columns[:-2], columns[1:-1], columns[2:]], 2)
    # Entry [a, s] of a row of blocks lies on the diagonal a - (s - block), counted from below the main one.
    places = xp.arange(3 * block, bands)
    diagonal = widths[1] + block + places[:block, None] - places
    is_inside = (diagonal >= 0) & (diagonal < width)
    flat = xp.where(is_inside, diagonal, 0) * (3 * block) + places
    found = windows.reshape(count, width * 3 * block)[:, flat.reshape(-1)].reshape(count, block, 3 * block)
    return xp.where(is_inside, found, 0.0)


def _padded(xp: Any, right: Array, size: int) -> Array:
    return xp.concatenate([right, xp.zeros((size - right.shape[0], right.shape[1]), right)], 0)


def _shifted(xp: Any, blocks: Array, by: int) -> Array:
    """Each block at the place of its neighbour, zero at the end."""
    none = xp.zeros_like(blocks[:1])
    return xp.concatenate([none, blocks[:-1]] if by > 0 else [blocks[1:], none], 0)


def _product(xp: Any, rows: Array, solution: Array) -> Array:
    return rows @ xp.concatenate([_shifted(xp, solution, 1), solution, _shifted(xp, solution, -1)], 1)


def _reduced(xp: Any, rows: Array, block: int) -> tuple[list[_Step], Array]:
    """The steps, and the inverse of the matrix of the last blocks."""
    lower, main, upper = rows[..., :block], rows[..., block : 2 * block], rows[..., 2 * block :]
    steps = []
    while len(main) > LAST_BLOCKS:
        if len(main) % 2:
            none = xp.zeros_like(main[:1])
            lower, upper = xp.concatenate([lower, none], 0), xp.concatenate([upper, none], 0)
            main = xp.concatenate([main, none + xp.eye(block, main)], 0)
        inverse = xp.linalg.inv(main[1::2])
        sides = inverse @ xp.concatenate([lower[1::2], upper[1::2]], 2)
        step = _Step(inverse, sides[..., :block], sides[..., block:], lower[::2], upper[::2])
        steps.append(step)
        main = main[::2] - step.upper @ step.before - step.lower @ _shifted(xp, step.after, 1)
        lower, upper = -step.lower @ _shifted(xp, step.before, 1), -step.upper @ step.after
    return steps, xp.linalg.inv(_joined(xp, lower, main, upper))


def _joined(xp: Any, lower: Array, main: Array, upper: Array) -> Array:
    """The dense matrix of a block tridiagonal one."""
    count, block = main.shape[:2]
    unit = xp.eye(count + 2, main)
    whole = sum(
        unit[k : k + count, 1:-1, None, None] * part[:, None] for k, part in enumerate((lower, main, upper))
    )
    return xp.moveaxis(whole, 2, 1).reshape(count * block, count * block)


def _solved(xp: Any, steps: Sequence[_Step], last: Array, right: Array) -> Array:
    counts, gone = [], []
    for step in steps:
        counts.append(len(right))
        if len(right) % 2:
            right = xp.concatenate([right, xp.zeros_like(right[:1])], 0)
        gone.append(step.inverse @ right[1::2])
        right = right[::2] - step.upper @ gone[-1] - step.lower @ _shifted(xp, gone[-1], 1)
    solution = (last @ right.reshape(len(last), -1)).reshape(right.shape)
    for step, alone, count in zip(reversed(steps), reversed(gone), reversed(counts), strict=True):
        others = alone - step.before @ solution - step.after @ _shifted(xp, solution, -1)
        both = xp.concatenate([solution[:, None], others[:, None]], 1)
        solution = both.reshape(-1, *solution.shape[1:])[:count]
    return solution
