"""Entries chosen and written by masks and integers, new shapes, functions of rows, methods of ufuncs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from oracles import assert_close, assert_matches_differences
from structured_cases import normal

MASK = np.array([True, False, True, True, False, True])
NUMBERS = np.array([0, 1, 0, 2, 1, 0])
WEIGHTS = np.arange(1.0, 7.0)


def written(write: Callable[[Any, Any], None]) -> Callable[[Any], Any]:
    """What a copy of x holds after something was written to it."""

    def function(x: Any) -> Any:
        y = x * 1.0
        write(y, x)
        return y

    return function


def rows(x: Any) -> Any:
    return np.outer(x, x[:4])


CASES: dict[str, Callable[[Any], Any]] = {
    "compress": lambda x: np.compress(MASK, x**2),
    "compress rows": lambda x: np.compress([True, False, True], rows(x), axis=1),
    "compress, short condition": lambda x: np.compress([False, True], x),
    "extract": lambda x: np.extract(rows(WEIGHTS) % 2 == 0, rows(x)),
    "resize, longer": lambda x: np.resize(x**2, (3, 5)),
    "resize, shorter": lambda x: np.resize(x, 4),
    "choose": lambda x: np.choose(NUMBERS, [x, x**2, np.sin(x)]),
    "choose from a list, wrapped": lambda x: np.choose([3, -1, 4, 5, 0, 1], [x, x**2], mode="wrap"),
    "choose, clipped": lambda x: np.choose([3, -1, 4, 5, 0, 1], [x, x**2], mode="clip"),
    "apply_along_axis, numbers": lambda x: np.apply_along_axis(lambda r: r @ r, 0, rows(x)),
    "apply_along_axis, rows": lambda x: np.apply_along_axis(np.cumsum, 1, rows(x)),
    "apply_along_axis, matrices": lambda x: np.apply_along_axis(
        lambda r, c: c * np.outer(r, r), 0, rows(x), 2.0
    ),
    "putmask": written(lambda y, x: np.putmask(y, MASK, x**2)),
    "putmask, a row for a matrix": lambda x: written(lambda y, z: np.putmask(y, np.resize(MASK, 24), z))(
        rows(x)
    ),
    "choose by traced numbers": lambda x: np.choose(np.argsort(x), [x, x**2], mode="wrap"),
    "choose by a traced condition": lambda x: np.choose(x > 0, [x, x**2], mode="clip"),
    "putmask, repeated": written(lambda y, x: np.putmask(y, MASK, x[:4] ** 2)),
    "place": written(lambda y, x: np.place(y, MASK, x[:3] ** 2)),
    "place, nowhere": written(lambda y, x: np.place(y, ~MASK & MASK, x)),
    "put": written(lambda y, x: np.put(y, [1, -1, 1], x[:2] ** 2)),
    "methods": lambda x: x[x.size > 3 :].compress(MASK[1:]) * np.array([0, 1, 0]).choose([x[0], x[1]]),
    "x.put": written(lambda y, x: y.put([2, 3], x[0])),
    "put, clipped": written(lambda y, x: np.put(y, [9, 0], x[:2] ** 2, mode="clip")),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x) * WEIGHTS,
    "minimum.accumulate": lambda x: np.minimum.accumulate(rows(x), axis=1),
    "add.reduceat": lambda x: np.add.reduceat(x**2, [0, 4, 2, 5]),
    "multiply.reduceat": lambda x: np.multiply.reduceat(rows(x), [0, 2], axis=1),
    "maximum.reduceat": lambda x: np.maximum.reduceat(x, [1, 3]),
    "minimum.reduceat": lambda x: np.minimum.reduceat(x, [1, 3]),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(rows(x)),
    "logaddexp.reduce, axis": lambda x: np.logaddexp.reduce(rows(x), axis=1, keepdims=True),
}


def put_along(x: Any) -> Any:
    y = rows(x)
    np.put_along_axis(y, np.argmax(rows(WEIGHTS), axis=0, keepdims=True), x[:4] ** 3, axis=0)
    return y


CASES["put_along_axis"] = put_along


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    function, x, generator = CASES[name], normal(6, seed=3), np.random.default_rng(0)
    jacobian, value = hesse.jacobian(function), hesse.compile(function)
    for point in (x, x + 0.1):  # the second call runs what the first one compiled
        assert_close(value(point), function(point))
        assert_matches_differences(function, jacobian(point), point, generator)


def test_places_are_decided_by_values() -> None:
    def function(x: Any) -> Any:
        return np.sum(x[np.where(x > 0)] ** 2) + np.sum(x[np.flatnonzero(x < 0)]) + len(np.argwhere(x > 0))

    x = np.array([1.0, -2.0, 3.0])
    gradient = hesse.grad(hesse.branching(function))
    assert_close(gradient(x), np.array([2.0, 1.0, 6.0]))
    assert_close(gradient(-x), np.array([1.0, 4.0, 1.0]))
    for name in ("where", "flatnonzero", "argwhere", "nonzero"):
        with pytest.raises(hesse.TracingError, match=r"np\.(nonzero|flatnonzero|argwhere).*hesse\.branching"):
            hesse.grad(lambda x, name=name: np.sum(x[getattr(np, name)(x > 0)]))(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.compress(x > 0, x).sum(), "np.compress with a condition that is traced"),
        (lambda x: np.choose(NUMBERS, [x, x]).sum(), "there are 2 choices"),
        (lambda x: np.compress([[True, False]], x).sum(), "for one axis"),
        (lambda x: np.choose(NUMBERS * 1.0, [x, x, x]).sum(), "whole numbers"),
        (lambda x: np.choose(x, [x, x, x], mode="clip").sum(), "whole numbers"),
        (lambda x: np.choose(NUMBERS, [x, x, x], mode="wide").sum(), "not 'wide'"),
        (lambda x: np.putmask(x, [True], 1.0), "a mask of shape"),
        (lambda x: np.add.reduceat(x, []).sum(), "no positions"),
        (lambda x: np.put(x, [6], 1.0), "there are 6 places"),
        (lambda x: np.put(x, [0], 1.0, mode="wide"), "not 'wide'"),
        (lambda x: np.put_along_axis(x, np.array([[0]]), 1.0, axis=0), "differ in rank"),
        (lambda x: np.add.reduceat(x, [0, 6]).sum(), "positions"),
        (lambda x: np.putmask(np.ones(6), MASK, x), "np.zeros_like"),
        (lambda x: sum(v for v in np.nditer(x)), "np.nditer of a traced value"),
        (lambda x: np.poly1d(x)(0.5), "np.polyval"),
    ],
)
def test_errors(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(hesse.HesseError, match=message):
        hesse.grad(function)(normal(6))
