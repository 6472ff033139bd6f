"""What was measured, as JSON, as a page of the documentation, and as plots."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module, util
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import Measurement
from benchmarks.gpu.setting import versions
from benchmarks.texts import blas_kernels, markdown, ratio_text, time_text
from benchmarks.torch_functions.setting import Row, Setting
from benchmarks.torch_functions.training import Training

HESSE, CLOSED = "hesse", "closed form"
LAUNCHES = 50e-6
"""Seconds below which launches are all that is measured on a device."""
INTRODUCTION = """\
Functions and modules written in PyTorch, differentiated by hesse, by PyTorch's own ways and by JAX (the same
function written in JAX, jitted). All candidates of a row are checked to agree with the first one in double
precision, then timed in turns in one process; those with `torch.compile` run in processes of their own, and
their samples are taken in the same turns. Calls are waited for one by one. Each cell is the median; the
shortest time stands in the JSON files beside the plots. The last column is the time of hesse, its fastest
way, divided by that of the fastest other one: below 1 hesse is faster. `hesse structured` are the blocks
(B, d, d) that `vmap(hessian)` gives, found in `net(x).sum()` by hesse itself; `hesse dense` is the whole
(B, d, B, d) as `torch.func.hessian` gives it. Rows where both forms occur compare like with like: dense
with dense, blocks with blocks. The functions are those of THOAD's benchmarks (its figures 3, 4, 6
and 7), with tanh instead of ReLU and softmax, whose sum is constant.
`fused` is `.compile(backend="torch", fuse=True)`; other ways are sent through `torch.compile`
at the largest size of a problem only. Small programs run on NumPy, whose OpenBLAS may be told by the
environment to leave out AVX-512, which PyTorch's library uses: so it was for the table of the processor below
(`OPENBLAS_CORETYPE=Haswell`). Where it chooses by itself, the step of order four at 1,000 points takes 1.0 ms
and nested autograd 10.8 (10.5 times as long, 14 times at 100 points; training steps with Adam 13 times).
Written by `python -m benchmarks.torch_functions --report`."""


@dataclass
class Run:
    """The rows of one run on one machine."""

    machine: dict[str, str]
    rows: list[Row]
    training: list[Training] = field(default_factory=list)


def machine(setting: Setting) -> dict[str, str]:
    """Versions, and the machine in words."""
    found = versions(setting.torch)
    if setting.jax is None:
        found.pop("jax")
    found["cores"] = str(os.cpu_count())
    found["kernels of OpenBLAS"] = blas_kernels()
    found["threads"] = str(setting.torch.xp.get_num_threads())
    return found


def write(run: Run, path: Path) -> None:
    """Everything, for other programs; samples in tenths of microseconds."""
    stored = asdict(run)
    for row in stored["rows"]:
        for m in row["measurements"]:
            m["samples"] = [round(sample, 7) for sample in m["samples"]]
    path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Run:
    """A run as it was written."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        Row(**{**row, "measurements": [Measurement(**m) for m in row["measurements"]]})
        for row in stored["rows"]
    ]
    return Run(stored["machine"], rows, [Training(**item) for item in stored["training"]])


def write_page(runs: Sequence[Run], path: Path) -> None:
    """The page, with a section for each run, and its plots."""
    text = ["# Benchmarks of torch functions", "", INTRODUCTION, ""]
    folder = path.parent / "benchmarks"
    for run in runs:
        on = "On a GPU" if "device" in run.machine else "On a processor"
        facts = ", ".join(f"{name} {value}" for name, value in run.machine.items())
        text += [f"## {on}", "", f"Versions and machine: {facts}; {run.rows[0].dtype}.", ""]
        for group in dict.fromkeys(row.group for row in run.rows):
            text += [f"### {group}", ""]
            for part in _parts([row for row in run.rows if row.group == group]):
                text += [*_table(part), "", *_plot(part, folder), ""]
        text += _training(run.training)
        text += ["### Where hesse is behind", "", *_losses(run.rows), "", *_left_out(run.rows)]
    path.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def _parts(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Rows with the same candidates and the same kind of size."""
    if len({row.size_is for row in rows}) == 1:
        return [list(rows)]
    return [[row for row in rows if row.size_is == kind] for kind in dict.fromkeys(r.size_is for r in rows)]


def _form(name: str) -> str:
    """Which of two results a candidate gives, where a row has both."""
    dense = "dense", "torch.func.hessian", "torch.autograd.functional.hessian"
    return "dense" if any(word in name for word in dense) else "blocks"


def ratios(row: Row) -> dict[str, tuple[float, str]]:
    """For each form, the fastest way of hesse relative to the fastest other one, and who that is."""
    found = {}
    for form in ("blocks", "dense"):
        times = {name: t for name, t in row.times().items() if _form(name) == form or not _has_both(row)}
        mine = [t for name, t in times.items() if name.startswith(HESSE)]
        others = [(t, name) for name, t in times.items() if not name.startswith((HESSE, CLOSED))]
        if mine and others:
            best, rival = min(others)
            found[form] = min(mine) / best, rival
    return found if _has_both(row) else dict(list(found.items())[:1])


def _has_both(row: Row) -> bool:
    return any("structured" in m.name for m in row.measurements)


def _table(rows: Sequence[Row]) -> list[str]:
    names = list(dict.fromkeys(m.name for row in rows for m in row.measurements))
    headings = ("problem", rows[0].size_is, *names, "hesse to the fastest other")
    return markdown(headings, [_cells(row, names) for row in rows])


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    found: dict[str, Any] = {m.name: m for m in row.measurements}
    cells = [row.problem, f"{row.size:,}"]
    for name in names:
        m = found.get(name)
        cells.append("–" if m is None else time_text(m.seconds) if m.samples else "left out")
    several = ratios(row)
    prefix = len(several) > 1
    ratio = ", ".join(
        f"{form} {ratio_text(r)}" if prefix else ratio_text(r) for form, (r, _) in several.items()
    )
    return [*cells, ratio or "–"]


def _losses(rows: Sequence[Row]) -> list[str]:
    found = []
    for row in rows:
        for form, (ratio, rival) in ratios(row).items():
            mine = min((t for name, t in row.times().items() if name.startswith(HESSE)), default=0.0)
            if ratio > 1:
                small = " (launches only)" if row.device != "cpu" and mine < LAUNCHES else ""
                what = f", {form}" if _has_both(row) else ""
                place = f"{row.group}: {row.problem}, {row.size_is} {row.size:,}{what}"
                found.append(f"- {place}: {ratio_text(ratio)} to {rival}{small}")
    return found or ["Nowhere in this run."]


def _left_out(rows: Sequence[Row]) -> list[str]:
    found = [
        f"- {row.problem}, {row.size_is} {row.size:,}: {m.name}: {m.trouble}"
        for row in rows
        for m in row.measurements
        if m.trouble
    ]
    return ["### Left out", "", *found, ""] if found else []


def _training(trained: Sequence[Training]) -> list[str]:
    if not trained:
        return []
    headings = (
        "equation",
        "steps",
        "first loss",
        "last loss",
        "largest relative difference",
        "nested",
        HESSE,
    )
    body = [
        [
            t.equation,
            str(t.steps),
            f"{t.first_loss:.4g}",
            f"{t.last_loss:.4g}",
            f"{t.deviation:.1e}",
            time_text(t.seconds_nested / t.steps),
            time_text(t.seconds_hesse / t.steps),
        ]
        for t in trained
    ]
    text = (
        "A net trained by Adam (fused) from the same start, in double precision, with derivatives from "
        "nested autograd and from `hesse.value_and_grad`: the losses of all steps, and the time "
        "of a step with its update."
    )
    return ["### The same curve", "", text, "", *markdown(headings, body), ""]


def _plot(rows: Sequence[Row], folder: Path) -> list[str]:
    """A line for each row, a mark for each candidate."""
    if util.find_spec("matplotlib") is None:
        return []
    import_module("matplotlib").use("svg")
    import_module("matplotlib").rcParams.update({"svg.hashsalt": "hesse", "svg.fonttype": "none"})
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 2 + 0.3 * len(rows)), layout="constrained")
    upwards = rows[::-1]
    for name in dict.fromkeys(m.name for row in rows for m in row.measurements):
        at = [(row.times()[name], k) for k, row in enumerate(upwards) if name in row.times()]
        if at:
            axes.plot(*zip(*at, strict=True), "o" if name.startswith(HESSE) else "x", label=name)
    labels = [f"{row.problem}, {row.size_is} {row.size:,}" for row in upwards]
    axes.set_yticks(range(len(upwards)), labels, fontsize=7)
    axes.set(xscale="log", xlabel="seconds", title=rows[0].group)
    axes.grid(True, axis="x", alpha=0.3)
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    words = re.sub(r"\(.*\)", "", rows[0].group).split(" ")[:4]
    stem = re.sub(r"[^a-z0-9]+", "-", " ".join([rows[0].device, *words, rows[0].size_is]).lower()).strip("-")
    name = f"torch-{stem}"
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)
    return [f"![{name}](benchmarks/{name}.svg)"]
