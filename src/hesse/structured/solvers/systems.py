"""Dense systems of linear equations, and when they count as singular.

Everything is written over the linear algebra `xp` of a target (`hesse.backends.algebra`). Where that does not
raise errors, solutions that cannot be trusted are nan, and `hesse.structured.solvers.solve` looks for those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.target import Array

CHOLESKY_FROM = 128
"""Smaller matrices, and stacks of matrices, are left to LU, whose calls cost less."""


MANY_COLUMNS = 4
"""With more than this many columns for each row, products with the inverse take less time."""


def singular(size: int) -> np.linalg.LinAlgError:
    """The error for a system of `size` equations that has no unique solution."""
    return np.linalg.LinAlgError(
        f"a system of {size} equations is singular to working precision (or has NaN in it); add a multiple "
        "of the unit matrix, for example H.solve(G, damping=1e-6)"
    )


class Solver(NamedTuple):
    """A method that fits a tensor: it takes and returns arrays over `[variable axes…, further axis]`.

    `failure` is the error for a system of so many equations that it cannot solve.
    """

    name: str
    solve: Callable[[Array], Array]
    failure: Callable[[int], np.linalg.LinAlgError] = singular


def accepted(xp: Any, solution: Array, is_fine: Any, size: int) -> Array:
    """The solution of `size` equations if it is fine, else an error or nan."""
    if not xp.raises:
        return solution * xp.where(is_fine, 1.0, math.nan)  # whose derivatives are nan, too
    if not is_fine:
        raise singular(size)
    return solution


def check(xp: Any, solution: Array, conditions: Any) -> Array:
    """The solutions of a stack of systems, if they are finite and the matrices regular.

    `conditions` are lower bounds |A| |x| / |b| of the condition numbers, for the solutions `x` of `probe` or
    for the inverses. Beyond the limit not even one digit would be right.
    """
    size = solution.shape[-2]
    limit = 1.0 / ((16.0 + math.sqrt(size)) * float(xp.finfo(solution.dtype).eps))
    return accepted(xp, solution, (conditions < limit).all() & xp.isfinite(solution).all(), size)


def solve_matrices(xp: Any, matrices: Array, right: Array) -> Array:
    """The solutions of a stack of systems, `matrices` [..., m, m] and `right` [..., m, k].

    A single large symmetric matrix is solved by Cholesky's method where it is positive definite, everything
    else by LU decomposition (once for all columns, where there are many).
    """
    if 0 in matrices.shape:
        return xp.zeros_like(right)
    size, columns = right.shape[-2:]
    if columns > MANY_COLUMNS * size:
        return xp.compiled(_by_inverses)(matrices, right)
    if matrices.ndim == 2 and size >= CHOLESKY_FROM and xp.is_fixed(matrices, right):
        with xp.quiet():
            solution = _by_cholesky(xp, matrices, right)
        if solution is not None:
            return solution
    return xp.compiled(_by_elimination)(matrices, right)


def _norms(xp: Any, matrices: Array) -> Array:
    return xp.amax(xp.abs(matrices).sum(-1), -1)


def with_probe(xp: Any, right: Array) -> Array:
    """The right-hand sides and one more."""
    tried = xp.broadcast_to(xp.probe(right.shape[-2], right), (*right.shape[:-1], 1))
    return xp.concatenate([right, tried], -1)


def _without_probe(xp: Any, both: Array, norms: Array) -> Array:
    return check(xp, both[..., :-1], norms * xp.amax(xp.abs(both[..., -1:]), (-2, -1)))


def _by_inverses(xp: Any, matrices: Array, right: Array) -> Array:
    """Products with the inverses, as accurate as a decomposition after one correction by the residual."""
    with xp.quiet():
        try:
            inverses = xp.linalg.inv(matrices)
        except np.linalg.LinAlgError:
            raise singular(matrices.shape[-1]) from None
        solution = inverses @ right
        solution = solution + inverses @ (right - matrices @ solution)
        return check(xp, solution, _norms(xp, matrices) * _norms(xp, inverses))


def _by_elimination(xp: Any, matrices: Array, right: Array) -> Array:
    with xp.quiet():
        try:
            both = xp.linalg.solve(matrices, with_probe(xp, right))
        except np.linalg.LinAlgError:
            raise singular(matrices.shape[-1]) from None
        return _without_probe(xp, both, _norms(xp, matrices))


def _by_cholesky(xp: Any, matrix: Array, right: Array) -> Array | None:
    """The solution, or None where the matrix is not symmetric or not positive."""
    if not (xp.diagonal(matrix) > 0).all() or not is_symmetric(xp, matrix):
        return None
    both = xp.solve_positive(matrix, with_probe(xp, right))
    if both is None or not xp.isfinite(both).all():
        return None
    return _without_probe(xp, both, _norms(xp, matrix))


def divide(xp: Any, right: Array, divisors: Array) -> Array:
    """The solution of a diagonal system, `right` [..., k] over `divisors` [...]."""
    with xp.quiet():
        solution = right / divisors[..., None]
    return accepted(xp, solution, divisors.all() & xp.isfinite(solution).all(), math.prod(divisors.shape))


def is_close(xp: Any, one: Array, other: Array) -> bool:
    """Whether two arrays are equal up to rounding."""
    if 0 in one.shape:
        return True
    limit = 1e3 * float(xp.finfo(one.dtype).eps) * xp.amax(xp.abs(one))
    return bool((xp.abs(one - other) <= limit).all())


def is_symmetric(xp: Any, matrices: Array) -> bool:
    """Whether all matrices of a stack equal their transposes up to rounding."""
    return is_close(xp, matrices, xp.swapaxes(matrices, -2, -1))
