"""Reading by integers: `x[i]`, `jnp.take`, `jnp.take_along_axis`, windows at traced places."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.places import clamped, column, flat, integer_entries, is_inside
from hesse.frontends.jaxpr.table import is_whole, primitive, traced


@primitive("gather")
def gather(
    x: Any,
    indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    mode: Any,
    fill_value: Any,
    **_: Any,
) -> Any:
    """Windows of an array that begin at given places.

    The axes of the windows go to `offset_dims` of the result, those of the indices to the others.
    """
    numbers, sizes = dimension_numbers, tuple(map(int, slice_sizes))
    x, shape, batch = traced(x), np.shape(x), np.shape(indices)[:-1]
    starts = {int(axis): column(indices, k) for k, axis in enumerate(numbers.start_index_map)}
    starts = {axis: start for axis, start in starts.items() if sizes[axis] < shape[axis] or _may_fill(mode)}
    found_inside: Any = True
    if _may_fill(mode):
        found_inside = _all_inside(starts, shape, sizes)
    starts = {axis: clamped(start, shape[axis] - sizes[axis]) for axis, start in starts.items()}
    for axis, along in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        starts[int(axis)] = _counted(batch, int(along))
    dropped = tuple(map(int, (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)))
    windows = _rows(x, starts, numbers, batch, sizes)
    if windows is None:
        windows = read(x, starts, batch, sizes)
        windows = np.squeeze(windows, tuple(len(batch) + axis for axis in dropped)) if dropped else windows
    if found_inside is not True:
        widened = np.reshape(found_inside, (*batch, *[1] * (windows.ndim - len(batch))))
        windows = np.where(widened, windows, _filling(x, fill_value))
    return _arranged(windows, len(batch), tuple(map(int, numbers.offset_dims)))


def _may_fill(mode: Any) -> bool:
    return GatherScatterMode.from_any(mode) is GatherScatterMode.FILL_OR_DROP


def _all_inside(starts: Mapping[int, Any], shape: Sequence[int], sizes: Sequence[int]) -> Any:
    """Where whole windows lie inside of an array; True: everywhere."""
    found: Any = True
    for axis, start in starts.items():
        own = is_inside(start, shape[axis] - sizes[axis])
        found = own if found is True else found if own is True else np.logical_and(found, own)
    is_known = found is not True and not isinstance(found, Expression)
    return True if is_known and np.all(found) else found


def _filling(x: Expression, value: Any) -> Any:
    """What stands for entries outside of an array; JAX takes the smallest of all integers."""
    if value is not None:
        return value
    if x.boolean:
        return True
    return np.iinfo(np.int64).min if is_whole(x) else math.nan


def _counted(batch: Sequence[int], axis: int) -> np.ndarray:
    """The number of each entry along an axis."""
    spread = [1] * len(batch)
    spread[axis] = batch[axis]
    return np.broadcast_to(np.arange(batch[axis]).reshape(spread), tuple(batch))


def read(x: Expression, starts: Mapping[int, Any], batch: Sequence[int], sizes: Sequence[int]) -> Any:
    """Windows with the axes of the places first, and then all axes of the array.

    Along an axis that has no start they begin with the first entry.
    """
    at = sorted(starts)
    wide = [axis for axis in at if sizes[axis] > 1]
    inner = (*batch, *(sizes[axis] for axis in wide))
    keys = []
    for axis in at:
        start = np.reshape(starts[axis], (*batch, *[1] * len(wide)))
        if axis in wide:
            spread = [1] * len(inner)
            spread[len(batch) + wide.index(axis)] = sizes[axis]
            start = np.add(start, np.arange(sizes[axis]).reshape(spread))
        keys.append(start)
    rest = [axis for axis in range(x.ndim) if axis not in starts]
    cut = x[tuple(slice(None) if axis in starts else slice(sizes[axis]) for axis in range(x.ndim))]
    if 0 in (*inner, *sizes):
        return np.zeros((*batch, *sizes))
    found = (
        _entries(np.transpose(cut, (*at, *rest)), keys, inner)
        if at
        else np.broadcast_to(cut, (*batch, *sizes))
    )
    full = (*inner, *[1] * (len(at) - len(wide)), *(sizes[axis] for axis in rest))
    single = [axis for axis in at if axis not in wide]
    order = [*wide, *single, *rest]
    lead = len(batch)
    return np.transpose(
        np.reshape(found, full) if single else found,
        (*range(lead), *(lead + order.index(axis) for axis in range(x.ndim))),
    )


def _entries(x: Any, keys: Sequence[Any], shape: Sequence[int]) -> Any:
    """Entries of the first axes at places that broadcast to a shape."""
    if not is_whole(x):
        spread = [key if isinstance(key, Expression) else np.broadcast_to(key, shape) for key in keys]
        return x[tuple(spread)]
    rest = x.shape[len(keys) :]
    positions = np.reshape(flat(x.shape[: len(keys)], keys), (*shape, *[1] * len(rest)))
    inner = np.arange(math.prod(rest)).reshape(rest)
    return integer_entries(x, np.add(np.multiply(positions, math.prod(rest)), inner))


def _rows(
    x: Expression, starts: Mapping[int, Any], numbers: Any, batch: Sequence[int], sizes: Sequence[int]
) -> Any:
    """The entries where each row of an array has places of its own, and nothing else is left; else None."""
    rows = tuple(map(int, numbers.operand_batching_dims))
    further = [axis for axis in range(x.ndim) if axis not in rows]
    if not rows or len(further) != 1 or further[0] not in starts or sizes[further[0]] != 1 or is_whole(x):
        return None
    if further[0] not in numbers.collapsed_slice_dims:
        return None
    along = tuple(map(int, numbers.start_indices_batching_dims))
    free = [axis for axis in range(len(batch)) if axis not in along]
    chosen = np.transpose(starts[further[0]], (*along, *free))
    outer = [batch[axis] for axis in along]
    flattened = np.reshape(chosen, (*outer, math.prod(batch[axis] for axis in free)))
    found = np.take_along_axis(np.transpose(x, (*rows, *further)), flattened, -1)
    order = [*along, *free]
    spread = np.reshape(found, (*outer, *(batch[axis] for axis in free)))
    return np.transpose(spread, [order.index(axis) for axis in range(len(batch))])


def _arranged(windows: Any, lead: int, offsets: Sequence[int]) -> Any:
    """The axes of windows at their places in the result, those before them at the others."""
    rank = np.ndim(windows)
    places = [axis for axis in range(rank) if axis not in offsets]
    order = {place: k for k, place in enumerate((*places, *offsets))}
    assert len(places) == lead
    return np.transpose(windows, [order[axis] for axis in range(rank)])


@primitive("dynamic_slice")
def dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int], **_: Any) -> Any:
    """A window that begins at a place, moved inside if it hangs over an edge."""
    x = traced(x)
    begins = {
        axis: clamped(start, size - own)
        for axis, (start, size, own) in enumerate(zip(starts, x.shape, slice_sizes, strict=True))
        if own < size
    }
    return read(x, begins, (), tuple(slice_sizes))
