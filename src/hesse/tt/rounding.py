"""Rounding: trains of smaller ranks, found by SVDs."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.tt.arrays import Array, Library
from hesse.tt.orthogonal import centred, times_left
from hesse.tt.scales import is_short, of_size_one, widely

FITS = 80.0
"""Logarithms of numbers that single precision holds."""


def rounded(
    library: Library, cores: Sequence[Array], tol: float, rank: int | Sequence[int] | None
) -> list[Array]:
    """The cores of a train near the given one: TT-SVD, the error shared by the bonds."""
    if not tol >= 0.0:
        raise ArgumentError(f"tol must not be negative, not {tol!r}")
    limits = rank_limits(rank, len(cores))
    if is_short(library, cores):
        with widely(library, cores):
            units, log_scale = of_size_one(library, cores)
        return _times_scale(_rounded(library, units, tol, limits), float(log_scale))
    return _rounded(library, cores, tol, limits)


def _times_scale(cores: list[Array], log_scale: float) -> list[Array]:
    """Cores of a train of size one times a scale: the last one, or all of them if it does not fit there."""
    if abs(log_scale) < FITS:
        return [*cores[:-1], cores[-1] * math.exp(log_scale)]
    return [core * math.exp(log_scale / len(cores)) for core in cores]


def _rounded(
    library: Library, cores: Sequence[Array], tol: float, limits: Sequence[int | None]
) -> list[Array]:
    made, count = centred(library, cores, 0), len(cores)
    size = float(np.max(np.sqrt((library.host(made[0]) ** 2).sum((-3, -2, -1)))))
    allowed = tol * size / math.sqrt(max(count - 1, 1))
    for k in range(count - 1):
        *batch, left, middle, right = made[k].shape
        u, s, vt = library.svd(made[k].reshape((*batch, left * middle, right)))
        kept = _kept(library.host(s), allowed, limits[k])
        made[k] = u[..., :kept].reshape((*batch, left, middle, kept))
        made[k + 1] = times_left(s[..., :kept, None] * vt[..., :kept, :], made[k + 1])
    return made


def whole_numbers(what: str, given: Any) -> list[int]:
    """Sizes or ranks, none of which is cut off to a whole number."""
    try:
        return [operator.index(number) for number in given]
    except TypeError:
        raise ArgumentError(f"{what} must be whole numbers, not {given!r}") from None


def rank_limits(rank: int | Sequence[int] | None, count: int) -> list[int | None]:
    """The largest rank for each inner bond of a train with so many positions."""
    if rank is None:
        return [None] * (count - 1)
    if isinstance(rank, int | np.integer):
        limits = [int(rank)] * (count - 1)
    else:
        limits = whole_numbers("ranks", rank)
        if len(limits) == count + 1 and limits[0] == limits[-1] == 1:
            limits = limits[1:-1]
    if len(limits) != count - 1:
        raise ArgumentError(f"{len(limits)} ranks for the {count - 1} inner bonds of a train")
    if any(limit < 1 for limit in limits):
        raise ArgumentError(f"ranks must be at least 1, not {rank!r}")
    return list(limits)


def _kept(values: np.ndarray, allowed: float, limit: int | None) -> int:
    """How many singular values to keep, so that the others have at most the allowed norm."""
    worst = values.reshape(-1, values.shape[-1]).max(0)
    rest = np.sqrt(np.cumsum(worst[::-1] ** 2))[::-1]
    needed = int(np.count_nonzero(rest > allowed))
    return max(1, min(needed, values.shape[-1] if limit is None else limit))
