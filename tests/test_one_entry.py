"""Functions whose results have one entry and axes, as numbers on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError

POINT = np.array([0.3, -0.7, 1.1])
WEIGHTS = np.array([[1.0, 0.5, -2.0]])


def of_matrices(x: Any) -> Any:
    return WEIGHTS @ (x[:, None] ** 3)


def summed(x: Any) -> Any:
    return np.sum(x**3 * WEIGHTS[0], keepdims=True)


def loss(x: Any) -> Any:
    return np.reshape(np.dot(WEIGHTS, x**3), (1, 1))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "matrix product": (of_matrices, np.asarray),
    "sum with axes": (summed, np.asarray),
    "reshaped": (loss, np.asarray),
    "torch": (lambda x: torch.tensor(WEIGHTS) @ x**3, torch.tensor),
    "torch, two axes": (lambda x: (x**3 * torch.tensor(WEIGHTS)).sum(1, keepdim=True), torch.tensor),
    "jax": (lambda x: jnp.sum(x**3 * jnp.array(WEIGHTS[0]), keepdims=True), jnp.asarray),
    "jax, two axes": (lambda x: jnp.array(WEIGHTS) @ (x**3)[:, None], jnp.asarray),
}


def near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, strict=False)
    assert np.shape(found) == np.shape(expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_the_entry(name: str) -> None:
    function, converted = FUNCTIONS[name]
    x, first, second = converted(POINT), 3 * WEIGHTS[0] * POINT**2, 6 * WEIGHTS[0] * POINT
    near(hesse.grad(function, one_entry=True)(x), first)
    value, gradient = hesse.value_and_grad(function, one_entry=True)(x)
    near(value, WEIGHTS[0] @ POINT**3)
    near(gradient, first)
    near(hesse.hessian(function, one_entry=True)(x), np.diag(second))
    near(hesse.hvp(function, one_entry=True)(x, converted(2.0 * POINT)), 2.0 * second * POINT)
    near(hesse.laplacian(function, one_entry=True)(x), second.sum())


def test_numbers_and_further_results() -> None:
    near(hesse.grad(lambda x: np.sum(x**2), one_entry=True)(POINT), 2 * POINT)
    gradient, aux = hesse.grad(lambda x: (summed(x), x * 2), has_aux=True, one_entry=True)(POINT)
    near(gradient, 3 * WEIGHTS[0] * POINT**2)
    near(aux, 2 * POINT)
    structured = hesse.hessian(summed, form="structured", one_entry=True)(POINT)
    near(structured.dense(), np.diag(6 * WEIGHTS[0] * POINT))


def test_without_the_option_axes_stay() -> None:
    assert hesse.hessian(summed)(POINT).shape == (1, 3, 3)
    with pytest.raises(ArgumentError, match=r"shape \(1,\); pass one_entry=True, or .*y\.item\(\)"):
        hesse.grad(summed)(POINT)
    with pytest.raises(ArgumentError, match=r"shape \(1, 1\); pass one_entry=True"):
        hesse.hvp(loss)(POINT, POINT)


@pytest.mark.parametrize("derivative", [hesse.grad, hesse.hessian, hesse.laplacian])
def test_several_entries_are_refused(derivative: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match=r"one_entry=True needs a result with one entry.*\(3,\)"):
        derivative(np.sin, one_entry=True)(POINT)
    with pytest.raises(ArgumentError, match=r"one_entry=True needs a result with one entry.*\(0,\)"):
        derivative(lambda x: x[:0], one_entry=True)(POINT)
