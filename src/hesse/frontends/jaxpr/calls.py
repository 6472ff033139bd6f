"""Primitives that call a jaxpr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.foreign import called
from hesse.frontends.jaxpr.internals import ClosedJaxpr, JaxprEqn
from hesse.frontends.jaxpr.walk import INLINED, Walk, walked


@walked(*sorted(INLINED))
def inlined(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of the jaxpr."""
    jaxpr = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    if isinstance(jaxpr, ClosedJaxpr):
        return walk.closed(jaxpr, operands)
    return walk.of(jaxpr, (), operands)


@walked("remat", "checkpoint", "remat2")
def remat(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of the jaxpr: what is computed again is JAX's decision, not hesse's."""
    return walk.of(equation.params["jaxpr"], (), operands)


@walked("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
def with_rule(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A function with a derivative of its own: the row of a library function, or a foreign one."""
    return called(walk, internals.function_name(equation), equation, operands)
