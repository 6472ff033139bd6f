"""What cannot be traced raises an error that names the construct, the line and the way out."""

# ruff: noqa: PLW0108 -- lambdas keep the line in this file, where the error must point

from __future__ import annotations

import copy
import functools
import inspect
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
import hesse.frontends
from frontend_cases import traced
from hesse.errors import TracingError
from hesse.frontends import Expression, as_expression, constant
from hesse.frontends.dispatch import FUNCTIONS, WAYS_OUT, implements

ZEROS = np.zeros(3)
OWN_ZEROS = functools.partial(np.zeros)
"""NumPy's own function: nothing stands in its place while a function is traced."""


def delete(x: Any) -> None:
    del x[0]


def assign_into_array(x: Any) -> None:
    np.zeros((3, 3))[0] = x


def branch(x: Any) -> Any:
    return 1.0 if x[0] > 0 else 2.0


def loop(x: Any) -> None:
    while x[0] > 0:
        x = x - 1


def add_in_place(x: Any) -> None:
    array = np.zeros(3)
    array += x


CONSTRUCTS: list[tuple[Callable[[Any], Any], str, str]] = [
    (delete, r"the deletion of entries of a traced value", r"np\.where"),
    (assign_into_array, "converted to an array", r"np\.stack"),
    (lambda x: float(x[0]), r"float\(\)", r"np\.sin\(x\)"),
    (lambda x: int(x[0]), r"int\(\)", r"np\.sin\(x\)"),
    (lambda x: complex(x[0]), r"complex\(\)", r"np\.sin\(x\)"),
    (lambda x: math.sin(x[0]), r"math\.sin\(x\)", r"Use np\.sin\(x\)"),
    (lambda x: math.floor(x[0]), r"float\(\)", r"instead of math"),
    (branch, "the truth value of a traced value", r"np\.where\(condition, x, y\)"),
    (loop, "the truth value of a traced value", r"np\.where"),
    (lambda x: x[0] and x[1], "truth value", "&, |, ~"),
    (lambda x: not x, "truth value", r"np\.where"),
    (lambda x: max(x), "truth value", r"np\.where"),
    (lambda x: 0 < x[0] < 1, "truth value", r"np\.where"),
    (lambda x: x[0] in [1.0, 2.0], "truth value", r"np\.where"),
    (lambda x: 1.0 in x, "the truth value of a traced value", r"np\.where"),
    (lambda x: range(x[0]), "as a Python integer", "Loop over a shape"),
    (lambda x: [1, 2, 3][x[0]], "as a Python integer", "Loop over a shape"),
    (lambda x: len(x[0]), r"len\(\) of a 0-d value", r"np\.atleast_1d"),
    (lambda x: list(x[0]), "iteration over a 0-d value", r"np\.atleast_1d"),
    (lambda x: x.tobytes(), r"tobytes\(\)", "Evaluate the expression first"),
    (lambda x: x.resize(2), "changes a traced value in place", r"np\.where"),
    (lambda x: x.resize(2), "changes a traced value in place", r"np\.where"),
    (lambda x: x.nonzero(), r"np\.nonzero .* with a condition that is traced", r"np\.where"),
    (lambda x: np.add(x, 1, out=ZEROS), r"the argument out= of np\.add", "Assign the result"),
    (add_in_place, r"in-place update of an array like a \+= x", r"a = a \+ x"),
    (lambda x: np.add(x, 1, where=[True, False, True]), r"np\.add with where= and without out=", "out="),
    (lambda x: np.exp(x, dtype=complex), r"np\.exp with these arguments .*'dtype'", "Leave"),
    (lambda x: np.multiply.at(x, np.argsort(x), 1.0), r"np\.multiply\.at", r"np\.add\.at"),
    (lambda x: np.hypot.reduceat(x, [0, 1]), r"np\.hypot\.reduceat", r"np\.cumsum"),
    (lambda x: np.subtract.reduce(x), r"np\.subtract\.reduce", r"np\.sum"),
    (lambda x: np.add.reduce(x, dtype=int), r"np\.sum with these arguments .*'dtype'", "Leave"),
    (lambda x: x + "a", "a constant of type str", "real numbers"),
    (lambda x: x == None, "a constant of type NoneType", "real numbers"),  # noqa: E711
    (lambda x: x * np.array([None, 1, 2]), "a constant of type ndarray", "real numbers"),
    (lambda x: x + {"a": 1}, "a constant of type dict", "real numbers"),
    (lambda x: x & 1, "&, | or ^ of numbers", "parentheses"),
    (lambda x: ~x, "~ of numbers", r"~\(x > 0\)"),
    (lambda x: -(x > 0), r"np\.negative of truth values", "~"),
    (lambda x: (x > 0) - (x > 1), "the difference of truth values", r"np\.logical_xor"),
    (lambda x: np.where(x > 0), r"np\.where\) with a condition", r"np\.where\(condition, x, y\)"),
    (lambda x: np.nonzero(x), r"np\.nonzero .* with a condition that is traced", r"hesse\.branching"),
    (lambda x: np.copyto(ZEROS, x), r"np\.copyto", r"np\.zeros_like\(x\) or hesse\.zeros\(3\)"),
    (lambda x: np.full_like(np.ones((2, 3)), x), r"np\.full", r"np\.ones\(3\) \* x"),
    (lambda x: np.linalg.eig(x), r"np\.linalg\.eig, for which hesse has no rule", r"np\.linalg\.eigh"),
    (lambda x: np.nanmedian(x), r"np\.nanmedian", "depends on the data"),
    (lambda x: np.spacing(x), r"np\.spacing", r"hesse\.frontends\.dispatch\.implements"),
    (lambda x: np.polyfit(x, x, 2, cov=True), r"np\.polyfit", r"np\.linalg\.lstsq"),
    (lambda x: np.sort(1j * x), r"np\.sort of complex values", r"z\.real, z\.imag"),
    (lambda x: np.fft.fft(np.ones(5000) * x[0]), "np.fft of 5000 points", "custom_derivative"),
    (lambda x: np.array([1j * x[0], x[1]]), "a complex value where a real one is needed", r"np\.stack"),
    (lambda x: operator.setitem(x.copy(), 0, 1j * x[0]), "of complex values", r"z\.real"),
    (lambda x: np.unique(x), r"np\.unique", "depends on the data"),
    (lambda x: np.isin(x, [1.0]), r"np\.isin", "Compare with each value"),
    (lambda x: x << 1, "a shift of bits", "power of two"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "construct", "way_out"), CONSTRUCTS, ids=[str(k) for k in range(len(CONSTRUCTS))]
)
def test_untraceable(function: Callable[[Any], Any], construct: str, way_out: str) -> None:
    with pytest.raises(TracingError, match=f"(?s)({construct}).*cannot be traced.*({way_out})") as caught:
        function(traced(ZEROS, "x"))
    lines, start = inspect.getsourcelines(function)
    file, line = re.search(r"\(at (.*):(\d+)\)", str(caught.value)).groups()  # type: ignore[union-attr]
    assert file == __file__
    assert start <= int(line) < start + len(lines)


def test_assigning_one_entry_of_an_array_outside_of_a_trace() -> None:
    """NumPy turns the error into its own, where nobody can step in; ours is its cause."""
    array = np.zeros(3)
    with pytest.raises((TracingError, ValueError)) as caught:
        array[0] = traced(ZEROS, "x")[0]
    errors = [caught.value, caught.value.__cause__]
    assert any(isinstance(error, TracingError) and "np.stack" in str(error) for error in errors)


ASSIGNMENTS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda y, x: operator.setitem(y, 0, x[0]), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y, -1, np.sum(x)), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y, 0, x[:2]), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y.reshape(2, 2), (0, 1), x[0]), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y, 0, y[0] + x[0]), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y.astype("f4"), 0, x[0]), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y > 0, 0, x[0] > 0), "assignment of a traced value"),
    (lambda y, x: y.fill(x[0]), "assignment of a traced value"),
    (lambda y, x: operator.setitem(y.astype(int), 0, x[0]), r"a\[i\] = x"),
    (lambda y, x: operator.setitem(y.astype(complex), 0, x[0]), r"a\[i\] = x"),
    (lambda y, x: operator.setitem(y, slice(None), x), r"a\[1:3\] = x"),
    (lambda y, x: operator.setitem(y, slice(1, 3), x[:2]), r"a\[1:3\] = x"),
    (lambda y, x: operator.setitem(y, [0, 2], x[:2]), r"a\[1:3\] = x"),
    (lambda y, x: operator.setitem(y, y == 0, x[0]), r"a\[1:3\] = x"),
    (lambda y, x: operator.setitem(y, slice(0, 2), [x[0], x[1]]), r"a\[1:3\] = x"),
    (lambda y, x: float(x[0]), r"float\(\)"),
]  # fmt: skip


@pytest.mark.parametrize(("assign", "construct"), ASSIGNMENTS, ids=[str(k) for k in range(len(ASSIGNMENTS))])
def test_assignments_into_arrays_in_a_traced_function(
    assign: Callable[[Any, Any], Any], construct: str
) -> None:
    def function(x: Any) -> Any:
        y = OWN_ZEROS(4)
        assign(y, x)
        return np.sum(y)

    with pytest.raises(TracingError, match=f"({construct}).* cannot be traced.*np\\.stack") as caught:
        hesse.grad(function)(np.ones(4))
    line = inspect.getsourcelines(assign)[1]
    assert f"(at {__file__}:{line})" in str(caught.value)


def test_other_errors_of_traced_functions_pass_unchanged() -> None:
    def wrong(x: Any) -> Any:
        y = np.zeros(4)
        y[0] = [1.0, 2.0]
        return np.sum(x)

    def raised(x: Any) -> Any:
        raise ValueError("of the user")

    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        hesse.grad(wrong)(np.ones(4))
    with pytest.raises(ValueError, match=r"^of the user$"):
        hesse.grad(raised)(np.ones(4))


def test_arrays_of_objects_hold_traced_values() -> None:
    def function(x: Any) -> Any:
        y = np.zeros(2, dtype=object)
        y[0], y[1] = x[0] ** 2, x[1]
        return np.sum(y)

    assert np.array_equal(hesse.grad(function)(np.array([3.0, 4.0])), [6.0, 1.0])


def test_ways_out_are_about_functions_without_a_handler() -> None:
    known = {getattr(function, "__name__", "") for function in FUNCTIONS}
    assert not known & set(WAYS_OUT)


def test_missing_attributes_say_what_to_do() -> None:
    x = traced(ZEROS, "x")
    with pytest.raises(AttributeError, match=r"the attribute \.strides .*Use the NumPy function"):
        x.strides  # noqa: B018
    assert not hasattr(x, "ctypes")


def test_a_function_has_one_handler() -> None:
    with pytest.raises(ValueError, match="has two handlers"):
        implements(np.exp)(lambda x: x)


def test_users_can_add_a_handler() -> None:
    @implements(np.spacing)
    def spacing(x: Any) -> Any:
        return np.abs(x) * np.finfo(float).eps

    try:
        assert np.spacing(traced(ZEROS, "x")).shape == (3,)
    finally:
        del FUNCTIONS[np.spacing]


def test_expressions_are_values() -> None:
    x = traced(ZEROS, "x")
    for copied in (copy.copy(x), copy.deepcopy(x)):  # which may be written to
        assert copied is not x
        assert copied.node is x.node
    assert {x: 1}[x] == 1
    assert hash(x) == hash(Expression(x.node))
    assert as_expression(x) is x


def test_constants() -> None:
    table = constant([[1, 2], [3, 4]])
    assert table.shape == (2, 2)
    assert table.index is not None
    assert constant([True]).boolean
    assert constant(2.0).index is None
    with pytest.raises(TracingError, match="a complex constant"):
        constant(1j)


def test_public_names_exist() -> None:
    for name in hesse.frontends.__all__:
        assert hasattr(hesse.frontends, name)


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: np.all(x > 0), "truth values"),
        (lambda x: np.allclose(x, 1.0), "truth values"),
        (lambda x: x > 0, "truth values"),
        (lambda x: np.argmax(x), "whole numbers"),
        (lambda x: {"count": np.sum(x > 0), "sum": np.sum(x)}, "whole numbers"),
    ],
)
def test_results_without_derivatives(f: Callable[[Any], Any], what: str) -> None:
    """Their derivatives would be silent zeros; they may be further results."""
    point = np.array([1.0, -2.0, 3.0])
    for derivative in (hesse.jacobian(f), hesse.hessian(f)):
        with pytest.raises(TracingError, match=f"made of {what}, which have no derivatives"):
            derivative(point)
    gradient, aux = hesse.grad(lambda x: (np.sum(x * x), f(x)), has_aux=True)(point)
    np.testing.assert_array_equal(gradient, 2 * point)
    expected = f(point)
    for mine, theirs in zip(
        *(v.values() if isinstance(v, dict) else [v] for v in (aux, expected)), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(hesse.jacobian(lambda x: 1.0 * (x > 0))(point), np.zeros((3, 3)))
