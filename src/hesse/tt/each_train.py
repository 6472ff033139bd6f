"""Entries of each train of a batch, at the same positions.

They are read train by train with slices of the batch's frames: what sorts positions, merges axes and takes
samples in chunks is made for one train, and so memory stays that of one train besides the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from hesse.tt.arrays import Array
from hesse.tt.entries import KEPT, EntriesFunctional
from hesse.tt.functional import Deltas, Functional, MovingFrames
from hesse.tt.point import Point
from hesse.tt.positions import Positions
from hesse.tt.train import TensorTrain


class EntriesOfEach(Functional):
    """A row of entries for each train: linear in the trains."""

    def __init__(self, point: Point, positions: Positions) -> None:
        self.point = point
        self.positions = positions
        trains = point.trains()
        self._own = [EntriesFunctional(own, positions, KEPT // len(trains)) for own in trains]

    @cached_property
    def value(self) -> Array:
        return self._rows([own.value for own in self._own])

    def pull(self, weights: Array) -> Deltas:
        return self._together([own.pull(weights[k]) for k, own in enumerate(self._own)])

    def push(self, tangent: TensorTrain) -> Array:
        return self._rows([own.push(tangent.train(k)) for k, own in enumerate(self._own)])

    def second(self, weights: Array, tangent: TensorTrain) -> None:
        return None

    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        bent = [own.bend(weights[k], frames.of_train(k)) for k, own in enumerate(self._own)]
        return self._together(bent)

    def squares(self, weights: Array) -> Deltas:
        return self._together([own.squares(weights[k]) for k, own in enumerate(self._own)])

    def _together(self, found: Sequence[Deltas]) -> Deltas:
        """For each position the derivatives of all trains."""
        if not found:
            return [core * 0.0 for core in self.point.left.cores]
        return [self._stacked(same) for same in zip(*found, strict=True)]

    def _rows(self, numbers: Sequence[Array]) -> Array:
        """Those of all trains, a row for each."""
        if not numbers:
            return self.point.library.zeros((0, self.positions.count), self.point.left.cores[0])
        return self._stacked(numbers)

    def _stacked(self, arrays: Sequence[Array]) -> Array:
        return self.point.library.concatenate([array[None] for array in arrays], 0)
