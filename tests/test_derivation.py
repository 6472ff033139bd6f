"""Derivations: every line of every one is a true claim, in few lines, ending in the derivative."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import hesse
import naive
from hesse.calculus import differentiate
from hesse.derivation import Step, steps
from hesse.ir import Variable, topological
from hesse.printing import text
from hesse.rewrite import simplify
from oracles import assert_close, assert_matches_differences

SIZES = {"m": 4, "n": 3, "k": 2}
MOST_LINES = 16


def declare(name: str, *shape: str, **options: Any) -> Any:
    """A variable."""
    return hesse.variable(name, shape, **options)


A, B = declare("A", "m", "n"), declare("B", "n", "n")
x, z, y = declare("x", "n"), declare("z", "n"), declare("y", "m")
S, X = declare("S", "n", "n", symmetric=True), declare("X", "n", "n")
W, Y = declare("W", "n", "k"), declare("Y", "m", "k")
U, V, T, M = declare("U", "m", "k"), declare("V", "n", "k"), declare("T", "m", "n"), declare("M", "m", "n")
a = declare("a")
t1 = declare("t1", "n")
inv, logdet = np.linalg.inv, lambda matrix: np.linalg.slogdet(matrix)[1]

FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "linear": (z @ B @ x, x),
    "quadratic form": (x @ B @ x, x),
    "symmetric quadratic form": (x @ S @ x, x),
    "by the matrix": (x @ B @ z, B),
    "least squares": (np.sum((A @ x - y) ** 2), x),
    "norm": (np.linalg.norm(A @ x - y), x),
    "ridge": (np.sum((A @ x - y) ** 2) + a * np.sum(x**2), x),
    "logistic": (np.sum(np.log(1 + np.exp(-y * (A @ x)))), x),
    "log-sum-exp": (hesse.logsumexp(A @ x), x),
    "softmax cross entropy": (np.sum(hesse.logsumexp(A @ W, axis=1)) - np.sum(Y * (A @ W)), W),
    "entropy": (np.sum(x * np.log(x)), x),
    "exp of a form": (np.exp(x @ B @ x), x),
    "sine of a norm times exp": (np.sin(x @ x) * np.exp(a), x),
    "both factors": (np.sum(np.exp(x)) * np.log(np.sum(x)), x),
    "quotient": (np.sum(x**2) / (z @ x), x),
    "inverse": (np.trace(B @ inv(X)), X),
    "inverse of a symmetric matrix": (np.trace(B @ inv(S)), S),
    "logdet": (logdet(A.T @ A @ X), X),
    "determinant": (np.linalg.det(X), X),
    "matrix factorisation": (np.sum((M * (T - U @ V.T)) ** 2), U),
    "nested": (np.sum(np.tanh(A @ np.sin(B @ np.exp(x)))), x),
    "tower": (np.exp(np.sin(np.log(1 + np.sqrt(np.sum(x**2))))), x),
    "a name is taken": (np.sum(np.exp(B @ t1 + z)), t1),
}
VECTORS: dict[str, tuple[Any, Any]] = {
    "linear map": (A @ x, x),
    "softmax": (hesse.softmax(A @ x), x),
    "scaled": (x * np.exp(x @ z), x),
}


def values_of(*nodes: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """Positive values for all variables, names included; matrices far from singular."""
    generator = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    variables = {part for part in topological(nodes) if isinstance(part, Variable)}
    for variable in sorted(variables, key=lambda variable: variable.name):
        array = generator.uniform(0.4, 1.2, [SIZES[size] for size in variable.shape])
        if array.ndim == 2 and array.shape[0] == array.shape[1]:
            array += 2 * np.eye(len(array))
        if "symmetric" in variable.attributes:
            array = array + array.T
        found[variable.name] = array
    return found


def check(step: Step) -> None:
    """Compare both sides of a claim at random values of everything that is not defined by something else."""
    given = values_of(step.left, step.right, *([step.by] if step.by is not None else []))
    right = naive.evaluate(step.right, given, SIZES)
    if step.by is None:
        assert_close(right, naive.evaluate(step.left, given, SIZES), step.formula, 1e-10)
        return
    name = step.by.name

    def function(value: np.ndarray) -> np.ndarray:
        return naive.evaluate(step.left, {**given, name: value}, SIZES)

    for seed in range(3):
        generator = np.random.default_rng(seed)
        assert_matches_differences(function, right, given[name], generator, step.formula)


@pytest.mark.parametrize("name", [*FUNCTIONS, *VECTORS])
def test_every_line_is_true(name: str) -> None:
    function, variable = {**FUNCTIONS, **VECTORS}[name]
    for step in steps(function.node, [variable.node]):
        check(step)


SECOND = [name for name in FUNCTIONS if name not in ("nested", "softmax cross entropy", "tower")]


@pytest.mark.parametrize("name", SECOND)
def test_every_line_of_the_second_derivative_is_true(name: str) -> None:
    function, variable = FUNCTIONS[name]
    for step in steps(function.node, [variable.node] * 2):
        check(step)


def test_mixed_derivatives() -> None:
    for step in steps(np.sum((T - U @ V.T) ** 2).node, [U.node, V.node]):
        check(step)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_derivation_ends_in_the_derivative_and_is_short(name: str) -> None:
    function, variable = FUNCTIONS[name]
    lines = steps(function.node, [variable.node])
    (derivative,) = differentiate(simplify([function.node])[0], [variable.node])
    assert lines[-1].right is derivative
    assert lines[-1].formula.endswith(text(derivative).split(" = ")[-1])
    assert len(lines) <= MOST_LINES
    assert len({line.formula for line in lines}) == len(lines), "a line is repeated"


def test_a_wrong_line_would_be_found() -> None:
    function, variable = FUNCTIONS["logistic"]
    for step in steps(function.node, [variable.node] * 2):
        wrong = dataclasses.replace(step, right=step.right * 1.01)
        with pytest.raises(AssertionError):
            check(wrong)


def lines_of(name: str, order: int = 1) -> list[str]:
    function, variable = FUNCTIONS[name]
    return [str(step) for step in steps(function.node, [variable.node] * order)]


def test_the_text_of_least_squares() -> None:
    assert lines_of("least squares", 2) == [
        "f = norm2(A*x - y)^2    (the function)",
        "t1 = A*x - y    (a name for the argument)",
        "f = t1'*t1    (the function with names)",
        "df/dt1 = 2*t1    (power rule)",
        "dt1/dx = A    (derivative of a linear function)",
        "df/dx = 2*A'*t1    (chain rule)",
        "df/dx = 2*A'*(A*x - y)    (the names replaced)",
        "g = df/dx = 2*A'*(A*x - y)    (the function)",
        "dg/dx = 2*A'*A    (derivative of a linear function)",
    ]


def test_the_text_of_quadratic_forms() -> None:
    assert lines_of("quadratic form") == [
        "f = x'*B*x    (the function)",
        "df/dx = (B + B')*x    (product rule)",
    ]
    assert lines_of("symmetric quadratic form")[-1] == "df/dx = 2*S*x    (product rule, S symmetric)"


def test_results_without_matrix_notation_have_indices() -> None:
    (line,) = [line for line in lines_of("inverse", 2) if line.startswith("(dt1/dX)")]
    assert line == "(dt1/dX)[i,j,k,l] = -t1[i,k]*t1[l,j]    (derivative of inv)"


def test_names_avoid_those_of_variables() -> None:
    symbols = [step.symbol for step in steps(FUNCTIONS["a name is taken"][0].node, [t1.node])]
    assert symbols == ["f", "t2", "f", "df/dt2", "dt2/dt1", "df/dt1", "df/dt1"]
    f = hesse.variable("f", ("n",))
    assert steps(np.sum(f**2).node, [f.node])[-1].symbol == "dg/df"


def test_a_part_keeps_its_name() -> None:
    definitions = [line for line in lines_of("logistic", 2) if line.startswith("t1 = ")]
    assert len(definitions) == 1
    assert not [line for line in lines_of("logistic", 2) if line.startswith("t2 = ")]


def test_long_lines_are_left_out() -> None:
    deep = x
    for k in range(20):
        deep = np.tanh(declare(f"W{k}", "n", "n") @ deep)
    lines = steps(np.sum(deep**2).node, [x.node])
    assert [step.symbol for step in lines][-1] == "df/dx"
    assert "dt1/dx" not in [step.symbol for step in lines]
    assert max(len(step.formula) for step in lines[2:-1]) < 200


def test_latex_of_a_step() -> None:
    found = [step.latex for step in steps(FUNCTIONS["least squares"][0].node, [x.node] * 2)]
    assert found[1].startswith("t_{1} = ")
    assert found[3].startswith(r"\frac{\partial f}{\partial t_{1}} = ")
    assert found[7].startswith(r"g = \frac{\partial f}{\partial x} = ")
