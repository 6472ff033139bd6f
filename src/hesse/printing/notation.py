"""What all printers share: numbers, letters for labels, axes, sizes and fresh names."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction

from hesse.ir import Axis, Einsum, Node, Shape, Size, Variable

LETTERS = "ijklmnopqrstuvwxyzabcdefgh"
INTEGER_LIMIT = 1e15
"""Whole numbers below this are printed as integers."""
SHORT_DECIMAL = 8
"""A decimal number longer than this is printed as a fraction, if it is one."""
LARGEST_DENOMINATOR = 9999
LOGARITHMS = {math.log(base) ** power: (base, power) for base in range(2, 11) for power in range(1, 4)}
"""Numbers that are log(n)^k to the last digit, as in derivatives of 2^x."""
LARGEST_NUMERATOR = 999_999
"""Some fraction with a larger numerator is near to any number."""
ROUNDING = 16 * sys.float_info.epsilon
"""How far, relative to it, a number may be from the fraction that it is up to rounding."""


def rational(value: float) -> Fraction | None:
    """The simple fraction, or whole number, that a float is; None for any other."""
    if not math.isfinite(value) or abs(value) >= INTEGER_LIMIT:
        return None
    if value == int(value):
        return Fraction(int(value))
    if len(repr(abs(value))) <= SHORT_DECIMAL:
        return None
    fraction = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
    simple = abs(fraction.numerator) <= LARGEST_NUMERATOR
    return fraction if simple and fraction.numerator / fraction.denominator == value else None


@functools.lru_cache(maxsize=1024)
def rounded(value: float) -> float:
    """The simple fraction that a number is up to rounding, -1/3 for 2/3 - 1, or the number itself."""
    if not math.isfinite(value) or abs(value) >= INTEGER_LIMIT or len(repr(abs(value))) <= SHORT_DECIMAL:
        return value
    fraction = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
    near = fraction.numerator / fraction.denominator
    simple = 0 < abs(fraction.numerator) <= LARGEST_NUMERATOR
    return near if simple and abs(near - value) <= ROUNDING * abs(value) else value


def number_text(value: float) -> str:
    """A number such that reading it back gives the same float: `2`, `0.5`, `1/3`, `1.1283791670955126`."""
    fraction = rational(value)
    return repr(float(value)) if fraction is None else str(fraction)


def letter(label: int) -> str:
    """The name of a label: i, j, k, …, and after h comes i1."""
    round_, place = divmod(label, len(LETTERS))
    return LETTERS[place] + (str(round_) if round_ else "")


def axis_text(axis: Axis) -> str:
    """An axis in letters: `i`, `i+1`, `2i`, `3i+j`, `4-i`, `5`."""
    terms = sorted(axis.terms, key=lambda term: -term[1])
    positive = [(label, stride) for label, stride in terms if stride > 0]
    negative = [(label, stride) for label, stride in terms if stride < 0]
    parts = [f"+{_term(label, stride)}" for label, stride in positive]
    offset = [f"{axis.offset:+d}"] if axis.offset or not axis.terms else []
    minus = [f"-{_term(label, -stride)}" for label, stride in negative]
    return "".join(parts + minus + offset if positive else offset + minus).removeprefix("+")


def _term(label: int, stride: int) -> str:
    return letter(label) if stride == 1 else f"{stride}{letter(label)}"


def axes_text(axes: Iterable[Axis]) -> str:
    """Axes in brackets: `[i+1,j]`."""
    return f"[{','.join(map(axis_text, axes))}]"


def shape_text(shape: Shape) -> str:
    """A shape as Python writes it, symbols without quotes: `(n, 3)`, `(n,)`, `()`."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def unused_sizes(node: Einsum) -> tuple[str, ...]:
    """The symbolic sizes of labels that no axis has: the sum over such a label is a factor."""
    return tuple(map(str, node.sizes(node.counted)))


def range_notes(node: Einsum) -> tuple[tuple[int, Size], ...]:
    """The labels, with their ranges, that do not run as far as the axes they index would let them.

    A plain axis of the output says nothing about a label of the operands: it is as long as its label.
    """
    indexed = [
        (axis, size)
        for axes, operand in zip(node.axes, node.operands, strict=True)
        for axis, size in zip(axes, operand.shape, strict=True)
    ]
    placed, inside = zip(node.output, node.shape, strict=True), node.inside
    indexed += [(axis, size) for axis, size in placed if not (axis.is_label and axis.label in inside)]
    reach: dict[int, Size] = {}
    for axis, size in indexed:
        for label in axis.labels():
            bound = size if axis.is_label else _reach(axis, label, size, node.ranges)
            known = reach.get(label, bound)
            reach[label] = min(known, bound) if isinstance(known, int) and isinstance(bound, int) else known
    return tuple((label, node.ranges[label]) for label in sorted(reach) if reach[label] != node.ranges[label])


def _reach(axis: Axis, label: int, size: Size, ranges: tuple[Size, ...]) -> int:
    """How many values of a label an axis of the given size has room for, other labels being as they are."""
    assert isinstance(size, int)
    low = high = axis.offset
    own = 0
    for other, stride in axis.terms:
        span = ranges[other]
        assert isinstance(span, int)
        if other == label:
            own = stride
        else:
            low, high = low + min(0, stride * (span - 1)), high + max(0, stride * (span - 1))
    return (size - 1 - high) // own + 1 if own > 0 else low // -own + 1


def fresh_names(prefix: str, nodes: Iterable[Node], others: Collection[str] = ()) -> Iterator[str]:
    """`t1, t2, …` without the names of variables and sizes among the nodes."""
    taken = {*others, *(size for node in nodes for size in node.shape)}
    taken |= {node.name for node in nodes if isinstance(node, Variable)}
    count = 0
    while True:
        count += 1
        if f"{prefix}{count}" not in taken:
            yield f"{prefix}{count}"
