"""Whether entries are certain to lie in memory in the order of the axes, as NumPy would have them.

NumPy gives results of element-wise functions the layout of their operands; so if these lie in order, the
result does, too, and then it is known which reshaped arrays are views of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.tracing import untraceable
from hesse.ir import Variable, number
from hesse.ir import reshape as reshape_node

if TYPE_CHECKING:
    from hesse.frontends.expression import Expression

NO_SHAPE_IN_PLACE = "Write x = x.reshape(...) instead."
ALWAYS = frozenset({np.outer, np.linalg.outer})
"""Functions whose results lie in order."""
AS_OPERANDS = frozenset(
    {
        *(np.stack, np.vstack, np.hstack, np.column_stack, np.concatenate, np.where, np.tile, np.diag),
        *(np.copy, np.dot, np.clip, np.tril, np.triu),
    }
)
"""Functions besides ufuncs whose results lie in order if their operands do."""


def note_order(function: Any, arguments: tuple[Any, ...], found: Any) -> None:
    """Note of the new result of a function whether it lies in order."""
    if not hasattr(found, "is_ordered") or found.part is not None or len(found.shape) < 2:
        return  # it is no array, or no new one, or has no order
    if isinstance(function, np.ufunc) or function in AS_OPERANDS:
        found.is_ordered = all(map(is_in_order, arguments))
    elif function in ALWAYS:
        found.is_ordered = True


def is_in_order(value: Any) -> bool:
    """Whether the strides of an array are certain to descend."""
    if isinstance(value, tuple | list):
        return all(map(is_in_order, value))
    if hasattr(value, "is_ordered"):
        if value.is_ordered or len(value.shape) < 2:
            return True
        if any(isinstance(size, str) for size in value.shape):
            return False
        return value.part is not None and all(map(_descends, value.part.layouts()))
    if isinstance(value, str):
        return False  # the order that is asked for
    return _descends(value) if isinstance(value, np.ndarray) else np.ndim(value) < 2


def _descends(array: np.ndarray) -> bool:
    strides = [abs(step) for step, size in zip(array.strides, array.shape, strict=True) if size > 1 and step]
    return strides == sorted(strides, reverse=True)


def reshape_in_place(array: Expression, shape: Any) -> None:
    """`array.shape = shape`, for a new array that nobody has viewed."""
    if not (_is_own(array) and is_in_order(array)):
        raise untraceable("a new shape of a traced array in place (x.shape = ...)", NO_SHAPE_IN_PLACE)
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    count = int(np.prod([number(size) for size in array.node.shape]))
    try:
        whole = np.empty(count, np.int8).reshape(sizes).shape
    except ValueError:
        raise ShapeError(f"an array of {count} entries cannot have the shape {sizes}") from None
    node, array.part = reshape_node(array.node, whole), None
    array.node, array.is_ordered = node, True


def _is_own(array: Expression) -> bool:
    """Whether an array of real numbers was made by the function, and there are no views of it."""
    if array.index is not None or isinstance(array.node, Variable):
        return False
    part = array.part
    if part is None:
        return True
    has_others = any(reader is not array for reader in part.memory.readers())
    return not (part.steps or part.refusal or part.memory.links or has_others)
