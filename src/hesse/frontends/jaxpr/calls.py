"""Primitives that call a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from hesse.backends.named import Held, origin
from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.foreign import called
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.library import same_function, whole
from hesse.frontends.jaxpr.table import traced
from hesse.frontends.jaxpr.walk import INLINED, Walk, walked
from hesse.frontends.operands import as_node
from hesse.frontends.ufuncs import elementwise
from hesse.ir import Node, Variable, substitute, topological


@walked(*INLINED)
def inlined(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of the jaxpr; of a program of hesse, the expressions that it was made from."""
    if (program := _program(equation)) is not None:
        return _results(program, operands)
    if (results := whole(equation, operands)) is not None:
        return results
    return walk.closed(equation.params[INLINED[equation.primitive.name]], operands)


def _program(equation: JaxprEqn) -> Held | None:
    """The program of hesse that is called, if all of its inputs and results are there."""
    held = origin(equation.params.get("name", ""))
    if held is None or len(held.inputs) != len(equation.invars):
        return None
    shapes = [tuple(out.aval.shape) for out in equation.outvars]
    return held if shapes == [root.shape for root in held.roots] else None


def _results(program: Held, operands: Sequence[Any]) -> list[Expression]:
    """What a program computes, of other operands."""
    given = dict(zip(program.inputs, map(traced, operands), strict=True))
    table: dict[Node, Node] = {}
    for node in topological(program.roots):
        if isinstance(node, Variable):
            value = given[node.name]
            is_index = node.kind == "integer" and value.index is not None
            table[node] = value.index.as_node() if is_index else as_node(value)  # type: ignore[union-attr]
    return list(map(Expression, substitute(program.roots, table)))


@walked("remat2")
def remat(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of the jaxpr: what is computed again is JAX's decision, not hesse's."""
    return walk.of(equation.params["jaxpr"], (), operands)


@walked("custom_jvp_call", "custom_vjp_call")
def with_rule(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A function with a derivative of its own: the row of a library function, or a foreign one."""
    name = internals.function_name(equation)
    if name in LIBRARY and _is_library_function(name, equation):
        return [LIBRARY[name][1](*operands)]
    return called(walk, name, equation, operands)


def _logaddexp(x: Any, y: Any) -> Any:
    is_softplus = not isinstance(y, Expression) and not np.any(y)
    return elementwise("softplus", x) if is_softplus else np.logaddexp(x, y)


def _relu6(x: Any) -> Any:
    is_outside = np.logical_or(np.less_equal(x, 0.0), np.greater_equal(x, 6.0))  # which nan is not
    return np.where(is_outside, np.where(np.less(x, 3.0), 0.0, 6.0), x)


LIBRARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "log_ndtr": (jax.scipy.special.log_ndtr, partial(elementwise, "log_ndtr")),
    "logaddexp": (jnp.logaddexp, _logaddexp),
    "_pinv": (jnp.linalg.pinv, np.linalg.pinv),
    "logit": (jax.scipy.special.logit, lambda x: np.subtract(np.log(x), np.log1p(np.negative(x)))),
    "relu": (jax.nn.relu, partial(elementwise, "relu")),
    "relu6": (jax.nn.relu6, _relu6),
    "xlogy": (jax.scipy.special.xlogy, partial(elementwise, "xlogy")),
}
"""Functions of JAX with a rule of their own: by name the function, and what hesse has for it."""


def _is_library_function(name: str, equation: JaxprEqn) -> bool:
    """Whether an equation computes what a function of JAX does, and so does its derivative.

    A user's function may have the same name. So the texts of both are compared, for these shapes.
    """
    avals = tuple(map(internals.abstract, equation.invars))
    return same_function(lambda *arrays: internals.bound(equation, arrays)[0], LIBRARY[name][0], avals)
