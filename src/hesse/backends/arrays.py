"""From what a user passes to what a program takes: the library, the arrays and the dtype to compute in.

One rule for every entrance. The library is that of the arrays (NumPy if they have none), or the one that is
asked for. The dtype is what the floating-point arrays are promoted to by that library; Python numbers and
arrays of whole numbers have no say in it, and without any floating-point array it is the library's default
(float64 in NumPy). NumPy computes float16 in float32; the others compute in the short types they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.executable import Executable
from hesse.backends.target import DType, Target, library_of, target_for, target_named
from hesse.errors import ArgumentError, DifferentiationError

Signature = tuple[tuple[str | None, tuple[int, ...], DType | None], ...]
"""For each array its library, its shape and its dtype (None: one that has no say, as of a Python number)."""
NUMBERS = (float, int, bool)


class Arrays(NamedTuple):
    """The checked arrays of a call: by which target and in which dtype it is computed.

    `as_numpy` says that only NumPy arrays and numbers were given, so that NumPy arrays are given back.
    """

    values: list[Any]
    kinds: list[str]
    dtype: DType
    target: Target
    as_numpy: bool
    signature: Signature

    @property
    def weak(self) -> list[bool]:
        """For each array whether its dtype has no say."""
        return [dtype is None for _, _, dtype in self.signature]

    @property
    def key(self) -> tuple[Any, ...]:
        """All that a compiled program depends on: an integer may be an index, a float may not."""
        return self.signature, tuple(self.kinds), self.dtype

    @property
    def casts(self) -> list[DType | None]:
        """What each array must be cast to before it is computed with (None: it can be used as it is)."""
        home = None if self.target.name == "numpy" else self.target.name
        return [
            None if library == home and dtype is not None and dtype == self.dtype else self.dtype
            for library, _, dtype in self.signature
        ]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each array."""
        return [shape for _, shape, _ in self.signature]

    def beside(self, values: Sequence[Any]) -> Arrays:
        """These arrays and others, which decide about neither the library nor the dtype."""
        libraries = list(map(library_of, values))
        kinds = [
            value.dtype.kind if library is None else target_named(library).kind(value)
            for value, library in zip(values, libraries, strict=True)
        ]
        marks = [(name, tuple(a.shape), a.dtype) for name, a in zip(libraries, values, strict=True)]
        return self._replace(
            values=[*self.values, *values],
            kinds=self.kinds + kinds,
            signature=(*self.signature, *marks),
        )

    def run(self, runs: Executable, casts: Sequence[DType | None] | None = None) -> Sequence[Any]:
        """The results of an executable for these arrays."""
        arrays = self.target.converted(self.values, self.casts if casts is None else casts)
        return self.target.call(runs.compiled, arrays, self.as_numpy)


def as_arrays(
    names: Sequence[str],
    values: Sequence[Any],
    backend: str | Target | None = None,
    in_kind: bool = False,
) -> Arrays:
    """The arguments as arrays; anything that is not an array of real numbers is refused by name.

    `in_kind` says that the results are arrays of the backend even where no argument is.
    """
    values = [
        value.dense() if hasattr(type(value), "dense") else value for value in values
    ]  # of `Structured`
    target = target_for(values, backend)
    libraries = [library_of(value) for value in values]
    arrays = [
        value if type(value) is np.ndarray or library is not None else _as_array(name, value)
        for name, value, library in zip(names, values, libraries, strict=True)
    ]
    kinds = [
        array.dtype.kind if library is None else target.kind(array)
        for array, library in zip(arrays, libraries, strict=True)
    ]
    for name, array, kind in zip(names, arrays, kinds, strict=True):
        if kind not in "fiub":
            raise _unsuitable(name, array, kind)
    weak = [type(value) in NUMBERS or getattr(value, "weak_type", False) for value in values]
    dtypes = [
        a.dtype for a, kind, is_weak in zip(arrays, kinds, weak, strict=True) if kind == "f" and not is_weak
    ]
    marks = [
        (library, tuple(a.shape), None if is_weak else a.dtype)
        for a, library, is_weak in zip(arrays, libraries, weak, strict=True)
    ]
    as_numpy = not in_kind and not any(library is not None for library in libraries)
    return Arrays(arrays, kinds, target.dtype(dtypes, as_numpy), target, as_numpy, tuple(marks))


def not_an_array(name: str, value: Any) -> ArgumentError:
    """The error for an argument that can be neither computed with nor compared with that of another call."""
    return ArgumentError(
        f"argument {name} is a {type(value).__name__}, not an array; "
        "close over it (lambda x: f(x, option)) instead of passing it"
    )


def other_arithmetic(value: Any) -> str | None:
    """What kind of array it is and what to pass instead, if functions mean something else for it."""
    if isinstance(value, np.matrix):
        return (
            "an np.matrix, for which * is the matrix product; pass an array, np.asarray(A), and write A @ x"
        )
    if isinstance(value, np.ma.MaskedArray):
        return (
            "a masked array, and functions leave out its masked entries; fill them (x.filled(0.0)) and pass "
            "the mask as an argument of its own"
        )
    return None


def _as_array(name: str, value: Any) -> np.ndarray:
    known = isinstance(value, np.ndarray | np.generic | int | float | complex | list | tuple)
    if not known and not hasattr(type(value), "__array__"):
        raise not_an_array(name, value)
    refusal = other_arithmetic(value)
    if refusal is not None:
        raise ArgumentError(f"argument {name} is {refusal}")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"argument {name} is not an array of numbers: {error}") from None


def _unsuitable(name: str, array: Any, kind: str) -> Exception:
    if kind == "c":
        return DifferentiationError(
            f"argument {name} is complex; hesse works with real arrays: pass real and imaginary parts"
        )
    if str(array.dtype).startswith("key"):
        return ArgumentError(
            f"argument {name} is a key of random numbers; pass its data, jax.random.key_data({name}) or "
            "jax.random.PRNGKey(0), with which functions of jax.random draw as well"
        )
    return ArgumentError(f"argument {name} has dtype {array.dtype}; expected an array of numbers")
