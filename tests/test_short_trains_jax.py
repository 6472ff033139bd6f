"""Trains of JAX in single precision, whose norms do not fit into it: against NumPy in double precision."""

import jax
import numpy as np
import pytest
from tests.test_short_trains import cores_of, functions, length, train
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.manifolds import TensorTrains

jnp = jax.numpy
LARGE = 1e4
"""Entries of cores; squares of norms of six are beyond 1e38."""


def numbers_of(f, X, direction):
    """The value, and lengths of the gradient and of both products."""
    value, G = hesse.manifolds.value_and_grad(f)(X)
    Z = TensorTrains(X.shape, X.ranks[1:-1]).project(X, direction)
    products = [hesse.manifolds.hvp(f, exact=exact)(X, Z) for exact in (False, True)]
    for tangent in (G, *products):
        assert {str(delta.dtype) for delta in tangent.deltas} == {str(X.dtype)}
    return value, [float(value), *(length(tangent.deltas) for tangent in (G, *products))]


@pytest.mark.parametrize(
    ("name", "is_wide"), [*((name, False) for name in functions(2, "f8")), ("cosine", True), ("batch", True)]
)
def test_derivatives_of_functions_whose_parts_overflow(name, is_wide):
    """With JAX as it is, and set to double precision, in which values are then."""
    given, direction = cores_of(6, LARGE), cores_of(6, LARGE, seed=2)
    wanted = numbers_of(functions(6, "f8")[name], train(given, "f8"), train(direction, "f8"))[1]
    with jax.enable_x64(is_wide):
        X = train(given, "f4", "jax")
        value, found = numbers_of(functions(6, "f4", "jax")[name], X, train(direction, "f4", "jax"))
        assert str(value.dtype) == ("float64" if is_wide else "float32")
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


@pytest.mark.parametrize("name", ["rayleigh", "logarithm of the square", "products of entries", "batch"])
def test_compiled_functions_whose_parts_overflow(name):
    """No value is read on the way, and the second call is compiled already."""
    f, f8 = functions(6, "f4", "jax")[name], functions(6, "f8")[name]

    @jax.jit
    def both(cores, direction):
        X = tt.TensorTrain(cores)
        Z = TensorTrains(X.shape, X.ranks[1:-1]).project(X, tt.TensorTrain(direction))
        value, G = hesse.manifolds.value_and_grad(f)(X)
        return value, G.deltas, hesse.manifolds.hvp(f)(X, Z).deltas

    for size in (LARGE, 2.0 * LARGE):
        given, direction = cores_of(6, size), cores_of(6, size, seed=2)
        value, *found = both(*(train(cores, "f4", "jax").cores for cores in (given, direction)))
        X = train(given, "f8")
        Z = TensorTrains(X.shape, X.ranks[1:-1]).project(X, train(direction, "f8"))
        wanted, G = hesse.manifolds.value_and_grad(f8)(X)
        lengths = [length(tangent.deltas) for tangent in (G, hesse.manifolds.hvp(f8)(X, Z))]
        np.testing.assert_allclose(float(value), wanted, rtol=1e-4)
        np.testing.assert_allclose([*map(length, found)], lengths, rtol=2e-3)


def test_forty_positions():
    X = in_library(tt.TensorTrain([core.astype("f4") for core in tt.ones((20,) * 40).cores]), "jax")
    value, G = hesse.manifolds.value_and_grad(lambda X: jnp.log(tt.dot(X, X)))(X)
    np.testing.assert_allclose(float(value), 40.0 * np.log(20.0), rtol=1e-6)
    np.testing.assert_allclose(length(G.deltas), 2.0 / 20.0**20, rtol=1e-5)
    np.testing.assert_allclose(float(X.norm()), 20.0**20, rtol=1e-5)
    assert float(tt.dot(X, X)) == np.inf


def test_norms_inner_products_and_rounding():
    cores, others = cores_of(6, LARGE), cores_of(6, 1.0 / LARGE)
    X, Y = (train(given, "f4", "jax") for given in (cores, others))
    x, y = (train(given, "f8") for given in (cores, others))
    pairs = (X.norm(), x.norm()), (tt.dot(X, Y), tt.dot(x, y)), ((X + X).round(tol=1e-3).norm(), 2 * x.norm())
    for found, wanted in pairs:
        assert found.dtype == np.float32
        np.testing.assert_allclose(float(found), wanted, rtol=1e-4)
    zero = tt.TensorTrain([core * 0.0 for core in X.cores])
    assert zero.norm() == 0.0 and tt.dot(zero, zero) == 0.0


@pytest.mark.parametrize("name", ["dot", "norm", "manifold"])
def test_jax_differentiates_and_maps_short_trains(name):
    """Scales have no derivatives, since what is divided by them is multiplied by them again."""
    found, log = {}, jnp.log
    gradient = hesse.manifolds.value_and_grad(lambda X: jnp.log(tt.dot(X, X)))
    for dtype in ("f4", "f8"):
        with jax.enable_x64(dtype == "f8"):
            first, *others = train(cores_of(6, LARGE), dtype, "jax").cores
            small = train(cores_of(6, 1.0 / LARGE), dtype, "jax")

            def f(core, others=others, small=small):
                X = tt.TensorTrain([core, *others])
                return {
                    "dot": lambda: tt.dot(X, small),
                    "norm": lambda: log(X.norm()),
                    "manifold": lambda: gradient(X)[0],
                }[name]()

            mapped = jax.vmap(f)(jnp.stack([first, 2 * first]))
            found[dtype] = [np.asarray(a) for a in (jax.grad(f)(first), jax.jit(f)(first), mapped)]
    for short, long in zip(found["f4"], found["f8"], strict=True):
        assert short.dtype == np.float32 and np.isfinite(short).all()
        np.testing.assert_allclose(short, long, rtol=2e-4, atol=1e-3 * float(abs(long).max()))
