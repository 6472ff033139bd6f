"""What was measured on a device, as JSON, as a section of the page of benchmarks, and as plots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module, util
from pathlib import Path

from benchmarks.gpu.cases import Measurement, Row
from benchmarks.texts import markdown, ratio_text, time_text

HESSE, CLOSED = "hesse", "closed form"
"""How the names of our candidates begin; the others are libraries."""
WORTH = 50e-6
"""Seconds below which launches are all that is measured."""
WITHIN = 1.15
"""Times the time of the closed form that hesse may take."""


def write(machine: dict[str, str], rows: Sequence[Row], path: Path) -> None:
    """Everything, for other programs."""
    text = json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def read(paths: Iterable[Path]) -> tuple[dict[str, str], list[Row]]:
    """The machine and the rows of some runs; of rows measured twice, the later ones."""
    machine: dict[str, str] = {}
    rows: dict[tuple[str, str, str, int], Row] = {}
    for path in paths:
        stored = json.loads(path.read_text(encoding="utf-8"))
        machine.update(stored["machine"])
        for found in stored["rows"]:
            row = Row(**{**found, "measurements": [Measurement(**m) for m in found["measurements"]]})
            rows[row.form, row.dtype, row.problem, row.size] = row
    return machine, list(rows.values())


def section(path: Path) -> list[str]:
    """The section of the page, if something was measured."""
    return ["## On a GPU", "", *describe(*read([path]))] if path.exists() else []


def describe(machine: dict[str, str], rows: Sequence[Row]) -> list[str]:
    """Tables in Markdown: times, first calls, memory; where hesse is behind; what was left out."""
    text = [
        "Medians of calls that are waited for one by one, all candidates of a row in turns in one process, "
        "after they were checked to agree (to 1e-8 in double, 1e-3 in single precision). TF32 is off. "
        "JAX and torch.func are asked for Hessians forward over reverse, for Jacobians forward (JAX reverse, "
        "too). Of the ways of hesse the faster one counts for the ratios. Written by "
        "`python -m benchmarks.gpu`.",
        "",
        ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        "",
    ]
    for form, dtype in dict.fromkeys((row.form, row.dtype) for row in rows):
        chosen = [row for row in rows if (row.form, row.dtype) == (form, dtype)]
        text += [f"### {form.capitalize()} results, {dtype}", "", *_tables(chosen)]
        text += [f"![gpu-{form}-{dtype}](benchmarks/gpu-{form}-{dtype}.svg)", ""]
    behind = [sentence for row in rows for sentence in losses(row)]
    text += [
        "### Where hesse is behind",
        "",
        *(f"- {item}" for item in behind or ["nowhere in this run"]),
        "",
    ]
    left = [f"- {_place(row)}: {m.name}: {m.trouble}" for row in rows for m in row.measurements if m.trouble]
    return [*text, *(["### Left out", "", *left, ""] if left else [])]


def _place(row: Row) -> str:
    return f"{row.problem}, {row.size:,}, {row.dtype}"


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(m.name for row in rows for m in row.measurements))


def _tables(rows: Sequence[Row]) -> list[str]:
    names = _names(rows)
    times = [
        [
            row.problem,
            f"{row.size:,}",
            *(_cell(row, name) for name in names),
            ratio_text(to_closed(row)),
            ratio_text(to_library(row)),
        ]
        for row in rows
    ]
    firsts, bytes_ = (
        [[row.problem, f"{row.size:,}", *(show(_of(row, name)) for name in names)] for row in rows]
        for show in (_first_text, _bytes_text)
    )
    return [
        *markdown(("problem", "size", *names, "to closed form", "to library"), times),
        "",
        "First calls:",
        "",
        *markdown(("problem", "size", *names), firsts),
        "",
        "Memory that a call takes at most, its result included, where that is known:",
        "",
        *markdown(("problem", "size", *names), bytes_),
        "",
    ]


def _of(row: Row, name: str) -> Measurement | None:
    return next((m for m in row.measurements if m.name == name), None)


def _cell(row: Row, name: str) -> str:
    m = _of(row, name)
    if m is None or (not m.samples and not m.trouble):
        return "–"
    if m.samples:
        return time_text(m.seconds)
    return m.trouble if m.trouble == "out of memory" else "left out"


def _first_text(m: Measurement | None) -> str:
    return time_text(None if m is None else m.first)


def _bytes_text(m: Measurement | None) -> str:
    return "–" if m is None or m.peak_bytes is None else f"{m.peak_bytes / 1e6:.3g} MB"


def _least(row: Row, *words: str) -> float | None:
    """The shortest time of the candidates whose name has all the words."""
    return min((t for name, t in row.times().items() if all(word in name for word in words)), default=None)


def to_closed(row: Row) -> float | None:
    """hesse relative to the closed form in the same library, where that is worse."""
    found = [(_least(row, HESSE, library), _least(row, CLOSED, library)) for library in ("(jax", "(torch")]
    return max((mine / other for mine, other in found if mine and other), default=None)


def to_library(row: Row) -> float | None:
    """The faster one of hesse in JAX and in torch, relative to the fastest library."""
    mine = _least(row, HESSE)
    others = [t for name, t in row.times().items() if HESSE not in name and CLOSED not in name]
    return mine / min(others) if mine and others else None


def losses(row: Row) -> list[str]:
    """What hesse is behind in a row that takes long enough to tell."""
    found = []
    for library in ("(jax", "(torch"):
        mine, closed = _least(row, HESSE, library), _least(row, CLOSED, library)
        if mine and closed and mine > WORTH and mine > WITHIN * closed:
            found.append(f"{_place(row)}: hesse {library}) {mine / closed:.2f} to the closed form")
    ratio, mine = to_library(row), _least(row, HESSE)
    if ratio and mine and mine > WORTH and ratio > 1:
        found.append(f"{_place(row)}: {ratio:.2f} to the fastest library")
    return found


def write_plots(rows: Sequence[Row], folder: Path) -> None:
    """One plot for each form and precision: a line for each row, a mark for each candidate."""
    if util.find_spec("matplotlib") is None:
        return
    import_module("matplotlib").use("svg")
    import_module("matplotlib").rcParams.update({"svg.hashsalt": "hesse", "svg.fonttype": "none"})
    pyplot = import_module("matplotlib.pyplot")
    for form, dtype in dict.fromkeys((row.form, row.dtype) for row in rows):
        chosen = [row for row in rows if (row.form, row.dtype) == (form, dtype)][::-1]
        figure, axes = pyplot.subplots(figsize=(8, 1 + 0.3 * len(chosen)), layout="constrained")
        for name in _names(chosen):
            points = [(row.times()[name], k) for k, row in enumerate(chosen) if name in row.times()]
            if points:
                marker = "o" if HESSE in name else "|" if CLOSED in name else "x"
                axes.plot(*zip(*points, strict=True), marker, label=name)
        axes.set_yticks(range(len(chosen)), [f"{row.problem}, {row.size:,}" for row in chosen], fontsize=7)
        axes.set(xscale="log", xlabel="seconds", title=f"{form}, {dtype}")
        axes.grid(True, axis="x", alpha=0.3)
        axes.legend(fontsize=7)
        figure.savefig(folder / f"gpu-{form}-{dtype}.svg", metadata={"Date": None})
        pyplot.close(figure)
