"""Large arrays: memory that is written over, terms that are added one by one, NumPy told how to broadcast."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import hesse
from hesse.backends.numpy import NumpyProgram
from hesse.backends.numpy.compiling import compile_program
from hesse.backends.numpy.records import kernel
from hesse.backends.numpy.runtime import with_short_buffers
from hesse.ir import plain_axes
from hesse.plan.program import Combine, Contract, Load, Placed, Scale

RANDOM = np.random.default_rng(7)


def softmax_of_a_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    e = np.exp(x @ y.T)
    return np.sum((e / np.sum(e, axis=-1, keepdims=True)) ** 3)


def by_hand(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient by x, from the Jacobian of softmax."""
    e = np.exp(x @ y.T)
    p = e / e.sum(axis=1, keepdims=True)
    outer = 3 * p**2
    return (p * outer - p * np.sum(p * outer, axis=1, keepdims=True)) @ y


def test_softmax_writes_over_a_product_that_is_done_with() -> None:
    x, y = RANDOM.normal(size=(150, 3)), RANDOM.normal(size=(200, 3))
    kept = x.copy(), y.copy()
    gradient = hesse.grad(softmax_of_a_product)
    found = gradient(x, y)
    assert "out=" in next(line for line in gradient.explain(x, y).source.splitlines() if "softmax(" in line)
    np.testing.assert_allclose(found, by_hand(x, y), rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])


def test_softmax_leaves_a_product_alone_that_is_read_later() -> None:
    def f(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z = x @ y.T
        e = np.exp(z)
        return z * (e / np.sum(e, axis=-1, keepdims=True))

    x, y = RANDOM.normal(size=(150, 3)), RANDOM.normal(size=(200, 3))
    found, _ = hesse.value_and_grad(lambda x, y: np.sum(f(x, y)))(x, y)
    np.testing.assert_allclose(found, np.sum(f(x, y)), rtol=1e-12)


def test_softmax_of_an_argument_does_not_change_it() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        e = np.exp(x)
        return np.sum((e / np.sum(e, axis=-1, keepdims=True)) ** 2)

    x = RANDOM.normal(size=(100, 300))
    kept = x.copy()
    hesse.grad(f)(x)
    np.testing.assert_array_equal(x, kept)


def chain(x: np.ndarray) -> np.ndarray:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def chain_times(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The Hessian of the chain times a vector, by hand."""
    result = np.zeros_like(x)
    result[:-1] += (1200 * x[:-1] ** 2 - 400 * x[1:] + 2) * v[:-1] - 400 * x[:-1] * v[1:]
    result[1:] += 200 * v[1:] - 400 * x[:-1] * v[:-1]
    return result


@pytest.mark.parametrize("size", [5, 2**14 + 3, 40_000])
def test_terms_of_a_large_sum_are_added_one_by_one(size: int) -> None:
    x, v = RANDOM.normal(size=size), RANDOM.normal(size=size)
    hvp = hesse.hvp(chain)
    np.testing.assert_allclose(hvp(x, v), chain_times(x, v), rtol=1e-10, atol=1e-9)
    product = hesse.hessian(chain, form="structured")(x) @ v
    np.testing.assert_allclose(product, chain_times(x, v), rtol=1e-10, atol=1e-9)


def test_a_large_sum_takes_the_memory_of_two_terms() -> None:
    size = 2**16

    def five_terms(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return x * y + y * z - x * z + np.sin(x) * z + np.cos(y) * x

    arrays = [RANDOM.normal(size=size) for _ in range(3)]
    derivative = hesse.grad(lambda x, y, z: np.sum(five_terms(x, y, z) ** 2), argnums=2)
    assert derivative.explain(*arrays).program.peak_elements() <= 4 * size
    x, y, z = arrays
    expected = 2 * five_terms(x, y, z) * (y - x + np.sin(x))
    np.testing.assert_allclose(derivative(*arrays), expected, rtol=1e-10, atol=1e-12)


def test_a_sum_of_negative_terms_only() -> None:
    x, y = RANDOM.normal(size=(2, 2**15))
    found = hesse.grad(lambda x: -np.sum(x * y) - np.sum(x**2) - np.sum(np.sin(x) * y))(x)
    np.testing.assert_allclose(found, -y - 2 * x - np.cos(x) * y, rtol=1e-12)


def test_many_rows_times_a_small_transposed_matrix() -> None:
    X, W = RANDOM.normal(size=(500, 6)), RANDOM.normal(size=(4, 6))
    gradient = hesse.grad(lambda X, W: np.sum((X @ W.T) ** 2))
    np.testing.assert_allclose(gradient(X, W), 2 * X @ W.T @ W, rtol=1e-12)
    value = hesse.jacobian(lambda X, W: X @ W.T, form="structured")(X, W)
    V = RANDOM.normal(size=X.shape)
    np.testing.assert_allclose(value @ V, V @ W.T, rtol=1e-12)


def test_settings_of_numpy_are_left_as_they_were() -> None:
    x = RANDOM.normal(size=(300, 100))
    before, errors = np.getbufsize(), np.geterr()
    gradient = hesse.grad(lambda x: np.sum(np.log(x[:, :1] * x)))
    with np.errstate(all="ignore"):
        gradient(x)
    with np.errstate(invalid="raise", divide="raise"), pytest.raises(FloatingPointError):
        hesse.value_and_grad(lambda x: np.sum(np.log(x[:, :1] * x)))(x)
    assert (np.getbufsize(), np.geterr()) == (before, errors)
    assert with_short_buffers(lambda: (np.asarray(np.getbufsize()),), 256)()[0] == 256
    assert np.getbufsize() == before


def test_results_are_in_the_order_of_their_axes_though_they_are_scaled_at_last() -> None:
    shape = (20_000, 3)
    terms = tuple(Placed(k, 1.0, (0, 1), plain_axes(2), shape) for k in (2, 1))
    product = Contract(0, 1, (0, 1), (0, 1), (0, 1))
    items = (Load("x"), Load("y"), product, Combine(terms, True), Scale(3, 0.3))
    program = NumpyProgram(items, (shape,) * 5, (0.0,) * 5, (4,), 5)
    x, y = RANDOM.normal(size=(2, *shape))
    (found,) = compile_program(program, ["x", "y"], np.dtype(float)).function(x, y)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, 0.3 * (x * y + y), rtol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_normalisations_take_one_array(name: str) -> None:
    x = RANDOM.normal(size=(400, 500)) * 3
    tracemalloc.start()
    found = kernel(name)((), x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * x.nbytes
    expected = x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
    np.testing.assert_allclose(found if name == "log_softmax" else np.log(found), expected, atol=1e-11)
