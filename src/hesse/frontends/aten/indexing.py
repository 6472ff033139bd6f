"""Reading and writing by integers and masks: `x[i]`, gather, scatter, embeddings."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from hesse.backends.numpy.interpreter import Values
from hesse.frontends.aten.table import Typed, aten
from hesse.frontends.aten.tensor import known as known_tensor
from hesse.frontends.aten.tensor import written
from hesse.frontends.expression import Expression
from hesse.frontends.integers import integer_node
from hesse.frontends.operands import as_node
from hesse.frontends.special import stop_gradient
from hesse.frontends.tracing import note_need, untraceable, watched_names
from hesse.ir import Variable, reshape, topological, uniform
from hesse.ops.structural import scatter

Places = np.ndarray | Expression
"""Integers, known or traced."""


def known(value: Any) -> np.ndarray | None:
    """The entries of integers or truth values, where they are known now."""
    if not isinstance(value, Expression):
        return np.asarray(value)
    if value.index is not None:
        return value.index.known
    if value.boolean and not any(isinstance(node, Variable) for node in topological([value.node])):
        mask: np.ndarray = Values(value.node)({}, {}) != 0  # with a pattern, it is a sum of bands
        return mask
    return None


def entries(value: Any, way_out: str) -> np.ndarray:
    """Integers or truth values that must be known."""
    found = known(value)
    if found is None:
        note_need([_integers(value)])
        raise untraceable("indices or a mask whose entries must be known, but depend on the data,", way_out)
    return found


def _integers(value: Any) -> Any:
    return value if value.index is None else Expression(value.index.as_node())


def chosen(value: Any, size: int | None = None) -> Any:
    """An entry of a key: known entries as NumPy takes them, traced ones counted from the front."""
    if isinstance(value, Expression) and value.boolean:
        return entries(value, "Use torch.where(mask, x, other), or multiply by the mask before a sum.")
    found = known(value)
    if found is None:
        return value if size is None else np.where(np.less(value, 0), np.add(value, size), value)
    if size is not None and ((found < -size) | (found >= size)).any():
        raise IndexError(
            f"index {found[(found < -size) | (found >= size)].flat[0]} is out of range for size {size}"
        )
    return found if size is None else np.where(found < 0, found + size, found)


# Reading ----------------------------------------------------------------------


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Sequence[Any]) -> Any:
    """`x[indices]`, where None takes a whole axis."""
    return x[tuple(slice(None) if key is None else chosen(key) for key in indices)]


@aten("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    """The entries where a mask holds."""
    shape = np.broadcast_shapes(x.shape, mask.shape) or (1,)
    return np.broadcast_to(x, shape)[np.broadcast_to(chosen(mask), shape)]


@aten("index_select")
def index_select(x: Any, dim: int, index: Any) -> Any:
    """Entries along an axis."""
    return np.take(x, np.ravel(chosen(index)), dim) if x.ndim else x


@aten("take")
def take(x: Any, index: Any) -> Any:
    """Entries of all, as one axis."""
    return np.ravel(x)[chosen(index)]


@aten("gather")
def gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    """Entries along an axis, chosen at each place of the other axes."""
    if not x.ndim:
        return np.reshape(x, index.shape)
    dim %= x.ndim
    cut = tuple(slice(None) if k == dim else slice(size) for k, size in enumerate(index.shape))
    return np.take_along_axis(x[cut], chosen(index, x.shape[dim]), dim)


@aten("take_along_dim")
def take_along_dim(x: Any, index: Any, dim: int | None = None) -> Any:
    """The same, where other axes are repeated as far as needed."""
    if dim is None:
        return np.take_along_axis(np.ravel(x), np.ravel(chosen(index)), 0)
    dim %= x.ndim
    shape = np.broadcast_shapes(_but(x.shape, dim), _but(index.shape, dim))
    wide = [(*shape[:dim], array.shape[dim], *shape[dim + 1 :]) for array in (x, index)]
    return gather(np.broadcast_to(x, wide[0]), dim, np.broadcast_to(index, wide[1]))


def _but(shape: Sequence[int], dim: int) -> tuple[int, ...]:
    return tuple(1 if k == dim else size for k, size in enumerate(shape))


@aten("embedding")
def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of a table; the row of the padding is constant."""
    if scale_grad_by_freq:
        raise untraceable("an embedding with scale_grad_by_freq", "Its gradient belongs to no function.")
    rows = weight[chosen(indices)]
    if padding_idx < 0:
        return rows
    return np.where(np.equal(indices, padding_idx)[..., None], stop_gradient(rows), rows)


@aten("embedding_bag", "embedding_bag.padding_idx")
def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of rows of a table; a bag begins at each offset."""
    begins = entries(offsets, "Pass the offsets as an integer tensor that is not computed from x.")
    count = len(begins) - include_last_offset
    ends = [*begins[1:], *([] if include_last_offset else [indices.shape[0]])]
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    rows = embedding(weight, indices, -1, scale_grad_by_freq)
    is_counted = np.ones(indices.shape, bool)
    if padding >= 0:
        is_counted = (
            entries(indices, "With padding_idx pass indices that are not computed from x.") != padding
        )
    bags = [[k for k in range(a, b) if is_counted[k]] for a, b in zip(begins[:count], ends, strict=True)]
    if per_sample_weights is not None:
        rows = np.multiply(rows, per_sample_weights[:, None])
    if mode == 2:
        parts = [np.max(rows[bag], axis=0) if bag else np.zeros(weight.shape[1]) for bag in bags]
        found = np.stack(parts)
    else:
        member = np.zeros((count, indices.shape[0]))
        for k, bag in enumerate(bags):
            member[k, bag] = 1.0 / len(bag) if mode == 1 and bag else 1.0
        found = np.matmul(member, rows)
    sizes = np.array([len(bag) for bag in bags])
    further = np.repeat(np.arange(count), sizes), sizes, begins
    return found, *(known_tensor(torch.tensor(array)) for array in further)


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag_inside(weight: Any, indices: Any, offsets: Any, *arguments: Any, **options: Any) -> Any:
    """The same as PyTorch calls it: no padding is -1."""
    names = (
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "per_sample_weights",
        "include_last_offset",
        "padding_idx",
    )
    given = dict(zip(names, arguments, strict=False)) | options
    padding = given.pop("padding_idx", -1)
    return embedding_bag(weight, indices, offsets, **given, padding_idx=None if padding < 0 else padding)


# Writing ----------------------------------------------------------------------


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
    if np.ndim(values) and watched_names([_integers(places)]):
        entries(places, "Pass the integers as an argument.")
    zeros = Expression(uniform(0.0, x.shape))
    counts = added(zeros, places, 1.0)
    if not np.ndim(values):
        return np.where(np.greater(counts, 0), values, x)
    # a factor, so that the derivatives are nan there, too
    totals = np.multiply(added(zeros, places, values), np.where(np.greater(counts, 1), math.nan, 1.0))
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


def with_an_axis(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that takes a number for a vector of one entry."""

    @functools.wraps(handler)
    def call(x: Any, dim: int, index: Any, *further: Any, **options: Any) -> Any:
        if x.ndim:
            return handler(x, dim, index, *further, **options)
        given = [np.reshape(part, (1,)) if isinstance(part, Expression) else part for part in further]
        return np.reshape(handler(np.reshape(x, (1,)), 0, np.reshape(index, (1,)), *given, **options), ())

    return call


@aten("scatter.src", "scatter.value")
@with_an_axis
def scatter_(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`x` with other entries along an axis, chosen at each place of the other axes."""
    return put(x, along(x, dim, index), cut(source, index.shape))


@aten("scatter_add")
@with_an_axis
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`x` with entries added along an axis, chosen at each place of the other axes."""
    return added(x, along(x, dim, index), cut(source, index.shape))


@aten("index_add")
@with_an_axis
def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """`x` with slabs added along an axis."""
    return added(x, slabs(x, dim, index), np.multiply(source, alpha))


@aten("index_copy")
@with_an_axis
def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    """`x` with other slabs along an axis."""
    return put(x, slabs(x, dim, index), source)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
@with_an_axis
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


@aten("slice_scatter")
def slice_scatter(
    x: Any, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """`x` with another slice along an axis."""
    grid = np.arange(math.prod(x.shape)).reshape(x.shape)
    places = grid[(*[slice(None)] * (dim % x.ndim), slice(start, end, step))]
    return replaced(x, places, source)


for _name, _view in (("select_scatter", "select"), ("diagonal_scatter", "diagonal")):
    aten(_name)(_into_view(_view))


@aten("one_hot")
def one_hot(index: Any, num_classes: int = -1) -> Any:
    """Ones at places along a new axis, zeros elsewhere."""
    if num_classes < 0:
        num_classes = (
            int(entries(index, "Say how many classes there are: one_hot(i, n).").max(initial=-1)) + 1
        )
    return Typed(np.equal(index[..., None], np.arange(num_classes)).astype(int), torch.int64)


# Positions --------------------------------------------------------------------


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Any:
    """Where values belong in an ascending sequence."""
    if sequence.ndim != 1 or sorter is not None:
        return NotImplemented
    found = np.searchsorted(sequence, values, side or ("right" if right else "left"))
    return Typed(found, torch.int32 if out_int32 else torch.int64)


@aten("bucketize.Tensor")
def bucketize(values: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the interval in which each value lies."""
    return searchsorted(boundaries, values, out_int32=out_int32, right=right)
