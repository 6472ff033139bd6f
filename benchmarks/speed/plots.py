"""Log-log plots of time against size, one for each problem."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module, util
from pathlib import Path

from benchmarks.speed.candidates import DENSE, HESSE, STRUCTURED
from benchmarks.speed.harness import Row


def write_plots(rows: Sequence[Row], folder: Path) -> list[str]:
    """Names of the plots; none without matplotlib."""
    if util.find_spec("matplotlib") is None:
        return []
    import_module("matplotlib").use("svg")
    import_module("matplotlib").rcParams.update({"svg.hashsalt": "hesse", "svg.fonttype": "none"})
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for problem in dict.fromkeys(row.problem for row in rows):
        name = re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-")
        _plot([row for row in rows if row.problem == problem], folder / f"{name}.svg")
        names.append(name)
    return names


def _plot(rows: Sequence[Row], path: Path) -> None:
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for comparison, style in ((DENSE, "-"), (STRUCTURED, "--")):
        for name in dict.fromkeys(name for row in rows for name in row.times(comparison)):
            points = [
                (row.size, row.times(comparison)[name]) for row in rows if name in row.times(comparison)
            ]
            width = 2.5 if name == HESSE else 1.2
            label = name if comparison == DENSE else f"{name}, structured"
            axes.plot(
                *zip(*points, strict=True), style, marker="o", linewidth=width, markersize=3, label=label
            )
    axes.set(xscale="log", yscale="log", xlabel="size", ylabel="seconds", title=rows[0].problem)
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
