"""Expressions stand in for arrays: NumPy functions called on one are looked up in a table.

`Expression` wraps a node. The same class serves tracing (`f` is called with expressions instead of
arrays) and symbolic work (`hesse.variable`). Handlers register themselves with `implements`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hesse.errors import TracingError
from hesse.frontends.handlers import Handlers
from hesse.frontends.orders import note_order
from hesse.frontends.tracing import ComplexError, NumbersNeeded, note_need, untraceable
from hesse.frontends.truths import note_truths

FUNCTIONS = Handlers()
"""NumPy function or ufunc -> handler with the same signature, taking and returning expressions."""
implements = FUNCTIONS.register

NAMED: dict[str, Callable[..., Any]] = {}
"""Name of a ufunc of another library (`scipy.special.expit`) -> handler; that library is never imported."""

LOOKUPS: list[Callable[[str], Callable[..., Any] | None]] = []
"""Functions that find the handler of a ufunc by its name, for operations entered later than these tables."""

COMPLEX = Handlers()
"""NumPy function or ufunc -> handler of complex values, see `complexes`."""
complexes = COMPLEX.register

METHODS: dict[Any, Callable[..., Any]] = {}
"""Method of a ufunc (`np.add.at`) -> handler."""

WAYS_OUT: dict[str, str] = {
    "eig": "For symmetric matrices use np.linalg.eigh; other spectra may be complex.",
    "eigvals": "For symmetric matrices use np.linalg.eigvalsh; other spectra may be complex.",
    "roots": "Find the root that you need with hesse.root.",
    "nanmedian": "The number of entries depends on the data; use np.nanmean, or take out what is missing.",
    "nanquantile": "The number of entries depends on the data; take out what is missing.",
    "nanpercentile": "The number of entries depends on the data; take out what is missing.",
    "trim_zeros": "The number of results depends on the data; instead of np.poly1d use np.polyval.",
    "histogram": "Counts have no derivatives; count with the values outside of the function.",
    "lexsort": "Use np.argsort of one key.",
    "unique": "The number of results depends on the data; np.sort keeps equal entries.",
    "frexp": "Write x / 2.0 ** np.floor(np.log2(np.abs(x)) + 1).",
    "isin": "Compare with each value: (x[..., None] == values).any(-1).",
}

_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ACCUMULATIONS: dict[Any, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}
SPECIAL = "scipy.special"
OWN: dict[Any, Any] = {}
"""Functions that stand in the places of NumPy's while a function is traced, and NumPy's own."""
_NEUTRAL_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "out": lambda value: value is None or (isinstance(value, tuple) and all(part is None for part in value)),
    "dtype": lambda value: value is None or is_float_type(value),
    "where": lambda value: value is True,
    "order": lambda value: value in ("C", "K", "A"),
    "casting": lambda value: value == "same_kind",
    "subok": lambda _: True,
    "like": lambda value: value is None,
    "optimize": lambda _: True,
    "copy": lambda value: value in (None, True),
}


def is_float_type(dtype: Any) -> bool:
    """Whether a dtype is a real floating one, so that converting to it changes no value."""
    return np.issubdtype(np.dtype(dtype), np.floating)


def function_name(function: Any) -> str:
    """The name by which a user knows a NumPy function: `np.linalg.inv`."""
    name = getattr(function, "__name__", str(function))
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        return f"{function_name(function.__self__)}.{name}"
    module = getattr(function, "__module__", None) or ("numpy" if getattr(np, name, None) is function else "")
    if _is_special(function):
        module = SPECIAL
    if module.split(".")[0] != "numpy":
        return f"{module}.{name}" if module else str(name)
    return f"np{module.removeprefix('numpy')}.{name}"


def _is_special(function: Any) -> bool:
    """Whether a function is a ufunc of `scipy.special`, which does not say where it is from."""
    name = getattr(function, "__name__", "")
    return isinstance(function, np.ufunc) and getattr(sys.modules.get(SPECIAL), name, None) is function


def call(function: Any, arguments: tuple[Any, ...], options: Mapping[str, Any] | None = None) -> Any:
    """The handler of a NumPy function on these arguments, or an error that says what to do."""
    try:
        found = _handled(function, arguments, options or {})
    except ComplexError:
        return call_complex(function, arguments, options)
    except TracingError:
        note_need(arguments)
        raise
    if not options or options.keys().isdisjoint(("out", "order")):
        note_order(function, arguments, found)
    note_truths(function, arguments, found)
    return found


def call_complex(function: Any, arguments: tuple[Any, ...], options: Mapping[str, Any] | None = None) -> Any:
    """The handler of a NumPy function of complex values on these arguments."""
    handler = COMPLEX.get(OWN.get(function, function))
    given = {name: value for name, value in (options or {}).items() if value is not np._NoValue}
    out = _single(given.pop("out", None))
    if out is not None:
        return _written(function, call_complex(function, arguments, given), out)
    problem = None if handler is None else _mismatch(handler, len(arguments), tuple(given))
    if handler is None or problem is not None:
        raise untraceable(
            f"{function_name(function)} of complex values{f' ({problem})' if problem else ''}",
            "Write it with real numbers: z.real, z.imag, np.abs(z), np.angle(z).",
        )
    return handler(*arguments, **given)


def _handled(function: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    handler = FUNCTIONS.get(function) or METHODS.get(function) or FUNCTIONS.get(OWN.get(function))
    if handler is None and isinstance(function, np.ufunc):
        name = function.__name__
        handler = NAMED.get(name) or next(filter(None, (find(name) for find in LOOKUPS)), None)
    if handler is None:
        raise unknown(function)
    given = {
        name: value
        for name, value in options.items()
        if value is not np._NoValue and not _is_neutral(handler, name, value)
    }
    if "where" in given and isinstance(function, np.ufunc):
        return _where_it_holds(function, arguments, given)
    if "out" in given:
        return _written(function, _handled(function, arguments, _without_out(given)), given["out"])
    problem = _mismatch(handler, len(arguments), tuple(given))
    if problem is not None:
        way_out = "Leave the argument out and assign the result: y = f(x), a = a + x."
        raise untraceable(f"{function_name(function)} with these arguments ({problem})", way_out)
    return handler(*arguments, **given)


def _where_it_holds(function: np.ufunc, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """A ufunc where a mask holds; all other entries stay what `out` has there.

    The function is computed everywhere, at 1 in place of the arguments that are not asked for: of what it has
    no value for, such as a quotient by 0, the derivative would not be 0.
    """
    mask = options["where"]
    if "out" not in options:
        name = function_name(function)
        way_out = f"Give an array to write to: {name}(x, out=np.zeros_like(x), where=mask)."
        raise untraceable(f"{name} with where= and without out= (other entries are not defined)", way_out)
    inside = tuple(call(np.where, (mask, value, 1.0)) for value in arguments)
    target = _single(options["out"])
    before = target if hasattr(target, "node") else 0.0
    return _written(function, call(np.where, (mask, call(function, inside), before)), target)


def _without_out(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "out"}


def _single(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


def _written(function: Any, result: Any, out: Any) -> Any:
    """The argument `out` after the result was written to it, which must be a traced array."""
    target = _single(out)
    if isinstance(target, np.ndarray) and target.dtype == object and hasattr(result, "node"):
        target[...] = np.asarray(result)  # an array of traced entries, as NumPy made it
        return target
    if _is_complex(target) or _is_complex(result):
        call_complex(np.copyto, (target, result))
        return target
    if not hasattr(target, "node") or not hasattr(result, "node"):
        raise untraceable(
            f"the argument out= of {function_name(function)} (or an in-place update of an array like a += x)",
            "Assign the result: y = f(x), a = a + x; "
            "or write to np.zeros_like(x) or hesse.zeros(3) instead of np.zeros(3).",
            kind=NumbersNeeded,
        )
    FUNCTIONS[np.copyto](target, result)
    return target


def _is_complex(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", None) == "c"


@functools.lru_cache(maxsize=1024)
def _mismatch(handler: Callable[..., Any], count: int, names: tuple[str, ...]) -> str | None:
    """Why a handler does not take so many arguments and options of these names; None if it does."""
    try:
        _signature(handler).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError as problem:
        return str(problem)
    return None


def _is_neutral(handler: Callable[..., Any], name: str, value: Any) -> bool:
    """Whether an option can be dropped because it changes nothing."""
    if name in _signature(handler).parameters or name not in _NEUTRAL_OPTIONS:
        return False
    return _NEUTRAL_OPTIONS[name](value)


_signature = functools.lru_cache(maxsize=None)(inspect.signature)


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """A ufunc or one of its methods on these inputs."""
    if method == "__call__":
        return call(ufunc, inputs, options)
    if method == "reduce" and ufunc in _REDUCTIONS:
        return call(_REDUCTIONS[ufunc], inputs[:1], _with_axis(inputs, options))
    if method == "accumulate" and ufunc in _ACCUMULATIONS:
        return call(_ACCUMULATIONS[ufunc], inputs[:1], _with_axis(inputs, options))
    if getattr(ufunc, method) in METHODS:
        return call(getattr(ufunc, method), inputs, options)
    if method == "outer":
        first, second = inputs
        return call(ufunc, (_with_new_axes(first, np.ndim(second)), second), options)
    name = function_name(ufunc)
    if method == "at":
        raise untraceable(f"{name}.at", "np.add.at and np.subtract.at are known.")
    raise untraceable(f"{name}.{method}", f"Write it with {name}, np.sum, np.prod or np.cumsum.")


def _with_axis(inputs: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a ufunc method, whose axis is 0 unless given (NumPy functions mean all axes)."""
    return {"axis": inputs[1] if len(inputs) > 1 else 0, **options}


def _with_new_axes(value: Any, count: int) -> Any:
    array = value if hasattr(value, "node") else np.asarray(value)
    return array[(..., *[None] * count)]


def unknown(function: Any) -> Exception:
    """The error for a function without a handler."""
    name = getattr(function, "__name__", str(function))
    known = {other.__name__: function_name(other) for other in FUNCTIONS}
    near = [
        known[match] for match in difflib.get_close_matches(name, known) if known[match].startswith("np.")
    ]
    if _is_special(function):
        raise untraceable(
            f"{function_name(function)}, for which hesse has no rule,",
            "Wrap it with hesse.custom_derivative and say what its derivative is.",
        )
    way_out = WAYS_OUT.get(name) or (
        (f"Near names that hesse knows: {', '.join(near)}. " if near else "")
        + "Rewrite the line with functions of the operation table, or add a handler with "
        "hesse.frontends.dispatch.implements."
    )
    return untraceable(f"{function_name(function)}, for which hesse has no rule,", way_out)
