"""Front ends for the functions of other array libraries, loaded when arrays of theirs are met."""

from __future__ import annotations

import functools
import importlib
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeVar

from hesse.frontends.expression import Expression
from hesse.frontends.tracing import NumbersNeeded

Function = TypeVar("Function", bound=Callable[..., Any])

MODULES = {"torch": "hesse.frontends.aten", "jax": "hesse.frontends.jaxpr"}
"""By library: the module with its `session` and `traced`."""


class Input(NamedTuple):
    """An array, and the expression that stands for it; `is_weak` says that its dtype has no say."""

    expression: Expression
    array: Any
    is_weak: bool = False


class Session(ABC):
    """One trace of a function of a library.

    `further` are arrays that the function read and nobody had announced; it must be traced again with them.
    `is_final` says that the function cannot be traced in another way, either.
    """

    further: list[Any]
    is_final: bool

    @abstractmethod
    def called(
        self, function: Callable[[Sequence[Any], Sequence[Any]], list[Any]], inputs: Sequence[Input]
    ) -> list[Any]:
        """The leaves that a function returns, arrays of the library as expressions.

        It is called with what stands in for the inputs, and with what to read in place of captured arrays:
        the array itself if that will do.
        """


class Nested(ABC):
    """A function of a library called inside a trace that is under way."""

    @abstractmethod
    def given(self, expression: Expression, array: Any) -> Any:
        """What the function is called with in place of an array."""

    @abstractmethod
    def returned(self, leaf: Any) -> Any:
        """A leaf of what the function returns as an expression, if it is an array of the library."""

    @abstractmethod
    def result(self, expression: Expression) -> Any:
        """An expression as an array of the function around it."""


def session(
    library: str, captured: Sequence[tuple[Any, Expression]], known: Sequence[Any] = ()
) -> Session | None:
    """A trace of a function of a library that reads these arrays, and others that are `known`.

    None if the library has no front end.
    """
    if library not in MODULES:
        return None
    found: Session = importlib.import_module(MODULES[library]).session(captured, known)
    return found


def nested(leaves: Sequence[Any]) -> Nested | None:
    """The session of a function called with these leaves, if a function of a library is being traced.

    Expressions are what NumPy's functions are traced with: those belong to no library.
    """
    if any(isinstance(leaf, Expression) for leaf in leaves):
        return None
    opened = (sys.modules[module].nested_session(leaves) for module in _loaded())
    return next((found for found in opened if found is not None), None)


def refused_by(error: Exception) -> str | None:
    """The library whose functions take NumPy arrays, but did not take an expression: JAX, if it is there."""
    if "jax" not in sys.modules or not isinstance(error, TypeError):
        return None
    is_refusal = f"'{__package__}." in str(error)  # an expression, or a complex value made of them
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    names = (frame.f_globals.get("__name__", "") for frame in frames)
    is_asked = isinstance(error, NumbersNeeded) and any(name.partition(".")[0] == "jax" for name in names)
    return "jax" if is_refusal or is_asked else None


@contextmanager
def computing() -> Iterator[None]:
    """Around calls with arrays inside of a trace: they are not recorded."""
    with ExitStack() as stack:
        for module in _loaded():
            stack.enter_context(sys.modules[module].computing())
        yield


def by_expressions(function: Function) -> Function:
    """Let a function of expressions also take what a function of a library is traced with."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        values = (*arguments, *options.values())
        opened = nested(values) if any(traced_expression(value) is not None for value in values) else None
        if opened is None:
            return function(*arguments, **options)
        result = function(
            *map(opened.returned, arguments), **{name: opened.returned(v) for name, v in options.items()}
        )
        return tuple(map(opened.result, result)) if isinstance(result, tuple) else opened.result(result)

    return wrapped  # type: ignore[return-value]


def traced_expression(value: Any) -> Expression | None:
    """The expression for which an object stands inside a trace of a function of its library."""
    for module in _loaded():
        found: Expression | None = sys.modules[module].traced_expression(value)
        if found is not None:
            return found
    return None


def _loaded() -> list[str]:
    return [module for module in MODULES.values() if module in sys.modules]
