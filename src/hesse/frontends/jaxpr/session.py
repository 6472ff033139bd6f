"""A trace of a JAX function, as the layers above see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.jaxpr.table import kind_of, traced
from hesse.frontends.jaxpr.walk import Walk
from hesse.frontends.libraries import Input, Session
from hesse.frontends.tracing import note_need, skip_frames
from hesse.ir import variable

skip_frames(jax)


class JaxSession(Session):
    """One trace of a JAX function."""

    def __init__(self, captured: Sequence[tuple[Any, Expression]]) -> None:
        self.further, self.is_final = [], False
        self._captured = captured
        self._stand_ins = {id(array): expression for array, expression in captured}

    def called(
        self, function: Callable[[Sequence[Any], Sequence[Any]], list[Any]], inputs: Sequence[Input]
    ) -> list[Any]:
        leaves: list[Any] = []

        def flat(*tracers: Any) -> list[Any]:
            leaves[:] = function(tracers[: len(inputs)], tracers[len(inputs) :])
            return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

        everything = [*inputs, *(Input(expression, array) for array, expression in self._captured)]
        try:
            jaxpr = jax.make_jaxpr(flat)(*map(_abstract, everything))
        except jax.errors.ConcretizationTypeError:
            for one in everything:
                note_need([one.expression])
            raise
        walk = Walk(self._stand_in)
        results = iter(walk.closed(jaxpr, [one.expression for one in everything]))
        return [traced(next(results)) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]

    def _stand_in(self, value: Any) -> Expression | None:
        """What stands for an array that the function read: a placeholder, if nobody had announced it."""
        known = self._stand_ins.get(id(value))
        if known is not None or not isinstance(value, jax.core.Tracer):
            return known
        self.further.append(value)
        name, shape, kind = f"array {len(self.further)} met", value.shape, kind_of(value.dtype)
        index = Index(variable(f"{name} as an index", shape, kind="integer")) if kind == "integer" else None
        found = Expression(variable(name, shape), boolean=kind == "boolean", index=index)
        self._stand_ins[id(value)] = found
        return found


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
