"""Ranges: the interval in which all entries of a tensor lie, and whether they can be zero."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

INFINITY = math.inf


class Range(NamedTuple):
    """Entries lie in `[low, high]`; with `nonzero` none of them is 0."""

    low: float = -INFINITY
    high: float = INFINITY
    nonzero: bool = False

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative."""
        return self.low >= 0

    @property
    def is_nonpositive(self) -> bool:
        """Whether no entry is positive."""
        return self.high <= 0

    @property
    def is_positive(self) -> bool:
        """Whether all entries are positive."""
        return self.low > 0 or (self.low == 0 and self.nonzero)

    @property
    def is_negative(self) -> bool:
        """Whether all entries are negative."""
        return self.high < 0 or (self.high == 0 and self.nonzero)

    @property
    def excludes_zero(self) -> bool:
        """Whether no entry is zero."""
        return self.nonzero or self.low > 0 or self.high < 0

    def scaled(self, factor: float) -> Range:
        """The range of `factor` times the entries."""
        ends = sorted((_times(factor, self.low), _times(factor, self.high)))
        return Range(ends[0], ends[1], self.excludes_zero and factor != 0)

    def with_zero(self) -> Range:
        """The range of the entries and zero."""
        return Range(min(self.low, 0.0), max(self.high, 0.0))

    def intersection(self, other: Range) -> Range:
        """The range of entries that lie in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, max(low, high), self.excludes_zero or other.excludes_zero)

    def union(self, other: Range) -> Range:
        """The range of entries that lie in one of them."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Range(low, high, self.excludes_zero and other.excludes_zero)

    def summed(self) -> Range:
        """The range of sums of one or more entries."""
        low = self.low if self.is_nonnegative else -INFINITY
        high = self.high if self.is_nonpositive else INFINITY
        return Range(low, high, self.is_positive or self.is_negative)

    def power(self, exponent: float) -> Range:
        """The range of a power of the entries, where it is defined."""
        if exponent == 1:
            return self
        if not float(exponent).is_integer():
            return Range(0.0, INFINITY, self.excludes_zero or exponent < 0)
        excludes_zero = self.excludes_zero or exponent < 0
        if exponent < 0:
            signed = Range(0.0) if exponent % 2 == 0 or self.is_nonnegative else Range()
            signed = Range(-INFINITY, 0.0) if exponent % 2 and self.is_nonpositive else signed
            return signed._replace(nonzero=excludes_zero)
        ends = [_raised(self.low, exponent), _raised(self.high, exponent)]
        if exponent % 2 == 0 and self.low < 0 < self.high:
            ends.append(0.0)
        return Range(min(ends), max(ends), excludes_zero)


def at_least(low: float, nonzero: bool = False) -> Range:
    """Entries that are not smaller than a number."""
    return Range(low, INFINITY, nonzero)


UNKNOWN = Range()
POSITIVE = at_least(0.0, nonzero=True)
NONNEGATIVE = at_least(0.0)
NONPOSITIVE = Range(-INFINITY, 0.0)
UNIT = Range(0.0, 1.0)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _raised(value: float, exponent: float) -> float:
    try:
        return float(value**exponent)
    except OverflowError:
        return INFINITY if value > 0 or exponent % 2 == 0 else -INFINITY


def product(ranges: Iterable[Range]) -> Range:
    """The range of products, one entry of each."""
    result = Range(1.0, 1.0)
    for other in ranges:
        ends = [_times(a, b) for a in (result.low, result.high) for b in (other.low, other.high)]
        result = Range(min(ends), max(ends), result.excludes_zero and other.excludes_zero)
    return result


def total(ranges: Iterable[Range]) -> Range:
    """The range of sums, one entry of each."""
    ranges = list(ranges)
    nonzero = (all(r.is_nonnegative for r in ranges) and any(r.is_positive for r in ranges)) or (
        all(r.is_nonpositive for r in ranges) and any(r.is_negative for r in ranges)
    )
    return Range(sum(r.low for r in ranges), sum(r.high for r in ranges), nonzero)
