"""Tangent vectors of trains of fixed rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from hesse.errors import ArgumentError
from hesse.tt.arrays import Array
from hesse.tt.functional import blocks
from hesse.tt.point import Point
from hesse.tt.train import TensorTrain, is_scalar


class Tangent:
    """A tangent vector at a train: the sum over k of `U1 … Uk-1 · Dk · Vk+1 … Vd`, with frames U and V.

    All deltas but the last are orthogonal to the frame at their place, so that inner products are those of
    the deltas. For a matrix the two terms are `D1 @ V` and `U @ D2`.
    """

    __array_ufunc__ = None

    def __init__(self, point: Point, deltas: Sequence[Array]) -> None:
        self.point = point
        self.deltas = tuple(deltas)

    def __repr__(self) -> str:
        return f"Tangent(shape={self.shape}, ranks={self.point.ranks})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes of the tensor."""
        return self.point.train.shape

    @cached_property
    def chain(self) -> TensorTrain:
        """The deltas in a row, for products with environments."""
        return TensorTrain(self.deltas)

    def to_tt(self) -> TensorTrain:
        """The vector as a train, of doubled ranks."""
        return blocks(self.point, self.chain)

    def dense(self) -> Array:
        """The vector with all of its entries."""
        return self.to_tt().dense()

    def inner(self, other: Tangent) -> Array:
        """The inner product with another vector at the same point; of a batch, that of each train."""
        self._same_point(other)
        axes = (-3, -2, -1)
        first, *others = [(a * b).sum(axes) for a, b in zip(self.deltas, other.deltas, strict=True)]
        for part in others:
            first = first + part
        return first

    def norm(self) -> Array:
        """The length. Squares of large or small numbers need not fit into their type."""
        library = self.point.library
        size = library.concatenate([abs(delta).max().reshape((1,)) for delta in self.deltas], 0).max()
        scaled = self / (size + (size == 0.0))
        return size * scaled.inner(scaled) ** 0.5

    def _same_point(self, other: Tangent) -> None:
        if other.point is not self.point:
            raise ArgumentError(
                "the tangent vectors belong to different points; move one of them with transport(X, Y, T)"
            )

    def __add__(self, other: Any) -> Tangent:
        if not isinstance(other, Tangent):
            return NotImplemented
        self._same_point(other)
        return Tangent(self.point, [a + b for a, b in zip(self.deltas, other.deltas, strict=True)])

    def __sub__(self, other: Any) -> Tangent:
        return self + -other if isinstance(other, Tangent) else NotImplemented

    def __mul__(self, factor: Any) -> Tangent:
        return Tangent(self.point, [d * factor for d in self.deltas]) if is_scalar(factor) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Tangent:
        return self * (1.0 / factor) if is_scalar(factor) else NotImplemented

    def __neg__(self) -> Tangent:
        return self * -1.0
