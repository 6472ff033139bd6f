"""Riemannian derivatives of functions of matrices of low rank."""

import jax
import numpy as np
import pytest
from tests.manifold_cases import Dense, close, exact_product, norm
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.errors import ArgumentError
from hesse.manifolds import FixedRankMatrices
from oracles import evaluate_jax

jnp = jax.numpy


LEFT, RIGHT = np.random.default_rng(5).standard_normal((2, 30, 30))
ROWS, COLUMNS = np.random.default_rng(6).integers(0, 20, (2, 150))
TARGET = np.random.default_rng(8).standard_normal((30, 20))
WEIGHTS = np.random.default_rng(9).random((30, 20))

MATRIX_FUNCTIONS = {
    "entries": (
        lambda X: ((X.gather(ROWS, COLUMNS) - TARGET[ROWS, COLUMNS]) ** 2).sum(),
        lambda x: jnp.sum((x[ROWS, COLUMNS] - TARGET[ROWS, COLUMNS]) ** 2),
    ),
    "weighted dense": (
        lambda X: np.sum(WEIGHTS * (X.dense() - TARGET) ** 2),
        lambda x: jnp.sum(WEIGHTS * (x - TARGET) ** 2),
    ),
    "products with arrays": (
        lambda X: (LEFT @ X @ TARGET.T).norm() ** 2,
        lambda x: jnp.sum((LEFT @ x @ TARGET.T) ** 2),
    ),
    "factors": (
        lambda X: np.sum(np.log(1.0 + (X.left @ X.right.T) ** 2)),
        lambda x: jnp.sum(jnp.log(1.0 + x**2)),
    ),
    "transposes": (
        lambda X: np.sum((X.T @ TARGET).dense() ** 2),
        lambda x: jnp.sum((x.T @ TARGET) ** 2),
    ),
    "norm": (lambda X: X.norm(), norm),
}


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
@pytest.mark.parametrize("values", ["random", "equal", "tiny", "zero"])
def test_matrices(name, values):
    f, g = MATRIX_FUNCTIONS[name]
    generator = np.random.default_rng(0)
    u, v = (np.linalg.qr(generator.standard_normal((n, 4)))[0] for n in (30, 20))
    sigma = {
        "random": [4.0, 3.0, 2.0, 1.0],
        "equal": [2.0] * 4,
        "tiny": [2.0, 2.0, 1.0, 1e-12],
        "zero": [2.0, 1.0, 1.0, 0.0],
    }
    M = FixedRankMatrices(30, 20, 4)
    X = M.from_factors(u * np.array(sigma[values]), v)
    Z = M.random_tangent(X, rng=1)
    x, z = X.dense(), Z.dense()
    # Where singular values are zero, the frames are those of the factors, and any others are as good.
    frames = Z.point.left.cores[0][0], Z.point.right.cores[1][:, :, 0]
    left, right = frames[0] @ frames[0].T, frames[1].T @ frames[1]
    project = lambda w: left @ w + w @ right - left @ w @ right  # noqa: E731
    gradient, product = evaluate_jax(lambda x, z: jax.jvp(jax.grad(g), (x,), (z,)), x, z)
    close(hesse.manifolds.grad(f)(X).dense(), project(gradient), 1e-12)
    close(hesse.manifolds.hvp(f)(X, Z).dense(), project(product), 1e-12)
    if values in ("random", "equal"):
        wanted = exact_product(lambda x: g(x.reshape(30, 20)), Z)
        close(hesse.manifolds.hvp(f, exact=True)(X, Z).dense(), wanted, 1e-11)
    if values == "zero" and name in ("entries", "norm", "factors", "products with arrays"):
        with pytest.raises(ArgumentError, match="singular values, and at bond 1 one is zero"):
            hesse.manifolds.hvp(f, exact=True)(X, Z)


def test_frames_span_what_the_matrix_spans():
    M = FixedRankMatrices(30, 20, 4)
    X = M.random_point(rng=0)
    P = Dense(X.dense(), X.ranks)
    close(
        hesse.manifolds.grad(MATRIX_FUNCTIONS["weighted dense"][0])(X).dense(),
        P(2 * WEIGHTS * (X.dense() - TARGET)),
        1e-12,
    )


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_exact_products_of_code_that_reads_factors(library, dtype):
    pytest.importorskip(library)
    M, left = FixedRankMatrices(6, 5, 2), LEFT[:6, :6]
    X = M.random_point(rng=0)
    Z = M.random_tangent(X, rng=1)

    def function(left):
        return lambda X: ((left @ X).left @ X.right.T).sum() ** 2 + ((X.left @ X.right.T) ** 3).sum()

    wanted = hesse.manifolds.hvp(function(left), exact=True)(X, Z)
    with jax.enable_x64(dtype == "f8"):
        Y, moving = (
            in_library(tt.TensorTrain([core.astype(dtype) for core in train.cores]), library)
            for train in (X, Z.to_tt())
        )
        f = function(Y.library.like(left, Y.cores[0]))
        found = hesse.manifolds.hvp(f, exact=True)(Y, M.project(Y, moving))
        assert {str(delta.dtype) for delta in found.deltas} == {str(Y.dtype)}
        close(found.dense(), wanted.dense(), {"f8": 1e-11, "f4": 1e-4}[dtype])


def test_trust_region_of_a_product_with_an_array():
    """The nearest matrix of low rank, up to a rotation, is that of the largest singular values."""
    rotation = np.linalg.qr(LEFT)[0]
    full = tt.from_dense(TARGET, tol=1e-13)

    def distance(X):
        rest = rotation @ X - full
        return tt.dot(rest, rest)

    best = (np.linalg.svd(TARGET, compute_uv=False)[4:] ** 2).sum()
    u, s, vt = np.linalg.svd(rotation.T @ TARGET, full_matrices=False)
    start = FixedRankMatrices.from_factors(
        u[:, :4] * s[:4] + 0.1 * LEFT[:, :4], vt[:4].T + 0.01 * RIGHT[:20, :4]
    )
    result = hesse.solvers.minimize(distance, start, method="trust-region")
    assert abs(result.value / best - 1.0) < 1e-12
    lengths = [step.gradient_norm for step in result.history]
    assert lengths[-1] < 1e-6 * lengths[0] and len(lengths) < 25
