"""Dense systems of linear equations, and when they count as singular."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

CHOLESKY_FROM = 128
"""Smaller matrices, and stacks of matrices, are left to NumPy's LU, whose calls cost less."""


MANY_COLUMNS = 4
"""With more than this many columns for each row, products with the inverse take less time."""


class Solver(NamedTuple):
    """A method that fits a tensor: it takes and returns arrays over `[variable axes…, further axis]`."""

    name: str
    solve: Callable[[np.ndarray], np.ndarray]


def singular(size: int) -> np.linalg.LinAlgError:
    """The error for a system of `size` equations that has no unique solution."""
    return np.linalg.LinAlgError(
        f"a system of {size} equations is singular to working precision (or has NaN in it); add a multiple "
        "of the unit matrix, for example H.solve(G, damping=1e-6)"
    )


@functools.lru_cache(maxsize=64)
def probe(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """A right-hand side that meets every direction: a large solution of it shows a nearly singular matrix."""
    generator = np.random.default_rng(0)
    signs = generator.choice([-1.0, 1.0], (size, 1))
    column: np.ndarray = (signs * generator.uniform(0.5, 1.0, (size, 1))).astype(dtype)
    column.setflags(write=False)
    return column


def check(solution: np.ndarray, conditions: np.ndarray | float) -> np.ndarray:
    """The solutions of a stack of systems, if they are finite and the matrices regular, else an error.

    `conditions` are lower bounds |A| |x| / |b| of the condition numbers, for the solutions `x` of `probe` or
    for the inverses. Beyond the limit not even one digit would be right.
    """
    size = solution.shape[-2]
    limit = 1.0 / ((16.0 + math.sqrt(size)) * np.finfo(solution.dtype).eps)
    if not np.all(conditions < limit) or not np.isfinite(solution).all():
        raise singular(size)
    return solution


def solve_matrices(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solutions of a stack of systems, `matrices` [..., m, m] and `right` [..., m, k].

    A single large symmetric matrix is solved by Cholesky's method where it is positive definite, everything
    else by LU decomposition (once for all columns, where there are many).
    """
    if not matrices.size:
        return np.zeros_like(right)
    size, columns = right.shape[-2:]
    with np.errstate(all="ignore"):
        norms = np.abs(matrices).sum(-1).max(-1)
        if columns > MANY_COLUMNS * size:
            return _by_inverses(matrices, right, norms)
        tried = np.broadcast_to(probe(size, right.dtype), (*right.shape[:-1], 1))
        both = _solved(matrices, np.concatenate([right, tried], -1))
        return check(both[..., :columns], norms * np.abs(both[..., columns:]).max((-2, -1)))


def _by_inverses(matrices: np.ndarray, right: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Products with the inverses, as accurate as a decomposition after one correction by the residual."""
    try:
        inverses = np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        raise singular(matrices.shape[-1]) from None
    solution = inverses @ right
    solution += inverses @ (right - matrices @ solution)
    return check(solution, norms * np.abs(inverses).sum(-1).max(-1))


def _solved(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    solution = _by_cholesky(matrices, right)
    if solution is not None:
        return solution
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        raise singular(matrices.shape[-1]) from None


def divide(right: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """The solution of a diagonal system, `right` [..., k] over `divisors` [...]."""
    with np.errstate(all="ignore"):
        solution = right / divisors[..., None]
    if not divisors.all() or not np.isfinite(solution).all():
        raise singular(divisors.size)
    return np.asarray(solution)


def is_close(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal up to rounding."""
    limit = 1e3 * np.finfo(one.dtype).eps * np.abs(one).max(initial=0.0)
    return bool((np.abs(one - other) <= limit).all())


def is_symmetric(matrices: np.ndarray) -> bool:
    """Whether all matrices of a stack equal their transposes up to rounding."""
    return is_close(matrices, matrices.swapaxes(-2, -1))


def _by_cholesky(matrices: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    if matrices.ndim > 2 or len(matrices) < CHOLESKY_FROM:
        return None
    if not (np.diagonal(matrices) > 0).all() or not is_symmetric(matrices):
        return None
    lapack = importlib.import_module("scipy.linalg.lapack")
    posv = lapack.sposv if matrices.dtype == np.float32 else lapack.dposv
    _, solution, info = posv(matrices.T, right, lower=True)
    return np.asarray(solution) if info == 0 else None
