"""Activation functions: the few that need a kernel are rows, the others are formulas of rows.

The formulas are the stable ones: no term overflows or cancels at large |x|, in no derivative. Kinks follow
JAX: relu'(0) = 0, leaky_relu'(0) = 1, elu'(0) = alpha. Rows of other files are applied by name.
"""

from __future__ import annotations

import math

from hesse.ir import Node, multiply, reciprocal
from hesse.ops.behaviour import Behaviour, halves, whole
from hesse.ops.ranges import NONNEGATIVE, POSITIVE, Range
from hesse.ops.registry import define, elementwise

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _sigmoid_value(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


sigmoid = define(
    "sigmoid",
    # Never y (1 - y): the difference cancels for large x.
    lambda y, x: multiply(y, elementwise("sigmoid", -x)),
    latex=r"\sigma\left({}\right)",
    value=_sigmoid_value,
    flops=10,
    behaviour=Behaviour(Range(0.0, 1.0, nonzero=True), halves("convex", "concave", 1)),
)

softplus = define(
    "softplus",
    lambda y, x: sigmoid(x),
    value=lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    flops=20,
    behaviour=Behaviour(POSITIVE, whole("convex", 1)),
)

relu = define(
    "relu",
    lambda y, x: elementwise("chosen", elementwise("greater", x, 0.0)),
    sample=((0.2, 2.0),),
    value=lambda x: max(x, 0.0),
    definition=lambda x: elementwise("maximum", x, 0.0),
    behaviour=Behaviour(NONNEGATIVE, whole("convex", 1), smooth=False, strict=False),
)


softsign = define(
    "softsign",
    # Differentiating the quotient x / (1 + |x|) instead would cancel for large |x|.
    lambda y, x: _square(reciprocal(1.0 + elementwise("abs", x))),
    sample=((0.2, 2.0),),
    value=lambda x: x / (1.0 + abs(x)),
    flops=3,
    definition=lambda x: x * reciprocal(1.0 + elementwise("abs", x)),
    behaviour=Behaviour(Range(-1.0, 1.0), halves("convex", "concave", 1), smooth=False),
)


def _square(x: Node) -> Node:
    return multiply(x, x)


def leaky_relu(x: Node, slope: Node | float = 0.01) -> Node:
    """x where x ≥ 0, else slope·x."""
    return elementwise("where", elementwise("greater_equal", x, 0.0), x, x * slope)


def elu(x: Node, alpha: Node | float = 1.0) -> Node:
    """x where x > 0, else alpha·(exp(x) - 1)."""
    return _exponential_unit(x, alpha, 1.0)


def selu(x: Node) -> Node:
    """The scaled elu that keeps mean 0 and variance 1."""
    return elu(x, SELU_ALPHA) * SELU_SCALE


def celu(x: Node, alpha: Node | float = 1.0) -> Node:
    """x where x > 0, else alpha·(exp(x/alpha) - 1)."""
    return _exponential_unit(x, alpha, alpha)


def _exponential_unit(x: Node, alpha: Node | float, width: Node | float) -> Node:
    positive = elementwise("greater", x, 0.0)
    # The exponential never sees a positive argument, so the branch not taken cannot overflow.
    negative_part = elementwise("where", positive, 0.0, x)
    return elementwise("where", positive, x, elementwise("expm1", negative_part / width) * alpha)


def gelu(x: Node) -> Node:
    """x·Φ(x) with the normal distribution function Φ, by erfc: 1 + erf would cancel in the left tail."""
    return multiply(x, elementwise("erfc", x * -math.sqrt(0.5))) * 0.5


def gelu_tanh(x: Node) -> Node:
    """The tanh approximation of gelu; (1 + tanh u)/2 is written sigmoid(2u), which does not cancel."""
    inner = x + multiply(x, x, x) * 0.044715
    return multiply(x, sigmoid(inner * (2.0 * math.sqrt(2.0 / math.pi))))


def silu(x: Node) -> Node:
    """x·sigmoid(x), also called swish."""
    return multiply(x, sigmoid(x))


def hard_tanh(x: Node) -> Node:
    """x cut off at -1 and 1."""
    return elementwise("clip", x, -1.0, 1.0)
