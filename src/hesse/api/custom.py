"""`custom_derivative`: functions of arrays that cannot be traced, with rules for their derivatives."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from hesse.api.trace import nested_names, nested_trace
from hesse.backends.foreign import result_kind
from hesse.backends.target import library_of
from hesse.calculus.foreign import DerivedRule, LinearMap
from hesse.errors import ArgumentError, DifferentiationError, TracingError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_array, as_node
from hesse.ir import Apply, Node, Shape, Variable, constant, variable, zero
from hesse.ops.foreign import Output, concrete_shapes, foreign

Function = Callable[..., Any]
ShapeRule = tuple[Any, ...] | Callable[..., tuple[Any, ...]]
"""Shapes of results, or a function of the shapes of the operands that gives them."""

SAMPLE = (0.5, 1.0)
"""Functions are called with values between these to learn the shapes of their results …"""
SAMPLED = {"integer": np.intp, "boolean": np.bool_}
"""… and with zeros of these types for operands of other kinds."""


class CustomFunction:
    """A function with rules for its derivative; `custom_derivative` makes it."""

    def __init__(self, function: Function, shape: ShapeRule | None, native: bool) -> None:
        if not callable(function):
            raise ArgumentError(f"custom_derivative takes a function, not a {type(function).__name__}")
        functools.update_wrapper(self, function)
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.function, self.shape, self.native = function, shape, native
        self.jvp: Function | None = None
        self.vjp: Function | None = None
        self._rules: WeakValueDictionary[Any, _CustomRule] = WeakValueDictionary()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<custom_derivative {self.__name__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def defjvp(self, rule: Function) -> Function:
        """The rule by which tangents pass: `rule(primals, tangents)` returns the tangent of the result.

        Both are tuples with an entry for each argument of the function; the tangent of one that is no array
        is 0.0. Of several results it returns a tuple of tangents.
        """
        self.jvp = _rule(rule, "defjvp")
        return rule

    def defvjp(self, rule: Function) -> Function:
        """The rule by which cotangents pass: `rule(primals, result, cotangent)` returns a tuple of cotangents.

        It has an entry for each argument of the function: an array of its shape, or 0.0. Of several results
        `result` and `cotangent` are tuples.
        """
        self.vjp = _rule(rule, "defvjp")
        return rule

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not any(isinstance(value, Expression) for value in (*arguments, *options.values())):
            return self.function(*arguments, **options)
        if options:
            arguments = self._positional(arguments, options)
        given = [_argument(self.__name__, value) for value in arguments]
        rule = self._rule(tuple(entry for _, entry in given))
        operands = [node for node, _ in given if node is not None]
        results = rule.results(operands)
        return results if rule.signature(operands).has_several else results[0]

    def _positional(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        bound = inspect.signature(self.function).bind(*arguments, **options)
        bound.apply_defaults()
        if bound.kwargs:
            named = ", ".join(bound.kwargs)
            raise ArgumentError(f"{self.__name__} has a custom derivative: pass {named} by position")
        return bound.args

    def _rule(self, entries: tuple[Any, ...]) -> _CustomRule:
        """The rule for calls with these arguments; the same one as long as somebody uses it."""
        key = tuple((type(entry), entry) for entry in entries)
        with self._lock:
            try:
                found = self._rules.get(key)
            except TypeError:
                unhashable = next(entry for entry in entries if not _is_hashable(entry))
                raise ArgumentError(
                    f"{self.__name__} was called with a {type(unhashable).__name__}, which is neither an array "
                    "nor hashable; pass arrays as arguments of their own and settings as tuples"
                ) from None
            if found is None:
                found = self._rules[key] = _CustomRule(self, entries)
            return found


def custom_derivative(
    function: Function | None = None, *, shape: ShapeRule | None = None, native: bool = False
) -> Any:
    """A function of arrays with a derivative of its own, for what cannot be traced.

    The function is called with arrays when a result is computed: it may call compiled code, loop, and decide
    by values. Its derivative is given by `defjvp` or `defvjp` (or both), in functions that are traced, so that
    they can be differentiated again; they may call the function itself and other such functions.

    The shapes of results are found by calling the function once with numbers between 0.5 and 1, unless `shape`
    says them: a tuple, or a function of the shapes of the array arguments (for several results a tuple of
    shapes). With arrays of PyTorch or JAX the function is called with NumPy arrays all the same, unless
    `native` says that it works on theirs.

    >>> import numpy as np, scipy.special, hesse
    >>> @hesse.custom_derivative
    ... def ellipk(m):
    ...     return scipy.special.ellipk(m)
    >>> @hesse.custom_derivative
    ... def ellipe(m):
    ...     return scipy.special.ellipe(m)
    >>> @ellipk.defjvp
    ... def ellipk_jvp(primals, tangents):
    ...     (m,), (dm,) = primals, tangents
    ...     return (ellipe(m) - (1 - m) * ellipk(m)) / (2 * m * (1 - m)) * dm
    >>> @ellipe.defjvp
    ... def ellipe_jvp(primals, tangents):
    ...     (m,), (dm,) = primals, tangents
    ...     return (ellipe(m) - ellipk(m)) / (2 * m) * dm
    >>> hesse.check(lambda m: np.sum(ellipk(m)), np.array([0.3, 0.6]), order=3).ok
    True
    """
    if function is None:
        return functools.partial(CustomFunction, shape=shape, native=native)
    return CustomFunction(function, shape, native)


class _Operand(NamedTuple):
    """The place of an array among the arguments, and whether it is "real", "integer" or "boolean"."""

    kind: str = "real"


class _Signature(NamedTuple):
    """The results of a function, and whether it returns a tuple of them."""

    outputs: tuple[Output, ...]
    has_several: bool


class _CustomRule(DerivedRule):
    """A custom function with all arguments but arrays, which are its operands, fixed."""

    def __init__(self, custom: CustomFunction, entries: tuple[Any, ...]) -> None:
        super().__init__(custom.__name__)
        self.custom, self.entries = custom, entries
        self.is_native = custom.native
        self.kinds = [entry.kind for entry in entries if isinstance(entry, _Operand)]
        self._signatures: dict[tuple[tuple[int, ...], ...], _Signature] = {}

    def arguments(self, operands: Sequence[Any], instead: Callable[[Any], Any] = repr) -> list[Any]:
        left = iter(operands)
        return [next(left) if isinstance(entry, _Operand) else instead(entry) for entry in self.entries]

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        if shapes not in self._signatures:
            declared = self.custom.shape
            found = self._sampled(shapes) if declared is None else self._declared(declared, shapes)
            self._signatures[shapes] = found
        return self._signatures[shapes].outputs

    def signature(self, operands: Sequence[Node]) -> _Signature:
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

    def _declared(self, declared: ShapeRule, shapes: tuple[tuple[int, ...], ...]) -> _Signature:
        found = declared(*shapes) if callable(declared) else declared
        has_several = isinstance(found, tuple) and any(isinstance(part, tuple) for part in found)
        listed = found if has_several else (found,)
        for part in listed:
            if not isinstance(part, tuple) or not all(isinstance(size, int) for size in part):
                raise ArgumentError(
                    f"the shape of {self.name} is a tuple of ints, or a tuple of such tuples, not {found!r}"
                )
        return _Signature(tuple(map(Output, listed)), has_several)

    def _sampled(self, shapes: tuple[tuple[int, ...], ...]) -> _Signature:
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
        return _Signature(outputs, isinstance(value, tuple))

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
            return self._missing()
        number = node.params[1]
        with nested_trace():
            tangents = [self._direction("tangent", k, operand.shape) for k, operand in enumerate(node.operands)]
            given = [t if kind == "real" else None for t, kind in zip(tangents, self.kinds, strict=True)]
            found = rule(self._primals(node), tuple(self.arguments(list(map(_direction_value, given)), _none)))
        what = f"the jvp rule of {self.name}"
        parts = _parts(what, found, len(outputs.outputs), outputs.has_several, "tangent", "result")
        return LinearMap(_part(what, parts[number], node.shape, "tangent", "the result"), tangents[slot])

    def cotangent(self, node: Apply, slot: int) -> LinearMap | None:
        rule, outputs = self.custom.vjp, self.signature(node.operands)
        if rule is None:
            return self._missing()
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
        places = [k for k, entry in enumerate(self.entries) if isinstance(entry, _Operand)]
        shape = node.operands[slot].shape
        value = _part(what, parts[places[slot]], shape, "cotangent", f"argument {places[slot]}")
        return LinearMap(value, variables[node.params[1]])

    def _missing(self) -> None:
        if self.custom.jvp is None and self.custom.vjp is None:
            raise DifferentiationError(
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


def _rule(rule: Any, name: str) -> Function:
    if not callable(rule):
        raise ArgumentError(f"{name} takes a function, not a {type(rule).__name__}")
    found: Function = rule
    return found


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _argument(name: str, value: Any) -> tuple[Node | None, Any]:
    """The node of an argument and its place; of one that is no array, None and itself."""
    if isinstance(value, Expression):
        if value.boolean:
            return value.node, _Operand("boolean")
        if value.index is not None and value.index.positions is None:
            return value.index.node, _Operand("integer")
        return as_node(value), _Operand()
    if isinstance(value, list | np.ndarray) or library_of(value) is not None:
        array = as_array(value)
        if array.dtype.kind in "iu":
            return constant(array), _Operand("integer")
        return as_node(array), _Operand("boolean" if array.dtype == bool else "real")
    return None, value
