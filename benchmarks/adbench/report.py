"""The rows as a table on the terminal and as a page of the documentation."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median

from benchmarks.adbench.candidates import HAND, HESSE, JAX, SCAN, TORCH, XLA
from benchmarks.texts import markdown, ratio_text, time_text

WAYS = (HESSE, SCAN, XLA)
LIBRARIES = (JAX, TORCH)
HEADINGS = (
    "problem",
    "size",
    "derivative",
    *WAYS,
    *LIBRARIES,
    HAND,
    "fastest of hesse",
    "library / hesse",
    "by hand / hesse",
    "gradient / function",
    "first call: hesse",
    "of its fastest way",
    "of jitted JAX",
)
BEHIND = 0.95
"""Below this ratio hesse is said to be behind."""

INTRODUCTION = """\
The problems that tools for derivatives are compared by: a mixture of Gaussians (GMM), a net of memory cells
(LSTM), bundle adjustment (BA) and hand tracking, written from their definitions in NumPy; JAX and torch run
the same formulas, JAX the LSTM by `lax.scan`. All candidates of a row agree to 1e-8. Then they are called in
turns in one process, in double precision, and medians are taken. A ratio above 1 says that hesse is faster;
the fastest way of hesse counts, and the table says which it is: NumPy runs the objective as it stands, with
a loop in Python or with `hesse.scan`, or XLA does, where the arguments are arrays of JAX, as jitted JAX has
them (and the loop is a scan). `gradient / function` compares that way with the function itself, run by NumPy.
First calls trace, differentiate, compile and run: those of hesse as it is called without options (where JAX
is given a scan, so is hesse), and those of its fastest way.
`Jacobian, blocks` are derivatives of each point by its own arguments: `form="structured"` in hesse,
`vmap(jacrev)` or one column at a time in the others. torch is left out where it compiles for minutes.
JAX computes in the thread that calls it (`jax_cpu_enable_async_dispatch` is off)."""


@dataclass
class Row:
    """Samples and first calls in seconds by candidates, and samples of the function in NumPy."""

    problem: str
    size: str
    derivative: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    function: list[float] = field(default_factory=list)

    def seconds(self, name: str) -> float | None:
        """The median time of a call."""
        return median(self.samples[name]) if self.samples.get(name) else None

    def own(self) -> tuple[str, float]:
        """The fastest way of hesse."""
        return min(
            ((name, median(self.samples[name])) for name in WAYS if self.samples.get(name)),
            key=lambda item: item[1],
        )

    def library(self) -> tuple[str, float] | None:
        """The fastest other library."""
        found = [(name, seconds) for name in LIBRARIES if (seconds := self.seconds(name)) is not None]
        return min(found, key=lambda item: item[1]) if found else None


def cells(row: Row) -> list[str]:
    """A row of the table."""
    name, own = row.own()
    best, hand = row.library(), row.seconds(HAND)
    times = [time_text(row.seconds(way)) for way in (*WAYS, *LIBRARIES, HAND)]
    ratios = [best and best[1] / own, hand and hand / own, own / median(row.function)]
    plain = SCAN if SCAN in row.first else HESSE  # JAX is given a scan as well
    first = [time_text(row.first.get(way)) for way in (plain, name, JAX)]
    return [row.problem, row.size, row.derivative, *times, name, *map(ratio_text, ratios), *first]


def losses(rows: Sequence[Row]) -> list[str]:
    """Where hesse is behind, in a sentence for each row."""
    found = []
    for row in rows:
        name, own = row.own()
        best = row.library()
        if best is not None and best[1] / own < BEHIND:
            times = f"{own / best[1]:.1f} times as fast as {name}"
            found.append(f"- {row.problem}, {row.size}: {best[0]} is {times}.")
        for way in WAYS:
            first = row.first.get(way, 0.0)
            if first > row.first.get(JAX, float("inf")):
                others = f"{time_text(first)} against {time_text(row.first[JAX])}"
                found.append(f"- {row.problem}, {row.size}: the first call of {way}: {others} of jitted JAX.")
    return found or ["Nowhere in this run."]


def page(rows: Sequence[Row], path: Path) -> None:
    """Write the page."""
    names = ("hesse", "numpy", "jax", "torch")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    troubles = [
        f"- {row.problem}, {row.size}: {name}: {text}" for row in rows for name, text in row.trouble.items()
    ]
    lines = [
        "# ADBench",
        "",
        INTRODUCTION,
        "Written by `python -m benchmarks.adbench --write`.",
        "",
        f"Versions and machine: {versions}, cores {os.cpu_count()}, architecture {platform.machine()}.",
        "",
        *markdown(HEADINGS, map(cells, rows)),
        "",
        "## Where hesse is behind",
        "",
        *losses(rows),
        *(["", "## What did not run", "", *troubles] if troubles else []),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
