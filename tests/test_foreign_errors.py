"""Errors of foreign functions and of their rules."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import hesse
from test_foreign import MODES, X, Y


def sine_with(**rules: Any) -> Any:
    @hesse.custom_derivative
    def sine(x: Any, y: Any) -> Any:
        return np.sin(x) + y

    if "jvp" in rules:
        sine.defjvp(rules["jvp"])
    if "vjp" in rules:
        sine.defvjp(rules["vjp"])
    return sine


WRONG_RULES: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({}, "sine has no rule for its derivative; .*sine.defjvp"),
    "None": ({"jvp": lambda p, t: None}, "the jvp rule of sine returned None; return the tangent"),
    "pair": (
        {"jvp": lambda p, t: (np.sin(p[0]), t[0])},
        "the jvp rule of sine returned a tuple; return the tangent of the result and nothing else",
    ),
    "shape": (
        {"jvp": lambda p, t: np.sum(t[0])},
        re.escape("returned a tangent of shape (), but the result has shape (3,)"),
    ),
    "vjp None": ({"vjp": lambda p, r, c: (None, c)}, "returned None as the cotangent of argument 0"),
    "vjp alone": ({"vjp": lambda p, r, c: c}, "the vjp rule of sine returned a Expression; .* tuple of 2"),
    "vjp count": ({"vjp": lambda p, r, c: (c, c, c)}, "returned 3 values; return a tuple of 2"),
    "vjp shape": (
        {"vjp": lambda p, r, c: (c[0], c)},
        re.escape("returned a cotangent of shape (), but argument 0 has shape (3,)"),
    ),
    "square": ({"jvp": lambda p, t: t[0] ** 2}, "the derivative of sine is not linear"),
    "product": ({"jvp": lambda p, t: t[0] * t[1]}, "the derivative of sine is not linear"),
    "function": ({"jvp": lambda p, t: np.exp(t[0])}, "the derivative of sine is not linear"),
    "affine": ({"jvp": lambda p, t: 1.0 + t[0]}, "the derivative of sine is not linear"),
    "constant": ({"jvp": lambda p, t: p[0]}, "the derivative of sine is not linear"),
    "vjp square": ({"vjp": lambda p, r, c: (c * c, c)}, "the derivative of sine is not linear"),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", WRONG_RULES)
def test_wrong_rules(name: str, mode: str) -> None:
    rules, message = WRONG_RULES[name]
    sine = sine_with(**rules)
    with pytest.raises(hesse.DifferentiationError, match=message):
        hesse.grad(lambda x: np.sum(sine(x, Y)), mode=mode)(X)


def test_rules_with_choices_are_linear() -> None:
    @hesse.custom_derivative
    def size(x: Any) -> Any:
        return np.abs(x)

    size.defjvp(lambda p, t: np.where(p[0] > 0, t[0], -t[0]))
    x = np.array([-1.0, 2.0, -3.0])
    for mode in MODES:
        np.testing.assert_allclose(hesse.jacobian(lambda x: size(x) ** 2, mode=mode)(x), np.diag(2 * x))


def test_functions_whose_results_cannot_be_used() -> None:
    def grad_of(function: Any, **options: Any) -> Any:
        custom = hesse.custom_derivative(function, **options)
        custom.defjvp(lambda primals, tangents: tangents[0][: len(custom(*primals))])
        return hesse.grad(lambda x: np.sum(custom(x)) * x[0])

    def refused(x: Any) -> Any:
        raise KeyError("x")

    cases: list[tuple[Any, str]] = [
        (lambda x: None, "sample values .* returned None"),
        (refused, r"refused was called with sample values .* raised KeyError: 'x'; .*\(shape=...\)"),
        (lambda x: x + 1j, "returned complex values"),
        (lambda x: "text", "returned a str, which is no array"),
    ]
    for function, message in cases:
        with pytest.raises(hesse.TracingError, match=message):
            grad_of(function)(X)
    with pytest.raises(hesse.ShapeError, match=r"returned shape \(2,\), and shape \(3,\) was expected"):
        hesse.grad(lambda x: np.sum(positive(x) * x))(np.array([1.0, -1.0, 1.0]))
    with pytest.raises(hesse.ShapeError, match=r"returned shape \(3,\), and shape \(2,\) was expected"):
        grad_of(lambda x: x, shape=(2,))(X)
    with pytest.raises(hesse.ArgumentError, match="tuple of ints, or a tuple of such tuples, not 3"):
        grad_of(lambda x: x, shape=lambda shape: 3)(X)


@hesse.custom_derivative
def positive(x: Any) -> Any:
    """How many there are depends on values."""
    return x[x > 0]


positive.defjvp(lambda primals, tangents: tangents[0])


def test_kinds_must_not_depend_on_values() -> None:
    @hesse.custom_derivative
    def places(x: Any) -> Any:
        return np.argsort(x) if x[0] > 0 else x

    f = hesse.grad(lambda x: np.sum(x[places(x)] ** 2))
    np.testing.assert_allclose(f(X), 2 * X)
    with pytest.raises(hesse.TracingError, match="places returned real values where it had returned integer"):
        f(-X)


def test_wrong_arguments() -> None:
    with pytest.raises(hesse.ArgumentError, match="custom_derivative takes a function, not a int"):
        hesse.custom_derivative(3)
    with pytest.raises(hesse.ArgumentError, match="defjvp takes a function, not a float"):
        hesse.custom_derivative(np.sin).defjvp(2.0)
    sine = sine_with()
    with pytest.raises(
        hesse.ArgumentError, match="called with a dict, which is neither an array nor hashable"
    ):
        hesse.grad(lambda x: np.sum(sine(x, {})))(X)
    with pytest.raises(hesse.ShapeError, match="sine needs operands of known sizes, not n"):
        sine(hesse.variable("x", ("n",)), 1.0)


def test_a_traced_value_in_a_closure_is_refused() -> None:
    def f(x: Any) -> Any:
        @hesse.custom_derivative(shape=())
        def inner(y: Any) -> Any:
            return np.sum(x * y)

        inner.defjvp(lambda primals, tangents: tangents[0])
        return inner(x[0]) ** 2

    with pytest.raises(hesse.TracingError, match=r"inner returned a Expression, .* pass that as an argument"):
        hesse.grad(f)(X)
