"""Positions at which entries of trains are read, prepared once for all trains of a shape.

Samples are taken in chunks. Along each axis those of a chunk are sorted by their place, so that all rows at
a place are multiplied by one matrix: the places of an axis are a batch of products, filled up to one width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hesse.tt import entries_kernel
from hesse.tt.arrays import Array, Library
from hesse.tt.train import CHUNK, TensorTrain

MANY = 32
"""Samples for each place on an axis from which on those of a place are multiplied as a matrix."""
WASTE = 2.0
"""Places are filled up to one width if that makes at most so many times more rows."""
WIDE = 2**27
"""Numbers that a chunk may take where operations are expensive to start."""

Columns = tuple[np.ndarray, ...]


class Along(NamedTuple):
    """The positions of a chunk along one axis: in the order of the samples, and sorted by place."""

    index: Array
    order: Array | None
    """For each place the samples there, filled up with any; None: there are too few of them."""
    filled: Array | None
    """Which of them are no filling."""
    inverse: Array | None
    """For each sample where it is among the sorted ones."""


class Chunk(NamedTuple):
    """Some samples, and their positions along each axis."""

    part: slice
    axes: list[Along]


class Positions:
    """Positions in tensors of a shape."""

    def __init__(self, columns: Columns, shape: Sequence[int]) -> None:
        self.columns = tuple(column.copy() for column in columns)  # the user may write to his own
        self.shape = tuple(shape)
        self._chunks: dict[Any, list[Chunk]] = {}

    def are(self, columns: Columns, shape: Sequence[int]) -> bool:
        """Whether they are these."""
        return self.shape == tuple(shape) and all(map(np.array_equal, self.columns, columns))

    @cached_property
    def samples(self) -> entries_kernel.Samples:
        """In the layout of compiled kernels."""
        return entries_kernel.Samples(self.columns, self.shape)

    def chunks(self, train: TensorTrain) -> list[Chunk]:
        """In parts, as arrays of the library and on the device of a train."""
        core = train.cores[0]
        is_wide = train.library.is_wide(core)
        size = max(CHUNK, WIDE // (2 * len(train) * max(train.ranks))) if is_wide else CHUNK
        key = train.library.name, size, str(core.device) if train.library.name == "torch" else ""
        if key not in self._chunks:
            self._chunks[key] = [
                self._chunk(train.library, core, slice(start, start + size))
                for start in range(0, len(self.columns[0]), size)
            ]
        return self._chunks[key]

    def _chunk(self, library: Library, like: Array, part: slice) -> Chunk:
        columns = [column[part] for column in self.columns]
        return Chunk(part, [_along(library, like, *pair) for pair in zip(columns, self.shape, strict=True)])


def _along(library: Library, like: Array, index: np.ndarray, size: int) -> Along:
    counts = np.bincount(index, minlength=size)
    width = _rounded_up(int(counts.max(initial=0)))
    if len(index) < MANY * size or width * size > WASTE * len(index):
        return Along(library.kept(index, like), None, None, None)
    by_place = np.argsort(index, kind="stable")
    filled = np.arange(width) < counts[:, None]
    order = np.zeros((size, width), np.intp)
    order[filled] = by_place
    inverse = np.empty(len(index), np.intp)
    inverse[by_place] = np.flatnonzero(filled)
    return Along(*(library.kept(values, like) for values in (index, order, filled[:, :, None], inverse)))


def _rounded_up(width: int) -> int:
    """By at most an eighth, so that few widths occur: some libraries compile for each shape."""
    step = 1 << max(0, width.bit_length() - 4)
    return -(-width // step) * step
