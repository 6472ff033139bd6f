"""Element-wise rows: error functions, the gamma family, and logarithms with a convention at zero.

Rows of other files are applied by name, so this file needs none of them.
"""

from __future__ import annotations

import math

from hesse.ir import Node, multiply, reciprocal, uniform
from hesse.ops.behaviour import Behaviour, Piece, halves, whole
from hesse.ops.ranges import INFINITY, NONPOSITIVE, UNKNOWN, Range, at_least
from hesse.ops.registry import define, elementwise

SPECIAL_FLOPS = 40


def _gauss(x: Node) -> Node:
    """2/sqrt(pi) exp(-x²), the derivative of erf."""
    return elementwise("exp", -multiply(x, x)) * (2.0 / math.sqrt(math.pi))


erf = define(
    "erf",
    lambda y, x: _gauss(x),
    value=math.erf,
    flops=SPECIAL_FLOPS,
    behaviour=Behaviour(Range(-1.0, 1.0), halves("convex", "concave", 1)),
)

erfc = define(
    "erfc",
    lambda y, x: -_gauss(x),
    value=math.erfc,
    flops=SPECIAL_FLOPS,
    behaviour=Behaviour(Range(0.0, 2.0, nonzero=True), halves("concave", "convex", -1)),
)

erfinv = define(
    "erfinv",
    lambda y, x: elementwise("exp", multiply(y, y)) * (math.sqrt(math.pi) / 2.0),
    latex=r"\operatorname{{erf}}^{{-1}}\left({}\right)",
    sample=((-0.9, 0.9),),
    flops=SPECIAL_FLOPS,
)

ndtri = define(
    "ndtri",
    lambda y, x: elementwise("exp", multiply(y, y) * 0.5) * math.sqrt(2.0 * math.pi),
    latex=r"\Phi^{{-1}}\left({}\right)",
    sample=((0.1, 0.9),),
    flops=SPECIAL_FLOPS,
)

log_ndtr = define(
    "log_ndtr",
    # φ(x)/Φ(x), written so that it does not underflow in the left tail.
    lambda y, x: elementwise("exp", multiply(x, x) * -0.5 - y) / math.sqrt(2.0 * math.pi),
    latex=r"\log\Phi\left({}\right)",
    flops=SPECIAL_FLOPS,
    behaviour=Behaviour(NONPOSITIVE, whole("concave", 1)),
)


def ndtr(x: Node) -> Node:
    """The normal distribution function Φ(x), by erfc: 1 + erf would cancel in the left tail."""
    return erfc(x * -math.sqrt(0.5)) * 0.5


def erfcinv(x: Node) -> Node:
    """The inverse of erfc, exact also where that is tiny."""
    return ndtri(x * 0.5) * -math.sqrt(0.5)


lgamma = define(
    "lgamma",
    lambda y, x: elementwise("digamma", x),
    latex=r"\log\Gamma\left({}\right)",
    sample=((0.4, 4.0),),
    value=math.lgamma,
    flops=SPECIAL_FLOPS,
    behaviour=Behaviour(UNKNOWN, (Piece(0.0, INFINITY, "convex", 0),), "positive"),
)

digamma = define(
    "digamma",
    lambda y, x: elementwise("polygamma", 1.0, x),
    latex=r"\psi\left({}\right)",
    sample=((0.4, 4.0),),
    flops=SPECIAL_FLOPS,
    behaviour=Behaviour(UNKNOWN, (Piece(0.0, INFINITY, "concave", 1),), "positive"),
)

polygamma = define(
    "polygamma",
    None,
    lambda y, n, x: elementwise("polygamma", n + 1.0, x),
    latex=r"\psi^{{\left({}\right)}}\left({}\right)",
    sample=((1.0, 1.0), (0.4, 4.0)),
    flops=SPECIAL_FLOPS,
)


def _xlogy_by_second(y: Node, x: Node, z: Node) -> Node:
    """d(x log z)/dz = x/z, and 0 at x = z = 0.

    Only the point (0, 0) is treated apart: replacing z wherever x = 0 would spoil the mixed derivative 1/z.
    Along x = z (entropies) the quotient is 1 everywhere.
    """
    if x is z:
        return uniform(1.0, x.shape)
    both_zero = elementwise("logical_and", elementwise("equal", x, 0.0), elementwise("equal", z, 0.0))
    return multiply(x, reciprocal(elementwise("where", both_zero, 1.0, z)))


xlogy = define(
    "xlogy",
    lambda y, x, z: elementwise("log", z),
    _xlogy_by_second,
    latex=r"{} \log\left({}\right)",
    sample=((-2.0, 2.0), (0.3, 3.0)),
    value=lambda x, z: x * math.log(z) if x else 0.0,
    flops=10,
)
X_LOG_X = Behaviour(UNKNOWN, whole("convex"), "upper", closed=True)
"""`xlogy(x, x)`."""

logaddexp = define(
    "logaddexp",
    # Not exp(a - y): its error grows with |y|. Two equal infinities have no difference: nan, as in JAX.
    lambda y, a, b: elementwise("sigmoid", a - b),
    lambda y, a, b: elementwise("sigmoid", b - a),
    latex=r"\log\left(e^{{{}}} + e^{{{}}}\right)",
    value=lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))),
    flops=20,
    behaviour=Behaviour(UNKNOWN, whole("convex", 1)),
    image=lambda a, b: at_least(max(a.low, b.low)),
)
