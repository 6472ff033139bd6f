"""Element-wise rows: trigonometric and hyperbolic functions, and their inverses.

Rules apply rows by name, so the order of the rows does not matter.
"""

from __future__ import annotations

import math

from hesse.ir import Node, multiply, reciprocal
from hesse.ops.behaviour import Behaviour, halves, valley, whole
from hesse.ops.ranges import NONNEGATIVE, UNKNOWN, Range, at_least
from hesse.ops.registry import define, elementwise

INSIDE_UNIT = (-0.9, 0.9)


def _square(x: Node) -> Node:
    return multiply(x, x)


def _inverse_root(x: Node) -> Node:
    return reciprocal(elementwise("sqrt", x))


def _one_minus_square(x: Node) -> Node:
    """(1 - x)(1 + x): the difference 1 - x² would cancel near the ends of the domain."""
    return multiply(1.0 - x, 1.0 + x)


sin = define(
    "sin",
    lambda y, x: elementwise("cos", x),
    latex=r"\sin\left({}\right)",
    value=math.sin,
    flops=10,
    behaviour=Behaviour(Range(-1.0, 1.0)),
)

cos = define(
    "cos",
    lambda y, x: -elementwise("sin", x),
    latex=r"\cos\left({}\right)",
    value=math.cos,
    flops=10,
    behaviour=Behaviour(Range(-1.0, 1.0)),
)

tan = define(
    "tan",
    lambda y, x: 1.0 + _square(y),
    latex=r"\tan\left({}\right)",
    sample=((-1.2, 1.2),),
    value=math.tan,
    flops=10,
)

arcsin = define(
    "arcsin",
    lambda y, x: _inverse_root(_one_minus_square(x)),
    latex=r"\arcsin\left({}\right)",
    sample=(INSIDE_UNIT,),
    value=math.asin,
    flops=10,
)

arccos = define(
    "arccos",
    lambda y, x: -_inverse_root(_one_minus_square(x)),
    latex=r"\arccos\left({}\right)",
    sample=(INSIDE_UNIT,),
    value=math.acos,
    flops=10,
)

arctan = define(
    "arctan",
    lambda y, x: reciprocal(1.0 + _square(x)),
    latex=r"\arctan\left({}\right)",
    value=math.atan,
    flops=10,
    behaviour=Behaviour(Range(-2.0, 2.0), halves("convex", "concave", 1)),
)

arctan2 = define(
    "arctan2",
    lambda y, a, b: multiply(b, reciprocal(_square(a) + _square(b))),
    lambda y, a, b: -multiply(a, reciprocal(_square(a) + _square(b))),
    sample=((0.3, 2.0), (-2.0, 2.0)),
    value=math.atan2,
    flops=10,
)

sinh = define(
    "sinh",
    lambda y, x: elementwise("cosh", x),
    latex=r"\sinh\left({}\right)",
    value=math.sinh,
    flops=10,
    behaviour=Behaviour(UNKNOWN, halves("concave", "convex", 1)),
)

cosh = define(
    "cosh",
    lambda y, x: elementwise("sinh", x),
    latex=r"\cosh\left({}\right)",
    value=math.cosh,
    flops=10,
    behaviour=Behaviour(at_least(1.0), valley()),
)

tanh = define(
    "tanh",
    # Right to the rounding of 1, and the value is there already: no second function to evaluate.
    lambda y, x: 1.0 - _square(y),
    latex=r"\tanh\left({}\right)",
    value=math.tanh,
    flops=10,
    behaviour=Behaviour(Range(-1.0, 1.0), halves("convex", "concave", 1)),
)

arcsinh = define(
    "arcsinh",
    lambda y, x: _inverse_root(1.0 + _square(x)),
    value=math.asinh,
    flops=10,
    behaviour=Behaviour(UNKNOWN, halves("convex", "concave", 1)),
)

arccosh = define(
    "arccosh",
    lambda y, x: _inverse_root(multiply(x - 1.0, x + 1.0)),
    sample=((1.3, 3.0),),
    value=math.acosh,
    flops=10,
    behaviour=Behaviour(NONNEGATIVE, whole("concave", 1), "upper", lower=1.0, closed=True),
)

arctanh = define(
    "arctanh",
    lambda y, x: reciprocal(_one_minus_square(x)),
    sample=(INSIDE_UNIT,),
    value=math.atanh,
    flops=10,
)

hypot = define(
    "hypot",
    # At the origin, where the function has a kink, this is nan.
    lambda y, a, b: multiply(a, reciprocal(y)),
    lambda y, a, b: multiply(b, reciprocal(y)),
    sample=((0.3, 2.0), (-2.0, -0.3)),
    value=math.hypot,
    flops=10,
    behaviour=Behaviour(NONNEGATIVE, smooth=False),
)
