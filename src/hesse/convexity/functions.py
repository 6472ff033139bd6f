"""What is known of the element-wise functions: values, where they are convex, where they increase.

A function that has no row here is one of which nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never

from hesse.convexity.ranges import INFINITY, NONNEGATIVE, POSITIVE, UNIT, UNKNOWN, Range
from hesse.ops.registry import ELEMENTWISE

Curvature = Literal["convex", "concave", "unknown"]
Domain = Literal["all", "upper", "positive", "nonzero"]


class Piece(NamedTuple):
    """On `[low, high]` the function has this curvature and increases (1), decreases (-1) or neither (0)."""

    low: float
    high: float
    curvature: Curvature
    direction: int


@dataclass(frozen=True)
class Function:
    """An element-wise function of one operand.

    `domain` says where it is defined: "all" numbers; "upper": those above `lower`, which is one of them if
    `closed`, so that the domain is convex for a concave operand; "positive" or "nonzero" numbers only, where
    nothing is claimed unless the operand is known to be positive, or of one sign. `smooth` says that it has
    two derivatives inside its domain (at the end of a closed one it has none).
    """

    values: Range
    pieces: tuple[Piece, ...]
    domain: Domain = "all"
    smooth: bool = True
    lower: float = 0.0
    closed: bool = False

    def is_defined(self, operand: Range) -> bool:
        """Whether the function is known to be defined, on a convex set, for all operands of a range."""
        match self.domain:
            case "all":
                return True
            case "upper":
                return self.is_inside(operand) or (self.closed and operand.low >= self.lower)
            case "positive":
                return operand.is_positive
            case "nonzero":
                return operand.is_positive or operand.is_negative
        assert_never(self.domain)

    def is_inside(self, operand: Range) -> bool:
        """Whether all operands of a range lie above the end of an "upper" domain."""
        return operand.low > self.lower or (self.lower == 0 and operand.is_positive)

    def curvature(self, operand: Range) -> Curvature:
        """The curvature on a range of operands."""
        for piece in self.pieces:
            if piece.low <= operand.low and operand.high <= piece.high and piece.curvature != "unknown":
                return piece.curvature
        return "unknown"

    def direction(self, operand: Range) -> int:
        """Whether the function increases (1) or decreases (-1) on a range of operands; else 0."""
        for piece in self.pieces:
            if piece.low <= operand.low and operand.high <= piece.high and piece.direction:
                return piece.direction
        return 0


def _whole(curvature: Curvature, direction: int) -> tuple[Piece, ...]:
    return (Piece(-INFINITY, INFINITY, curvature, direction),)


def _halves(below: Curvature, above: Curvature, direction: int) -> tuple[Piece, ...]:
    """Monotone, with a change of curvature at 0."""
    return (
        Piece(-INFINITY, 0.0, below, direction),
        Piece(0.0, INFINITY, above, direction),
        Piece(-INFINITY, INFINITY, "unknown", direction),
    )


def _valley() -> tuple[Piece, ...]:
    """Convex with the minimum at 0."""
    return (
        Piece(-INFINITY, 0.0, "convex", -1),
        Piece(0.0, INFINITY, "convex", 1),
        Piece(-INFINITY, INFINITY, "convex", 0),
    )


FUNCTIONS: dict[str, Function] = {
    "exp": Function(POSITIVE, _whole("convex", 1)),
    "exp2": Function(POSITIVE, _whole("convex", 1)),
    "expm1": Function(Range(-1.0), _whole("convex", 1)),
    "log": Function(UNKNOWN, _whole("concave", 1), "upper"),
    "log1p": Function(UNKNOWN, _whole("concave", 1), "upper", lower=-1.0),
    "sqrt": Function(NONNEGATIVE, _whole("concave", 1), "upper", closed=True),
    "arccosh": Function(NONNEGATIVE, _whole("concave", 1), "upper", lower=1.0, closed=True),
    "cbrt": Function(UNKNOWN, _halves("convex", "concave", 1), smooth=False),
    "reciprocal": Function(
        Range(-INFINITY, INFINITY, True),
        (Piece(0.0, INFINITY, "convex", -1), Piece(-INFINITY, 0.0, "concave", -1)),
        "nonzero",
    ),
    "sigmoid": Function(Range(0.0, 1.0, True), _halves("convex", "concave", 1)),
    "softplus": Function(POSITIVE, _whole("convex", 1)),
    "relu": Function(NONNEGATIVE, _whole("convex", 1), smooth=False),
    "abs": Function(NONNEGATIVE, _valley(), smooth=False),
    "sinh": Function(UNKNOWN, _halves("concave", "convex", 1)),
    "cosh": Function(Range(1.0), _valley()),
    "tanh": Function(Range(-1.0, 1.0), _halves("convex", "concave", 1)),
    "arctan": Function(Range(-2.0, 2.0), _halves("convex", "concave", 1)),
    "arcsinh": Function(UNKNOWN, _halves("convex", "concave", 1)),
    "erf": Function(Range(-1.0, 1.0), _halves("convex", "concave", 1)),
    "erfc": Function(Range(0.0, 2.0, True), _halves("concave", "convex", -1)),
    "softsign": Function(Range(-1.0, 1.0), _halves("convex", "concave", 1), smooth=False),
    "lgamma": Function(UNKNOWN, (Piece(0.0, INFINITY, "convex", 0),), "positive"),
    "digamma": Function(UNKNOWN, (Piece(0.0, INFINITY, "concave", 1),), "positive"),
    "sin": Function(Range(-1.0, 1.0), ()),
    "cos": Function(Range(-1.0, 1.0), ()),
    "sign": Function(Range(-1.0, 1.0), _whole("unknown", 1), smooth=False),
    "logical_not": Function(UNIT, (), smooth=False),
}
"""Functions of one operand."""

X_LOG_X = Function(UNKNOWN, _whole("convex", 0), "upper", closed=True)
"""`x*log(x)`, as xlogy(x, x)."""


def power(exponent: float) -> Function:
    """x to a constant exponent."""
    if not float(exponent).is_integer():
        if exponent < 0:
            return Function(POSITIVE, _whole("convex", -1), "upper")
        curvature: Curvature = "convex" if exponent >= 1 else "concave"
        return Function(NONNEGATIVE, _whole(curvature, 1), "upper", closed=True)
    even = exponent % 2 == 0
    if exponent > 0:
        return Function(
            NONNEGATIVE if even else UNKNOWN, _valley() if even else _halves("concave", "convex", 1)
        )
    pieces = (
        Piece(0.0, INFINITY, "convex", -1),
        Piece(-INFINITY, 0.0, "convex" if even else "concave", 1 if even else -1),
    )
    return Function(POSITIVE if even else Range(-INFINITY, INFINITY, True), pieces, "nonzero")


def image(name: str, function: Function, operand: Range) -> Range:
    """The range of the values for a range of the operand."""
    value = ELEMENTWISE[name].value
    direction = function.direction(operand)
    if value is None or not direction or name == "sign":
        return function.values
    ends = [_value(value, end) for end in (operand.low, operand.high)]
    low, high = ends if direction > 0 else ends[::-1]
    found = Range(-INFINITY if low is None else low, INFINITY if high is None else high)
    # A strictly monotone function that is 0 at 0 has no other zero; relu is only so for positive operands.
    away = operand.is_positive if name == "relu" else operand.excludes_zero
    keeps_zero = _value(value, 0.0) == 0.0 and away
    return Range(found.low, found.high, keeps_zero).intersection(function.values)


def _value(value: object, end: float) -> float | None:
    """The value at an end of a range; None where it is infinite or does not exist."""
    assert callable(value)
    try:
        found = float(value(end))
    except (ArithmeticError, ValueError):
        return None
    return found if abs(found) < INFINITY else None
