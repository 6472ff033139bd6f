"""Entries of a train at many positions: a functional whose memory does not grow with their number.

Samples go through the train in chunks. With numba a compiled kernel takes them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hesse.tt import entries_kernel
from hesse.tt.arrays import Array, Library
from hesse.tt.functional import Deltas, Functional, MovingFrames
from hesse.tt.point import Point
from hesse.tt.positions import Along, Positions
from hesse.tt.train import TensorTrain


class EntriesFunctional(Functional):
    """The entries of a train at some positions: linear in the train."""

    def __init__(self, point: Point, positions: Positions) -> None:
        self.point = point
        self.positions = positions
        self._samples = positions.samples if entries_kernel.serves(point.right) else None

    @cached_property
    def value(self) -> Array:
        right = self.point.right
        if self._samples is not None:
            return entries_kernel.value(right.cores, self._samples)
        return entries(right, self.positions)

    def pull(self, weights: Array) -> Deltas:
        left, right = self.point.left, self.point.right
        if self._samples is not None:
            return entries_kernel.pull(left.cores, right.cores, weights, self._samples)
        deltas = [self.point.library.zeros(core.shape, core) for core in left.cores]
        for part, columns in self.positions.chunks(right):
            rights = _rights(right, columns)
            lefts = _lefts(left, columns)
            for k, at in enumerate(columns):
                weighted = lefts[k] * weights[part, None]
                deltas[k] = _scattered(self.point.library, deltas[k], at, weighted, rights[k + 1])
        return deltas

    def push(self, tangent: TensorTrain) -> Array:
        left, right = self.point.left, self.point.right
        if self._samples is not None:
            return entries_kernel.push(left.cores, right.cores, tangent.cores, self._samples)
        parts = [
            _tails(self.point, tangent, columns, _rights(right, columns))[0][:, 0]
            for _, columns in self.positions.chunks(right)
        ]
        return self.point.library.concatenate(parts, 0) if parts else self.value * 0.0

    def second(self, weights: Array, tangent: TensorTrain) -> None:
        return None

    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        point, count = self.point, len(self.point.left)
        library = point.library
        deltas = [library.zeros(core.shape, core) for core in point.left.cores]
        for part, columns in self.positions.chunks(point.right):
            rights, lefts = _rights(point.right, columns), _lefts(point.left, columns)
            tails = _tails(point, frames.tangent, columns, rights)
            moved = _moved_lefts(point.left, frames.left, columns, lefts)
            weight = weights[part, None]
            for k, at in enumerate(columns):
                deltas[k] = _scattered(library, deltas[k], at, moved[k] * weight, rights[k + 1])
                if k + 1 < count:
                    moving = tails[k + 1] - rights[k + 1] @ frames.overlaps[k].mT
                    moving = moving @ frames.inverse_links[k].mT
                    deltas[k] = _scattered(library, deltas[k], at, lefts[k] * weight, moving)
        return deltas


def entries(train: TensorTrain, positions: Positions) -> Array:
    """The entries of a train at positions that were checked."""
    parts = [_rights(train, axes)[0][:, 0] for _, axes in positions.chunks(train)]
    return train.library.concatenate(parts, 0) if parts else train.library.zeros((0,), train.cores[0])


def _row_times(library: Library, rows: Array, core: Array, at: Along) -> Array:
    """Each row times the matrix of the core at its position."""
    if at.order is None:
        return library.einsum("sa,asb->sb", rows, core[:, at.index])
    return library.compiled(_by_place)(library, None, rows, core, at.order, at.inverse)


def _by_place(library: Library, _: None, rows: Array, core: Array, order: Array, inverse: Array) -> Array:
    found = rows[order] @ library.transpose(core, (1, 0, 2))
    return found.reshape((-1, found.shape[-1]))[inverse]


def _times_row(library: Library, core: Array, at: Along, rows: Array) -> Array:
    """The matrix of the core at its position times each row."""
    return _row_times(library, rows, library.transpose(core, (2, 1, 0)), at)


def _lefts(left: TensorTrain, columns: Sequence[Along]) -> list[Array]:
    """For each position and sample the product of what is before it."""
    found = [_ones(left, columns)]
    for core, at in zip(left.cores[:-1], columns[:-1], strict=True):
        found.append(_row_times(left.library, found[-1], core, at))
    return found


def _rights(right: TensorTrain, columns: Sequence[Along]) -> list[Array]:
    """For each bond and sample the product of what is behind it."""
    found = [_ones(right, columns)]
    for core, at in zip(right.cores[::-1], columns[::-1], strict=True):
        found.append(_times_row(right.library, core, at, found[-1]))
    return found[::-1]


def _ones(train: TensorTrain, columns: Sequence[Along]) -> Array:
    return train.library.zeros((len(columns[0].index), 1), train.cores[0]) + 1.0


def _tails(point: Point, tangent: TensorTrain, columns: Sequence[Along], rights: list[Array]) -> list[Array]:
    """The same with a tangent vector behind the bond."""
    library = point.library
    found: list[Array] = [rights[-1] * 0.0]
    for k in range(len(columns) - 1, -1, -1):
        here = _times_row(library, tangent.cores[k], columns[k], rights[k + 1])
        found.append(here + _times_row(library, point.left.cores[k], columns[k], found[-1]))
    return found[::-1]


def _moved_lefts(
    left: TensorTrain, moving: TensorTrain, columns: Sequence[Along], lefts: list[Array]
) -> list[Array]:
    """The products of what is before each position, with one core replaced by how it moves."""
    found: list[Array] = [lefts[0] * 0.0]
    for k in range(len(columns) - 1):
        here = _row_times(left.library, lefts[k], moving.cores[k], columns[k])
        found.append(here + _row_times(left.library, found[-1], left.cores[k], columns[k]))
    return found


def _scattered(library: Library, delta: Array, at: Along, left: Array, right: Array) -> Array:
    """A delta with the products of rows added at their positions."""
    if at.order is not None:
        return library.compiled(_sums)(library, None, delta, left, right, at.order, at.filled)
    if library.name == "numpy":
        order = np.argsort(at.index, kind="stable")
        where, starts = np.unique(at.index[order], return_index=True)
        sums = np.add.reduceat(left[order][:, :, None] * right[order][:, None, :], starts, axis=0)
        delta[:, where, :] += sums.transpose(1, 0, 2)
        return delta
    outer = left.mT[:, :, None] * right[None, :, :]
    if library.name == "torch":
        return delta.index_add(1, at.index, outer)
    return delta.at[:, at.index, :].add(outer)


def _sums(
    library: Library, _: None, delta: Array, left: Array, right: Array, order: Array, filled: Array
) -> Array:
    sums = (left[order] * filled).mT @ right[order]
    return delta + library.transpose(sums, (1, 0, 2))
