"""What generated NumPy code calls besides NumPy: affine views and placements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Literal

import numpy as np
from numpy._core import multiarray
from numpy.lib.stride_tricks import as_strided

einsum: Callable[..., np.ndarray] = getattr(multiarray, "c_einsum", np.einsum)
"""NumPy's sums of products without the function of Python around them, which takes as long as a small sum."""

Coefficients = tuple[tuple[int, ...], ...]
Results = tuple[np.ndarray, ...]


def affine_view(
    array: np.ndarray,
    offsets: tuple[int, ...],
    strides: Coefficients,
    shape: tuple[int, ...],
    writeable: bool = False,
) -> np.ndarray:
    """A view with one axis for each label: entry `l` is `array[offsets + strides @ l]`.

    `strides[label][axis]`; the plan has checked that every index is inside the array.
    """
    corner = array[tuple(slice(offset, None) for offset in offsets)]
    steps = array.strides
    moved = tuple(sum(s * step for s, step in zip(row, steps, strict=True)) for row in strides)
    return as_strided(corner, shape, moved, writeable=writeable)


def place(
    target: np.ndarray,
    value: np.ndarray | float,
    offsets: tuple[int, ...],
    strides: Coefficients,
    shape: tuple[int, ...],
) -> None:
    """Add a value (one axis for each label) into an affine view that hits every entry at most once."""
    destination = affine_view(target, offsets, strides, shape, writeable=True)
    destination += value


def symmetric_product(left: np.ndarray, right: np.ndarray, blocks: int) -> np.ndarray:
    """A product of two matrices that is known to be symmetric, in so many rows of blocks.

    Blocks below the diagonal are copied.
    """
    size = len(left)
    result = np.empty((size, size), left.dtype)
    block = -(-size // blocks)
    for start in range(0, size, block):
        end = start + block
        np.matmul(left[start:end], right[:, start:], out=result[start:end, start:])
        square = result[start:end, start:end]  # BLAS may round both sides of the diagonal differently
        square[...] = 0.5 * (square + square.T)
        result[end:, start:end] = result[start:end, end:].T
    return result


def place_overlapping(
    target: np.ndarray,
    value: np.ndarray,
    offsets: tuple[int, ...],
    strides: Coefficients,
    shape: tuple[int, ...],
    loop: tuple[int, ...],
) -> None:
    """As `place`, for views that hit entries repeatedly: one addition for each value of the `loop` labels."""
    value = np.broadcast_to(value, shape)
    kept = [k for k in range(len(shape)) if k not in loop]
    for position in np.ndindex(*(shape[k] for k in loop)):
        index: list[int | slice] = [slice(None)] * len(shape)
        start = list(offsets)
        for k, at in zip(loop, position, strict=True):
            index[k] = at
            start = [s + at * step for s, step in zip(start, strides[k], strict=True)]
        place(
            target,
            value[tuple(index)],
            tuple(start),
            tuple(strides[k] for k in kept),
            tuple(shape[k] for k in kept),
        )


def in_slices(
    functions: tuple[Callable[..., tuple[np.ndarray, ...]], Callable[..., tuple[np.ndarray, ...]]],
    starts: range,
    arrays: Sequence[np.ndarray],
    cuts: Sequence[int | None],
    ends: Sequence[int | None],
    order: Literal["C", "K"],
) -> list[np.ndarray]:
    """The results of a function called for slices of arrays; the second function is for the last slice.

    `cuts` are the axes along which the arrays are cut (None: not at all) and `ends` those along which the
    results are put together (None: they are added up), in memory in the given order of their axes.
    """
    whole, remaining = functions
    results: list[np.ndarray] = []
    for start in starts:
        stop = min(start + starts.step, starts.stop)
        function = whole if stop - start == starts.step else remaining
        parts = function(
            *(array[_at(cut, start, stop)] for array, cut in zip(arrays, cuts, strict=True)),
        )
        if not results:
            results = [
                _container(part, end, starts.stop, order) for part, end in zip(parts, ends, strict=True)
            ]
        for result, part, end in zip(results, parts, ends, strict=True):
            if end is not None:
                result[_at(end, start, stop)] = part
            elif start:
                np.add(result, part, out=result)
    return [result if result.ndim else result[()] for result in results]  # sums may be mere numbers


def _at(cut: int | None, start: int, stop: int) -> tuple[slice, ...]:
    return () if cut is None else (*(slice(None) for _ in range(cut)), slice(start, stop))


def _container(part: np.ndarray, end: int | None, length: int, order: Literal["C", "K"]) -> np.ndarray:
    """The array for a result whose first slice is given; a sum begins with it."""
    if end is None:
        return np.asarray(part)
    shape = tuple(length if axis == end else size for axis, size in enumerate(part.shape))
    return np.empty_like(part, order=order, shape=shape)


def with_short_buffers(function: Callable[..., Results], entries: int) -> Callable[..., Results]:
    """The function with buffers of so many entries, in which rows of a few hundred are broadcast in place.

    NumPy copies them into buffers of 8,192 entries first, which takes up to four times as long.
    """

    @wraps(function)
    def call(*arrays: np.ndarray) -> Results:
        with np.errstate():  # restores the size of the buffers, too
            np.setbufsize(entries)
            return function(*arrays)

    return call
