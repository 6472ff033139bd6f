"""Element-wise primitives, with the derivatives at kinks that JAX gives them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.places import bounds
from hesse.frontends.jaxpr.structure import along_a_line
from hesse.frontends.jaxpr.table import enter, is_truth, is_whole, kind_of, known, primitive
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import elementwise

NUMPY: dict[str, Any] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Primitives that are functions of NumPy."""
EXACT: dict[str, Any] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "sign": np.sign,
    "square": np.square,
}
"""The same; of known arrays NumPy computes the same digits."""
LOGICAL: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
ROWS: dict[str, str] = {
    "digamma": "digamma",
    "erf": "erf",
    "erf_inv": "erfinv",
    "erfc": "erfc",
    "lgamma": "lgamma",
    "logistic": "sigmoid",
}
"""Primitives that are rows of the operation table."""

for _name, _function in {**NUMPY, **EXACT}.items():
    enter([_name], lambda *values, _function=_function, **_: _function(*values))
for _name, _function in EXACT.items():
    known(_name)(lambda *values, _function=_function, **_: _function(*values))
for _name, _row in ROWS.items():
    enter([_name], lambda *values, _row=_row, **_: elementwise(_row, *values))


@known("lt")
@primitive("lt")
def less(x: Any, y: Any) -> Any:
    """`x < y`, known at once for integers that cannot be negative: a place is not counted from the end."""
    if isinstance(x, Expression) and is_whole(x) and not isinstance(y, Expression):
        low, _ = bounds(x)
        if np.all(low >= np.asarray(y)):
            return np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)), bool)
    return np.less(x, y)


def _register_logical(name: str, function: Any) -> None:
    @primitive(name)
    def logical(x: Any, y: Any) -> Any:
        return function(x, y) if is_truth(x) and is_truth(y) else NotImplemented

    known(name)({"and": operator.and_, "or": operator.or_, "xor": operator.xor}[name])


for _name, _function in LOGICAL.items():
    _register_logical(_name, _function)


@known("not")
@primitive("not")
def invert(x: Any) -> Any:
    """`~x`."""
    if isinstance(x, Expression):
        return np.logical_not(x) if x.boolean else NotImplemented
    return np.invert(x)


@primitive("abs")
def absolute(x: Any) -> Any:
    """Without the sign; integers stay integers."""
    is_integer = isinstance(x, Expression) and is_whole(x)
    return np.where(np.less(x, 0), np.negative(x), x) if is_integer else np.abs(x)


@primitive("div")
def div(x: Any, y: Any) -> Any:
    """`x / y`; of whole numbers without the fraction."""
    if not (is_whole(x) and is_whole(y)):
        return np.divide(x, y)
    size = np.floor_divide(absolute(x), absolute(y))
    return np.where(np.equal(np.less(x, 0), np.less(y, 0)), size, np.negative(size))


@primitive("rem")
def rem(x: Any, y: Any) -> Any:
    """What is left of `x`, with its sign."""
    if is_whole(x) and is_whole(y):
        size = np.remainder(absolute(x), absolute(y))
        return np.where(np.less(x, 0), np.negative(size), size)
    return np.fmod(x, y)


@primitive("integer_pow")
def integer_pow(x: Any, y: int) -> Any:
    """`x ** y` for a known whole number."""
    return np.power(x, y)


@primitive("pow")
def power(x: Any, y: Any) -> Any:
    """`x ** y`."""
    return np.power(x, y)


@primitive("rsqrt")
def rsqrt(x: Any, **_: Any) -> Any:
    """`1 / sqrt(x)`."""
    return np.power(x, -0.5)


@primitive("round")
def round_(x: Any, rounding_method: Any) -> Any:
    """The nearest whole number; halves to even, or away from zero."""
    if int(rounding_method) == 1:
        return np.round(x)
    return np.multiply(np.sign(x), np.floor(np.add(np.abs(x), 0.5)))


@primitive("polygamma")
def polygamma(n: Any, x: Any) -> Any:
    """The derivative of `digamma` of an order."""
    return NotImplemented if isinstance(n, Expression) else elementwise("polygamma", n, x)


@primitive("clamp")
def clamp(low: Any, x: Any, high: Any) -> Any:
    """`x` between bounds, which get the derivative where they are reached; nan is between them."""
    inside = np.where(np.less_equal(x, low), low, x)
    return np.where(np.greater_equal(inside, high), high, inside)


@known("select_n")
@primitive("select_n")
def select_n(which: Any, *cases: Any) -> Any:
    """The case with this number."""
    if not isinstance(which, Expression) and np.size(which) and np.all(which == np.ravel(which)[0]):
        return cases[int(np.ravel(which)[0])]
    if not isinstance(which, Expression) and isinstance(cases[-1], Expression) and is_truth(which):
        is_alone = not isinstance(cases[0], Expression) and not np.any(cases[0]) and not is_whole(cases[-1])
        line = along_a_line(np.asarray(which), cases[-1]) if is_alone else None
        if line is not None:
            return line
    if is_truth(which):
        return np.where(which, cases[1], cases[0]) if len(cases) == 2 else cases[0]
    result = cases[0]
    for number, case in enumerate(cases[1:], 1):
        result = np.where(np.equal(which, number), case, result)
    return result


@primitive("one_minus_square")
def one_minus_square(x: Any) -> Any:
    """What later versions of JAX have for the slope of tanh."""
    return np.subtract(1.0, np.square(x))


@primitive("stop_gradient")
def stop_gradient(x: Expression) -> Any:
    """A constant."""
    return elementwise("stop_gradient", x) if not x.boolean and not is_whole(x) else x


@primitive("copy", "layout_constraint", "name", "real", "sharding_constraint")
def same(x: Any, **_: Any) -> Any:
    """The array itself."""
    return x


@primitive("device_put", "optimization_barrier")
def all_the_same(*values: Any, **_: Any) -> Any:
    """The arrays themselves."""
    return values


@known("convert_element_type")
@primitive("convert_element_type")
def convert_element_type(x: Any, new_dtype: Any, **_: Any) -> Any:
    """The array in another dtype; real numbers stay as exact as they are."""
    if not isinstance(x, Expression):
        return np.asarray(x).astype(new_dtype)
    kind = kind_of(new_dtype)
    if kind == "boolean":
        return x if x.boolean else np.not_equal(x, 0.0)
    if kind == "integer":
        return x.astype(int) if x.boolean or is_whole(x) else _in_range(x, new_dtype).astype(int)
    if kind != "real":
        raise untraceable(f"a conversion to {new_dtype}", "Only real arrays are differentiated.")
    return np.multiply(x, 1.0) if x.boolean or is_whole(x) else Expression(x.node)


def _in_range(x: Any, dtype: Any) -> Any:
    """Real numbers that a type of integers may not hold: JAX takes its nearest number instead."""
    limits = np.iinfo(dtype)
    return np.clip(x, int(limits.min), int(limits.max)) if limits.bits < 32 or not limits.min else x
