"""Running one function on arrays and on expressions, and comparing what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import naive
from hesse.backends.numpy import compile_program, make_plan
from hesse.frontends import Expression
from hesse.ir import Variable, bind_sizes, topological, variable


class Case(NamedTuple):
    """A function of arrays with its arguments: shapes (filled with random numbers) or arrays."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def cases(*entries: tuple[Any, ...]) -> Any:
    """Parametrise a test over entries `(name, function, *arguments)`."""
    named = [Case(name, function, arguments) for name, function, *arguments in entries]  # type: ignore[arg-type]
    return pytest.mark.parametrize("case", named, ids=[case.name for case in named])


def array(argument: Any, seed: int = 0) -> np.ndarray:
    """Random numbers of a shape (a tuple), or the argument itself."""
    if isinstance(argument, tuple):
        return np.random.default_rng(seed).uniform(-2.0, 2.0, argument)
    return np.asarray(argument)


def traced(value: np.ndarray, name: str) -> Expression:
    """The expression that stands for an array, as the tracer makes it."""
    index = variable(f"{name}:index", value.shape, kind="integer") if value.dtype.kind in "iu" else None
    return Expression(variable(name, value.shape), boolean=value.dtype == bool, index=index)


def check(case: Case, tolerance: float = 1e-10) -> None:
    """The function gives the same on arrays and on expressions, evaluated naively and by the back end."""
    arrays = [array(argument, seed) for seed, argument in enumerate(case.arguments)]
    expressions = [traced(value, f"x{k}") for k, value in enumerate(arrays)]
    values = {f"x{k}": value for k, value in enumerate(arrays)}
    values |= {f"x{k}:index": value for k, value in enumerate(arrays)}
    with np.errstate(all="ignore"):
        expected = flat(case.function(*(value.copy() for value in arrays)))
    results = flat(case.function(*expressions))
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert isinstance(result, Expression), f"{case.name} gives a {type(result).__name__}"
        assert result.shape == np.shape(wanted)
        assert result.boolean == (np.asarray(wanted).dtype == bool)
        for value in (naive.evaluate(result.node, values), compiled_value(result, values)):
            np.testing.assert_allclose(value, np.asarray(wanted, float), rtol=tolerance, atol=tolerance)


def flat(results: Any) -> list[Any]:
    """The entries of nested tuples and lists."""
    if isinstance(results, tuple | list):
        return [entry for part in results for entry in flat(part)]
    return [results]


def compiled_value(expression: Expression, values: dict[str, np.ndarray]) -> np.ndarray:
    """The value by the NumPy back end."""
    (node,) = bind_sizes([expression.node], {})
    inputs = sorted({leaf.name for leaf in topological([node]) if isinstance(leaf, Variable)})
    program = compile_program(make_plan([node]), inputs, np.dtype(float))
    arguments = [values[name] if name.endswith(":index") else values[name].astype(float) for name in inputs]
    with np.errstate(all="ignore"):
        return program.function(*arguments)[0]
