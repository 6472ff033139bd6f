"""Tensors found again from few of their entries, from random starts and from near ones.

Oversampling is the number of entries divided by the dimension of the manifold. A start that is near has 5 %
of noise in each core. The error is that of 2,000 entries which the solver does not see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.trains.page import table
from hesse import tt
from hesse.manifolds import TensorTrains
from hesse.solvers import minimize

SEEDS = 10
FOUND, NEAR = 1e-4, 1e-9
PROBLEMS = [((200, 200), 5, 3), ((40,) * 3, 3, 12), ((20,) * 4, 3, 32)]
WANTED = (9, 10, 10)
"""So many of ten seeds are expected to be found."""
NEAR_PROBLEM = ((20,) * 4, 3, 2)
NEAR_STEPS = {"gauss-newton": 6, "cg": 250}


class Problem(NamedTuple):
    """A tensor, its misfit at the entries that are known, and its error at others."""

    target: tt.TensorTrain
    misfit: Callable[[Any], Any]
    error: Callable[[tt.TensorTrain], float]


def problem(shape: tuple[int, ...], rank: int, oversampling: float, seed: int) -> Problem:
    """A random tensor and positions of entries."""
    target = tt.random(shape, rank, rng=100 + seed)
    count = int(oversampling * TensorTrains(shape, rank).dimension)
    rng = np.random.default_rng(seed)
    where, test = rng.integers(0, shape, (count, len(shape))), rng.integers(0, shape, (2000, len(shape)))
    values, hidden = tt.gather(target, where), tt.gather(target, test)

    def error(X: tt.TensorTrain) -> float:
        return float(np.linalg.norm(tt.gather(X, test) - hidden) / np.linalg.norm(hidden))

    return Problem(target, lambda X: ((tt.gather(X, where) - values) ** 2).sum(), error)


def near(target: tt.TensorTrain, seed: int) -> tt.TensorTrain:
    """A train with noise in each core."""
    rng = np.random.default_rng(seed)
    return tt.TensorTrain(
        [c + 0.05 * np.linalg.norm(c) / np.sqrt(c.size) * rng.standard_normal(c.shape) for c in target.cores]
    )


def rows() -> Iterator[list[str]]:
    """For each problem and method: how often, in how many steps, how fast."""
    for shape, rank, oversampling in PROBLEMS:
        start, errors, steps = time.perf_counter(), [], []
        for seed in range(SEEDS):
            made = problem(shape, rank, oversampling, seed)
            result = minimize(made.misfit, tt.random(shape, rank, rng=50 + seed), method="cg")
            errors.append(made.error(result.point))
            steps.append(result.steps)
        yield _row("random", shape, rank, oversampling, "cg", errors, FOUND, steps, start)
    for method in NEAR_STEPS:
        shape, rank, oversampling = NEAR_PROBLEM
        start, errors, steps = time.perf_counter(), [], []
        for seed in range(SEEDS):
            made = problem(shape, rank, oversampling, seed)
            result = minimize(
                made.misfit,
                near(made.target, seed),
                method=method,
                tol=0.0,
                steps=300,
                callback=lambda X, _, made=made: made.error(X) < NEAR,
            )
            errors.append(made.error(result.point))
            steps.append(result.steps)
        yield _row("near", shape, rank, oversampling, method, errors, NEAR, steps, start)


def _row(
    start: str,
    shape: tuple[int, ...],
    rank: int,
    oversampling: float,
    method: str,
    errors: list[float],
    limit: float,
    steps: list[int],
    begin: float,
) -> list[str]:
    return [
        f"{' × '.join(map(str, shape))}, rank {rank}, {oversampling:g}-fold, {start} start, {method}",
        f"{sum(error < limit for error in errors)} of {len(errors)} below {limit:.0e}",
        f"{int(np.median(steps))} (at most {max(steps)})",
        f"{(time.perf_counter() - begin) / len(errors):.1f}",
    ]


HEAD = ["problem", "found", "steps", "seconds each"]


def text() -> str:
    """The table, printed row by row on the way."""
    found = []
    for row in rows():
        print(" | ".join(row), flush=True)
        found.append(row)
    return table(HEAD, found)
