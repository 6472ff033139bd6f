"""Positions of entries, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.tt.arrays import library


def checked_indices(indices: Any, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """For each axis the positions along it, none of them negative."""
    columns = given_indices(indices, shape)
    return tuple(
        _checked(k, column, size) for k, (column, size) in enumerate(zip(columns, shape, strict=True))
    )


def given_indices(indices: Any, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """For each axis what is given for it: as an array with a row for each entry, or as a tuple of arrays."""
    if isinstance(indices, tuple):
        columns = [library(column).host(column) for column in indices]
    else:
        table = library(indices).host(indices)
        if table.ndim != 2:
            raise ShapeError(
                "indices are an array with a row for each entry, or a tuple of arrays for the axes; "
                f"not of shape {table.shape}"
            )
        columns = list(table.T)
    if len(columns) != len(shape):
        raise ShapeError(f"indices for {len(columns)} axes, but the train has {len(shape)}")
    lengths = {column.shape for column in columns}
    if len(lengths) > 1 or any(len(length) != 1 for length in lengths):
        raise ShapeError(f"each axis needs a row of positions of one length, not shapes {sorted(lengths)}")
    return tuple(columns)


def _checked(k: int, column: np.ndarray, size: int) -> np.ndarray:
    if column.dtype.kind not in "iu":
        raise ArgumentError(f"the positions along axis {k} must be whole numbers, not {column.dtype}")
    if not column.size:
        return column.astype(np.intp)
    low, high = int(column.min()), int(column.max())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise ArgumentError(f"index {wrong} is out of range along axis {k}, which has size {size}")
    column = column.astype(np.intp, copy=False)
    return np.where(column < 0, column + size, column) if low < 0 else column
