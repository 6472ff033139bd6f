"""Functions that join tensors, take them apart, or put margins around them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import (
    as_array,
    as_expression,
    as_node,
    axis_number,
    common_shape,
    expand,
    is_boolean,
    known_sizes,
)
from hesse.frontends.structural import take_blocks
from hesse.frontends.tracing import untraceable
from hesse.ir import Node, place
from hesse.ir import concatenate as concatenate_nodes


def _sequence(name: str, arrays: Any) -> list[Expression]:
    parts = [as_expression(array) for array in arrays]
    if not parts:
        raise ShapeError(f"{name} needs at least one array")
    return parts


@implements(np.concatenate)
def concatenate(arrays: Any, /, axis: Any = 0) -> Expression:
    """Tensors one after the other along an axis."""
    parts = _sequence("concatenate", arrays)
    if axis is None:
        parts, axis = [part.ravel() for part in parts], 0
    nodes = [as_node(part) for part in parts]
    number = axis_number("concatenate", axis, nodes[0].rank)
    frames = {(*node.shape[:number], "*", *node.shape[number + 1 :]) for node in nodes}
    if len(frames) > 1:
        shapes = " and ".join(str(node.shape) for node in nodes)
        raise ShapeError(f"concatenate: the shapes {shapes} differ in more than axis {number}")
    return Expression(concatenate_nodes(nodes, number), boolean=all(part.boolean for part in parts))


@implements(np.stack)
def stack(arrays: Any, axis: int = 0) -> Expression:
    """Tensors of one shape side by side along a new axis."""
    parts = _sequence("stack", arrays)
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ShapeError(f"stack: the shapes {' and '.join(str(part.shape) for part in parts)} are not equal")
    return concatenate([np.expand_dims(part, axis) for part in parts], axis)  # type: ignore[arg-type]


@implements(np.vstack)
def vstack(tup: Any) -> Expression:
    """Rows one below the other."""
    return concatenate([np.atleast_2d(part) for part in _sequence("vstack", tup)], 0)  # type: ignore[arg-type]


@implements(np.hstack)
def hstack(tup: Any) -> Expression:
    """Tensors along the second axis, vectors along their only one."""
    parts = [np.atleast_1d(part) for part in _sequence("hstack", tup)]  # type: ignore[arg-type]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


@implements(np.dstack)
def dstack(tup: Any) -> Expression:
    """Tensors along the third axis."""
    return concatenate([np.atleast_3d(part) for part in _sequence("dstack", tup)], 2)  # type: ignore[arg-type]


@implements(np.column_stack)
def column_stack(tup: Any) -> Expression:
    """Vectors as columns."""
    parts = [part[:, None] if part.ndim == 1 else np.atleast_2d(part) for part in _sequence("column_stack", tup)]  # type: ignore[arg-type]
    return concatenate(parts, 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Expression:
    """`values` after `arr`."""
    return concatenate([arr, values], axis)


@implements(np.block)
def block(arrays: Any) -> Any:
    """A tensor from nested lists of blocks: the innermost lists join along the last axis."""
    def depth(value: Any) -> int:
        if not isinstance(value, list):
            return 0
        depths = {depth(entry) for entry in value}
        if len(depths) != 1:
            raise ShapeError("block: all blocks must stand in equally many nested lists")
        return depths.pop() + 1

    levels = depth(arrays)
    leaves = list(_leaves(arrays))
    rank = max(levels, *(leaf.ndim for leaf in leaves), 0)

    def join(value: Any, level: int) -> Expression:
        if not isinstance(value, list):
            leaf = as_expression(value)
            return leaf[(None,) * (rank - leaf.ndim)]  # type: ignore[no-any-return]
        return concatenate([join(entry, level - 1) for entry in value], -level)

    return join(arrays, levels)


def _leaves(value: Any) -> Any:
    if isinstance(value, list):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield as_expression(value)


def _at_least(rank: int, new_axes: Callable[[Expression], Any]) -> Callable[..., Any]:
    def handler(*arrays: Any) -> Any:
        results = [part if part.ndim >= rank else new_axes(part) for part in map(as_expression, arrays)]
        return results[0] if len(results) == 1 else tuple(results)

    return handler


atleast_1d = implements(np.atleast_1d)(_at_least(1, lambda part: part[None]))
atleast_2d = implements(np.atleast_2d)(_at_least(2, lambda part: part[None, None] if part.ndim == 0 else part[None]))
atleast_3d = implements(np.atleast_3d)(
    _at_least(3, lambda part: part[..., None] if part.ndim == 2 else np.atleast_2d(part)[..., None])
)


@implements(np.split, np.array_split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts of an axis: equal ones by their number, or between given positions."""
    return _split(ary, indices_or_sections, axis)


def _split(ary: Any, sections: Any, axis: int) -> list[Any]:
    expression = as_expression(ary)
    number = axis_number("split", axis, expression.ndim)
    (size,) = known_sizes("split", expression.shape[number : number + 1])
    if np.ndim(sections) == 0:
        count = operator.index(sections)
        if count < 1:
            raise ShapeError(f"split into {count} parts")
        lengths = [size // count + (k < size % count) for k in range(count)]
        cuts = [0, *itertools.accumulate(lengths)]
    else:
        cuts = [0, *(slice(int(cut)).indices(size)[1] for cut in sections), size]
    lead = (slice(None),) * number
    return [expression[(*lead, slice(start, stop))] for start, stop in itertools.pairwise(cuts)]
