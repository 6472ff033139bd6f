"""Samples in chunks: how rows go through the axes of a train.

Along each axis but the ends, the samples of a chunk are sorted by their place, so that all rows at a place
are multiplied by one matrix: the places of an axis are a batch of products, filled up to one width. Rows go
from the order of one axis to that of the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array  # type: ignore[import-untyped]

from hesse.tt.arrays import Array, Library

MANY = 32
"""Samples for each place on an axis from which on those of a place are multiplied as a matrix."""
WASTE = 2.0
"""Places are filled up to one width if that makes at most so many times more rows."""


class Along(NamedTuple):
    """The positions of a chunk along an axis: in the order of the samples, or sorted by place."""

    places: slice
    """Where they are: other places of the axis need not be looked at."""
    at: Array | None
    """In the order of the samples, from the first of the places on; None: they are sorted."""
    order: Array | None
    """For each place the samples there, in a row, filled up; None: there are too few of them."""
    filled: Array | None
    """Which of them are no filling. There is always some."""
    inverse: Array | None
    """For each sample where it is among the sorted ones."""


class End(NamedTuple):
    """The positions of a chunk along the first or last axis, in the order of the one beside it."""

    at: Array
    sums: Any
    """For NumPy a sparse matrix with a one for each sample at its place."""


class Chunk(NamedTuple):
    """Some samples, and their positions along each axis."""

    part: slice
    first: End
    middle: list[Along]
    """All axes but the ends."""
    last: End
    ahead: list[Array | None]
    """For rows in the order of each axis but the first: where they are in that of the one before it.

    What is filled in stays what is filled in.
    """
    back: list[Array | None]
    """The same from right to left."""


def chunk(
    library: Library, like: Array, part: slice, columns: Sequence[np.ndarray], shape: Sequence[int]
) -> Chunk:
    """A part of the samples, with arrays of the library and on the device of another one."""
    own = [column[part] for column in columns]
    sizes = zip(own[1:-1], shape[1:-1], strict=True)
    found = [_along(index, _places(library, index, size)) for index, size in sizes]
    if any(along.order is None for along in found):  # rows do not go from one kind of order to the other
        found = [_unsorted(index, along.places) for index, along in zip(own[1:-1], found, strict=True)]
    first, last = own[0], own[-1]
    if found:
        first, last = _in_order_of(found[0], first), _in_order_of(found[-1], last)

    def kept(values: np.ndarray | None) -> Array | None:
        return None if values is None else library.kept(values, like)

    return Chunk(
        part,
        _end(library, like, first, shape[0]),
        [Along(along.places, *map(kept, along[1:])) for along in found],
        _end(library, like, last, shape[-1]),
        [kept(_moved(a, b)) for a, b in itertools.pairwise(found)],
        [kept(_moved(b, a)) for a, b in itertools.pairwise(found)],
    )


def _end(library: Library, like: Array, index: np.ndarray, size: int) -> End:
    if library.name != "numpy":
        return End(library.kept(index, like), None)
    count = len(index)
    ones = np.ones(count, np.int8), index.astype(np.int32), np.arange(count + 1, dtype=np.int32)
    return End(index, csc_array(ones, shape=(size, count)))


def _unsorted(index: np.ndarray, places: slice) -> Along:
    return Along(places, index - places.start, None, None, None)


def _along(index: np.ndarray, places: slice) -> Along:
    index, size = index - places.start, places.stop - places.start
    counts = np.bincount(index, minlength=size)
    width = _rounded_up(int(counts.max(initial=0)) + int(len(set(counts)) == 1))
    if len(index) < MANY * size or width * size > WASTE * len(index):
        return _unsorted(index + places.start, places)
    by_place = np.argsort(index, kind="stable")
    filled = (np.arange(width) < counts[:, None]).ravel()
    order = np.zeros(size * width, np.intp)
    order[filled] = by_place
    inverse = np.empty(len(index), np.intp)
    inverse[by_place] = np.flatnonzero(filled)
    return Along(places, None, order, filled, inverse)


def _places(library: Library, index: np.ndarray, size: int) -> slice:
    """Where positions are; for libraries that compile for each shape, the whole axis."""
    if library.name != "numpy" or not len(index):
        return slice(0, size)
    return slice(int(index.min()), int(index.max()) + 1)


def _in_order_of(along: Along, column: np.ndarray) -> np.ndarray:
    return column if along.order is None else column[along.order]


def _moved(start: Along, end: Along) -> np.ndarray | None:
    """For rows in the order of one axis where they are in that of another one; None: it is the same."""
    if start.inverse is None or start.filled is None or end.filled is None:
        return None
    found: np.ndarray = start.inverse[end.order]
    found[~end.filled] = np.flatnonzero(~start.filled)[0]
    return found


def _rounded_up(width: int) -> int:
    """By at most an eighth, so that few widths occur: some libraries compile for each shape."""
    step = 1 << max(0, width.bit_length() - 4)
    return -(-width // step) * step
