"""Riemannian derivatives against dense projections, finite differences and slopes.

The oracle knows nothing of trains: JAX differentiates the dense function, and the projection is made from
SVDs of the dense tensor.
"""

import copy
import functools
import os
import signal
import warnings
import weakref

import jax
import numpy as np
import pytest
from tests.test_trains import dense, in_library, matrix

import hesse
from hesse import tt
from hesse.api.captured import SMALL_INDEX
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.manifolds import FixedRankMatrices, TensorTrains
from hesse.manifolds.derivatives import Objective
from hesse.tt import arrays, entries_kernel, gram_frames, merged, positions, runs, threads
from hesse.tt.point import point_of
from oracles import evaluate_jax, fast_jit

jnp = jax.numpy
SHAPE, RANK = (5, 5, 5, 5), 3
SIZE = int(np.prod(SHAPE))
rng = np.random.default_rng(7)
A = tt.random_matrix([(5, 5)] * 4, 2, rng=1)
B = tt.random_matrix([(5, 5)] * 4, 2, rng=2)
S = A + A.T
F = tt.random(SHAPE, 2, rng=3)
WHERE = tuple(rng.integers(0, 5, (4, 200)))
VALUES = rng.standard_normal(200) * 0.1
WORDS = tt.rank_one([rng.standard_normal((6, 5)) for _ in range(4)])
FEW_WORDS = tt.rank_one([rng.standard_normal((3, 5)) for _ in range(4)])
LABELS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
a, b, s, f_dense = matrix(A), matrix(B), matrix(S), dense(F)
words, few_words = np.asarray(WORDS.dense()).reshape(6, -1), np.asarray(FEW_WORDS.dense()).reshape(3, -1)
stop = jax.lax.stop_gradient


def norm(x):
    return jnp.sqrt(jnp.sum(x * x))


FUNCTIONS = {
    "quadratic": (lambda X: tt.dot(S @ X, X), lambda x: x @ s @ x),
    "quadratic, not symmetric": (lambda X: tt.dot(A @ X, X), lambda x: x @ a @ x),
    "gram": (lambda X: tt.dot(A @ X, A @ X), lambda x: jnp.sum((a @ x) ** 2)),
    "gram by transposes": (lambda X: tt.dot(X, A.T @ (A @ X)), lambda x: jnp.sum((a @ x) ** 2)),
    "rayleigh": (lambda X: tt.dot(S @ X, X) / tt.dot(X, X), lambda x: x @ s @ x / (x @ x)),
    "completion": (
        lambda X: ((tt.gather(X, WHERE) - VALUES) ** 2).sum(),
        lambda x: jnp.sum((x.reshape(SHAPE)[WHERE] - VALUES) ** 2),
    ),
    "exponential machine": (
        lambda X: np.sum(np.log(1.0 + np.exp(-LABELS * tt.dot(WORDS, X)))),
        lambda x: jnp.sum(jnp.log(1.0 + jnp.exp(-LABELS * (words @ x)))),
    ),
    "few words": (
        lambda X: np.sum(np.sin(3.0 * tt.dot(X, FEW_WORDS))) + np.prod(tt.dot(FEW_WORDS, X)),
        lambda x: jnp.sum(jnp.sin(3.0 * (few_words @ x))) + jnp.prod(few_words @ x),
    ),
    "norm": (lambda X: (X - F).norm(), lambda x: norm(x - f_dense.ravel())),
    "linear": (lambda X: tt.dot(X, F), lambda x: x @ f_dense.ravel()),
    "logarithm of a sum": (
        lambda X: np.log(2.0 + tt.dot(X, F) ** 2 + X.norm()),
        lambda x: jnp.log(2.0 + (x @ f_dense.ravel()) ** 2 + norm(x)),
    ),
    "fourth powers": (lambda X: 40 * tt.dot(X * X, X * X), lambda x: 40 * jnp.sum(x**4)),
    "cubes": (lambda X: 20 * tt.dot(X * X, X * F), lambda x: 20 * jnp.sum(x**3 * f_dense.ravel())),
    "rounding inside": (
        lambda X: tt.dot((X + S @ X).round(tol=1e-10), X - F),
        lambda x: (x + s @ x) @ (x - f_dense.ravel()),
    ),
    "sums of trains": (
        lambda X: tt.dot(2.0 * X - F + X / 4.0, A @ (X + F) - X),
        lambda x: (2.25 * x - f_dense.ravel()) @ (a @ (x + f_dense.ravel()) - x),
    ),
    "preconditioned": (
        lambda X: tt.dot(B @ (A @ hesse.stop_gradient(X) - F), X),
        lambda x: (b @ (a @ stop(x) - f_dense.ravel())) @ x,
    ),
    "stopped coefficient": (
        lambda X: tt.dot((hesse.stop_gradient(X * tt.dot(X, F)) + X), A @ X) * 3.0,
        lambda x: 3.0 * ((stop(x * (x @ f_dense.ravel())) + x) @ (a @ x)),
    ),
    "number times a train": (
        lambda X: tt.dot(np.exp(tt.dot(X, F)) * X, A @ X),
        lambda x: jnp.exp(x @ f_dense.ravel()) * (x @ a @ x),
    ),
    "batched squares": (
        lambda X: np.sum(np.sin(tt.dot(WORDS, X * X))),
        lambda x: jnp.sum(jnp.sin(words @ (x * x))),
    ),
    "dense": (
        lambda X: np.sum(np.exp((A @ X - X).dense()) * f_dense),
        lambda x: jnp.sum(jnp.exp(a @ x - x) * f_dense.ravel()),
    ),
    "entries of products": (
        lambda X: np.sum(tt.gather(X * X - F, WHERE) * VALUES),
        lambda x: jnp.sum((x**2 - f_dense.ravel()).reshape(SHAPE)[WHERE] * VALUES),
    ),
    "cores": (
        lambda X: np.einsum("aib,bjc,ckd,dle->", *X.cores) ** 2 + tt.dot(A @ X, X),
        lambda x: jnp.sum(x) ** 2 + x @ a @ x,
    ),
}
FIVE = ["quadratic", "gram", "rayleigh", "completion", "exponential machine"]
"""Those of section 7.1 of the paper."""
LINEAR = ["linear"]
OPAQUE = ["cores"]
STOPPED = ["preconditioned", "stopped coefficient"]


class Dense:
    """The projection to the tangent space at a dense tensor, from its SVDs."""

    def __init__(self, x, ranks):
        self.shape = x.shape
        self.frames = []
        for k in range(1, x.ndim):
            u, _, vt = np.linalg.svd(x.reshape(int(np.prod(x.shape[:k])), -1), full_matrices=False)
            self.frames.append((u[:, : ranks[k]], vt[: ranks[k]]))

    def __call__(self, z):
        """The sum over positions, each made orthogonal to what is on its left."""
        z, count = np.asarray(z).reshape(self.shape), len(self.shape)
        total = np.zeros(z.size)
        for k in range(count):
            part = z.reshape(-1)
            if k + 1 < count:
                vt = self.frames[k][1]
                part = (part.reshape(-1, vt.shape[1]) @ vt.T @ vt).reshape(-1)
            if k > 0:
                u = self.frames[k - 1][0]
                part = (u @ (u.T @ part.reshape(u.shape[0], -1))).reshape(-1)
            if k + 1 < count:
                u = self.frames[k][0]
                full = part.reshape(u.shape[0], -1)
                part = (full - u @ (u.T @ full)).reshape(-1)
            total += part
        return total


def point(seed=0, rank=RANK):
    return tt.random(SHAPE, rank, rng=seed) * 1.5


def close(found, wanted, tolerance=1e-10):
    found, wanted = np.asarray(found).ravel(), np.asarray(wanted).ravel()
    assert np.linalg.norm(found - wanted) <= tolerance * max(1.0, np.linalg.norm(wanted))


def is_gauged(tangent):
    left = tangent.point.left.cores
    for u, delta in list(zip(left, tangent.deltas, strict=True))[:-1]:
        overlap = np.einsum("aib,aic->bc", np.asarray(u), np.asarray(delta))
        assert np.abs(overlap).max() <= 1e-12 * max(1.0, np.abs(np.asarray(delta)).max())


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


def field(g, cores):
    """The Riemannian gradient, dense, as a smooth function of any cores: projections from interfaces."""
    whole, lefts, rights = jnp.ones((1, 1)), [], [jnp.ones((1, 1))]
    for core in cores:
        whole = jnp.einsum("xa,aib->xib", whole, core).reshape(-1, core.shape[2])
        lefts.append(whole)
    for core in reversed(cores[1:]):
        rights.append(jnp.einsum("aib,bx->aix", core, rights[-1]).reshape(core.shape[0], -1))
    x = whole.ravel()
    gradient, total = jax.grad(lambda x: g(x).reshape(()))(x), 0.0
    onto = lambda a: a @ jnp.linalg.solve(a.T @ a, a.T)  # noqa: E731
    for k in range(len(cores)):
        part = gradient
        if k + 1 < len(cores):
            right = onto(rights[-1 - k].T)
            part = (part.reshape(-1, len(right)) @ right).ravel()
            left = onto(lefts[k])
            part = (part.reshape(len(left), -1) - left @ part.reshape(len(left), -1)).ravel()
        if k > 0:
            left = onto(lefts[k - 1])
            part = (left @ part.reshape(len(left), -1)).ravel()
        total = total + part
    return total


def exact_product(g, Z):
    """The derivative of the Riemannian gradient along a tangent vector, dense, by JAX."""
    point_ = Z.point
    links = point_.links[:-1]
    steps = [delta @ np.linalg.inv(link) for delta, link in zip(Z.deltas, links, strict=False)]
    cores = [*point_.left.cores[:-1], point_.centre(len(links))]
    directions = (*steps, Z.deltas[-1])
    product = fast_jit(lambda *both: jax.jvp(lambda *cores: field(g, cores), *both)[1])
    found = product(tuple(cores), directions)
    x = point_.train.dense()
    return Dense(x, point_.train.ranks)(np.asarray(found))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OPAQUE + STOPPED])
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


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OPAQUE])
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


IN_TORCH = [
    "quadratic",
    "gram",
    "rayleigh",
    "completion",
    "exponential machine",
    "norm",
    "fourth powers",
    "sums of trains",
    "stopped coefficient",
    "dense",
    "cores",
]


@pytest.mark.parametrize("name", IN_TORCH)
def test_torch(name, monkeypatch):
    f, _ = FUNCTIONS[name]
    X, M = point(), TensorTrains(SHAPE, RANK)
    Z = M.random_tangent(X, rng=1)
    wanted, value = [hesse.manifolds.grad(f)(X), hesse.manifolds.hvp(f)(X, Z)], f(X)
    for constant in ("A", "S", "F", "WORDS"):
        monkeypatch.setitem(globals(), constant, in_library(globals()[constant], "torch"))
    Y = in_library(X, "torch")
    found, G = hesse.manifolds.value_and_grad(f)(Y)
    close(G.dense(), wanted[0].dense(), 1e-11)
    assert type(G.deltas[0]) is type(Y.cores[0]) is type(found) and np.isclose(float(found), value)
    direction = M.project(Y, in_library(Z.to_tt(), "torch"))
    close(hesse.manifolds.hvp(f)(Y, direction).dense(), wanted[1].dense(), 1e-10)
    close(M.retract(Y, direction).dense(), M.retract(X, Z).dense(), 1e-11)


def test_jax():
    """Two positions only: JAX compiles each operation for each shape."""
    M, operator = TensorTrains((4, 4), 2), tt.random_matrix([(4, 4)] * 2, 2, rng=0)
    X, where = M.random_point(0), tuple(np.random.default_rng(0).integers(0, 4, (2, 9)))
    Z = M.random_tangent(X, rng=1)

    def function(operator):
        return lambda X: np.exp(tt.dot(operator @ X, X)) + np.sum(tt.gather(X, where) ** 2)

    plain = function(operator)
    with jax.enable_x64(True):
        Y, f = in_library(X, "jax"), function(in_library(operator, "jax"))
        found, G = hesse.manifolds.value_and_grad(f)(Y)
        assert isinstance(G.deltas[0], jax.Array) and np.isclose(float(found), plain(X))
        close(G.dense(), hesse.manifolds.grad(plain)(X).dense(), 1e-12)
        direction = M.project(Y, in_library(Z.to_tt(), "jax"))
        close(hesse.manifolds.hvp(f)(Y, direction).dense(), hesse.manifolds.hvp(plain)(X, Z).dense(), 1e-12)


IN_JAX = {
    "quadratic": lambda c: lambda X: tt.dot(c["S"] @ X, X),
    "gram": lambda c: lambda X: tt.dot(c["A"] @ X, c["A"] @ X),
    "rayleigh": lambda c: lambda X: tt.dot(c["S"] @ X, X) / tt.dot(X, X),
    "completion": lambda c: lambda X: ((tt.gather(X, WHERE) - VALUES) ** 2).sum(),
    "exponential machine": lambda c: lambda X: jnp.log(1.0 + jnp.exp(-LABELS * tt.dot(c["WORDS"], X))).sum(),
}


@pytest.mark.parametrize("name", IN_JAX)
def test_jax_compiles_the_five_functions(name):
    plain = FUNCTIONS[name][0]
    with jax.enable_x64(True):
        f = IN_JAX[name]({n: in_library(globals()[n], "jax") for n in ("A", "S", "WORDS")})

        @jax.jit
        def both(cores):
            Y = tt.TensorTrain(cores)
            gradient = hesse.manifolds.grad(f)(Y)
            product = hesse.manifolds.hvp(f)(Y, gradient)
            return gradient.to_tt().cores, product.to_tt().cores

        for point_ in (point(), point(seed=1)):  # the second call is compiled already
            G = hesse.manifolds.grad(plain)(point_)
            gradient, product = both(in_library(point_, "jax").cores)
            close(tt.TensorTrain(gradient).dense(), G.dense(), 1e-11)
            close(tt.TensorTrain(product).dense(), hesse.manifolds.hvp(plain)(point_, G).dense(), 1e-10)


def test_torch_never_waits_for_results(monkeypatch):
    """What a CUDA graph can capture: no number is read, nothing is copied from or to the host."""
    torch = pytest.importorskip("torch")
    modes = pytest.importorskip("torch.utils._python_dispatch")
    labels, values = torch.tensor(LABELS), torch.tensor(VALUES)
    many = tuple(np.random.default_rng(0).integers(0, SHAPE, (SMALL_INDEX + 1, len(SHAPE))).T)
    operator, words_ = in_library(S, "torch"), in_library(WORDS, "torch")
    functions = {
        "rayleigh": lambda X: tt.dot(operator @ X, X) / tt.dot(X, X),
        "completion": lambda X: ((tt.gather(X, WHERE) - values) ** 2).sum(),
        "completion from many entries": lambda X: ((tt.gather(X, many) - 1.0) ** 2).sum(),
        "exponential machine": lambda X: torch.log(1.0 + torch.exp(-labels * tt.dot(words_, X))).sum(),
    }
    seen = set()

    class Watch(modes.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            seen.add(str(function).split(".")[1])
            return function(*arguments, **(options or {}))

    monkeypatch.setattr(gram_frames, "serves", lambda library, cores: True)
    cores = in_library(point(), "torch").cores
    undecided = arrays.library(cores[0])._replace(decided=lambda condition: None)
    monkeypatch.setitem(arrays._made, "torch", undecided)
    for f in functions.values():
        objective = Objective(f)

        def call(objective=objective):
            X = tt.TensorTrain(cores)
            return objective.hvp(X, objective.value_and_grad(X)[1])

        call()
        with Watch():
            call()
    assert "mm" in seen and not seen & {
        "_local_scalar_dense",
        "_to_copy",
        "lift_fresh",
        "copy_",
        "nonzero",
        "item",
    }


def with_singular_values(values):
    """A train with given singular values at its middle bond, of scales that differ from core to core."""
    X = tt.random(SHAPE, len(values), rng=0).orthogonalize(1)
    cores = [np.array(core) for core in X.cores]
    left, size, right = cores[1].shape
    u, _, vt = np.linalg.svd(cores[1].reshape(left * size, right), full_matrices=False)
    cores[1] = ((u * values) @ vt).reshape(cores[1].shape)
    return tt.TensorTrain([core * scale for core, scale in zip(cores, (1e3, 1e-5, 1e4, 1e-2), strict=True)])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("least", [1.0, 1e-3, 1e-6, 1e-11])
def test_frames_from_gram_matrices(dtype, least):
    """The frames of GPUs: orthogonal, and with each link the train itself."""
    torch = pytest.importorskip("torch")
    X = with_singular_values(np.geomspace(1.0, least, 3))
    cores = [torch.tensor(np.array(core), dtype=getattr(torch, dtype)) for core in X.cores]
    found, fits = gram_frames.frames(arrays.library(cores[0]), cores)
    eps = float(np.finfo(dtype).eps)
    assert bool(fits)
    left, links, right = ([np.asarray(a, "f8") for a in chain] for chain in found)
    for k in range(len(SHAPE)):
        u = left[k].reshape(-1, left[k].shape[2])
        assert np.abs(u.T @ u - np.eye(u.shape[1])).max() < 100 * eps
        if k:
            v = right[k].reshape(len(right[k]), -1)
            assert np.abs(v @ v.T - np.eye(len(v))).max() < 100 * eps
        joined = tt.TensorTrain([*left[:k], np.einsum("aib,bc->aic", left[k], links[k]), *right[k + 1 :]])
        close(dense(joined), dense(X), 100 * eps)


@pytest.mark.parametrize("least", [1.0, 0.0])
def test_derivatives_with_frames_from_gram_matrices(least, monkeypatch):
    """Also where singular values are zero, and QR decompositions follow if that can be decided."""
    pytest.importorskip("torch")
    cores = [np.array(core) for core in with_singular_values(np.array([1.0, 0.5, 1e-3])).cores]
    cores[1][:, :, -1] *= least  # exactly zero: frames of what is only rounded are any
    X, operator = in_library(tt.TensorTrain(cores), "torch"), in_library(A, "torch")
    f = lambda X: tt.dot(operator @ X, X) / tt.dot(X, X)  # noqa: E731
    wanted = hesse.manifolds.grad(f)(X)
    monkeypatch.setattr(gram_frames, "serves", lambda library, cores: True)
    found = hesse.manifolds.grad(f)(tt.TensorTrain(X.cores))
    close(found.dense(), wanted.dense(), 1e-11)
    undecided = arrays.library(X.cores[0])._replace(decided=lambda condition: None)
    monkeypatch.setitem(arrays._made, "torch", undecided)
    found = hesse.manifolds.grad(f)(tt.TensorTrain(X.cores))
    if least:
        close(found.dense(), wanted.dense(), 1e-11)
    else:
        assert all(bool(delta.isnan().all()) for delta in found.deltas)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e12, np.inf])
def test_orthogonal_frames_by_products(dtype, condition):
    """The decomposition of GPUs, which says itself whether it is one."""
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(0)
    u, v = (np.linalg.qr(generator.standard_normal((n, 8)))[0] for n in (160, 8))
    values = np.geomspace(1.0, 1.0 / min(condition, 1e12), 8)
    if np.isinf(condition):
        v, values[-1] = np.eye(8), 0.0  # a column of zeros, which rounding does not fill
    a = torch.tensor((u * values) @ v, dtype=getattr(torch, dtype))
    q, r, fits = arrays.cholesky_qr(
        a,
        lambda gram: torch.linalg.cholesky_ex(gram)[0],
        lambda q, lower: torch.linalg.solve_triangular(lower.mT, q, upper=True, left=False),
        torch.eye(8, dtype=a.dtype),
    )
    eps = torch.finfo(a.dtype).eps
    assert bool(fits) or condition > (1e12 if dtype == "float64" else 1e4)
    assert not (bool(fits) and np.isinf(condition))
    if bool(fits):
        assert float((q.mT @ q - torch.eye(8, dtype=a.dtype)).abs().max()) < 100 * eps
        assert float((q @ r - a).abs().max()) < 100 * eps


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


def test_points_are_gone_with_their_trains():
    X = point()
    gradient = hesse.manifolds.grad(lambda X: tt.dot(S @ X, X))(X)
    assert gradient.point.train is X
    gone = weakref.ref(X)
    del X
    assert gone() is None  # without a search for cycles
    assert point_of(gradient.point.train) is gradient.point
    assert gradient.shape == SHAPE


def test_a_copied_tangent_vector_belongs_to_the_train_of_its_own_point():
    X = point()
    f = lambda X: tt.dot(S @ X, X)  # noqa: E731
    gradient = hesse.manifolds.grad(f)(X)
    copied = copy.deepcopy(gradient)
    assert copied.point.train is not X
    found = hesse.manifolds.hvp(f)(copied.point.train, copied)
    close(found.dense(), hesse.manifolds.hvp(f)(X, gradient).dense(), 1e-12)


def test_a_point_does_not_belong_to_cores_that_were_changed():
    torch = pytest.importorskip("torch")
    cores = [torch.as_tensor(np.array(core)) for core in point().cores]
    f = lambda X: tt.dot(X, X)  # noqa: E731
    X = tt.TensorTrain(cores)
    gradient = hesse.manifolds.grad(f)(X)
    del X
    cores[1].mul_(2.0)
    for changed in (gradient.point.train, copy.copy(gradient.point).train):
        value, own = hesse.manifolds.value_and_grad(f)(changed)
        assert own.point is not gradient.point
        torch.testing.assert_close(value, torch.sum(changed.dense() ** 2))
    again = copy.copy(own.point)
    assert point_of(again.train) is again


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
        lambda X: (LEFT @ X @ TARGET.T).norm() ** 2 + np.sum(X.left) * 0.0,
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
    if values in ("random", "equal") and name in ("entries", "weighted dense", "norm"):
        wanted = exact_product(lambda x: g(x.reshape(30, 20)), Z)
        close(hesse.manifolds.hvp(f, exact=True)(X, Z).dense(), wanted, 1e-11)
    if values == "zero" and name in ("entries", "norm"):
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
        (
            lambda: hesse.manifolds.hvp(lambda X: np.sum(X.cores[0]) * X.norm(), exact=True)(
                X0, TensorTrains(SHAPE, 3).random_tangent(X0)
            ),
            ArgumentError,
            "reads cores",
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


@pytest.mark.parametrize("shape", [(5, 5, 5, 5), (30, 20), (7,)])
@pytest.mark.parametrize("kernel", [True, False])
def test_entries_with_and_without_a_compiler(shape, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(entries_kernel, "is_installed", lambda: False)
    monkeypatch.setattr(positions, "CHUNK", 700)
    monkeypatch.setattr(entries_kernel, "ALONE", 500)
    rank = 1 if len(shape) == 1 else 3
    M = TensorTrains(shape, rank)
    X = M.random_point(0)
    Z = M.random_tangent(X, 1)
    for count in (0, 1, 50, 2000):
        where = tuple(np.random.default_rng(count).integers(0, shape, (count, len(shape))).T)
        weights = np.random.default_rng(1).standard_normal(count)
        f = lambda X: np.sum(weights * np.sin(tt.gather(X, where)))  # noqa: B023, E731
        project = Dense(dense(X), X.ranks)
        x, z = dense(X)[where], Z.dense()[where]
        for found, wanted in (
            (hesse.manifolds.grad(f)(X), weights * np.cos(x)),
            (hesse.manifolds.hvp(f)(X, Z), -weights * np.sin(x) * z),
        ):
            spread = np.zeros(shape)
            np.add.at(spread, where, wanted)
            close(found.dense(), project(spread), 1e-12)


@pytest.mark.parametrize("library", ["numpy", "compiled", "torch", "jax"])
@pytest.mark.parametrize("table", [1, 80, 2**18])
@pytest.mark.parametrize("near", [100, 4096])
@pytest.mark.parametrize("count", [7, 3000])
def test_entries_with_merged_axes_in_tiles(library, table, near, count, monkeypatch):
    """Each axis alone, two axes as one, half of them as one; sorted by places, or too few for that."""
    if library == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr(runs, "WORTH", 0)
        library = "numpy"
    elif library != "numpy":
        pytest.importorskip(library)
    monkeypatch.setattr(merged, "TABLE", table)
    monkeypatch.setattr(positions, "NEAR", near)
    monkeypatch.setattr(threads, "available", lambda: 3)
    merged.best_groups.cache_clear()
    shape = (3, 4, 3, 2, 3, 4)
    M = TensorTrains(shape, 3)
    X, where = M.random_point(0), tuple(np.random.default_rng(0).integers(0, shape, (count, 6)).T)
    Z, weights = M.random_tangent(X, 1), np.random.default_rng(1).standard_normal(count)
    x, z = dense(X)[where], Z.dense()[where]
    project = Dense(dense(X), X.ranks)
    Y = in_library(X, library)
    T = M.project(Y, in_library(Z.to_tt(), library))
    values = Y.library.like(weights, Y.cores[0])
    f = lambda X: (values * tt.gather(X, where) ** 2).sum()  # noqa: E731
    objective = Objective(f)
    for found, wanted in (
        (objective.value_and_grad(Y)[1], 2.0 * weights * x),
        (objective.hvp(Y, T), 2.0 * weights * z),
        (objective.hvp(Y, 3.0 * T), 6.0 * weights * z),  # rows are kept from here on
        (objective.hvp(Y, 5.0 * T), 10.0 * weights * z),
        (objective.value_and_grad(Y)[1], 2.0 * weights * x),
    ):
        spread = np.zeros(shape)
        np.add.at(spread, where, wanted)
        close(found.dense(), project(spread), 1e-12)
    close(objective.value(Y), (weights * x**2).sum(), 1e-12)
    merged.best_groups.cache_clear()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("kernel", ["compiled", "numpy"])
def test_entries_of_trains_with_many_ranks(kernel, dtype, monkeypatch):
    """Ranks differ, points follow each other, and one axis has a single place."""
    if kernel == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr(runs, "WORTH", 0)
    monkeypatch.setattr(positions, "NEAR", 300)
    monkeypatch.setattr(merged, "TABLE", 1)
    merged.best_groups.cache_clear()
    generator = np.random.default_rng(2)
    shape, ranks = (4, 5, 1, 3, 6), (1, 2, 4, 4, 6, 1)
    where = tuple(generator.integers(0, shape, (1500, 5)).T)
    weights = generator.standard_normal(1500).astype(dtype)
    objective = Objective(lambda X: np.sum(weights * np.sin(tt.gather(X, where))))
    assert runs.serves(tt.random(shape, ranks[1:-1], rng=0), 1500) == (kernel == "compiled")
    for seed in (0, 1):
        X = tt.TensorTrain([core.astype(dtype) for core in tt.random(shape, ranks[1:-1], rng=seed).cores])
        x, project = dense(X).astype("f8")[where], Dense(dense(X).astype("f8"), X.ranks)
        value, found = objective.value_and_grad(X)
        spread = np.zeros(shape)
        np.add.at(spread, where, weights * np.cos(x))
        tolerance = {"f8": 1e-12, "f4": 3e-5}[dtype]
        assert found.deltas[1].dtype == dtype
        close(value, (weights * np.sin(x)).sum(), tolerance)
        close(found.dense(), project(spread), tolerance)
        again = objective.hvp(X, found)
        np.add.at(spread := np.zeros(shape), where, -weights * np.sin(x) * found.dense()[where])
        close(again.dense(), project(spread), tolerance)
    merged.best_groups.cache_clear()


def test_groups_of_axes():
    """Those at the ends are rows, and may be longer; many entries pay for larger tables."""
    assert merged.best_groups((20,) * 10, (1, *[10] * 9, 1), 200_000) == (0, 3, 5, 7, 10)
    assert merged.best_groups((20,) * 10, (1, *[10] * 9, 1), 10) == tuple(range(11))
    assert merged.best_groups((100_000, 100_000), (1, 10, 1), 6_000_000) == (0, 1, 2)
    assert merged.best_groups((7,), (1, 1), 5) == (0, 1, 1)


def test_entries_along_long_axes_are_sorted(monkeypatch):
    monkeypatch.setattr(entries_kernel, "TILE", 8)
    M = TensorTrains((30, 7, 20), 3)
    X, where = M.random_point(0), tuple(np.random.default_rng(0).integers(0, (30, 7, 20), (500, 3)).T)
    Z, weights = M.random_tangent(X, 1), np.random.default_rng(1).standard_normal(500)
    f = lambda X: np.sum(weights * np.sin(tt.gather(X, where)))  # noqa: E731
    x, z = dense(X)[where], Z.dense()[where]
    project = Dense(dense(X), X.ranks)
    for found, wanted in (
        (hesse.manifolds.grad(f)(X), weights * np.cos(x)),
        (hesse.manifolds.hvp(f)(X, Z), -weights * np.sin(x) * z),
    ):
        spread = np.zeros(M.shape)
        np.add.at(spread, where, wanted)
        close(found.dense(), project(spread), 1e-12)


def test_positions_that_are_written_to():
    """They are kept for other points, but not if they change."""
    where = np.array([[0, 1, 2, 3], [4, 3, 2, 1]])
    gradient = hesse.manifolds.grad(lambda X: np.sum(tt.gather(X, where)))
    for _ in range(2):
        X = point(seed=int(where[0, 0]))
        spread = np.zeros(SHAPE)
        np.add.at(spread, tuple(where.T), 1.0)
        close(gradient(X).dense(), Dense(dense(X), X.ranks)(spread), 1e-12)
        where[:] = where[:, ::-1].copy()


def test_threads_after_a_fork(monkeypatch):
    monkeypatch.setattr(threads, "available", lambda: 2)
    assert threads.on_threads(lambda part: part.stop, threads.shares(10)) == [5, 10]
    if not hasattr(os, "fork"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads and forks, which is what this is about
        child = os.fork()
    if child == 0:
        signal.alarm(30)  # rather than to wait for threads that are not there
        os._exit(threads.on_threads(lambda part: part.stop, threads.shares(10)) != [5, 10])
    assert os.waitpid(child, 0)[1] == 0


def test_entries_in_parts_on_several_threads(monkeypatch):
    monkeypatch.setattr(entries_kernel, "ALONE", 10)
    monkeypatch.setattr(threads, "available", lambda: 3)
    f = FUNCTIONS["completion"][0]
    X = point()
    found = hesse.manifolds.grad(f)(X)
    monkeypatch.setattr(threads, "available", lambda: 1)
    close(found.dense(), hesse.manifolds.grad(f)(X).dense(), 1e-13)


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


def test_tensors_that_are_written_to():
    torch = pytest.importorskip("torch")
    X, operator = in_library(point(), "torch"), in_library(A, "torch")
    gradient = hesse.manifolds.grad(lambda X: tt.dot(operator @ X, operator.T @ X))
    before = gradient(X).dense()
    operator.cores[0].mul_(2.0)  # which is seen by the transpose, too: it is a view
    close(gradient(X).dense(), 4.0 * before, 1e-12)
    X.cores[1].mul_(3.0)
    close(gradient(X).dense(), 12.0 * before, 1e-12)
    assert isinstance(before, torch.Tensor)


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
