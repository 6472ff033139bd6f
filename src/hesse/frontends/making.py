"""Functions that ask nothing of traced values, and what stands in their places while a function is traced.

`np.array([x[0], 1.0])` and `np.asarray(x)` would make arrays of objects (see `objects`), of which NumPy
computes few functions, and `math.sin(x)` would ask for a number. So other functions stand in their places in
the modules while a function is traced: what has a traced value in it becomes one traced value, `math.sin` is
`np.sin` for it, and the library's own function does all the rest, for other threads and for libraries, too.
Functions that were imported by name (`from numpy import array`) are the libraries' own.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.frontends.dispatch import FUNCTIONS, NAMED, is_float_type
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, as_node
from hesse.frontends.special import erf, erfc, lgamma
from hesse.frontends.tracing import is_library

_lock = threading.Lock()
_traces = 0
"""How many traces are under way, in all threads."""


@contextmanager
def traced_arrays() -> Iterator[None]:
    """Around user code that is called with expressions: functions that make arrays make traced ones, too."""
    _change(1)
    try:
        yield
    finally:
        _change(-1)


def _change(step: int) -> None:
    global _traces  # noqa: PLW0603  it counts what is done to a module
    with _lock:
        _traces += step
        for (module, name), (own, traced) in STAND_INS.items():
            if getattr(module, name) in (own, traced):  # what others have put there stays
                setattr(module, name, traced if _traces else own)


def _maker(
    name: str, copies: bool = False, least_axes: int = 0
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """NumPy's function of this name, and what stands in its place; and what it does if nothing is said."""
    own = getattr(np, name)

    @functools.wraps(own)
    def make(*arguments: Any, **options: Any) -> Any:
        value, dtype = (*arguments, None, None)[:2]
        dtype = options.get("dtype", dtype)
        if not _is_traced(value) or _is_in_library() or (dtype is not None and np.dtype(dtype) == object):
            return own(*arguments, **options)
        made = _converted(_joined(value), dtype)
        made = made[(None,) * max(0, options.get("ndmin", least_axes) - made.ndim)]
        return made.copy() if options.get("copy", copies) else made

    return own, make


def _from_iterable() -> tuple[Callable[..., Any], Callable[..., Any]]:
    own = np.fromiter

    @functools.wraps(own)
    def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1, **options: Any) -> Any:
        entries = list(iter if count < 0 else itertools.islice(iter, count))
        if not _is_traced(entries) or _is_in_library():
            return own(entries, dtype, count, **options)
        if len(entries) < count:
            raise ArgumentError(f"np.fromiter: there are {len(entries)} entries, fewer than {count}")
        return _converted(_joined(entries), dtype)

    return own, fromiter


def _of_numbers(name: str, function: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The function `math.name`, and what stands in its place."""
    own = getattr(math, name)

    @functools.wraps(own)
    def compute(*values: Any) -> Any:
        return function(*values) if any(isinstance(value, Expression) for value in values) else own(*values)

    return own, compute


def _whole(rounded: np.ufunc) -> Callable[[Any], Any]:
    """A function that rounds to whole numbers, which are integers in `math`."""
    return lambda x: rounded(x).astype(int)


def _log(x: Any, *base: Any) -> Any:
    return np.divide(np.log(x), np.log(*base)) if base else np.log(x)


def _hypot(x: Any, *others: Any) -> Any:
    return functools.reduce(np.hypot, others, np.abs(x))


def _is_in_library() -> bool:
    """Whether a library, such as hesse itself, has called the function that asks this."""
    return is_library(sys._getframe(2).f_code.co_filename)


def _is_traced(value: Any) -> bool:
    """Whether there is a traced value in a value."""
    if isinstance(value, list | tuple):
        return any(map(_is_traced, value))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(_is_traced, value.flat))
    return isinstance(value, Expression)


def _joined(value: Any) -> Expression:
    """One expression of nested sequences of expressions and known values."""
    if isinstance(value, list | tuple):
        stacked: Expression = FUNCTIONS[np.stack]([_joined(part) for part in value])
        return stacked
    return Expression(as_node(value)) if isinstance(value, np.ndarray) else as_expression(value)


def _converted(value: Expression, dtype: Any) -> Any:
    """The value in another type; itself where that changes nothing, so that writing changes it."""
    is_real = not value.boolean and value.index is None
    return value if dtype is None or (is_real and is_float_type(dtype)) else value.astype(dtype)


SAME = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees exp exp2 expm1 fabs fmod "
    "isfinite isinf isnan log10 log1p log2 pow radians sin sinh sqrt tan tanh"
)
"""Functions of `math` that mean what NumPy's functions of these names mean."""
OF_NUMBERS = {
    **{name: getattr(np, name) for name in SAME.split()},
    **{name: _whole(getattr(np, name)) for name in ("ceil", "floor", "trunc")},
    "erf": erf,
    "erfc": erfc,
    "gamma": NAMED["gamma"],
    "hypot": _hypot,
    "lgamma": lgamma,
    "log": _log,
}
"""By name: what a function of `math` is for traced numbers."""
STAND_INS = {
    (np, "array"): _maker("array", copies=True),
    (np, "fromiter"): _from_iterable(),
    **{(np, name): _maker(name) for name in ("asarray", "asanyarray", "asarray_chkfinite")},
    **{(np, name): _maker(name, least_axes=1) for name in ("ascontiguousarray", "asfortranarray")},
    **{(math, name): _of_numbers(name, function) for name, function in OF_NUMBERS.items()},
}
"""By module and name: a function of a library, and what stands in its place."""
