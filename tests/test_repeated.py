"""Factors that several small products repeat: right in every order in memory, and repeated once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse

Function = Callable[..., Any]


def columns(s: Any, a: Any, b: Any) -> Any:
    """A factor for each row of two matrices, and of their sum."""
    return (s[:, None] * np.sin(a)) @ np.ones(a.shape[1]), s[:, None] * np.cos(b), s[:, None] * np.tanh(a + b)


def rows(s: Any, a: Any, b: Any) -> Any:
    """A factor for each column."""
    return s * np.sin(a.T), s * np.cos(b.T), s * np.exp(a.T)


def planes(s: Any, a: Any, b: Any) -> Any:
    """A factor between the axes of others."""
    a, b = np.sin(a)[:, None] * np.cos(b)[:, :, None], np.cos(a)[:, None] * np.sin(b)[:, :, None]
    factor = s[:, None] * np.array([1.0, 2.0, 3.0])
    return factor[:, None] * a, factor[:, :, None] * b, factor[:, None] * b, factor[:, :, None] * a


def changed(s: Any, a: Any, b: Any) -> Any:
    """The factor is read again after its products, and its own memory is written over."""
    t = np.exp(s)
    return t[:, None] * np.sin(a), t[:, None] * np.cos(b), (t * 2.0 + np.sin(t)) * s


def orders(array: np.ndarray) -> list[np.ndarray]:
    """An array by rows, by columns, and as a part of another."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]))
    wide[..., ::2] = array
    return [array, np.asfortranarray(array), wide[..., ::2]]


@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize("count", [2, 70, 300])
@pytest.mark.parametrize("f", [columns, rows, planes, changed])
def test_values_are_those_of_numpy(f: Function, count: int, order: int) -> None:
    random = np.random.default_rng(3)
    s, a, b = random.normal(size=count), random.normal(size=(count, 3)), random.normal(size=(count, 3))
    a, b = orders(a)[order], orders(b)[order]
    kept = s.copy()
    compiled = hesse.compile(f)
    for _ in range(2):
        for found, expected in zip(compiled(s, a, b), f(s, a, b), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_array_equal(s, kept)


def source(f: Function, count: int) -> str:
    return str(hesse.compile(f).explain(np.ones(count), np.ones((count, 3)), np.ones((count, 3))).source)


def test_what_several_products_repeat_is_repeated_once() -> None:
    assert source(rows, 70).count(".repeat(") == 1
    assert source(changed, 70).count(".repeat(") == 1


def test_what_one_product_repeats_is_not() -> None:
    assert ".repeat(" not in source(lambda s, a, b: s[:, None] * a + b, 70)


def test_large_arrays_are_not_repeated() -> None:
    assert ".repeat(" not in source(rows, 5000)
    assert ".repeat(" not in source(changed, 5000)
