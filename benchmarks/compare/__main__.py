"""`python -m benchmarks.compare OLD [NEW] [--only TEXT] [--seconds S]`: is a version slower than another?

OLD and NEW are folders that hold `src/hesse`, such as worktrees. Both run the problems of the short
benchmark as they are here, in two processes whose samples alternate. What seems slower is measured again,
several times in fresh processes; the exit status is 1 if it still is, or if something fails or differs.
First calls (tracing, planning, compiling and one run) are compared, too, but do not count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks.compare.process import ROOT, Pairs, Trouble, Version, measure, opened, prepared, versions
from benchmarks.compare.statistics import SLOWER, UNKNOWN, Ratio, differs, ratio
from benchmarks.speed.problem import Problem
from benchmarks.speed.problems import PROBLEMS
from benchmarks.texts import columns, time_text

AGAIN = 5
"""How often a row that seems slower is measured again: where arrays lie differs from process to process."""
SLOWER_FIRST, FIRST_NOISE = 1.15, 5e-3
"""A first call is slower if it takes so many times as long and so many seconds more."""
FIRST_CALLS = 3
"""How often it is then measured again."""
HEADINGS = ("problem", "size", "result", "old", "new", "new/old", "95 %", "first old", "first new", "", "")


@dataclass
class Row:
    """What was found for one result of a problem at one size."""

    problem: str
    size: int
    comparison: str
    trouble: str = ""
    times: tuple[float, float] = (0.0, 0.0)
    firsts: tuple[float, float] = (0.0, 0.0)
    ratio: Ratio = UNKNOWN
    is_again: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether the new version is slower, fails or computes something else."""
        return bool(self.trouble) or self.ratio.is_slower

    @property
    def has_slower_first(self) -> bool:
        """Whether the first call is clearly slower."""
        old, new = self.firsts
        return new > SLOWER_FIRST * old and new > old + FIRST_NOISE

    def enter(self, old: list[float], new: list[float]) -> None:
        """What the samples of both versions say."""
        self.times = median(old), median(new)
        self.ratio = ratio(old, new)

    def cells(self) -> list[str]:
        """The row of the table."""
        place = [self.problem, f"{self.size:,}", self.comparison]
        if self.trouble:
            return [*place, *([""] * 6), "FAILS", self.trouble]
        interval = f"{self.ratio.least:.2f} – {self.ratio.most:.2f}"
        marks = ["SLOWER"] * self.ratio.is_slower + ["first call"] * self.has_slower_first
        again = "measured again" if self.is_again else ""
        times = [*map(time_text, self.times), f"{self.ratio.middle:.3f}", interval]
        return [*place, *times, *map(time_text, self.firsts), ", ".join(marks), again]


class Comparison:
    """Two trees, and how long to measure a row."""

    def __init__(self, old: Path, new: Path, seconds: float) -> None:
        self.trees = old, new
        self.seconds = seconds
        self.start = time.monotonic()

    def say(self, text: str) -> None:
        """A line about the progress."""
        print(f"{time.monotonic() - self.start:6.0f} s  {text}", file=sys.stderr, flush=True)

    def rows(self, problem: Problem) -> Iterator[Row]:
        """Each result of a problem at each size, measured once."""
        with versions(*self.trees) as pair:
            for size in problem.sizes.short:
                for comparison in opened(pair, problem.name, size):
                    yield self._row(pair, Row(problem.name, size, comparison))
                self.say(f"{problem.name}, {size}")

    def _row(self, pair: tuple[Version, Version], row: Row) -> Row:
        try:
            pairs = prepared(pair, row.comparison)
            row.firsts = pairs.prepared[0]["first"], pairs.prepared[1]["first"]
            measure(pair, pairs, self.seconds)
            row.enter(*pairs.samples)
            if differs(*(answer["prints"] for answer in pairs.prepared)):
                row.trouble = "the results differ"
        except Trouble as trouble:
            row.trouble = str(trouble)
        return row

    def confirm(self, rows: list[Row]) -> None:
        """Measure the rows of a problem that seem slower again, in fresh processes."""
        slower = [row for row in rows if not row.trouble and row.ratio.is_slower]
        if slower:
            self.say(f"again: {slower[0].problem}, {len(slower)} of {len(rows)} rows")
            runs = [self._again(slower) for _ in range(AGAIN)]
            for k, row in enumerate(slower):
                row.enter(*(list(chain(*(run[k].samples[which] for run in runs))) for which in (0, 1)))
                row.is_again = True
        for row in rows:
            if not row.trouble and row.has_slower_first:
                self.say(f"first call again: {row.problem}, {row.size}, {row.comparison}")
                firsts = [self._firsts(row) for _ in range(FIRST_CALLS)]
                row.firsts = min(old for old, _ in firsts), min(new for _, new in firsts)

    def _again(self, rows: list[Row]) -> list[Pairs]:
        found = []
        with versions(*self.trees) as pair:
            for row in rows:
                opened(pair, row.problem, row.size)
                found.append(prepared(pair, row.comparison))
                measure(pair, found[-1], self.seconds)
        return found

    def _firsts(self, row: Row) -> tuple[float, float]:
        """First calls in processes that have done nothing else."""
        with versions(*self.trees) as pair:
            opened(pair, row.problem, row.size)
            old, new = prepared(pair, row.comparison).prepared
        return old["first"], new["first"]


def report(rows: list[Row]) -> str:
    """The table, slowest rows last, and what it comes to."""
    rows = sorted(rows, key=lambda row: (bool(row.trouble), row.ratio.middle))
    parts = [columns(HEADINGS, [row.cells() for row in rows])]
    timed = [row for row in rows if not row.trouble]
    for comparison in dict.fromkeys(row.comparison for row in timed):
        mean = geometric_mean(row.ratio.middle for row in timed if row.comparison == comparison)
        parts.append(f"{comparison}: new/old {mean:.3f} in the geometric mean")
    old, new = (sum(row.firsts[k] for row in timed) for k in (0, 1))
    parts.append(f"first calls together: old {time_text(old)}, new {time_text(new)}")
    bad = sum(row.is_bad for row in rows)
    firsts = sum(row.has_slower_first for row in timed)
    parts.append(f"slower by more than {SLOWER - 1:.0%} or failing: {bad} of {len(rows)} rows")
    parts.append(f"slower first calls: {firsts}")
    return "\n".join(parts)


def main() -> int:
    """Compare, print, and tell by the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("old", type=Path, help="a folder with src/hesse in it")
    parser.add_argument("new", type=Path, nargs="?", default=ROOT, help="another one; this tree by default")
    parser.add_argument("--only", default="", help="problems whose name contains this text")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for the samples of a row")
    options = parser.parse_args()
    for tree in (options.old, options.new):
        if not (tree / "src" / "hesse").is_dir():
            parser.error(f"{tree} has no src/hesse")
    comparison = Comparison(options.old, options.new, options.seconds)
    chosen = [problem for problem in PROBLEMS if options.only in problem.name]
    rows = []
    for problem in chosen:
        found = list(comparison.rows(problem))
        comparison.confirm(found)
        rows += found
    print(report(rows))
    return int(any(row.is_bad for row in rows))


if __name__ == "__main__":
    sys.exit(main())
