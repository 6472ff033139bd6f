"""Arithmetic of indices: results that may serve as an index where all operands are integers.

An integer argument is read as a number and as an index, and so is what is computed from it: `x[i + 1]` adds
in integers, `x * (i + 1)` in the numbers of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_array, as_node, broadcast_nodes, known_sizes
from hesse.frontends.tracing import untraceable
from hesse.ir import Constant, Node, constant, uniform
from hesse.ops import integers
from hesse.ops.registry import elementwise
from hesse.ops.structural import scatter

EXACT = 2**24
"""Up to here all integers are numbers of single precision."""


def integer_node(value: Any) -> Node | None:
    """A value as an integer node: an index, known integers, truth values as 0 and 1; else None."""
    if isinstance(value, Expression):
        if value.index is not None:
            return value.index.as_node()
        return integers.as_integer(value.node) if value.boolean else None
    if isinstance(value, float):
        return None
    array = as_array(value)
    return integers.integers(array) if array.dtype.kind in "iub" else None


def is_index(value: Any) -> bool:
    """Whether a value is a traced integer."""
    return isinstance(value, Expression) and value.index is not None


def _has_no_number(value: Any) -> bool:
    return isinstance(value, Expression) and value.is_index


def with_index(result: Expression, compute: Callable[..., Node | None], *values: Any) -> Expression:
    """The result, also as an index if one of the values is a traced integer and the others are integers."""
    if not any(map(is_index, values)):
        return result
    nodes = [integer_node(value) for value in values]
    index = None if any(node is None for node in nodes) else compute(*nodes)
    if index is None:
        return result
    # What is computed from argmax and the like is a number only where somebody asks for one.
    return Expression(index if any(map(_has_no_number, values)) else result.node, index=index)


def chosen(result: Expression, condition: Expression, x: Any, y: Any) -> Expression:
    """The result of `np.where`, also as an index where both values are integers."""
    a, b = (None if isinstance(value, float) else integer_node(value) for value in (x, y))
    if a is None or b is None or result.boolean:
        return result
    return Expression(result.node, index=integers.choice(condition.node, a, b))


def joined(parts: Sequence[Expression], axis: int) -> Node | None:
    """Integers one after the other along an axis, or None if some are no integers."""
    if not any(map(is_index, parts)):
        return None
    nodes = [integer_node(part) for part in parts]
    shapes = [known_sizes("concatenate", part.shape) for part in parts]
    owners = np.concatenate([np.full(shape, k) for k, shape in enumerate(shapes)], axis)
    places = np.concatenate([np.arange(np.prod(shape, dtype=int)).reshape(shape) for shape in shapes], axis)
    result: Node | None = None
    for k, node in enumerate(nodes):
        if node is None:
            return None
        if not np.any(owners == k):
            continue
        own = integers.entries(node, integers.integers(np.where(owners == k, places, 0)))
        mask = constant((owners == k).astype(float))
        result = own if result is None else integers.choice(mask, own, result)
    return result


def compared(name: str, x: Any, y: Any) -> Node | None:
    """A comparison of traced integers as integers, or None where the numbers will do.

    No integer is rounded to a known one below 2^24, not even in single precision.
    """
    if not (is_index(x) or is_index(y)):
        return None
    a, b = integer_node(x), integer_node(y)
    if a is None or b is None:
        return None
    is_small = any(isinstance(node, Constant) and np.all(np.abs(node.value) < EXACT) for node in (a, b))
    if is_small and not (_has_no_number(x) or _has_no_number(y)):
        return None
    return elementwise(name, integers.difference(a, b), 0.0)


def _of_integers(name: str, compute: Callable[..., Node]) -> Callable[[Any, Any], Expression]:
    """A function of integers, and the row of its name for other numbers."""

    def handler(x: Any, y: Any, /) -> Expression:
        a, b = integer_node(x), integer_node(y)
        if a is None or b is None:
            return Expression(elementwise(name, *broadcast_nodes(name, (x, y))))
        return Expression(compute(a, b))

    return handler


floor_divide = implements(np.floor_divide)(_of_integers("floor_divide", integers.quotient))
remainder = implements(np.remainder)(_of_integers("remainder", integers.remainder))


@implements(np.divmod)
def divmod_(x: Any, y: Any, /) -> tuple[Expression, Expression]:
    """The quotient and the remainder."""
    return floor_divide(x, y), remainder(x, y)


@implements(np.modf)
def modf(x: Any, /) -> tuple[Any, Any]:
    """The part behind the point, and the whole number before it."""
    whole = call(np.trunc, (x,))
    return call(np.subtract, (x, whole)), whole


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Expression:
    """Where values belong in an ascending sequence; locally constant."""
    sequence = a if sorter is None else Expression(as_node(a))[sorter]
    return Expression(integers.search(as_node(sequence), as_node(v), side))


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Expression:
    """The number of the bin of each value; the bins ascend or descend."""
    edges = Expression(as_node(bins))
    if edges.ndim != 1 or not edges.shape[0]:
        raise ShapeError(f"digitize needs a sequence of bins, not the shape {edges.shape}")
    side = "left" if right else "right"
    ascending = integers.search(edges.node, as_node(x), side)
    descending = integers.minus(
        integers.integers(known_sizes("digitize", edges.shape)[0]),
        integers.search(edges[::-1].node, as_node(x), side),
    )
    if not isinstance(bins, Expression):
        steps = np.diff(as_array(bins))
        if not ((steps >= 0).all() or (steps <= 0).all()):
            raise ArgumentError("digitize: the bins must ascend or descend")
        return Expression(ascending if (steps >= 0).all() else descending)
    is_ascending = elementwise("greater_equal", edges[-1].node, edges[0].node)
    return Expression(integers.choice(is_ascending, ascending, descending))


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Expression:
    """The sums of the weights of equal integers, or their number; of traced integers below `minlength`."""
    positions, size = integer_node(x), int(minlength)
    if positions is None or positions.rank != 1:
        raise ShapeError(
            f"bincount needs integers along one axis, not {type(x).__name__} of shape {np.shape(x)}"
        )
    if isinstance(positions, Constant):
        if (positions.value < 0).any():
            raise ArgumentError("bincount: the integers must not be negative")
        size = max(size, int(positions.value.max(initial=-1)) + 1)
    elif size:
        # Negative integers are no positions from the end here: they are moved out of range.
        is_negative = elementwise("less", integers.as_real(positions), 0.0)
        positions = integers.choice(is_negative, integers.integers(size), positions)
    else:
        raise untraceable(
            "np.bincount of traced integers (the number of results depends on the data)",
            "Say how many there are: np.bincount(i, weights, minlength=n).",
        )
    if weights is None:
        counts = scatter(uniform(1.0, positions.shape), positions, size)
        return Expression(counts, index=integers.as_integer(counts))
    node = as_node(weights)
    if node.shape != positions.shape:
        raise ShapeError(f"bincount: weights of shape {node.shape} for integers of shape {positions.shape}")
    return Expression(scatter(node, positions, size))
