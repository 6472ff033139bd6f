"""Functions that read the cores of their train: differentiated through the engine, with cores of blocks.

With cores `[[U, D], [0, V]]` the train is the sum of `U … U D V … V`, so that the derivatives by the deltas
D, at the point itself, are those of the manifold. This is the way for code that nets cannot follow; ranks
are doubled on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hesse.api import hvp, value_and_grad
from hesse.tt.arrays import Array, library
from hesse.tt.point import Point
from hesse.tt.train import TensorTrain

Function = Callable[[Any], Any]


class _OfBlocks:
    """A function of the deltas, with frames on both sides."""

    def __init__(self, function: Function) -> None:
        self._function = function

    @property
    def differentiated(self) -> Function:
        """The function, whose surroundings are watched for changes."""
        return self._function

    def over(self, function: Function) -> _OfBlocks:
        """The same for another function."""
        return _OfBlocks(function)

    def __call__(self, deltas: Sequence[Any], left: Sequence[Any], right: Sequence[Any]) -> Any:
        return self._function(TensorTrain(_block_cores(deltas, left, right)))


class Opaque:
    """A function of the cores of a train, and its derivatives."""

    def __init__(self, function: Function) -> None:
        of_blocks = _OfBlocks(function)
        self._gradient = value_and_grad(of_blocks)
        self._product = hvp(of_blocks)

    def value_and_gradient(self, point: Point) -> tuple[Array, list[Array]]:
        """The value and the derivatives by the deltas."""
        value, deltas = self._gradient(*_arguments(point))
        return value, list(deltas)

    def product(self, point: Point, tangent: TensorTrain) -> list[Array]:
        """The second derivatives by the deltas along a tangent vector."""
        return list(self._product(*_arguments(point), tuple(tangent.cores)))


def _arguments(point: Point) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, ...]]:
    """The deltas that give the point itself, and the frames."""
    cores = point.left.cores
    deltas = [core * 0.0 for core in cores[:-1]]
    return (*deltas, point.centre(len(cores) - 1)), cores, point.right.cores


def _block_cores(deltas: Sequence[Any], left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    own, last, cores = library(deltas[0]), len(deltas) - 1, []
    for k, (delta, u, v) in enumerate(zip(deltas, left, right, strict=True)):
        if last == 0:
            cores.append(delta)
        elif k == 0:
            cores.append(own.concatenate([u, delta], -1))
        elif k == last:
            cores.append(own.concatenate([delta, v], -3))
        else:
            upper = own.concatenate([u, delta], -1)
            lower = own.concatenate([own.zeros((*v.shape[:-1], u.shape[-1]), v), v], -1)
            cores.append(own.concatenate([upper, lower], -3))
    return cores
