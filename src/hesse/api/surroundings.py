"""What a function reads besides its arguments: closures, globals, defaults, attributes, and those of callees.

A walk from the function finds the arrays and other values that it may read. A copy of the function can read
other arrays in their place, and shares everything else with it. Comparing a few identities says whether all
that was found is still there. What belongs to libraries is not looked into.
"""

from __future__ import annotations

import copy
import dis
import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.target import library_of
from hesse.frontends.classes import LIBRARIES
from hesse.frontends.tracing import is_library

PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)

DIFFERENTIATED = "differentiated"
"""The attribute by which a derivative names its function; its method `over` gives that of another one."""
READS = "reads"
"""The attribute by which an object of hesse names what it holds that functions may read."""
EMPTY = object()
WATCHED = (set, frozenset, bytearray)
"""Containers that are compared as a whole."""
LONG = 32
"""Longer lists of nothing but plain values are compared as a whole, too."""
ALWAYS = frozenset({"_buffers", "_modules", "_parameters"})
"""Attributes that are read by code of libraries; an object that has them all is a module of PyTorch."""

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
        made: Function = _Copy(self._parents, self.names, replacements).of(self.function)
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
            for part in _contents(value, self.names):
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
        if _is_whole(value):
            return type(value), repr(value)
        if isinstance(value, types.FunctionType) and not _is_library(value):
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
            if _is_whole(value):
                tests[f"{named(value)} == {named(copy.copy(value))}"] = None
            elif isinstance(value, list | dict | deque):
                tests[f"len({named(value)}) == {len(value)}"] = None
            elif _has_attributes(value) and not isinstance(value, type | types.ModuleType):
                # one attribute more may hide that of a class
                tests[f"len({named(value)}.__dict__) == {len(value.__dict__)}"] = None
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
    if module in NAMELESS and _is_of_python(value):
        return False
    return not isinstance(module, str) or _is_library_module(module)


NAMELESS = (None, "builtins")
"""The modules of functions and classes that `exec` makes in a dict without a `__name__`."""
OF_PYTHON = 1 << 9
"""The flag of classes that are made when a program runs."""


def _is_of_python(value: Any) -> bool:
    """Whether a function or a class is made of Python code."""
    if isinstance(value, type):
        return bool(value.__flags__ & OF_PYTHON)
    return isinstance(value, types.FunctionType) and not is_library(value.__code__.co_filename)


def _is_library_module(name: str) -> bool:
    if name.partition(".")[0] in LIBRARIES:
        return True
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _is_whole(value: Any) -> bool:
    """Whether a container is compared as a whole."""
    if isinstance(value, tuple | list):
        return len(value) > LONG and all(isinstance(item, PLAIN) for item in value)
    return isinstance(value, WATCHED)


def _has_attributes(value: Any) -> bool:
    """Whether a value is an object, a class or a module of the user."""
    if isinstance(value, types.SimpleNamespace):
        return True
    if isinstance(value, types.ModuleType):
        return not _is_library_module(value.__name__)
    if isinstance(value, type):
        return not _is_library(value)
    is_other = isinstance(value, (*PLAIN, types.FunctionType)) or is_array(value)
    return not is_other and not _is_library(type(value)) and hasattr(value, "__dict__")


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
                waiting += [part.value for part in _contents(value, names)]
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


@functools.lru_cache(maxsize=1024)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """The names that a function, or one inside it, reads as globals."""
    found = [
        item.argval for item in dis.get_instructions(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    ]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _global_names(constant)
    return tuple(dict.fromkeys(found))


def _contents(value: Any, names: frozenset[str]) -> Iterator[Found]:
    """What a value holds; of objects, classes and modules only attributes with these names."""
    if isinstance(value, PLAIN) or is_array(value) or _is_whole(value):
        return
    if isinstance(value, tuple | list):
        for k, item in enumerate(value):
            yield Found(f"[{k}]", item, value, f"{{holder}}[{k}]")
    elif isinstance(value, deque):
        for k, item in enumerate(value):
            yield Found(f"[{k}]", item, value, f"{{holder}}[{k}]", is_fixed=True)
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
            yield from _of_function(value, names)
    elif hasattr(type(value), DIFFERENTIATED):
        yield Found("function", getattr(value, DIFFERENTIATED), value, f"{{holder}}.{DIFFERENTIATED}")
    elif hasattr(type(value), READS):
        for name in getattr(value, READS):
            yield Found(name, getattr(value, name), value, f"{{holder}}.{name}", is_fixed=True)
    elif isinstance(value, type):
        if not _is_library(value):
            yield from _of_class(value, names)
    elif isinstance(value, types.ModuleType):
        if not _is_library_module(value.__name__):
            yield from (found._replace(is_fixed=True) for found in _attributes(value, names))
    elif isinstance(value, CALLED):
        yield from _called(value)
    elif _is_torch_module(value):
        yield from _of_torch_module(value, names)
    elif _has_attributes(value) or (hasattr(value, "__slots__") and not _is_library(type(value))):
        yield from _attributes(value, names)
        if not _is_library(type(value)):
            yield Found("__class__", type(value), value, "{holder}.__class__", is_fixed=True)


def _is_torch_module(value: Any) -> bool:
    return getattr(value, "__dict__", {}).keys() >= ALWAYS


def _of_torch_module(module: Any, names: frozenset[str]) -> Iterator[Found]:
    """Its tensors, its parts and its settings; and what a user's own class says."""
    for name, item in list(module.__dict__.items()):
        if name in ALWAYS or name in names or isinstance(item, PLAIN):
            yield Found(f".{name}", item, module, f"{{holder}}.__dict__[{name!r}]")
    if not _is_library(type(module)):
        yield Found("__class__", type(module), module, "{holder}.__class__", is_fixed=True)


CALLED = (functools._lru_cache_wrapper, property, staticmethod, classmethod, functools.cached_property)
"""What calls a function that it holds."""


def _called(value: Any) -> Iterator[Found]:
    for name in ("__wrapped__", "fget", "func"):
        inner = getattr(value, name, None)
        if inner is not None:
            yield Found(name, inner, value, f"{{holder}}.{name}", is_fixed=True)


def _of_function(function: types.FunctionType, names: frozenset[str]) -> Iterator[Found]:
    for name, (cell, content) in zip(function.__code__.co_freevars, _cells(function), strict=True):
        if content is not EMPTY:
            yield Found(name, content, cell, "{holder}.cell_contents")
    namespace = function.__globals__
    for name in _global_names(function.__code__):
        value = namespace.get(name, EMPTY)
        is_module = isinstance(value, types.ModuleType) and _is_library_module(value.__name__)
        if value is not EMPTY and not is_module:
            yield Found(name, value, namespace, f"{{holder}}[{name!r}]", name)
    for name in ("__defaults__", "__kwdefaults__"):
        if getattr(function, name):
            yield Found(name, getattr(function, name), function, f"{{holder}}.{name}")
    yield from (found._replace(is_fixed=True) for found in _attributes(function, names))


def _of_class(kind: type, names: frozenset[str]) -> Iterator[Found]:
    """What a class says itself, its functions under any name: operators have none; then its bases."""
    for name, item in list(vars(kind).items()):
        if isinstance(item, (types.FunctionType, *CALLED)) or name in names:
            yield Found(f".{name}", item, kind, f"{{holder}}.__dict__[{name!r}]", is_fixed=True)
    for k, base in enumerate(kind.__bases__):
        yield Found(f".__bases__[{k}]", base, kind, f"{{holder}}.__bases__[{k}]", is_fixed=True)


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
    """Attributes that the object itself holds."""
    for name, item in list(getattr(value, "__dict__", {}).items()):
        if name in names:
            yield Found(f".{name}", item, value, f"{{holder}}.__dict__[{name!r}]")
    for kind in type(value).__mro__:
        for name in vars(kind).get("__slots__", ()):
            if name in names and hasattr(value, name):
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
            made[id(value)] = instance = _copied(value)
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
        for name in _global_names(function.__code__):
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
