"""Dense results made slice by slice: the same numbers in less memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError, MemoryLimitError
from structured_cases import PROBLEMS


@pytest.mark.parametrize("chunk", [1, 2, 5, 1000])
@pytest.mark.parametrize("name", PROBLEMS)
def test_slices_make_the_same_tensor(name: str, chunk: int) -> None:
    tensor = PROBLEMS[name].structured()
    np.testing.assert_allclose(tensor.dense(chunk=chunk), tensor.dense(), rtol=1e-12, atol=1e-13)


X = np.random.default_rng(0).normal(size=(400, 60))


def poisson(w: np.ndarray, X: np.ndarray) -> np.ndarray:
    return np.sum(np.exp(X @ w))


W = np.random.default_rng(1).normal(size=60) / 20


def peak_bytes(function: object, *arguments: object) -> int:
    assert callable(function)
    function(*arguments)
    tracemalloc.start()
    function(*arguments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_chunks_take_less_memory_and_give_the_same() -> None:
    whole = hesse.derivative(poisson, order=3)
    sliced = hesse.derivative(poisson, order=3, chunk=4)
    np.testing.assert_allclose(sliced(W, X), whole(W, X), rtol=1e-11, atol=1e-12)
    assert peak_bytes(sliced, W, X) < 0.4 * peak_bytes(whole, W, X)


def test_a_memory_limit_slices_before_it_refuses() -> None:
    whole = hesse.derivative(poisson, order=3)(W, X)
    try:
        hesse.set_memory_limit(5e6)  # the result has 1.7 MB, the product before it 11.5 MB
        limited = hesse.derivative(poisson, order=3)
        np.testing.assert_allclose(limited(W, X), whole, rtol=1e-11, atol=1e-12)
        assert peak_bytes(limited, W, X) < 5.5e6
        hesse.set_memory_limit(1e6)
        with pytest.raises(MemoryLimitError, match="structured form"):
            hesse.derivative(poisson, order=3)(W, X)
    finally:
        hesse.set_memory_limit(None)


def test_chunks_with_several_variables_and_bound_data() -> None:
    def f(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.sum(np.tanh(np.outer(u, v)) ** 2)

    u, v = np.linspace(0.1, 1, 4), np.linspace(-1, 1, 3)
    whole, sliced = (hesse.hessian(f, argnums=(0, 1), chunk=chunk)(u, v) for chunk in (None, 2))
    for row, other in zip(whole, sliced, strict=True):
        for block, same in zip(row, other, strict=True):
            np.testing.assert_allclose(same, block, rtol=1e-12)
    bound = hesse.derivative(poisson, order=2, chunk=7).bind(X=X)
    np.testing.assert_allclose(bound(W), hesse.hessian(poisson)(W, X), rtol=1e-11)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, "2", True])
def test_bad_chunks_are_refused(chunk: object) -> None:
    with pytest.raises(ArgumentError, match="chunk must be a positive number of entries of the first axis"):
        hesse.hessian(poisson, chunk=chunk)  # type: ignore[arg-type]


def test_a_structured_result_takes_no_chunk() -> None:
    with pytest.raises(ArgumentError, match=r"a structured one has dense\(chunk=...\)"):
        hesse.hessian(poisson, form="structured", chunk=2)


def test_structured_results_refer_to_data_and_copy_variables() -> None:
    def f(x: np.ndarray, y: np.ndarray, A: np.ndarray) -> np.ndarray:
        return np.sum((A @ x) ** 3) / 6 + np.sum(x**2 * y) / 2

    A, x, y = np.random.default_rng(2).normal(size=(3, 50)), np.ones(50), np.arange(50.0)
    H = hesse.hessian(f, form="structured")(x, y, A)
    before = H.dense()
    arrays = [factor for term in H.terms for factor in term.factors]
    assert any(np.shares_memory(array, A) for array in arrays)
    assert not any(np.shares_memory(array, x) for array in arrays)
    kept = H.copy()
    A[:] = 0.0
    np.testing.assert_array_equal(kept.dense(), before)


def padded_rows(w: Any, x: Any, y: Any, s: Any) -> Any:
    return (np.pad(np.broadcast_to(x, (28, 30)), ((0, 2), (0, 0))) - y[:, None])[:, :, None] * s * w


def padded_column(w: Any, x: Any, y: Any, s: Any) -> Any:
    return (np.pad(x[:29], (0, 1))[:, None] - y)[:, :, None] * s * w


@pytest.mark.parametrize("function", [padded_rows, padded_column])
@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 7, 28, 29, 30, 31])
def test_factors_that_are_sums_with_placed_terms(function: Callable[..., Any], chunk: int) -> None:
    arguments = np.array(1.0), np.arange(1.0, 31), np.arange(30.0), np.arange(1.0, 26)
    found = hesse.jacobian(function, chunk=chunk)(*arguments)
    np.testing.assert_allclose(found, function(*arguments), atol=1e-12)
