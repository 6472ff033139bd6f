"""What a value holds that a function may read: entries, attributes, what a function closes over.

What belongs to libraries is not looked into.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections import deque
from collections.abc import Iterator
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


def is_array(value: Any) -> bool:
    """Whether a value is an array of any library."""
    return isinstance(value, np.ndarray) or library_of(value) is not None


def of_library(value: Any) -> bool:
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


def is_whole(value: Any) -> bool:
    """Whether a container is compared as a whole."""
    if isinstance(value, tuple | list):
        return len(value) > LONG and all(isinstance(item, PLAIN) for item in value)
    return isinstance(value, WATCHED)


def has_attributes(value: Any) -> bool:
    """Whether a value is an object, a class or a module of the user."""
    if isinstance(value, types.SimpleNamespace):
        return True
    if isinstance(value, types.ModuleType):
        return not _is_library_module(value.__name__)
    if isinstance(value, type):
        return not of_library(value)
    is_other = isinstance(value, (*PLAIN, types.FunctionType)) or is_array(value)
    return not is_other and not of_library(type(value)) and hasattr(value, "__dict__")


@functools.lru_cache(maxsize=1024)
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The names that a function, or one inside it, reads as globals."""
    found = [
        item.argval for item in dis.get_instructions(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    ]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += global_names(constant)
    return tuple(dict.fromkeys(found))


def contents_of(value: Any, names: frozenset[str]) -> Iterator[Found]:
    """What a value holds; of objects, classes and modules only attributes with these names."""
    if isinstance(value, PLAIN) or is_array(value) or is_whole(value):
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
        if not of_library(value):
            yield from _of_function(value, names)
    elif hasattr(type(value), DIFFERENTIATED):
        yield Found("function", getattr(value, DIFFERENTIATED), value, f"{{holder}}.{DIFFERENTIATED}")
    elif hasattr(type(value), READS):
        for name in getattr(value, READS):
            yield Found(name, getattr(value, name), value, f"{{holder}}.{name}", is_fixed=True)
    elif isinstance(value, type):
        if not of_library(value):
            yield from _of_class(value, names)
    elif isinstance(value, types.ModuleType):
        if not _is_library_module(value.__name__):
            yield from (found._replace(is_fixed=True) for found in attributes_of(value, names))
    elif isinstance(value, CALLED):
        yield from _called(value)
    elif _is_torch_module(value):
        yield from _of_torch_module(value, names)
    elif has_attributes(value) or (hasattr(value, "__slots__") and not of_library(type(value))):
        yield from attributes_of(value, names)
        if not of_library(type(value)):
            yield Found("__class__", type(value), value, "{holder}.__class__", is_fixed=True)


def _is_torch_module(value: Any) -> bool:
    return getattr(value, "__dict__", {}).keys() >= ALWAYS


def _of_torch_module(module: Any, names: frozenset[str]) -> Iterator[Found]:
    """Its tensors, its parts and its settings; and what a user's own class says."""
    for name, item in list(module.__dict__.items()):
        if name in ALWAYS or name in names or isinstance(item, PLAIN):
            yield Found(f".{name}", item, module, f"{{holder}}.__dict__[{name!r}]")
    if not of_library(type(module)):
        yield Found("__class__", type(module), module, "{holder}.__class__", is_fixed=True)


CALLED = (functools._lru_cache_wrapper, property, staticmethod, classmethod, functools.cached_property)
"""What calls a function that it holds."""


def _called(value: Any) -> Iterator[Found]:
    for name in ("__wrapped__", "fget", "func"):
        inner = getattr(value, name, None)
        if inner is not None:
            yield Found(name, inner, value, f"{{holder}}.{name}", is_fixed=True)


def _of_function(function: types.FunctionType, names: frozenset[str]) -> Iterator[Found]:
    for name, (cell, content) in zip(function.__code__.co_freevars, cells_of(function), strict=True):
        if content is not EMPTY:
            yield Found(name, content, cell, "{holder}.cell_contents")
    namespace = function.__globals__
    for name in global_names(function.__code__):
        value = namespace.get(name, EMPTY)
        is_module = isinstance(value, types.ModuleType) and _is_library_module(value.__name__)
        if value is not EMPTY and not is_module:
            yield Found(name, value, namespace, f"{{holder}}[{name!r}]", name)
    for name in ("__defaults__", "__kwdefaults__"):
        if getattr(function, name):
            yield Found(name, getattr(function, name), function, f"{{holder}}.{name}")
    yield from (found._replace(is_fixed=True) for found in attributes_of(function, names))


def _of_class(kind: type, names: frozenset[str]) -> Iterator[Found]:
    """What a class says itself, its functions under any name: operators have none; then its bases."""
    for name, item in list(vars(kind).items()):
        if isinstance(item, (types.FunctionType, *CALLED)) or name in names:
            yield Found(f".{name}", item, kind, f"{{holder}}.__dict__[{name!r}]", is_fixed=True)
    for k, base in enumerate(kind.__bases__):
        yield Found(f".__bases__[{k}]", base, kind, f"{{holder}}.__bases__[{k}]", is_fixed=True)


def cells_of(function: types.FunctionType) -> list[tuple[Any, Any]]:
    """The cells of a function with their contents."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append((cell, cell.cell_contents))
        except ValueError:  # not assigned yet
            found.append((cell, EMPTY))
    return found


def attributes_of(value: Any, names: frozenset[str]) -> Iterator[Found]:
    """Attributes that the object itself holds."""
    for name, item in list(getattr(value, "__dict__", {}).items()):
        if name in names:
            yield Found(f".{name}", item, value, f"{{holder}}.__dict__[{name!r}]")
    for kind in type(value).__mro__:
        for name in vars(kind).get("__slots__", ()):
            if name in names and hasattr(value, name):
                yield Found(f".{name}", getattr(value, name), value, f"{{holder}}.{name}")
