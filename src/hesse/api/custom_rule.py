"""The rule of a function with a custom derivative: calls with arrays, and rules that are traced."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hesse.api.trace import nested_names, nested_trace
from hesse.backends.foreign import result_kind
from hesse.backends.target import library_of
from hesse.calculus.foreign import DerivedRule, LinearMap
from hesse.errors import ArgumentError, DifferentiationError, TracingError
from hesse.frontends.expression import Expression
from hesse.frontends.libraries import computing
from hesse.frontends.operands import as_array, as_node
from hesse.ir import Apply, Node, Shape, Variable, constant, variable, zero
from hesse.ops.foreign import Output, concrete_shapes, foreign

if TYPE_CHECKING:
    from hesse.api.custom import CustomFunction

Function = Callable[..., Any]
ShapeRule = tuple[Any, ...] | Callable[..., tuple[Any, ...]]
"""Shapes of results, or a function of the shapes of the operands that gives them."""

SAMPLE = (0.5, 1.0)
"""Functions are called with values between these to learn the shapes of their results …"""
SAMPLED = {"integer": np.intp, "boolean": np.bool_}
"""… and with zeros of these types for operands of other kinds."""


class Operand(NamedTuple):
    """The place of an array among the arguments, and whether it is "real", "integer" or "boolean"."""

    kind: str = "real"


class Signature(NamedTuple):
    """The results of a function, and whether it returns a tuple of them."""

    outputs: tuple[Output, ...]
    has_several: bool


class CustomRule(DerivedRule):
    """A custom function with all arguments but arrays, which are its operands, fixed."""

    def __init__(self, custom: CustomFunction, entries: tuple[Any, ...]) -> None:
        super().__init__(custom.__name__)
        self.custom, self.entries = custom, entries
        self.is_native = custom.native
        self.kinds = [entry.kind for entry in entries if isinstance(entry, Operand)]
        self._signatures: dict[tuple[tuple[int, ...], ...], Signature] = {}

    def arguments(self, operands: Sequence[Any], instead: Callable[[Any], Any] = repr) -> list[Any]:
        left = iter(operands)
        return [next(left) if isinstance(entry, Operand) else instead(entry) for entry in self.entries]

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        if shapes not in self._signatures:
            declared = self.custom.shape
            with computing():
                found = self._sampled(shapes) if declared is None else self._declared(declared, shapes)
            self._signatures[shapes] = found
        return self._signatures[shapes].outputs

    def signature(self, operands: Sequence[Node]) -> Signature:
        """What the function returns for operands."""
        shapes = concrete_shapes(self.name, operands)
        self.outputs(shapes)
        return self._signatures[shapes]

    def results(self, operands: Sequence[Node]) -> tuple[Expression, ...]:
        """The results as expressions."""
        outputs = self.signature(operands).outputs
        return tuple(
            Expression(node, boolean=output.kind == "boolean")
            for node, output in zip(foreign(self, *operands), outputs, strict=True)
        )

    def _declared(self, declared: ShapeRule, shapes: tuple[tuple[int, ...], ...]) -> Signature:
        found = declared(*shapes) if callable(declared) else declared
        has_several = isinstance(found, tuple) and any(isinstance(part, tuple) for part in found)
        listed = found if has_several else (found,)
        for part in listed:
            if not isinstance(part, tuple) or not all(isinstance(size, int) for size in part):
                raise ArgumentError(
                    f"the shape of {self.name} is a tuple of ints, or a tuple of such tuples, not {found!r}"
                )
        return Signature(tuple(map(Output, listed)), has_several)

    def _sampled(self, shapes: tuple[tuple[int, ...], ...]) -> Signature:
        """What the function returns for some numbers."""
        generator = np.random.default_rng(0)
        samples = [
            (generator.uniform(*SAMPLE, shape) if kind == "real" else np.zeros(shape, SAMPLED[kind]))
            for shape, kind in zip(shapes, self.kinds, strict=True)
        ]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = self._value([np.asarray(sample)[()] for sample in samples])
        except Exception as error:
            raise TracingError(
                f"{self.name} was called with sample values to find the shape of its result, and raised "
                f"{type(error).__name__}: {error}; say the shape: @hesse.custom_derivative(shape=...)"
            ) from error
        parts = value if isinstance(value, tuple) else (value,)
        outputs = tuple(Output(np.shape(part), result_kind(self.name, part)) for part in parts)
        return Signature(outputs, isinstance(value, tuple))

    def _value(self, arrays: Sequence[Any]) -> Any:
        typed = [
            array != 0 if kind == "boolean" else array for array, kind in zip(arrays, self.kinds, strict=True)
        ]
        value = self.custom.function(*self.arguments(typed, _itself))
        if value is None:
            raise TracingError(f"{self.name} returned None; return the value")
        return value

    def call(self, *arrays: Any) -> Sequence[Any]:
        value = self._value(arrays)
        return value if isinstance(value, tuple) else (value,)

    def is_active(self, node: Apply, slot: int) -> bool:
        return self.kinds[slot] == self.signature(node.operands).outputs[node.params[1]].kind == "real"

    def tangent(self, node: Apply, slot: int) -> LinearMap | None:
        rule, outputs = self.custom.jvp, self.signature(node.operands)
        if rule is None:
            return None
        number = node.params[1]
        with nested_trace():
            tangents = [
                self._direction("tangent", k, operand.shape) for k, operand in enumerate(node.operands)
            ]
            given = [t if kind == "real" else None for t, kind in zip(tangents, self.kinds, strict=True)]
            found = rule(
                self._primals(node), tuple(self.arguments(list(map(_direction_value, given)), _none))
            )
        what = f"the jvp rule of {self.name}"
        parts = _parts(what, found, len(outputs.outputs), outputs.has_several, "tangent", "result")
        value = _part(what, parts[number], node.shape, "tangent", "the result")
        return LinearMap(value, tangents[slot], tuple(tangents), (node, *node.operands))

    def cotangent(self, node: Apply, slot: int) -> LinearMap | None:
        rule, outputs = self.custom.vjp, self.signature(node.operands)
        if rule is None:
            return None
        with nested_trace():
            variables = [
                self._direction("cotangent", k, output.shape) for k, output in enumerate(outputs.outputs)
            ]
            given = [
                _direction_value(v if output.kind == "real" else None)
                for v, output in zip(variables, outputs.outputs, strict=True)
            ]
            results = self.results(node.operands)
            if outputs.has_several:
                found = rule(self._primals(node), results, tuple(given))
            else:
                found = rule(self._primals(node), results[0], given[0])
        what = f"the vjp rule of {self.name}"
        count = len(self.entries)
        parts = _parts(what, found, count, isinstance(found, tuple) or count > 1, "cotangent", "argument")
        places = [k for k, entry in enumerate(self.entries) if isinstance(entry, Operand)]
        shape = node.operands[slot].shape
        value = _part(what, parts[places[slot]], shape, "cotangent", f"argument {places[slot]}")
        return LinearMap(value, variables[node.params[1]], tuple(variables), (node, *node.operands))

    def missing(self) -> DifferentiationError:
        return DifferentiationError(
            f"{self.name} has no rule for its derivative; give it one by {self.name}.defjvp(rule) or "
            f"{self.name}.defvjp(rule)"
        )

    def _primals(self, node: Apply) -> tuple[Any, ...]:
        expressions = [
            Expression(operand, boolean=kind == "boolean")
            for operand, kind in zip(node.operands, self.kinds, strict=True)
        ]
        return tuple(self.arguments(expressions, _itself))

    def _direction(self, what: str, place: int, shape: Shape) -> Variable:
        (name,) = nested_names([f"{what} {place} of {self!r}"])
        return variable(name, shape, ["tangent"])


def _itself(value: Any) -> Any:
    return value


def _none(value: Any) -> float:
    """The tangent of what is no array."""
    return 0.0


def _direction_value(direction: Variable | None) -> Any:
    return 0.0 if direction is None else Expression(direction)


def _parts(what: str, found: Any, count: int, has_several: bool, kind: str, of: str) -> tuple[Any, ...]:
    """What a rule returned, one value for each result or argument."""
    if found is None:
        raise DifferentiationError(f"{what} returned None; return the {kind} of each {of}")
    if not has_several:
        if isinstance(found, tuple | list):
            raise DifferentiationError(
                f"{what} returned a {type(found).__name__}; return the {kind} of the {of} and nothing else"
            )
        return (found,)
    if not isinstance(found, tuple) or len(found) != count:
        had = f"{len(found)} values" if isinstance(found, tuple) else f"a {type(found).__name__}"
        raise DifferentiationError(
            f"{what} returned {had}; return a tuple of {count}, the {kind} of each {of}, 0.0 where it is zero"
        )
    return found


def _part(what: str, value: Any, shape: Shape, kind: str, of: str) -> Node:
    if value is None:
        raise DifferentiationError(f"{what} returned None as the {kind} of {of}; return 0.0 for zero")
    if isinstance(value, int | float) and value == 0:
        return zero(shape)
    node = as_node(value)
    if node.shape != shape:
        raise DifferentiationError(
            f"{what} returned a {kind} of shape {node.shape}, but {of} has shape {shape}"
        )
    return node


def place_of(value: Any) -> tuple[Node | None, Any]:
    """The node of an argument and its place; of one that is no array, None and itself."""
    if isinstance(value, Expression):
        if value.boolean:
            return value.node, Operand("boolean")
        if value.index is not None and value.index.positions is None:
            return value.index.node, Operand("integer")
        return as_node(value), Operand()
    if isinstance(value, list | np.ndarray) or library_of(value) is not None:
        array = as_array(value)
        if array.dtype.kind in "iu":
            return constant(array), Operand("integer")
        return as_node(array), Operand("boolean" if array.dtype == bool else "real")
    return None, value
