"""The element-wise table: exponentials, logarithms, roots and powers here, the other rows in their files.

Importing this module fills the table. A name made by `define` is the function on nodes that applies its
row; the others (`power`, `gelu`, …) are *builders*, formulas of rows; `function(name)` finds either.
Products, squares and negation are einsums and no rows.

Every rule is written in rows again, so that derivatives of all orders follow, and in a form that neither
overflows nor cancels where the derivative itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from hesse.ir import Constant, Node, is_zero, multiply, reciprocal, uniform, uniform_value
from hesse.ops.activations import (
    celu,
    elu,
    gelu,
    gelu_tanh,
    hard_tanh,
    leaky_relu,
    relu,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from hesse.ops.behaviour import Behaviour, halves, power_behaviour, whole
from hesse.ops.choices import (
    INDICATORS,
    abs,
    ceil,
    clip,
    equal,
    floor,
    floor_divide,
    fmod,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    ratio,
    remainder,
    round,
    sign,
    stop_gradient,
    trunc,
    where,
)
from hesse.ops.kinks import clamp, safe_reciprocal, safe_sqrt
from hesse.ops.ranges import NONNEGATIVE, POSITIVE, UNKNOWN, at_least
from hesse.ops.registry import ELEMENTWISE, Equation, define, elementwise
from hesse.ops.special import (
    digamma,
    erf,
    erfc,
    erfcinv,
    erfinv,
    lgamma,
    log_ndtr,
    logaddexp,
    ndtr,
    ndtri,
    polygamma,
    xlogy,
)
from hesse.ops.trigonometric import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    hypot,
    sin,
    sinh,
    tan,
    tanh,
)

__all__ = [
    "BUILDERS",
    "INDICATORS",
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "ceil",
    "celu",
    "clamp",
    "clip",
    "cos",
    "cosh",
    "digamma",
    "elu",
    "equal",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "function",
    "gelu",
    "gelu_tanh",
    "greater",
    "greater_equal",
    "hard_tanh",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "leaky_relu",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_ndtr",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "ndtr",
    "ndtri",
    "negative",
    "not_equal",
    "polygamma",
    "power",
    "ratio",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "safe_reciprocal",
    "safe_sqrt",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "stop_gradient",
    "tan",
    "tanh",
    "trunc",
    "where",
    "xlogy",
]

INSIDE = (0.3, 2.5)
"""An interval of positive numbers."""
LARGEST_PRODUCT = 4
"""Integer powers up to this one are products."""


def square(x: Node) -> Node:
    """x·x."""
    return multiply(x, x)


def negative(x: Node) -> Node:
    """-x."""
    return -x


EXPONENTIAL = Behaviour(POSITIVE, whole("convex", 1))
LOGARITHM = Behaviour(UNKNOWN, whole("concave", 1), "upper")

exp = define(
    "exp", lambda y, x: y, latex=r"\exp\left({}\right)", value=math.exp, flops=10, behaviour=EXPONENTIAL
)

exp2 = define(
    "exp2",
    lambda y, x: y * math.log(2.0),
    latex=r"2^{{{}}}",
    value=math.exp2,
    flops=10,
    behaviour=EXPONENTIAL,
)

expm1 = define(
    "expm1",
    lambda y, x: exp(x),
    value=math.expm1,
    flops=10,
    behaviour=Behaviour(at_least(-1.0), whole("convex", 1)),
)

log = define(
    "log",
    lambda y, x: reciprocal(x),
    latex=r"\log\left({}\right)",
    sample=(INSIDE,),
    value=math.log,
    flops=10,
    behaviour=LOGARITHM,
)

log1p = define(
    "log1p",
    lambda y, x: reciprocal(1.0 + x),
    latex=r"\log\left(1 + {}\right)",
    sample=((-0.6, 2.0),),
    value=math.log1p,
    flops=10,
    behaviour=Behaviour(UNKNOWN, whole("concave", 1), "upper", lower=-1.0),
)


def log2(x: Node) -> Node:
    """The logarithm to base 2."""
    return log(x) / math.log(2.0)


def log10(x: Node) -> Node:
    """The logarithm to base 10."""
    return log(x) / math.log(10.0)


sqrt = define(
    "sqrt",
    lambda y, x: reciprocal(y) * 0.5,
    latex=r"\sqrt{{{}}}",
    sample=(INSIDE,),
    value=math.sqrt,
    flops=2,
    behaviour=Behaviour(NONNEGATIVE, whole("concave", 1), "upper", closed=True),
    equation=Equation(lambda y, x: square(y), lambda y, r: multiply(reciprocal(y), r) * 0.5, 0),
)

cbrt = define(
    "cbrt",
    lambda y, x: square(reciprocal(y)) / 3.0,
    latex=r"\sqrt[3]{{{}}}",
    sample=(INSIDE,),
    value=math.cbrt,
    flops=20,
    behaviour=Behaviour(UNKNOWN, halves("convex", "concave", 1), smooth=False),
)

# Applied by the function `reciprocal` of `ir`, which divisions use.
define(
    "reciprocal",
    lambda y, x: -square(y),
    latex=r"\frac{{1}}{{{}}}",
    sample=(INSIDE,),
    value=lambda x: 1.0 / x,
    behaviour=power_behaviour(-1.0),
    equation=Equation(lambda y, x: multiply(x, y), multiply),
)


def power(x: Node, exponent: Node | float) -> Node:
    """x to a constant, or to an array of exponents.

    Small integer powers are products, so that derivatives of every order are exact and finite at 0.
    """
    constant = _constant_value(exponent) if isinstance(exponent, Node) else exponent
    if constant is None:
        return elementwise("power", x, exponent)
    if constant == 0:
        return uniform(1.0, x.shape)
    if constant in range(1, LARGEST_PRODUCT + 1):
        return multiply(*[x] * int(constant))
    if constant == -1:
        return reciprocal(x)
    if constant == 0.5:
        return sqrt(x)
    if constant == -0.5:
        return reciprocal(sqrt(x))
    return elementwise("power", x, constant)


def _constant_value(node: Node) -> float | None:
    return 0.0 if is_zero(node) else uniform_value(node)


def _power_by_base(y: Node, x: Node, exponent: Node) -> Node:
    """e·x^(e-1), and 0 at x = e = 0, where the second factor alone would be infinite."""
    constant = _constant_value(exponent)
    if constant is not None:
        return power(x, constant - 1.0) * constant
    if isinstance(exponent, Constant) and np.all(exponent.value != 0):
        return multiply(exponent, power(x, exponent - 1.0))
    singular = logical_and(equal(x, 0.0), equal(exponent, 0.0))
    return multiply(exponent, power(x, where(singular, 1.0, exponent - 1.0)))


def _power_by_exponent(y: Node, x: Node, exponent: Node) -> Node:
    """x^e·log(x), and 0 at x = 0: the limit for e > 0, and what JAX returns."""
    return multiply(y, log(where(equal(x, 0.0), 1.0, x)))


define(
    "power",
    _power_by_base,
    _power_by_exponent,
    latex=r"\left({}\right)^{{{}}}",
    sample=(INSIDE, (-2.0, 3.0)),
    value=math.pow,
    flops=20,
)

BUILDERS: dict[str, Callable[..., Node]] = {
    "celu": celu,
    "elu": elu,
    "erfcinv": erfcinv,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hard_tanh": hard_tanh,
    "leaky_relu": leaky_relu,
    "log10": log10,
    "log2": log2,
    "ndtr": ndtr,
    "negative": negative,
    "power": power,
    "reciprocal": reciprocal,
    "selu": selu,
    "silu": silu,
    "square": square,
    "where": where,
}
"""Functions on nodes that are more than the row of their name, or have no row."""


def function(name: str) -> Callable[..., Node]:
    """The element-wise function of this name on nodes: a builder, else a row of the table."""
    if name in BUILDERS:
        return BUILDERS[name]
    return partial(elementwise, ELEMENTWISE[name].name)
