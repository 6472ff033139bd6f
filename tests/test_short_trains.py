"""Trains in single precision, whose norms or inner products do not fit into it: against double precision."""

import importlib.util
import itertools

import numpy as np
import pytest
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.manifolds import TensorTrains

SIZE, RANK = 20, 3
LIBRARIES = {"jax": "jax.numpy"}
"""Where functions of arrays are, if not in the library itself."""
IN_TORCH = importlib.util.find_spec("torch") is not None


def cores_of(count, size=1.0, seed=0):
    """Entries of about `size ** count`, so that the norm is about `(size * 20 ** 0.5) ** count`."""
    rng = np.random.default_rng(seed)
    ranks = [1, *[RANK] * (count - 1), 1]
    cores = [0.1 * rng.standard_normal((a, SIZE, b)) for a, b in itertools.pairwise(ranks)]
    for core in cores:
        core[0, :, 0] += 1.0
    return [size * core for core in cores]


def train(cores, dtype, library="numpy"):
    return in_library(tt.TensorTrain([core.astype(dtype) for core in cores]), library)


def laplacian(count, dtype, library="numpy"):
    identity = np.eye(SIZE)
    middle = np.zeros((2, SIZE, SIZE, 2))
    middle[0, :, :, 0] = middle[1, :, :, 1] = identity
    middle[0, :, :, 1] = 2.0 * identity - np.eye(SIZE, k=1) - np.eye(SIZE, k=-1)
    cores = [middle[:1], *[middle] * (count - 2), middle[:, :, :, 1:]]
    return in_library(tt.TTMatrix([core.astype(dtype) for core in cores]), library)


def functions(count, dtype, library="numpy"):
    A, other = laplacian(count, dtype, library), train(cores_of(count, 0.2, seed=1), dtype)
    words = in_library(tt.TensorTrain([np.stack([core, 1.1 * core]) for core in other.cores]), library)
    F, log = in_library(other, library), importlib.import_module(LIBRARIES.get(library, library)).log
    return {
        "rayleigh": lambda X: tt.dot(A @ X, X) / tt.dot(X, X),
        "logarithm of the norm": lambda X: log(X.norm()),
        "logarithm of the square": lambda X: log(tt.dot(X, X)),
        "cosine": lambda X: tt.dot(X, F) / X.norm(),
        "stopped": lambda X: tt.dot(A @ hesse.stop_gradient(X), X) / tt.dot(X, X),
        "products of entries": lambda X: log(tt.dot(X * X, X * X)) - 2.0 * log(tt.dot(X, X)),
        "batch": lambda X: log((tt.dot(words, X) ** 2).sum()),
    }


def length(deltas):
    """In double precision."""
    return np.sqrt(sum(np.sum(np.asarray(delta, np.float64) ** 2) for delta in deltas))


@pytest.mark.parametrize("name", functions(2, "f8"))
@pytest.mark.parametrize(("count", "size"), [(10, 1.0), (40, 1.0), (40, 0.2), (40, 0.07), (100, 0.22)])
def test_derivatives_of_functions_whose_parts_overflow(name, count, size):
    found = {}
    for dtype, library in (("f4", "numpy"), ("f8", "numpy"), ("f4", "torch")):
        if library == "torch" and not (IN_TORCH and name in ("rayleigh", "batch") and size == 1.0):
            continue
        X = train(cores_of(count, size), dtype, library)
        f = functions(count, dtype, library)[name]
        value, G = hesse.manifolds.value_and_grad(f)(X)
        norm = length(G.deltas)
        assert G.deltas[0].dtype == X.dtype and np.isclose(G.norm(), norm)
        Z = TensorTrains(X.shape, RANK).project(X, train(cores_of(count, size, seed=2), dtype, library))
        numbers = [float(value), norm, length(hesse.manifolds.hvp(f)(X, Z).deltas)]
        assert np.isfinite(numbers).all() and min(numbers[1:]) > 0.0
        if count == 10:
            numbers.append(length(hesse.manifolds.hvp(f, exact=True)(X, Z).deltas))
        found[dtype, library] = numbers
    for numbers in found.values():
        np.testing.assert_allclose(numbers, found["f8", "numpy"], rtol=2e-3)


@pytest.mark.parametrize("name", functions(2, "f8"))
def test_values_where_even_the_norm_overflows(name):
    values = [
        float(hesse.manifolds.value_and_grad(functions(100, dtype)[name])(train(cores_of(100), dtype))[0])
        for dtype in ("f4", "f8")
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-4)


@pytest.mark.parametrize(("count", "size"), [(40, 1.0), (40, 0.05), (100, 1.0), (100, 0.05)])
def test_rounding_where_squares_overflow(count, size):
    """Rounding keeps the ranks that it keeps in double precision, and does not change the direction."""
    ranks = {}
    for dtype in ("f4", "f8"):
        X = train(cores_of(count, size), dtype)
        doubled = X + train([np.roll(core, 1, 1) for core in cores_of(count, size)], dtype)
        rounded = doubled.round(tol=1e-3)
        ranks[dtype] = rounded.ranks
        assert rounded.dtype == dtype
        wide = [tt.TensorTrain([c.astype("f8") / size for c in Y.cores]) for Y in (doubled, rounded)]
        assert float((wide[0] - wide[1]).norm() / wide[0].norm()) < 2e-3
    assert ranks["f4"] == ranks["f8"]


def test_norms_and_inner_products():
    cores, others = cores_of(40), cores_of(40, 0.01)
    short, long = (tt.dot(train(cores, dtype), train(others, dtype)) for dtype in ("f4", "f8"))
    np.testing.assert_allclose(short, long, rtol=1e-4)
    assert short.dtype == np.float32
    np.testing.assert_allclose(train(cores, "f4").norm(), train(cores, "f8").norm(), rtol=1e-4)
    with np.errstate(over="ignore"):
        assert train(cores_of(100), "f4").norm() == np.inf
        assert tt.dot(train(cores, "f4"), train(cores, "f4")) == np.inf
    zero = tt.TensorTrain([core * np.float32(0.0) for core in train(cores, "f4").cores])
    assert zero.norm() == 0.0 and tt.dot(zero, zero) == 0.0
    if not IN_TORCH:
        return
    in_torch = [train(given, "f4", "torch") for given in (cores, others)]
    assert str(in_torch[0].norm().dtype) == str(tt.dot(*in_torch).dtype) == "torch.float32"
    np.testing.assert_allclose(
        [float(in_torch[0].norm()), float(tt.dot(*in_torch))], [train(cores, "f8").norm(), long], rtol=1e-4
    )


def test_small_differences_do_not_cancel():
    X = train(cores_of(6), "f4")
    Y = tt.TensorTrain([*X.cores[:-1], X.cores[-1] * np.float32(1.0 + 1e-4)])
    np.testing.assert_allclose((Y - X).norm() / X.norm(), 1e-4, rtol=0.02)


def test_entries_beside_forms_keep_their_type():
    where = np.random.default_rng(0).integers(0, SIZE, (50, 4))
    found = {}
    for dtype in ("f4", "f8"):
        X = train(cores_of(4), dtype)
        f = lambda X: (tt.gather(X, where) ** 2).sum() / tt.dot(X, X)  # noqa: E731
        value, G = hesse.manifolds.value_and_grad(f)(X)
        H = hesse.manifolds.hvp(f)(X, G / float(G.norm()))
        assert {delta.dtype for delta in (*G.deltas, *H.deltas)} == {np.dtype(dtype)}
        found[dtype] = float(value), float(G.norm()), float(H.norm())
    np.testing.assert_allclose(found["f4"], found["f8"], rtol=1e-3)


@pytest.mark.skipif(not IN_TORCH, reason="needs PyTorch")
@pytest.mark.parametrize("name", ["dot", "norm", "round"])
def test_torch_differentiates_and_maps_short_trains(name):
    """Scales are read; where PyTorch follows what is computed, there are none."""
    torch = importlib.import_module("torch")
    found = {}
    for dtype in ("f4", "f8"):
        first, *others = train(cores_of(4), dtype, "torch").cores

        def f(core, others=others):
            X = tt.TensorTrain([core, *others])
            return {"dot": lambda: tt.dot(X, X), "norm": X.norm, "round": lambda: X.round(rank=2).norm()}[
                name
            ]()

        watched = first.clone().requires_grad_()
        f(watched).backward()
        found[dtype] = [watched.grad]
        if name != "round":  # which looks at singular values
            mapped = torch.func.vmap(f)(torch.stack([first, 2 * first]))
            found[dtype] += [torch.func.grad(f)(first), mapped]
    for short, long in zip(found["f4"], found["f8"], strict=True):
        assert short.dtype == torch.float32
        np.testing.assert_allclose(short, long, rtol=2e-4, atol=1e-3 * float(abs(long).max()))


def test_functions_that_read_cores_and_multiply_trains():
    X, Y = (tt.random((4, 3, 4), 2, rng=k) for k in range(2))
    both = {
        dtype: [tt.TensorTrain([c.astype(dtype) for c in Z.cores]) for Z in (X, Y)] for dtype in ("f4", "f8")
    }

    def function(other):
        return lambda X: np.einsum("aib,bjc,ckd->", *X.cores) ** 2 + tt.dot(X * X, other) + X.norm()

    (value, gradient), (wanted, expected) = (
        hesse.manifolds.value_and_grad(function(other))(X) for X, other in both.values()
    )
    assert value.dtype == "f4" and abs(value - wanted) <= 1e-5 * abs(wanted)
    close = np.abs(gradient.dense() - expected.dense()).max()
    assert close <= 1e-5 * np.abs(expected.dense()).max()
