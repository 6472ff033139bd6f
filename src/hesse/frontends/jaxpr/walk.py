"""From a jaxpr to expressions, one equation after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression
from hesse.frontends.handlers import Handlers
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.internals import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from hesse.frontends.jaxpr.places import exceeds, wrapped
from hesse.frontends.jaxpr.table import HANDLERS, KNOWN, typed
from hesse.frontends.tracing import recorded_location

WRAPPING = frozenset({"abs", "add", "sub", "mul", "neg", "square", "integer_pow", "convert_element_type"})
"""Primitives whose results may be too large for short integers."""
SILENT = frozenset({"debug_callback", "debug_print"})
"""What has no results and no say in them."""


class Drawn(NamedTuple):
    """Keys and random numbers that are computed when they are needed, from whole numbers."""

    bases: tuple[tuple[Expression, Any], ...]
    """The whole numbers, and their abstract values."""
    compute: Callable[[Sequence[Any]], Any]
    aval: Any


class Surroundings(ABC):
    """What stands for arrays that a function read: constants of jaxprs."""

    @abstractmethod
    def stand_in(self, value: Any) -> Expression | None:
        """The expression for an array; None if its entries are part of the program."""

    @abstractmethod
    def is_input(self, value: Any) -> bool:
        """Whether an array is an input of the program, so that its entries are not known."""


class Walk:
    """How jaxprs are evaluated in a trace."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings

    def closed(self, jaxpr: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr with its constants."""
        return self.of(jaxpr.jaxpr, list(map(self.constant, jaxpr.consts)), operands)

    def constant(self, value: Any) -> Any:
        """What stands for a constant of a jaxpr."""
        found = self.surroundings.stand_in(value)
        return as_known(value) if found is None else found

    def _literal(self, literal: Literal) -> Any:
        """The value of a literal: a number of Python has the dtype that the jaxpr says."""
        value = literal.val
        return self.constant(value if np.shape(value) else np.asarray(value, literal.aval.dtype))

    def of(self, jaxpr: Jaxpr, constants: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr."""
        values: dict[Var, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> Any:
            return self._literal(atom) if isinstance(atom, Literal) else values[atom]

        around = recorded_location.get()
        for equation in _live(jaxpr):
            token = recorded_location.set(partial(_location, equation, around))
            try:
                results = self.equation(equation, list(map(read, equation.invars)))
            finally:
                recorded_location.reset(token)
            values.update(zip(equation.outvars, results, strict=True))
        return list(map(read, jaxpr.outvars))

    def equation(self, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        """The results of an equation."""
        name = equation.primitive.name
        if not any(map(is_traced, operands)) and not has_tracers(operands):
            return self._known(equation, operands)
        if _draws(equation, operands):
            put_off: Any = WALKED[DRAWN](self, equation, operands)
            if put_off is not None:
                return list(put_off)
            if name not in THROUGH:
                operands = [self.drawn(operand) for operand in operands]
        if is_complex(equation) and name not in THROUGH:
            return list(WALKED[COMPLEX](self, equation, operands))
        if name in WALKED:
            return list(WALKED[name](self, equation, operands))
        read, made = ([atom.aval.dtype for atom in atoms] for atoms in (equation.invars, equation.outvars))
        is_left = name not in HANDLERS or exceeds(name, operands, read, made)
        results = NotImplemented if is_left else HANDLERS[name](*operands, **equation.params)
        if results is NotImplemented:
            return list(WALKED[OTHER](self, equation, operands))
        listed = results if equation.primitive.multiple_results else [results]
        found = [typed(one, out.aval.dtype) for one, out in zip(listed, equation.outvars, strict=True)]
        return [wrapped(found[0], equation.outvars[0].aval.dtype)] if name in WRAPPING else found

    def drawn(self, value: Any) -> Any:
        """Random numbers that were put off, as an expression; other values as they are."""
        return WALKED[NEEDED](self, value, ()) if isinstance(value, Drawn) else value

    def _known(self, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        name = equation.primitive.name
        if name in KNOWN:
            results = KNOWN[name](*operands, **equation.params)
            return list(map(as_known, results if equation.primitive.multiple_results else [results]))
        if name in INLINED:
            inner = equation.params[INLINED[name]]
            if all(one.primitive.name in KNOWN for one in inner.eqns):
                return self.closed(inner, operands)
        return list(map(as_known, internals.computed(equation, operands)))


INLINED = {"jit": "jaxpr", "closed_call": "call_jaxpr", "composite": "jaxpr", "custom_vmap_call": "call"}
"""Calls that mean nothing but the jaxpr that is the parameter of this name."""
WALKED = Handlers(others=HANDLERS)
"""By the name of a primitive with jaxprs of its own: `(walk, equation, operands) -> results`."""
walked = WALKED.register
OTHER, COMPLEX, DRAWN, NEEDED = "other", "complex values", "random numbers", "random numbers that are needed"
"""In place of the name: what evaluates primitives without a handler, of complex values, and of keys."""
COMPLEX_ADVICE = "Only real arrays are differentiated; write it with real and imaginary parts."
THROUGH = frozenset({*INLINED, "cond", "remat2", "scan", "while"})
"""Calls, loops and choices, which pass values of any kind on to the jaxprs that they hold."""


def as_known(value: Any) -> Any:
    """A known value as NumPy has it: a number if it has no axes. Keys of random numbers stay as they are."""
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        return value
    return np.asarray(value)[()]


def has_tracers(values: Sequence[Any]) -> bool:
    """Whether there are values that JAX itself traces."""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def _live(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """The equations whose results are used, in order."""
    used = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    found: list[JaxprEqn] = []
    for equation in reversed(jaxpr.eqns):
        if used.isdisjoint(equation.outvars) and not _acts(equation):
            continue
        found.append(equation)
        used.update(atom for atom in equation.invars if isinstance(atom, Var))
    found.reverse()
    return found


def _location(equation: JaxprEqn, around: Callable[[], str] | None) -> str:
    """Where an equation was made; inside of a library, where that was called."""
    return internals.location(equation) or (around() if around is not None else "a line of a library")


def _acts(equation: JaxprEqn) -> bool:
    return internals.has_effects(equation) and equation.primitive.name not in SILENT


def is_traced(value: Any) -> bool:
    """Whether the entries of a value are not known."""
    return isinstance(value, Expression | Complex | Drawn)


def _draws(equation: JaxprEqn, operands: Sequence[Any]) -> bool:
    """Whether operands were drawn at random, or results are keys to draw with."""
    return any(isinstance(operand, Drawn) for operand in operands) or any(
        jax.dtypes.issubdtype(out.aval.dtype, jax.dtypes.prng_key) for out in equation.outvars
    )


def is_complex(equation: JaxprEqn) -> bool:
    """Whether operands or results are complex."""
    return any(
        jax.dtypes.issubdtype(getattr(atom.aval, "dtype", None), jax.numpy.complexfloating)
        for atom in (*equation.invars, *equation.outvars)
    )
