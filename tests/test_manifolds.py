"""Riemannian derivatives against dense projections, finite differences and slopes."""

import functools

import jax
import numpy as np
import pytest
from tests.manifold_cases import (
    FUNCTIONS,
    LINEAR,
    RANK,
    SHAPE,
    STOPPED,
    VALUES,
    WHERE,
    A,
    B,
    Dense,
    F,
    a,
    b,
    close,
    exact_product,
    f_dense,
    is_gauged,
    point,
)
from tests.test_trains import dense, in_library

import hesse
from hesse import tt
from hesse.manifolds import TensorTrains
from oracles import evaluate_jax

jnp = jax.numpy


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_against_dense_projections(name):
    f, g = FUNCTIONS[name]
    X = point()
    Z = TensorTrains(SHAPE, RANK).random_tangent(X, rng=5)
    x, z = dense(X).ravel(), Z.dense().ravel()
    value, (gradient, product) = evaluate_jax(lambda x, z: (g(x), jax.jvp(jax.grad(g), (x,), (z,))), x, z)
    project = Dense(dense(X), X.ranks)
    for _ in range(2):  # the second call is a cached one
        found, G = hesse.manifolds.value_and_grad(f)(X)
        assert np.isclose(found, value, rtol=1e-12, atol=1e-13)
        close(G.dense(), project(gradient))
        is_gauged(G)
        H = hesse.manifolds.hvp(f)(X, Z)
        close(H.dense(), project(product))
        is_gauged(H)
    if name in LINEAR:
        assert float(H.norm()) < 1e-14


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in STOPPED])
def test_exact_hessian_is_the_derivative_of_the_gradient(name):
    f, g = FUNCTIONS[name]
    X = point(seed=2)
    M = TensorTrains(SHAPE, RANK)
    Z = M.random_tangent(X, rng=3)
    H = hesse.manifolds.hvp(f, exact=True)(X, Z)
    is_gauged(H)
    close(H.dense(), exact_product(g, Z), 1e-10)
    Y = M.random_tangent(X, rng=4)
    K = hesse.manifolds.hvp(f, exact=True)(X, Y)
    assert abs(float(H.inner(Y)) - float(K.inner(Z))) <= 1e-12 * max(1.0, float(H.norm()))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in STOPPED])
def test_approximate_hessian_is_symmetric(name):
    f, _ = FUNCTIONS[name]
    X, M = point(seed=4), TensorTrains(SHAPE, RANK)
    Y, Z = M.random_tangent(X, rng=1), M.random_tangent(X, rng=2)
    product = hesse.manifolds.hvp(f)
    left, right = product(X, Y).inner(Z), product(X, Z).inner(Y)
    assert abs(float(left) - float(right)) <= 1e-12 * max(1.0, abs(float(left)))
    both = product(X, 2.0 * Y - Z)
    close(both.dense(), (2.0 * product(X, Y) - product(X, Z)).dense(), 1e-12)


@pytest.mark.parametrize(
    "name", ["quadratic", "gram", "rayleigh", "completion", "exponential machine", "cubes"]
)
def test_slopes_along_the_retraction(name):
    f = FUNCTIONS[name][0]
    X, M = point(seed=1), TensorTrains(SHAPE, RANK)
    T = M.random_tangent(X, rng=0)
    value, G = hesse.manifolds.value_and_grad(f)(X)
    orders = {}
    for exact in (False, True):
        H = hesse.manifolds.hvp(f, exact=exact)(X, T)
        errors = [
            abs(f(M.retract(X, T * t)) - value - t * G.inner(T) - 0.5 * t**2 * H.inner(T))
            for t in (1e-2, 1e-3)
        ]
        orders[exact] = np.log10(errors[0] / errors[1])
    assert 2.8 < orders[True] < 3.4 and orders[False] < 2.2


def test_both_hessians_agree_where_the_residual_is_zero():
    X, M = point(seed=1), TensorTrains(SHAPE, RANK)
    target = tt.TensorTrain(X.cores)
    f = lambda X: tt.dot(X - target, X - target)  # noqa: E731
    Z = M.random_tangent(X, rng=0)
    rough, exact = (hesse.manifolds.hvp(f, exact=e)(X, Z) for e in (False, True))
    close(rough.dense(), exact.dense(), 1e-12)
    close(rough.dense(), 2.0 * Z.dense(), 1e-12)
    assert float(rough.norm()) > 1.0


def other_gauge(X, seed):
    """Other cores of the same tensor."""
    cores = [np.array(core) for core in X.cores]
    generator = np.random.default_rng(seed)
    for k in range(len(cores) - 1):
        rank = cores[k].shape[2]
        change = generator.standard_normal((rank, rank)) + 3 * np.eye(rank)
        cores[k] = cores[k] @ change
        cores[k + 1] = np.einsum("ab,bic->aic", np.linalg.inv(change), cores[k + 1])
    return tt.TensorTrain(cores)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gauge_changes(name):
    f, M = FUNCTIONS[name][0], TensorTrains(SHAPE, RANK)
    X = point()
    Y = other_gauge(X, seed=3)
    Z = M.random_tangent(X, rng=1)
    W = M.project(Y, Z.to_tt())
    close(hesse.manifolds.grad(f)(Y).dense(), hesse.manifolds.grad(f)(X).dense(), 1e-11)
    for exact in (False, True):
        product = hesse.manifolds.hvp(f, exact=exact)
        close(product(Y, W).dense(), product(X, Z).dense(), 1e-10)


@pytest.mark.parametrize(
    "name", ["quadratic", "gram", "rayleigh", "completion", "exponential machine", "norm"]
)
def test_ranks_above_the_bound(name):
    f, g = FUNCTIONS[name]
    X = tt.random(SHAPE, (5, 8, 5), rng=1) + tt.random(SHAPE, (5, 8, 5), rng=2)
    assert X.ranks == (1, 10, 16, 10, 1)  # where 5, 16 and 5 are possible
    value, G = hesse.manifolds.value_and_grad(f)(X)
    assert G.point.ranks == (1, 5, 16, 5, 1)
    Z = TensorTrains(SHAPE, (5, 16, 5)).random_tangent(X, rng=3)
    H = hesse.manifolds.hvp(f)(X, Z)
    x = dense(X)
    gradient, product, expected = evaluate_jax(
        lambda x, z: (*jax.jvp(jax.grad(g), (x,), (z,)), g(x)), x.ravel(), Z.dense().ravel()
    )
    assert np.isclose(float(value), float(expected))
    project = Dense(x, (1, 5, 16, 5, 1))
    close(G.dense(), project(gradient))
    close(H.dense(), project(product))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_words_of_large_trains_agree_with_each_of_them(dtype):
    """Products with few words go position by position, on threads; those with one word do not."""
    generator = np.random.default_rng(3)
    vectors = [generator.standard_normal((4, size)).astype(dtype) for size in (150, 700, 600)]
    X = tt.TensorTrain([core.astype(dtype) for core in tt.random((150, 700, 600), 20, rng=4).cores])
    Z = TensorTrains(X.shape, 20).random_tangent(X, rng=5)
    separate = [tt.rank_one([rows[k] for rows in vectors]) for k in range(4)]
    both = (
        lambda X: np.exp(tt.dot(tt.rank_one(vectors), X)).sum(),
        lambda X: sum(np.exp(tt.dot(word, X)) for word in separate),
    )
    tolerance = {"f8": 1e-12, "f4": 1e-4}[dtype]
    for _ in range(2):
        found, wanted = (hesse.manifolds.value_and_grad(f)(X) for f in both)
        assert abs(found[0] - wanted[0]) <= tolerance * abs(wanted[0])
        assert (found[1] - wanted[1]).norm() <= tolerance * wanted[1].norm()
        mine, other = (hesse.manifolds.hvp(f)(X, Z) for f in both)
        assert (mine - other).norm() <= tolerance * other.norm()


@pytest.mark.parametrize("least", [1e-2, 1e-8, 0.0])
def test_words_of_trains_with_small_singular_values(least):
    """The frames on the left are not inverted, nor what is read with them."""
    generator = np.random.default_rng(3)
    vectors = [generator.standard_normal((4, 40)) for _ in range(3)]
    cores = [np.array(core) for core in tt.random((40, 40, 40), 3, rng=4).cores]
    cores[1][2] *= least
    X = tt.TensorTrain(cores)
    words_ = np.einsum("si,sj,sk->sijk", *vectors).reshape(4, -1)
    value, gradient = evaluate_jax(jax.value_and_grad(lambda x: jnp.exp(words_ @ x).sum()), X.dense().ravel())
    found = hesse.manifolds.value_and_grad(lambda X: np.exp(tt.dot(tt.rank_one(vectors), X)).sum())(X)
    assert np.isclose(float(found[0]), float(value))
    is_gauged(found[1])
    close(
        found[1].dense(),
        TensorTrains(X.shape, 3).project(X, tt.from_dense(gradient.reshape(X.shape))).dense(),
    )


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_squared_norms_need_no_environments(library, dtype):
    """The gradient is twice the train: all deltas but the last are zero, not only nearly."""
    X = in_library(tt.TensorTrain([core.astype(dtype) for core in (point() * 3.0).cores]), library)
    M = TensorTrains(X.shape, RANK)
    Z = M.random_tangent(X, rng=1)
    square = lambda X: tt.dot(X, X)  # noqa: E731
    tolerance = {"f8": 1e-12, "f4": 1e-5}[dtype]
    for _ in range(2):
        value, G = hesse.manifolds.value_and_grad(square)(X)
        assert all(np.all(np.asarray(delta) == 0.0) for delta in G.deltas[:-1])
        close(value, (dense(X) ** 2).sum(), tolerance)
        close(G.dense(), 2.0 * dense(X), tolerance)
        close(hesse.manifolds.hvp(square)(X, Z).dense(), 2.0 * np.asarray(Z.dense()), tolerance)


def test_batches_of_trains():
    generator = np.random.default_rng(0)
    batch = tt.TensorTrain([generator.standard_normal((3, *core.shape)) * 0.5 for core in point().cores])
    Z = TensorTrains(SHAPE, RANK).random_tangent(batch, rng=0)
    f = lambda X: np.sum(np.sin(tt.dot(A @ X, X)) + tt.dot(X, F))  # noqa: E731
    value, G = hesse.manifolds.value_and_grad(f)(batch)
    H = hesse.manifolds.hvp(f)(batch, Z)
    E = hesse.manifolds.hvp(f, exact=True)(batch, Z)
    total = 0.0
    for k in range(3):
        X = tt.TensorTrain([core[k] for core in batch.cores])
        own, g = hesse.manifolds.value_and_grad(f)(X)
        total += own
        z = TensorTrains(SHAPE, RANK).project(X, np.asarray(Z.dense())[k])
        close(np.asarray(G.dense())[k], g.dense(), 1e-11)
        close(np.asarray(H.dense())[k], hesse.manifolds.hvp(f)(X, z).dense(), 1e-10)
        close(np.asarray(E.dense())[k], hesse.manifolds.hvp(f, exact=True)(X, z).dense(), 1e-9)
    assert np.isclose(value, total)


def test_project_residual():
    X = point()
    found = hesse.manifolds.project_residual(A, B, F)(X)
    wanted = Dense(dense(X), X.ranks)(b @ (a @ dense(X).ravel() - f_dense.ravel()))
    close(found.dense(), wanted, 1e-12)


def test_manifold_operations():
    M = TensorTrains(SHAPE, RANK)
    X, Y = M.random_point(rng=0), M.random_point(rng=1)
    S_, T = M.random_tangent(X, rng=2), M.random_tangent(X, rng=3)
    assert np.isclose(M.inner(X, S_, T), np.sum(S_.dense() * T.dense()))
    assert np.isclose(float(T.norm()), 1.0) and np.isclose(np.linalg.norm(T.dense()), 1.0)
    z = np.random.default_rng(0).standard_normal(SHAPE)
    close(M.project(X, z).dense(), Dense(dense(X), X.ranks)(z), 1e-12)
    close(M.project(X, F).dense(), Dense(dense(X), X.ranks)(f_dense), 1e-12)
    close(M.project(X, S_).dense(), S_.dense(), 1e-14)
    close(M.transport(X, Y, T).dense(), Dense(dense(Y), Y.ranks)(T.dense()), 1e-12)
    close(M.retract(X, M.zero_tangent(X)).dense(), dense(X), 1e-13)
    steps = [np.linalg.norm(M.retract(X, T * t).dense() - dense(X) - t * T.dense()) for t in (1e-2, 1e-3)]
    assert 1.9 < np.log10(steps[0] / steps[1]) < 2.1
    assert M.retract(X, T).ranks == X.ranks
    close((2.0 * S_ - T / 4.0 + (-T)).dense(), 2 * S_.dense() - 1.25 * T.dense(), 1e-13)
    assert M.dimension == 15 + 45 + 45 + 15 - 27


# Matrices of fixed rank.


def test_norm_at_zero_is_finite():
    X = tt.random(SHAPE, RANK, rng=0) * 0.0
    G = hesse.manifolds.grad(lambda X: X.norm())(X)
    assert float(G.norm()) == 0.0


# Changes of what a function reads.


def test_changed_surroundings_are_seen():
    X = point()
    values = np.zeros(200)
    where = np.array(WHERE)
    f = lambda X: ((tt.gather(X, tuple(where)) - values) ** 2).sum()  # noqa: E731
    gradient = hesse.manifolds.grad(f)
    product = hesse.manifolds.hvp(f)
    Z = TensorTrains(SHAPE, RANK).random_tangent(X, rng=0)
    x, project = dense(X), Dense(dense(X), X.ranks)

    def wanted(weights):
        out = np.zeros(SHAPE)
        np.add.at(out, tuple(where), weights)
        return project(out)

    for _ in range(2):
        close(gradient(X).dense(), wanted(2 * (x[tuple(where)] - values)), 1e-12)
        close(product(X, Z).dense(), wanted(2 * Z.dense()[tuple(where)]), 1e-12)
        values[:] = VALUES
    where[0, :] = (where[0] + 1) % 5
    close(gradient(X).dense(), wanted(2 * (x[tuple(where)] - values)), 1e-12)
    close(product(X, Z).dense(), wanted(2 * Z.dense()[tuple(where)]), 1e-12)


def test_one_gradient_for_several_shapes():
    gradient = hesse.manifolds.grad(lambda X: tt.dot(X, X) * X.shape[0])
    for shape in ((3, 4), (5, 4), (2, 3, 4), (7,)):
        X = tt.random(shape, 1, rng=0)
        close(gradient(X).dense(), 2.0 * shape[0] * X.dense(), 1e-12)


def test_long_trains_in_single_precision():
    size, count = 20, 100
    second = 2.0 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1)
    identity = np.eye(size)
    middle = np.zeros((2, size, size, 2))
    middle[0, :, :, 0], middle[0, :, :, 1], middle[1, :, :, 1] = identity, second, identity
    first = np.zeros((1, size, size, 2))
    first[0, :, :, 0], first[0, :, :, 1] = identity, second
    last = np.zeros((2, size, size, 1))
    last[0, :, :, 0], last[1, :, :, 0] = second, identity
    cores = [first, *[middle] * (count - 2), last]
    found = {}
    for dtype in ("f4", "f8"):
        operator = tt.TTMatrix([core.astype(dtype) for core in cores])
        X = tt.TensorTrain([core.astype(dtype) for core in tt.random((size,) * count, 4, rng=0).cores])
        f = lambda X: tt.dot(operator @ X, X) / tt.dot(X, X)  # noqa: B023, E731
        value, G = hesse.manifolds.value_and_grad(f)(X)
        found[dtype] = float(value), float(G.norm()), float(hesse.manifolds.hvp(f)(X, G).norm())
        assert G.deltas[0].dtype == dtype
    np.testing.assert_allclose(found["f4"], found["f8"], rtol=1e-3)
    assert 100.0 < found["f8"][0] < 400.0


def test_methods_and_partial_functions():
    class Model:
        def __init__(self):
            self.factor = 2.0

        def loss(self, X, power=1):
            return self.factor * tt.dot(X, F) ** power

    model, X = Model(), point()
    gradient = hesse.manifolds.grad(model.loss)
    wanted = Dense(dense(X), X.ranks)(f_dense)
    close(gradient(X).dense(), 2.0 * wanted, 1e-12)
    model.factor = 5.0
    close(gradient(X).dense(), 5.0 * wanted, 1e-12)
    square = hesse.manifolds.grad(functools.partial(model.loss, power=2))(X)
    close(square.dense(), 10.0 * float(tt.dot(X, F)) * wanted, 1e-12)
