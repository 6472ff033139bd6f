"""`custom_derivative`: functions of arrays that cannot be traced, with rules for their derivatives."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from typing import Any
from weakref import WeakValueDictionary

from hesse.api.custom_rule import CustomRule, Function, ShapeRule, place_of
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.libraries import by_expressions


class CustomFunction:
    """A function with rules for its derivative; `custom_derivative` makes it."""

    reads = ("function", "jvp", "vjp")

    def __init__(self, function: Function, shape: ShapeRule | None, native: bool) -> None:
        if not callable(function):
            raise ArgumentError(f"custom_derivative takes a function, not a {type(function).__name__}")
        functools.update_wrapper(self, function, updated=())
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.function, self.shape, self.native = function, shape, native
        self.jvp: Function | None = None
        self.vjp: Function | None = None
        self._rules: WeakValueDictionary[Any, CustomRule] = WeakValueDictionary()
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
        """The rule by which cotangents pass: `rule(primals, result, cotangent)` returns a tuple of them.

        It has an entry for each argument of the function: an array of its shape, or 0.0. Of several results
        `result` and `cotangent` are tuples.
        """
        self.vjp = _rule(rule, "defvjp")
        return rule

    @by_expressions
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not any(map(holds_expressions, (*arguments, *options.values()))):
            return self.function(*arguments, **options)
        if options:
            arguments = self._positional(arguments, options)
        for value in arguments:
            if isinstance(value, tuple | list | dict) and holds_expressions(value):
                raise ArgumentError(
                    f"{self.__name__} was called with a {type(value).__name__} of traced values; a function "
                    "with a custom derivative takes arrays as arguments of their own"
                )
        given = [place_of(value) for value in arguments]
        rule = self._rule(tuple(entry for _, entry in given))
        operands = [node for node, _ in given if node is not None]
        results = rule.results(operands)
        return results if rule.signature(operands).has_several else results[0]

    def _positional(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments without names, in the order in which rules get them."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # of a compiled function
            named = list(options)
        else:
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            named = [name for name in bound.kwargs if name in options]
            arguments = bound.args
        if named:
            raise ArgumentError(
                f"{self.__name__} has a custom derivative, whose rule gets arguments by position: "
                f"pass {', '.join(named)} so, too"
            )
        return arguments

    def _rule(self, entries: tuple[Any, ...]) -> CustomRule:
        """The rule for calls with these arguments; the same one as long as somebody uses it."""
        key = tuple((type(entry), entry) for entry in entries)
        with self._lock:
            try:
                found = self._rules.get(key)
            except TypeError:
                unhashable = next(entry for entry in entries if not _is_hashable(entry))
                raise ArgumentError(
                    f"{self.__name__} was called with a {type(unhashable).__name__}, which is neither an "
                    "array nor hashable; pass arrays as arguments of their own and settings as tuples"
                ) from None
            if found is None:
                found = self._rules[key] = CustomRule(self, entries)
            return found


def holds_expressions(value: Any) -> bool:
    """Whether a value is traced, or a container of such."""
    if isinstance(value, tuple | list):
        return any(map(holds_expressions, value))
    if isinstance(value, dict):
        return any(map(holds_expressions, value.values()))
    return isinstance(value, Expression)


def custom_derivative(
    function: Function | None = None, *, shape: ShapeRule | None = None, native: bool = False
) -> Any:
    """A function of arrays with a derivative of its own, for what cannot be traced.

    The function is called with arrays when a result is computed: it may call compiled code, loop, and decide
    by values. Its derivative is given by `defjvp` or `defvjp` (or both), in functions that are traced, so
    that they can be differentiated again; they may call the function itself and other such functions.

    The shapes of results are found by calling the function once with numbers between 0.5 and 1, unless
    `shape` says them: a tuple, or a function of the shapes of the array arguments (for several results a
    tuple of shapes). With arrays of PyTorch or JAX the function is called with NumPy arrays all the same,
    unless `native` says that it works on theirs.

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
