"""The manifolds for users of Pymanopt, whose optimisers take them as their own."""

from __future__ import annotations

import functools
import math
from typing import Any

from hesse.backends.optional import optional
from hesse.manifolds.tangent import Tangent
from hesse.manifolds.tensor_trains import TensorTrains
from hesse.tt.train import TensorTrain


def to_pymanopt(manifold: TensorTrains) -> Any:
    """The manifold as one of Pymanopt: points are trains, tangent vectors are those of hesse.

    Costs, gradients and Hessians of a problem are `pymanopt.function.numpy(manifold)(f)` and the same of
    `hesse.manifolds.grad(f)` and `hesse.manifolds.hvp(f)`.
    """
    return _class()(manifold)


@functools.cache
def _class() -> Any:
    """The class, made when it is needed first: Pymanopt is no dependency."""
    base = optional("pymanopt.manifolds.manifold", "to_pymanopt").Manifold

    class FixedRankTrains(base):  # type: ignore[misc, valid-type]
        """Trains of fixed rank with the protocol of Pymanopt."""

        def __init__(self, manifold: TensorTrains) -> None:
            super().__init__(repr(manifold), manifold.dimension, point_layout=1)
            self.manifold = manifold

        @property
        def typical_dist(self) -> float:
            return math.sqrt(self.dim)

        def inner_product(self, point: TensorTrain, first: Tangent, second: Tangent) -> float:
            return float(self.manifold.inner(point, first, second))

        def norm(self, point: TensorTrain, vector: Tangent) -> float:
            return float(self.manifold.norm(point, vector))

        def projection(self, point: TensorTrain, vector: Any) -> Tangent:
            return self.manifold.project(point, vector)

        to_tangent_space = euclidean_to_riemannian_gradient = projection

        def random_point(self) -> TensorTrain:
            return self.manifold.random_point()

        def random_tangent_vector(self, point: TensorTrain) -> Tangent:
            return self.manifold.random_tangent(point)

        def zero_vector(self, point: TensorTrain) -> Tangent:
            return self.manifold.zero_tangent(point)

        def retraction(self, point: TensorTrain, vector: Tangent) -> TensorTrain:
            return self.manifold.retract(point, vector)

        def transport(self, first: TensorTrain, second: TensorTrain, vector: Tangent) -> Tangent:
            return self.manifold.transport(first, second, vector)

        def dist(self, first: TensorTrain, second: TensorTrain) -> float:
            """The distance in the space of all tensors."""
            return float((first - second).norm())

    return FixedRankTrains
