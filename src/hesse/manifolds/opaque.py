"""Functions that read the cores of their train: differentiated through the engine, with cores of blocks.

With cores `[[U, D], [0, V]]` the train is the sum of `U … U D V … V`, so that the derivatives by the deltas
D, at the point itself, are those of the manifold. This is the way for code that nets cannot follow; ranks
are doubled on it. What moving frames see of the gradient is a derivative, too: by the deltas of a train that
is added to the point and zero with them. Ranks are five times those of the point then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hesse.api import grad, hvp, value_and_grad
from hesse.tt.arrays import Array, Library, library
from hesse.tt.functional import MovingFrames
from hesse.tt.orthogonal import times_right
from hesse.tt.point import Point
from hesse.tt.train import TensorTrain

Function = Callable[[Any], Any]


class _OfBlocks:
    """A function of the deltas and of what they stand beside, by which the cores of a train are made."""

    def __init__(self, function: Function, cores: Callable[..., list[Any]]) -> None:
        self._function, self._cores = function, cores

    @property
    def differentiated(self) -> Function:
        """The function, whose surroundings are watched for changes."""
        return self._function

    def over(self, function: Function) -> _OfBlocks:
        """The same for another function."""
        return _OfBlocks(function, self._cores)

    def __call__(self, deltas: Sequence[Any], *beside: Sequence[Any]) -> Any:
        return self._function(TensorTrain(self._cores(deltas, *beside)))


class Opaque:
    """A function of the cores of a train, and its derivatives."""

    def __init__(self, function: Function) -> None:
        of_blocks = _OfBlocks(function, _block_cores)
        self._gradient = value_and_grad(of_blocks)
        self._product = hvp(of_blocks)
        self._bent = grad(_OfBlocks(function, _moving_cores))

    def value_and_gradient(self, point: Point) -> tuple[Array, list[Array]]:
        """The value and the derivatives by the deltas."""
        value, deltas = self._gradient(*_arguments(point))
        return value, list(deltas)

    def product(self, point: Point, tangent: TensorTrain) -> list[Array]:
        """The second derivatives by the deltas along a tangent vector."""
        return list(self._product(*_arguments(point), tuple(tangent.cores)))

    def bend(self, point: Point, frames: MovingFrames) -> list[Array]:
        """The derivative of the derivatives by the deltas with frames that move."""
        pairs = zip(frames.inverse_links, frames.overlaps, strict=True)
        inside = tuple(inverse @ overlap * -1.0 for inverse, overlap in pairs)
        chains = point.right, point.left, frames.left, frames.tangent
        cores = (tuple(chain.cores) for chain in chains)
        deltas = tuple(core * 0.0 for core in point.left.cores)
        return list(self._bent(deltas, *cores, tuple(frames.inverse_links), inside))


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


def _moving_cores(
    deltas: Sequence[Any],
    right: Sequence[Any],
    left: Sequence[Any],
    moved: Sequence[Any],
    tangent: Sequence[Any],
    inverse: Sequence[Any],
    inside: Sequence[Any],
) -> list[Any]:
    """The point, plus all `U … U D V … V` with one of the frames replaced by how it moves.

    From left to right a term is in one of five states: the point itself; U so far; U of which one has moved;
    D is past and Z is to come; D and all that moves are past.
    """
    own, last, cores = library(deltas[0]), len(deltas) - 1, []
    for k, (x, u, w, z, delta) in enumerate(zip(right, left, moved, tangent, deltas, strict=True)):
        if k < last:
            opened, closed = times_right(delta, inverse[k]), times_right(delta, inside[k])
        if k == 0:
            cores.append(own.concatenate([x, u, w, opened, closed], -1))
        elif k == last:
            cores.append(own.concatenate([x, own.zeros(u.shape, u), delta, z, x], -3))
        else:
            rows = [
                [x, None, None, None, None],
                [None, u, w, opened, closed],
                [None, None, u, None, delta],
                [None, None, None, u, z],
                [None, None, None, None, x],
            ]
            cores.append(_grid(own, rows))
    return cores


def _grid(own: Library, rows: Sequence[Sequence[Any]]) -> Any:
    """A core of blocks, all of one shape; None: zeros."""
    like = rows[0][0]
    empty = own.zeros(like.shape, like)
    made = [own.concatenate([empty if block is None else block for block in row], -1) for row in rows]
    return own.concatenate(made, -3)
