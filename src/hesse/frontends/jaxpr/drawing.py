"""Random numbers that are drawn with keys: nothing depends on a key smoothly, so JAX computes them.

What is computed from keys and whole numbers alone is put off. When it meets other values it becomes one
foreign function of the whole numbers that the keys were made from; so no key is ever a value of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from hesse.backends.kept import keep
from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.foreign import called
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.table import is_whole, typed
from hesse.frontends.jaxpr.walk import DRAWN, NEEDED, Drawn, Walk, walked
from hesse.frontends.tracing import untraceable


@walked(DRAWN)
def drawn(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Any:
    """The results of an equation as values that are put off; None if it needs them now."""
    if not all(_is_discrete(operand) for operand in operands):
        return None
    bases: list[tuple[Expression, Any]] = []
    readers: list[Callable[[Sequence[Any]], Any]] = []
    for operand, atom in zip(operands, equation.invars, strict=True):
        if isinstance(operand, Drawn):
            start = len(bases)
            bases += operand.bases
            readers.append(_read(operand.compute, start, len(bases)))
        elif isinstance(operand, Expression):
            readers.append(_read(lambda arrays: arrays[0], len(bases), len(bases) + 1))
            bases.append((operand, atom.aval))
        else:
            readers.append(_known(operand))

    def result(number: int) -> Callable[[Sequence[Any]], Any]:
        return lambda arrays: internals.bound(equation, [read(arrays) for read in readers])[number]

    return [Drawn(tuple(bases), result(k), out.aval) for k, out in enumerate(equation.outvars)]


def _read(compute: Callable[[Sequence[Any]], Any], start: int, stop: int) -> Callable[[Sequence[Any]], Any]:
    return lambda arrays: compute(arrays[start:stop])


def _known(value: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda _: value


def _is_discrete(operand: Any) -> bool:
    return isinstance(operand, Drawn) or not isinstance(operand, Expression) or is_whole(operand)


@walked(NEEDED)
def needed(walk: Walk, value: Any, _: Sequence[Any]) -> Any:
    """A value that was put off, as an expression."""
    if jax.dtypes.issubdtype(value.aval.dtype, jax.dtypes.prng_key):
        raise untraceable("a key of random numbers in a loop or a result", "Draw the numbers before.")
    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for _, aval in value.bases]
    equation = _same(jax.make_jaxpr(jax.jit(lambda *arrays: value.compute(arrays)))(*avals))
    (found,) = called(walk, "random numbers", equation, [base for base, _ in value.bases])
    return typed(found, value.aval.dtype)


def _same(jaxpr: Any) -> JaxprEqn:
    """The equation of a jaxpr; the same one if it was met before, so that traces can be compared."""
    (equation,) = jaxpr.eqns
    key = str(jaxpr), internals.entries(equation)
    found = _equations.get(key)
    return keep(_equations, key, equation) if found is None else found


_equations: dict[Any, JaxprEqn] = {}
"""Equations that draw random numbers, by what they compute."""
