"""Places in arrays: integers, known or traced, of which bounds may be known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.integers import EXACT, integer_node
from hesse.frontends.jaxpr.table import is_whole, traced
from hesse.ir import Apply, Constant, Node, number
from hesse.ops import integers
from hesse.ops.foreign import FOREIGN

Places = np.ndarray | Expression
"""Integers, known or traced."""
ALONG = frozenset({"argmax", "argmin", "argsort"})
"""Positions along the last axis of what they read."""


LONGEST = 16
"""Bits of integers of which it is worth to compute where they begin again."""
SMALL = 2**10
"""Integers of 32 bits are taken to fit if they are multiplied by known ones up to here."""


class Columns(Expression):
    """Integers that were put side by side along the last axis, with the columns as they were."""

    __slots__ = ("columns",)

    def __init__(self, expression: Expression, columns: Sequence[Any]) -> None:
        super().__init__(expression.node, index=expression.index, is_index=expression.is_index)
        self.columns = list(columns)


def column(places: Any, number: int) -> Any:
    """One of the columns along the last axis."""
    return places.columns[number] if isinstance(places, Columns) else places[..., number]


def bounds(value: Any) -> tuple[float, float]:
    """Between which numbers integers lie, as far as it is seen from what they are computed by."""
    if isinstance(value, Expression):
        return (-math.inf, math.inf) if value.index is None else _bounds(value.index.node)
    array = np.asarray(value)
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def wrapped(value: Any, dtype: Any) -> Any:
    """Integers, computed as such; short ones begin again where their type ends, long ones fit."""
    if not isinstance(value, Expression) or not is_whole(value):
        return value
    limits = np.iinfo(dtype)
    low, high = bounds(value)
    if limits.bits > LONGEST or (limits.min <= low and high <= limits.max):
        return value if value.index is None or value.is_index else Expression(value.index.as_node())
    first, count = int(limits.min), int(limits.max) - int(limits.min) + 1
    return np.add(np.remainder(np.subtract(value, first), count), first)


AS_NUMBERS = frozenset(
    {"square", "integer_pow", "pow", "reduce_sum", "reduce_prod", "cumsum", "cumprod", "dot_general"}
    | {"reduce_max", "reduce_min", "cummax", "cummin", "argmax", "argmin", "sort", "top_k", "scatter-add"}
)
"""Primitives that are computed as numbers of the program, also where they are given integers."""


def exceeds(name: str, operands: Sequence[Any], read: Sequence[Any], made: Sequence[Any]) -> bool:
    """Whether integers may be too large for numbers, or for their type, in whose way JAX computes on then.

    `read` and `made` are the types of operands and results.
    """
    if not all(np.issubdtype(dtype, np.integer) for dtype in made):
        return False
    given = list(filter(is_whole, operands))
    if name == "convert_element_type":  # of differences that have begun again
        is_foreign = any(isinstance(value, Expression) and _is_foreign(as_node_of(value)) for value in given)
        return is_foreign and not np.can_cast(read[0], made[0])
    is_large = any(isinstance(value, Expression) and _may_be_large(as_node_of(value)) for value in given)
    if not is_large or name in AS_NUMBERS:
        return is_large
    limits = np.iinfo(made[0])
    if limits.bits <= LONGEST:
        return False
    if name in ("sub", "neg"):
        return bool(limits.min == 0)
    known = [np.abs(np.asarray(value)).max(initial=0) for value in given if not isinstance(value, Expression)]
    return name == "mul" and (limits.min == 0 or limits.bits <= 32) and not any(k <= SMALL for k in known)


def as_node_of(value: Expression) -> Node:
    """The integers of an expression."""
    return value.node if value.index is None else value.index.node


def _is_foreign(node: Node) -> bool:
    return isinstance(node, Apply) and node.name == FOREIGN


def _may_be_large(node: Node) -> bool:
    """Whether there may be integers that are no numbers of single precision."""
    if isinstance(node, Constant):
        return bool(np.any(np.abs(node.value) >= EXACT))
    if not isinstance(node, Apply) or _is_foreign(node):
        return True
    return node.name.startswith("integer_") and any(map(_may_be_large, node.operands))


def _bounds(node: Node) -> tuple[float, float]:
    if isinstance(node, Constant):
        return bounds(node.value)
    if not isinstance(node, Apply):
        return -math.inf, math.inf
    if node.name in ALONG:
        return 0, number(node.operands[0].shape[-1]) - 1
    if node.name == "integer_entries":
        return _bounds(node.operands[0])
    if node.name == "integer_add":
        (low, high), (further_low, further_high) = map(_bounds, node.operands)
        return low + further_low, high + further_high
    if node.name == "integer_where":
        (low, high), (other_low, other_high) = map(_bounds, node.operands[1:])
        return min(low, other_low), max(high, other_high)
    return -math.inf, math.inf


def clamped(places: Any, last: int) -> Any:
    """Places moved to the nearest one from 0 to the last."""
    low, high = bounds(places)
    if low >= 0 and high <= last:
        return places
    if not isinstance(places, Expression):
        return np.clip(places, 0, last)
    node = integer_node(places)
    assert node is not None
    node = integers.maximum(node, integers.integers(0)) if low < 0 else node
    node = integers.minimum(node, integers.integers(last)) if high > last else node
    return Expression(node)


def is_inside(places: Any, last: int) -> Any:
    """Whether places are among those from 0 to the last: truth values, or True for all of them."""
    low, high = bounds(places)
    if low >= 0 and high <= last:
        return True
    return np.logical_and(np.greater_equal(places, 0), np.less_equal(places, last))


def flat(shape: Sequence[int], keys: Sequence[Any]) -> Any:
    """The positions among all entries, for an integer for each axis."""
    found: Any = 0
    for size, key in zip(shape, keys, strict=True):
        found = np.add(np.multiply(found, size), key)
    return found


def integer_entries(x: Any, places: Any) -> Expression:
    """Entries of integers, all axes taken together."""
    table, positions = integer_node(traced(x)), integer_node(places)
    assert table is not None
    assert positions is not None
    return Expression(integers.entries(table, positions))
