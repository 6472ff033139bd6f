"""What generated NumPy code calls besides NumPy: affine views and placements."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

Coefficients = tuple[tuple[int, ...], ...]
BLOCKS = 4
"""Symmetric products are computed in this many rows of blocks."""


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


def symmetric_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A product of two matrices that is known to be symmetric, blocks below the diagonal copied."""
    size = len(left)
    result = np.empty((size, size), left.dtype)
    block = -(-size // BLOCKS)
    for start in range(0, size, block):
        end = start + block
        np.matmul(left[start:end], right[:, start:], out=result[start:end, start:])
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
