"""Entries of a train at many positions: a functional whose memory does not grow with their number.

Samples go through the train in chunks. With numba a compiled kernel takes them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from hesse.tt import entries_kernel
from hesse.tt.arrays import Array, Library
from hesse.tt.functional import Deltas, Functional, MovingFrames
from hesse.tt.point import Point
from hesse.tt.train import TensorTrain

CHUNK = 16384
"""Samples at a time: their rows stay in cache."""

Columns = tuple[np.ndarray, ...]


class EntriesFunctional(Functional):
    """The entries of a train at some positions: linear in the train."""

    def __init__(self, point: Point, columns: Columns) -> None:
        self.point = point
        self.columns = tuple(column.copy() for column in columns)  # the user may write to his own
        self._samples = (
            entries_kernel.Samples(columns, point.train.shape) if entries_kernel.serves(point.right) else None
        )

    def reads(self, columns: Columns) -> bool:
        """Whether it reads at these positions."""
        return all(np.array_equal(a, b) for a, b in zip(self.columns, columns, strict=True))

    @cached_property
    def value(self) -> Array:
        right = self.point.right
        if self._samples is not None:
            return entries_kernel.value(right.cores, self._samples)
        return entries(right, self.columns)

    def pull(self, weights: Array) -> Deltas:
        left, right = self.point.left, self.point.right
        if self._samples is not None:
            return entries_kernel.pull(left.cores, right.cores, weights, self._samples)
        deltas = [self.point.library.zeros(core.shape, core) for core in left.cores]
        for part in _chunks(len(self.columns[0])):
            columns = tuple(column[part] for column in self.columns)
            rights = _rights(right, columns)
            lefts = _lefts(left, columns)
            for k, column in enumerate(columns):
                outer = (lefts[k] * weights[part, None])[:, :, None] * rights[k + 1][:, None, :]
                deltas[k] = _scattered(self.point.library, deltas[k], column, outer)
        return deltas

    def push(self, tangent: TensorTrain) -> Array:
        left, right = self.point.left, self.point.right
        if self._samples is not None:
            return entries_kernel.push(left.cores, right.cores, tangent.cores, self._samples)
        parts = []
        for part in _chunks(len(self.columns[0])):
            columns = tuple(column[part] for column in self.columns)
            parts.append(_tails(self.point, tangent, columns, _rights(right, columns))[0][:, 0])
        return self.point.library.concatenate(parts, 0) if parts else self.value * 0.0

    def second(self, weights: Array, tangent: TensorTrain) -> None:
        return None

    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        point, count = self.point, len(self.columns)
        library = point.library
        deltas = [library.zeros(core.shape, core) for core in point.left.cores]
        for part in _chunks(len(self.columns[0])):
            columns = tuple(column[part] for column in self.columns)
            rights, lefts = _rights(point.right, columns), _lefts(point.left, columns)
            tails = _tails(point, frames.tangent, columns, rights)
            moved = _moved_lefts(point.left, frames.left, columns, lefts)
            for k, column in enumerate(columns):
                outer = moved[k][:, :, None] * rights[k + 1][:, None, :]
                if k + 1 < count:
                    moving = (tails[k + 1] - rights[k + 1] @ frames.overlaps[k].mT) @ frames.inverse_links[
                        k
                    ].mT
                    outer = outer + lefts[k][:, :, None] * moving[:, None, :]
                deltas[k] = _scattered(library, deltas[k], column, outer * weights[part, None, None])
        return deltas


def entries(train: TensorTrain, columns: Columns) -> Array:
    """The entries of a train at positions that were checked."""
    parts = []
    for part in _chunks(len(columns[0])):
        rows = train.cores[0][0][columns[0][part]]
        for core, column in zip(train.cores[1:], columns[1:], strict=True):
            rows = _row_times(train.library, rows, core, column[part])
        parts.append(rows[:, 0])
    return train.library.concatenate(parts, 0) if parts else train.library.zeros((0,), train.cores[0])


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def _row_times(library: Library, rows: Array, core: Array, column: np.ndarray) -> Array:
    """Each row times the matrix of the core at its position."""
    return library.einsum("sa,asb->sb", rows, core[:, column])


def _times_row(library: Library, core: Array, column: np.ndarray, rows: Array) -> Array:
    return library.einsum("asb,sb->sa", core[:, column], rows)


def _lefts(left: TensorTrain, columns: Sequence[np.ndarray]) -> list[Array]:
    """For each position and sample the product of what is before it."""
    found = [left.library.zeros((len(columns[0]), 1), left.cores[0]) + 1.0]
    for core, column in zip(left.cores[:-1], columns[:-1], strict=True):
        found.append(_row_times(left.library, found[-1], core, column))
    return found


def _rights(right: TensorTrain, columns: Sequence[np.ndarray]) -> list[Array]:
    """For each bond and sample the product of what is behind it."""
    found = [right.library.zeros((len(columns[0]), 1), right.cores[0]) + 1.0]
    for core, column in zip(right.cores[:0:-1], columns[:0:-1], strict=True):
        found.append(_times_row(right.library, core, column, found[-1]))
    return [found[-1], *found[::-1]]  # that of the first bond is not needed


def _tails(point: Point, tangent: TensorTrain, columns: Columns, rights: list[Array]) -> list[Array]:
    """The same with a tangent vector behind the bond."""
    library = point.library
    found: list[Array] = [rights[-1] * 0.0]
    for k in range(len(columns) - 1, -1, -1):
        here = _times_row(library, tangent.cores[k], columns[k], rights[k + 1])
        found.append(here + _times_row(library, point.left.cores[k], columns[k], found[-1]))
    return found[::-1]


def _moved_lefts(left: TensorTrain, moving: TensorTrain, columns: Columns, lefts: list[Array]) -> list[Array]:
    """The products of what is before each position, with one core replaced by how it moves."""
    found: list[Array] = [lefts[0] * 0.0]
    for k in range(len(columns) - 1):
        here = _row_times(left.library, lefts[k], moving.cores[k], columns[k])
        found.append(here + _row_times(left.library, found[-1], left.cores[k], columns[k]))
    return found


def _scattered(library: Library, delta: Array, column: np.ndarray, outer: Array) -> Array:
    """A delta with matrices added at their positions."""
    a, _, b = delta.shape
    match library.name:
        case "torch":
            index = library.like(column, delta).long()
            added = library.transpose(outer, (1, 0, 2))
            return delta.index_add(1, index, added)
        case "jax":
            return delta.at[:, column, :].add(library.transpose(outer, (1, 0, 2)))
    order = np.argsort(column, kind="stable")
    where, starts = np.unique(column[order], return_index=True)
    sums = np.add.reduceat(outer.reshape(-1, a * b)[order], starts, axis=0)
    delta[:, where, :] += sums.reshape(-1, a, b).transpose(1, 0, 2)
    return delta
