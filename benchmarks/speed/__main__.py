"""`python -m benchmarks.speed [--full] [--compile] [--resume] [--only TEXT] [--no-docs] [--render]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # idle threads of one library must not slow the next

from benchmarks.speed.harness import FULL, SHORT, Row, run_problem
from benchmarks.speed.peers import import_all
from benchmarks.speed.plots import write_plots
from benchmarks.speed.problems import PROBLEMS
from benchmarks.speed.report import read_json, terminal, write_json, write_page

NAMES = [problem.name for problem in PROBLEMS]
DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> int:
    """Run the problems, print the table, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=main.__doc__)
    parser.add_argument("--full", action="store_true", help="all sizes, and torch.compile")
    parser.add_argument("--compile", action="store_true", help="torch.compile in a short run too")
    parser.add_argument("--resume", action="store_true", help="continue a run that was interrupted")
    parser.add_argument("--only", default="", help="problems whose name contains this text")
    parser.add_argument("--no-docs", action="store_true", help="print the table, write nothing")
    parser.add_argument("--render", action="store_true", help="write the page again from the last results")
    options = parser.parse_args()
    results = DOCS / "benchmarks" / "results.json"
    if not options.render:
        is_kept = not (options.no_docs or options.only)
        rows = read_json(results)[1] if options.resume else []
        for found in measured(options, {row.problem for row in rows}):
            rows = sorted([*rows, *found], key=lambda row: NAMES.index(row.problem))
            if is_kept:
                write_json(rows, results)  # after each problem: `--resume` goes on from there
        print(terminal(rows))
        if not is_kept:
            return 0
    known, rows = read_json(results)
    write_page(rows, known, DOCS / "benchmarks.md", write_plots(rows, DOCS / "benchmarks"))
    return 0


def measured(options: argparse.Namespace, known: Collection[str]) -> Iterator[list[Row]]:
    """The rows of each problem that was asked for and is not known."""
    import_all()
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {text}", file=sys.stderr, flush=True)

    for problem in PROBLEMS:
        if options.only in problem.name and problem.name not in known:
            sizes = problem.sizes.full if options.full else problem.sizes.short
            limits = FULL if options.full else SHORT
            yield run_problem(problem, sizes, limits, options.full or options.compile, say)


if __name__ == "__main__":
    sys.exit(main())
