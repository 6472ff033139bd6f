"""Element-wise rows with the values of other rows and other derivatives at their kinks.

Libraries do not agree on the derivative where there is none. The rows of `choices` share it at ties, as JAX
does, and roots have an infinite one at 0. These are the conventions of PyTorch: the page of operations has a
table.
"""

from __future__ import annotations

import math

from hesse.ir import Node, multiply
from hesse.ops.behaviour import Behaviour, whole
from hesse.ops.ranges import NONNEGATIVE
from hesse.ops.registry import define, elementwise


def _chosen(name: str, a: Node, b: Node) -> Node:
    return elementwise("chosen", elementwise(name, a, b))


clamp = define(
    "clamp",
    lambda y, x, low, high: _chosen(
        "logical_and", elementwise("less_equal", low, x), elementwise("less_equal", x, high)
    ),
    lambda y, x, low, high: _chosen(
        "logical_and", elementwise("less", x, low), elementwise("less", low, high)
    ),
    lambda y, x, low, high: _chosen(
        "logical_or", elementwise("less", high, x), elementwise("less", high, low)
    ),
    sample=((-0.9, 0.9), (-2.0, -1.0), (1.0, 2.0)),
    value=lambda x, low, high: min(max(x, low), high),
    flops=2,
    definition=lambda x, low, high: elementwise("minimum", elementwise("maximum", x, low), high),
)
"""`clip`, whose bounds belong to the inside: there the derivative by x is 1."""

safe_reciprocal = define(
    "safe_reciprocal",
    lambda y, x: -multiply(y, y),
    latex=r"\frac{{1}}{{{}}}",
    sample=((0.3, 2.5),),
    value=lambda x: 1.0 / x if x else 0.0,
    flops=2,
    definition=lambda x: multiply(
        elementwise("not_equal", x, 0.0),
        elementwise("reciprocal", elementwise("where", elementwise("equal", x, 0.0), 1.0, x)),
    ),
)
"""`1 / x`, and 0 with all its derivatives at 0."""

safe_sqrt = define(
    "safe_sqrt",
    lambda y, x: safe_reciprocal(y) * 0.5,
    latex=r"\sqrt{{{}}}",
    sample=((0.3, 2.5),),
    value=math.sqrt,
    flops=2,
    behaviour=Behaviour(NONNEGATIVE, whole("concave", 1), "upper", closed=True),
    definition=lambda x: elementwise("sqrt", x),
)
"""`sqrt(x)`, with all its derivatives 0 at 0."""
