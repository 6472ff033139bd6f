"""Functions that move entries without changing them: transposes, reshapes, flips, diagonals, selections."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.indexing import index
from hesse.frontends.memory import Step, reshaped, shared
from hesse.frontends.operands import (
    as_expression,
    axis_number,
    axis_numbers,
    expand,
    known_sizes,
    read_only,
    restructures,
)
from hesse.frontends.tracing import untraceable
from hesse.ir import (
    Node,
    Size,
    broadcast,
    combine,
    common_shape,
    concatenate,
    label_axis,
    plain_axes,
    transpose,
    view,
    zero,
)
from hesse.ir import reshape as reshape_node
from hesse.ops.structural import tril as lower_triangle
from hesse.ops.structural import triu as upper_triangle

LONGEST_JOIN = 8
"""More slices than this are gathered by an index array instead."""


@restructures(np.transpose, shares=shared)
def transpose_(a: Node, axes: Any = None) -> Node:
    """Axes in a new order, reversed by default."""
    order = tuple(reversed(range(a.rank))) if axes is None else axis_numbers("transpose", axes, a.rank)
    if len(order) != a.rank:
        raise ShapeError(f"transpose: the axes {axes} do not match the shape {a.shape}")
    return transpose(a, order)


@restructures(np.swapaxes, shares=shared)
def swapaxes(a: Node, axis1: int, axis2: int) -> Node:
    """Two axes exchanged."""
    order = list(range(a.rank))
    first, second = axis_number("swapaxes", axis1, a.rank), axis_number("swapaxes", axis2, a.rank)
    order[first], order[second] = second, first
    return transpose(a, order)


@restructures(np.matrix_transpose, np.linalg.matrix_transpose, shares=shared)
def matrix_transpose(x: Node, /) -> Node:
    """The last two axes exchanged."""
    if x.rank < 2:
        raise ShapeError(f"matrix_transpose needs two axes, not the shape {x.shape}")
    return swapaxes(x, -1, -2)


@restructures(np.moveaxis, shares=shared)
def moveaxis(a: Node, source: Any, destination: Any) -> Node:
    """Axes moved to new places, the others in their order."""
    sources = axis_numbers("moveaxis", source, a.rank)
    destinations = axis_numbers("moveaxis", destination, a.rank)
    if len(sources) != len(destinations):
        raise ShapeError(f"moveaxis: {source} and {destination} are not equally many axes")
    order = [k for k in range(a.rank) if k not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return transpose(a, order)


@restructures(np.rollaxis, shares=shared)
def rollaxis(a: Node, axis: int, start: int = 0) -> Node:
    """An axis moved in front of the axis `start`."""
    axis = axis_number("rollaxis", axis, a.rank)
    start = a.rank if start == a.rank else axis_number("rollaxis", start, a.rank)
    return moveaxis(a, axis, start - 1 if axis < start else start)


@restructures(np.expand_dims, shares=shared)
def expand_dims(a: Node, axis: Any) -> Node:
    """New axes of size 1 at the given places of the result."""
    count = len(axis) if isinstance(axis, tuple | list) else 1
    new = axis_numbers("expand_dims", axis, a.rank + count)
    return index(a, tuple(None if k in new else slice(None) for k in range(a.rank + count)))


@restructures(np.squeeze, shares=shared)
def squeeze(a: Node, axis: Any = None) -> Node:
    """Axes of size 1 taken out."""
    dropped = (
        [k for k, size in enumerate(a.shape) if size == 1]
        if axis is None
        else axis_numbers("squeeze", axis, a.rank)
    )
    if any(a.shape[k] != 1 for k in dropped):
        raise ShapeError(f"squeeze: axis {axis} of the shape {a.shape} does not have size 1")
    return index(a, tuple(0 if k in dropped else slice(None) for k in range(a.rank)))


def _is_by_columns(name: str, order: str, rank: int) -> bool:
    """Whether the first index varies fastest."""
    if order not in ("C", "F") and rank > 1:
        raise untraceable(f"{name} with order={order!r}", "It depends on the memory: say 'C' or 'F'.")
    return order == "F"


@restructures(np.reshape, shares=reshaped)
def reshape(a: Node, /, shape: Any, order: str = "C") -> Node:
    """The same entries in row-major order, or by columns; one size may be -1."""
    if _is_by_columns("np.reshape", order, a.rank):
        turned = tuple(shape)[::-1] if isinstance(shape, tuple | list) else (shape,)
        return transpose_(reshape(transpose_(a), turned))
    sizes: list[Size] = list(shape) if isinstance(shape, tuple | list) else [shape]
    sizes = [size if isinstance(size, str) else operator.index(size) for size in sizes]
    if -1 in sizes:
        count = math.prod(known_sizes("reshape to -1", a.shape))
        rest = math.prod(known_sizes("reshape to -1", [size for size in sizes if size != -1]))
        if sizes.count(-1) > 1 or rest == 0 or count % rest:
            raise ShapeError(f"cannot reshape {a.shape} ({count} entries) to {tuple(sizes)}")
        sizes[sizes.index(-1)] = count // rest
    return reshape_node(a, sizes)


@restructures(np.ravel, shares=reshaped)
def ravel(a: Node, order: str = "C") -> Node:
    """All entries in one axis, in row-major order or by columns."""
    a = transpose_(a) if _is_by_columns("np.ravel", order, a.rank) else a
    return a if a.rank == 1 else reshape(a, -1) if a.shape.count(0) == 0 else zero((0,))


@restructures(np.broadcast_to, shares=read_only)
def broadcast_to(array: Node, shape: Any) -> Node:
    """The entries repeated into a shape."""
    return expand(array, shape if isinstance(shape, tuple | list) else (shape,), "broadcast_to")


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: Any) -> tuple[Expression, ...]:
    """All arrays with one shape."""
    shape = common_shape("broadcast_arrays", [as_expression(array).shape for array in arrays])
    return tuple(call(np.broadcast_to, (as_expression(array), shape)) for array in arrays)


@implements(np.meshgrid)
def meshgrid(*xi: Any, sparse: bool = False, indexing: str = "xy") -> tuple[Expression, ...]:
    """Vectors as coordinates of a grid."""
    grids = []
    for k, value in enumerate(xi):
        grid = as_expression(value).reshape(tuple(-1 if k == axis else 1 for axis in range(len(xi))))
        grids.append(grid.swapaxes(0, 1) if indexing == "xy" and len(xi) > 1 else grid)
    return tuple(copy.copy(grid) for grid in (grids if sparse else broadcast_arrays(*grids)))


@restructures(np.flip, shares=shared)
def flip(m: Node, axis: Any = None) -> Node:
    """Axes read backwards."""
    flipped = axis_numbers("flip", axis, m.rank)
    return index(m, tuple(slice(None, None, -1) if k in flipped else slice(None) for k in range(m.rank)))


@restructures(np.flipud, shares=shared)
def flipud(m: Node) -> Node:
    """The first axis read backwards."""
    return flip(m, 0)


@restructures(np.fliplr, shares=shared)
def fliplr(m: Node) -> Node:
    """The second axis read backwards."""
    return flip(m, 1)


@restructures(np.rot90, shares=shared)
def rot90(m: Node, k: int = 1, axes: Sequence[int] = (0, 1)) -> Node:
    """A quarter turn in the plane of two axes, k times."""
    first, second = axis_numbers("rot90", tuple(axes), m.rank)
    if k % 4 == 2:
        return flip(m, (first, second))
    if k % 4 == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second) if k % 4 else m


@restructures(np.diagonal, shares=read_only)
def diagonal(a: Node, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """A diagonal of the plane of two axes, as the last axis."""
    first, second = axis_numbers("diagonal", (axis1, axis2), a.rank)
    rows, columns = a.shape[first], a.shape[second]
    rest = [k for k in range(a.rank) if k not in (first, second)]
    if offset == 0 and rows == columns:
        length: Size = rows
    else:
        known = known_sizes("diagonal", (rows, columns))
        length = max(0, min(known[0] + min(offset, 0), known[1] - max(offset, 0)))
    shape = (*(a.shape[k] for k in rest), length)
    if length == 0:
        return zero(shape)
    last = label_axis(len(rest))
    axes = {k: label_axis(place) for place, k in enumerate(rest)}
    axes[first], axes[second] = combine([(1, last)], max(0, -offset)), combine([(1, last)], max(0, offset))
    return view(a, [axes[k] for k in range(a.rank)], plain_axes(len(shape)), shape, shape)


@restructures(np.linalg.diagonal, shares=read_only)
def matrix_diagonal(x: Node, /, *, offset: int = 0) -> Node:
    """A diagonal of the last two axes."""
    return diagonal(x, offset, -2, -1)


def _diagonal_view(array: Expression, step: Step, result: Expression) -> Expression:
    return read_only(array, step, result) if array.ndim == 2 else result


@restructures(np.diag, shares=_diagonal_view)
def diag(v: Node, k: int = 0) -> Node:
    """A matrix with a given diagonal, or the diagonal of a matrix."""
    if v.rank == 2:
        return diagonal(v, k)
    if v.rank != 1:
        raise ShapeError(f"diag takes a vector or a matrix, not the shape {v.shape}")
    if k == 0:
        return view(v, plain_axes(1), plain_axes(1) * 2, v.shape * 2, v.shape)
    (length,) = known_sizes("diag with an offset", v.shape)
    row, column = combine([(1, label_axis(0))], max(0, -k)), combine([(1, label_axis(0))], max(0, k))
    return view(v, plain_axes(1), [row, column], [length + abs(k)] * 2, [length])


@restructures(np.diagflat)
def diagflat(v: Node, k: int = 0) -> Node:
    """A matrix with all entries of a tensor on a diagonal."""
    return diag(ravel(v), k)


@restructures(np.repeat)
def repeat(a: Node, repeats: Any, axis: Any = None) -> Node:
    """Every entry repeated, the same number of times or its own."""
    a, axis = (ravel(a), 0) if axis is None else (a, axis_number("repeat", axis, a.rank))
    counts = np.asarray(repeats)
    if counts.size == 1:
        count = operator.index(counts.item())
        wide = broadcast(
            a, (*a.shape[: axis + 1], count, *a.shape[axis + 1 :]), _without(a.rank + 1, axis + 1)
        )
        (size,) = known_sizes("repeat", a.shape[axis : axis + 1])
        return reshape(wide, (*a.shape[:axis], size * count, *a.shape[axis + 1 :]))
    (size,) = known_sizes("repeat", a.shape[axis : axis + 1])
    if counts.shape != (size,):
        raise ShapeError(f"repeat: {counts.shape} numbers of repeats for an axis of size {size}")
    return index(a, (slice(None),) * axis + (np.repeat(np.arange(size), counts),))


def _without(rank: int, axis: int) -> list[int]:
    return [k for k in range(rank) if k != axis]


@restructures(np.tile)
def tile(A: Node, reps: Any) -> Node:
    """The whole tensor repeated along axes."""
    counts = [
        operator.index(count)
        for count in (reps if isinstance(reps, tuple | list) else np.ravel(reps).tolist())
    ]
    counts = [1] * (A.rank - len(counts)) + counts
    sizes = (1,) * (len(counts) - A.rank) + known_sizes("tile", A.shape)
    wide = tuple(size for pair in zip(counts, sizes, strict=True) for size in pair)
    lead = len(counts) - A.rank
    spread = broadcast(A, wide[: 2 * lead] + wide[2 * lead :], [2 * (lead + k) + 1 for k in range(A.rank)])
    return reshape(spread, tuple(count * size for count, size in zip(counts, sizes, strict=True)))


@restructures(np.roll)
def roll(a: Node, shift: Any, axis: Any = None) -> Node:
    """Entries moved along axes, those that fall off coming back at the other end."""
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = [axis_number("roll", k, a.rank) for k in (axis if isinstance(axis, tuple | list) else (axis,))]
    shifts = np.broadcast_to(np.asarray(shift), (len(axes),)).tolist()
    for k, amount in zip(axes, shifts, strict=True):
        (size,) = known_sizes("roll", a.shape[k : k + 1])
        a = take_positions(a, k, np.roll(np.arange(size), amount))
    return a


def take_positions(node: Node, axis: int, positions: np.ndarray) -> Node:
    """Entries of an axis, as a few slices side by side where that is possible."""
    lead = (slice(None),) * axis
    runs = _runs(positions)
    if len(runs) > LONGEST_JOIN or len(runs) < 2:
        return index(node, (*lead, positions))
    return concatenate([index(node, (*lead, run)) for run in runs], axis)


def _runs(positions: np.ndarray) -> list[np.ndarray]:
    """The positions cut into arithmetic progressions with steps -1, 0 and 1.

    A position between two belongs to the longer one: the edge of an image is a part of the image first.
    """
    steps = np.diff(positions)
    runs, start = [], 0
    while start < len(positions):
        end = _end_of_run(steps, start)
        if end - 1 > start and _end_of_run(steps, end - 1) - (end - 1) > end - start:
            end -= 1
        runs.append(positions[start:end])
        start = end
    return runs


def _end_of_run(steps: np.ndarray, start: int) -> int:
    """Where the progression that begins at a position ends."""
    if start >= len(steps) or abs(steps[start]) > 1:
        return start + 1
    others = np.flatnonzero(steps[start:] != steps[start])
    return start + 1 + int(others[0] if len(others) else len(steps) - start)


@restructures(np.take)
def take(a: Node, indices: Any, axis: Any = None, *, mode: str = "raise") -> Node:
    """Entries of an axis chosen by integers."""
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_number("take", axis, a.rank)
    if mode != "raise":
        (size,) = known_sizes("take", a.shape[axis : axis + 1])
        chosen = indices if isinstance(indices, Expression) else np.asarray(indices)
        indices = chosen % size if mode == "wrap" else np.clip(chosen, 0, size - 1)
    chosen = indices if isinstance(indices, Expression) else np.asarray(indices)
    return index(a, (slice(None),) * axis + (chosen,))


@implements(np.shape)
def shape_(a: Any) -> tuple[Size, ...]:
    """The sizes of the axes."""
    return as_expression(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    """The number of axes."""
    return as_expression(a).ndim


@implements(np.size)
def size_(a: Any, axis: Any = None) -> int:
    """The number of entries, or the size of an axis."""
    expression = as_expression(a)
    if axis is None:
        return expression.size
    axes = axis_numbers("size", axis, expression.ndim)
    return math.prod(known_sizes("size", [expression.shape[k] for k in axes]))


@restructures(np.tril)
def tril(m: Node, k: int = 0) -> Node:
    """Zeros above a diagonal."""
    return lower_triangle(m, k)


@restructures(np.triu)
def triu(m: Node, k: int = 0) -> Node:
    """Zeros below a diagonal."""
    return upper_triangle(m, k)
