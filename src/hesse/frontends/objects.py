"""Arrays of objects: what NumPy itself makes of a list of traced values.

`np.r_[x[0], x[1]]` cannot be intercepted, and neither can `np.array` and `np.asarray` where libraries call
them or where a trace does not find them (see `standing_in`). They are arrays whose entries are traced
numbers, with which NumPy computes entry by entry; where such an array meets a traced value, or is returned,
its entries become one traced value again.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.backends.arrays import other_arithmetic
from hesse.frontends.tracing import NumbersNeeded, note_need, of_tensors, untraceable, watched_names

if TYPE_CHECKING:
    from hesse.frontends.expression import Expression

MOST_ENTRIES = 10_000
"""Larger arrays are not taken apart."""
OBJECT_LOOPS = frozenset(
    name
    for name, function in vars(np).items()
    if isinstance(function, np.ufunc) and any("O" in types for types in function.types)
)
"""Functions that NumPy computes for arrays of objects by methods of these names."""


def _is_asked_by(library: str) -> bool:
    """Whether the innermost caller that is not hesse's belongs to a library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("hesse."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).startswith(library)


def array_of_entries(array: Expression, dtype: Any, is_copy: bool) -> np.ndarray:
    """The entries as an array of objects; refused where numbers are needed, and for masked arrays.

    Nothing can be written to it, unless it is meant for a copy: it would not change the traced array.
    """
    if _is_asked_by("numpy.ma."):
        kind, _, way_out = str(other_arithmetic(np.ma.masked_array(0.0))).partition(", ")
        raise untraceable(kind, f"{way_out[:1].upper()}{way_out[1:]}.")
    sizes = [size for size in array.shape if isinstance(size, int)]
    is_small = len(sizes) == array.ndim and math.prod(sizes) <= MOST_ENTRIES
    is_real = not array.boolean and array.index is None and not of_tensors.get()
    if (dtype is not None and np.dtype(dtype) != object) or not is_real or watched_names([array]):
        note_need([array])
        raise untraceable(
            "a traced value converted to an array of numbers "
            "(np.array(x, dtype=float), np.mean([x[0], x[1]]), a[1:3] = x, a[x])",
            "Leave the dtype out; use np.stack([...]), np.concatenate([...]) or np.where instead of "
            "np.array, np.mean(np.stack([...])), np.ones(3) * x instead of np.full(3, x), "
            "write to np.zeros_like(x) or hesse.zeros(3), and hesse.constant(a)[x] to index a known array.",
            kind=NumbersNeeded,
        )
    if not is_small:
        raise untraceable(
            f"np.array or np.asarray of a traced value of shape {array.shape}",
            f"NumPy would compute with its entries one by one, of which there may be {MOST_ENTRIES:,}: "
            "write x or x.copy().",
        )
    found = np.empty(sizes, object)
    for position in np.ndindex(*sizes):
        found[position] = array[position] if position else array
    found.flags.writeable = is_copy or dtype is not None
    return found
