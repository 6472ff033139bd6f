"""Primitives that move entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.places import Columns
from hesse.frontends.jaxpr.table import is_whole, known, primitive, traced
from hesse.frontends.operands import as_node
from hesse.ir import combine, label_axis, number, place, view


@known("broadcast_in_dim")
@primitive("broadcast_in_dim")
def broadcast_in_dim(
    x: Any, *_: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> Any:
    """Axes at places among new ones, along which it is repeated."""
    own = dict(zip(broadcast_dimensions, np.shape(x), strict=True))
    spread = tuple(own.get(axis, 1) for axis in range(len(shape)))
    return np.broadcast_to(x if np.shape(x) == spread else np.reshape(x, spread), tuple(shape))


@known("reshape")
@primitive("reshape")
def reshape(x: Any, new_sizes: Sequence[int], dimensions: Any = None, sharding: Any = None) -> Any:
    """The entries in another shape."""
    ordered = x if dimensions is None else np.transpose(x, dimensions)
    return np.reshape(ordered, tuple(new_sizes))


@known("transpose")
@primitive("transpose")
def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """The axes in another order."""
    return np.transpose(x, tuple(permutation))


@known("squeeze")
@primitive("squeeze")
def squeeze(x: Any, dimensions: Sequence[int]) -> Any:
    """Without axes of size 1."""
    return np.squeeze(x, tuple(dimensions)) if dimensions else x


@known("slice")
@primitive("slice")
def slice_(
    x: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None
) -> Any:
    """A box of entries."""
    steps = strides or [1] * len(start_indices)
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


@known("rev")
@primitive("rev")
def rev(x: Any, dimensions: Sequence[int]) -> Any:
    """The other way round along some axes."""
    return np.flip(x, tuple(dimensions)) if dimensions else x


@known("concatenate")
@primitive("concatenate")
def concatenate(*parts: Any, dimension: int) -> Any:
    """One after the other along an axis."""
    if not any(isinstance(part, Expression) for part in parts):
        return np.concatenate(parts, dimension)
    joined: Any = np.concatenate(list(map(traced, parts)), dimension)
    if is_whole(joined) and dimension == joined.ndim - 1:
        return Columns(joined, [part[..., k] for part in parts for k in range(np.shape(part)[-1])])
    return joined


@known("stack")
@primitive("stack")
def stack(*parts: Any, axis: int) -> Any:
    """Along a new axis."""
    return concatenate(*(np.expand_dims(part, axis) for part in parts), dimension=axis)


@known("unstack")
@primitive("unstack")
def unstack(x: Any, axis: int) -> list[Any]:
    """The entries along an axis, one by one."""
    return [x[(*[slice(None)] * axis, k)] for k in range(np.shape(x)[axis])]


@known("tile")
@primitive("tile")
def tile(x: Any, reps: Sequence[int]) -> Any:
    """Repeated along its axes."""
    return np.tile(x, tuple(reps))


@known("split")
@primitive("split")
def split(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    """Parts of these sizes along an axis."""
    return list(np.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


@known("iota")
def iota(*_: Any, dtype: Any, shape: Sequence[int], dimension: int, sharding: Any = None) -> Any:
    """The numbers of the entries along an axis."""
    spread = [1] * len(shape)
    spread[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(spread), tuple(shape))


@primitive("pad")
def pad(x: Any, value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Entries with others around and between them; negative margins cut off."""
    x = traced(x)
    if x.boolean or is_whole(x):
        return NotImplemented
    before = [max(low, 0) for low, _, _ in padding_config]
    steps = [inside + 1 for _, _, inside in padding_config]
    sizes = [max((number(size) - 1) * step + 1, 0) for size, step in zip(x.shape, steps, strict=True)]
    after = [max(high, 0) for _, high, _ in padding_config]
    shape = [b + size + a for b, size, a in zip(before, sizes, after, strict=True)]
    cut = tuple(
        slice(max(-low, 0), total - max(-high, 0))
        for (low, high, _), total in zip(padding_config, shape, strict=True)
    )
    placed: Any = Expression(place(as_node(x), shape, before, steps))
    if isinstance(value, Expression) or value != 0:
        own = np.zeros(shape, bool)
        own[tuple(slice(b, b + size, s) for b, size, s in zip(before, sizes, steps, strict=True))] = True
        placed = np.where(own, placed, value)
    return placed[cut]


def along_a_line(mask: np.ndarray, x: Expression) -> Expression | None:
    """The entries where a known mask holds and zeros elsewhere, if it holds along a diagonal; else None."""
    places = np.nonzero(mask)
    if mask.ndim < 2 or mask.shape != x.shape or len(places[0]) < 2:
        return None
    axes = []
    for along in places:
        first, step = int(along[0]), int(along[1]) - int(along[0])
        if not np.array_equal(along, first + step * np.arange(len(along))):
            return None
        axes.append(combine([(step, label_axis(0))] if step else [], first))
    return Expression(view(as_node(x), axes, axes, x.shape, [len(places[0])]), boolean=x.boolean)
