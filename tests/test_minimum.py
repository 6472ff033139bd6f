"""`argmin`: minima as functions of parameters, to orders 1 and 2 against closed forms and differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError, ConvergenceError, ShapeError

GENERATOR = np.random.default_rng(3)
X, Y = GENERATOR.normal(size=(30, 4)), GENERATOR.normal(size=30)
HELD_OUT, TARGETS = GENERATOR.normal(size=(15, 4)), GENERATOR.normal(size=15)
LABELS = (X @ np.array([1.0, -2.0, 0.5, 0.0]) + GENERATOR.normal(size=30) > 0).astype(float)


def ridge(w: Any, log_weights: Any) -> Any:
    return np.sum((X @ w - Y) ** 2) + np.sum(np.exp(log_weights) * w**2)


def held_out(log_weights: Any) -> Any:
    return np.sum((HELD_OUT @ hesse.argmin(ridge, np.zeros(4), log_weights) - TARGETS) ** 2)


def held_out_in_closed_form(log_weights: Any) -> Any:
    w = jnp.linalg.solve(X.T @ X + jnp.diag(jnp.exp(log_weights)), X.T @ Y)
    return jnp.sum((HELD_OUT @ w - TARGETS) ** 2)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_ridge_regression(mode: str) -> None:
    point = np.array([0.3, -1.0, 0.5, 2.0])
    gradient, hessian = hesse.grad(held_out, mode=mode), hesse.hessian(held_out, mode=mode)
    for p in (point, point - 1.0):
        np.testing.assert_allclose(hesse.compile(held_out)(p), held_out_in_closed_form(p), rtol=1e-12)
        np.testing.assert_allclose(gradient(p), jax.grad(held_out_in_closed_form)(p), rtol=1e-9, atol=1e-12)
        expected = jax.hessian(held_out_in_closed_form)(p)
        np.testing.assert_allclose(hessian(p), expected, rtol=1e-8, atol=1e-11)


def logistic(w: Any, log_weight: Any) -> Any:
    return np.sum(np.log1p(np.exp(X @ w)) - LABELS * (X @ w)) + np.exp(log_weight) * np.sum(w**2)


def test_logistic_regression() -> None:
    def outer(log_weight: Any) -> Any:
        w = hesse.argmin(logistic, np.zeros(4), log_weight)
        return np.sum(np.log1p(np.exp(HELD_OUT @ w)) - (TARGETS > 0) * (HELD_OUT @ w))

    gradient = hesse.grad(outer)
    for p in (-1.0, 0.7):
        slope = (outer(p + 1e-5) - outer(p - 1e-5)) / 2e-5
        np.testing.assert_allclose(gradient(p), slope, rtol=1e-7)
        curvature = (gradient(p + 1e-5) - gradient(p - 1e-5)) / 2e-5
        np.testing.assert_allclose(hesse.hessian(outer)(p), curvature, rtol=1e-7)
    third = hesse.derivative(outer, 3)(0.7)
    second = hesse.hessian(outer)
    np.testing.assert_allclose(third, (second(0.7 + 1e-5) - second(0.7 - 1e-5)) / 2e-5, rtol=1e-6)


def test_one_factorisation_serves_the_whole_hessian() -> None:
    source = hesse.hessian(held_out).explain(np.zeros(4)).source
    assert source.count("inverse(") + source.count("solve(") == 1


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Newton-CG", "trust-krylov", "Nelder-Mead"])
def test_methods_of_scipy_find_the_same_minimum(method: str) -> None:
    weights = np.zeros(4)
    expected = np.linalg.solve(X.T @ X + np.eye(4), X.T @ Y)
    np.testing.assert_allclose(hesse.argmin(ridge, weights, weights, method=method), expected, rtol=1e-9)


def test_matrices_and_other_arrays() -> None:
    A = np.array([[2.0, 0.5], [0.5, 1.0]])

    def f(W: Any, B: Any) -> Any:
        return np.sum((A @ W - B) ** 2) + 0.25 * np.sum(W**4)

    def of(B: Any) -> Any:
        return np.sum(np.sin(hesse.argmin(f, np.zeros((2, 3)), B)))

    B = np.arange(6.0).reshape(2, 3) / 3
    assert hesse.check(of, B, order=2).ok
    found = hesse.argmin(f, jnp.zeros((2, 3)), jnp.asarray(B))
    np.testing.assert_allclose(np.asarray(found), hesse.argmin(f, np.zeros((2, 3)), B), rtol=1e-6)


def test_what_has_no_minimum_is_refused() -> None:
    with pytest.raises(ConvergenceError, match=r"no minimum with a positive definite Hessian.*add a term"):
        hesse.argmin(lambda x: x[0] ** 2, np.zeros(2))
    with pytest.raises(ConvergenceError, match="least eigenvalue of the Hessian is -2"):
        hesse.argmin(lambda x: -np.sum(x**2), np.ones(2))
    with pytest.raises(ShapeError, match=r"a scalar result, this one has shape \(2,\)"):
        hesse.argmin(lambda x: x**2, np.ones(2))
    with pytest.raises(ArgumentError, match="argmin takes a function, not a float"):
        hesse.argmin(1.0, np.ones(2))
