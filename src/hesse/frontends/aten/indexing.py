"""Reading by integers and masks: `x[i]`, gather, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hesse.backends.numpy.interpreter import Values
from hesse.frontends.aten.table import Typed, aten
from hesse.frontends.aten.tensor import known as known_tensor
from hesse.frontends.expression import Expression
from hesse.frontends.special import stop_gradient
from hesse.frontends.tracing import note_need, untraceable
from hesse.ir import Variable, topological

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
        note_need([integers_of(value)])
        raise untraceable("indices or a mask whose entries must be known, but depend on the data,", way_out)
    return found


def integers_of(value: Any) -> Any:
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


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Sequence[Any]) -> Any:
    """`x[indices]`, where None takes a whole axis."""
    return x[tuple(slice(None) if key is None else chosen(key) for key in indices)]


@aten("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    """The entries where a mask holds."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
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


@aten("one_hot")
def one_hot(index: Any, num_classes: int = -1) -> Any:
    """Ones at places along a new axis, zeros elsewhere."""
    if num_classes < 0:
        num_classes = (
            int(entries(index, "Say how many classes there are: one_hot(i, n).").max(initial=-1)) + 1
        )
    return Typed(np.equal(index[..., None], np.arange(num_classes)).astype(int), torch.int64)


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
