"""Functions that ask for the class of a value go the way that they go with arrays."""

from __future__ import annotations

import collections.abc
import functools
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.frontends import Expression


@functools.singledispatch
def dispatched(value: Any) -> Any:
    return value[1]


@dispatched.register
def _(value: np.ndarray) -> Any:
    return value[0]


def matched(value: Any) -> bool:
    match value:
        case float():
            return True
        case _:
            return False


class Tagged:
    """Arrays with an arithmetic of its own, which tells numbers from its like."""

    def __init__(self, entries: Any) -> None:
        self.entries = entries

    def __mul__(self, other: Any) -> Tagged:
        return Tagged(self.entries * (other if isinstance(other, int | float) else other.entries))


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "array": lambda x: isinstance(x, np.ndarray),
    "array or list": lambda x: isinstance(x, list | tuple | np.ndarray),
    "list": lambda x: isinstance(x, list | tuple),
    "array of an array": lambda x: isinstance(x[0], np.ndarray),
    "float": lambda x: isinstance(x[0], float),
    "float of an array": lambda x: isinstance(x, float),
    "floating": lambda x: isinstance(np.sum(x), np.floating),
    "Real": lambda x: isinstance(x[0], numbers.Real),
    "Number of an array": lambda x: isinstance(x, numbers.Number),
    "Sequence": lambda x: isinstance(x, collections.abc.Sequence),
    "truth values": lambda x: isinstance(x > 0, np.ndarray),
    "truth value": lambda x: isinstance(x[0] > 0, np.bool_),
    "integer": lambda x: isinstance(np.argmax(x), np.integer),
    "complex": lambda x: isinstance(1j * x[0], complex),
    "float of a complex value": lambda x: isinstance(1j * x[0], float),
    "complex array": lambda x: isinstance(1j * x, np.ndarray),
    "isscalar": lambda x: np.isscalar(x[0]),
    "isscalar of an array": np.isscalar,
    "isscalar of a complex value": lambda x: np.isscalar(1j * x[0]),
    "match": lambda x: matched(x[0]),
    "match of an array": matched,
    "array of a number": lambda x: isinstance(np.asarray(x[0]), np.ndarray),
    "copy of a number": lambda x: isinstance(np.copy(x[0]), np.ndarray),
    "copied number": lambda x: isinstance(x[0].copy(), float),
    "array without axes": lambda x: isinstance(np.zeros_like(x[0]), np.ndarray),
    "derivative": lambda x: isinstance(hesse.grad(np.sum)(x), np.ndarray),
}
POINT = np.array([0.3, -0.7, 1.2])


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_answer_is_that_of_numpy(question: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        return x[0] if question(x) else x[1]

    assert hesse.compile(function)(POINT) == function(POINT)
    assert hesse.grad(function)(POINT)[0 if question(POINT) else 1] == 1.0


def test_functions_that_dispatch_on_classes() -> None:
    np.testing.assert_array_equal(hesse.grad(dispatched)(POINT), [1.0, 0.0, 0.0])
    found = hesse.grad(lambda x: np.sum((Tagged(x) * x[0] * 2).entries))(POINT)
    np.testing.assert_allclose(found, [4 * 0.3 - 1.4 + 2.4, 0.6, 0.6])


def test_outside_of_a_trace_a_symbol_is_an_expression() -> None:
    symbol = hesse.variable("x", (3,))
    assert isinstance(symbol, Expression)
    assert not isinstance(symbol, np.ndarray)
