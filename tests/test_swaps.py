"""Products with axes that may be swapped are left in the order in which they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hesse
from hesse.plan.program import Contract
from hesse.plan.swaps import as_written

RANDOM = np.random.default_rng(3)


def poisson(w: Any, X: Any, y: Any) -> Any:
    return np.sum(np.exp(X @ w)) - y @ (X @ w)


@pytest.mark.parametrize("backend", ["numpy", "jax", "torch"])
@pytest.mark.parametrize("size", [4, 12])
def test_third_derivatives_are_not_turned(backend: str, size: int) -> None:
    """The axis of the smaller factor of the last product is the last one."""
    X, w, y = RANDOM.normal(size=(30, size)), 0.1 * RANDOM.normal(size=size), np.ones(30)
    third = hesse.derivative(poisson, order=3, backend=backend)
    expected = np.einsum("n,na,nb,nc->abc", np.exp(X @ w), X, X, X)
    np.testing.assert_allclose(third(w, X, y), expected, atol=1e-11)
    program = third.explain(w, X, y).program
    if backend != "jax":
        return  # BLAS multiplies in any order
    product = program.instructions[program.results[0]]
    assert isinstance(product, Contract)
    smaller = min(product.left_labels, product.right_labels, key=len)
    assert product.labels[-1] in smaller


def test_axes_with_a_sign_are_not_swapped() -> None:
    def differences(x: Any, W: Any, v: Any) -> Any:
        return np.einsum("lk,ij,l->kji", W, x[:, None] - x, v)

    x, W, v = (RANDOM.normal(size=shape) for shape in (4, (5, 4), 5))
    for backend in ("numpy", "jax"):
        found = hesse.compile(differences, backend=backend)(x, W, v)
        np.testing.assert_allclose(found, differences(x, W, v), atol=1e-14)


def test_orders() -> None:
    assert as_written((0, 1, 2), [(0, 1, 2)], (3, 0), (3, 1, 2)) == (1, 2, 0)
    assert as_written((0, 1, 2), [(0, 2)], (3, 0), (3, 1, 2)) == (2, 1, 0)
    assert as_written((0, 1, 2), [], (3, 0), (3, 1, 2)) == (0, 1, 2)
    assert as_written((4, 0, 1), [(0, 1)], (4, 3, 1), (4, 3, 0)) == (4, 1, 0)
