"""The table on the terminal, the JSON file and the page of the documentation."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.build.report import section as build_section
from benchmarks.gpu.report import section
from benchmarks.speed import backend_report
from benchmarks.speed.candidates import CLOSED, DENSE, HESSE, PRODUCT, STRUCTURED
from benchmarks.speed.harness import Measurement, Row
from benchmarks.speed.peers import missing, versions
from benchmarks.speed.reasons import reason
from benchmarks.speed.summary import Line, exponents, lines
from benchmarks.texts import blas_kernels, columns, markdown, ratio_text, time_text

TITLES = {
    DENSE: "Dense results",
    STRUCTURED: "Structured results",
    PRODUCT: "Structured results times a vector",
}
HEADINGS = (
    "problem",
    "size",
    "hesse",
    "closed form",
    "fastest library",
    "",
    "to library",
    "to closed form",
    "memory to closed form",
    "wins",
)


BACK_ENDS = (
    "The same programs run by NumPy, torch and JAX (jitted), beside the fastest of JAX's own ways and the "
    "closed form written in JAX, both jitted; ratios are those of hesse in JAX. Of JAX's own ways the "
    "shortest first call is given. Below the table: where hesse in JAX is behind."
)


def machine() -> dict[str, str]:
    """Versions and processors; nothing that names the machine."""
    return {
        **versions(),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "kernels of OpenBLAS": blas_kernels(),
        "architecture": platform.machine(),
        "missing": ", ".join(missing()) or "none",
    }


def _cells(line: Line) -> list[str]:
    rival = line.rival or ("–", None)
    return [
        line.row.problem,
        f"{line.row.size:,}",
        time_text(line.hesse),
        time_text(line.closed),
        rival[0],
        time_text(rival[1]),
        ratio_text(line.to_rival),
        ratio_text(line.to_closed),
        ratio_text(line.memory_ratio),
        line.winner,
    ]


def terminal(rows: Sequence[Row]) -> str:
    """The table in columns, one part for each comparison."""
    parts = []
    for comparison, title in TITLES.items():
        parts.append(f"{title}\n{columns(HEADINGS, map(_cells, lines(rows, comparison)))}")
    parts.append(f"Back ends\n{columns(backend_report.HEADINGS, backend_report.cells(rows))}")
    behind = backend_report.losses(rows)
    parts += ["\n".join(["hesse (jax) is behind", *behind])] if behind else []
    return "\n\n".join([*parts, *_troubles(rows)])


def _troubles(rows: Sequence[Row]) -> list[str]:
    found = [
        f"{row.problem}, {row.size:,}: {m.name} ({m.comparison}) left out: {m.trouble}"
        for row in rows
        for m in row.measurements
        if m.trouble
    ]
    return ["\n".join(found)] if found else []


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Every sample, for other programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> tuple[dict[str, str], list[Row]]:
    """The machine and the rows of a run before."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        Row(**{**row, "measurements": [Measurement(**m) for m in row["measurements"]]})
        for row in stored["rows"]
    ]
    return stored["machine"], rows


def write_page(rows: Sequence[Row], known: dict[str, str], path: Path, plots: Sequence[str]) -> None:
    """The page of the documentation; `known` is what `machine` said when the rows were measured."""
    facts = ", ".join(f"{name} {value}" for name, value in known.items())
    text = [
        "# Benchmarks",
        "",
        "Written by `make bench` (short) or `make bench-full`. All candidates are checked to agree to 1e-8, "
        "then timed in turns, in both orders, all candidates of a problem in one process; times are medians. "
        "A run that was interrupted may have been resumed in another process. `to library` and `to closed "
        "form` are the time of hesse divided by that of the fastest other library and of the NumPy code an "
        "expert writes by hand; below 1 hesse is faster. Everything is in double precision. On a "
        "processor JAX computes in the thread that calls it (`jax_cpu_enable_async_dispatch` is off): else "
        "small programs of all candidates take 5 to 25 µs longer, and not always.",
        "",
        f"Versions and machine: {facts}.",
        "",
    ]
    for comparison, title in TITLES.items():
        text += [f"## {title}", "", *markdown(HEADINGS, map(_cells, lines(rows, comparison))), ""]
    back_ends = list(backend_report.cells(rows))
    if back_ends:  # results of earlier runs have none
        text += ["## Back ends", "", BACK_ENDS, "", *markdown(backend_report.HEADINGS, back_ends), ""]
        text += [*(f"- {line}" for line in backend_report.losses(rows)), ""]
    text += ["## Growth", "", "Exponents of the time in the size, fitted to the three largest sizes.", ""]
    text += [*markdown(("problem", "result", "exponents"), _growth(rows)), ""]
    text += ["## First call", "", "Tracing, planning and compiling (colouring, for asdex) included.", ""]
    text += [*markdown(("problem", "result", "size", "first calls"), _firsts(rows)), ""]
    text += build_section(path.with_suffix("") / "build.json")
    text += ["## Plots", ""]
    text += [f"![{name}](benchmarks/{name}.svg)" for name in plots]
    text += ["", *section(path.with_suffix("") / "gpu.json"), "## Where hesse is slower", "", *_losses(rows)]
    troubles = _troubles(rows)
    if troubles:
        text += ["", "## Left out", "", *(f"- {item}" for item in troubles[0].splitlines())]
    path.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def _growth(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [problem, comparison, ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items())]
        for comparison in TITLES
        for problem, slopes in exponents(rows, comparison).items()
        if HESSE in slopes
    ]


def _firsts(rows: Sequence[Row]) -> list[list[str]]:
    """At the largest size of each problem, the first calls of hesse and of the libraries."""
    found = {}
    for row in rows:
        for comparison in (DENSE, STRUCTURED):
            timed = [m for m in row.measurements if m.comparison == comparison and m.samples]
            libraries = [m for m in timed if m.name != CLOSED]
            if len(libraries) > 1 or (comparison == STRUCTURED and libraries):
                texts = [f"{m.name} {time_text(m.first)}" for m in libraries]
                found[row.problem, comparison] = [
                    row.problem,
                    comparison,
                    f"{row.size:,}",
                    ", ".join(texts),
                ]
    return list(found.values())


def _losses(rows: Sequence[Row]) -> list[str]:
    """A paragraph for each problem and comparison where something is clearly faster."""
    found: dict[tuple[str, str], list[Line]] = {}
    for comparison in TITLES:
        for line in lines(rows, comparison):
            if line.loses:
                found.setdefault((line.row.problem, comparison), []).append(line)
    paragraphs = []
    for (problem, comparison), losing in found.items():
        sizes = "; ".join(
            f"{line.row.size:,}: {ratio_text(line.to_rival)} to the library, "
            f"{ratio_text(line.to_closed)} to the closed form"
            for line in losing
        )
        slowest = max(line.hesse or 0.0 for line in losing)
        paragraphs += [f"**{problem}, {comparison}** ({sizes}). {reason(problem, comparison, slowest)}", ""]
    return paragraphs or ["Nowhere in this run."]
