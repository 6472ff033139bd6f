"""The table of back ends: hesse in JAX beside JAX's own derivatives and closed forms, and where it loses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.speed.candidates import CLOSED_JAX, DENSE, HESSE, HESSE_JAX, HESSE_TORCH, STRUCTURED
from benchmarks.speed.harness import Row
from benchmarks.texts import ratio_text, time_text

BEHIND_LIBRARY, BEHIND_CLOSED = 1.0, 1.15
"""Times the time of JAX, and of the closed form in JAX, from which hesse in JAX is behind."""
NOISE = 0.05
HEADINGS = (
    "problem",
    "size",
    "result",
    HESSE,
    HESSE_TORCH,
    HESSE_JAX,
    "JAX",
    CLOSED_JAX,
    "to JAX",
    "to closed form",
    "first call",
    "first call of JAX",
)


class Line(NamedTuple):
    """One result at one size, in seconds; of JAX's own ways the fastest call and the fastest first call."""

    row: Row
    comparison: str
    numpy: float | None
    torch: float | None
    jax: float | None
    library: float | None
    closed: float | None
    first: float | None
    library_first: float | None

    @property
    def to_library(self) -> float | None:
        """hesse in JAX relative to JAX."""
        return self.jax / self.library if self.jax and self.library else None

    @property
    def to_closed(self) -> float | None:
        """hesse in JAX relative to the closed form."""
        return self.jax / self.closed if self.jax and self.closed else None

    def losses(self) -> list[str]:
        """What hesse in JAX is behind."""
        found = []
        if self.to_library and self.to_library > BEHIND_LIBRARY + NOISE:
            found.append(f"{ratio_text(self.to_library)} to JAX")
        if self.to_closed and self.to_closed > BEHIND_CLOSED:
            found.append(f"{ratio_text(self.to_closed)} to the closed form in JAX")
        if self.first and self.library_first and self.first > (1 + NOISE) * self.library_first:
            found.append(f"first call {time_text(self.first)}, JAX {time_text(self.library_first)}")
        return found

    def cells(self) -> list[str]:
        """The row of the table."""
        times = (self.numpy, self.torch, self.jax, self.library, self.closed)
        ratios = (self.to_library, self.to_closed)
        firsts = (self.first, self.library_first)
        return [
            self.row.problem,
            f"{self.row.size:,}",
            self.comparison,
            *map(time_text, times),
            *map(ratio_text, ratios),
            *map(time_text, firsts),
        ]


def lines(rows: Iterable[Row]) -> list[Line]:
    """The rows in which something of hesse or of the closed forms ran in JAX or torch."""
    found = []
    for row in rows:
        for comparison in (DENSE, STRUCTURED):
            times = row.times(comparison)
            if not {HESSE_JAX, HESSE_TORCH, CLOSED_JAX} & times.keys():
                continue
            own = [m for m in row.measurements if m.name.endswith(" jit") and m.name in times]
            own = [m for m in own if m.comparison == comparison]
            mine = row.of(HESSE_JAX, comparison)
            found.append(
                Line(
                    row,
                    comparison,
                    *(times.get(name) for name in (HESSE, HESSE_TORCH, HESSE_JAX)),
                    min((m.seconds for m in own), default=None),
                    times.get(CLOSED_JAX),
                    mine.first if mine is not None and mine.samples else None,
                    min((m.first for m in own), default=None),
                )
            )
    return found


def cells(rows: Iterable[Row]) -> list[list[str]]:
    """The body of the table."""
    return [line.cells() for line in lines(rows)]


def losses(rows: Sequence[Row]) -> list[str]:
    """One sentence for each row in which hesse in JAX is behind."""
    return [
        f"{line.row.problem}, {line.row.size:,}, {line.comparison}: {'; '.join(found)}"
        for line in lines(rows)
        if (found := line.losses())
    ]
