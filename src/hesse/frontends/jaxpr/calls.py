"""Primitives that call a jaxpr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hesse.frontends.jaxpr.internals import ClosedJaxpr, JaxprEqn
from hesse.frontends.jaxpr.walk import INLINED, OTHER, Walk, walked
from hesse.frontends.tracing import untraceable


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


@walked(OTHER)
def unknown(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The error for a primitive without a handler."""
    raise untraceable(
        f"{equation.primitive.name}, for which hesse has no rule,",
        "Write it with other functions of jax.numpy, or add a handler with "
        "hesse.frontends.jaxpr.table.primitive.",
    )
