"""Operations of ATen that move entries: views, joins and splits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.aten.table import aten


@aten("view", "reshape", "_unsafe_view", "_reshape_copy", "view_copy")
def reshape(x: Any, size: Sequence[int]) -> Any:
    """The entries in another shape."""
    return np.reshape(x, tuple(size))


@aten("flatten.using_ints")
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Neighbouring axes as one."""
    rank = x.ndim
    if rank == 0:
        return np.reshape(x, (1,))
    start, stop = start_dim % rank, end_dim % rank
    merged = int(np.prod(x.shape[start : stop + 1]))
    return np.reshape(x, (*x.shape[:start], merged, *x.shape[stop + 1 :]))


@aten("unflatten.int")
def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    """An axis as several."""
    dim %= x.ndim
    return np.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@aten("ravel")
def ravel(x: Any) -> Any:
    """All axes as one."""
    return np.ravel(x)


@aten("permute")
def permute(x: Any, dims: Sequence[int]) -> Any:
    """The axes in another order."""
    return np.transpose(x, tuple(dims))


@aten("transpose.int", "swapaxes", "swapdims")
def transpose(x: Any, first: int, second: int) -> Any:
    """Two axes exchanged."""
    return np.swapaxes(x, first, second) if x.ndim else x


@aten("t", "numpy_T", "matrix_H", "mT", "adjoint")
def transposed(x: Any) -> Any:
    """The last two axes exchanged; of vectors nothing."""
    return x if x.ndim < 2 else np.swapaxes(x, -1, -2)


@aten("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def movedim(x: Any, source: Any, destination: Any) -> Any:
    """Axes at other places."""
    return np.moveaxis(x, source, destination)


@aten("unsqueeze")
def unsqueeze(x: Any, dim: int) -> Any:
    """A new axis of size 1."""
    return np.expand_dims(x, dim)


@aten("squeeze.default", "squeeze.dim", "squeeze.dims")
def squeeze(x: Any, dim: Any = None) -> Any:
    """Without axes of size 1."""
    chosen = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(d % x.ndim for d in chosen if x.ndim and x.shape[d] == 1)
    return np.squeeze(x, axes) if axes else x


@aten("expand", "broadcast_to")
def expand(x: Any, size: Sequence[int], implicit: bool = False) -> Any:
    """Axes of size 1 repeated; -1 keeps a size."""
    lead = len(size) - x.ndim
    shape = [x.shape[k - lead] if n == -1 else n for k, n in enumerate(size)]
    return np.broadcast_to(x, tuple(shape))


@aten("expand_as")
def expand_as(x: Any, other: Any) -> Any:
    """Repeated to the shape of another tensor."""
    return np.broadcast_to(x, other.shape)


@aten("view_as", "reshape_as")
def reshape_as(x: Any, other: Any) -> Any:
    """In the shape of another tensor."""
    return np.reshape(x, other.shape)


def _along(dim: int, key: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * dim, key)


@aten("select.int")
def select(x: Any, dim: int, index: int) -> Any:
    """The entries at one place along an axis."""
    return x[_along(dim % x.ndim, index)]


@aten("slice.Tensor")
def slice_(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """A range of entries along an axis."""
    return x[_along(dim % x.ndim, slice(start, end, step))]


@aten("narrow", "narrow.Tensor")
def narrow(x: Any, dim: int, start: int, length: int) -> Any:
    """Some neighbouring entries along an axis."""
    dim %= x.ndim
    start = int(start) % (x.shape[dim] + 1) if int(start) >= 0 else int(start) + x.shape[dim]
    return slice_(x, dim, start, start + length)


@aten("diagonal")
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonals of two axes, as a new last axis."""
    return np.diagonal(x, offset, dim1, dim2)


@aten("unbind.int")
def unbind(x: Any, dim: int = 0) -> list[Any]:
    """The entries along an axis, one by one."""
    return [select(x, dim, k) for k in range(x.shape[dim])]


@aten("split_with_sizes", "split.sizes")
def split_with_sizes(x: Any, sizes: Sequence[int], dim: int = 0) -> list[Any]:
    """Parts of these sizes along an axis."""
    ends = np.cumsum([0, *sizes])
    return [slice_(x, dim, int(a), int(b)) for a, b in itertools.pairwise(ends)]


@aten("split.Tensor")
def split(x: Any, size: int, dim: int = 0) -> list[Any]:
    """Parts of one size along an axis; the last may be smaller."""
    total = x.shape[dim]
    if total == 0:
        return [x]
    return [slice_(x, dim, k, min(k + size, total)) for k in range(0, total, size)]


@aten("chunk")
def chunk(x: Any, chunks: int, dim: int = 0) -> list[Any]:
    """So many parts along an axis, or fewer."""
    return split(x, -(-x.shape[dim] // chunks), dim)


@aten("tensor_split.sections")
def tensor_split(x: Any, sections: int, dim: int = 0) -> list[Any]:
    """So many parts of almost the same size along an axis."""
    return list(np.array_split(x, sections, dim))


@aten("tensor_split.indices")
def tensor_split_at(x: Any, indices: Sequence[int], dim: int = 0) -> list[Any]:
    """Parts between places along an axis."""
    return list(np.split(x, list(indices), dim))


@aten("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors one after the other along an axis."""
    parts = [part for part in tensors if part.shape != (0,)] or list(tensors)[:1]
    return np.concatenate(parts, dim)


@aten("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors beside each other along a new axis."""
    return np.stack(tensors, dim)


@aten("repeat", "tile")
def repeat(x: Any, repeats: Sequence[int]) -> Any:
    """The tensor several times along its axes."""
    return np.tile(x, tuple(repeats))


@aten("repeat_interleave.self_int")
def repeat_interleave(x: Any, repeats: int, dim: int | None = None, output_size: Any = None) -> Any:
    """Each entry several times along an axis."""
    return np.repeat(x, repeats, dim)


@aten("flip")
def flip(x: Any, dims: Sequence[int]) -> Any:
    """Axes in reverse order."""
    return np.flip(x, tuple(dims)) if x.ndim and len(dims) else x


@aten("roll")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    """Entries moved along axes, those that leave coming back at the other end."""
    shift = tuple(shifts)
    return np.roll(x, shift, tuple(dims)) if len(dims) else np.roll(x, shift[0])


@aten("tril")
def tril(x: Any, diagonal: int = 0) -> Any:
    """The entries below a diagonal."""
    return np.tril(x, diagonal)


@aten("triu")
def triu(x: Any, diagonal: int = 0) -> Any:
    """The entries above a diagonal."""
    return np.triu(x, diagonal)


@aten("diag")
def diag(x: Any, diagonal: int = 0) -> Any:
    """The matrix with a diagonal, or the diagonal of a matrix."""
    return np.diag(x, diagonal)


@aten("diag_embed")
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last axis on a diagonal."""
    size = x.shape[-1] + abs(offset)
    rows = np.eye(x.shape[-1], size, max(0, -offset))
    columns = np.eye(x.shape[-1], size, max(0, offset))
    result = np.einsum("...k,ki,kj->...ij", x, rows, columns)
    return np.moveaxis(result, (-2, -1), (dim1, dim2))


@aten("zeros_like")
def zeros_like(x: Any, **_: Any) -> Any:
    """Zeros of the same shape."""
    return np.zeros_like(x)


@aten("ones_like")
def ones_like(x: Any, **_: Any) -> Any:
    """Ones of the same shape."""
    return np.ones_like(x)


@aten("full_like")
def full_like(x: Any, fill_value: Any, **_: Any) -> Any:
    """One number in the same shape."""
    return np.full_like(x, fill_value)


@aten("fill.Scalar", "fill.Tensor")
def fill(x: Any, value: Any) -> Any:
    """One number everywhere."""
    return np.broadcast_to(np.add(np.zeros_like(x), value), x.shape)
