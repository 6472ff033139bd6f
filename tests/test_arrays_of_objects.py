"""`array`, `asarray`, `np.r_` and the like as NumPy makes them: arrays of traced entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import TracingError
from test_numpy_meaning import agrees

array, asarray = partial(np.array), partial(np.asarray)
"""NumPy's own functions: nothing stands in their places while a function is traced."""
POINT = np.array([0.9, 1.7, 0.4])
MATRIX = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0]])


def filled(x: Any) -> Any:
    y = array([x[0], x[1] * x[2], 1.0])
    view = y[1:]
    view *= x[0]
    y[0] += 2.0
    return np.sum(y**3)


CASES: dict[str, Callable[[Any], Any]] = {
    "array": lambda x: np.sum(array([x[0], x[1] ** 2]) ** 3),
    "array with numbers": lambda x: np.sum(array([x[0], 1.0, x[1] ** 2]) ** 3),
    "array of arrays": lambda x: np.sum(array([x, x**2]) @ x),
    "nested": lambda x: np.sum((array([[x[0], 1.0], [0.5, x[1]]]) @ array([x[2], x[0]])) ** 2),
    "asarray": lambda x: np.sum(asarray(x) ** 2 * x),
    "asarray of a number": lambda x: asarray(x[0]) ** 3,
    "r_": lambda x: np.sum(np.r_[x[0], x[1:] ** 2, 3.0] ** 3),
    "c_": lambda x: np.sum(np.c_[x, x**2] ** 3),
    "sum of a list": lambda x: np.sum([x[0], x[1] ** 2]),
    "prod of a list": lambda x: np.prod([x[0], x[1] ** 2, x[2]]),
    "norm of a list": lambda x: np.linalg.norm([x[0], x[1] ** 2]),
    "functions of entries": lambda x: np.sum(np.exp(array([x[0], x[1]])) + np.tanh(array([x[1], x[2]]))),
    "functions of two": lambda x: np.sum(np.arctan2(array([x[0], x[1]]), array([x[2], x[0]]))),
    "dot": lambda x: np.dot(array([x[0], x[1]]), array([x[2], 2.0])),
    "known matrix": lambda x: np.sum((MATRIX @ array([x[2], x[1], x[0] ** 2])) ** 2),
    "joined with traced values": lambda x: np.linalg.det(np.diag(x) + array([[x[0], 1.0, 0.0]] * 3)),
    "concatenate": lambda x: np.sum(np.concatenate([[x[0]], [x[1] * 2.0]]) ** 3),
    "full": lambda x: np.sum(np.full(3, x[0]) * x),
    "in place": filled,
    "outer": lambda x: np.sum(np.outer([x[0], x[1]], [1.0, x[2]]) ** 2),
    "cumsum": lambda x: np.sum(np.cumsum([x[0], x[1], x[2]]) ** 2),
    "clenshaw": lambda x: np.polynomial.chebyshev.chebval(0.3, x),
    "list times a traced value": lambda x: np.sum(x * [x[1], x[0], 2.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_numpy(name: str) -> None:
    agrees(CASES[name], POINT)


def test_they_may_be_returned() -> None:
    found = hesse.jacobian(lambda x: array([[x[0] * x[1], 1.0], [x[2], x[0]]]))(POINT)
    assert found.shape == (2, 2, 3)
    np.testing.assert_array_equal(found[0, 0], [1.7, 0.9, 0.0])
    np.testing.assert_array_equal(hesse.compile(asarray)(POINT), POINT)


REFUSED: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: array([x[0], x[1]], dtype=float), "an array of numbers", "Leave the dtype out"),
    (lambda x: np.sin(array([x[0], 1.0])).sum(), "array of traced entries", r"Build it with np\.stack"),
    (lambda x: np.linalg.eigvals([[x[0], 1.0], [1.0, x[1]]]), "has no rule", r"np\.linalg\.eigvalsh"),
    (lambda x: np.partition([x[0], x[1]], 0)[0], "truth value", r"np\.where"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=range(len(REFUSED)))
def test_what_numpy_makes_impossible(case: tuple[Callable[[Any], Any], str, str]) -> None:
    function, construct, way_out = case
    with pytest.raises(TracingError, match=f"(?s){construct}.*cannot be traced.*{way_out}") as caught:
        hesse.grad(function)(POINT)
    assert f"(at {__file__}:{function.__code__.co_firstlineno})" in str(caught.value)


def test_large_arrays_are_not_taken_apart() -> None:
    with pytest.raises(TracingError, match=r"shape \(200, 200\).*write x or x\.copy\(\)"):
        hesse.grad(lambda x: np.sum(asarray(x)))(np.ones((200, 200)))


def test_arguments_that_are_only_read_keep_their_values() -> None:
    def f(x: Any, size: Any) -> Any:
        return np.sum(x[: int(asarray(size))] ** 2)

    np.testing.assert_array_equal(hesse.grad(f)(POINT, 2), [1.8, 3.4, 0.0])
    np.testing.assert_array_equal(hesse.grad(f)(POINT, 1), [1.8, 0.0, 0.0])
