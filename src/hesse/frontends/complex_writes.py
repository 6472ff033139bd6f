"""New complex arrays, and functions that write to complex ones, by their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.frontends.complexes import Complex, both_parts, complex_met
from hesse.frontends.dispatch import COMPLEX, call, complexes
from hesse.frontends.tracing import ComplexError, ComplexNumbersNeeded


def _writing(function: Any, place: int) -> Callable[..., None]:
    """The handler of a function that writes to its first argument, and is linear in what it writes.

    `place` says which of its further arguments that is.
    """

    def handler(target: Any, *arguments: Any, **options: Any) -> None:
        if not isinstance(target, Complex):
            raise complex_met(ComplexNumbersNeeded if isinstance(target, np.ndarray) else ComplexError)
        before, value, after = arguments[:place], arguments[place], arguments[place + 1 :]
        for own, part in zip((target.real, target.imag), both_parts(value), strict=True):
            call(function, (own, *before, part, *after), options)

    return handler


WRITING: dict[Any, int] = {np.copyto: 0, np.fill_diagonal: 0, np.add.at: 1, np.subtract.at: 1}
COMPLEX.update({function: _writing(function, place) for function, place in WRITING.items()})


@complexes(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """A value everywhere, in an array of a type that is given, or else of that of `a`."""
    like = np.real(a)
    if (a.dtype if dtype is None else np.dtype(dtype)).kind != "c":
        if np.iscomplexobj(fill_value):  # NumPy would drop the imaginary part
            raise complex_met(ComplexNumbersNeeded)
        return call(np.full_like, (like, fill_value, dtype), {"shape": shape})
    parts = [call(np.full_like, (like, part, float), {"shape": shape}) for part in both_parts(fill_value)]
    return Complex.view(*parts)


@complexes(np.zeros_like, np.empty_like)
def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Zeros, also where NumPy leaves what is there."""
    return full_like(a, 0, dtype, shape=shape)


@complexes(np.ones_like)
def ones_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Ones."""
    return full_like(a, 1, dtype, shape=shape)
