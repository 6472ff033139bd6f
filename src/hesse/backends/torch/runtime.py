"""What generated PyTorch code calls besides `torch`: affine views and placements.

Views are strided ones. A sum is written into new memory which nobody has seen, so that it can be
differentiated, compiled and captured like everything else. Inside of transformations of functions (`vmap`,
`jacrev`, …) strided views are of wrong entries: there the same functions work by indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Sizes = tuple[int, ...]


def affine_view(array: Tensor, start: int, strides: Sizes, shape: Sizes) -> Tensor:
    """One axis for each label: entry `l` is entry `start + strides @ l` of the flattened array."""
    backwards = [k for k, stride in enumerate(strides) if stride < 0]
    for k in backwards:  # there are no negative strides: read forwards, then flip
        start += strides[k] * (shape[k] - 1)
    # contiguous: a flat array may still be a view with gaps, which strides would not know of
    view = array.contiguous().view(-1)[start:].as_strided(shape, [abs(stride) for stride in strides])
    return view.flip(backwards) if backwards else view


def indexed_view(array: Tensor, start: int, strides: Sizes, shape: Sizes) -> Tensor:
    """As `affine_view`, by indices."""
    return array.reshape(-1)[_entries(start, strides, shape, array.device)]


def new_zeros(shape: Sizes, *beside: Tensor) -> Tensor:
    """Zeros to which the values beside them will be added."""
    return beside[0].new_zeros(shape)


def transformed_zeros(shape: Sizes, *beside: Tensor) -> Tensor:
    """As `new_zeros`, batched and followed by transformations as the values are."""
    result = beside[0].new_zeros(shape)
    for value in beside[1:]:
        result = result + value.new_zeros(shape)
    return result


def new_array(value: Tensor, shape: Sizes, *beside: Tensor) -> Tensor:
    """A copy of a value, repeated to a shape, in the order of its axes, to which others will be added."""
    return value.expand(shape).clone(memory_format=torch.contiguous_format)


def own_array(value: Tensor, shape: Sizes, *beside: Tensor) -> Tensor:
    """A value that nobody else sees, in the order of its axes, to which others will be added."""
    return value.contiguous()


def transformed_array(value: Tensor, shape: Sizes, *beside: Tensor) -> Tensor:
    """As `new_array`, batched and followed by transformations as the values are."""
    return transformed_zeros(shape, value, *beside) + value


def place(target: Tensor, value: Tensor, factor: float, start: int, strides: Sizes, shape: Sizes) -> None:
    """Add a value (one axis for each label) to entries of a new array, each of them hit at most once."""
    backwards = [k for k, stride in enumerate(strides) if stride < 0]
    if backwards:
        value = value.expand(shape).flip(backwards)
        start += sum(strides[k] * (shape[k] - 1) for k in backwards)
        strides = tuple(map(abs, strides))
    # flat, since a compiler may give arrays of several axes another order in memory than they seem to have
    target.view(-1).as_strided(shape, strides, start).add_(value, alpha=factor)


def place_overlapping(
    target: Tensor, value: Tensor, factor: float, start: int, strides: Sizes, shape: Sizes, loop: Sizes
) -> None:
    """As `place`, for entries that are hit repeatedly: one addition for each value of the `loop` labels."""
    value = value.expand(shape)
    kept = [k for k in range(len(shape)) if k not in loop]
    rest = tuple(strides[k] for k in kept), tuple(shape[k] for k in kept)
    for position in np.ndindex(*(shape[k] for k in loop)):
        index: list[Any] = [slice(None)] * len(shape)
        first = start
        for k, at in zip(loop, position, strict=True):
            index[k] = at
            first += at * strides[k]
        place(target, value[tuple(index)], factor, first, *rest)


def place_indexed(
    target: Tensor,
    value: Tensor,
    factor: float,
    start: int,
    strides: Sizes,
    shape: Sizes,
    loop: Sizes = (),
) -> None:
    """As `place` and `place_overlapping`, by indices."""
    places = _entries(start, strides, shape, target.device).reshape(-1)
    target.view(-1).index_add_(0, places, value.expand(shape).reshape(-1), alpha=factor)


def _entries(start: int, strides: Sizes, shape: Sizes, device: torch.device) -> Tensor:
    """The places of all entries of a view in the flattened array."""
    places = np.full((1,) * len(shape), start)
    for stride, grid in zip(strides, np.indices(shape, sparse=True), strict=True):
        places = places + stride * grid
    return torch.as_tensor(np.broadcast_to(places, shape).copy(), device=device)


STRIDED: dict[str, Callable[..., Any]] = {
    "affine_view": affine_view,
    "new_array": new_array,
    "new_zeros": new_zeros,
    "own_array": own_array,
    "place": place,
    "place_overlapping": place_overlapping,
}
TRANSFORMED: dict[str, Callable[..., Any]] = {
    "affine_view": indexed_view,
    "new_array": transformed_array,
    "new_zeros": transformed_zeros,
    "own_array": transformed_array,
    "place": place_indexed,
    "place_overlapping": place_indexed,
}
"""The same for arrays that a transformation of functions has wrapped."""
