"""The squared norm of a train. Frames are orthogonal, so no environments are needed.

With `X = U … U S` the gradient is 2X, whose only delta is the last one, and the second derivative along a
tangent vector is twice that vector.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from hesse.tt.arrays import Array
from hesse.tt.forms import Form
from hesse.tt.functional import Deltas, FormFunctional
from hesse.tt.nets import Occurrence
from hesse.tt.orthogonal import times_right
from hesse.tt.point import Point
from hesse.tt.scales import exponential
from hesse.tt.train import TensorTrain


def is_square(form: Form, point: Point) -> bool:
    """Whether it is that of ⟨X, X⟩, for a single train."""
    sources = [leaf.source for leaf in form.leaves]
    is_pair = sources == [Occurrence.VARIABLE] * 2 and form.leaves[0].labels == form.leaves[1].labels
    return is_pair and point.train.batch is None


class SquareFunctional(FormFunctional):
    """The number ⟨X, X⟩. What bends is left to the environments."""

    @cached_property
    def value(self) -> Array:
        centre = self.point.library.wide(self._centre) if self.point.is_short else self._centre
        return (centre * centre).sum() * self._scale(2)

    @cached_property
    def _centre(self) -> Array:
        """The last core of the train (divided by about its norm in single precision), if all others are U."""
        return times_right(self.point.left.cores[-1], self.point.unit_links[-1])

    def _scale(self, count: int) -> Any:
        """By what so many factors X were divided."""
        return exponential(count * self.point.log_scale)

    def pull(self, weights: Array) -> Deltas:
        zeros = [self.point.library.zeros(core.shape, core) for core in self.point.left.cores[:-1]]
        return [*zeros, *self._multiplied([self._centre], weights * 2.0 * self._scale(1))]

    def push(self, tangent: TensorTrain) -> Array:
        centre, moving = self._centre, tangent.cores[-1]
        if self.point.is_short:
            centre, moving = map(self.point.library.wide, (centre, moving))
        return (centre * moving).sum() * 2.0 * self._scale(1)

    def second(self, weights: Array, tangent: TensorTrain) -> Deltas:
        return self._multiplied(tangent.cores, weights * 2.0)
