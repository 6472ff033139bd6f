"""Programs by name: a trace around one meets a call, and wants the expressions behind it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, ref

from hesse.ir import Node

PREFIX = "hesse_program_"
_numbers = itertools.count(1)


class Origin:
    """What a program computes, as long as somebody else holds it: the inputs and the results."""

    def __init__(self, inputs: tuple[str, ...], roots: Sequence[Node]) -> None:
        self.inputs = inputs
        self._roots = tuple(map(ref, roots))

    def held(self) -> Held | None:
        """The same, for good; None if it is gone."""
        roots = [root() for root in self._roots]
        found = [root for root in roots if root is not None]
        return Held(self.inputs, found) if len(found) == len(roots) else None


class Held(NamedTuple):
    """The inputs of a program and the nodes that it computes."""

    inputs: tuple[str, ...]
    roots: list[Node]


_origins: WeakValueDictionary[str, Origin] = WeakValueDictionary()
_held: ContextVar[dict[str, Held] | None] = ContextVar("held", default=None)


def new_name() -> str:
    """A name for a program, which nothing else has."""
    return f"{PREFIX}{next(_numbers)}"


def enter(function: Callable[..., Any], origin: Origin) -> None:
    """Let it be known what a program computes, if it has such a name."""
    name = getattr(function, "__name__", "")
    if name.startswith(PREFIX):
        _origins[name] = origin


def note_call(function: Callable[..., Any]) -> None:
    """A program is called: a trace around it keeps what it computes."""
    held = _held.get()
    if held is None:
        return
    name = getattr(function, "__name__", "")
    if name not in held and (found := origin(name)) is not None:
        held[name] = found


def origin(name: str) -> Held | None:
    """What the program of a name computes, if that is known still."""
    held = _held.get()
    if held is not None and name in held:
        return held[name]
    found = _origins.get(name)
    return None if found is None else found.held()


@contextmanager
def keeping() -> Iterator[None]:
    """Around a trace: what programs compute that are called meanwhile is kept."""
    token = _held.set({**(_held.get() or {})})
    try:
        yield
    finally:
        _held.reset(token)
