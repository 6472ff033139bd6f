"""What one program computes once: the exponentials of softmax and logsumexp, the products in powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import torch

import hesse
from hesse.backends.numpy import records
from oracles import assert_close, evaluate_jax, jax_derivatives

SHAPES = [(5,), (40,), (3, 4), (200, 1), (400, 2), (400, 5), (7, 300), (2, 150, 6), (30, 2, 3, 4)]
REFERENCES: dict[str, Callable[..., Any]] = {
    "logsumexp": lambda x: scipy.special.logsumexp(x, axis=-1),
    "softmax": lambda x: scipy.special.softmax(x, axis=-1),
    "log_softmax": lambda x: scipy.special.log_softmax(x, axis=-1),
}


def array(shape: tuple[int, ...], scale: float = 3.0, seed: int = 0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_kernels_of_all_shapes(name: str, shape: tuple[int, ...], scale: float) -> None:
    x = array(shape, scale)
    kernel = records.kernel(name)
    for given in (x, np.asfortranarray(x), x.astype(np.float32)):
        expected = REFERENCES[name](given.astype(np.float64))
        found = kernel((), given)
        assert isinstance(found, np.ndarray)
        assert found.dtype == given.dtype
        assert_close(found, expected, "", 1e-13 if given.dtype == np.float64 else 2e-5)
        if name != "softmax":
            beside = kernel((), given, records.softmax((), given))
            assert isinstance(beside, np.ndarray)
            assert beside.dtype == given.dtype
            assert_close(beside, expected, "beside", 1e-13 if given.dtype == np.float64 else 2e-5)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("columns", [3, 50])
def test_logsumexp_of_infinite_entries(columns: int) -> None:
    x = np.zeros((600, columns))
    x[0, 1], x[1], x[2, 1], x[3, 2] = np.inf, -np.inf, -np.inf, np.nan
    found = records.logsumexp((), x)
    beside = records.logsumexp((), x, records.softmax((), x))
    for value in (found, beside):
        assert value[0] == np.inf
        assert value[1] == -np.inf
        assert_close(value[2], np.log(columns - 1.0), "one entry does not count", 1e-15)
        assert np.isnan(value[3])
        assert_close(value[4:], np.full(596, np.log(float(columns))), "finite", 1e-15)


def classes(xp: Any) -> Any:
    def f(W: Any, X: Any) -> Any:
        z = X @ W
        return xp.sum(xp.log(xp.sum(xp.exp(z), axis=1))) + xp.sum(xp.log(xp.sum(xp.exp(z), axis=0)))

    return f


def test_a_value_and_its_gradient_share_the_exponentials() -> None:
    W, X = array((3, 5), 1.0), array((40, 3), 1.0, 1)
    derivative = hesse.value_and_grad(classes(np))
    expected = evaluate_jax(jax.value_and_grad(classes(jnp)), W, X)
    for _ in range(2):
        value, gradient = derivative(W, X)
        assert_close(value, expected[0], "value", 1e-13)
        assert_close(gradient, expected[1], "gradient", 1e-13)
    source = derivative.explain(W, X).source
    lines = [line.strip() for line in source.splitlines()]
    softmax = [line.split(" = ")[0] for line in lines if " = softmax(" in line]
    sums = [line for line in lines if " = logsumexp(" in line]
    assert len(softmax) == len(sums) == 2
    assert all(line.endswith(f"{name})") for line, name in zip(sums, softmax, strict=True))


def test_a_logsumexp_alone_or_of_few_entries_reads_no_softmax() -> None:
    W, X = array((3, 5), 1.0), array((40, 3), 1.0, 1)
    alone = hesse.hvp(lambda v: np.sum(np.log(np.sum(np.exp(X @ v), axis=1)) ** 2))
    assert_close(
        alone(W, W),
        evaluate_jax(
            lambda v: jax.jvp(
                jax.grad(lambda w: jnp.sum(jax.scipy.special.logsumexp(X @ w, axis=1) ** 2)), (v,), (v,)
            )[1],
            W,
        ),
        "",
        1e-12,
    )
    few = hesse.value_and_grad(lambda v: np.log(np.sum(np.exp(v))))
    assert "logsumexp((), x0)" in few.explain(W[0]).source
    assert_close(few(W[0])[0], scipy.special.logsumexp(W[0]), "", 1e-15)


# Powers.

EXPONENTS = [-16, -13, -12, -7, -6, -5, -3, -2, 5, 6, 7, 12, 16]


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_small_integer_powers_are_products(exponent: int) -> None:
    function = hesse.value_and_grad(lambda x: np.sum(x**exponent))
    for x in (array((30,)), array((30,)).astype(np.float32)):
        value, gradient = function(x)
        exact = x.astype(np.longdouble)
        tolerance = 40 * np.finfo(x.dtype).eps
        assert_close(gradient / (exponent * exact ** (exponent - 1)), np.ones(30), "", tolerance)
        assert abs(value / np.sum(exact**exponent) - 1) < tolerance
        assert gradient.dtype == x.dtype
    source = function.explain(array((30,))).source
    assert ("power(" in source) == (abs(exponent - 1) > 16)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_of_extreme_numbers_are_those_of_the_library(exponent: int) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e200, -1e-200, 1e-310])
    found = (hesse.variable("x", x.shape) ** exponent).evaluate(x=x)
    np.testing.assert_array_equal(found, x ** float(exponent))


def lennard_jones(xp: Any) -> Any:
    def f(x: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        r = xp.sqrt(xp.sum(d * d, axis=-1) + 1e3 * np.eye(4))
        return xp.sum(r**-12 - r**-6)

    return f


def test_powers_of_distances_share_the_reciprocal() -> None:
    x = array((4, 3), 1.0)
    expected = jax_derivatives(lennard_jones(jnp), 3, 0, [x])
    value, gradient = hesse.value_and_grad(lennard_jones(np))(x)
    assert_close(value, expected[0], "value", 1e-12)
    assert_close(gradient, expected[1], "gradient", 1e-12)
    for order in (2, 3):
        found = hesse.derivative(lennard_jones(np), order=order)(x)
        assert_close(np.asarray(found), expected[order], f"order {order}", 1e-12)
    source = hesse.value_and_grad(lennard_jones(np)).explain(x).source
    assert source.count("reciprocal(") == 1
    assert "power(" not in source
    assert "sqrt(" not in source


@pytest.mark.parametrize("exponent", [2.5, -0.75, 17, -40])
def test_other_powers_are_left_to_the_library(exponent: float) -> None:
    x = np.abs(array((5,))) + 0.5
    function = hesse.value_and_grad(lambda v: np.sum(v**exponent))
    assert_close(function(x)[1] / (exponent * x ** (exponent - 1)), np.ones(5), "", 1e-14)
    assert "power(" in function.explain(x).source


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries(library: str) -> None:
    convert = torch.tensor if library == "torch" else jnp.asarray
    for function, arrays in (
        (lennard_jones, [array((4, 3), 1.0)]),
        (classes, [array((3, 5)), array((40, 3))]),
    ):
        expected = hesse.value_and_grad(function(np))(*arrays)
        derivative = hesse.value_and_grad(function(np))
        for _ in range(2):
            value, gradient = derivative(*map(convert, arrays))
            assert type(value) is type(convert(1.0))
            assert_close(np.asarray(value), expected[0], "value", 1e-12)
            assert_close(np.asarray(gradient), expected[1], "gradient", 1e-12)
