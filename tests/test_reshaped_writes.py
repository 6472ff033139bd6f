"""Writes through reshaped arrays that are views in NumPy for certain, and those of which nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import ShapeError, TracingError
from test_numpy_meaning import agrees
from test_writing import weighted

POINT = np.array([0.7, -0.4, 1.3])


def outer_product(x: Any) -> Any:
    q = np.outer(x, x)
    d = q.reshape(-1)
    d[::4] = 0
    return weighted(q) + np.sum(q**2)


def stacked(x: Any) -> Any:
    q = np.stack([x, x**2])
    q.ravel()[1] += x[2] ** 3
    return weighted(q)


def stacked_along_the_last_axis(x: Any) -> Any:
    q = np.stack([x, x**2], axis=1)
    q.reshape(-1)[::2] *= x
    return weighted(q)


def filled(x: Any) -> Any:
    q = np.zeros((3, 3)) + x
    q.reshape(9)[2:5] = x**2
    return weighted(q)


def diagonal_of_a_sum(x: Any) -> Any:
    q = np.sin(x[:, None]) + np.exp(x) * np.ones((3, 3))
    q.reshape(-1)[:: len(x) + 1] = x**3
    q.T.reshape(-1)[0] = 7.0  # a copy
    return weighted(q**2)


def entry_of_a_ravelled_array(x: Any) -> Any:
    q = np.where(x[:, None] > x, x[:, None] * x, x) * np.tri(3)
    for k in range(4):
        q.ravel()[k] += x[k % 3] ** 2
    return weighted(q)


def known_after_a_copy(x: Any) -> Any:
    q = (2.0 * np.outer(x, x)).copy().reshape(9)
    r = np.hstack([np.outer(x, x), np.ones((3, 1))]).copy()
    r.reshape(-1)[:3] = q[1:4]
    return weighted(r)


def reshaped_vector(x: Any) -> Any:
    q = np.concatenate([x, x**2]).reshape(2, 3) * 1.5
    q.reshape(3, 2)[1:] -= 1.0 + x[0]
    return weighted(q)


def transposed(x: Any) -> Any:
    q = np.outer(x, x**2).T * 2.0  # by columns, so that the reshaped one is a copy
    q.T.reshape(-1)[1:3] = x[:2]
    return weighted(q)


def new_shape_in_place(x: Any) -> Any:
    q = np.outer(x, x**2)
    q.shape = (-1,)
    q[::2] = 0.5
    q.shape = 3, 3
    return weighted(q)


FUNCTIONS = (
    *(outer_product, stacked, stacked_along_the_last_axis, filled, diagonal_of_a_sum),
    *(entry_of_a_ravelled_array, known_after_a_copy, reshaped_vector, new_shape_in_place),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_views_are_written_through(function: Callable[[Any], Any]) -> None:
    agrees(function, POINT)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_strided_arguments(function: Callable[[Any], Any]) -> None:
    wide = np.repeat(POINT, 2)
    for x in (wide[::2], POINT[::-1][::-1], POINT[::-1]):
        np.testing.assert_allclose(hesse.compile(function)(x), function(x), rtol=1e-12)


def unknown_argument(a: Any) -> Any:
    q = a * 2.0  # by columns if the argument is
    q.reshape(-1)[0] = 1.0
    return np.sum(q)


def unknown_output(a: Any) -> Any:
    q = np.exp(a)
    np.multiply(np.ones((2, 3)), 2.0 * np.ones((2, 3)), out=q)
    q.reshape(-1)[0] = 1.0
    return np.sum(q)


@pytest.mark.parametrize("function", [unknown_argument, unknown_output, transposed])
def test_what_is_not_known_is_refused(function: Callable[[Any], Any]) -> None:
    point = POINT if function is transposed else np.ones((2, 3))
    with pytest.raises(TracingError, match=r"depends on its layout in memory.*x\.copy\(\)\.reshape"):
        hesse.grad(function)(point)


def copied_first(a: Any) -> Any:
    q = (a * 2.0).copy()
    q.reshape(-1)[0] = a[1, 1] ** 2
    return np.sum(q)


def test_the_advice_works() -> None:
    agrees(copied_first, np.arange(6.0).reshape(2, 3))


def test_new_shapes_in_place_that_are_refused() -> None:
    def of_an_argument(x: Any) -> Any:
        x.shape = (3, 1)
        return np.sum(x)

    def of_no_such_size(x: Any) -> Any:
        q = np.outer(x, x)
        q.shape = (4, 2)
        return np.sum(q)

    with pytest.raises(TracingError, match=r"x\.shape = .*x = x\.reshape"):
        hesse.grad(of_an_argument)(POINT)
    with pytest.raises(ShapeError, match=r"9 entries cannot have the shape \(4, 2\)"):
        hesse.grad(of_no_such_size)(POINT)
