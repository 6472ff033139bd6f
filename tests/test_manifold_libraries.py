"""Riemannian derivatives of trains of PyTorch and JAX."""

import jax
import numpy as np
import pytest
from tests import manifold_cases
from tests.manifold_cases import FUNCTIONS, LABELS, RANK, SHAPE, VALUES, WHERE, WORDS, A, S, close, point
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.api.captured import SMALL_INDEX
from hesse.manifolds import TensorTrains
from hesse.manifolds.derivatives import Objective
from hesse.tt import arrays, gram_frames

jnp = jax.numpy


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
        in_torch = in_library(getattr(manifold_cases, constant), "torch")
        monkeypatch.setattr(manifold_cases, constant, in_torch)
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
    "norm": lambda c: lambda X: (X - c["F"]).norm(),
    "rayleigh": lambda c: lambda X: tt.dot(c["S"] @ X, X) / tt.dot(X, X),
    "completion": lambda c: lambda X: ((tt.gather(X, WHERE) - VALUES) ** 2).sum(),
    "exponential machine": lambda c: lambda X: jnp.log(1.0 + jnp.exp(-LABELS * tt.dot(c["WORDS"], X))).sum(),
}


@pytest.mark.parametrize("name", IN_JAX)
def test_jax_compiles_the_five_functions_and_norms(name):
    plain = FUNCTIONS[name][0]
    with jax.enable_x64(True):
        f = IN_JAX[name]({n: in_library(getattr(manifold_cases, n), "jax") for n in ("A", "F", "S", "WORDS")})

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
