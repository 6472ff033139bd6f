"""What is known of a function besides its derivatives: its values, where it is convex, where it increases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never

from hesse.ops.ranges import INFINITY, NONNEGATIVE, POSITIVE, UNKNOWN, Range

Curvature = Literal["convex", "concave", "unknown"]
Domain = Literal["all", "upper", "positive", "nonzero", "definite"]


class Piece(NamedTuple):
    """On `[low, high]` the function has this curvature and increases (1), decreases (-1) or neither (0)."""

    low: float
    high: float
    curvature: Curvature
    direction: int


@dataclass(frozen=True)
class Behaviour:
    """How a function behaves; of several operands, in all of them together.

    `domain` says where it is defined: "all" numbers; "upper": those above `lower`, which is one of them if
    `closed`, so that the domain is convex for a concave operand; "positive" or "nonzero" numbers or positive
    "definite" matrices only, where nothing is claimed unless the operand is known to be positive, of one
    sign, or definite. `smooth` says that it has two derivatives inside its domain (at the end of a closed one
    it has none), `strict` that it is nowhere constant where it is monotone.
    """

    values: Range = UNKNOWN
    pieces: tuple[Piece, ...] = ()
    domain: Domain = "all"
    smooth: bool = True
    lower: float = 0.0
    closed: bool = False
    strict: bool = True

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
            case "definite":
                return False  # a range says nothing of a matrix as a whole
        assert_never(self.domain)

    def is_inside(self, operand: Range) -> bool:
        """Whether all operands of a range lie above the end of an "upper" domain."""
        return operand.low > self.lower or (self.lower == 0 and operand.is_positive)

    def curvature(self, operand: Range = UNKNOWN) -> Curvature:
        """The curvature on a range of operands."""
        for piece in self.pieces:
            if piece.low <= operand.low and operand.high <= piece.high and piece.curvature != "unknown":
                return piece.curvature
        return "unknown"

    def direction(self, operand: Range = UNKNOWN) -> int:
        """Whether the function increases (1) or decreases (-1) on a range of operands; else 0."""
        for piece in self.pieces:
            if piece.low <= operand.low and operand.high <= piece.high and piece.direction:
                return piece.direction
        return 0

    def image(self, value: Callable[[float], float], operand: Range) -> Range:
        """The range of the values for a range of the one operand; `value` computes the function."""
        direction = self.direction(operand)
        if not direction:
            return self.values
        ends = [_value(value, end) for end in (operand.low, operand.high)]
        low, high = ends if direction > 0 else ends[::-1]
        # a strictly monotone function that is 0 at 0 has no other zero; relu is only so for positive operands
        away = operand.excludes_zero if self.strict else operand.is_positive
        found = Range(
            -INFINITY if low is None else low,
            INFINITY if high is None else high,
            away and _value(value, 0.0) == 0.0,
        )
        return found.intersection(self.values)


def whole(curvature: Curvature, direction: int = 0) -> tuple[Piece, ...]:
    """The same curvature and direction everywhere."""
    return (Piece(-INFINITY, INFINITY, curvature, direction),)


def halves(below: Curvature, above: Curvature, direction: int) -> tuple[Piece, ...]:
    """Monotone, with a change of curvature at 0."""
    return (
        Piece(-INFINITY, 0.0, below, direction),
        Piece(0.0, INFINITY, above, direction),
        Piece(-INFINITY, INFINITY, "unknown", direction),
    )


def valley() -> tuple[Piece, ...]:
    """Convex with the minimum at 0."""
    return (
        Piece(-INFINITY, 0.0, "convex", -1),
        Piece(0.0, INFINITY, "convex", 1),
        Piece(-INFINITY, INFINITY, "convex", 0),
    )


def power_behaviour(exponent: float) -> Behaviour:
    """x to a constant exponent."""
    if not float(exponent).is_integer():
        if exponent < 0:
            return Behaviour(POSITIVE, whole("convex", -1), "upper")
        curvature: Curvature = "convex" if exponent >= 1 else "concave"
        return Behaviour(NONNEGATIVE, whole(curvature, 1), "upper", closed=True)
    even = exponent % 2 == 0
    if exponent > 0:
        return Behaviour(
            NONNEGATIVE if even else UNKNOWN, valley() if even else halves("concave", "convex", 1)
        )
    pieces = (
        Piece(0.0, INFINITY, "convex", -1),
        Piece(-INFINITY, 0.0, "convex" if even else "concave", 1 if even else -1),
    )
    return Behaviour(POSITIVE if even else Range(-INFINITY, INFINITY, True), pieces, "nonzero")


def _value(value: Callable[[float], float], end: float) -> float | None:
    """The value at an end of a range; None where it is infinite or does not exist."""
    try:
        found = float(value(end))
    except (ArithmeticError, ValueError):
        return None
    return found if abs(found) < INFINITY else None
