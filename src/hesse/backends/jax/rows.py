"""Functions of narrow rows, computed over one long row.

XLA's older way to write kernels unrolls loops over the entries of a row if these are few: an exponential
of rows of twenty entries is compiled in 33 ms instead of 14, and a softmax of them in 46 instead of 21. So on
one processor functions that take long to compile get all entries in one axis. XLA would move the reshape
behind the function again; the pass that does this is left out for such programs, if they are compiled the
older way (`jitted.py`). Others need it: what is placed in large results takes several times as long without.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from jax import lax

from hesse.backends.jax.processor import is_processor
from hesse.backends.kernels import Kernel
from hesse.ops.registry import ELEMENTWISE
from hesse.plan.program import CallApply, CallMap, Program

NARROW = range(12, 64)
"""Rows of so many entries are unrolled, and there are enough of them to take long."""
MOST = 4096
"""Entries up to which it does not matter that the function is not fused with what is around."""
COSTLY = 10
"""Operations for an entry from which on it takes long to compile a function."""
SOFTENED = {"log_softmax", "logsumexp", "softmax"}
"""Records that take exponentials of rows."""


def has_rows(program: Program) -> bool:
    """Whether a program computes such functions."""
    for item, shape in zip(program.instructions, program.shapes, strict=True):
        if isinstance(item, CallMap):
            if is_costly(item.name) and len(shape) == 2 and _are_rows(shape):
                return True
        elif (
            isinstance(item, CallApply)
            and item.name in SOFTENED
            and _are_rows(program.shapes[item.sources[0]])
        ):
            return True
    return False


def is_costly(name: str) -> bool:
    """Whether a row of the table of functions takes long to compile."""
    row = ELEMENTWISE.get(name)
    return row is not None and row.arity == 1 and row.flops >= COSTLY


def _are_rows(shape: tuple[int, ...]) -> bool:
    is_known = len(shape) > 1 and all(isinstance(size, int) for size in shape)  # sizes may be symbols
    return is_known and shape[-1] in NARROW and math.prod(shape) <= MOST


def in_one_row(function: Kernel) -> Kernel:
    """A function of the entries of an array, for which it does not matter how these are arranged."""

    @functools.wraps(function)
    def computed(x: Any) -> Any:
        if not _are_rows(np.shape(x)) or not is_processor():
            return function(x)
        return lax.reshape(function(lax.reshape(x, (x.size,))), x.shape)

    return computed


def of_matrices(function: Kernel) -> Kernel:
    """The same for matrices alone: images lie in another order in memory, by which they are computed."""
    in_row = in_one_row(function)

    @functools.wraps(function)
    def computed(x: Any) -> Any:
        return in_row(x) if np.ndim(x) == 2 else function(x)

    return computed
