"""What the measurements say: ratios, winners, growth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from benchmarks.speed.candidates import CLOSED, DENSE, HESSE, OURS
from benchmarks.speed.harness import Row


class Line(NamedTuple):
    """One comparison at one size: who takes how long."""

    row: Row
    comparison: str
    hesse: float | None
    closed: float | None
    rival: tuple[str, float] | None

    @property
    def winner(self) -> str:
        """The fastest; hesse when it is within the noise of the fastest."""
        times = {HESSE: self.hesse, CLOSED: self.closed}
        if self.rival:
            times[self.rival[0]] = self.rival[1]
        known = {name: seconds for name, seconds in times.items() if seconds is not None}
        best = min(known, key=lambda name: known[name])
        near = self.hesse is not None and self.hesse <= 1.05 * known[best]
        return HESSE if near else best

    @property
    def to_rival(self) -> float | None:
        """hesse's time relative to the fastest other library."""
        return self.hesse / self.rival[1] if self.hesse and self.rival else None

    @property
    def to_closed(self) -> float | None:
        """hesse's time relative to the closed form."""
        return self.hesse / self.closed if self.hesse and self.closed else None

    @property
    def memory_ratio(self) -> float | None:
        """hesse's peak memory relative to the closed form's."""
        mine, other = self.row.of(HESSE, self.comparison), self.row.of(CLOSED, self.comparison)
        if mine is None or other is None or not mine.peak_bytes or not other.peak_bytes:
            return None
        return mine.peak_bytes / other.peak_bytes

    @property
    def loses(self) -> bool:
        """Whether something is clearly faster: 1.2 times dense, 1.3 times structured."""
        bound = 1.2 if self.comparison == DENSE else 1.3
        return any(ratio is not None and ratio > bound for ratio in (self.to_rival, self.to_closed))


def lines(rows: Iterable[Row], comparison: str) -> list[Line]:
    """The lines of a table, for rows that have the comparison."""
    found = []
    for row in rows:
        times = row.times(comparison)
        others = {name: t for name, t in times.items() if name not in OURS}
        rival = min(others.items(), key=lambda item: item[1]) if others else None
        if times:
            found.append(Line(row, comparison, times.get(HESSE), times.get(CLOSED), rival))
    return found


def exponents(rows: Iterable[Row], comparison: str) -> dict[str, dict[str, float]]:
    """For each problem the growth exponents of the candidates, fitted to the larger sizes."""
    series: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in rows:
        for name, seconds in row.times(comparison).items():
            series.setdefault(row.problem, {}).setdefault(name, []).append((row.size, seconds))
    return {
        problem: {name: _slope(points[-3:]) for name, points in parts.items() if len(points) > 1}
        for problem, parts in series.items()
    }


def _slope(points: list[tuple[int, float]]) -> float:
    x, y = ([math.log(p[k]) for p in points] for k in (0, 1))
    return float(np.polyfit(x, y, 1)[0])
