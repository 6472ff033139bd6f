"""Writing by integers and masks: `x[i] = y`, scatter and their relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from hesse.frontends.aten.indexing import Places, chosen, entries, integers_of, known
from hesse.frontends.aten.table import aten
from hesse.frontends.aten.tensor import written
from hesse.frontends.expression import Expression
from hesse.frontends.integers import integer_node
from hesse.frontends.operands import as_node
from hesse.frontends.tracing import watched_names
from hesse.ir import reshape, uniform
from hesse.ops.structural import scatter


def flat_places(shape: Sequence[int], keys: Sequence[Any]) -> Places:
    """The positions among all entries of places, for which there is an integer for each axis."""
    found: Any = 0
    for size, key in zip(shape, keys, strict=True):
        found = np.add(np.multiply(found, size), chosen(key, size))
    return found  # type: ignore[no-any-return]


def added(x: Any, places: Any, values: Any) -> Any:
    """`x` with values added at places, of which several may be the same."""
    values = np.broadcast_to(values, places.shape)
    index = integer_node(places)
    assert index is not None
    size = math.prod(x.shape)
    total = scatter(as_node(values), index, size)
    return np.add(x, Expression(reshape(total, x.shape)))


def replaced(x: Any, places: np.ndarray, values: Any) -> Any:
    """`x` with other values at known places."""
    wide: Any = np.broadcast_to(values, places.shape)
    return written(x, places, wide)


def put(x: Any, places: Places, values: Any) -> Any:
    """`x` with other values at places; the last of several for one place counts.

    Which one is the last is not known of integers that depend on the data. Where two of those meet, the
    result is nan.
    """
    found = known(places)
    if found is not None:
        return replaced(x, np.asarray(found), _number(values))
    assert isinstance(places, Expression)
    if np.ndim(values) and watched_names([integers_of(places)]):
        entries(places, "Pass the integers as an argument.")
    zeros = Expression(uniform(0.0, x.shape))
    counts = added(zeros, places, 1.0)
    if not np.ndim(values):
        return np.where(np.greater(counts, 0), values, x)
    totals = np.where(np.greater(counts, 1), math.nan, added(zeros, places, values))
    return np.where(np.greater(counts, 0), totals, x)


def _number(value: Any) -> Any:
    return value if isinstance(value, Expression) else np.asarray(value, float)


@aten("index_put", "_unsafe_index_put")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`x[indices] = values`, or `+=`. One number may go where a mask holds that depends on data."""
    if len(indices) == 1 and indices[0].boolean and not np.ndim(values) and not accumulate:
        mask = indices[0]
        return np.where(np.reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim))), values, x)
    keys = [None if key is None else chosen(key) for key in indices]
    if all(key is None or isinstance(key, np.ndarray) for key in keys):
        grid = np.arange(math.prod(x.shape)).reshape(x.shape)
        places: Places = grid[tuple(slice(None) if key is None else key for key in keys)]
    else:
        places = _traced_places(x.shape, keys)
    return (added if accumulate else put)(x, places, values)


def _traced_places(shape: Sequence[int], keys: Sequence[Any]) -> Places:
    """The places of `x[keys]`: the axes of the keys come where the first of them is, or first if apart."""
    keys = [*keys, *[None] * (len(shape) - len(keys))]
    given = [k for k, key in enumerate(keys) if key is not None]
    inner = np.broadcast_shapes(*(keys[k].shape for k in given))
    before = given[0] if given[-1] - given[0] + 1 == len(given) else 0
    free = [k for k in range(len(shape)) if keys[k] is None]
    rank = len(inner) + len(free)
    spread = []
    for k, size in enumerate(shape):
        if keys[k] is None:
            place = free.index(k)
            place += len(inner) if place >= before else 0
            spread.append(np.arange(size).reshape(*(-1 if j == place else 1 for j in range(rank))))
        else:
            wide = np.broadcast_to(keys[k], inner)
            after = (1,) * (rank - before - len(inner))
            spread.append(np.reshape(wide, ((1,) * before + inner + after)))
    return flat_places(shape, spread)


def along(x: Any, dim: int, index: Any) -> Places:
    """The places of `scatter`: an index along an axis at each place of the others."""
    grids = np.ogrid[tuple(slice(size) for size in index.shape)]
    dim %= x.ndim
    return flat_places(x.shape, [index if k == dim else grid for k, grid in enumerate(grids)])


def slabs(x: Any, dim: int, index: Any) -> Places:
    """The places of whole slabs along an axis."""
    dim %= x.ndim
    return _traced_places(x.shape, [*[None] * dim, np.ravel(index) if not index.ndim else index])


def cut(source: Any, shape: Sequence[int]) -> Any:
    return source[tuple(map(slice, shape))] if np.ndim(source) else source


@aten("scatter.src", "scatter.value")
def scatter_(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`x` with other entries along an axis, chosen at each place of the other axes."""
    if not x.ndim:
        return np.broadcast_to(_number(source), ())
    return put(x, along(x, dim, index), cut(source, index.shape))


@aten("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`x` with entries added along an axis, chosen at each place of the other axes."""
    if not x.ndim:
        return np.add(x, np.reshape(source, ()))
    return added(x, along(x, dim, index), cut(source, index.shape))


@aten("index_add")
def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """`x` with slabs added along an axis."""
    return added(x, slabs(x, dim, index), np.multiply(source, alpha))


@aten("index_copy")
def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`x` with other slabs along an axis."""
    return put(x, slabs(x, dim, index), source)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    """`x` with one number in slabs along an axis."""
    return put(x, slabs(x, dim, index), value)


@aten("put")
def put_(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`x` with other entries at places among all."""
    places = chosen(index, math.prod(x.shape))
    return (added if accumulate else put)(x, places, np.reshape(source, places.shape))


@aten("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """`x` with the next entries of another tensor where a mask holds."""
    is_new = chosen(mask)
    shape = np.broadcast_shapes(is_new.shape, x.shape)
    (places,) = np.nonzero(np.broadcast_to(is_new, shape).ravel())
    return replaced(np.broadcast_to(x, shape), places, np.ravel(source)[: len(places)])


@aten("max_unpool2d", "max_unpool3d")
def max_unpool(x: Any, indices: Any, size: Sequence[int], *_: Any) -> Any:
    """Values at places of an image of zeros."""
    lead = x.ndim - len(size)
    whole = Expression(uniform(0.0, (*x.shape[:lead], math.prod(size))))
    flat = [np.reshape(array, (*x.shape[:lead], -1)) for array in (indices, x)]
    return np.reshape(scatter_(whole, -1, *flat), (*x.shape[:lead], *size))


def _into_view(name: str) -> Any:
    def handler(x: Any, source: Any, *arguments: Any, **options: Any) -> Any:
        grid = torch.arange(math.prod(x.shape)).reshape(x.shape)
        with _disable_current_modes():
            places = getattr(torch, name)(grid, *arguments, **options).numpy()
        return replaced(x, places, source)

    return handler


for _name, _view in (("select_scatter", "select"), ("diagonal_scatter", "diagonal")):
    aten(_name)(_into_view(_view))


@aten("slice_scatter")
def slice_scatter(
    x: Any, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """`x` with another slice along an axis."""
    grid = np.arange(math.prod(x.shape)).reshape(x.shape)
    places = grid[(*[slice(None)] * (dim % x.ndim), slice(start, end, step))]
    return replaced(x, places, source)
