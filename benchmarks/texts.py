"""Times, ratios and tables as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence


def time_text(seconds: float | None) -> str:
    """A time for people."""
    if seconds is None:
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError("not reached")


def ratio_text(ratio: float | None) -> str:
    """A ratio for people."""
    return "–" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def columns(headings: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table for the terminal."""
    table = [list(headings), *map(list, body)]
    widths = [max(len(cells[k]) for cells in table) for k in range(len(headings))]
    texts = ["  ".join(cell.ljust(w) for cell, w in zip(cells, widths, strict=True)) for cells in table]
    return "\n".join(text.rstrip() for text in texts)


def markdown(headings: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    rows = [list(headings), ["---"] * len(headings), *map(list, body)]
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def blas_kernels() -> str:
    """The processor for which NumPy's OpenBLAS multiplies, which the environment may fix."""
    return os.environ.get("OPENBLAS_CORETYPE", "its own choice")
