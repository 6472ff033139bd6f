"""Classic problems: the derivatives read as in a textbook, and what is read is what nested JAX computes.

The oracle is nested JAX on a function written by hand. It is compared with the value of the derivative and
with the value of its printed text, which is parsed again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest

import hesse
from hesse.ir import Shape, Variable
from latex_check import check_latex
from oracles import TOLERANCE, evaluate_jax, relative_error
from textbook_matrices import MATRIX_PROBLEMS
from textbook_problem import Problem
from textbook_vectors import VECTOR_PROBLEMS

jax.config.update("jax_enable_x64", True)


PROBLEMS = [*VECTOR_PROBLEMS, *MATRIX_PROBLEMS]

SIZES = {"m": 4, "n": 3, "k": 2, "p": 5}


def size(name: int | str) -> int:
    return SIZES[name] if isinstance(name, str) else name


def shape(sizes: Shape) -> tuple[int, ...]:
    return tuple(map(size, sizes))


def random_value(variable: Variable, scale: float) -> np.ndarray:
    seed = sum(map(ord, variable.name))
    value = scale * np.random.default_rng(seed).uniform(0.5, 1.5, shape(variable.shape))
    if variable.rank == 2 and variable.shape[0] == variable.shape[1]:
        value = value + 3 * np.eye(len(value))
    return value + value.T if "symmetric" in variable.attributes else value


CASES = [(problem, names) for problem in PROBLEMS for names in problem.derivatives]


def test_there_are_enough_problems() -> None:
    assert len({problem.text for problem in PROBLEMS}) >= 50


@pytest.mark.parametrize(("problem", "names"), CASES, ids=[f"{p.text} by {names}" for p, names in CASES])
def test_textbook(problem: Problem, names: str) -> None:
    formula = hesse.parse(problem.text, **problem.types)
    derivative = formula.diff(*names)
    text = str(derivative)
    assert text == problem.derivatives[names]
    check_latex(derivative.to("latex"))
    values = {v.name: random_value(v, problem.scales.get(v.name, 1.0)) for v in formula.variables}
    expected = reference(problem, names, values)
    assert relative_error(derivative.evaluate(**values), expected) < TOLERANCE
    assert relative_error(read_back(text, derivative, problem, values), expected) < TOLERANCE


def reference(problem: Problem, names: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
    function: Callable[..., Any] = problem.function
    arguments = list(inspect.signature(function).parameters)
    for name in names:
        function = jax.jacfwd(function, arguments.index(name))
    found: np.ndarray = evaluate_jax(function, *(values[name] for name in arguments))
    return found


def read_back(
    text: str, derivative: hesse.Formula, problem: Problem, values: Mapping[str, np.ndarray]
) -> np.ndarray:
    """The value of the printed text; sizes that it leaves open are those of the derivative."""
    used = {v.name for v in super(hesse.Formula, derivative).variables}
    parsed = hesse.parse(text, **{name: type_ for name, type_ in problem.types.items() if name in used})
    pairs = zip(parsed.shape, derivative.shape, strict=True)
    sizes = {name: size(own) for name, own in pairs if isinstance(name, str)}
    return parsed.evaluate(**{v.name: values[v.name] for v in parsed.variables}, **sizes)
