"""Functions that ask nothing of traced values: what stands in their places while a function is traced.

`np.array([x[0], 1.0])` and `np.asarray(x)` would make arrays of objects (see `objects`), of which NumPy
computes few functions, and `math.sin(x)` would ask for a number. What stands in their places (see
`standing_in`) makes one traced value of what has one in it, `math.sin` is `np.sin` for it, and the library's
own function does all the rest, for other threads and for libraries, too.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from types import ModuleType
from typing import Any

import numpy as np
from numpy.polynomial import polyutils

from hesse.errors import ArgumentError
from hesse.frontends.complexes import Complex, complex_met
from hesse.frontends.dispatch import NAMED, OWN, call, is_float_type
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, as_node, constant
from hesse.frontends.polynomials import fit, from_roots
from hesse.frontends.special import erf, erfc, lgamma
from hesse.frontends.standing_in import LATER, STAND_INS, Pair, is_traced, traced_instead
from hesse.frontends.tracing import arrays_traced, is_library
from hesse.frontends.writing import written_to


def _maker(name: str, copies: bool = False, least_axes: int = 0) -> Pair:
    """NumPy's function of this name, and what stands in its place; and what it does if nothing is said."""
    own = getattr(np, name)

    @functools.wraps(own)
    def make(*arguments: Any, **options: Any) -> Any:
        value, dtype = (*arguments, None, None)[:2]
        dtype = options.get("dtype", dtype)
        if not is_traced(value) or _is_in_library() or (dtype is not None and np.dtype(dtype) == object):
            made = own(*arguments, **options)
            return made if _is_in_library() else _to_write(made)
        made = _no_number(_converted(joined(value), dtype))
        missing = options.get("ndmin", least_axes) - made.ndim
        made = made[(None,) * missing] if missing > 0 else made
        return made.copy() if options.get("copy", copies) else made

    return own, make


def _new(name: str) -> Pair:
    """NumPy's function of this name, which makes an array, and what stands in its place."""
    own = getattr(np, name)

    @functools.wraps(own)
    def make(*arguments: Any, **options: Any) -> Any:
        made = own(*arguments, **options)
        return made if _is_in_library() else _to_write(made)

    return own, make


def _of_lists(module: Any, name: str) -> Pair:
    """A function of arrays, which asks nothing of the entries of lists, and what stands in its place."""
    own = getattr(module, name)

    @functools.wraps(own)
    def compute(*arguments: Any, **options: Any) -> Any:
        if _is_in_library():
            return own(*arguments, **options)
        return own(*map(_one_array, arguments), **options)

    return own, compute


def _one_array(value: Any) -> Any:
    is_many = isinstance(value, list | tuple | np.ndarray) and is_traced(value)
    return joined(value) if is_many else value


def _to_write(made: Any) -> Any:
    """A new array of numbers as a traced value, to which others can be written, if that is wanted."""
    known = arrays_traced.get()
    if known is None or not isinstance(made, np.ndarray) or made.dtype.kind not in "fc":
        return made
    if made.dtype.kind == "c":
        return Complex.view(_to_write(made.real.copy("K")), _to_write(made.imag.copy("K")))
    array = written_to(constant(np.array(made)), made.flags.c_contiguous)
    known.append(weakref.ref(array))
    return array


def forget(made: Iterable[weakref.ref[Any]]) -> bool:
    """Make arrays useless that somebody keeps after the trace in which they were made; whether there are any.

    In another trace they would be taken for values of that one.
    """
    if any(reference() is not None for reference in made):
        gc.collect()
    kept = [array for reference in made if (array := reference()) is not None]
    for array in kept:
        array.part = None
        with suppress(AttributeError):  # a write has taken it away already
            del array.node
    return bool(kept)


def _is_scalar() -> Pair:
    own = np.isscalar

    @functools.wraps(own)
    def isscalar(element: Any) -> bool:
        return element.is_number if isinstance(element, Expression | Complex) else own(element)

    return own, isscalar


def _from_iterable() -> Pair:
    own = np.fromiter

    @functools.wraps(own)
    def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1, **options: Any) -> Any:
        entries = list(iter if count < 0 else itertools.islice(iter, count))
        if not is_traced(entries) or _is_in_library():
            return own(entries, dtype, count, **options)
        if len(entries) < count:
            raise ArgumentError(f"np.fromiter: there are {len(entries)} entries, fewer than {count}")
        return _converted(joined(entries), dtype)

    return own, fromiter


def _exact_sum() -> Pair:
    own = math.fsum

    @functools.wraps(own)
    def fsum(seq: Iterable[Any], /) -> Any:
        entries = list(seq)
        return np.sum(joined(entries)) if is_traced(entries) else own(entries)

    return own, fsum


def _of_numbers(name: str, function: Any) -> Pair:
    """The function `math.name`, and what stands in its place."""
    own = getattr(math, name)

    @functools.wraps(own)
    def compute(*values: Any) -> Any:
        return function(*values) if any(map(is_traced, values)) else own(*values)

    return own, compute


def _whole(rounded: np.ufunc) -> Callable[[Any], Any]:
    """A function that rounds to whole numbers, which are integers in `math`."""
    return lambda x: rounded(x).astype(int)


def _log(x: Any, *base: Any) -> Any:
    return np.divide(np.log(x), np.log(*base)) if base else np.log(x)


def _hypot(x: Any, *others: Any) -> Any:
    return functools.reduce(np.hypot, others, np.abs(x))


def _distance(p: Any, q: Any) -> Any:
    return np.linalg.norm(np.subtract(joined(p), joined(q)))


def _is_in_library() -> bool:
    """Whether a library, such as hesse itself, has called the function that asks this."""
    return is_library(sys._getframe(2).f_code.co_filename)


def joined(value: Any) -> Any:
    """One traced value of nested sequences of traced and known values."""
    if isinstance(value, list | tuple):
        return call(np.stack, ([joined(part) for part in value],))
    if isinstance(value, Complex) or np.iscomplexobj(value):
        return value
    return Expression(as_node(value)) if isinstance(value, np.ndarray) else as_expression(value)


def _no_number(value: Any) -> Any:
    """An array, also where NumPy made a number: to arrays without axes others can be written."""
    if not value.is_number:
        return value
    if isinstance(value, Complex):
        return Complex.view(*(written_to(copy(part), False) for part in (value.real, value.imag)))
    return written_to(copy(value), False)


def _converted(value: Any, dtype: Any) -> Any:
    """The value in another type; itself where that changes nothing, so that writing changes it."""
    if isinstance(value, Complex):
        if dtype is not None and np.dtype(dtype).kind != "c":
            raise complex_met()
        return value
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
    "dist": _distance,
    "erf": erf,
    "erfc": erfc,
    "gamma": NAMED["gamma"],
    "hypot": _hypot,
    "lgamma": lgamma,
    "log": _log,
}
"""By name: what a function of `math` is for traced numbers."""
OF_LISTS = {
    np: (
        "argmax argmin argsort average clip cross cumprod cumsum diag diff dot inner kron max mean median "
        "min outer ptp quantile sort std trace var"
    ),
    np.linalg: "cholesky det eig eigh eigvals eigvalsh inv norm pinv slogdet solve svd",
}
"""Functions of arrays that are called with lists of numbers, too."""
NEW = "arange copy empty empty_like eye full full_like identity linspace ones ones_like zeros zeros_like"
"""Functions that make arrays."""
STAND_INS |= {
    **{(np, name): _new(name) for name in NEW.split()},
    **{(of, name): _of_lists(of, name) for of, names in OF_LISTS.items() for name in names.split()},
    (np, "array"): _maker("array", copies=True),
    (np, "fromiter"): _from_iterable(),
    (np, "isscalar"): _is_scalar(),
    (math, "fsum"): _exact_sum(),
    **{(np, name): _maker(name) for name in ("asarray", "asanyarray", "asarray_chkfinite")},
    **{(np, name): _maker(name, least_axes=1) for name in ("ascontiguousarray", "asfortranarray")},
    **{(math, name): _of_numbers(name, function) for name, function in OF_NUMBERS.items()},
    (polyutils, "trimseq"): traced_instead(polyutils.trimseq, lambda seq: seq),
    (polyutils, "_fromroots"): traced_instead(polyutils._fromroots, from_roots),
    (polyutils, "_fit"): traced_instead(polyutils._fit, fit),
}
OWN.update({traced: own for own, traced in STAND_INS.values()})


def _of_compiled_callers() -> dict[tuple[Any, str], Any]:
    """NumPy as it is, for its own compiled generators of random numbers.

    They take what `np.empty` makes for an array without a look, and have no frame by which they are known.
    """
    kept = ModuleType(np.__name__)
    vars(kept).update(vars(np))
    names = ("_bounded_integers", "_common", "_generator", "bit_generator", "mtrand")
    modules = [sys.modules.get(f"numpy.random.{name}") for name in names]
    return {(module, "np"): (np, kept) for module in modules if getattr(module, "np", None) is np}


LATER["numpy.random"] = _of_compiled_callers
