"""Arrays that a function reads besides its arguments: inputs of the program, or part of the signature.

Large arrays are inputs that nobody sees: read at every call, never copied or hashed. Small arrays and those
with a pattern that derivatives profit from (an identity, a difference matrix) are constants; what they hold
is part of the signature, as are all plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.api.surroundings import Found, Function, Walk
from hesse.backends.target import library_of
from hesse.ir import has_pattern

SMALL = 16
"""Arrays of numbers with at most so many entries are constants."""
SMALL_INDEX = 4096
"""The same for whole numbers and truth values: positions and masks that are known make better programs."""


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

    def function(self, stand_ins: Sequence[Any]) -> Function:
        """The function that reads others in place of the inputs."""
        if not self.arrays:
            return self.walk.function
        return self.walk.copied(dict(zip(map(id, self.arrays), stand_ins, strict=True)))


def captured(walk: Walk, needed: Collection[str]) -> Captured:
    """What a walk found; arrays whose values are `needed` are constants."""
    arrays = walk.arrays().values()
    inputs = [found for found in arrays if found.name not in needed and _is_input(found)]
    hidden = {id(found.value) for found in inputs}
    constants = [found.value for found in arrays if id(found.value) not in hidden]
    contents = [(array, _content(array)) for array in constants if not _is_final(array)]
    marks = tuple(_mark(array) for array in constants)
    return Captured(
        walk,
        (walk.key(), marks),
        tuple(found.name for found in inputs),
        tuple(found.value for found in inputs),
        _check(walk, contents),
    )


def _is_input(found: Found) -> bool:
    array = found.value
    if found.is_fixed:
        return False
    if library_of(array) is not None:
        return True
    if array.dtype.kind in "iub":
        return bool(array.size > SMALL_INDEX)
    return type(array) is np.ndarray and array.dtype.kind == "f" and array.size > SMALL and not has_pattern(array)


def _is_final(array: Any) -> bool:
    """Whether nobody can change what an array holds."""
    if library_of(array) is not None:
        return library_of(array) == "jax"
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None


def _content(array: Any) -> bytes:
    return np.asarray(array).tobytes()


def _mark(array: Any) -> tuple[Any, ...]:
    values = np.asarray(array)
    return values.shape, values.dtype, values.tobytes()


def _check(walk: Walk, contents: Sequence[tuple[Any, bytes]]) -> Callable[[], bool] | None:
    if not contents:
        return walk.is_same if walk.places else None

    def is_same() -> bool:
        return walk.is_same() and all(_content(array) == before for array, before in contents)

    return is_same
