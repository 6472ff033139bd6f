"""Recurrences `c[k+1] = a[k]*c[k] + b[k]` of each entry by itself, in few calls.

The steps are cut into blocks, and all blocks take their steps at once, each from zero. What a block was given
is multiplied by the products of its factors, and added. With `n` steps these are some `4*sqrt(n)` calls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FEWEST_STEPS = 16
MOST_ENTRIES = 256
"""In one step: with more of them the calls of NumPy do not matter, and three times the work does."""


def diagonal_recurrence(rows: Any, carry: Any, factors: Any, added: Any) -> None:
    """Fill the rows `a[k]*c + b[k]`, where `c` is the row before, or the given carry."""
    done = 0
    if len(rows) >= FEWEST_STEPS and factors[0].size <= MOST_ENTRIES:
        length = math.isqrt(len(rows))
        whole = len(rows) // length * length
        try:
            # Where products leave the range of numbers, carries need not.
            with np.errstate(over="raise", under="raise", invalid="raise"):
                _by_blocks(rows[:whole], carry, factors[:whole], added[:whole], length)
            done, carry = whole, rows[whole - 1]
        except FloatingPointError:
            pass
    for row, factor, more in zip(rows[done:], factors[done:], added[done:], strict=True):
        carry = carry * factor
        carry += more
        row[...] = carry


def _by_blocks(rows: Any, carry: Any, factors: Any, added: Any, length: int) -> None:
    shape = -1, length, *factors.shape[1:]
    products, found = (np.array(x.reshape(shape).swapaxes(0, 1), order="C") for x in (factors, added))
    for k in range(1, length):
        found[k] += found[k - 1] * products[k]
        products[k] *= products[k - 1]
    given = np.empty_like(found[0])
    given[0] = carry
    for k in range(1, len(given)):
        given[k] = products[-1, k - 1] * given[k - 1] + found[-1, k - 1]
    products *= given
    found += products
    rows.reshape(shape)[...] = found.swapaxes(0, 1)
