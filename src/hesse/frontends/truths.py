"""Functions whose results are truth values if their operands are, as `+` of these means `or` in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

OF_ALL = frozenset({np.maximum, np.minimum, np.fmax, np.fmin, np.clip, np.outer, np.linalg.outer, np.kron})
"""Functions of which all operands must be truth values."""
OF_FIRST = frozenset(
    {
        *(np.absolute, np.pad, np.sort, np.partition, np.nan_to_num, np.nanmax, np.nanmin),
        *(np.maximum.accumulate, np.minimum.accumulate),
    }
)
"""Functions of which the first one must be."""


def note_truths(function: Callable[..., Any], arguments: tuple[Any, ...], found: Any) -> None:
    """Note of the result of a function whether it is made of truth values."""
    if function in OF_FIRST:
        operands = arguments[:1]
    elif function in OF_ALL:
        operands = tuple(operand for operand in arguments if operand is not None)
    elif function is np.choose:
        operands = tuple(arguments[1]) if isinstance(arguments[1], list | tuple) else arguments[1:2]
    else:
        return
    if hasattr(found, "boolean") and all(map(_is_truth, operands)):
        found.boolean = True


def _is_truth(value: Any) -> bool:
    if hasattr(value, "boolean"):
        return bool(value.boolean)
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"
