"""Errors about user code: what cannot be traced, where it stands, and what to write instead."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from hesse.errors import TracingError
from hesse.ir import Node, Variable, topological

_scipy = importlib.util.find_spec("scipy")
SCIPY = f"{Path(_scipy.origin).parent}{os.sep}" if _scipy and _scipy.origin else "scipy is not there"
"""Where the code of SciPy is, which is not loaded for that."""
_libraries = (
    *(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(np.__file__).parent)),
    SCIPY,
    contextlib.__file__,  # which stands between a library and who called it
    *(str(Path(contextlib.__file__).with_name(f"{name}.py")) for name in ("statistics", "fractions")),
    "<hesse program>",
)


def skip_frames(module: ModuleType) -> None:
    """Do not take code of a library for that of the user."""
    global _libraries  # noqa: PLW0603  a tuple, because that is what `startswith` takes
    assert module.__file__ is not None
    _libraries = (*_libraries, f"{Path(module.__file__).parent}{os.sep}")


def is_library(file: str) -> bool:
    """Whether a file holds code of hesse, or of a library that it traces."""
    return file.startswith(_libraries)


def is_scipy(frame: FrameType) -> bool:
    """Whether a frame is in code of SciPy; compiled code knows its file by a relative path only."""
    module = frame.f_globals.get("__name__") or ""
    return frame.f_code.co_filename.startswith(SCIPY) or module.startswith("scipy.")


recorded_location: ContextVar[Callable[[], str] | None] = ContextVar("recorded_location", default=None)
"""Where the operation that is looked at stands in user code, if that was recorded before."""


def user_location() -> str:
    """`file:line` of the innermost stack frame outside hesse and the libraries it traces."""
    if (recorded := recorded_location.get()) is not None:
        return recorded()
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_libraries):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def untraceable(
    construct: str, way_out: str, location: str | None = None, kind: type[TracingError] = TracingError
) -> TracingError:
    """The error to raise for a construct that cannot become part of an expression."""
    return kind(f"{construct} cannot be traced (at {location or user_location()}). {way_out}")


class NumbersNeeded(TracingError):
    """A traced value where an array of numbers wants a number: it was written to one, or indexes one."""


NumbersNeeded.__module__, NumbersNeeded.__qualname__ = TracingError.__module__, TracingError.__qualname__
# which is what a user sees


class UnknownAttribute(TracingError, AttributeError):
    """An attribute that traced values lack; so `hasattr` says."""


UnknownAttribute.__module__ = TracingError.__module__
UnknownAttribute.__qualname__ = TracingError.__qualname__


class ComplexError(TracingError):
    """A complex value where handlers of real ones need a number."""


class ComplexNumbersNeeded(ComplexError, NumbersNeeded):
    """A complex value where an array of numbers wants a number."""


ComplexNumbersNeeded.__module__ = TracingError.__module__
ComplexNumbersNeeded.__qualname__ = TracingError.__qualname__

depth: ContextVar[int] = ContextVar("depth", default=0)
"""How many traces there are around: 0 outside of traced functions."""

parts_read: ContextVar[dict[tuple[Node, int], Node] | None] = ContextVar("parts_read", default=None)
"""Entries along first axes that a traced function has read: loops read the same ones in each round."""


arrays_traced: ContextVar[list[weakref.ref[Any]] | None] = ContextVar("arrays_traced", default=None)
"""Those that it has made, if arrays that a function makes or reads are traced values; else None."""


@contextmanager
def tracing_arrays() -> Iterator[list[weakref.ref[Any]]]:
    """Around user code that writes traced values to such arrays, or indexes them with traced values."""
    made: list[weakref.ref[Any]] = []
    token = arrays_traced.set(made)
    try:
        yield made
    finally:
        arrays_traced.reset(token)


of_tensors: ContextVar[bool] = ContextVar("of_tensors", default=False)
"""Whether the arguments are tensors of a library in which numbers (`item()`) have no derivatives."""


@contextmanager
def tensors_given() -> Iterator[None]:
    """Around user code in NumPy's language that is called with such tensors."""
    token = of_tensors.set(True)
    try:
        yield
    finally:
        of_tensors.reset(token)


_real_dtype: ContextVar[Callable[[], Any]] = ContextVar("real_dtype", default=lambda: np.float64)


def real_dtype() -> Any:
    """The dtype of real numbers in the trace that is under way."""
    return _real_dtype.get()()


@contextmanager
def computing_in(dtype: Callable[[], Any]) -> Iterator[None]:
    """Around user code: what its arrays say when they are asked for their dtype."""
    token = _real_dtype.set(dtype)
    try:
        yield
    finally:
        _real_dtype.reset(token)


_decide: ContextVar[Callable[[str, Any], Any] | None] = ContextVar("decide", default=None)


@contextmanager
def deciding(decide: Callable[[str, Any], Any]) -> Iterator[None]:
    """Around user code: who answers what a condition, an integer or a mask is."""
    token = _decide.set(decide)
    try:
        yield
    finally:
        _decide.reset(token)


@contextmanager
def deciding_as(translated: Callable[[Any], Any]) -> Iterator[None]:
    """Around user code inside of other user code: the nodes of the one in those of the other."""
    decide = _decide.get()
    if decide is None:
        yield
        return
    with deciding(lambda question, node: decide(question, translated(node))):
        yield


def decided(question: str, node: Any) -> Any:
    """The answer to a question about the value of a node; None if nobody knows."""
    decide = _decide.get()
    return None if decide is None else decide(question, node)


class _Watch(NamedTuple):
    """Variables that are traced although their values are known, and those whose values were needed."""

    names: frozenset[str]
    needed: set[str]


_watches: ContextVar[tuple[_Watch, ...]] = ContextVar("watches", default=())


@contextmanager
def watched(names: Collection[str]) -> Iterator[set[str]]:
    """Around user code: the names of those variables whose values it needs."""
    watch = _Watch(frozenset(names), set())
    token = _watches.set((*_watches.get(), watch))
    try:
        yield watch.needed
    finally:
        _watches.reset(token)


def note_need(values: Iterable[Any]) -> None:
    """Note that the values of expressions are needed, if they depend on watched variables alone.

    What needs them fails nevertheless, in whichever way: the function is then traced again with the values.
    """
    needed = watched_names(values)
    for watch in _watches.get():
        watch.needed.update(needed & watch.names)


def is_need_noted() -> bool:
    """Whether a trace needs the values of watched variables, with which it is done again."""
    return any(watch.needed for watch in _watches.get())


def watched_names(values: Iterable[Any]) -> set[str]:
    """The names of the variables on which expressions depend; none if one of them is not watched."""
    order = topological([value.node for value in values if hasattr(value, "node")])
    needed = {node.name for node in order if isinstance(node, Variable)}
    watches = _watches.get()
    return needed if needed <= frozenset().union(*(watch.names for watch in watches)) else set()


def raised_at(error: Exception) -> str:
    """`file:line` of the innermost line outside of libraries from which an error came.

    If there is none, a function of a library was given to hesse: then where that was called.
    """
    inside = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename) and not is_scipy(frame)
    ]
    return inside[-1] if inside else user_location()
