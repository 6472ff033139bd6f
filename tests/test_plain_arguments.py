"""Arguments that are no arrays to compute with: flags, strings, None, functions, sizes, axes, masks.

They are part of the signature. Changing one gives the other derivative, and one that was seen before is not
traced again: calls of the function are counted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, TracingError

X = np.array([1.5, -0.5, 2.0, 0.25])
M = np.arange(6.0).reshape(2, 3) + 1.0


def counted(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """The function, and a list that grows by one at each call."""
    calls: list[int] = []

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return f(*arguments, **options)

    return counting, calls


class Kind(enum.Enum):
    """A choice."""

    SQUARE = 2
    CUBE = 3


class Setting(NamedTuple):
    """A container of plain values."""

    power: int
    name: str


def by_flag(x: Any, flag: Any) -> Any:
    return np.sum(x**2) if flag else np.sum(x)


def by_name(x: Any, name: Any) -> Any:
    return {"sin": np.sin, "cos": np.cos}[name](x)


def by_function(x: Any, function: Any) -> Any:
    return function(x) * x


def by_kind(x: Any, kind: Kind) -> Any:
    return np.sum(x**kind.value)


def by_size(x: Any, n: Any) -> Any:
    return np.sum(x[:n] ** 2)


def one_hot(x: Any, i: Any) -> Any:
    chosen = np.zeros(4)
    chosen[i] = 1.0
    return chosen * x**2


CASES: dict[str, tuple[Callable[..., Any], Any, list[Any]]] = {
    "flags": (by_flag, X, [True, False]),
    "None": (lambda x, y: np.sum(x**2) if y is None else np.sum(x), X, [None, "something"]),
    "strings": (by_name, X, ["sin", "cos"]),
    "functions": (by_function, X, [np.sin, np.cos, hesse.sigmoid, np.tanh]),
    "members of an enumeration": (by_kind, X, [Kind.SQUARE, Kind.CUBE]),
    "types": (lambda x, t: np.sum(x**2) if t is float else np.sum(x), X, [float, int]),
    "slices of a size": (by_size, X, [1, 3, 2]),
    "slices": (lambda x, part: np.sum(x[part] ** 2), X, [slice(2), slice(1, 3), slice(None, None, 2)]),
    "negative sizes": (by_size, X, [-1, -2]),
    "sizes of NumPy": (by_size, X, [np.int64(1), np.int64(3)]),
    "np.zeros": (lambda x, n: np.concatenate([np.zeros(n), x * x]), X, [1, 2]),
    "np.ones of a shape": (lambda x, n: np.ones((n, 4)) @ x**2, X, [1, 3]),
    "np.arange": (lambda x, n: np.sum(np.arange(n)) * x**2, X, [3, 5]),
    "np.eye": (lambda x, n: np.eye(n, 4) @ x**2, X, [2, 3]),
    "np.linspace": (lambda x, n: np.linspace(0.0, 1.0, n)[1] * x**2, X, [3, 5]),
    "range": (lambda x, n: sum(x[k] ** 2 for k in range(n)), X, [1, 2]),
    "conditions": (lambda x, n: x**2 if n > 2 else x, X, [1, 3, 2]),
    "conditions of equality": (lambda x, n: x**2 if n == 2 else x, X, [1, 2]),
    "membership": (lambda x, n: x**2 if n in (1, 3) else x, X, [1, 2]),
    "arithmetic with sizes": (lambda x, n: x[: 2 * n + 1] ** 2, X, [0, 1]),
    "quotients and remainders": (lambda x, n: x[n // 2] ** 2 * (n % 2), X, [1, 3]),
    "neighbours": (lambda x, n: x[n + 1] ** 2, X, [0, 2]),
    "keys of a dict": (lambda x, n: {1: np.sin, 2: np.cos}[n](x), X, [1, 2]),
    "entries of a list": (lambda x, n: [np.sin, np.cos][n](x), X, [0, 1]),
    "axes": (lambda x, axis: np.sum(x**2, axis=axis), M, [0, 1, -1]),
    "several axes": (lambda x, axis: np.sum(x**2, axis=axis), M, [(0,), (0, 1), 1, None]),
    "shapes": (lambda x, shape: np.reshape(x**2, shape), M, [(3, 2), (6,), (1, 6), [2, 3]]),
    "orders of axes": (lambda x, axes: np.transpose(x**2, axes), M, [(0, 1), (1, 0)]),
    "repetitions": (lambda x, n: np.tile(x**2, n), X, [1, 2]),
    "powers of a matrix": (lambda x, n: 2.0 * np.linalg.matrix_power(x, n), np.eye(2) + 0.5, [2, 3]),
    "masks": (lambda x, m: x[m] ** 2, X, [X > 0, X > 1, X < 5]),
    "negated masks": (lambda x, m: np.sum(x[~m] ** 2), X, [X > 0, X > 1]),
    "positions of a mask": (lambda x, m: x[np.flatnonzero(m)] ** 2, X, [X > 0, X > 1]),
    "sums of a mask": (lambda x, m: x[: np.sum(m)] ** 2, X, [X > 0, X > 1]),
    "conditions of a mask": (lambda x, m: x**2 if m.all() else x, X, [X > 0, X < 5]),
    "rows of a unit matrix": (lambda x, i: np.eye(4)[i] @ x**2, X, [np.array([0, 2]), np.array([3, -1])]),
    "entries that are set": (one_hot, X, [np.array([0, 2]), np.array([3, 1]), np.array([1], np.int32)]),
    "sizes in arrays": (by_size, X, [np.array(1), np.array(3)]),
    "bounds": (lambda x, i: x[i[0] : i[1]] ** 2, X, [np.array([0, 2]), np.array([1, 4])]),
    "repetitions of each": (lambda x, n: np.repeat(x, n) ** 2, X, [np.array([1, 0, 2, 1]), np.arange(4)]),
    "lists of truth values": (lambda x, m: x[m] ** 2, X, [[True, False, True, False], [False] * 3 + [True]]),
    "containers": (
        lambda x, setting: np.sum(x[: setting["n"]] ** setting["powers"][1]) * (setting["name"] == "a"),
        X,
        [{"n": 2, "powers": [1, 2], "name": "a"}, {"n": 1, "powers": [1, 3], "name": "a"}],
    ),
    "named tuples": (
        lambda x, s: np.sum(x**s.power if s.name == "a" else x),
        X,
        [Setting(2, "a"), Setting(3, "a"), Setting(3, "b")],
    ),
}


def difference(f: Callable[..., Any], x: np.ndarray, value: Any) -> np.ndarray:
    """The Jacobian by central differences of the function itself, called with plain arrays."""
    columns = []
    for position in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[position] = 1e-5
        columns.append((np.asarray(f(x + step, value)) - np.asarray(f(x - step, value))) / 2e-5)
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(stacked.shape[:-1] + x.shape)


@pytest.mark.parametrize("case", CASES)
def test_plain_arguments(case: str) -> None:
    function, x, values = CASES[case]
    f, calls = counted(function)
    jacobian = hesse.jacobian(f)
    for value in values:
        np.testing.assert_allclose(jacobian(x, value), difference(function, x, value), atol=1e-8)
    traced = len(calls)
    for value in [*values, *values[::-1]]:
        np.testing.assert_allclose(jacobian(x, value), difference(function, x, value), atol=1e-8)
        np.testing.assert_allclose(jacobian(x * 1.5, value), difference(function, x * 1.5, value), atol=1e-8)
    assert len(calls) == traced


@pytest.mark.parametrize("case", CASES)
def test_plain_arguments_that_are_bound(case: str) -> None:
    function, x, values = CASES[case]
    names = function.__code__.co_varnames
    for value in values:
        bound = hesse.jacobian(function).bind(**{names[1]: value})
        for point in (x, x * 1.5):
            np.testing.assert_allclose(bound(point), difference(function, point, value), atol=1e-8)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("library", [torch.tensor, jnp.asarray], ids=["torch", "jax"])
def test_plain_arguments_beside_other_arrays(case: str, library: Any) -> None:
    function, x, values = CASES[case]
    jacobian = hesse.jacobian(function)
    for value in values + values[:1]:
        found = jacobian(library(x), value)
        assert isinstance(found, torch.Tensor | jax.Array)
        np.testing.assert_allclose(found, difference(function, x, value), atol=1e-8)


def test_an_axis_by_keyword() -> None:
    f, calls = counted(lambda x, axis: np.sum(x**2, axis=axis))
    jacobian = hesse.jacobian(lambda x, axis: f(x, axis=axis))
    for axis in (1, 0):
        expected = difference(lambda x, axis: np.sum(x**2, axis=axis), M, axis)
        np.testing.assert_allclose(jacobian(M, axis=axis), expected, atol=1e-8)
    traced = len(calls)
    for axis in (0, 1, 0):
        jacobian(M, axis=axis)
    assert len(calls) == traced == 3


class TestTraces:
    def test_a_flag_is_traced_once_for_each_value(self) -> None:
        f, calls = counted(by_flag)
        gradient = hesse.grad(f)
        for flag in (True, False, True, False):
            gradient(X, flag)
        assert len(calls) == 2

    def test_one_and_true_are_different(self) -> None:
        gradient = hesse.grad(lambda x, flag: np.sum(x**2) if flag is True else 3.0 * np.sum(x))
        for _ in range(2):
            np.testing.assert_allclose(gradient(X, True), 2 * X)
            np.testing.assert_allclose(gradient(X, 1), 3.0 * np.ones(4))

    def test_numbers_that_are_computed_with_stay_arrays(self) -> None:
        f, calls = counted(lambda x, n: np.sum(x**2) * n)
        gradient = hesse.grad(f)
        for n in range(5):
            np.testing.assert_allclose(gradient(X, n), 2 * X * n)
        assert len(calls) == 1

    def test_masks_that_are_computed_with_stay_arrays(self) -> None:
        f, calls = counted(lambda x, m: np.sum(np.where(m, x**2, x)))
        gradient = hesse.grad(f)
        for mask in (X > 0, X > 1, X > 2):
            np.testing.assert_allclose(gradient(X, mask), np.where(mask, 2 * X, 1.0))
        assert len(calls) == 1

    def test_only_the_number_that_is_needed_is_part_of_the_signature(self) -> None:
        f, calls = counted(lambda x, n, scale: np.sum(x[:n] ** 2) * scale)
        gradient = hesse.grad(f)
        for scale in range(4):
            np.testing.assert_allclose(gradient(X, 2, scale), [2 * X[0] * scale, 2 * X[1] * scale, 0, 0])
        assert len(calls) == 2

    def test_one_trace_for_each_size_after_the_first(self) -> None:
        f, calls = counted(by_size)
        gradient = hesse.grad(f)
        gradient(X, 2)
        assert len(calls) == 2
        gradient(X, 3)
        assert len(calls) == 3

    def test_many_needed_values_are_found_in_a_few_traces(self) -> None:
        f, calls = counted(lambda x, sizes: sum(np.sum(x[:n]) for n in sizes["all"]))
        sizes = {"all": [1 + k % 4 for k in range(40)]}
        found = hesse.grad(f)(X, sizes)
        np.testing.assert_allclose(found, [40.0, 30.0, 20.0, 10.0])
        assert len(calls) <= 10

    def test_a_function_that_catches_the_refusal(self) -> None:
        def f(x: Any, n: Any) -> Any:
            try:
                count = int(n)
            except Exception:
                count = 1
            return np.sum(x[:count] ** 2)

        np.testing.assert_allclose(hesse.grad(f)(X, 3), [*2 * X[:3], 0.0])


class TestMasks:
    def test_a_mask_that_changes_in_place(self) -> None:
        mask = np.array([True, False, False, True])
        gradient = hesse.grad(lambda x, m: np.sum(x[m] ** 2))
        np.testing.assert_allclose(gradient(X, mask), 2 * X * mask)
        mask[1] = True
        np.testing.assert_allclose(gradient(X, mask), 2 * X * mask)

    def test_a_function_cannot_change_a_mask(self) -> None:
        def f(x: Any, mask: Any) -> Any:
            if mask[0]:
                mask[0] = False
            return np.sum(x[mask])

        mask = np.array([True, False, False, True])
        with pytest.raises((ValueError, TracingError)):
            hesse.grad(f)(X, mask)
        assert mask[0]


class TestNesting:
    def test_plain_values_inside_of_a_traced_function(self) -> None:
        def f(x: Any, n: Any, flag: Any) -> Any:
            inner = hesse.grad(
                lambda y, n, flag, mask: np.sum((y**3 if flag else y)[:n]) + np.sum(y[mask] ** 2)
            )
            return np.sum(inner(x, n, flag, X > 1) ** 2)

        derivative = hesse.grad(f)
        for n, flag in [(2, True), (3, False), (1, True), (2, True)]:
            first, mask = np.arange(4) < n, X > 1
            inner = (3 * X**2 if flag else 1.0) * first + 2 * X * mask
            slope = (6 * X if flag else 0.0) * first + 2.0 * mask
            np.testing.assert_allclose(derivative(X, n, flag), 2 * inner * slope)

    def test_traced_indices_and_tables_inside_of_a_traced_function(self) -> None:
        table, index = np.array([2.0, 3.0, 5.0]), np.array([2, 0, 1, 2])

        def f(x: Any, i: Any) -> Any:
            return np.sum(hesse.grad(lambda y, t, i: np.sum(y**2 * t[i]))(x, table, i))

        np.testing.assert_allclose(hesse.grad(f)(X, index), 2 * table[index])


class TestErrors:
    def test_what_cannot_be_compared_is_refused(self) -> None:
        with pytest.raises(
            ArgumentError, match=r'argument setting\["sets"\]\[0\] is a set, not an array; close'
        ):
            hesse.grad(lambda x, setting: np.sum(x))(X, {"sets": [{1}]})

    def test_values_of_what_is_differentiated_are_refused(self) -> None:
        with pytest.raises(TracingError, match="the truth value of a traced value"):
            hesse.grad(lambda x, n: np.sum(x) if x[0] > n else np.sum(x**2))(X, 2)
        with pytest.raises(TracingError, match="the truth value of a traced value"):
            hesse.grad(lambda x, c: np.sum(x) if c > 0 else np.sum(x**2))(X, 2.0)
        with pytest.raises(TracingError, match=r"x\[mask\] with a traced mask"):
            hesse.grad(lambda x, m: np.sum(x[m & (x > 0)]))(X, X > 0)

    def test_errors_of_the_second_trace_are_the_users(self) -> None:
        with pytest.raises(hesse.ShapeError, match="out of range"):
            hesse.grad(lambda x, n: np.sum(x[[n + 7]]))(X, 2)


def test_arrays_of_whole_numbers_are_told_apart_by_their_types() -> None:
    jacobian = hesse.jacobian(lambda x, i: np.array([1.0, 2.0, 3.0])[i] * x[: i.dtype.itemsize])
    for kind in (np.int8, np.uint8, np.int16, np.int8):
        expected = np.eye(4)[: np.dtype(kind).itemsize] * 2.0
        np.testing.assert_array_equal(jacobian(X, np.array([1], kind)), expected)


def test_whole_numbers_whose_values_are_not_needed_stay_traced() -> None:
    f, calls = counted(lambda x, i, n: x[i + 1] ** 2 * np.ones(n))
    jacobian = hesse.jacobian(f)
    jacobian(X, np.array([0, 1]), 2)
    traced = len(calls)
    for i in (np.array([1, 2]), np.array([-2, 0])):
        np.testing.assert_allclose(jacobian(X, i, 2), np.eye(4)[i + 1] * (2 * X), atol=1e-12)
    assert len(calls) == traced


class Settings:
    """An object that answers for attributes in a way of its own, as many libraries' settings do."""

    def __init__(self, **values: Any) -> None:
        self.__dict__["values"] = values

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["values"][name]  # which raises a KeyError


class Named(dict[str, Any]):
    """A dict whose keys are attributes."""

    __getattr__ = dict.__getitem__


def test_objects_that_raise_what_they_like_when_asked_for_an_attribute() -> None:
    settings, named = Settings(scale=3.0), Named(scale=2.0)
    x = np.ones(2)
    f = hesse.grad(lambda x, s: np.sum(x**2) * s.scale)
    np.testing.assert_array_equal(f(x, settings), [6.0, 6.0])
    settings.values["scale"] = 5.0
    np.testing.assert_array_equal(f(x, settings), [10.0, 10.0])
    g = hesse.grad(lambda x: np.sum(x**2) * named.scale * settings.scale)
    np.testing.assert_array_equal(g(x), [20.0, 20.0])
    named["scale"] = 1.0
    np.testing.assert_array_equal(g(x), [10.0, 10.0])
    with pytest.raises(ArgumentError, match="close over it"):
        f(x, named)
