"""Axes of one entry: left out of programs for NumPy where nobody needs them, with the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.plan.program import CallMap, Combine, Scale

Function = Callable[..., Any]


def lengths(xp: Any, x: Any, y: Any) -> Any:
    length = xp.sqrt(xp.sum(x**2, 1, keepdims=True))
    return x / length * xp.sin(length) + 2.0 * xp.cos(length) - y


def both_sides(xp: Any, x: Any, y: Any) -> Any:
    rows, columns = xp.sum(x * y, 1)[:, None], xp.sum(x, 0)[None]
    return xp.tanh(rows) * xp.exp(0.1 * columns) + xp.sin(rows + columns)


def sums(xp: Any, x: Any, y: Any) -> Any:
    first, second = x[:, :1], y[:, 1:2]
    return xp.sum(xp.sin(first) + xp.cos(second) * 3.0 + 1.0, 1) * xp.exp(first[:, 0])


def placed(xp: Any, x: Any, y: Any) -> Any:
    length = xp.sqrt(xp.sum(x**2, 1, keepdims=True))
    return xp.concatenate([xp.sin(length), y, xp.exp(-length)], 1) * xp.cos(length)


def kept(xp: Any, x: Any, y: Any) -> Any:
    """The axis is that of a result."""
    return xp.sin(xp.sum(x, 1, keepdims=True)) + xp.exp(y[:, 1:2])


def in_the_middle(xp: Any, x: Any, y: Any) -> Any:
    total = xp.exp(xp.sum(x[:, None] * y[None], 2, keepdims=True) * 0.1)
    return xp.sum(total * x[:, None] + xp.sin(total[:, :, 0])[:, :, None], 1)


def ones(xp: Any, x: Any, y: Any) -> Any:
    return xp.sin(xp.sum(x, keepdims=True)) * xp.cos(y) + xp.exp(-xp.sum(y**2, keepdims=True))


def parts(xp: Any, x: Any, y: Any) -> Any:
    """Only some rows are read without the axis."""
    length = xp.exp(xp.sum(x * y, 1, keepdims=True) * 0.1)
    half = (len(x) + 1) // 2
    return xp.sum(x[:half], 1) * xp.sin(length)[:half, 0] + length[-half:, 0]


FUNCTIONS = [lengths, both_sides, sums, placed, kept, in_the_middle, ones, parts]


@pytest.mark.parametrize("form", ["dense", "structured"])
@pytest.mark.parametrize("count", [1, 4, 70])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_derivatives_are_those_of_jax(f: Function, count: int, form: str) -> None:
    random = np.random.default_rng(4)
    x, y = random.normal(size=(count, 3)), random.normal(size=(count, 3))
    found = hesse.compile(lambda x, y: f(np, x, y))(x, y)
    np.testing.assert_allclose(found, f(jnp, x, y), rtol=1e-12, atol=1e-13)
    jacobian = hesse.jacobian(lambda x, y: f(np, x, y), argnums=(0, 1), form=form)(x, y)
    expected = jax.jacfwd(lambda x, y: f(jnp, x, y), argnums=(0, 1))(x, y)
    for one, other in zip(jacobian, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-10, atol=1e-11)


def narrow(f: Function, count: int = 20) -> list[Any]:
    """The element-wise instructions of values with axes of one entry."""
    arrays = np.ones((count, 3)), np.ones((count, 3))
    program = hesse.compile(lambda x, y: f(np, x, y)).explain(*arrays).program
    return [
        item
        for item, shape in zip(program.instructions, program.shapes, strict=True)
        if isinstance(item, CallMap | Combine | Scale) and 1 in shape
    ]


@pytest.mark.parametrize("f", [lengths, both_sides, sums, placed])
def test_such_axes_are_left_out(f: Function) -> None:
    assert not narrow(f)


def test_those_of_results_stay() -> None:
    assert narrow(kept)


def test_what_is_the_same_then_is_computed_once() -> None:
    def f(x: Any) -> Any:
        total = np.sum(x, 1)
        return np.sin(total) + np.sum(x * np.sin(total[:, None]), 1)

    program = hesse.compile(f).explain(np.ones((20, 3))).program
    assert sum(isinstance(item, CallMap) for item in program.instructions) == 1
