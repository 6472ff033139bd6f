"""The manifold of tensor trains of fixed rank; of matrices, if there are two axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.manifolds.tangent import Tangent
from hesse.tt.arrays import Array
from hesse.tt.chain import same_place
from hesse.tt.construct import Generator, checked_sizes, feasible_ranks, random
from hesse.tt.forms import Form
from hesse.tt.functional import DenseFunctional, FormFunctional, blocks
from hesse.tt.nets import Leaf, Occurrence
from hesse.tt.point import Point, point_of
from hesse.tt.train import TensorTrain


class TensorTrains:
    """Tensors of a shape and of fixed ranks, with the inner product of all tensors.

    >>> import hesse
    >>> M = hesse.manifolds.TensorTrains((4, 5, 6), rank=2)
    >>> X = M.random_point(rng=0)
    >>> T = M.random_tangent(X, rng=1)
    >>> M.retract(X, 0.1 * T), M.dimension
    (TensorTrain(shape=(4, 5, 6), ranks=(1, 2, 2, 1)), 32)
    """

    def __init__(self, shape: Sequence[int], rank: int | Sequence[int]) -> None:
        self.shape = tuple(checked_sizes(shape))
        self.ranks = tuple(feasible_ranks(self.shape, rank))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, ranks={self.ranks})"

    @property
    def dimension(self) -> int:
        """The dimension of the manifold."""
        cores = zip(self.ranks, self.shape, self.ranks[1:], strict=False)
        return sum(math.prod(sizes) for sizes in cores) - sum(rank**2 for rank in self.ranks[1:-1])

    def random_point(self, rng: Generator = None) -> TensorTrain:
        """A tensor of norm one with normally distributed cores."""
        return random(self.shape, self.ranks, rng)

    def random_tangent(self, X: TensorTrain, rng: Generator = None) -> Tangent:
        """A tangent vector of length one in a direction that is distributed evenly."""
        point = self._point(X)
        generator = np.random.default_rng(rng)
        cores = point.left.cores
        found = Tangent(
            point,
            point.gauged([point.library.like(generator.standard_normal(core.shape), core) for core in cores]),
        )
        return found / float(np.sqrt(np.sum(point.library.host(found.inner(found)))))

    def zero_tangent(self, X: TensorTrain) -> Tangent:
        """The tangent vector zero."""
        point = self._point(X)
        return Tangent(point, [core * 0.0 for core in point.left.cores])

    def project(self, X: TensorTrain, Z: TensorTrain | Tangent | Array) -> Tangent:
        """The tangent vector at X nearest to a train, a tangent vector elsewhere, or a dense tensor."""
        point = self._point(X)
        if isinstance(Z, Tangent):
            if Z.point is point:
                return Z
            Z = Z.to_tt()
        if not isinstance(Z, TensorTrain):
            if tuple(Z.shape) != X.shape:
                raise ShapeError(
                    f"a tensor of shape {tuple(Z.shape)} projected at a point of shape {X.shape}"
                )
            return Tangent(point, point.gauged(DenseFunctional(point).pull(Z)))
        same_place("a projection", X, Z)
        if Z.shape != X.shape:
            raise ShapeError(f"a train of shape {Z.shape} projected at a point of shape {X.shape}")
        batch = X.batch if X.batch is not None else Z.batch
        leaves = (Leaf(Z, (0,)), Leaf(Occurrence.VARIABLE, (0,)))
        functional = FormFunctional(Form(leaves, batch), point)
        weights = point.library.zeros(() if batch is None else (batch,), X.cores[0]) + 1.0
        with point.widely():
            return Tangent(point, point.gauged(functional.pull(weights)))

    def retract(self, X: TensorTrain, T: Tangent) -> TensorTrain:
        """The tensor X + T, rounded to the ranks of X: near X right up to second order."""
        self._own(X, T)
        return blocks(T.point, T.chain, with_point=True).round(rank=T.point.ranks[1:-1])

    def transport(self, X: TensorTrain, Y: TensorTrain, T: Tangent) -> Tangent:
        """A tangent vector at X, projected to the tangent space at Y."""
        self._own(X, T)
        return self.project(Y, T)

    def inner(self, X: TensorTrain, S: Tangent, T: Tangent) -> Array:
        """The inner product of tangent vectors at X."""
        self._own(X, S)
        return S.inner(T)

    def norm(self, X: TensorTrain, T: Tangent) -> Array:
        """The length of a tangent vector at X."""
        self._own(X, T)
        return T.norm()

    def _point(self, X: Any) -> Point:
        if not isinstance(X, TensorTrain):
            raise ArgumentError(f"a point is a tt.TensorTrain, not a {type(X).__name__}")
        if X.shape != self.shape:
            raise ShapeError(f"a point of {self} has the shape {self.shape}, not {X.shape}")
        point = point_of(X)
        if point.ranks != self.ranks:
            raise ArgumentError(
                f"a point of {self} has the ranks {self.ranks}, not {point.ranks}; X.round lowers them"
            )
        return point

    def _own(self, X: TensorTrain, T: Any) -> None:
        if not isinstance(T, Tangent):
            raise ArgumentError(f"a tangent vector at X is needed, not a {type(T).__name__}")
        if T.point is not self._point(X):
            raise ArgumentError(
                "the tangent vector belongs to another point; move it with transport(X, Y, T)"
            )


def manifold_of(X: TensorTrain) -> TensorTrains:
    """The manifold on which a train lies."""
    return TensorTrains(X.shape, point_of(X).ranks)
