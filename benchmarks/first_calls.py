"""`python -m benchmarks.first_calls`: first calls through JAX, each in a process that has compiled nothing.

A process that has measured one library has warmed the compiler for the next one. Here the parent imports
everything and starts no compiler; for each call it forks a child, which starts one, makes one derivative,
calls it and says how long that took: tracing, planning and XLA together. hesse and JAX take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import hesse
from benchmarks.speed.candidates import DENSE, dense_entries, derivative_of
from benchmarks.speed.libraries import jax_library
from benchmarks.speed.peers import jax_transforms
from benchmarks.speed.problem import Arrays, Problem
from benchmarks.speed.problems import PROBLEMS
from benchmarks.texts import columns, ratio_text, time_text
from benchmarks.trains.page import table, write

DENSE_ENTRIES = 10**7
"""Larger dense results are not formed."""
SLOWEST = 20.0
"""Seconds after which a child is given up."""

PAGE = Path(__file__).resolve().parents[1] / "docs" / "jax.md"
HEADINGS = ["problem", "size", "hesse", "JAX", "its fastest way", "hesse to JAX"]

Call = Callable[[], Any]


def child_seconds(make: Callable[[], Call]) -> float:
    """The time of a first call in a child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            jax.block_until_ready(jax.jit(lambda x: x @ x)(np.ones((2, 2))))
            hesse.grad(jax.numpy.sum)(jax.numpy.ones(2))  # and what hesse has for JAX
            start = time.perf_counter()
            jax.block_until_ready(make()())
            os.write(writing, repr(time.perf_counter() - start).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError("a child said nothing")
    return float(text)


def by_hesse(problem: Problem, arguments: Arrays) -> Callable[[], Call]:
    """The JAX function, differentiated by hesse."""

    def make() -> Call:
        library = jax_library()
        values = [library.array(a) for a in arguments]
        derivative = derivative_of(problem, DENSE, library)
        return lambda: derivative(*values)

    return make


def by_jax(problem: Problem, transform: Callable[..., Any], arguments: Arrays) -> Callable[[], Call]:
    """The same by JAX, jitted."""

    def make() -> Call:
        function = jax.jit(transform(problem.function_for("jax", jax.numpy)))
        values = [jax.numpy.asarray(a) for a in arguments]
        return lambda: function(*values)

    return make


def candidates(problem: Problem, arguments: Arrays) -> dict[str, Callable[[], Call]]:
    """hesse, and the ways of JAX."""
    found = {"hesse": by_hesse(problem, arguments)}
    for name, transform in jax_transforms(problem.derivative).items():
        found[name] = by_jax(problem, transform, arguments)
    return found


def row(problem: Problem, size: int, rounds: int) -> list[str] | None:
    """The medians of a problem; None where it has no dense result, or JAX no way to it."""
    arguments = problem.data(size)
    if dense_entries(problem, arguments) > DENSE_ENTRIES or problem.derivative == "newton":
        return None
    calls = candidates(problem, arguments)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, make in calls.items():
            if sum(times[name]) < SLOWEST:
                times[name].append(child_seconds(make))
    median = {name: statistics.median(found) for name, found in times.items()}
    others = {name: seconds for name, seconds in median.items() if name != "hesse"}
    best = min(others, key=others.__getitem__)
    cells = [time_text(median["hesse"]), time_text(others[best]), best]
    return [problem.name, f"{size:,}", *cells, ratio_text(median["hesse"] / others[best])]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_calls", description=__doc__)
    parser.add_argument("--only", default="", help="problems whose name contains this text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--all-sizes", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    options = parser.parse_args()
    jax_library()  # all children compute in double precision
    body = []
    for problem in PROBLEMS:
        for size in problem.sizes.short if options.all_sizes else problem.sizes.short[:1]:
            if options.only in problem.name and (found := row(problem, size, options.rounds)):
                body.append(found)
                print(" | ".join(found), file=sys.stderr, flush=True)
    about = f"JAX {jax.__version__}, {os.cpu_count()} cores; medians of {options.rounds} processes each."
    print(about)
    print(columns(HEADINGS, body))
    if options.write:
        write("first calls", f"{about}\n\n{table(HEADINGS, body)}", PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
