"""Tables of the page `docs/tensor-trains.md`, each between two marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.trains.functions import NAMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tensor-trains.md"
V100 = {
    "gradient": {"medium": (85, 32, 100, 250, 27), "large": (85, 150, 100, None, 150)},
    "Hessian product": {"medium": (160, 60, 190, 640, 30), "large": (160, 310, 190, None, 150)},
}
"""Milliseconds on an NVIDIA V100, from tables 2, 3, 5 and 7 of the paper (AD); None: out of memory."""
WAYS = {
    "gradient": [
        ("torch graph", "float64"),
        ("torch graph", "float32"),
        ("torch", "float64"),
        ("JAX", "float64"),
        ("JAX", "float32"),
    ],
    "Hessian product": [("torch graph", "float64"), ("torch graph", "float32"), ("JAX", "float64")],
}


def write(mark: str, text: str, page: Path = PAGE) -> None:
    """Put text between the marks of a name."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->\n"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    page.write_text(before + begin + text + end + after, encoding="utf-8")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown: the first column is text, the others are numbers."""
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def number(value: float | None) -> str:
    """Three digits, whatever the size."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def device_text(path: Path) -> str:
    """What was measured on a device, beside the figures of the paper."""
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = {(r["kind"], r["way"], r["dtype"], r["size"], r["name"]): r for r in found["results"]}
    parts = [f"{found['machine']}, {found['versions']}; milliseconds for a new point, frames included.\n"]
    for kind, ways in WAYS.items():
        head = [kind, *(f"{way}, {dtype}" for way, dtype in ways), "paper: V100"]
        lines = []
        for size in V100[kind]:
            for k, name in enumerate(NAMES):
                cells = [_cell(rows, (kind, *way, size, name)) for way in ways]
                if any(cell != "–" for cell in cells):
                    lines.append([f"{name}, {size}", *cells, number(V100[kind][size][k])])
        parts.append(table(head, lines))
    frames = [rows.get(("frames", "torch graph", "float64", "medium", name), {}) for name in NAMES]
    if all("milliseconds" in row for row in frames):
        times = ", ".join(number(row["milliseconds"]) for row in frames)
        parts.append(f"Of these, the frames take {times} at medium sizes (torch graph, float64).\n")
    return "\n".join(parts)


def _cell(rows: dict[Any, dict[str, Any]], key: Any) -> str:
    row = rows.get(key)
    if row is None:
        return "–"
    return number(row["milliseconds"]) if "milliseconds" in row else "failed"
