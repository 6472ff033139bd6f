"""Functions of JAX that stay whole: hesse has an operation for them.

A user's function may have the same name. So what is called is compared with the function of JAX at the same
shapes and dtypes: the texts of both and their constants, and those of their derivatives if there are rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.table import traced
from hesse.frontends.operands import as_node
from hesse.frontends.special import expm
from hesse.ops import linalg

Function = Callable[..., Any]
Avals = tuple[jax.ShapeDtypeStruct, ...]
Text = tuple[str, tuple[Any, ...]]
"""A jaxpr in words, and its constants."""


def _cholesky(a: Any) -> Any:
    return Expression(linalg.cholesky(as_node(a)))


def _of_each(function: Function) -> Function:
    """The results of a function as a list."""

    def listed(*operands: Any) -> list[Any]:
        found = function(*map(traced, operands))
        return list(found) if isinstance(found, tuple) else [found]

    return listed


WHOLE: dict[str, tuple[Function, Function]] = {
    "cholesky": (jnp.linalg.cholesky, _of_each(_cholesky)),
    "det": (jnp.linalg.det, _of_each(np.linalg.det)),
    "expm": (jax.scipy.linalg.expm, _of_each(expm)),
    "inv": (jnp.linalg.inv, _of_each(np.linalg.inv)),
    "signbit": (jnp.signbit, _of_each(np.signbit)),
    "slogdet": (jnp.linalg.slogdet, _of_each(np.linalg.slogdet)),
}
"""By the name of a compiled function of one array: JAX's function, and what hesse has for it."""


def whole(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any] | None:
    """The results of a function of JAX that hesse has an operation for; None if it is none of them."""
    name = equation.params.get("name")
    if name not in WHOLE or len(operands) != 1:
        return None
    reference, own = WHOLE[name]
    avals = tuple(map(internals.abstract, equation.invars))

    def called(*arrays: Any) -> Any:
        found = internals.bound(equation, arrays)
        return found if len(found) > 1 else found[0]

    is_same = _is_call(equation, reference, avals) or any(
        same_function(called, function, avals) for function in (reference, _mapped(name))
    )
    return own(*operands) if is_same else None


def _is_call(equation: JaxprEqn, reference: Function, avals: Avals) -> bool:
    """Whether an equation calls a function of JAX: then JAX finds again what it traced."""
    try:
        made = jax.make_jaxpr(reference)(*avals).eqns
    except (TypeError, ValueError):
        return False
    return len(made) == 1 and made[0].params.get("jaxpr") is equation.params.get("jaxpr") is not None


@functools.cache
def _mapped(name: str) -> Function:
    mapped: Function = jax.vmap(WHOLE[name][0])
    return mapped


def same_function(function: Function, reference: Function, avals: Avals) -> bool:
    """Whether a function computes what one of JAX does, and so does its derivative."""
    expected = _reference(reference, False, avals)
    if expected is None or _text(function, False, avals) != expected:
        return False
    has_rules = "custom_jvp_call" in expected[0] or "custom_vjp_call" in expected[0]
    return not has_rules or _text(function, True, avals) == _reference(reference, True, avals)


@functools.lru_cache(maxsize=512)
def _reference(function: Function, is_derivative: bool, avals: Avals) -> Text | None:
    """What a function of JAX computes; None if it does not take such arrays."""
    try:
        return _text(function, is_derivative, avals)
    except (TypeError, ValueError):
        return None


def _text(function: Function, is_derivative: bool, avals: Avals) -> Text:
    def derivative(*arrays: Any) -> Any:
        return jax.jvp(function, arrays, arrays)[1]

    jaxpr = jax.make_jaxpr(derivative if is_derivative else function)(*avals)
    inside = [value for equation in jaxpr.eqns for value in internals.constants(equation)]
    return str(jaxpr), tuple(map(_marked, [*jaxpr.consts, *inside]))


def _marked(value: Any) -> Any:
    """What tells constants apart; one that is traced is like no other."""
    if isinstance(value, jax.core.Tracer):
        return object()
    array = np.asarray(value)
    return array.shape, str(array.dtype), array.tobytes()
