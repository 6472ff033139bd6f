"""What stands in the places of libraries' functions while a function is traced.

A library's function that asks nothing of its arguments cannot know of traced values. While a function is
traced another one stands in its place: in its module or class, and wherever the function that is traced knows
it by a name of its own (`from scipy.special import logsumexp`). It does what is asked for if there is a
traced value among its arguments, and calls the library's own function if not.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import CellType, MethodType
from typing import Any

import numpy as np

from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression

Function = Callable[..., Any]
Pair = tuple[Function, Function]
"""A function of a library, and what stands in its place."""
Holder = dict[Any, Any] | CellType
Place = tuple[Holder, Any, Any]
"""Globals of a function, or a cell of it; the name there; and what is there."""

STAND_INS: dict[tuple[Any, str], Pair] = {}
"""By module or class and name."""
LATER: dict[str, Callable[[], dict[tuple[Any, str], Pair]]] = {}
"""By the name of a module: what to enter into the table once somebody has imported it."""

_lock = threading.Lock()
_traces = 0
"""How many traces are under way, in all threads."""
_pairs: dict[int, Pair] = {}
"""By the identities of both functions."""
_by_name: dict[tuple[int, Any], tuple[Holder, Any, Pair, int]] = {}
"""By holder and name: what stands there now, and for how many traces."""


@contextmanager
def standing_in() -> Iterator[None]:
    """Around user code that is called with expressions: libraries' functions compute with them."""
    _change(1)
    try:
        yield
    finally:
        _change(-1)


@contextmanager
def known_by_name(places: Iterable[Place], names: Collection[str]) -> Iterator[None]:
    """Around a trace: the same for functions that were imported by name, where they are found.

    `names` are all those in the function: it may import a module when it is called.
    """
    for module in list(LATER):
        package, _, last = module.rpartition(".")
        if module in names or (package in names and last in names):
            importlib.import_module(module)
    with _lock:
        _enter_later()
    found = [(holder, key, pair) for holder, key, value in places if (pair := _pair_of(value))]
    _change_names(found, 1)
    try:
        yield
    finally:
        _change_names(found, -1)


def in_place_of(function: Function) -> Function:
    """What stands in the place of a function; itself if there is nothing."""
    pair = _pair_of(function)
    return pair[1] if pair else function


def _pair_of(value: Any) -> Pair | None:
    """What a function that is found somewhere is, and what is to stand there; None for anything else."""
    if isinstance(value, MethodType):
        own, traced = STAND_INS.get((type(value.__self__), value.__name__), (None, None))
        if own is None or traced is None or value.__func__ not in (own, traced):
            return None
        return MethodType(own, value.__self__), MethodType(traced, value.__self__)
    return _by_identity().get(id(value)) if callable(value) else None


def _by_identity() -> dict[int, Pair]:
    if len(_pairs) < 2 * len(STAND_INS):  # there are new ones
        _pairs.update({id(function): pair for pair in STAND_INS.values() for function in pair})
    return _pairs


def traced_instead(own: Function, function: Function) -> Pair:
    """A function of a library, and one that calls `function` if an argument is traced."""

    @functools.wraps(own)
    def compute(*arguments: Any, **options: Any) -> Any:
        is_asked = any(map(is_traced, (*arguments, *options.values())))
        return (function if is_asked else own)(*arguments, **options)

    return own, compute


def is_traced(value: Any) -> bool:
    """Whether there is a traced value in a value."""
    if isinstance(value, list | tuple):
        return any(map(is_traced, value))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(is_traced, value.flat))
    return isinstance(value, Expression | Complex)


def _enter_later() -> None:
    for name in [name for name in LATER if name in sys.modules]:
        entered = LATER.pop(name, dict)()
        STAND_INS.update(entered)
        if _traces:
            _place(entered, True)


def _change(step: int) -> None:
    global _traces
    with _lock:
        _enter_later()
        was, _traces = _traces, _traces + step
        if not was or not _traces:
            _place(STAND_INS, bool(_traces))


def _place(entries: Mapping[tuple[Any, str], Pair], is_traced: bool) -> None:
    for (holder, name), (own, traced) in entries.items():
        if getattr(holder, name) not in (own, traced):  # what others have put there stays
            continue
        if not is_traced and isinstance(holder, type) and _is_inherited(holder, name, own):
            delattr(holder, name)
        else:
            setattr(holder, name, traced if is_traced else own)


def _is_inherited(kind: type, name: str, own: Function) -> bool:
    return any(vars(base).get(name) is own for base in kind.__mro__[1:])


def _change_names(found: Iterable[tuple[Holder, Any, Pair]], step: int) -> None:
    with _lock:
        for holder, key, pair in found:
            count = _by_name.get((id(holder), key), (holder, key, pair, 0))[-1] + step
            _by_name[id(holder), key] = holder, key, pair, count
            if _read(holder, key) in pair:
                _write(holder, key, pair[bool(count)])
            if not count:
                del _by_name[id(holder), key]


def _read(holder: Holder, key: Any) -> Any:
    return holder.cell_contents if isinstance(holder, CellType) else holder.get(key)


def _write(holder: Holder, key: Any, value: Any) -> None:
    if isinstance(holder, CellType):
        holder.cell_contents = value
    else:
        holder[key] = value
