"""`python -m benchmarks.adbench [--only TEXT] [--no-compile] [--write]`: ADBench, the time per call.

All candidates of a row must agree with jitted JAX. Then they are called in turns, and medians are taken.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # idle threads of one library must not slow the next

import numpy as np

from benchmarks.adbench import bundles, hands, mixtures, sequences
from benchmarks.adbench.candidates import JAX, Thunk, candidates
from benchmarks.adbench.case import Case
from benchmarks.adbench.report import HEADINGS, Row, cells, losses, page
from benchmarks.texts import columns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks-adbench.md"
TOLERANCE = 1e-8
PATIENCE, FEWEST, MOST = 2.0, 5, 51
"""Seconds for the samples of a row, and how many samples a candidate has."""
QUIET = 0.3
"""Seconds before each first call: threads of the library before may still be waiting busily for more."""
SAMPLE = 2e-3
"""Seconds that a sample should take at least."""


def cases() -> Iterator[Case]:
    """All problems at all sizes."""
    for module in (mixtures, sequences, bundles, hands):
        yield from module.cases()


def main() -> int:
    """Print the table, and write the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adbench", description=__doc__)
    parser.add_argument("--only", default="", help="rows whose problem and size contain this text")
    parser.add_argument("--no-compile", action="store_true", help="without torch, which compiles for long")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    rows = []
    for case in cases():
        if options.only in f"{case.problem}, {case.size}":
            rows.append(measured(case, not options.no_compile))
            print(*cells(rows[-1]), *rows[-1].trouble.values(), sep="  ", file=sys.stderr, flush=True)
    print(columns(HEADINGS, map(cells, rows)), *losses(rows), sep="\n")
    if options.write:
        page(rows, PAGE)
    return 0


def measured(case: Case, with_compile: bool) -> Row:
    """First calls, which must agree, and then samples in turns."""
    row = Row(case.problem, case.size, case.derivative)
    calls: list[tuple[Thunk, list[float]]] = []
    expected: list[np.ndarray] = []
    for candidate in candidates(case, with_compile):
        time.sleep(QUIET)
        start = time.perf_counter()
        try:
            thunk = candidate.prepare()
            result = thunk()
        except Exception as error:  # another library may fail in any way: the page says how
            row.trouble[candidate.name] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
            continue
        row.first[candidate.name] = time.perf_counter() - start
        found = candidate.products(result)
        expected = found if candidate.name == JAX else expected
        worst = max(distance(*pair) for pair in zip(found, expected, strict=True))
        if not worst < TOLERANCE:
            raise AssertionError(f"{case.problem}, {case.size}: {candidate.name} disagrees by {worst:.1e}")
        calls.append((thunk, row.samples.setdefault(candidate.name, [])))
    function = case.function(np)
    calls.append((lambda: function(*case.arguments), row.function))
    take_samples(calls)
    return row


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference relative to the largest entry."""
    if found.shape != expected.shape:
        return float("inf")
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300))


def take_samples(calls: list[tuple[Thunk, list[float]]]) -> None:
    """Turns in alternating order until the time is over; each has its fewest samples at least."""
    counts = [max(1, int(SAMPLE / max(seconds(thunk, 1), 1e-7))) for thunk, _ in calls]
    turns = list(zip(calls, counts, strict=True))
    gc.collect()
    end = time.perf_counter() + PATIENCE
    for turn in range(MOST):
        if turn >= FEWEST and time.perf_counter() > end:
            break
        turns.reverse()
        for (thunk, samples), count in turns:
            samples.append(seconds(thunk, count))


def seconds(thunk: Callable[[], Any], count: int) -> float:
    """The mean time of a call."""
    start = time.perf_counter()
    for _ in range(count):
        thunk()
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    sys.exit(main())
