"""A train with orthogonal frames: what tangent vectors and derivatives at it are built from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hesse.tt.arrays import Array
from hesse.tt.chain import sealed
from hesse.tt.orthogonal import centred, left_orthogonal, times_left, times_right
from hesse.tt.train import TensorTrain


class Point:
    """A train X, written with frames: for each position k, `X = U1 … Uk · Ck · Vk+1 … Vd`.

    The cores of `left` (U) are orthogonal from the left, those of `right` (V) from the right, but the first:
    it is the centre, so that both `right` and the product of `left` and the last link are X. Nothing is
    inverted, so singular values may be tiny or zero. `links` are the matrices C.
    """

    def __init__(self, train: TensorTrain) -> None:
        library, cores = train.library, list(train.cores)
        if any(core.shape[-1] > math.prod(core.shape[-3:-1]) for core in cores):
            cores = centred(library, cores, len(cores) - 1)  # ranks that no left half can have
        cores = centred(library, cores, 0)
        left, links, centre = [], [], cores[0]
        for k in range(len(cores)):
            u, link = left_orthogonal(library, centre)
            left.append(sealed(u))
            links.append(link)
            centre = times_left(link, cores[k + 1]) if k + 1 < len(cores) else centre
        self.train = train
        self.library = library
        self.left = TensorTrain(left)
        self.right = TensorTrain([*map(sealed, cores)])
        self.links: list[Array] = links

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the frames: those of the train, where it does not have more than its shape allows."""
        return self.right.ranks

    def centre(self, k: int) -> Array:
        """The core at a position such that all other cores are those of the frames."""
        return times_right(self.left.cores[k], self.links[k])

    def gauged(self, deltas: Sequence[Array]) -> list[Array]:
        """The deltas of the projection: all but the last are made orthogonal to the frame at their place."""
        return [self._without_frame(k, delta) for k, delta in enumerate(deltas[:-1])] + [deltas[-1]]

    def _without_frame(self, k: int, delta: Array) -> Array:
        u = _columns(self.left.cores[k])
        flat = _columns(delta)
        return (flat - u @ (u.mT @ flat)).reshape(delta.shape)


def point_of(train: Any) -> Point:
    """The point of a train, computed once."""
    found: Point = train.memo("point", lambda: Point(train))
    return found


def _columns(core: Array) -> Array:
    *batch, left, size, right = core.shape
    return core.reshape((*batch, left * size, right))
