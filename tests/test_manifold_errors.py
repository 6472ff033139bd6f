"""What is refused, and with which words."""

import jax
import numpy as np
import pytest
from tests.manifold_cases import RANK, SHAPE, WHERE, A, F, point
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.manifolds import FixedRankMatrices, TensorTrains

jnp = jax.numpy


X0 = tt.random(SHAPE, RANK, rng=0)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: hesse.manifolds.grad(lambda X: X)(X0), ArgumentError, "returns a train"),
        (
            lambda: hesse.manifolds.grad(lambda X: X.dense())(X0),
            ShapeError,
            "one number, not an array of shape",
        ),
        (lambda: hesse.manifolds.grad(lambda X: 1.0)(X0), ArgumentError, "does not depend on its train"),
        (
            lambda: hesse.manifolds.grad(lambda X: tt.dot(X, X))(X0.dense()),
            ArgumentError,
            "a point is a tt.TensorTrain",
        ),
        (lambda: hesse.manifolds.grad(3), ArgumentError, "a function of a train is needed"),
        (lambda: hesse.manifolds.grad(lambda X: tt.dot(X, tt.ones((5, 5, 5))))(X0), ShapeError, "shapes"),
        (
            lambda: hesse.manifolds.grad(lambda X: tt.dot(tt.eye((4,) * 4) @ X, X))(X0),
            ShapeError,
            "A has columns",
        ),
        (
            lambda: hesse.manifolds.grad(lambda X: tt.dot(X, 3.0))(X0),
            ArgumentError,
            "second argument of tt.dot",
        ),
        (
            lambda: hesse.manifolds.grad(lambda X: X.round(rank=2).norm())(X0),
            TracingError,
            "projects to another",
        ),
        (
            lambda: hesse.manifolds.grad(lambda X: tt.gather(A @ X, WHERE).sum())(X0),
            TracingError,
            "tt.rank_one",
        ),
        (
            lambda: hesse.manifolds.grad(lambda X: tt.gather(X, [[0, 0, 0, 9]]).sum())(X0),
            ArgumentError,
            "out of range",
        ),
        (
            lambda: hesse.manifolds.grad(lambda X: np.sum(np.exp(X)))(X0),
            TracingError,
            "leaves the operations of trains.*X.dense",
        ),
        (lambda: hesse.manifolds.grad(lambda X: tt.dot(X**2, X))(X0), TracingError, "leaves the operations"),
        (lambda: hesse.manifolds.grad(lambda X: X[0, 0, 0, 0])(X0), TracingError, "leaves the operations"),
        (lambda: hesse.manifolds.grad(lambda X: X + 1.0)(X0), TracingError, "leaves the operations"),
        (lambda: hesse.manifolds.grad(lambda X: 2.0 * np.sum(X))(X0), TracingError, "leaves the operations"),
        (lambda: FixedRankMatrices(3, 0, 1), ShapeError, "sizes of at least 1"),
        (lambda: TensorTrains(SHAPE, 0), ArgumentError, "ranks must be at least 1"),
        (lambda: TensorTrains(SHAPE, (2, 2)), ArgumentError, "2 ranks for the 3 inner bonds"),
        (lambda: hesse.manifolds.grad(3.0), ArgumentError, "a function of a train is needed, not a float"),
        (lambda: hesse.manifolds.grad(lambda X: X.entries())(X0), AttributeError, "no attribute 'entries'"),
        (
            lambda: hesse.manifolds.grad(
                lambda X: tt.dot(X, tt.TensorTrain([c.astype("f4") for c in F.cores]))
            )(X0),
            ArgumentError,
            "float64 and float32",
        ),
        (
            lambda: hesse.manifolds.hvp(lambda X: tt.dot(X, X))(
                X0, TensorTrains(SHAPE, 3).random_tangent(point(9))
            ),
            ArgumentError,
            "belongs to another point",
        ),
        (
            lambda: hesse.manifolds.hvp(lambda X: tt.dot(X, X))(X0, F),
            ArgumentError,
            "a direction is a tangent vector",
        ),
        (lambda: TensorTrains(SHAPE, 2).random_tangent(X0), ArgumentError, "has the ranks"),
        (lambda: TensorTrains((5, 5), 2).random_tangent(X0), ShapeError, "has the shape"),
        (lambda: TensorTrains(SHAPE, 3).project(X0, np.ones(3)), ShapeError, "projected at a point"),
        (lambda: TensorTrains(SHAPE, 3).retract(X0, X0), ArgumentError, "a tangent vector at X is needed"),
        (
            lambda: (
                TensorTrains(SHAPE, 3).random_tangent(X0) + TensorTrains(SHAPE, 3).random_tangent(point(9))
            ),
            ArgumentError,
            "different points",
        ),
        (
            lambda: FixedRankMatrices.from_factors(np.ones((3, 2)), np.ones((4, 3))),
            ShapeError,
            "one number of columns",
        ),
    ],
)
def test_errors(run, error, message):
    with pytest.raises(error, match=message):
        run()


def test_libraries_of_constants_are_checked():
    pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match="the point is of torch, a constant train of numpy"):
        hesse.manifolds.grad(lambda X: tt.dot(X, F))(in_library(X0, "torch"))


def test_the_function_that_draws_is_named():
    def noisy(X):
        return tt.dot(X, X) * np.random.normal()

    with pytest.raises(TracingError, match=r"^noisy draws random numbers"):
        hesse.manifolds.grad(noisy)(X0)
