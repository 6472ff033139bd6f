"""Functions that decide by values: one trace for each path, checked at every call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, TracingError
from test_writing import differences


def signs(x: Any) -> Any:
    if x.sum() > 0:
        return np.sum(x**3)
    return np.sum(np.sin(x)) * x[0]


def largest(x: Any) -> Any:
    return max(x[0], x[1], x[2]) ** 2 * min(x) + sum(sorted(x)[:2])


def newton(x: Any) -> Any:
    y = 1.0 + 0.0 * x[0]
    error = abs(y * y - x[0] ** 2 - 1.0)
    while error > 1e-10:
        y = 0.5 * (y + (x[0] ** 2 + 1.0) / y)
        error = abs(y * y - x[0] ** 2 - 1.0)
    return y * np.sum(x)


def whole_numbers(x: Any) -> Any:
    total = 0.0
    for k in range(int(abs(x[1])) + 1):
        total = total + x[0] ** (k + 1)
    return total + x[: np.argmax(x) + 1].sum() + [x[0], x[1], x[2]][np.argmin(x)] ** 2


def masks(x: Any) -> Any:
    positive = x[x > 0]
    y = x * 1.0
    y[x > 0.5] *= x[1]
    return np.sum(positive**2) * positive.shape[0] + np.sum(y) + (x[0] if 2.0 in x else x[1])


def chained(x: Any) -> Any:
    return x[0] ** 2 if -1 < x[0] < 1 and not x[1] > 2 else x[1] * x[2]


def depends_on_the_branch(x: Any) -> Any:
    """Its second condition can only be computed where the first one holds."""
    if x[0] > 0:
        if np.log(x[0]) > 0:
            return np.log(x[0]) * x[1]
        return x[1] ** 2
    return x[2] ** 2


PROGRAMS = [signs, largest, newton, whole_numbers, masks, chained, depends_on_the_branch]
POINTS = [
    np.array([0.7, 1.3, -0.4]),
    np.array([-0.7, -1.3, 0.6]),
    np.array([1.7, 2.6, 2.0]),
    np.array([-1.7, 0.3, 2.4]),
    np.array([0.6, 1.2, -0.45]),
    np.array([0.7, 1.3, -0.4]),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_call_takes_its_path(program: Callable[[Any], Any]) -> None:
    function = hesse.branching(program)
    value, gradient, hessian = hesse.compile(function), hesse.grad(function), hesse.hessian(function)
    for x in POINTS:
        np.testing.assert_allclose(value(x), program(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), differences(program, x), rtol=1e-6, atol=1e-8)
        slopes = [(gradient(x + e) - gradient(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(hessian(x), slopes, rtol=1e-5, atol=1e-6)


def test_known_paths_are_not_traced_again() -> None:
    calls = []

    def program(x: Any) -> Any:
        calls.append(None)
        for k in range(3):
            if x[k] > 0:
                x = x * x[k]
        return np.sum(x)

    gradient = hesse.grad(hesse.branching(program))
    paths = [np.array(signs) * np.array([1.0, 2.0, 3.0]) for signs in np.ndindex(2, 2, 2)]
    points = [2 * (p > 0) - 1.5 for p in paths]
    for x in points:
        gradient(x)
    assert len(calls) == 8
    for x in [*points, *points[::-1]]:
        np.testing.assert_allclose(gradient(1.1 * x), differences(program, 1.1 * x), rtol=1e-6, atol=1e-8)
        calls.clear()
        gradient(1.2 * x)
        assert not calls


def test_one_path_for_each_shape_and_dtype() -> None:
    gradient = hesse.grad(hesse.branching(signs))
    for size in (2, 3):
        for dtype in (np.float64, np.float32):
            found = gradient(np.ones(size, dtype))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, 3 * np.ones(size))


def test_numbers_and_containers() -> None:
    @hesse.branching
    def program(p: Any, scale: float = 1.0) -> Any:
        return p**2 * scale if p > 0 else -p

    gradient = hesse.grad(program)
    for _ in range(2):
        assert gradient(np.array(3.0)) == 6.0
        assert gradient(2.0) == 4.0
        assert gradient(-2.0) == -1.0
        assert gradient(2.0, scale=3.0) == 12.0
    nested = hesse.grad(hesse.branching(lambda p: p["a"] @ p["b"] if p["a"][0] > 0 else p["c"]))
    for _ in range(2):
        found = nested({"a": POINTS[0], "b": POINTS[1], "c": 1.0})
        np.testing.assert_allclose(found["a"], POINTS[1])
        assert nested({"a": POINTS[1], "b": POINTS[1], "c": 1.0})["c"] == 1.0


def test_arrays_of_other_libraries() -> None:
    gradient = hesse.grad(hesse.branching(signs))
    for x in POINTS[:3] * 2:
        expected = gradient(x)
        np.testing.assert_allclose(np.asarray(gradient(jnp.asarray(x))), expected, rtol=1e-6)
        on_jax = hesse.grad(hesse.branching(signs), backend="jax")
        np.testing.assert_allclose(on_jax(x), expected, rtol=1e-6)


def test_further_arguments_and_what_is_captured() -> None:
    table = np.linspace(-1.0, 1.0, 30)
    threshold = 0.0

    def program(x: Any, n: int, *, flag: bool = True) -> Any:
        if flag and x[n] + table[0] > threshold:
            return np.sum(x**2) * table[1]
        return np.sum(x**3) * n

    gradient = hesse.grad(hesse.branching(program))
    for change in (0.0, 2.0):
        table += change
        for x in POINTS:
            for n, flag in ((0, True), (2, True), (1, False)):
                found = gradient(x, n, flag=flag)
                np.testing.assert_allclose(
                    found,
                    differences(lambda x, n=n, flag=flag: program(x, n, flag=flag), x),
                    rtol=1e-6,
                    atol=1e-8,
                )


def test_called_as_it_is() -> None:
    function = hesse.branching(signs)
    assert function(POINTS[0]) == signs(POINTS[0])
    assert function.__name__ == "signs"
    with pytest.raises(ArgumentError, match="branching takes a function, not a int"):
        hesse.branching(3)  # type: ignore[type-var]


def test_methods_and_partial_functions() -> None:
    class Model:
        scale = 2.0

        def loss(self, x: Any) -> Any:
            return np.sum(x**2) * self.scale if x[0] > 0 else x[1]

    gradient = hesse.grad(hesse.branching(Model().loss))
    np.testing.assert_allclose(gradient(POINTS[0]), 4 * POINTS[0])
    np.testing.assert_allclose(gradient(POINTS[1]), [0, 1, 0])
    partial = hesse.grad(hesse.branching(functools.partial(lambda a, x: x[0] * a if x[0] > a else x[1], 1.0)))
    np.testing.assert_allclose(partial(POINTS[2]), [1, 0, 0])
    np.testing.assert_allclose(partial(POINTS[0]), [0, 1, 0])


def test_numbers_would_lose_their_derivative() -> None:
    with pytest.raises(TracingError, match=r"float\(\)"):
        hesse.grad(hesse.branching(lambda x: float(x[0]) * x[1]))(POINTS[0])


def test_the_truth_of_several_values_is_not_known() -> None:
    with pytest.raises(TracingError, match="truth value"):
        hesse.grad(hesse.branching(lambda x: x[0] if x > 0 else x[1]))(POINTS[0])


def test_errors_name_it() -> None:
    for function in (signs, whole_numbers, masks):
        with pytest.raises(TracingError, match=r"@hesse\.branching"):
            hesse.grad(function)(POINTS[0])
    with pytest.raises(ArgumentError, match=r"decides by values and cannot be bound; use functools\.partial"):
        hesse.grad(hesse.branching(signs)).bind(x=POINTS[0])


def test_explained() -> None:
    assert "cos(x)" in hesse.grad(hesse.branching(signs)).explain(POINTS[1]).formula
    assert "cos(x)" not in hesse.grad(hesse.branching(signs)).explain(POINTS[0]).formula


def test_derivatives_inside_of_functions() -> None:
    inner = hesse.grad(hesse.branching(signs))

    @hesse.branching
    def outer(x: Any) -> Any:
        return np.sum(inner(x * 0.9) ** 2)

    gradient = hesse.grad(outer)
    for x in POINTS:
        np.testing.assert_allclose(gradient(x), differences(outer, x), rtol=1e-6, atol=1e-8)
    with pytest.raises(TracingError, match=r"@hesse\.branching"):
        hesse.grad(lambda x: np.sum(inner(x)))(POINTS[0])


def test_derivatives_of_derivatives_decide_as_well() -> None:
    """What `hesse.grad` makes of such a function decides as it does, however often it is applied."""

    @hesse.branching
    def series(x: Any) -> Any:
        term = total = x
        for k in range(50):
            term = -term * x**2 / ((2 * k + 3) * (2 * k + 2))
            total = total + term
            if np.abs(term) < 1e-14:
                break
        return total

    second, third = hesse.grad(hesse.grad(series)), hesse.grad(hesse.grad(hesse.grad(series)))
    for x in (-2.0, 0.3, 1.1, 0.4):
        np.testing.assert_allclose([second(x), third(x)], [-np.sin(x), -np.cos(x)], rtol=1e-10)
    f = hesse.branching(signs)
    for x in POINTS:
        expected = hesse.hessian(f)(x)
        np.testing.assert_allclose(hesse.jacobian(hesse.grad(f))(x), expected, rtol=1e-12)
        np.testing.assert_allclose(hesse.jvp(hesse.grad(f))(x, x), expected @ x, rtol=1e-12)
        np.testing.assert_allclose(hesse.jacobian(hesse.value_and_grad(f))(x)[1], expected, rtol=1e-12)
        np.testing.assert_allclose(hesse.hessian(hesse.compile(f))(x), expected, rtol=1e-12)


def test_torch_functions() -> None:
    def program(x: Any) -> Any:
        total = torch.zeros((), dtype=x.dtype)
        for k in range(int(x.argmax()) + 1):
            total = total + (torch.sin(x[k]) if x[k] > 0 else x[k] ** 3)
        return total * x.sum() if torch.all(x > -1) else total

    gradient = hesse.grad(hesse.branching(program))
    for point in POINTS * 2:
        x = torch.tensor(point, requires_grad=True)
        (expected,) = torch.autograd.grad(program(x), x)
        torch.testing.assert_close(gradient(torch.tensor(point)), expected)
    with pytest.raises(TracingError, match=r"@hesse\.branching"):
        hesse.grad(program)(torch.tensor(POINTS[0]))
    with pytest.raises(TracingError, match=r"item\(\)"):
        hesse.grad(hesse.branching(lambda x: x.sum() * x[0].item()))(torch.tensor(POINTS[0]))


def test_numbers_of_truth_values_and_whole_numbers() -> None:
    def tripod(x: Any) -> Any:
        p, q = float(x[0] >= 0), float(np.argmax(x))
        return p * x[0] ** 2 + (1.0 - p) * x[1] ** 3 + q * x[1]

    gradient = hesse.grad(hesse.branching(tripod))
    np.testing.assert_allclose(gradient(np.array([1.0, 2.0])), [2.0, 1.0])
    np.testing.assert_allclose(gradient(np.array([-1.0, 2.0])), [0.0, 13.0])
    np.testing.assert_allclose(gradient(np.array([3.0, 2.0])), [6.0, 0.0])
    with pytest.raises(TracingError, match=r"@hesse\.branching"):
        hesse.grad(tripod)(np.array([1.0, 2.0]))
    with pytest.raises(TracingError, match=r"float\(\), int\(\) or complex\(\) of a traced value"):
        hesse.grad(hesse.branching(lambda x: float(x[0]) ** 2))(np.array([1.0, 2.0]))
