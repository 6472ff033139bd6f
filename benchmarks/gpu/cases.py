"""The problems of the comparison on a device, and what is measured for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from benchmarks.speed.problem import Problem
from benchmarks.speed.problems import PROBLEMS

DENSE, STRUCTURED = "dense", "structured"


class Sizes(NamedTuple):
    """Sizes of a problem: to try the program out, where launches count, and where the device is busy."""

    tiny: int
    small: int
    large: int


SIZES = {
    "quadratic": Sizes(6, 1000, 10_000),
    "logistic regression": Sizes(6, 1000, 4000),
    "factorisation, k = 5": Sizes(6, 200, 2000),
    "masked factorisation, k = 5": Sizes(6, 200, 2000),
    "ten-layer ReLU net, first layer": Sizes(8, 20, 100),
    "attention by Q": Sizes(5, 64, 512),
    "pair potential": Sizes(5, 150, 2000),
    "batch as a sum": Sizes(5, 200, 2000),
    "convolution and tanh": Sizes(6, 12, 48),
    "Rosenbrock chain": Sizes(6, 1000, 10_000),
}


@dataclass
class Measurement:
    """One candidate: seconds of its first call and of others, bytes, or why there are none."""

    name: str
    first: float | None = None
    samples: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    trouble: str = ""

    @property
    def seconds(self) -> float:
        """The median time of a call."""
        return median(self.samples)


@dataclass
class Row:
    """All candidates of a problem at one size in one precision."""

    problem: str
    size: int
    dtype: str
    form: str
    measurements: list[Measurement]

    def times(self) -> dict[str, float]:
        """Seconds of each candidate that was timed."""
        return {m.name: m.seconds for m in self.measurements if m.samples}


def problems_by_name() -> dict[str, Problem]:
    """All problems of the benchmark."""
    return {problem.name: problem for problem in PROBLEMS}


def problems(only: str, is_tiny: bool) -> Iterator[tuple[Problem, int]]:
    """The problems whose name contains a text, at each of their sizes."""
    known = problems_by_name()
    for name, sizes in SIZES.items():
        if only in name:
            for size in [sizes.tiny] if is_tiny else [sizes.small, sizes.large]:
                yield known[name], size
