"""Containers taken apart into leaves and put together: dicts, lists, (named) tuples, dataclasses, None.

Classes that were registered with JAX (`jax.tree_util.register_pytree_node`) are containers, too, and what
was said there of a dataclass (which of its fields are no arrays) holds here.

The work is done by optree, which is imported when a container is met.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.errors import ArgumentError

if TYPE_CHECKING:
    from optree import PyTreeSpec

NAMESPACE = "hesse"
"""Where dataclasses are registered, so that other users of optree see nothing of it."""
CONTAINERS = (dict, list, tuple, deque)
NUMBERS = (int, float, complex, np.generic)
Flatten = Callable[[Any], tuple[Iterable[Any], Any, tuple[str | int, ...] | None]]
Unflatten = Callable[[Any, Iterable[Any]], Any]
_registered: set[type] = set()
_registering = threading.Lock()


def is_container(value: Any) -> bool:
    """Whether a value may hold leaves (None holds none)."""
    return value is None or isinstance(value, CONTAINERS) or _is_dataclass(type(value)) or _is_of_jax(value)


def is_list_of_numbers(value: Any) -> bool:
    """Whether a value is a list or tuple of numbers, or of such lists of one depth: an array, as in NumPy.

    Rows of several lengths are meant as an array, too, and refused where it is made; `[[1.0], 2.0]` is not.
    """
    return type(value) in (list, tuple) and _depth(value) is not None


def _depth(value: Any) -> int | None:
    """How many lists there are around all numbers; None if that differs, or there is something else."""
    if isinstance(value, NUMBERS):
        return 0
    if type(value) not in (list, tuple) or not value:
        return None
    depth = _depth(value[0])
    return None if depth is None or any(_depth(part) != depth for part in value) else depth + 1


@functools.cache
def _optree() -> ModuleType:
    """The library; here dicts with their keys in another order are others: functions may depend on it."""
    import optree  # noqa: PLC0415

    _entered.enter_context(optree.dict_insertion_ordered(True, namespace=NAMESPACE))
    return optree


_entered = contextlib.ExitStack()
atexit.register(_entered.close)  # and not left before: later its functions are gone


def flattened(value: Any) -> tuple[list[Any], PyTreeSpec]:
    """The leaves of a container, and its structure, as far as its dataclasses are known already."""
    leaves, spec = _optree().tree_flatten(value, namespace=NAMESPACE)
    return leaves, spec


def take_apart(value: Any) -> tuple[list[Any], PyTreeSpec]:
    """The leaves of a container, and its structure."""
    while True:
        leaves, spec = flattened(value)
        unknown = {type(leaf): leaf for leaf in leaves if _is_dataclass(type(leaf)) or _is_of_jax(leaf)}
        if not unknown:
            return leaves, spec
        for cls, instance in unknown.items():
            _register(cls, *(_BY_JAX if _is_of_jax(instance) else _by_fields(cls)))


def take_apart_like(name: str, value: Any, spec: PyTreeSpec, other: str) -> list[Any]:
    """The leaves of a container that must have the structure of another one."""
    if is_container(value) and value is not None:
        take_apart(value)  # so that its dataclasses are known
    try:
        return list(spec.flatten_up_to(value))
    except ValueError as error:
        raise ArgumentError(f"{name} must have the structure of {other}: {error}") from None


def tuple_of(specs: list[PyTreeSpec | None]) -> PyTreeSpec:
    """The structure of a tuple of containers and leaves (None)."""
    import optree  # noqa: PLC0415

    leaf = optree.treespec_leaf(namespace=NAMESPACE)
    return optree.treespec_tuple([leaf if spec is None else spec for spec in specs], namespace=NAMESPACE)


def leaf_names(name: str, spec: PyTreeSpec) -> list[str]:
    """How a user writes each leaf: `p["layers"][0].bias`."""
    names = [name + "".join(map(_step, accessor)) for accessor in spec.accessors()]
    if len(set(names)) < len(names):  # keys that print alike
        names = [f"{leaf} (leaf {k})" for k, leaf in enumerate(names)]
    return names


def _step(entry: Any) -> str:
    import optree  # noqa: PLC0415

    if isinstance(entry, optree.MappingEntry) and isinstance(entry.entry, str):
        return f"[{json.dumps(entry.entry, ensure_ascii=False)}]"
    return str(entry.codify(""))


def _is_dataclass(cls: type) -> bool:
    return hasattr(cls, "__dataclass_fields__") and not hasattr(cls, "__array__")


def _is_of_jax(value: Any) -> bool:
    """Whether a value is of a class that was registered with JAX as a container, be it a moment ago.

    Structured tensors are registered there, too, but they are arrays.
    """
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util") or type(value).__module__.startswith("hesse."):
        return False
    return not jax.tree_util.all_leaves([value])


def _flattened_by_jax(instance: Any) -> tuple[list[Any], Any, tuple[str | int, ...]]:
    tree = sys.modules["jax"].tree_util
    parts, structure = tree.tree_flatten_with_path(instance, is_leaf=lambda part: part is not instance)
    names = [getattr(path[0], "name", k) for k, (path, _) in enumerate(parts)]
    return [part for _, part in parts], structure, tuple(names)


def _joined_by_jax(structure: Any, parts: Iterable[Any]) -> Any:
    return sys.modules["jax"].tree_util.tree_unflatten(structure, parts)


_BY_JAX = _flattened_by_jax, _joined_by_jax
"""How instances of a class that JAX knows are taken apart and put together."""


def _by_fields(cls: type) -> tuple[Flatten, Unflatten]:
    """The same for a dataclass; fields with `metadata={"static": True}` are part of the structure."""
    fields = dataclasses.fields(cls)
    moving = tuple(field.name for field in fields if not field.metadata.get("static"))
    static = tuple(field.name for field in fields if field.metadata.get("static"))

    def flatten(instance: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[str, ...]]:
        parts = tuple(getattr(instance, name) for name in moving)
        return parts, tuple(getattr(instance, name) for name in static), moving

    def unflatten(values: Any, parts: Iterable[Any]) -> Any:
        instance: Any = object.__new__(cls)  # leaves may be anything, which an __init__ would not take
        for name, part in (*zip(moving, parts, strict=True), *zip(static, values, strict=True)):
            object.__setattr__(instance, name, part)
        return instance

    return flatten, unflatten


def _register(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Let optree know a class."""
    import optree  # noqa: PLC0415

    entry = optree.DataclassEntry if _is_dataclass(cls) else optree.FlattenedEntry
    with _registering:
        if cls not in _registered:
            optree.register_pytree_node(cls, flatten, unflatten, path_entry_type=entry, namespace=NAMESPACE)
            _registered.add(cls)
