"""What a function reads besides its arguments: closures, globals, defaults, attributes, and those of callees.

A walk from the function finds the arrays and other values that it may read. A copy of the function can read
other arrays in their place, and shares everything else with it. Comparing a few identities says whether all
that was found is still there. What belongs to libraries is not looked into.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.target import library_of

LIBRARIES = frozenset({"numpy", "scipy", "jax", "jaxlib", "torch", "hesse", *sys.stdlib_module_names})
PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)

DIFFERENTIATED = "differentiated"
"""The attribute by which a derivative names its function; its method `over` gives that of another one."""
EMPTY = object()

Function = Callable[..., Any]


class Found(NamedTuple):
    """A value and where it was found.

    `read` is an expression for it over the names of `holder` and `key`; `is_fixed` says that what holds it
    cannot be copied, so that no other array can be read in its place.
    """

    name: str
    value: Any
    holder: Any
    read: str
    key: Any = None
    is_fixed: bool = False


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
        self._names = _names(function)
        self._look_into(function, "", is_fixed=False)
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

    def key(self) -> tuple[Any, ...]:
        """Equal for two walks if only the values of arrays differ."""
        numbers = {identity: k for k, identity in enumerate(self.arrays())}
        return tuple((place.name, self._mark(place.value, numbers)) for place in self.places)

    def copied(self, replacements: Mapping[int, Any]) -> Function:
        """The function with other values in place of arrays, given by their identities."""
        made: Function = _Copy(self._parents, self._names, replacements).of(self.function)
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

    def _look_into(self, value: Any, name: str, is_fixed: bool) -> None:
        known = id(value) in self._seen and (not is_fixed or id(value) in self._fixed)
        self._seen[id(value)] = value
        if is_fixed:
            self._fixed.add(id(value))
        if known:
            return
        for found in _contents(value, self._names):
            whole = _joined(name, found.name)
            if whole in self._ignored:
                continue
            self._parents.setdefault(id(found.value), set()).add(id(value))
            place = found._replace(name=whole, is_fixed=found.is_fixed or is_fixed)
            self.places.append(place)
            self._look_into(found.value, whole, place.is_fixed)

    def _mark(self, value: Any, numbers: Mapping[int, int]) -> Any:
        if is_array(value):
            return numbers[id(value)]
        if isinstance(value, PLAIN):
            return type(value), value
        if isinstance(value, types.FunctionType) and not _is_library(value):
            return value.__code__
        return type(value) if _is_container(value) else Same(value)

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
            if isinstance(value, list | dict | set):
                tests[f"len({named(value)}) == {len(value)}"] = None
        lines = ["def is_same():", " try:", f"  return {' and '.join(tests) or 'True'}"]
        lines += [" except (AttributeError, LookupError, ValueError):", "  return False"]
        exec("\n".join(lines), namespace)
        made: Callable[[], bool] = namespace.pop("is_same")  # which holds the namespace: no cycle
        return made


def is_array(value: Any) -> bool:
    """Whether a value is an array of any library."""
    return isinstance(value, np.ndarray) or library_of(value) is not None


def _is_library(value: Any) -> bool:
    """Whether a function or a class was not written by the user."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] in LIBRARIES:
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _is_container(value: Any) -> bool:
    return isinstance(value, tuple | list | dict)


def _joined(name: str, part: str) -> str:
    return part if not name else f"{name}{part}" if part.startswith(("[", ".")) else f"{name}.{part}"


def _names(function: Any) -> frozenset[str]:
    """The names that are used by a function and by all functions that can be found from it."""
    names: frozenset[str] = frozenset()
    while True:
        waiting, seen = [function], {}
        found: set[str] = set()
        while waiting:
            value = waiting.pop()
            if id(value) not in seen:
                seen[id(value)] = value
                if isinstance(value, types.FunctionType):
                    found.update(_code_names(value.__code__))
                waiting += [part.value for part in _contents(value, names)]
        if found <= names:
            return names
        names |= found


def _code_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:  # functions, comprehensions and classes inside
        if isinstance(inner, types.CodeType):
            yield from _code_names(inner)


def _contents(value: Any, names: frozenset[str]) -> Iterator[Found]:
    """What a value holds; of instances and classes only attributes with these names."""
    if isinstance(value, tuple | list):
        for k, item in enumerate(value):
            yield Found(f"[{k}]", item, value, f"{{holder}}[{k}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield Found(f"[{key!r}]", item, value, "{holder}[{key}]", key)
    elif isinstance(value, functools.partial):
        for part in ("func", "args", "keywords"):
            yield Found(part, getattr(value, part), value, f"{{holder}}.{part}")
    elif isinstance(value, types.MethodType):
        yield Found("__func__", value.__func__, value, "{holder}.__func__")
        yield Found("self", value.__self__, value, "{holder}.__self__")
    elif isinstance(value, types.FunctionType):
        if not _is_library(value):
            yield from _of_function(value)
    elif hasattr(type(value), DIFFERENTIATED):
        yield Found("function", getattr(value, DIFFERENTIATED), value, f"{{holder}}.{DIFFERENTIATED}")
    elif isinstance(value, type):
        if not _is_library(value):
            yield from (found._replace(is_fixed=True) for found in _attributes(value, names))
    elif not isinstance(value, PLAIN) and not is_array(value) and not _is_library(type(value)):
        yield from _attributes(value, names)
        yield Found("__class__", type(value), value, "{holder}.__class__", is_fixed=True)


def _of_function(function: types.FunctionType) -> Iterator[Found]:
    for name, (cell, content) in zip(function.__code__.co_freevars, _cells(function), strict=True):
        if content is not EMPTY:
            yield Found(name, content, cell, "{holder}.cell_contents")
    namespace = function.__globals__
    for name in dict.fromkeys(_code_names(function.__code__)):
        if name in namespace and not isinstance(namespace[name], types.ModuleType):
            yield Found(name, namespace[name], namespace, f"{{holder}}[{name!r}]")
    for name in ("__defaults__", "__kwdefaults__"):
        if getattr(function, name):
            yield Found(name, getattr(function, name), function, f"{{holder}}.{name}")


def _cells(function: types.FunctionType) -> list[tuple[Any, Any]]:
    """The cells of a function with their contents."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append((cell, cell.cell_contents))
        except ValueError:  # not assigned yet
            found.append((cell, EMPTY))
    return found


def _attributes(value: Any, names: frozenset[str]) -> Iterator[Found]:
    """Attributes that the object itself holds, and the function that makes it callable."""
    wanted = names | {"__call__"}
    for name, item in list(getattr(value, "__dict__", {}).items()):
        if name in wanted:
            yield Found(f".{name}", item, value, f"{{holder}}.__dict__[{name!r}]")
    for kind in type(value).__mro__ if not isinstance(value, type) else ():
        for name in vars(kind).get("__slots__", ()):
            if name in wanted and hasattr(value, name):
                yield Found(f".{name}", getattr(value, name), value, f"{{holder}}.{name}")


class _Copy:
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
            made[id(value)] = instance = copy.copy(value)
            for found in _attributes(value, self._names):
                object.__setattr__(instance, found.name[1:], self.of(found.value))

    def _function(self, function: types.FunctionType) -> None:
        cells = [
            cell if id(content) not in self._changes else types.CellType()
            for cell, content in _cells(function)
        ]
        namespace = dict(function.__globals__)
        made = types.FunctionType(function.__code__, namespace, function.__name__, None, tuple(cells))
        self._made[id(function)] = made
        for (cell, content), new in zip(_cells(function), cells, strict=True):
            if new is not cell:
                new.cell_contents = self.of(content)
        for name in _code_names(function.__code__):
            if name in namespace:
                namespace[name] = self.of(namespace[name])
        made.__defaults__ = self.of(function.__defaults__)
        made.__kwdefaults__ = self.of(function.__kwdefaults__)
        made.__dict__.update(function.__dict__)
        made.__qualname__ = function.__qualname__
