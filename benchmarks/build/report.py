"""Build times as a table, on the terminal and in the page of benchmarks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.texts import markdown, ratio_text, time_text

HEADINGS = ("program", "derivative", "hesse", "jitted JAX", "JAX / hesse", "agreement")


@dataclass(frozen=True)
class Row:
    """The first calls of a program in seconds, None where a library did not manage in time."""

    program: str
    derivative: str
    hesse: float | None
    jax: float | None
    agrees: bool | None


def cells(row: Row) -> list[str]:
    """A row of the table."""
    ratio = None if row.hesse is None or row.jax is None else row.jax / row.hesse
    agreement = {True: "yes", False: "NO", None: "not compared"}[row.agrees]
    times = [time_text(row.hesse), time_text(row.jax), ratio_text(ratio)]
    return [row.program, row.derivative, *times, agreement]


def section(path: Path) -> list[str]:
    """The section of the page, if something was measured."""
    if not path.exists():
        return []
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [
        "## Long programs",
        "",
        "The first call of derivatives of programs that are long or have loops in Python: tracing, "
        "differentiating, planning, compiling and one run, each in a process of its own, without imports. "
        f"A dash: not within {stored['limit']:g} s. Written by `python -m benchmarks.build --write`.",
        "",
        *markdown(HEADINGS, (cells(Row(**row)) for row in stored["rows"])),
        "",
    ]
