"""Copies of functions, and of what they read, with other values in place of some."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Mapping
from typing import Any

from hesse.api.contents import DIFFERENTIATED, attributes_of, cells_of, global_names


class Copy:
    """Copies of what holds replaced arrays, and of nothing else."""

    def __init__(
        self, parents: Mapping[int, set[int]], names: frozenset[str], replacements: Mapping[int, Any]
    ) -> None:
        self._names = names
        self._made = dict(replacements)
        self._changes: set[int] = set()
        waiting = list(replacements)
        while waiting:
            identity = waiting.pop()
            if identity not in self._changes:
                self._changes.add(identity)
                waiting += parents.get(identity, ())

    def of(self, value: Any) -> Any:
        """The value, or a copy of it if it holds a replaced array; cycles lead to the copy again."""
        if id(value) not in self._changes:
            return value
        if id(value) not in self._made:
            self._make(value)
        return self._made[id(value)]

    def _make(self, value: Any) -> None:
        made = self._made
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, list):
            copied: list[Any] = []
            made[id(value)] = copied
            copied += map(self.of, value)
        elif isinstance(value, dict):
            made[id(value)] = table = copy.copy(value)
            table.update({key: self.of(item) for key, item in value.items()})
        elif isinstance(value, tuple):
            items = list(map(self.of, value))
            made[id(value)] = type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        elif isinstance(value, functools.partial):
            arguments, keywords = self.of(value.args), self.of(value.keywords)
            made[id(value)] = functools.partial(self.of(value.func), *arguments, **keywords)
        elif isinstance(value, types.MethodType):
            made[id(value)] = types.MethodType(self.of(value.__func__), self.of(value.__self__))
        elif hasattr(type(value), DIFFERENTIATED):
            made[id(value)] = value.over(self.of(getattr(value, DIFFERENTIATED)))
        else:
            made[id(value)] = instance = _copied(value)
            for found in attributes_of(value, self._names):
                object.__setattr__(instance, found.name[1:], self.of(found.value))

    def _function(self, function: types.FunctionType) -> None:
        cells = [
            cell if id(content) not in self._changes else types.CellType()
            for cell, content in cells_of(function)
        ]
        namespace = dict(function.__globals__)
        made = types.FunctionType(function.__code__, namespace, function.__name__, None, tuple(cells))
        self._made[id(function)] = made
        for (cell, content), new in zip(cells_of(function), cells, strict=True):
            if new is not cell:
                new.cell_contents = self.of(content)
        for name in global_names(function.__code__):
            if name in namespace:
                namespace[name] = self.of(namespace[name])
        made.__defaults__ = self.of(function.__defaults__)
        made.__kwdefaults__ = self.of(function.__kwdefaults__)
        made.__dict__.update(function.__dict__)
        made.__qualname__ = function.__qualname__


COPYING = {"__copy__", "__getstate__", "__reduce__", "__reduce_ex__", "__setstate__"}
"""How a class says what a copy is."""


def _copied(value: Any) -> Any:
    """A copy of an object; where its attributes are all there is, nothing of its class is called.

    Modules of equinox enter each object that their class makes into a global table.
    """
    kind = type(value)
    bases = kind.__mro__[:-1]
    is_plain = not any(COPYING & vars(base).keys() or vars(base).get("__slots__") for base in bases)
    if not is_plain or not hasattr(value, "__dict__"):
        return copy.copy(value)
    try:
        made = object.__new__(kind)
    except TypeError:  # a class that is not made of attributes alone
        return copy.copy(value)
    vars(made).update(vars(value))
    return made
