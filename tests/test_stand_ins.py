"""Functions that ask nothing of traced values: `np.array`, `np.asarray`, `math.sin` and the like."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError, HesseError, TracingError
from test_numpy_meaning import agrees

POINT = np.array([0.9, 1.7, 0.4])


def changed(x: Any) -> Any:
    y, z = np.asarray(x * 1.0, dtype=float), np.array(x)
    same = np.asarray(y)
    same[0] = x[1] * x[2]  # y, too
    z[0] = 100.0  # not x
    return np.sum(y**3) + np.sum(z * x)


def pendulum(x: Any) -> Any:
    c, s = np.cos(x[0] - x[1]), np.sin(x[0] - x[1])
    return np.linalg.solve(np.array([[2.0, c], [c, 1.0]]), np.array([-s * x[2] ** 2, 3.0]))[0]


def variances(x: Any) -> Any:
    found = [0.7]
    for k in range(3):
        found.append(x[0] + x[1] * k + x[2] * found[-1])
    return np.sum(np.log(np.array(found)))


def copied(x: Any) -> Any:
    y, z, same = np.asarray(x, copy=True), np.asanyarray(x, copy=True), np.asarray(x * 1.0, copy=None)
    y[0], z[1] = x[1] * x[2], 100.0  # not x
    np.asarray(same, copy=False)[0] = 7.0 * x[1]
    return np.sum(y**2 * x) + np.sum(z * x) + np.sum(same**2)


def of_one_axis(x: Any) -> Any:
    found = np.ascontiguousarray(x[0]), np.asfortranarray(x[1]), np.ascontiguousarray(x)
    assert [part.shape for part in found] == [(1,), (1,), (3,)]
    return np.sum(np.concatenate(found) ** 2)


CASES: dict[str, Callable[[Any], Any]] = {
    "functions of numbers and traced entries": lambda x: np.sum(np.exp(np.array([x[0], 1.0, x[1] * x[2]]))),
    "linear algebra": lambda x: np.linalg.det(np.array([[x[0], 1.0, 0], [0.5, x[1], x[2]], [0, x[0], 2.0]])),
    "known entries first": pendulum,
    "a list that grows": variances,
    "a choice": lambda x: np.sum(np.where(np.asarray(x) > 1.0, np.log(np.asarray(x)), np.asarray(x) ** 2)),
    "a dtype": lambda x: np.sum(np.asarray(x, dtype=float) ** 3) + np.array([x[0], 2], np.float64) @ x[1:],
    "integers": lambda x: np.sum(x * np.array([x[1] * 2.0, 1, 0], dtype=int)),
    "axes": lambda x: np.linalg.norm(np.array(x, ndmin=2) @ np.array([[x[0]], [1.0], [2.0]])),
    "maxima": lambda x: np.max(np.array([x[0], 0.5, x[2]])) * np.median(np.array([x, 2.0 * x])),
    "rows": lambda x: np.linalg.inv(np.array([x, [1.0, 0.0, 2.0], np.array([0.3, 1.0, 1.0]) * x])).sum(),
    "checked": lambda x: np.sum(np.sin(np.asarray_chkfinite(x))) + np.sum(np.ascontiguousarray(x) ** 2),
    "from an iterator": lambda x: np.prod(np.fromiter((value**2 for value in x), dtype=float)),
    "functions of lists": lambda x: np.mean([x[0], 2.0, x[1] ** 2]) * np.max([x[0], x[2]]),
    "spread of a tuple": lambda x: np.std((x[1], x[2])) * np.median([x[0], 1.0, x[2]]),
    "matrices as lists": lambda x: np.linalg.solve([[x[0], 1.0], [0.5, x[1]]], [x[2], 1.0])[0],
    "determinants of lists": lambda x: np.linalg.det([[x[0], x[1]], [x[2], 3.0]]) * np.sort([x[1], x[0]])[1],
    "products of lists": lambda x: np.cross([x[0], 1.0, 2.0], x)[2] + np.dot([x[0], 1], [2, x[1]]),
    "in place": changed,
    "copies": copied,
    "numbers in arrays of one axis": of_one_axis,
    "math": lambda x: math.exp(x[0]) * math.sqrt(x[1] + 1.0) + math.atan2(x[2], x[0]) ** 2,
    "logarithms": lambda x: math.log(x[0]) * math.log(x[1], 2) + math.log10(x[2]) + math.log(3.0, x[1] + 1.0),
    "hypotenuses": lambda x: math.hypot(x[0], x[1], x[2]) + math.pow(x[1], x[2]),
    "special functions": lambda x: math.erf(x[0]) + math.erfc(x[1]) + math.gamma(x[1]) * math.lgamma(x[2]),
    "whole numbers": lambda x: x[math.floor(x[1])] ** 2 + math.ceil(x[0] * 3.0) * x[2],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_in_numpy(name: str) -> None:
    agrees(CASES[name], POINT)


def test_large_arrays_stay_whole() -> None:
    found = hesse.grad(lambda x: np.sum(np.asarray(x, dtype=float) ** 2))(np.ones((200, 200)))
    np.testing.assert_array_equal(found, np.full((200, 200), 2.0))


def test_libraries_are_themselves_after_a_trace() -> None:
    before = np.array, np.asarray, math.sin
    inside: list[Any] = []

    def failing(x: Any) -> Any:
        inside.append(np.array)
        return float(np.array(x)[0])

    with pytest.raises(TracingError, match="float"):
        hesse.grad(failing)(POINT)
    hesse.hessian(lambda x: hesse.grad(lambda y: np.sum(np.array([y[0], 1.0]) * math.sin(y[1])))(x)[0])(POINT)
    assert inside[0] is not before[0]
    assert (np.array, np.asarray, math.sin) == before


def test_what_others_have_put_in_their_places_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    hesse.grad(np.sum)(POINT)
    with monkeypatch.context() as patch:
        patch.setattr(math, "sin", lambda x: 5.0)
        found = hesse.grad(lambda x: np.sum(x * math.sin(1.0)))(POINT)
        np.testing.assert_allclose(found, np.full(3, 5.0))
        assert math.sin(1.0) == 5.0

    def f(x: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(math, "sin", lambda x: 7.0)
            inner = hesse.grad(lambda y: np.sum(y**2) * math.sin(1.0))(x)
            return np.sum(inner) * math.sin(1.0)

    np.testing.assert_allclose(hesse.grad(f)(POINT), np.full(3, 98.0))
    assert math.sin(1.0) == np.sin(1.0) and "built-in" in repr(math.sin)


def test_other_threads_see_no_difference() -> None:
    found: list[Any] = []

    def read() -> None:
        given = np.arange(3.0)
        found.append(np.asarray(given) is given)
        found.append(np.array([1, 2], dtype=np.float32).dtype == np.float32)
        found.append(np.array([None, "a"], dtype=object).shape == (2,))
        found.append(math.sin(1) == np.sin(1.0))

    def f(x: Any) -> Any:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        return np.sum(np.array([x[0], 1.0]))

    hesse.grad(f)(POINT)
    assert found and all(found)


def test_rows_of_several_lengths_are_refused() -> None:
    with pytest.raises(HesseError, match="shape"):
        hesse.grad(lambda x: np.sum(np.array([x, x[:2]])))(POINT)


def test_known_values_as_the_library_takes_them() -> None:
    def f(x: Any) -> Any:
        made = np.array(object=[1.0, 2.0, 3.0], dtype=float) + np.asarray(a=[1, 2, 3])
        return np.sum(x**2 * made) * np.sum(np.fromiter(itertools.count(), float, count=3))

    np.testing.assert_allclose(hesse.grad(f)(POINT), 6.0 * POINT * np.array([2.0, 4.0, 6.0]))


def test_traced_entries_of_an_endless_iterable() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.fromiter((x[k % 3] ** 2 for k in itertools.count()), float, count=4))

    np.testing.assert_allclose(hesse.grad(f)(POINT), 2.0 * POINT * np.array([2.0, 1.0, 1.0]))


def test_too_few_entries() -> None:
    with pytest.raises(ArgumentError, match="3 entries, fewer than 5"):
        hesse.grad(lambda x: np.sum(np.fromiter(iter(x), float, count=5)))(POINT)
