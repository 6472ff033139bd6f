"""What JAX does not promise to keep: the fields and parameters of equations, and how one is evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import register_exclusion, summarize

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Var", "bound", "location"]

OF_SOME_VERSIONS = {"closed_call", "log2", "one_minus_square"}
"""Primitives that not all versions of JAX have."""
EXPONENTIALS = {"erf", "exp", "exp2", "expm1", "logistic", "tanh"}
"""Primitives that are exponentials, or made of them."""

register_exclusion(str(Path(__file__).parents[2]))  # what hesse calls is not the user's code


def bound(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """What an equation gives for arrays, computed or recorded by the trace that is under way."""
    with equation.ctx.manager:
        found = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
    return list(found) if equation.primitive.multiple_results else [found]


def computed(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """The same, computed now whatever JAX traces around it."""
    with jax.core.eval_context():
        arrays = [jnp.asarray(one) if isinstance(one, np.ndarray | np.generic) else one for one in operands]
        return bound(equation, arrays)  # primitives of other libraries may want arrays of JAX


def location(equation: JaxprEqn) -> str:
    """Where the user's code made an equation; nothing where only libraries did."""
    place: str = summarize(equation.source_info)
    return place


def has_effects(equation: JaxprEqn) -> bool:
    """Whether an equation does something besides computing its results."""
    return bool(equation.effects)


def function_name(equation: JaxprEqn) -> str:
    """The name of a function that has a rule for its derivative."""
    name: str = equation.params["call_jaxpr"].jaxpr.debug_info.func_name
    return name


def closed_over(equation: JaxprEqn) -> int:
    """How many operands of a function with a rule are values that it closes over; they come first."""
    count: int = equation.params["num_consts"]
    return count


def loop_operands(equation: JaxprEqn) -> tuple[int, int]:
    """How many operands of a `scan` are the same in all steps, and how many are handed on; in this order."""
    parameters = equation.params
    if "ft_in" in parameters:  # since JAX 0.11
        fixed, state, _ = parameters["ft_in"].unpack()
        return len(fixed.vals), len(state.vals)
    return parameters["num_consts"], parameters["num_carry"]


def is_only_pulled(equation: JaxprEqn) -> bool:
    """Whether it is, or holds, a function with a rule for its gradient alone."""
    held = (one for jaxpr in _inside(equation) for one in equations(jaxpr))
    return any(one.primitive.name == "custom_vjp_call" for one in (equation, *held))


def constants(equation: JaxprEqn) -> Iterator[Any]:
    """The arrays that jaxprs inside of an equation hold."""
    for jaxpr in _inside(equation):
        if isinstance(jaxpr, ClosedJaxpr):
            yield from jaxpr.consts
        for inner in jaxpr.eqns:
            yield from constants(inner)


def entries(equation: JaxprEqn) -> tuple[bytes, ...]:
    """The entries of these arrays, keys of random numbers among them."""
    found = []
    for value in constants(equation):
        is_key = isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        found.append(np.asarray(jax.random.key_data(value) if is_key else value).tobytes())
    return tuple(found)


def callbacks(equation: JaxprEqn) -> list[str]:
    """The names of the primitives inside of an equation that call Python."""
    held = (one.primitive.name for jaxpr in _inside(equation) for one in equations(jaxpr))
    return [name for name in held if "callback" in name and name != "debug_callback"]


def is_left_over(value: Any, own: Sequence[Any]) -> bool:
    """Whether a tracer is of a trace that is over: not of that of these tracers, nor of one around it."""
    trace = own[0]._trace if own else None
    while trace is not None and trace is not value._trace:
        trace = getattr(trace, "parent_trace", None)
    return bool(own) and trace is None


def equation_count(jaxpr: ClosedJaxpr | Jaxpr) -> int:
    """The number of equations, those inside of them included."""
    return sum(1 for _ in equations(jaxpr))


def equations(jaxpr: ClosedJaxpr | Jaxpr) -> Iterator[JaxprEqn]:
    """All equations, those inside of others included."""
    for equation in jaxpr.eqns:
        yield equation
        for inside in _inside(equation):
            yield from equations(inside)


def most_exponentials(equation: JaxprEqn) -> int:
    """The most exponentials, or functions made of them, that an equation inside of this one computes."""
    inside = (one for jaxpr in _inside(equation) for one in equations(jaxpr))
    found = (one for one in inside if one.primitive.name in EXPONENTIALS)
    return max((math.prod(one.outvars[0].aval.shape) for one in found), default=0)


def _inside(equation: JaxprEqn) -> Iterator[ClosedJaxpr | Jaxpr]:
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else [value]:
            if isinstance(part, ClosedJaxpr | Jaxpr):
                yield part


def abstract(atom: Any) -> jax.ShapeDtypeStruct:
    """The shape and the dtype of a variable or literal of a jaxpr."""
    return jax.ShapeDtypeStruct(tuple(atom.aval.shape), atom.aval.dtype, weak_type=atom.aval.weak_type)


def linear_system(equation: JaxprEqn, operands: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any], list[Any]]:
    """Of a linear system: the product that is inverted, what it reads, and the right-hand sides."""
    lengths, jaxprs = equation.params["const_lengths"], equation.params["jaxprs"]
    return jaxprs.matvec, list(operands[: lengths.matvec]), list(operands[sum(lengths) :])


def without_derivative(equation: JaxprEqn) -> range:
    """The operands that say how a linear system is solved; the solution does not depend on them."""
    lengths = equation.params.get("const_lengths")
    return range(lengths.matvec, sum(lengths)) if lengths is not None else range(0)
