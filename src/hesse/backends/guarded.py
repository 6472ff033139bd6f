"""Programs that divide by determinants, and what runs in their place where a matrix is (nearly) singular.

A program has further results, its doubts: one for each matrix, large where the matrix is nearly singular.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

Function = Callable[..., tuple[Any, ...]]

DIGITS_KEPT = 0.75
"""A squared condition number above this negative power of the precision leaves too few digits."""


def is_doubtful(largest: float, precision: float) -> bool:
    """Whether a doubt is too large, or no number."""
    return not largest <= precision**-DIGITS_KEPT


def guarded(
    function: Function,
    doubts: int,
    other: Callable[[], Function],
    has_doubt: Callable[[Sequence[Any]], bool],
) -> Function:
    """The results without doubts; those of the other one where there are any, or no inverse exists."""

    @functools.wraps(function)
    def run(*arrays: Any) -> tuple[Any, ...]:
        try:
            results = function(*arrays)
        except Exception as error:  # of NumPy or of PyTorch
            if not type(error).__name__.endswith("LinAlgError"):
                raise
        else:
            if not has_doubt(results[-doubts:]):
                return results[:-doubts]
        return other()(*arrays)

    return run
