"""Arrays that a function reads besides its arguments: inputs of the program, or part of the signature.

Large arrays are inputs that nobody sees: read at every call, never copied or hashed. Small arrays and those
with a pattern that derivatives profit from (an identity, a difference matrix) are constants; what they hold
is part of the signature, as are all plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.api.contents import Found
from hesse.api.surroundings import Function, Walk
from hesse.backends.arrays import Arrays
from hesse.backends.kept import keep
from hesse.backends.target import library_of, target_named
from hesse.frontends.expression import Expression
from hesse.frontends.memory import protect
from hesse.frontends.operands import constant
from hesse.frontends.tracing import arrays_traced
from hesse.ir import has_pattern

SMALL = 16
"""Arrays of numbers with at most so many entries are constants."""
SMALL_INDEX = 4096
"""The same for whole numbers and truth values: positions and masks that are known make better programs."""

KEPT_KEYS = 8
"""Arrays that were met are kept for so many states of what a function reads: models may be replaced often."""


class Watch:
    """What a function reads, looked at again and again.

    What the function itself changes while it is traced (a counter, a list it appends to) is not watched.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._ignored: frozenset[str] = frozenset()
        self._constants: set[str] = set()
        """Arrays that are constants because their values were needed."""
        self._held: dict[Hashable, list[Any]] = {}
        """Arrays that a trace met and no walk finds, by what the walk found: with that they may change."""
        self._key: Hashable = None

    def look(self) -> Captured:
        """What the function reads now."""
        walk = Walk(self._function, self._ignored)
        self._key = walk.key()
        return captured(walk, self._constants, self._held.get(self._key, ()))

    def settle(self, before: Captured) -> bool:
        """After a trace: whether the function changed something, which is ignored from now on."""
        if before.is_same is None or before.walk.is_same():
            return False
        self._ignored |= before.walk.changed(Walk(self._function, self._ignored))
        return True

    def hold(self, arrays: Sequence[Any]) -> None:
        """Make inputs of arrays that a trace met."""
        keep(self._held, self._key, [*self._held.get(self._key, ()), *arrays], KEPT_KEYS)

    def fix(self, names: Collection[str]) -> None:
        """Make constants of arrays, by their names."""
        self._constants.update(names)

    def release(self, names: Collection[str]) -> None:
        """Undo that."""
        self._constants.difference_update(names)


class Captured(NamedTuple):
    """What a function reads, at one moment.

    `names` and `arrays` are the inputs; `key` is what the trace depends on. `is_same()` says whether the
    function would read the same again; None: it reads nothing that could change.
    """

    walk: Walk
    key: tuple[Any, ...]
    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    is_same: Callable[[], bool] | None
    is_fixed: bool
    """Whether a copy of the function would read some of the inputs all the same."""
    known: tuple[Any, ...]
    """Arrays of other libraries that are constants."""
    tables: tuple[np.ndarray, ...]
    """Arrays of real numbers that are constants and that a copy of the function need not read."""

    def strangers(self, arguments: Arrays) -> list[str]:
        """The inputs that the library of the arguments cannot compute with."""
        known = (None, arguments.target.name)
        return [
            name
            for name, array in zip(self.names, self.arrays, strict=True)
            if library_of(array) not in known
        ]

    def traced(self, names: Collection[str]) -> str | None:
        """The library that traces one of these inputs."""
        pairs = zip(self.names, self.arrays, strict=True)
        return next((library_of(a) for name, a in pairs if name in names and _is_traced(a)), None)

    def labels(self, taken: Collection[str]) -> list[str]:
        """Names for the inputs beside those of the arguments: all different."""
        labels: list[str] = []
        known = set(taken)
        for name in self.names:
            label, count = name, 1
            while label in known:
                label, count = f"{name} (captured {count})", count + 1
            known.add(label)
            labels.append(label)
        return labels

    def function(self, stand_ins: Sequence[Any]) -> Function:
        """The function that reads others in place of the inputs; some may be the inputs themselves."""
        pairs = zip(self.arrays, stand_ins, strict=True)
        replaced = {id(array): new for array, new in pairs if new is not array}
        if arrays_traced.get() is not None:
            replaced |= {id(array): _as_traced(array) for array in self.tables}
        return self.walk.copied(replaced) if replaced else self.walk.function


def captured(walk: Walk, constants: Collection[str], held: Sequence[Any] = ()) -> Captured:
    """What a walk found; arrays under these names are constants in any case, and those `held` are inputs."""
    arrays = list(walk.arrays().values())
    arrays += [
        Found(f"a tensor met {k}", array, None, "", is_fixed=True)
        for k, array in enumerate(held)
        if all(array is not found.value for found in arrays)
    ]
    inputs = [
        found
        for found in arrays
        if (found.name not in constants or _is_traced(found.value)) and _is_input(found)
    ]
    hidden = {id(found.value) for found in inputs}
    known = [found.value for found in arrays if id(found.value) not in hidden]
    marks = tuple(map(_mark, known))
    contents = [pair for pair in zip(known, marks, strict=True) if not _is_final(pair[0])]
    kinds = tuple((library_of(f.value), tuple(f.value.shape), f.value.dtype) for f in inputs)
    return Captured(
        walk,
        (walk.key(), marks, kinds),
        tuple(found.name for found in inputs),
        tuple(found.value for found in inputs),
        _check(walk, contents),
        any(found.is_fixed for found in inputs),
        tuple(array for array in known if library_of(array) is not None),
        tuple(f.value for f in arrays if id(f.value) not in hidden and not f.is_fixed and _is_table(f.value)),
    )


def _is_table(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype.kind == "f" and bool(array.ndim)


def _as_traced(array: np.ndarray) -> Expression:
    """A known array that traced values may index, but to which nobody writes."""
    expression = constant(array)
    protect(expression, "an array that is no argument of the function")
    return expression


def known(value: Any) -> Hashable:
    """What a function or another object that is given reads now: its arrays are constants."""
    walk = Walk(value)
    return captured(walk, {found.name for found in walk.arrays().values()}).key


def _is_input(found: Found) -> bool:
    array = found.value
    library = library_of(array)
    if library is not None:  # whose traces recognise it wherever it is; complex ones and keys are constants
        return target_named(library).kind(array) not in "cO"
    if found.is_fixed:
        return False
    if array.dtype.kind in "iub":
        return bool(array.size > SMALL_INDEX)
    return (
        type(array) is np.ndarray
        and array.dtype.kind == "f"
        and array.size > SMALL
        and not has_pattern(array)
    )


def _is_traced(array: Any) -> bool:
    """Whether nobody knows what an array holds: JAX traces a function around this one."""
    return library_of(array) == "jax" and not target_named("jax").may_be_kept([array])


def _is_final(array: Any) -> bool:
    """Whether nobody can change what an array holds."""
    if library_of(array) is not None:
        return library_of(array) == "jax"
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None


def _values(array: Any) -> np.ndarray:
    library = library_of(array)
    return array if library is None else target_named(library).on_host(array)


def _mark(array: Any) -> tuple[Any, ...]:
    """What an array holds, and as what."""
    values = _values(array)
    return values.shape, values.dtype, values.tobytes()


def _check(walk: Walk, contents: Sequence[tuple[Any, Any]]) -> Callable[[], bool] | None:
    if not contents:
        return walk.is_same if walk.places else None

    def is_same() -> bool:
        return walk.is_same() and all(_mark(array) == before for array, before in contents)

    return is_same
