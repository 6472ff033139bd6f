"""Methods and operators of expressions, made from functions of NumPy or from what is said instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hesse.errors import TracingError
from hesse.frontends.dispatch import call, function_name
from hesse.frontends.tracing import note_need, untraceable

if TYPE_CHECKING:
    from hesse.frontends.expression import Expression


def method_of(function: Any) -> Callable[..., Any]:
    """The method `x.f(...)` that is the NumPy function `f(x, ...)`."""

    def method(self: Expression, *arguments: Any, **options: Any) -> Any:
        return call(function, (self, *arguments), options)

    method.__doc__ = f"`{function_name(function)}` of this expression."
    return method


def binary(ufunc: np.ufunc) -> Callable[[Expression, Any], Any]:
    """`x + y`, which the other one may take over."""

    def method(self: Expression, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", self) is None:  # NumPy's sign that the other one takes over
            return NotImplemented
        return call(ufunc, (self, other))

    return method


def reflected(ufunc: np.ufunc) -> Callable[[Expression, Any], Any]:
    """`y + x`."""

    def method(self: Expression, other: Any) -> Any:
        return call(ufunc, (other, self))

    return method


def in_place(ufunc: np.ufunc) -> Callable[[Expression, Any], Any]:
    """`x += y`: arrays are written to, numbers are replaced."""

    def method(self: Expression, other: Any) -> Any:
        result = call(ufunc, (self, other))
        return result if self.is_number else call(np.copyto, (self, result), {"casting": "same_kind"}) or self

    return method


def refused(construct: str, way_out: str) -> Callable[..., Any]:
    """What has no meaning for an expression."""

    def method(self: Expression, *arguments: Any, **options: Any) -> NoReturn:
        raise untraceable(construct, way_out)

    return method


def valueless(construct: str, way_out: str, kind: type[TracingError] = TracingError) -> Callable[..., Any]:
    """What needs the value, and has a meaning where the function is called with values."""

    def method(self: Expression, *arguments: Any, **options: Any) -> NoReturn:
        note_need([self])
        raise untraceable(construct, way_out, kind=kind)

    return method


def answered(question: str, construct: str, way_out: str) -> Callable[..., Any]:
    """A question about the value, which is answered where the function may decide by values."""

    def method(self: Expression) -> Any:
        found = self.answer(question)
        if found is None:
            note_need([self])
            raise untraceable(construct, way_out)
        return found

    return method
