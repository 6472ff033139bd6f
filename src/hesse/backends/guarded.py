"""Programs that divide by determinants, and what runs in their place where a matrix is (nearly) singular.

A program has further results, its doubts: one for each matrix, large where the matrix is nearly singular.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError

Function = Callable[..., tuple[Any, ...]]
Other = Callable[[], Function] | None
"""What makes the program that runs instead; None: there is none."""

DIGITS_KEPT = 0.75
"""A squared condition number above this negative power of the precision leaves too few digits."""
DIGITS_NEEDED = 1.0
"""The same where there is no other program: half of the digits are lost."""
SINGULAR = (
    "a matrix is singular, or nearly, whose determinant is differentiated more than once: that needs a dense "
    "result in one piece (form='dense', without chunk)"
)


def most_allowed(precision: float, other: Other) -> float:
    """The largest doubt that leaves enough digits."""
    digits = DIGITS_NEEDED if other is None else DIGITS_KEPT
    return math.pow(precision, -digits)


def attempted(function: Function, arrays: Sequence[Any], other: Other) -> tuple[Any, ...] | None:
    """The results; None: a matrix has no inverse, and there is another program."""
    try:
        return function(*arrays)
    except Exception as error:  # of NumPy or of PyTorch
        if not type(error).__name__.endswith("LinAlgError"):
            raise
        if other is None:
            raise ArgumentError(SINGULAR) from error
        return None


def guarded(
    function: Function,
    doubts: int,
    other: Other,
    on_host: Callable[[Sequence[Any]], Sequence[np.ndarray]],
) -> Function:
    """The results without doubts; those of the other one where there are any, or no inverse exists."""

    @functools.wraps(function)
    def run(*arrays: Any) -> tuple[Any, ...]:
        results = attempted(function, arrays, other)
        if results is None:
            assert other is not None
            return other()(*arrays)
        values = on_host(results[-doubts:])
        limits = [most_allowed(float(np.finfo(value.dtype).eps), other) for value in values]
        pairs = [*zip(values, limits, strict=True)]
        if other is not None and not all((value <= limit).all() for value, limit in pairs):
            return other()(*arrays)
        if any((value > limit).any() for value, limit in pairs):
            raise ArgumentError(SINGULAR)
        return results[:-doubts]  # nan where matrices hold nan

    return run
