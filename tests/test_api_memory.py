"""Results share no memory with arguments, and what derivatives keep between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.backends.kept import keep
from oracles import assert_close
from test_api import W, X, Y, counted, loss

ALIASING: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("a constant gradient", hesse.grad, lambda x: np.sum(x * CAPTURED)),
    ("a gradient of ones", hesse.grad, np.sum),
    ("the variable itself", hesse.grad, lambda x: np.sum(x * x) / 2),
    ("an identity", hesse.jacobian, lambda x: x),
    ("a captured matrix", hesse.jacobian, lambda x: CAPTURED_MATRIX @ x),
    ("a captured matrix, transposed", hesse.jacobian, lambda x: x @ CAPTURED_MATRIX),
    ("zeros", hesse.hessian, np.sum),
    ("a repeated row", hesse.jacobian, lambda x: np.broadcast_to(np.sum(x * x), (4,))),
    (
        "a captured matrix as a Hessian",
        hesse.hessian,
        lambda x: x @ (CAPTURED_MATRIX + CAPTURED_MATRIX.T) @ x / 2,
    ),
    ("frozen values", hesse.jacobian, lambda x: x * hesse.stop_gradient(x)),
]
CAPTURED = np.array([1.0, 2.0, 3.0])
CAPTURED_MATRIX = np.arange(9.0).reshape(3, 3)


class TestMemory:
    @pytest.mark.parametrize(
        ("derivative", "f"), [case[1:] for case in ALIASING], ids=[case[0] for case in ALIASING]
    )
    def test_results_share_memory_with_nothing(self, derivative: Any, f: Any) -> None:
        function, point = derivative(f), W.copy()
        captured, matrix = CAPTURED.copy(), CAPTURED_MATRIX.copy()
        result = function(point)
        expected = result.copy()
        result[...] = np.nan
        np.testing.assert_array_equal(point, W)
        np.testing.assert_array_equal(function(point), expected)
        np.testing.assert_array_equal(captured, CAPTURED)
        np.testing.assert_array_equal(matrix, CAPTURED_MATRIX)

    def test_results_of_one_call_are_apart(self) -> None:
        def f(x: Any, y: Any) -> Any:
            return x @ y

        first, second = hesse.grad(f, argnums=(0, 1))(W, W)
        first[...] = np.nan
        assert_close(second, W)
        (_, xy), (yx, _) = hesse.hessian(f, argnums=(0, 1))(W, W)
        xy[...] = np.nan
        assert_close(yx, np.eye(3))

    def test_results_of_bound_data_are_apart(self) -> None:
        matrix = CAPTURED_MATRIX.copy()
        hessian = hesse.hessian(lambda x, A: x @ A @ x).bind(A=matrix)
        expected = matrix + matrix.T
        result = hessian(W)
        result[...] = np.nan
        matrix[...] = np.nan
        assert_close(hessian(W), expected)
        jacobian = hesse.jacobian(lambda x, A: A @ x).bind(A=CAPTURED_MATRIX)
        jacobian(W)[...] = np.nan
        assert_close(jacobian(W), CAPTURED_MATRIX)

    @pytest.mark.parametrize(
        "arrange",
        [
            np.asfortranarray,
            lambda a: a[::-1][::-1],
            lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
            lambda a: np.ascontiguousarray(a.T).T,
            lambda a: a[::-1].copy()[::-1],
        ],
    )
    def test_any_layout_of_the_arguments(self, arrange: Callable[[np.ndarray], np.ndarray]) -> None:
        arguments = [arrange(array) for array in (W, X, Y)]
        for array in arguments:
            array.setflags(write=False)
        assert_close(
            hesse.hessian(loss, argnums=(0, 1))(*arguments), hesse.hessian(loss, argnums=(0, 1))(W, X, Y)
        )

    def test_broadcast_views_as_arguments(self) -> None:
        wide = np.broadcast_to(np.array([2.0]), (3,))
        assert_close(hesse.hessian(lambda x: np.sum(x**3))(wide), np.diag([12.0] * 3))

    def test_nan_and_infinity_pass_through(self) -> None:
        point = np.array([np.nan, 1.0, np.inf])
        found = hesse.grad(lambda x: np.sum(x * x))(point)
        np.testing.assert_array_equal(found, [np.nan, 2.0, np.inf])
        data = np.where(np.arange(12).reshape(4, 3) == 4, np.nan, X)
        assert np.isnan(hesse.hessian(loss)(W, data, Y)).all()
        assert hesse.grad(lambda x: x * np.nan)(1.0) != hesse.grad(lambda x: x * np.nan)(1.0)
        assert hesse.grad(lambda x: x * np.inf)(1.0) == np.inf


class TestCache:
    def test_a_function_is_traced_once_for_each_signature(self) -> None:
        f, calls = counted(lambda x: np.sum(x * x))
        gradient = hesse.grad(f)
        for point in (np.ones(3), np.zeros(3), np.ones(3)):
            gradient(point)
        assert len(calls) == 1
        gradient(np.ones(4))
        assert len(calls) == 2
        gradient(np.ones(3, np.float32))
        assert len(calls) == 3
        gradient(np.ones((3, 1)))
        assert len(calls) == 4
        for point in (np.ones(3), np.ones(4), np.ones(3, np.float32), np.ones((3, 1))):
            assert_close(gradient(point), 2 * point)
        assert len(calls) == 4

    def test_explain_and_calls_share_the_cache(self) -> None:
        f, calls = counted(lambda x: np.sum(x * x))
        hessian = hesse.hessian(f)
        hessian.explain(W)
        hessian(W)
        assert len(calls) == 1

    def test_integers_and_floats_are_different_signatures(self) -> None:
        f, calls = counted(lambda x, n: np.sum(x * n))
        gradient = hesse.grad(f)
        assert_close(gradient(W, np.array([1, 2, 3])), [1.0, 2.0, 3.0])
        assert_close(gradient(W, np.array([1.5, 2.0, 3.0])), [1.5, 2.0, 3.0])
        assert len(calls) == 2

    def test_python_and_numpy_scalars_do_not_share_a_wrong_program(self) -> None:
        gradient = hesse.grad(lambda x, scale: np.sum(scale * x * x))
        point = np.ones(2, np.float32)
        kinds = [
            gradient(point, scale).dtype
            for scale in (2.0, np.float64(2.0), 2.0, np.float32(2.0), np.array(2))
        ]
        assert kinds == [np.float32, np.float64, np.float32, np.float32, np.float32]


def test_tables_forget_the_oldest_entries_only_for_new_ones() -> None:
    table: dict[str, int] = {}
    for k, key in enumerate("abc"):
        assert keep(table, key, k, most=3) == k
    keep(table, "a", 7, most=3)
    assert table == {"a": 7, "b": 1, "c": 2}
    keep(table, "d", 3, most=3)
    assert table == {"b": 1, "c": 2, "d": 3}
