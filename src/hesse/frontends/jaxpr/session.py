"""A trace of a JAX function, as the layers above see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from hesse.backends.named import keeping
from hesse.errors import DifferentiationError
from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.table import kind_of, traced
from hesse.frontends.jaxpr.walk import COMPLEX_ADVICE, Surroundings, Walk
from hesse.frontends.libraries import Input, Session
from hesse.frontends.tracing import note_need, raised_at, skip_frames, untraceable, user_location
from hesse.ir import variable

skip_frames(jax)
LARGE = 4096
"""Arrays with more entries are not made part of a program, wherever they come from."""


class JaxSession(Session, Surroundings):
    """One trace of a JAX function."""

    def __init__(self, captured: Sequence[tuple[Any, Expression]]) -> None:
        self.further, self.is_final = [], False
        self._captured = captured
        self._stand_ins = {id(array): expression for array, expression in captured}
        self._tracers: tuple[Any, ...] = ()
        self._is_over = False

    def called(
        self, function: Callable[[Sequence[Any], Sequence[Any]], list[Any]], inputs: Sequence[Input]
    ) -> list[Any]:
        leaves: list[Any] = []

        def flat(*tracers: Any) -> list[Any]:
            self._tracers = tracers  # rules of functions inside may refer to them
            leaves[:] = function(tracers[: len(inputs)], tracers[len(inputs) :])
            return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

        everything = [*inputs, *(Input(expression, array) for array, expression in self._captured)]
        with keeping():
            try:
                jaxpr = jax.make_jaxpr(flat)(*map(_abstract, everything))
            except Exception as error:
                if not isinstance(error, jax.errors.TracerArrayConversionError):
                    _note_needs(inputs)
                _explain(error)
                raise
            operands = [one.expression for one in everything]
            self._stand_ins.update(zip(map(id, self._tracers), operands, strict=True))
            walk = Walk(self)
            results = iter(map(walk.drawn, walk.closed(jaxpr, operands)))
        self._is_over = True
        return [_result(next(results)) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]

    def is_input(self, value: Any) -> bool:
        return id(value) in self._stand_ins or isinstance(value, jax.core.Tracer)

    def stand_in(self, value: Any) -> Expression | None:
        """A placeholder, if nobody had announced an array that must be an input, or had better be one."""
        known = self._stand_ins.get(id(value))
        is_traced = isinstance(value, jax.core.Tracer)
        is_large = isinstance(value, jax.Array) and value.size > LARGE and not self._is_over
        if known is not None or not (is_traced or is_large):
            return known
        if value.dtype.kind == "c":
            if is_traced:
                raise untraceable("a complex array of a function around this one", COMPLEX_ADVICE)
            return None
        if self._is_over and internals.is_left_over(value, self._tracers):
            raise DifferentiationError(
                f"JAX's own rule for a derivative (jax.custom_jvp) fails (at {user_location()}): it reads a "
                "value of a trace that is over. JAX differentiates the function no further, either; give it "
                "a derivative with hesse.custom_derivative, or write it in jax.numpy."
            )
        if self._is_over:  # only rules are looked at later
            raise untraceable(
                "a rule (jax.custom_jvp, jax.custom_vjp) that reads a traced value of the function around it",
                "Pass the value as an argument of the function.",
            )
        self.further.append(value)
        name, shape, kind = f"array {len(self.further)} met", value.shape, kind_of(value.dtype)
        index = Index(variable(f"{name} as an index", shape, kind="integer")) if kind == "integer" else None
        found = Expression(variable(name, shape), boolean=kind == "boolean", index=index)
        self._stand_ins[id(value)] = found
        return found


def _result(value: Any) -> Any:
    """A result as an expression; a complex one is refused by whoever asked for it."""
    return value if isinstance(value, Complex) else traced(value)


def _note_needs(inputs: Sequence[Input]) -> None:
    """A trace failed: perhaps it needs the values of whole numbers and truth values (sizes, conditions).

    JAX has several errors for that.
    """
    for one in inputs:
        if kind_of(one.array.dtype) != "real":
            note_need([one.expression])


REFUSED: dict[type[Exception], tuple[str, str]] = {
    jax.errors.TracerBoolConversionError: (
        "the truth value of a traced array (if, while, and, or, not, assert)",
        "Use jnp.where, jax.lax.cond or jax.lax.while_loop, and &, |, ~ for conditions.",
    ),
    jax.errors.TracerIntegerConversionError: (
        "a traced array as a Python integer (range(x), an index of a list)",
        "Loop over a shape, or use jax.lax.fori_loop.",
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "an index of truth values that are traced (x[x > 0])",
        "The number of results depends on the data; use jnp.where.",
    ),
    jax.errors.TracerArrayConversionError: (
        "a traced JAX array converted to one of NumPy (np.sin(x), np.asarray(x))",
        "Use functions of jax.numpy, or write the whole function with those of NumPy.",
    ),
    jax.errors.UnexpectedTracerError: (
        "a value of another trace, which a function had stored,",
        "Return it instead of storing it.",
    ),
    jax.errors.ConcretizationTypeError: (
        "float(), int() or another conversion of a traced array",
        "Inside a traced function values are not known; use functions of jax.numpy.",
    ),
}
"""By JAX's errors: what they are about, and what to do. Special ones come first."""


CONVERSIONS = ("`float` function", "`int` function", "`complex` function", "item() method", "tolist() method")
"""What JAX says of values that the user's code converts; other values are needed by functions of JAX."""
SLICE = "a slice with traced bounds (x[:n])"
SIZES = {
    "Shapes must be": "a traced size",
    "Slice entries must be": SLICE,
    "Array slice indices must have static": SLICE,
}
"""How JAX's errors of no kind of their own begin, and what they are about."""
SIZE_ADVICE = (
    "Sizes and axes must not depend on the data: where a function of JAX has an argument for the number of "
    "results (size=, length=, total_repeat_length=, num_segments=), give a number, or use jnp.where or "
    "jax.lax.dynamic_slice."
)


def _explain(error: Exception) -> None:
    """Raise our error in place of JAX's, if it is about values that are not known."""
    first, *others = str(error).splitlines() or [""]
    if type(error) is jax.errors.ConcretizationTypeError and others:
        said = others[0].strip().rstrip(".")
        if not said.startswith("The error occurred while") and not any(one in said for one in CONVERSIONS):
            construct = f"a traced value that a function of JAX has to know ({said})"
            raise untraceable(construct, SIZE_ADVICE, raised_at(error)) from error
    for start, construct in SIZES.items():
        if first.startswith(start) and "Tracer" in first:
            raise untraceable(construct, SIZE_ADVICE, raised_at(error)) from error
    for kind, (construct, way_out) in REFUSED.items():
        if isinstance(error, kind):
            raise untraceable(construct, way_out, raised_at(error)) from error


def _abstract(one: Input) -> jax.ShapeDtypeStruct:
    dtype = jax.dtypes.canonicalize_dtype(one.array.dtype)
    return jax.ShapeDtypeStruct(np.shape(one.array), dtype, weak_type=one.is_weak)


def session(captured: Sequence[tuple[Any, Expression]], known: Sequence[Any]) -> JaxSession:
    """A trace of a function that reads these arrays; others are known anyway."""
    return JaxSession(captured)


def nested_session(leaves: Sequence[Any]) -> None:
    """None: what is called inside of a trace is part of the jaxpr."""


def computing() -> AbstractContextManager[None]:
    """Around calls with arrays inside of a trace: they are part of the jaxpr."""
    return nullcontext()


def traced_expression(value: Any) -> Expression | None:
    """None: a tracer of JAX stands for no expression before the trace is complete."""
    return None
