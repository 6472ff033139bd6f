"""Shortcuts: how a node changes with some nodes below it, known without looking at how it is computed.

A derivative inside a function is an expression like all others, but more is known of it than its nodes say:
the coefficients of a series of `f(u)` change with those of `u` by the coefficients of `f'(u)`. Whoever makes
such an expression enters that here, and reverse mode takes the shortcut. Entries hold while one derivative is
made, with all that is inside of it, so that no result depends on what was computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from hesse.ir.node import Node, Variable
from hesse.ir.walk import topological


class Shortcut(NamedTuple):
    """The part of the change of a node that is due to another one: linear in `argument`, its change."""

    below: Node
    change: Node
    argument: Variable


Shortcuts = dict[Node, tuple[Shortcut, ...]]
"""For a node the shortcuts to all that it depends on."""
_kept: ContextVar[Shortcuts | None] = ContextVar("_kept", default=None)
_is_wanted: ContextVar[bool] = ContextVar("_is_wanted", default=False)


@contextmanager
def shortcuts_kept() -> Iterator[None]:
    """While a function is traced and differentiated; what happens inside of that shares its entries."""
    token = _kept.set({}) if _kept.get() is None else None
    wanted = _is_wanted.set(False) if token else None
    try:
        yield
    finally:
        if token and wanted:
            _kept.reset(token)
            _is_wanted.reset(wanted)


@contextmanager
def shortcuts_wanted() -> Iterator[None]:
    """While an expression is made that will be differentiated again."""
    token = _is_wanted.set(_kept.get() is not None)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def are_shortcuts_wanted() -> bool:
    """Whether it is worth entering any."""
    return _is_wanted.get()


def shortcuts() -> Shortcuts:
    """Those that are known now."""
    return _kept.get() or {}


def enter_shortcuts(node: Node, found: Sequence[Shortcut]) -> None:
    """Enter those of a node. They must be to nodes below it: only these are met after it on the way down."""
    kept = _kept.get()
    inside = {*topological([node])} - {node}
    if kept is not None and found and all(one.below in inside for one in found):
        kept[node] = tuple(found)


def carried(roots: Sequence[Node], transform: Callable[[Sequence[Node]], list[Node]]) -> list[Node]:
    """Roots that are made anew, together with the shortcuts of all that is below them."""
    known = shortcuts()
    nodes = [node for node in topological(roots) if node in known] if known else []
    if not nodes:
        return transform(roots)
    parts = [[node, *(part for one in known[node] for part in one[:2])] for node in nodes]
    new = transform([*roots, *(part for group in parts for part in group)])
    rest = iter(new[len(roots) :])
    for node, group in zip(nodes, parts, strict=True):
        other, *pairs = (next(rest) for _ in group)
        ends = zip(pairs[::2], pairs[1::2], known[node], strict=True)
        enter_shortcuts(other, [Shortcut(below, change, one.argument) for below, change, one in ends])
    return new[: len(roots)]
