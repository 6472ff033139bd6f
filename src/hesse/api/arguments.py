"""How a call is matched to the parameters of a function, and checks of what it is differentiated by."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, DifferentiationError
from hesse.ir import Node


class Parameters:
    """The names of the arrays a function takes, and how a call is matched to them."""

    def __init__(self, function: Callable[..., Any], extra: Sequence[str] = ()) -> None:
        if not callable(function):
            raise ArgumentError(f"expected a function, got {type(function).__name__}")
        self.function_name = getattr(function, "__name__", type(function).__name__)
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (ValueError, TypeError):
            self.signature = None  # built-in functions may have none: positional arguments only
        taken = self.signature.parameters if self.signature else {}
        self.extra = tuple(name if name not in taken else f"{name}_direction" for name in extra)

    def names(self) -> list[str]:
        """The names by which arguments can be given."""
        return [*(self.signature.parameters if self.signature else ()), *self.extra]

    def by_name(self, values: dict[str, Any]) -> tuple[tuple[str, ...], list[Any]]:
        """Names and values in the order of a call, for values given by name."""
        ordered = {name: values[name] for name in self.names() if name in values} | values
        extra = tuple(ordered.pop(name) for name in self.extra if name in ordered)
        return self.match(extra, ordered)

    def match(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[str, ...], list[Any]]:
        """Names and values of a call, in the order of the signature, extra arguments last."""
        count = len(arguments) - len(self.extra)
        if count < 0:
            needed = ", ".join(self.extra)
            raise ArgumentError(
                f"the derivative of {self.function_name} also takes {needed} after its arguments"
            )
        own, extra = arguments[:count], arguments[count:]
        if self.signature is None:
            names = [f"x{k}" for k in range(len(own))]
            return (*names, *self.extra), [*own, *extra]
        try:
            bound = self.signature.bind(*own, **options)
        except TypeError as error:
            also = f" (and then with {', '.join(self.extra)})" if self.extra else ""
            raise ArgumentError(
                f"{self.function_name}{self.signature} cannot be called like this{also}: {error}"
            ) from None
        names, values = [], []
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                names += itertools.islice(self._numbered(name), len(value))
                values += value
            elif kind is inspect.Parameter.VAR_KEYWORD:
                names += value
                values += value.values()
            else:
                names.append(name)
                values.append(value)
        return (*names, *self.extra), [*values, *extra]

    def call(self, function: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> Any:
        """Call the function with the values of a call that was matched."""
        if self.signature is None:
            return function(*values)
        given = dict(zip(names, values, strict=True))
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        skipped = False
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                keys = list(itertools.takewhile(given.__contains__, self._numbered(name)))
                positional += [given.pop(key) for key in keys]
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                keywords.update(given)
            elif name in given and (skipped or parameter.kind is inspect.Parameter.KEYWORD_ONLY):
                keywords[name] = given.pop(name)
            elif name in given:
                positional.append(given.pop(name))
            else:
                skipped = True  # its default is taken, so what follows goes by name
        return function(*positional, **keywords)

    @staticmethod
    def _numbered(name: str) -> Iterator[str]:
        """Names for arguments of which there may be any number; no other argument has such a name."""
        return (f"{name}[{k}]" for k in itertools.count())


def check_differentiable(name: str, kind: str, dtype: Any) -> None:
    """Only floating-point arrays are differentiated by."""
    if kind != "f":
        raise DifferentiationError(
            f"cannot differentiate by {name}: its dtype is {dtype}; "
            f"pass a floating-point array ({name}.astype(float))"
        )


def check_argnums(argnums: Any, count: int, names: Sequence[str]) -> tuple[tuple[int, ...], bool]:
    """The positions to differentiate by, and whether a tuple was asked for."""
    single = not isinstance(argnums, tuple | list)
    positions = (argnums,) if single else tuple(argnums)
    if not positions:
        raise ArgumentError("argnums is empty: name at least one argument to differentiate by")
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, int | np.integer):
            raise ArgumentError(
                f"argnums must be an int or a tuple of ints, not {argnums!r}{_advice(argnums)}"
            )
        if not -count <= position < count:
            called = f"the function was called with {count} arguments ({', '.join(names)})"
            raise ArgumentError(f"argnums {position} is out of range: {called}")
    normal = tuple(int(position) % count for position in positions)
    if len(set(normal)) != len(normal):
        raise ArgumentError(f"argnums {argnums!r} names an argument twice")
    return normal, not single


def check_order(order: Any, name: str = "order") -> int:
    """The order of a derivative: an int of at least one."""
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
        raise ArgumentError(f"{name} must be an integer of at least 1, not {order!r}{_advice(order)}")
    return int(order)


def _advice(value: Any) -> str:
    """For arrays where settings belong: they were meant for the derivative."""
    if not hasattr(value, "shape"):
        return ""
    return "; the arguments of f are given to what this returns, as in hesse.grad(f)(x)"


def check_same_shape(name: str, node: Node, other_name: str, other: Node) -> None:
    """Refuse directions and weights of a shape that is not that of what they belong to."""
    if node.shape != other.shape:
        raise ArgumentError(f"{name} has shape {node.shape}, but {other_name} has shape {other.shape}")
