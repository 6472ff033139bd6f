"""`x[key]` with NumPy's rules: integers, slices, None, Ellipsis, integer arrays and constant masks.

Slices, and index arrays that are arithmetic progressions, are affine views; other arrays gather.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.memory import Part, Step, shared
from hesse.frontends.operands import as_expression, known_sizes
from hesse.frontends.tracing import decided, note_need, parts_read, untraceable
from hesse.ir import (
    Axis,
    Node,
    Shape,
    Size,
    broadcast,
    combine,
    constant,
    label_axis,
    plain_axes,
    reshape,
    select,
    transpose,
    view,
    zero,
)
from hesse.ops.integers import as_real
from hesse.ops.integers import entries as integer_entries
from hesse.ops.registry import operation
from hesse.ops.structural import gather

Entry = int | slice | None | np.ndarray | Index


@implements(operator.getitem)
def getitem(value: Any, key: Any) -> Expression:
    """`value[key]`; parts of truth values are truth values, and parts of indices are indices.

    Integers and slices give a view, integers alone give numbers, and index arrays give copies.
    """
    expression = as_expression(value)
    is_view = _is_basic(key)
    part = expression.part
    if is_view and part is not None and part.memory.is_written:
        result = _written(part, key, expression.boolean)
    else:
        own = None if expression.index is None else _part(expression.index, key)
        result = Expression(index(expression.node, key), expression.boolean, own, expression.is_index)
    if is_view and (result.shape or _has_ellipsis(key)):
        return shared(expression, Step(operator.getitem, (key,), {}), result)
    return result


def _written(part: Part, key: Any, boolean: bool) -> Expression:
    """The same for an array to parts of which something was written: the array is not put together."""
    try:
        positions = np.asarray(part.positions[key])
    except IndexError as problem:
        raise ShapeError(str(problem)) from None
    return Expression(part.memory.read(positions), boolean)


BASIC = (int, np.integer, slice, type(None), type(Ellipsis))


def _is_basic(key: Any) -> bool:
    """Whether a key holds nothing but integers, slices, None and Ellipsis."""
    if type(key) is int:
        return True
    entries = key if isinstance(key, tuple) else (key,)
    return all(
        isinstance(entry, BASIC)
        and not isinstance(entry, bool)
        and not (isinstance(entry, slice) and any(isinstance(bound, Expression) for bound in _bounds(entry)))
        for entry in entries
    )


def _bounds(entry: slice) -> tuple[Any, Any, Any]:
    return entry.start, entry.stop, entry.step


def _has_ellipsis(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, tuple) and any(entry is Ellipsis for entry in key))


def _part(own: Index, key: Any) -> Index | None:
    """A part of an index; chosen by another index, it is an index of its own."""
    keys = [_plain(entry) for entry in (key if isinstance(key, tuple) else (key,))]
    if not any(isinstance(entry, Index) for entry in keys):
        return own.restructured(operator.getitem, tuple(keys))
    if len(keys) > 1 or len(own.shape) != 1:
        raise untraceable(
            f"an index of shape {own.shape} indexed by other traced indices",
            "Index it along its only axis: order.ravel()[i * n + j].",
        )
    return Index(integer_entries(own.as_node(), keys[0].as_node()))


def _plain(entry: Any) -> Any:
    """An entry of a key that is known now, as NumPy takes it; or a traced index."""
    return _traced(entry) if isinstance(entry, Expression) else entry


def index(node: Node, key: Any) -> Node:
    """`node[key]`."""
    if type(key) is int and node.rank:  # the most frequent key of a loop
        known = parts_read.get()
        if known is None:
            return _entry(node, key)
        found = known.get((node, key))
        if found is None:
            found = known[node, key] = _entry(node, key)
        return found
    entries, adjacent = _entries(key, node)
    if not any(isinstance(entry, np.ndarray | Index) for entry in entries):
        return _basic(node, entries)  # type: ignore[arg-type]
    # Beside an index array an integer is an index array too: NumPy broadcasts them together.
    entries = [np.asarray(entry) if isinstance(entry, int) else entry for entry in entries]
    fancy = [entry for entry in entries if isinstance(entry, np.ndarray | Index)]
    positions = [k for k, entry in enumerate(entries) if isinstance(entry, np.ndarray | Index)]
    node = _basic(node, [slice(None) if k in positions else entry for k, entry in enumerate(entries)])  # type: ignore[misc]
    shape = _index_shape(fancy)
    gathered = gather_axes(node, positions, fancy, shape)
    if not adjacent or positions[0] == 0:
        return gathered
    count, before = len(shape), positions[0]
    order = [*range(count, count + before), *range(count), *range(count + before, gathered.rank)]
    return transpose(gathered, order)


def _entry(node: Node, position: int) -> Node:
    """`node[position]`, along the first axis."""
    return _basic(node, [*_in_range([position], node), *[slice(None)] * (node.rank - 1)])  # type: ignore[list-item]


def _entries(key: Any, node: Node) -> tuple[list[Entry], bool]:
    """One entry for each axis of the node and each None, and whether the index arrays stand side by side."""
    given = [part for entry in (key if isinstance(key, tuple) else (key,)) for part in _parsed(entry)]
    arrays = [k for k, entry in enumerate(given) if isinstance(entry, np.ndarray | Index | int)]
    adjacent = not arrays or arrays[-1] - arrays[0] + 1 == len(arrays)
    used = sum(entry is not None and entry is not Ellipsis for entry in given)
    if used > node.rank:
        raise ShapeError(f"{used} indices were given for a tensor of shape {node.shape}")
    if sum(entry is Ellipsis for entry in given) > 1:
        raise ArgumentError("an index can hold only one Ellipsis (...)")
    rest = [slice(None)] * (node.rank - used)
    if Ellipsis in [entry for entry in given if not isinstance(entry, np.ndarray)]:
        place = next(k for k, entry in enumerate(given) if entry is Ellipsis)
        entries = [*given[:place], *rest, *given[place + 1 :]]
    else:
        entries = [*given, *rest]
    return _in_range(entries, node), adjacent


def _parsed(entry: Any) -> list[Any]:
    """An entry of a key as integers, slices, None, Ellipsis, integer arrays or traced indices."""
    if entry is None or entry is Ellipsis:
        return [entry]
    if isinstance(entry, slice):
        return [slice(*map(_bound, _bounds(entry)))]
    if isinstance(entry, Expression):
        found = decided("mask", entry.node) if entry.boolean else None
        return [_traced(entry)] if found is None else _parsed(np.asarray(found))
    if isinstance(entry, bool | np.bool) or (
        isinstance(entry, np.ndarray) and entry.shape == () and entry.dtype == bool
    ):
        raise untraceable("x[True] or x[False]", "Write x[None] or x[None][:0] instead.")
    if not isinstance(entry, list | tuple):
        try:
            return [operator.index(entry)]
        except TypeError:
            pass  # an array of several integers
    array = np.asarray(entry)
    if array.size == 0 and isinstance(entry, list | tuple):
        array = array.astype(np.intp)
    if array.dtype == bool:
        return [_Mask(array, axis) for axis in range(array.ndim)]
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"an index is made of integers, slices, None, ... and masks, not of {entry!r}")
    return [array.astype(np.intp)]


def _bound(value: Any) -> Any:
    """A bound of a slice, which is known now."""
    known = _plain(value)
    if isinstance(known, Index):
        found = decided("integer", as_real(known.as_node())) if not known.shape else None
        if found is not None:
            return found
        note_need([value])
        raise untraceable(
            "x[i : i + n] with a traced bound (the number of entries must be known)",
            "Write x[i + np.arange(n)], or np.take(x, i + np.arange(n), axis=axis); "
            "or let the function decide by values: @hesse.branching.",
        )
    return known


class _Mask(np.ndarray):
    """The positions of the true entries of a mask along one of its axes; knows the size it must meet."""

    size_of_mask: int

    def __new__(cls, mask: np.ndarray, axis: int) -> _Mask:
        """`nonzero` of the mask along an axis."""
        positions = mask.nonzero()[axis].view(cls)
        positions.size_of_mask = mask.shape[axis]
        return positions


def _traced(entry: Expression) -> Any:
    if entry.boolean:
        note_need([entry])
        raise untraceable(
            "x[mask] with a traced mask (the number of results depends on the data)",
            "Use np.where(mask, x, other), or multiply by the mask before a sum; "
            "or let the function decide by values: @hesse.branching.",
        )
    if entry.index is None:
        note_need([entry])
        raise untraceable(
            "a traced real number as an index",
            "Pass it as an integer array, or make integers of it: x[np.floor(t).astype(int)].",
        )
    known = entry.index.known
    if known is None:
        return entry.index
    return int(known) if known.shape == () else known


def _in_range(entries: list[Any], node: Node) -> list[Entry]:
    """The entries with positions counted from the front and checked."""
    checked: list[Entry] = []
    axis = 0
    for entry in entries:
        if entry is None:
            checked.append(None)
            continue
        checked.append(
            _position(entry, axis, node.shape[axis]) if isinstance(entry, int | np.ndarray) else entry
        )
        axis += 1
    return checked


def _position(entry: int | np.ndarray, axis: int, size: Size) -> int | np.ndarray:
    if isinstance(size, str):
        raise ShapeError(f"axis {axis} of symbolic size {size} can only be taken whole; bind the size first")
    if isinstance(entry, _Mask) and entry.size_of_mask != size:
        raise ShapeError(f"a mask of size {entry.size_of_mask} does not fit axis {axis} of size {size}")
    if isinstance(entry, int) and -size <= entry < size:
        return entry % size
    array = np.asarray(entry)
    outside = array[(array < -size) | (array >= size)]
    if outside.size:
        raise ShapeError(f"index {outside.flat[0]} is out of range for axis {axis} of size {size}")
    return np.where(array < 0, array + size, array)


def _basic(node: Node, entries: Sequence[int | slice | None]) -> Node:
    """Integers, slices and new axes."""
    node = select(node, [entry for entry in entries if entry is not None])
    kept = [entry for entry in entries if not isinstance(entry, int)]
    if None not in kept:
        return node
    positions = [k for k, entry in enumerate(kept) if entry is not None]
    shape: list[Size] = [1] * len(kept)
    for position, size in zip(positions, node.shape, strict=True):
        shape[position] = size
    return broadcast(node, shape, positions)


def _index_shape(indices: Sequence[np.ndarray | Index]) -> Shape:
    if len(indices) == 1:
        return indices[0].shape
    shapes = [known_sizes("indexing", entry.shape) for entry in indices]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"index arrays of shapes {' and '.join(map(str, shapes))} do not broadcast together"
        ) from None


def gather_axes(
    node: Node, positions: Sequence[int], indices: Sequence[np.ndarray | Index], shape: Shape
) -> Node:
    """Read the axes at `positions` through index arrays that broadcast to `shape`, whose axes come first."""
    known = [
        (at, entry) for at, entry in zip(positions, indices, strict=True) if isinstance(entry, np.ndarray)
    ]
    traced = [(at, entry) for at, entry in zip(positions, indices, strict=True) if isinstance(entry, Index)]
    rest = [k for k in range(node.rank) if k not in positions]
    node = transpose(node, [*(at for at, _ in known), *(at for at, _ in traced), *rest])
    # Index arrays that are single numbers are taken out first, so that nothing is repeated for them.
    alone = all(entry.size == 1 for _, entry in known) and bool(traced)
    if known:
        node = _gather_known(
            node, [entry.reshape(()) if alone else entry for _, entry in known], () if alone else shape
        )
    paired = bool(known) and not alone
    for _, entry in traced:
        whole = entry.broadcast(shape)
        node = _gather_paired(node, whole, len(shape)) if paired else _gather_traced(node, whole)
        paired = True
    return node


def _gather_known(node: Node, indices: Sequence[np.ndarray], shape: Shape) -> Node:
    """Read the leading axes, one for each index array."""
    count = len(indices)
    result = (*shape, *node.shape[count:])
    if 0 in result:
        return zero(result)
    whole = [np.broadcast_to(entry, known_sizes("indexing", shape)) for entry in indices]
    axes = [_progression(entry) for entry in whole]
    if all(axis is not None for axis in axes):
        inner = [*axes, *plain_axes(node.rank - count, len(shape))]
        return view(node, inner, plain_axes(len(result)), result, result)  # type: ignore[arg-type]
    if count == 1:
        return gather(node, constant(whole[0]))
    sizes = known_sizes("indexing by several arrays", node.shape[:count])
    flat = np.ravel_multi_index(tuple(whole), sizes)
    return gather(reshape(node, (math.prod(sizes), *node.shape[count:])), constant(np.asarray(flat)))


def _progression(entry: np.ndarray) -> Axis | None:
    """The index as an affine function of at most one axis of the result, or None."""
    first = int(entry.flat[0])
    steps = [
        int(np.take(entry, 1, axis=k).flat[0]) - first if size > 1 else 0
        for k, size in enumerate(entry.shape)
    ]
    if sum(step != 0 for step in steps) > 1:
        return None
    grids = np.ogrid[tuple(slice(size) for size in entry.shape)]
    affine = first + sum(step * grid for step, grid in zip(steps, grids, strict=True))
    if not np.array_equal(np.broadcast_to(affine, entry.shape), entry):
        return None
    return combine([(step, label_axis(k)) for k, step in enumerate(steps) if step], first)


def _gather_traced(node: Node, entry: Index) -> Node:
    """Read the first axis through a traced index: `node[entry]`."""
    gathered = gather(node, entry.node)
    rest = node.shape[1:]
    if entry.is_whole:
        return reshape(gathered, (*entry.shape, *rest))
    positions = entry.explicit_positions()
    return _gather_known(reshape(gathered, (entry.count, *rest)), [positions], positions.shape)


def _gather_paired(node: Node, entry: Index, count: int) -> Node:
    """`result[b, r] = node[b, entry[b], r]` with `count` axes b."""
    batch = known_sizes("indexing by several arrays", node.shape[:count])
    rest = node.shape[count + 1 :]
    if entry.is_whole:
        size = known_sizes("indexing by several arrays", node.shape[count : count + 1])[0]
        table = reshape(node, (math.prod(batch) * size, *rest))
        flat = operation("flat_index", entry.node, params=(size, entry.node.rank))
        return reshape(gather(table, flat), (*batch, *rest))
    by_index = transpose(node, [count, *range(count), *range(count + 1, node.rank)])
    gathered = reshape(gather(by_index, entry.node), (entry.count, *batch, *rest))
    grids = np.ogrid[tuple(slice(size) for size in batch)]
    return _gather_known(gathered, [entry.explicit_positions(), *grids], batch)
