"""Calls taken apart: arrays to compute with, and what is part of the signature (structures, flags, sizes)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hesse.api.captured import known
from hesse.api.entries import Entry
from hesse.api.surroundings import Same
from hesse.api.trees import is_container, is_list_of_numbers, leaf_names, take_apart
from hesse.backends.arrays import not_an_array
from hesse.backends.target import library_of, target_named
from hesse.frontends.expression import Expression

if TYPE_CHECKING:
    from optree import PyTreeSpec

PLAIN_TYPES = (str, bool, type(None))
"""Types whose values are part of the signature wherever they occur."""
VALUES = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    tuple,
    frozenset,
    type,
    slice,
    Enum,
    np.dtype,
    np.generic,
)
"""Types of which equal values are the same."""


class Argument(NamedTuple):
    """An argument: its structure (None: it is a leaf), its leaves and their names."""

    spec: PyTreeSpec | None
    leaves: list[Any]
    names: list[str]

    @classmethod
    def of(cls, name: str, value: Any) -> Argument:
        """The argument with this value; lists of numbers are arrays."""
        if is_container(value) and not is_list_of_numbers(value):
            leaves, spec = take_apart(value)
            return cls(spec, leaves, leaf_names(name, spec))
        return cls.leaf(name, value)

    @classmethod
    def leaf(cls, name: str, value: Any) -> Argument:
        """An argument that is taken as a whole."""
        return cls(None, [value], [name])


class Call:
    """A call taken apart. Leaves that are `fixed` are part of the signature; the others are arrays."""

    def __init__(
        self, names: Sequence[str], arguments: Sequence[Argument], fixed: dict[int, Hashable]
    ) -> None:
        self.names, self.arguments, self.fixed = tuple(names), arguments, fixed
        self.leaves = [leaf for argument in arguments for leaf in argument.leaves]
        self.leaf_names = [name for argument in arguments for name in argument.names]
        self.owners = [k for k, argument in enumerate(arguments) for _ in argument.leaves]
        """For each leaf which argument it is part of."""
        self.positions = [k for k in range(len(self.leaves)) if k not in fixed]
        """Which leaves are arrays."""

    @property
    def array_names(self) -> list[str]:
        """The names of the arrays."""
        return [self.leaf_names[k] for k in self.positions]

    @property
    def arrays(self) -> list[Any]:
        """The arrays."""
        return [self.leaves[k] for k in self.positions]

    @cached_property
    def key(self) -> Hashable:
        """What a traced function depends on besides the arrays."""
        return tuple(argument.spec for argument in self.arguments), tuple(self.fixed.items())

    def assembled(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments with other leaves."""
        values, start = [], 0
        for argument in self.arguments:
            stop = start + len(argument.leaves)
            values.append(
                leaves[start] if argument.spec is None else argument.spec.unflatten(leaves[start:stop])
            )
            start = stop
        return values


def fixed_leaves(
    arguments: Sequence[Argument], traced: Collection[int], needed: Collection[str]
) -> dict[int, Hashable]:
    """The leaves that are part of the signature, with what they add to it.

    The leaves of arguments that are `traced` are arrays. Of the others those are fixed that are no arrays,
    and those whose values were `needed`.
    """
    fixed, position = {}, 0
    for k, argument in enumerate(arguments):
        for name, leaf in zip(argument.names, argument.leaves, strict=True):
            if k not in traced and (not is_array(leaf) or (name in needed and may_be_fixed(leaf))):
                fixed[position] = _fixed_key(name, leaf)
            position += 1
    return fixed


def may_be_fixed(leaf: Any) -> bool:
    """Whether an array can become part of the signature: a whole number, several of them, or a mask."""
    if type(leaf) is np.ndarray:
        return leaf.dtype.kind in "biu"
    if library_of(leaf) == "torch":
        return not (leaf.dtype.is_floating_point or leaf.dtype.is_complex)
    return isinstance(leaf, int | np.integer | np.bool) or (
        is_list_of_numbers(leaf) and np.asarray(leaf).dtype.kind in "biu"
    )


def fixed_value(leaf: Any) -> Any:
    """What the function is called with for a leaf that is part of the signature; never changed."""
    if type(leaf) is np.ndarray:
        leaf = leaf.copy()
        leaf.flags.writeable = False
    return leaf


def is_array(leaf: Any) -> bool:
    """Whether a leaf is computed with (or refused as something that only looks like numbers)."""
    if type(leaf) in (np.ndarray, float, int):
        return True
    if isinstance(leaf, bool | str | bytes | type | Enum):
        return False
    return (
        isinstance(leaf, Expression | np.ndarray | np.generic | int | float | complex)
        or is_list_of_numbers(leaf)
        or library_of(leaf) is not None
        or hasattr(
            type(leaf), "__array__"
        )  # an object itself may answer for any name, or raise what it likes
    )


def _fixed_key(name: str, leaf: Any) -> Hashable:
    """Values are told apart by their types, too: 1, 1.0 and True are equal."""
    if type(leaf) is np.ndarray:
        return np.ndarray, leaf.shape, leaf.dtype, leaf.tobytes()
    if library_of(leaf) == "torch":
        host = target_named("torch").on_host(leaf)
        return type(leaf), host.shape, host.dtype, host.tobytes()
    if is_list_of_numbers(leaf):
        return type(leaf), repr(leaf)
    if type(leaf) is slice:  # has no hash before Python 3.12
        return slice, leaf.start, leaf.stop, leaf.step
    try:
        hash(leaf)
    except TypeError:
        raise not_an_array(name, leaf) from None
    return (type(leaf), leaf) if isinstance(leaf, VALUES) else (Same(leaf), known(leaf))


def marks(arguments: Sequence[Any], options: Mapping[str, Any], by_value: bool) -> tuple[Hashable, list[Any]]:
    """What decides about a call, read off quickly, and all leaves in the order in which they were given.

    Numbers and masks count `by_value` where some of them are part of the signature. A LookupError says that
    there is something among them that needs a closer look.
    """
    leaves: list[Any] = []
    found: list[Any] = [_mark(value, leaves, by_value) for value in arguments]
    for name, value in options.items():
        found += (name, _mark(value, leaves, by_value))
    return tuple(found), leaves


def _mark(value: Any, leaves: list[Any], by_value: bool) -> Hashable:
    if type(value) in PLAIN_TYPES or not is_container(value):
        leaves.append(value)
        return _leaf_mark(value, by_value)
    if is_list_of_numbers(value):
        raise LookupError
    parts, spec = take_apart(value)
    leaves += parts
    if by_value:
        return spec, *[_leaf_mark(part, True) for part in parts]
    return spec, *[
        (part.shape, part.dtype) if type(part) is np.ndarray else _leaf_mark(part, False) for part in parts
    ]


def _leaf_mark(leaf: Any, by_value: bool) -> Hashable:
    kind: Any = type(leaf)
    if kind is np.ndarray:
        if by_value and leaf.dtype == bool:
            return leaf.shape, leaf.tobytes()
        return leaf.shape, leaf.dtype
    if kind in PLAIN_TYPES or (kind is int and by_value):
        return kind, leaf
    if kind in (float, int):
        return (kind,)
    if not hasattr(kind, "shape") or not hasattr(kind, "dtype"):
        raise LookupError
    return kind, leaf.shape, leaf.dtype, getattr(leaf, "weak_type", None)


def _is_marked_by_value(leaf: Any) -> bool:
    """Whether marks tell a leaf from others; not arrays of whole numbers, as most are traced."""
    return type(leaf) in (*PLAIN_TYPES, int) or (type(leaf) is np.ndarray and leaf.dtype == bool)


def numbered(arguments: Sequence[Any], options: Mapping[str, Any]) -> tuple[tuple[int, ...], dict[str, int]]:
    """The same call with the numbers of the arguments, in the order in which they were given."""
    count = len(arguments)
    return tuple(range(count)), {name: count + k for k, name in enumerate(options)}


def _positions_given(call: Call, order: Sequence[int | None]) -> list[int]:
    """Where the arrays of a call stand among the leaves as they were given."""
    own = [0, *itertools.accumulate(len(argument.leaves) for argument in call.arguments)]
    counts = {at: len(part.leaves) for at, part in zip(order, call.arguments, strict=True) if at is not None}
    starts = [0, *itertools.accumulate(counts[at] for at in range(len(counts)))]
    return [
        starts[at] + k - own[call.owners[k]]
        for k in call.positions
        if (at := order[call.owners[k]]) is not None
    ]


class Recipe(NamedTuple):
    """What to do with calls that look the same: the entry to run, and which of their leaves are its arrays.

    It holds as long as the library has these `defaults`.
    """

    entry: Entry
    positions: list[int]
    defaults: Any

    def arrays(self, leaves: Sequence[Any]) -> list[Any]:
        """The arrays of a call, or a LookupError if the recipe no longer holds."""
        if self.entry.executable.target.defaults() != self.defaults:
            raise LookupError
        return [leaves[k] for k in self.positions]


def recipe(call: Call, order: Sequence[int | None], leaves: Sequence[Any], entry: Entry) -> Recipe | None:
    """The recipe for a call with these leaves, or None if marks do not say enough about it.

    `order` says which of the given arguments each argument of the call is (None: it was not given).
    """
    positions = _positions_given(call, order)
    arrays = [call.leaves[k] for k in call.positions if order[call.owners[k]] is not None]
    fixed = [call.leaves[k] for k in call.fixed if order[call.owners[k]] is not None]
    if (
        all(type(array) in (np.ndarray, float, int) or library_of(array) is not None for array in arrays)
        and all(map(_is_marked_by_value, fixed))
        and all(k < len(leaves) and leaves[k] is array for k, array in zip(positions, arrays, strict=True))
    ):
        return Recipe(entry, positions, entry.executable.target.defaults())
    return None
