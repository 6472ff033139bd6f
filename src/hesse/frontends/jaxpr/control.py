"""Loops and choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.foreign import called
from hesse.frontends.jaxpr.internals import ClosedJaxpr, JaxprEqn
from hesse.frontends.jaxpr.loops import JaxLoop
from hesse.frontends.jaxpr.table import traced
from hesse.frontends.jaxpr.walk import Walk, walked

MOST_EQUATIONS = 32
"""Loops are followed step by step up to so many equations. XLA compiles each of them; JAX's own loop once."""

HARMLESS = frozenset(
    {
        *(
            "add",
            "sub",
            "mul",
            "neg",
            "square",
            "integer_pow",
            "sin",
            "cos",
            "tanh",
            "logistic",
            "abs",
            "sign",
        ),
        *("max", "min", "select_n", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "stop_gradient"),
        *(
            "broadcast_in_dim",
            "reshape",
            "transpose",
            "squeeze",
            "slice",
            "concatenate",
            "rev",
            "pad",
            "iota",
        ),
        *("dot_general", "reduce_sum", "cumsum", "convert_element_type", "copy", "jit"),
    }
)
"""Primitives whose derivatives are finite wherever the values are."""


@walked("scan")
def scan(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A loop over the first axes of arrays: a short one step by step, a long one is left to JAX."""
    parameters = equation.params
    length, body = parameters["length"], parameters["jaxpr"]
    first, count = internals.loop_operands(equation)
    fixed, state = operands[:first], list(operands[first : first + count])
    along = operands[first + count :]
    if length * internals.equation_count(body) > MOST_EQUATIONS:
        return called(walk, "scan", equation, operands, JaxLoop)
    steps: list[list[Any]] = []
    order = range(length - 1, -1, -1) if parameters["reverse"] else range(length)
    for k in order:
        found = walk.closed(body, [*fixed, *state, *(array[k] for array in along)])
        state, further = found[: len(state)], found[len(state) :]
        steps.append(further)
    if parameters["reverse"]:
        steps.reverse()
    empty = [np.zeros(out.aval.shape, out.aval.dtype) for out in equation.outvars[len(state) :]]
    columns = [_stacked(column) for column in zip(*steps, strict=True)] if steps else empty
    return [*state, *columns]


def _stacked(column: Sequence[Any]) -> Any:
    is_real = any(isinstance(one, Expression) for one in column)
    return np.stack(column) if not is_real else np.stack(list(map(traced, column)))


@walked("while")
def while_(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A loop, step by step as long as the condition is known; else it is left to JAX."""
    parameters = equation.params
    ends = parameters["cond_nconsts"], parameters["cond_nconsts"] + parameters["body_nconsts"]
    of_condition, of_body, state = operands[: ends[0]], operands[ends[0] : ends[1]], operands[ends[1] :]
    most = MOST_EQUATIONS // max(1, internals.equation_count(parameters["body_jaxpr"]))
    for _ in range(most + 1):
        (goes_on,) = walk.closed(parameters["cond_jaxpr"], [*of_condition, *state])
        if isinstance(goes_on, Expression):
            break
        if not goes_on:
            return state
        state = walk.closed(parameters["body_jaxpr"], [*of_body, *state])
    return called(walk, "while_loop", equation, operands, JaxLoop)


@walked("cond")
def cond(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The branch with this number.

    All branches are computed where the number is not known and none of them can do harm. Else it is left to
    JAX: what a branch that is not taken would give may be nan, and 0 * nan is nan.
    """
    which, *given = operands
    branches = equation.params["branches"]
    if not isinstance(which, Expression):
        return walk.closed(branches[min(max(int(which), 0), len(branches) - 1)], given)
    if not all(map(_is_harmless, branches)):
        return called(walk, "cond", equation, operands)
    results, *others = [walk.closed(branch, given) for branch in branches]
    for number, other in enumerate(others, 1):
        here = np.greater_equal(which, number)
        results = [np.where(here, new, old) for new, old in zip(other, results, strict=True)]
    return results


def _is_harmless(branch: ClosedJaxpr) -> bool:
    return all(
        equation.primitive.name in HARMLESS and equation.params.get("y", 0) >= 0  # y: the power
        for equation in internals.equations(branch)
    )
