"""New complex arrays, and functions that write to complex ones, by their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.frontends.complexes import Complex, both_parts, complex_met
from hesse.frontends.dispatch import COMPLEX, call, complexes
from hesse.frontends.tracing import ComplexError, ComplexNumbersNeeded


def _writing(function: Any) -> Callable[..., None]:
    """The handler of a function that writes to its first argument, and is linear in what it writes."""

    def handler(target: Any, *arguments: Any, **options: Any) -> None:
        if not isinstance(target, Complex):
            raise complex_met(ComplexNumbersNeeded if isinstance(target, np.ndarray) else ComplexError)
        *lead, value = arguments
        for own, part in zip((target.real, target.imag), both_parts(value), strict=True):
            call(function, (own, *lead, part), options)

    return handler


WRITING: tuple[Any, ...] = (np.copyto, np.add.at, np.subtract.at, np.fill_diagonal)
COMPLEX.update({function: _writing(function) for function in WRITING})


@complexes(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """A value everywhere, in an array of a type that is given, or else of that of `a`."""
    kind = np.dtype(float if dtype is None else dtype).kind
    like = np.real(a)
    if kind in "biu" or (dtype is not None and kind == "f"):
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
