"""Values node by node, by which formulas are verified: symbolic sizes, single precision, large arrays."""

from __future__ import annotations

import numpy as np
import pytest

import hesse
import naive
from hesse.backends.numpy.interpreter import Values, small_values

SIZES = {"m": 3, "n": 2, "k": 2}
GENERATOR = np.random.default_rng(4)
ARRAYS = {
    "A": GENERATOR.normal(size=(3, 2)),
    "X": GENERATOR.uniform(1.0, 2.0, (2, 2)),
    "x": GENERATOR.normal(size=2),
}
FORMULAS = (
    "A*diag(x)",
    "sum(x)/n*eye(n)",
    "kron(A, X)",
    "vec(X)",
    "m*x + vector(n)",
    "softmax(A*x)",
    "H[i,j] = X[i,j]*x[i]",
    "H[i,j,k] = X[i,j]*delta[j,k]",
    "inv(X)*x",
    "sum[i](X[i,i])*A",
)


def read(text: str) -> hesse.Formula:
    return hesse.parse(f"matrix A(m,n); matrix X(n,n); vector x(n); {text}")


@pytest.mark.parametrize("text", FORMULAS)
def test_values_are_those_of_the_definition(text: str) -> None:
    formula = read(text)
    values = {variable.name: ARRAYS[variable.name] for variable in formula.variables}
    expected = naive.evaluate(formula.node, values, SIZES)
    found = small_values(formula.node, SIZES, np.dtype(float))
    assert found is not None
    np.testing.assert_allclose(found(values), expected, rtol=1e-13)


@pytest.mark.parametrize("text", FORMULAS)
def test_single_precision_stays_single(text: str) -> None:
    formula = read(text)
    values = {variable.name: ARRAYS[variable.name].astype(np.float32) for variable in formula.variables}
    found = Values(formula.node)(values, SIZES)
    assert found.dtype == (np.float32 if values else np.float64)
    np.testing.assert_allclose(found, naive.evaluate(formula.node, values, SIZES), rtol=1e-5, atol=1e-6)


def test_large_arrays_are_left_to_programs() -> None:
    node = read("A*X").node
    sizes = {"m": 200, "n": 200}
    assert small_values(node, sizes, np.dtype(float)) is None
    values = {"A": np.ones((200, 200)), "X": np.ones((200, 200))}
    np.testing.assert_array_equal(Values(node)(values, sizes), np.full((200, 200), 200.0))


def test_larger_products_are_formed_in_a_good_order() -> None:
    node, sizes = read("A*X*X").node, {"m": 10, "n": 12}
    values = {name: GENERATOR.normal(size=(rows, 12)) for name, rows in (("A", 10), ("X", 12))}
    expected = values["A"] @ values["X"] @ values["X"]
    np.testing.assert_allclose(Values(node)(values, sizes), expected, rtol=1e-12, atol=1e-12)
