"""Arrays that a function makes with `np.zeros` and fills, and known arrays at traced positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import zeros

import hesse
from hesse.errors import TracingError
from test_numpy_meaning import agrees

POINT = np.array([0.3, 1.2, 2.7])
TABLE = np.array([1.0, 2.0, 4.0, 8.0])
SLOPES = np.array([0.5, 1.5, 3.0, 5.0])


def entries(x: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] ** 2 * TABLE[i]
    return np.sum(np.sin(out))


def slices(x: Any) -> Any:
    padded = zeros(len(x) + 2)
    padded[1:-1] = x
    padded[0], padded[-1] = x[-1], x[0]
    return np.sum(padded[:-2] * np.sin(padded[1:-1]) + padded[2:] ** 2)


def matrix(x: Any) -> Any:
    a = np.eye(3)
    a[0, 1] = x[0]
    a[1, :] += x
    turned, row = a.T, a[2]
    turned[2] = x * 2.0  # a[:, 2], too
    row *= x[1]
    return np.linalg.det(a) + a[2] @ turned[0]


def recurrence(x: Any) -> Any:
    s = np.zeros(20)
    s[0] = 1.0
    for t in range(1, 20):
        s[t] = x[0] + 0.3 * np.tanh(x[1] * s[t - 1]) + 0.1 * x[2] * s[t - 2]
    return np.sum(np.log(s))


def assembled(x: Any) -> Any:
    stiffness = np.zeros((4, 4))
    for k, (i, j) in enumerate([(0, 1), (1, 2), (2, 3)]):
        stiffness[np.ix_([i, j], [i, j])] += x[k] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    load = np.zeros(4)
    np.add.at(load, [1, 3, 1], x)
    return load[1:] @ np.linalg.solve(stiffness[1:, 1:], load[1:])


def like_known(x: Any) -> Any:
    out, other = np.zeros_like(TABLE), np.array([0.0, 0.0, 1.0])
    out[1:] = x
    other[:2] = x[1:]
    return np.sum(out * TABLE) ** 2 + np.prod(np.full(3, 2.0) + other)


def looked_up(x: Any) -> Any:
    k = np.clip(np.searchsorted(TABLE, x) - 1, 0, 2)
    t = x - TABLE[k]
    return np.sum(SLOPES[k] * t**2 + np.arange(4.0)[k + 1] * t)


@hesse.branching
def branches(x: Any) -> Any:
    out = np.empty(3)
    for i in range(3):
        if x[i] > 1.0:
            out[i] = x[i] ** 3
        else:
            out[i] = np.sin(x[i])
    return out @ out


def in_a_derivative(x: Any) -> Any:
    def inner(y: Any) -> Any:
        out = np.zeros(2)
        out[0], out[1] = y[0] * x[0], y[1] ** 3
        return out @ out

    return np.sum(hesse.grad(inner)(x[:2]) ** 2)


CASES: dict[str, Callable[[Any], Any]] = {
    function.__name__: function
    for function in (
        *(entries, slices, matrix, recurrence, assembled, like_known, looked_up, branches, in_a_derivative),
    )
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_numpy(name: str) -> None:
    agrees(CASES[name], POINT)


def residuals(x: Any) -> Any:
    r = np.zeros(4)
    for i in range(4):
        r[i] = x[0] * np.exp(-x[1] * TABLE[i]) - SLOPES[i] * x[2]
    return r


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_jacobians_on_every_back_end(backend: str) -> None:
    found = hesse.jacobian(residuals, backend=backend)(POINT)
    steps = 1e-6 * np.eye(3)

    def by_hand(x: np.ndarray) -> np.ndarray:
        return x[0] * np.exp(-x[1] * TABLE) - SLOPES * x[2]

    expected = [(by_hand(POINT + step) - by_hand(POINT - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, np.stack(expected, -1), rtol=1e-6, atol=1e-8)


def test_single_precision_and_other_sizes() -> None:
    gradient = hesse.grad(slices)
    for size in (3, 5):
        x = np.linspace(0.1, 1.0, size)
        np.testing.assert_allclose(gradient(x.astype(np.float32)), gradient(x), rtol=1e-5)
        assert gradient(x.astype(np.float32)).dtype == np.float32


def test_tables_are_read_at_every_call() -> None:
    table = np.array([1.0, 2.0, 3.0])

    def function(x: Any) -> Any:
        return np.sum(table[np.argsort(x)] * x**2)

    gradient = hesse.grad(function)
    np.testing.assert_allclose(gradient(POINT), 2.0 * POINT * [1.0, 2.0, 3.0])
    table[0] = 10.0
    np.testing.assert_allclose(gradient(POINT), 2.0 * POINT * [10.0, 2.0, 3.0])


def test_functions_without_such_arrays_are_called_once() -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(type(np.zeros(3)))
        return np.sum(np.zeros(3) + x**2)

    hesse.grad(function)(POINT)
    assert calls == [np.ndarray]


def test_what_such_arrays_cannot_do_is_not_told() -> None:
    def whole_numbers(x: Any) -> Any:
        out = np.zeros(3, dtype=int)
        out[0] = x[0]  # NumPy would cut off what is behind the point
        return np.sum(out * x)

    def others(x: Any) -> Any:
        SLOPES[0] = x[0]
        return np.sum(SLOPES)

    with pytest.raises(TracingError, match=r"int\(\) or complex\(\) of a traced value"):
        hesse.grad(whole_numbers)(POINT)
    with pytest.raises(TracingError, match=r"assignment of a traced value.*hesse\.zeros\(3\)"):
        hesse.grad(others)(POINT)
    np.testing.assert_array_equal(SLOPES, [0.5, 1.5, 3.0, 5.0])


def test_arrays_that_are_kept_are_refused() -> None:
    """In another trace they would be taken for values of that one; afterwards they are of no use."""
    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        filled = np.zeros(3)
        filled[0] = x[0] ** 2
        if not kept:
            kept.append(np.linspace(1.0, 2.0, 3))
        return np.sum(filled * kept[0])

    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(TracingError, match="keeps an array that it made for later calls"):
        hesse.grad(keeping)(x)
    with pytest.raises(TracingError, match="Make it outside of the function"):
        kept[0] + 1.0
    kept[:] = [np.linspace(1.0, 2.0, 3)]
    for _ in range(2):
        np.testing.assert_allclose(hesse.grad(keeping)(x), [2.0, 0.0, 0.0])


def test_errors_of_the_function_are_its_own() -> None:
    def failing(x: Any) -> Any:
        filled = np.zeros(2)
        filled[0] = x[0]
        raise ValueError("of the user")

    with pytest.raises(ValueError, match="of the user"):
        hesse.grad(failing)(np.ones(2))


def test_arrays_of_a_trace_that_failed_are_of_no_use() -> None:
    """They would be traced values in plain calls, and in other traces."""
    kept: list[Any] = []

    def failing(x: Any) -> Any:
        filled = np.zeros(2)
        filled[0] = x[0]
        kept.append(filled)
        raise ValueError("of the user")

    with pytest.raises(ValueError, match="of the user"):
        hesse.grad(failing)(np.ones(2))
    with pytest.raises(TracingError, match="Make it outside of the function"):
        kept[-1] + 1.0
