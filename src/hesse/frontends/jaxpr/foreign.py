"""Equations without a handler: JAX computes them, and its own rules differentiate them.

The rule is traced. What JAX's `jvp` of the equation computes, or its `vjp` where the user gave that rule,
arrives in the table as a linear map of a tangent, and is differentiated again by hesse's calculus.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np

from hesse.calculus.foreign import DerivedRule, LinearMap, at, is_linear
from hesse.errors import DifferentiationError, HesseError
from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.table import is_real, kind_of, traced
from hesse.frontends.jaxpr.walk import (
    COMPLEX_ADVICE,
    OTHER,
    Drawn,
    Surroundings,
    Walk,
    has_tracers,
    is_complex,
    walked,
)
from hesse.frontends.operands import as_node
from hesse.frontends.tracing import note_need, recorded_location, untraceable, user_location
from hesse.ir import Apply, Map, Node, TooManyNodes, Variable, topological, variable, zero
from hesse.ops.foreign import FOREIGN, Output, foreign, rule_of

CALLBACK_ADVICE = "Give the function a derivative with hesse.custom_derivative, or write it in jax.numpy."
is_recording: ContextVar[bool] = ContextVar("is_recording", default=False)
"""Whether a rule of JAX is being traced."""


@walked(OTHER)
def other(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A primitive without a handler, as a foreign function."""
    name = equation.primitive.name
    if "callback" in name:
        raise untraceable(f"{name}, which calls Python,", CALLBACK_ADVICE)
    if not is_recording.get() and any(is_real(out.aval.dtype) for out in equation.outvars):
        warnings.warn(
            f"hesse has no rule for {name}; it is computed and differentiated by JAX's own", stacklevel=2
        )
    return called(walk, name, equation, operands)


@walked("reduce_precision")
def reduce_precision(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The array itself, if its type holds no more digits than are kept; JAX knows how to round."""
    limits = jnp.finfo(equation.invars[0].aval.dtype)
    kept = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    if kept[0] >= limits.nexp and kept[1] >= limits.nmant:
        return operands
    return called(walk, "reduce_precision", equation, operands)


def called(
    walk: Walk, name: str, equation: JaxprEqn, operands: Sequence[Any], kind: type[JaxRule] | None = None
) -> list[Expression]:
    """The results of an equation that is not looked into, by a rule of this kind."""
    _check_constants(walk, name, equation)
    if is_complex(equation):
        raise untraceable(f"the complex result of {name}", COMPLEX_ADVICE)
    if any(isinstance(operand, jax.Array) for operand in operands) and not has_tracers(operands):
        equation, operands = _with_keys(equation, operands)
    if has_tracers(operands) or any(isinstance(operand, Drawn) for operand in operands):
        raise untraceable(f"{name} of keys of random numbers", "Draw them outside of the function.")
    key = (
        equation.primitive,
        tuple((key, _marked(value)) for key, value in sorted(equation.params.items())),
        tuple(str(atom.aval) for atom in (*equation.invars, *equation.outvars)),
    )
    rule = _rules.get(key)
    if rule is None:
        rule = _rules[key] = (kind or JaxRule)(name, equation, walk.surroundings)
    nodes = foreign(rule, *map(_operand, operands))
    return [
        Expression(node, boolean=output.kind == "boolean")
        for node, output in zip(nodes, rule.results, strict=True)
    ]


def _with_keys(equation: JaxprEqn, operands: Sequence[Any]) -> tuple[JaxprEqn, list[Any]]:
    """An equation that holds the known keys of random numbers among its operands, and the other operands."""
    others = [k for k, operand in enumerate(operands) if not isinstance(operand, jax.Array)]

    def held(*arrays: Any) -> list[Any]:
        given = dict(zip(others, arrays, strict=True))
        return internals.bound(equation, [given.get(k, operand) for k, operand in enumerate(operands)])

    jaxpr = jax.make_jaxpr(jax.jit(held))(*(internals.abstract(equation.invars[k]) for k in others))
    return jaxpr.eqns[0], [operands[k] for k in others]


def _operand(value: Any) -> Node:
    expression = traced(value)
    return as_node(expression) if expression.index is None else expression.index.as_node()


def _marked(value: Any) -> Any:
    """What tells parameters apart: their values and types, or which object it is (which the rule keeps)."""
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_marked, value))
    if isinstance(value, float):
        return repr(value)  # tells -0.0 from 0.0
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


def _check_constants(walk: Walk, name: str, equation: JaxprEqn) -> None:
    """Arrays that jaxprs inside read are part of the rule: they must be known."""
    for value in internals.constants(equation):
        if walk.surroundings.is_input(value):
            note_need([walk.surroundings.stand_in(value)])  # which can be known, unless JAX traces it
            raise untraceable(
                f"{name}, whose function reads an array from around it,", "Pass the array as an argument."
            )


class JaxRule(DerivedRule):
    """An equation as a function of its operands, differentiated by JAX's rule for it."""

    is_native = True
    has_native_matrix = True

    def __init__(self, name: str, equation: JaxprEqn, surroundings: Surroundings) -> None:
        super().__init__(name)
        self.equation = equation
        self._surroundings = surroundings
        self._place = user_location()
        self.avals = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
        self.results = tuple(
            Output(tuple(out.aval.shape), kind_of(out.aval.dtype)) for out in equation.outvars
        )
        name = equation.primitive.name
        self.is_pushed = not internals.is_only_pulled(equation)
        self.is_pulled = not self.is_pushed or name == "scan"
        """A loop is passed backwards as a loop: what runs forward has to be repeated for each entry."""
        self.closed_over = internals.closed_over(equation) if name == "custom_vjp_call" else 0
        """The first operands of a function with a rule are values that it closes over."""
        self._primals: dict[tuple[int, tuple[Node, ...]], Node | None] = {}
        self._pulled: dict[tuple[int, tuple[Node, ...]], tuple[Variable, dict[int, Node]]] = {}

    def meaning(self) -> Hashable:
        return str(self.equation), internals.entries(self.equation)

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        return self.results

    def call(self, *arrays: Any) -> Sequence[Any]:
        given = [jnp.asarray(array, aval.dtype) for array, aval in zip(arrays, self.avals, strict=True)]
        real = [array.dtype for array in arrays if is_real(array.dtype)]
        dtype = real[0] if real else jax.dtypes.canonicalize_dtype(float)
        return [
            result if output.kind == "integer" else result.astype(dtype)
            for result, output in zip(internals.bound(self.equation, given), self.results, strict=True)
        ]

    def columns(self, function: Callable[[Any], Any], operand: Any, shape: tuple[int, ...]) -> Any:
        count = int(np.prod(operand.shape))
        units = jnp.eye(count, dtype=operand.dtype).reshape(count, *operand.shape)
        try:
            found = jax.vmap(function)(units)
        except NotImplementedError:  # there are primitives that JAX cannot map
            found = jax.lax.map(function, units)
        return jnp.moveaxis(found, 0, -1).reshape(shape + operand.shape)

    def is_active(self, node: Apply, slot: int) -> bool:
        is_used = slot not in internals.without_derivative(self.equation)
        return is_used and is_real(self.avals[slot].dtype) and self.results[node.params[1]].kind == "real"

    def tangent(self, node: Apply, slot: int) -> LinearMap | None:
        if not self.is_pushed:
            return None
        argument = variable(f"tangent of {self!r}", node.operands[slot].shape, ["tangent"])
        tangent = self.avals[slot], argument
        is_seen = self.equation.params.get("symbolic_zeros")  # by the rule: what moves and what does not
        try:
            slots = sorted({slot, *self._moving(node)}) if is_seen else [slot]
            (value,) = self._traced(partial(self._pushed, node.params[1], slot, slots), node, tangent)
        except DifferentiationError:  # JAX pushes through some primitives only if all that varies moves
            slots = self._moving(node)
            if slot not in slots:  # what is held constant has no tangent, and some rules insist on that
                return LinearMap(zero(node.shape), argument, (argument,), (node, *node.operands))
            (value,) = self._traced(partial(self._pushed, node.params[1], slot, slots), node, tangent)
        return LinearMap(value, argument, (argument,), (node, *node.operands))

    def _moving(self, node: Apply) -> list[int]:
        """The operands that a result depends on smoothly and that are no constants."""
        active = [slot for slot in range(len(self.avals)) if self.is_active(node, slot)]
        return [slot for slot in active if varies(node.operands[slot])]

    def _seen(self, node: Apply) -> list[int]:
        """The operands that a rule of a user is to take for moving: if it looks, those that do."""
        looks = self.equation.params.get("symbolic_zeros")
        found = self._moving(node) if looks else range(len(self.avals))
        return [slot for slot in found if slot >= self.closed_over and self.is_active(node, slot)]

    def _pushed(self, number: int, slot: int, slots: Sequence[int], *arrays: Any) -> list[Any]:
        """The tangent of a result for one of an operand, and zeros for the others of these operands."""
        *points, tangent = arrays
        if slot in internals.without_derivative(self.equation):
            return [jnp.zeros(self.results[number].shape, tangent.dtype)]
        moved = [points[k] for k in slots]
        tangents = [tangent if k == slot else jnp.zeros_like(points[k]) for k in slots]
        return [jax.jvp(self._function(number, slots, points), moved, tangents)[1]]

    def cotangent(self, node: Apply, slot: int) -> LinearMap | None:
        """The cotangents of all operands are computed together, once."""
        if not self.is_pulled:
            return None
        number = node.params[1]
        key = number, node.operands
        if key not in self._pulled:
            argument = variable(f"cotangent of {self!r}", node.shape, ["tangent"])
            slots = self._seen(node)

            def pulled(*arrays: Any) -> Any:
                *points, cotangent = arrays
                own = self._function(number, slots, points)
                return jax.vjp(own, *(points[k] for k in slots))[1](cotangent)

            aval = internals.abstract(self.equation.outvars[number])
            values = self._traced(pulled, node, (aval, argument))
            self._pulled[key] = argument, dict(zip(slots, values, strict=True))
        if slot < self.closed_over:
            raise DifferentiationError(
                f"{self.name} has a rule for its gradient (jax.custom_vjp) that says nothing of a value it "
                "closes over, which is differentiated by; pass the value as an argument"
            )
        argument, found = self._pulled[key]
        value = found[slot] if slot in found else zero(node.operands[slot].shape)
        return LinearMap(value, argument, (argument,), (node, *node.operands))

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        """A gradient may be changed by a rule in any way, say clipped, if it is that of one number."""
        is_whole = cotangent.rank == node.rank and len(self.results) == 1
        if is_whole and (found := self.cotangent(node, slot)) is not None and not is_linear(found):
            return at(found, cotangent)
        return super().pull(node, slot, cotangent)

    def primal(self, node: Apply) -> Node:
        """What the rule of a user computes beside the derivative, if that is not a call of the function."""
        if self.equation.primitive.name not in ("custom_jvp_call", "custom_vjp_call"):
            return node
        key = node.params[1], node.operands
        if key not in self._primals:
            self._primals[key] = self._value_by_rule(node)
        return self._primals[key] or node

    def _value_by_rule(self, node: Apply) -> Node | None:
        """This value, or None for the function itself."""
        slots = self._seen(node)

        def computed(*points: Any) -> Any:
            own = self._function(node.params[1], slots, points)
            moved = [points[k] for k in slots]
            if self.is_pushed:
                return jax.jvp(own, moved, list(map(jnp.zeros_like, moved)))[0]
            return jax.vjp(own, *moved)[0]

        if not slots:
            return None
        (value,) = self._traced(computed, node)
        if isinstance(value, Apply) and value.name == FOREIGN and value.operands == node.operands:
            return None if rule_of(value).meaning() == self.meaning() else value
        return value

    def _function(
        self, number: int | Sequence[int], slots: Sequence[int], points: Sequence[Any]
    ) -> Callable[..., Any]:
        """A result, or several, as a function of some operands."""

        def own(*moved: Any) -> Any:
            given = list(points)
            for slot, point in zip(slots, moved, strict=True):
                given[slot] = point
            found = internals.bound(self.equation, given)
            return found[number] if isinstance(number, int) else [found[k] for k in number]

        return own

    def _traced(
        self, function: Callable[..., Any], node: Apply, *tangent: tuple[jax.ShapeDtypeStruct, Variable]
    ) -> list[Node]:
        """What a rule of JAX computes from the operands and a tangent or cotangent, if it needs one."""
        operands = [
            Expression(operand, boolean=kind_of(own.dtype) == "boolean")
            for operand, own in zip(node.operands, self.avals, strict=True)
        ]
        token, place = is_recording.set(True), recorded_location.set(lambda: self._place)
        try:
            jaxpr = jax.make_jaxpr(function)(*self.avals, *(aval for aval, _ in tangent))
            operands += [Expression(argument) for _, argument in tangent]
            results = Walk(self._surroundings).closed(jaxpr, operands)
        except (HesseError, TooManyNodes):
            raise
        except Exception as error:  # JAX has many kinds
            raise self._failed(error) from error
        finally:
            is_recording.reset(token)
            recorded_location.reset(place)
        return list(map(_operand, results))

    def _failed(self, error: Exception) -> DifferentiationError:
        """What to say where JAX cannot differentiate an equation."""
        if called := internals.callbacks(self.equation):
            return DifferentiationError(
                f"{called[0]}, which calls Python, cannot be differentiated inside of {self.name} "
                f"(at {self._place}). {CALLBACK_ADVICE}"
            )
        why = str(error) or type(error).__name__
        return DifferentiationError(f"{self.name} has no rule in hesse, and JAX's own fails: {why}")


def varies(node: Node) -> bool:
    """Whether a value is not the same for all arguments, what is held constant left out."""
    order = topological([node])
    held = [one for one in order if isinstance(one, Map) and one.name == "stop_gradient"]
    return any(isinstance(one, Variable) for one in topological([node], held) if one not in held)


_rules: WeakValueDictionary[Hashable, JaxRule] = WeakValueDictionary()
