"""Functions that join tensors, take them apart, or put margins around them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.integers import joined
from hesse.frontends.memory import Step
from hesse.frontends.operands import (
    as_array,
    as_expression,
    as_node,
    axis_number,
    expand,
    known_sizes,
    read_only,
)
from hesse.frontends.structural import moveaxis, take_positions
from hesse.frontends.tracing import untraceable
from hesse.ir import Node, add, constant
from hesse.ir import concatenate as concatenate_nodes
from hesse.ir import place as place_node
from hesse.ir import reshape as reshape_node
from hesse.ops.structural import unfold


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
    boolean = all(part.boolean for part in parts)
    return Expression(concatenate_nodes(nodes, number), boolean, joined(parts, number))


@implements(np.stack)
def stack(arrays: Any, axis: int = 0) -> Expression:
    """Tensors of one shape side by side along a new axis."""
    parts = _sequence("stack", arrays)
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ShapeError(f"stack: the shapes {' and '.join(str(part.shape) for part in parts)} are not equal")
    return concatenate([call(np.expand_dims, (part, axis)) for part in parts], axis)


@implements(np.vstack)
def vstack(tup: Any) -> Expression:
    """Rows one below the other."""
    return concatenate([atleast_2d(part) for part in _sequence("vstack", tup)], 0)


@implements(np.hstack)
def hstack(tup: Any) -> Expression:
    """Tensors along the second axis, vectors along their only one."""
    parts = [atleast_1d(part) for part in _sequence("hstack", tup)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


@implements(np.dstack)
def dstack(tup: Any) -> Expression:
    """Tensors along the third axis."""
    return concatenate([atleast_3d(part) for part in _sequence("dstack", tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Expression:
    """Vectors as columns."""
    parts = _sequence("column_stack", tup)
    return concatenate([part[:, None] if part.ndim == 1 else atleast_2d(part) for part in parts], 1)


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
            return Expression(reshape_node(leaf.node, (1,) * (rank - leaf.ndim) + leaf.shape), leaf.boolean)
        return concatenate([join(entry, level - 1) for entry in value], -level)

    return join(arrays, levels)


def _leaves(value: Any) -> Iterator[Expression]:
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
atleast_2d = implements(np.atleast_2d)(
    _at_least(2, lambda part: part[None, None] if part.ndim == 0 else part[None])
)
atleast_3d = implements(np.atleast_3d)(
    _at_least(3, lambda part: part[..., None] if part.ndim == 2 else atleast_2d(part)[..., None])
)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts of an axis: nearly equal ones by their number, or between given positions."""
    expression = as_expression(ary)
    number = axis_number("split", axis, expression.ndim)
    (size,) = known_sizes("split", expression.shape[number : number + 1])
    if np.ndim(indices_or_sections) == 0:
        count = operator.index(indices_or_sections)
        if count < 1:
            raise ShapeError(f"split: an axis cannot be split into {count} parts")
        lengths = [size // count + (k < size % count) for k in range(count)]
        cuts = list(itertools.accumulate(lengths, initial=0))
    else:
        cuts = [0, *(int(cut) for cut in indices_or_sections), size]
    lead = (slice(None),) * number
    return [expression[(*lead, slice(start, stop))] for start, stop in itertools.pairwise(cuts)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts of an axis: equal ones by their number, or between given positions."""
    expression = as_expression(ary)
    size = expression.shape[axis_number("split", axis, expression.ndim)]
    if np.ndim(indices_or_sections) == 0 and known_sizes("split", [size])[0] % indices_or_sections:
        raise ShapeError(
            f"split: an axis of size {size} has no {indices_or_sections} equal parts; use np.array_split"
        )
    return array_split(expression, indices_or_sections, axis)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts of the first axis."""
    return split(ary, indices_or_sections, 0)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts of the second axis, of vectors along their only one."""
    return split(ary, indices_or_sections, 0 if as_expression(ary).ndim == 1 else 1)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts of the third axis."""
    return split(ary, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of an axis."""
    return tuple(call(np.moveaxis, (as_expression(x), axis, 0)))


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Expression:
    """Margins of constants, or of entries repeated by one of NumPy's modes."""
    expression = as_expression(array)
    node = expression.node if expression.boolean else as_node(expression)
    widths = _widths(pad_width, node.rank)
    if mode == "constant":
        values = as_array(options.pop("constant_values", 0.0))
        _refuse_options(mode, options)
        return Expression(_pad_constant(node, widths, values))
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise untraceable(f"np.pad with mode={mode!r}", "Use constant, edge, reflect, symmetric or wrap.")
    _refuse_options(mode, options)
    for axis, width in enumerate(widths):
        (size,) = known_sizes("pad", node.shape[axis : axis + 1])
        node = take_positions(node, axis, np.pad(np.arange(size), width, mode=mode))
    return Expression(node, boolean=expression.boolean)


def _refuse_options(mode: str, options: dict[str, Any]) -> None:
    if options:
        raise untraceable(f"np.pad with mode={mode!r} and {', '.join(options)}", "Leave the option out.")


def _widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        widths = np.zeros((rank, 2), dtype=int)
        for axis, width in pad_width.items():
            widths[axis] = width
    else:
        try:
            widths = np.broadcast_to(np.asarray(pad_width), (rank, 2))
        except ValueError:
            raise ShapeError(f"pad: the widths {pad_width!r} do not fit {rank} axes") from None
    if (widths < 0).any():
        raise ShapeError(f"pad: the widths {pad_width!r} must not be negative")
    return [(int(before), int(after)) for before, after in widths]


def _pad_constant(node: Node, widths: list[tuple[int, int]], values: np.ndarray) -> Node:
    sizes = known_sizes("pad", node.shape)
    shape = [before + size + after for size, (before, after) in zip(sizes, widths, strict=True)]
    placed = place_node(node, shape, [before for before, _ in widths])
    if not values.any():
        return placed
    # The margins are known now: an array that is zero where the node goes.
    margins = np.pad(np.zeros(sizes), widths, constant_values=values)
    return add([placed, constant(margins)], tuple(shape))


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, n times."""
    result = as_expression(a)
    subtract = np.logical_xor if result.boolean else np.subtract
    number = axis_number("diff", axis, result.ndim)
    edge = (*result.shape[:number], 1, *result.shape[number + 1 :])
    ends = [None if end is None else Expression(as_node(end)) for end in (prepend, append)]
    ends = [Expression(expand(end.node, edge)) if end is not None and not end.ndim else end for end in ends]
    result = concatenate([part for part in (ends[0], result, ends[1]) if part is not None], number)
    lead = (slice(None),) * number
    for _ in range(n):
        result = subtract(result[(*lead, slice(1, None))], result[(*lead, slice(None, -1))])
    return result


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule."""
    values = Expression(moveaxis(as_node(y), axis, -1))
    if x is None:
        widths = as_expression(dx)
    else:
        points = as_node(x)
        widths = diff(Expression(points if points.rank == 1 else moveaxis(points, axis, -1)))
    return ((values[..., 1:] + values[..., :-1]) * widths).sum(axis=-1) / 2.0


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Expression:
    """All windows of a shape, their axes after the positions."""
    expression = as_expression(x)
    windows = tuple(window_shape) if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = axis if isinstance(axis, tuple | list) else range(expression.ndim) if axis is None else (axis,)
    if len(windows) != len(axes):
        raise ShapeError(f"sliding_window_view: {len(windows)} window sizes for {len(axes)} axes")
    node = expression.node
    for place, window in zip(axes, windows, strict=True):
        number = axis_number("sliding_window_view", place, expression.ndim)
        node = unfold(node, number, operator.index(window))
    step = Step(np.lib.stride_tricks.sliding_window_view, (window_shape, axis), {})
    return read_only(expression, step, Expression(node, boolean=expression.boolean))
