"""Poles that are masked out leave no trace in derivatives: as in PyTorch and JAX, choices are selected.

Where the libraries give finite numbers, in whatever mode, hesse gives the same ones; where they do not, what
was chosen is compared with finite differences.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import hesse
from hesse.export import export
from hesse.ir import Map, multiply, topological, variable
from hesse.ops.registry import ELEMENTWISE, elementwise
from hesse.rewrite import selecting
from hesse.rewrite.poles import EXTREMES, FINITE_RECORDS, Facts, _is_finite_row
from masked_cases import CASES, Case
from oracles import fast_jit

LIBRARIES: dict[str, tuple[Any, Callable[[np.ndarray], Any]]] = {
    "numpy": (np, lambda x: x),
    "torch": (torch, torch.tensor),
    "jax": (jnp, jnp.asarray),
}
ORDERS = (1, 2, 3)
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
by_library = pytest.mark.parametrize("library", LIBRARIES)


@pytest.fixture(autouse=True)
def _poles_are_expected() -> Iterator[None]:
    """The functions themselves divide by zero."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")  # of its forward mode
        yield


def function_of(case: Case, library: str) -> Callable[[Any], Any]:
    """The program of a case for arrays of a library."""
    return functools.partial(case.function, LIBRARIES[library][0])


def point_of(case: Case, library: str = "numpy") -> Any:
    """The point of a case as an array of a library."""
    return LIBRARIES[library][1](np.array(case.point))


@functools.cache
def references(case: Case) -> list[list[np.ndarray]]:
    """Derivatives of all orders by nested PyTorch, in both modes."""
    nested: list[list[np.ndarray]] = []
    for again in (torch.func.jacrev, torch.func.jacfwd):
        derivative, found = function_of(case, "torch"), []
        for _ in ORDERS:
            derivative = again(derivative)
            found.append(np.asarray(derivative(point_of(case, "torch"))))
        nested.append(found)
    return nested


def assert_as_finite(found: Any, expected: np.ndarray) -> None:
    """What a library finds to be finite is the same."""
    finite = np.isfinite(expected)
    np.testing.assert_allclose(np.asarray(found)[finite], expected[finite], rtol=1e-8, atol=1e-9)


def assert_right(found: Any, case: Case, order: int) -> None:
    """All is finite, and as libraries have it."""
    assert np.isfinite(np.asarray(found)).all(), f"{found}"
    for reference in references(case):
        assert_as_finite(found, reference[order - 1])


@by_library
@by_case
def test_derivatives(case: Case, library: str) -> None:
    for order in ORDERS:
        derivative = hesse.derivative(function_of(case, library), order=order)
        for _ in range(2):  # built, and kept
            assert_right(derivative(point_of(case, library)), case, order)


def test_a_library_is_finite_somewhere() -> None:
    """Else the table would compare nothing."""
    compared = [np.isfinite(found).mean() for case in CASES for each in references(case) for found in each]
    assert np.mean(compared) > 0.8


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_derivatives_of_jax(case: Case) -> None:
    """JAX takes long to compile all of them."""
    f, x = function_of(case, "jax"), point_of(case, "jax")
    for order, nested in ((1, jax.jacrev(f)), (1, jax.jacfwd(f)), (2, jax.hessian(f))):
        assert_as_finite(hesse.derivative(f, order=order)(x), np.asarray(fast_jit(nested)(x)))


@by_case
def test_gradients_are_those_of_what_is_chosen(case: Case) -> None:
    f, x, step = function_of(case, "numpy"), point_of(case), 1e-6
    differences = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    np.testing.assert_allclose(hesse.grad(f)(x), differences, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["forward", "reverse", "two-sided", "cross-country", "lowest-order-first"])
@by_case
def test_modes(case: Case, mode: str) -> None:
    found = hesse.hessian(function_of(case, "numpy"), mode=mode)(point_of(case))
    assert_right(found, case, 2)


@by_library
@by_case
def test_products(case: Case, library: str) -> None:
    f, x = function_of(case, library), point_of(case, library)
    direction = np.linspace(0.5, 1.5, len(case.point))
    along = LIBRARIES[library][1](direction)
    gradient, hessian = (np.asarray(hesse.derivative(f, order=k)(x)) for k in (1, 2))
    for found, expected in [
        (hesse.jvp(f)(x, along), gradient @ direction),
        (hesse.hvp(f)(x, along), hessian @ direction),
        (hesse.jvp(lambda x: hesse.jvp(f)(x, along))(x, along), direction @ hessian @ direction),
        (hesse.diagonal(f)(x), np.diagonal(hessian)),
        (hesse.laplacian(f)(x), np.trace(hessian)),
    ]:
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=1e-9)


@by_library
@by_case
def test_structured(case: Case, library: str) -> None:
    structured = hesse.hessian(function_of(case, library), form="structured")(point_of(case, library))
    assert_right(structured.dense(), case, 2)
    ones = LIBRARIES[library][1](np.ones(len(case.point)))
    np.testing.assert_allclose(
        np.asarray(structured @ ones), np.asarray(structured.dense()).sum(1), rtol=1e-8, atol=1e-9
    )


@by_case
def test_series(case: Case) -> None:
    f, x, along = function_of(case, "numpy"), point_of(case), np.linspace(0.5, 1.5, len(case.point))
    _, *found = hesse.taylor(f, 3)(x, along)
    for order, term in zip(ORDERS, found, strict=True):
        tensor = hesse.derivative(f, order=order)(x)
        expected = functools.reduce(np.dot, [along] * order, tensor)
        np.testing.assert_allclose(term, expected, rtol=1e-8, atol=1e-9)


@by_case
def test_single_precision(case: Case) -> None:
    double = np.asarray(hesse.hessian(function_of(case, "numpy"))(np.array(case.point)))
    for library, (_, as_array) in LIBRARIES.items():
        x = as_array(np.array(case.point, np.float32))
        found = np.asarray(hesse.hessian(function_of(case, library))(x))
        np.testing.assert_allclose(found, double, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(double).max()))


def _filled(x: Any) -> Any:
    y = np.zeros_like(x)
    y[x > 0.2] = np.log(x[x > 0.2])
    return np.sum(y * y)


def _replaced(x: Any) -> Any:
    y = np.sqrt(np.where(x > 0.2, x, 0.0))
    y[x < 0.2] = 0.0
    return np.sum(y * x)


NUMPY_ONLY: dict[str, Callable[[Any], Any]] = {
    "piecewise": lambda x: np.sum(np.piecewise(x, [x > 0.2], [lambda x: np.log(x) ** 2, lambda x: x * x])),
    "select": lambda x: np.sum(np.select([x > 1.2, x > 0.2], [np.log(x), np.sqrt(x)], 0.0)),
    "masked write of zeros": _replaced,
    "nanmean": lambda x: np.nanmean(np.sqrt(np.where(x > 0.2, x, np.nan))),
    "nanmax": lambda x: np.nanmax(np.log(np.where(x > 0.2, x, np.nan))),
    "nan_to_num": lambda x: np.sum(np.nan_to_num(np.log(np.where(x > 0.2, x, np.nan)))),
    "maximum": lambda x: np.sum(np.log(np.maximum(x, 0.25))),
    "clip": lambda x: np.sum(np.clip(x, 0.3, 5.0) ** -1.5),
    "where of quotients": lambda x: np.sum(np.divide(1.0, x, where=x > 0.2, out=np.zeros_like(x))),
}


@pytest.mark.parametrize("name", NUMPY_ONLY)
def test_functions_of_numpy(name: str) -> None:
    f, x, step = NUMPY_ONLY[name], np.array([1.5, 0.0, 2.0, -0.7]), 1e-5
    units = np.eye(len(x))
    gradient = hesse.grad(f)
    differences = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in units]
    np.testing.assert_allclose(gradient(x), differences, rtol=1e-6, atol=1e-7)
    second = [(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in units]
    np.testing.assert_allclose(hesse.hessian(f)(x), second, rtol=1e-6, atol=1e-7)


def _step(xp: Any, carry: Any, x: Any) -> tuple[Any, Any]:
    mask = x > 0.21
    carry = 0.5 * carry + xp.where(mask, xp.log(xp.where(mask, x, 0.0)), 0.0) * xp.sin(carry)
    return carry, carry


def _recurrence(xp: Any, scan: Any) -> Callable[[Any], Any]:
    return lambda x: xp.sum(scan(functools.partial(_step, xp), xp.sum(x) * 0.1, x)[1] ** 2)


def test_loops() -> None:
    x = np.linspace(-1.0, 2.0, 100)
    x[7] = 0.0
    by_jax = _recurrence(jnp, jax.lax.scan)
    expected = [np.asarray(fast_jit(derivative(by_jax))(x)) for derivative in (jax.grad, jax.hessian)]
    assert np.isfinite(expected[1]).all()
    for f, point in ((_recurrence(np, hesse.scan), x), (by_jax, jnp.asarray(x))):
        np.testing.assert_allclose(hesse.grad(f)(point), expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(hesse.hessian(f)(point), expected[1], rtol=1e-9, atol=1e-12)


def test_loops_that_are_rolled_up() -> None:
    x = np.linspace(-1.0, 2.0, 100)
    x[7] = 0.0

    def point_by_point(x: Any) -> Any:
        total = 0.0
        for k in range(100):
            total = total + np.where(x[k] > 0.21, np.log(x[k]), 0.0) * x[k - 1]
        return total

    mask = x > 0.21
    logs, slopes = np.log(np.where(mask, x, 1.0)), np.divide(1.0, x, out=np.zeros(100), where=mask)
    expected = slopes * np.roll(x, 1) + np.roll(logs, -1)
    np.testing.assert_allclose(hesse.grad(point_by_point)(x), expected, rtol=1e-12)


def test_masked_writes_of_torch() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y[x <= 0.2] = 0.0
        return (torch.sqrt(y) * x + torch.log(y).masked_fill(x <= 0.2, 0.0)).sum()

    def chosen(x: Any) -> Any:
        return (torch.sqrt(x) * x + torch.log(x)).sum()

    x = torch.tensor([1.5, 0.0, 2.0, -0.7], dtype=torch.float64)
    for derivative, reference in ((hesse.grad, torch.func.grad), (hesse.hessian, torch.func.hessian)):
        found, inside = derivative(f)(x), reference(chosen)(x[[0, 2]])
        np.testing.assert_allclose(found[[0, 2]][..., [0, 2] if found.ndim > 1 else ...], inside, rtol=1e-12)
        assert torch.count_nonzero(found) == torch.count_nonzero(inside)


def test_rules_of_jax() -> None:
    @jax.custom_jvp
    def ramp(x: Any) -> Any:
        return jnp.maximum(x, 0.0)

    ramp.defjvps(lambda tangent, value, x: jax.lax.select(x > 0, tangent, jnp.zeros_like(tangent)))

    def f(x: Any) -> Any:
        return jnp.sum(jnp.where(x > 0.2, jnp.log(ramp(x)), 0.0) + jnp.sqrt(x.at[1].set(0.0)).at[1].set(0.0))

    x = jnp.asarray([1.5, -0.3, 2.0, 0.1])
    np.testing.assert_allclose(hesse.grad(f)(x), jax.jacfwd(f)(x), rtol=1e-12)
    np.testing.assert_allclose(hesse.hessian(f)(x), jax.jacfwd(jax.jacfwd(f))(x), rtol=1e-12)


def test_large_arrays() -> None:
    """Selections of large arrays are made by bits, in slices too."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=50_000)

    def f(x: Any) -> Any:
        m = x > 0
        return np.sum(np.where(m, np.log(np.where(m, x, 0.0)), 0.0))

    for dtype in (np.float64, np.float32):
        point = x.astype(dtype)
        expected = np.divide(1, point, out=np.zeros_like(point), where=point > 0)
        np.testing.assert_allclose(hesse.grad(f)(point), expected, rtol=1e-6)


def test_products_that_users_write_are_products() -> None:
    """A comparison that is multiplied with is a number: 0 * inf is nan, as in NumPy."""
    x = np.array([1.0, 0.0])
    product = hesse.value_and_grad(lambda x: np.sum((x > 0) * np.log(x)))
    value, gradient = product(x)
    assert np.isnan(value)
    np.testing.assert_array_equal(gradient, [1.0, np.nan])

    def mean(x: Any) -> Any:
        chosen = x > 5
        return np.sum(np.where(chosen, x, 0.0)) / np.sum(chosen)

    assert np.isnan(hesse.value_and_grad(mean)(x)[0])  # the mean of nothing


def test_exported_code_selects() -> None:
    x = variable("x", (4,))
    choice = elementwise("chosen", elementwise("greater", x, 0.2))
    source = export(multiply(choice, elementwise("reciprocal", x), choice), "numpy", "slope")
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    np.testing.assert_allclose(namespace["slope"](np.array([1.5, 0.0, 2.0, -0.7])), [1 / 1.5, 0.0, 0.5, 0.0])


def test_formulas_select() -> None:
    gradient = hesse.parse("sum(where(greater(x, 0.2), log(x), 0*x))").diff("x")
    np.testing.assert_allclose(gradient.evaluate(x=np.array([2.0, 0.0, -1.0])), [0.5, 0.0, 0.0])
    assert "chosen" not in str(gradient)


def test_finite_products_are_products() -> None:
    """A net without poles has no selections, and choices cost nothing."""

    def net(W: Any, x: Any) -> Any:
        return np.sum(np.maximum(W @ np.maximum(W @ x, 0.0), 0.0) ** 2)

    source = hesse.hessian(net).explain(np.ones((3, 3)), np.ones(3)).source
    assert "select" not in source
    assert "chosen" not in source


def test_choices_that_are_known_are_no_factors_twice() -> None:
    x = variable("x", (4,))
    choice = elementwise("chosen", elementwise("greater", x, 0.2))
    slope = multiply(choice, elementwise("sin", x))
    (found,) = selecting([multiply(choice, slope, elementwise("cos", x))])
    assert [node.name for node in topological([found]) if isinstance(node, Map)].count("greater") == 1
    assert len(found.operands) == 2


FINITE_ROWS = """
abs sign sin cos tan arctan arctan2 tanh arcsinh erf erfc sigmoid softplus relu softsign maximum minimum clip
clamp where select chosen greater greater_equal less less_equal equal not_equal logical_and logical_or
logical_not isfinite isinf isnan logaddexp floor ceil round trunc hypot cbrt stop_gradient safe_reciprocal
"""


def test_rows_without_poles() -> None:
    assert {name for name in ELEMENTWISE if _is_finite_row(name)} == set(FINITE_ROWS.split())
    assert 0.0 in EXTREMES
    assert "softmax" in FINITE_RECORDS


def test_whole_powers_are_finite() -> None:
    x = variable("x", (4,))
    powers = {exponent: elementwise("power", x, exponent) for exponent in (3.0, 0.5, -1.0)}
    infinite = Facts(topological(list(powers.values()))).infinite
    assert [exponent for exponent, node in powers.items() if node in infinite] == [0.5, -1.0]


POLES = ["log", "sqrt", "reciprocal", "arccosh"]
SMOOTH = ["sin", "tanh", "exp", "arctan"]


@st.composite
def programs(draw: st.DrawFn) -> Callable[[Any, Any], Any]:
    """A chain of smooth functions and of poles, each guarded by a choice before it, behind it or both."""
    steps = draw(
        st.lists(st.tuples(st.sampled_from(["smooth", "pole", "mix"]), st.integers(0, 3)), max_size=4)
    )
    guards = draw(st.lists(st.sampled_from(["inner", "outer", "both"]), min_size=4, max_size=4))
    steps.append(("pole", draw(st.integers(0, 3))))

    def function(xp: Any, x: Any) -> Any:
        y, weights = x, np.array([[0.6, -0.3, 0.2], [0.1, 0.8, -0.4], [-0.5, 0.3, 0.7]])
        for (kind, which), guard in zip(steps, guards * 2, strict=False):
            if kind == "smooth":
                y = getattr(xp, SMOOTH[which])(y)
            elif kind == "mix":
                y = xp.asarray(weights) @ y
            else:
                edge = 1.0 if POLES[which] == "arccosh" else 0.0
                mask = y > edge + 0.1
                inner = xp.where(mask, y, edge) if guard != "outer" else y
                pole = 1.0 / inner if POLES[which] == "reciprocal" else getattr(xp, POLES[which])(inner)
                y = (
                    xp.where(mask, pole, 0.5 * y)
                    if guard != "inner" or which == 1
                    else xp.where(mask, pole, 0.0)
                )
        return xp.sum(y * y)

    return function


@settings(max_examples=60, deadline=None)
@given(programs(), st.lists(st.sampled_from([-1.3, 0.0, 0.4, 1.0, 1.7]), min_size=3, max_size=3))
def test_random_programs(function: Callable[[Any, Any], Any], point: list[float]) -> None:
    x = np.array(point)
    of_torch, of_numpy = functools.partial(function, torch), functools.partial(function, np)
    back, along = torch.func.jacrev, torch.func.jacfwd
    for order, nested in (
        (1, (back(of_torch), along(of_torch))),
        (2, (back(back(of_torch)), along(along(of_torch)), along(back(of_torch)))),
    ):
        found = hesse.derivative(of_numpy, order=order)(x)
        for reference in nested:
            assert_as_finite(found, np.asarray(reference(LIBRARIES["torch"][1](x))))
