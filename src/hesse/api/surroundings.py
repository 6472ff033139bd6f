"""What a function reads besides its arguments: closures, globals, defaults, attributes, and those of callees.

A walk from the function finds the arrays and other values that it may read. A copy of the function can read
other arrays in their place, and shares everything else with it. Comparing a few identities says whether all
that was found is still there. What belongs to libraries is not looked into.
"""

from __future__ import annotations

import copy
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hesse.api.contents import (
    ALWAYS,
    PLAIN,
    Found,
    contents_of,
    has_attributes,
    is_array,
    is_whole,
    of_library,
)
from hesse.api.copying import Copy

Function = Callable[..., Any]


class Same:
    """An object in a key, equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Walk:
    """All that is found from a function, in order, except under names that are `ignored`."""

    def __init__(self, function: Function, ignored: frozenset[str] = frozenset()) -> None:
        self.function = function
        self.places: list[Found] = []
        self._ignored = ignored
        self._seen: dict[int, Any] = {}
        """Values by identity, which they keep as long as they are here."""
        self._fixed: set[int] = set()
        self._parents: dict[int, set[int]] = {}
        self.names = _names(function)
        """All names that are used by what was found."""
        self._walk()
        self.is_same = self._check()

    def arrays(self) -> dict[int, Found]:
        """By identity: each array as it was found first, fixed if it is so in one place."""
        found: dict[int, Found] = {}
        for place in self.places:
            if is_array(place.value):
                first = found.setdefault(id(place.value), place)
                if place.is_fixed:
                    found[id(place.value)] = first._replace(is_fixed=True)
        return found

    def named(self) -> list[tuple[Any, Any, Any]]:
        """Globals and other dicts, and cells: each with the key there and what is found under it."""
        holders = (dict, types.CellType)
        return [(p.holder, p.key, p.value) for p in self.places if isinstance(p.holder, holders)]

    def key(self) -> tuple[Any, ...]:
        """Equal for two walks if only the values of arrays differ."""
        numbers = {identity: k for k, identity in enumerate(self.arrays())}
        return tuple((place.name, self._mark(place.value, numbers)) for place in self.places)

    def copied(self, replacements: Mapping[int, Any]) -> Function:
        """The function with other values in place of arrays, given by their identities."""
        made: Function = Copy(self._parents, self.names, replacements).of(self.function)
        return made

    def changed(self, other: Walk) -> frozenset[str]:
        """The names under which another walk of the function found something else."""
        before = {place.name: place.value for place in self.places}
        after = {place.name: place.value for place in other.places}
        return frozenset(
            name
            for name in {*before, *after}
            if name not in before or name not in after or before[name] is not after[name]
        )

    def _walk(self) -> None:
        waiting = [("", self.function, False)]
        while waiting:
            name, value, is_fixed = waiting.pop()
            is_known = id(value) in self._seen and (not is_fixed or id(value) in self._fixed)
            self._seen[id(value)] = value
            if is_fixed:
                self._fixed.add(id(value))
            if is_known:
                continue
            found = []
            for part in contents_of(value, self.names):
                whole = _joined(name, part.name)
                if whole not in self._ignored:
                    self._parents.setdefault(id(part.value), set()).add(id(value))
                    found.append(part._replace(name=whole, is_fixed=part.is_fixed or is_fixed))
            self.places += found
            waiting += [(part.name, part.value, part.is_fixed) for part in reversed(found)]

    def _mark(self, value: Any, numbers: Mapping[int, int]) -> Any:
        if is_array(value):
            return numbers[id(value)]
        if isinstance(value, PLAIN):
            return type(value), repr(value)  # which tells -0.0 from 0.0, and knows every nan
        if is_whole(value):
            return type(value), repr(value)
        if isinstance(value, types.FunctionType) and not of_library(value):
            return value.__code__
        return type(value) if isinstance(value, tuple | list | dict | deque) else Same(value)

    def _check(self) -> Callable[[], bool]:
        """A function that says whether every place holds what it held."""
        namespace: dict[str, Any] = {}
        tests: dict[str, None] = {}

        def named(value: Any) -> str:
            namespace[f"o{id(value)}"] = value
            return f"o{id(value)}"

        for place in self.places:
            read = place.read.format(holder=named(place.holder), key=named(place.key))
            tests[f"{read} is {named(place.value)}"] = None
        for value in self._seen.values():
            if is_whole(value):
                tests[f"{named(value)} == {named(copy.copy(value))}"] = None
            elif isinstance(value, list | dict | deque):
                tests[f"len({named(value)}) == {len(value)}"] = None
            elif has_attributes(value) and not isinstance(value, type | types.ModuleType):
                # one attribute more may hide that of a class
                tests[f"len({named(value)}.__dict__) == {len(value.__dict__)}"] = None
        lines = ["def is_same():", " try:", f"  return {' and '.join(tests) or 'True'}"]
        lines += [" except (AttributeError, LookupError, ValueError):", "  return False"]
        exec("\n".join(lines), namespace)
        made: Callable[[], bool] = namespace.pop("is_same")  # which holds the namespace: no cycle
        return made


def _joined(name: str, part: str) -> str:
    return part if not name else f"{name}{part}" if part.startswith(("[", ".")) else f"{name}.{part}"


def _names(function: Any) -> frozenset[str]:
    """The names that are used by a function and by all functions that can be found from it."""
    names = ALWAYS
    while True:
        waiting, seen = [function], {}
        found: set[str] = set()
        while waiting:
            value = waiting.pop()
            if id(value) not in seen:
                seen[id(value)] = value
                if isinstance(value, types.FunctionType):
                    found.update(_code_names(value.__code__))
                waiting += [part.value for part in contents_of(value, names)]
        if found <= names:
            return names
        names |= found


def _code_names(code: types.CodeType) -> Iterator[str]:
    """All names in a function, those that it may ask for by text included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):  # functions, comprehensions and classes inside
            yield from _code_names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant
