"""One version of hesse as a process that is asked for samples, one JSON list for each line of its input."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hesse
from benchmarks.compare.statistics import fingerprint
from benchmarks.speed.candidates import HESSE, Candidate, Thunk, dense_entries, own_candidates
from benchmarks.speed.harness import SHORT
from benchmarks.speed.problems import PROBLEMS

LONG = 0.05
"""Seconds of a call before which nothing is run to fill the caches."""


class Session:
    """The problem, the size and the candidate that were asked for last."""

    def __init__(self) -> None:
        self.candidates: dict[str, Candidate] = {}
        self.thunk: Thunk | None = None
        self.seconds = 0.0

    def open(self, name: str, size: int) -> dict[str, Any]:
        """Make the data of a problem; which comparisons it has."""
        self.thunk = None
        problem = next(problem for problem in PROBLEMS if problem.name == name)
        arguments = problem.data(size)
        with_dense = 8 * dense_entries(problem, arguments) <= SHORT.dense_bytes
        own = own_candidates(problem, arguments, with_dense)
        self.candidates = {candidate.comparison: candidate for candidate in own if candidate.name == HESSE}
        return {"comparisons": list(self.candidates)}

    def prepare(self, comparison: str) -> dict[str, Any]:
        """The first call of a candidate, and what it computes."""
        candidate = self.candidates[comparison]
        self.thunk = None
        gc.collect()
        start = time.perf_counter()
        self.thunk = candidate.prepare()
        result = self.thunk()
        first = time.perf_counter() - start
        prints = [fingerprint(array) for array in candidate.compare(result)]
        del result
        self.seconds = self._seconds(1)
        gc.collect()
        gc.disable()
        return {"first": first, "prints": prints, "seconds": self.seconds}

    def sample(self, count: int) -> dict[str, Any]:
        """Seconds of a call, the mean of so many."""
        assert self.thunk is not None
        if self.seconds < LONG:  # not timed: the other version may have emptied the cache
            self.thunk()
        return {"seconds": self._seconds(count)}

    def _seconds(self, count: int) -> float:
        thunk = self.thunk
        assert thunk is not None
        start = time.perf_counter()
        for _ in range(count):
            thunk()
        return (time.perf_counter() - start) / count


def answers(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The answer to each request; the first says which version this is."""
    yield {"source": str(Path(hesse.__file__).resolve().parents[1])}
    session = Session()
    for line in lines:
        action, *arguments = json.loads(line)
        try:
            yield {"open": session.open, "prepare": session.prepare, "sample": session.sample}[action](
                *arguments
            )
        except Exception as error:  # a version may fail in any way: the table says how
            yield {"trouble": f"{type(error).__name__}: {str(error).partition(chr(10))[0][:120]}"}


def main() -> None:
    """Answer until the input ends."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for answer in answers(iter(sys.stdin)):
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
