"""Check that all candidates of a problem agree, then time them in turns in one process."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from benchmarks.speed.backends import backend_candidates
from benchmarks.speed.candidates import (
    CLOSED,
    DENSE,
    OURS,
    PRODUCT,
    STRUCTURED,
    Candidate,
    Thunk,
    dense_entries,
    derivative_of,
    direction,
    has_structured,
    own_candidates,
)
from benchmarks.speed.peers import dense_peers, structured_peers
from benchmarks.speed.problem import Arrays, Problem

TOLERANCE = 1e-8
SLOW_CALL = 0.25
"""Seconds; quicker ones are called once before they are timed.

The one before them has emptied the cache, and may be giving back its memory still: that takes tens of
milliseconds after a large derivative in JAX.
"""


@dataclass(frozen=True)
class Limits:
    """What a run may take; libraries that would need more are left out and the table says so."""

    dense_bytes: float
    peer_bytes: float
    seconds_per_row: float
    """Time for all rounds of one problem at one size."""
    slow_seconds: float
    """A library that takes twice as long for a call, or five times as long to prepare, is left out."""


SHORT = Limits(dense_bytes=8.1e8, peer_bytes=1e9, seconds_per_row=2.0, slow_seconds=2.0)
FULL = Limits(dense_bytes=1.2e9, peer_bytes=2e9, seconds_per_row=3.0, slow_seconds=2.0)


@dataclass
class Measurement:
    """One candidate at one size. Times in seconds; `problem` says why there are none."""

    name: str
    comparison: str
    first: float = 0.0
    samples: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    trouble: str = ""

    @property
    def seconds(self) -> float:
        """The median time of a call."""
        return median(self.samples)


@dataclass
class Row:
    """All candidates of a problem at one size."""

    problem: str
    group: str
    size: int
    measurements: list[Measurement]

    def times(self, comparison: str) -> dict[str, float]:
        """Seconds of each candidate that was timed."""
        return {m.name: m.seconds for m in self.measurements if m.comparison == comparison and m.samples}

    def of(self, name: str, comparison: str) -> Measurement | None:
        """The measurement of a candidate."""
        found = [m for m in self.measurements if (m.name, m.comparison) == (name, comparison)]
        return found[0] if found else None

    def fastest_library(self) -> tuple[str, float] | None:
        """The fastest other library that forms the dense result."""
        times = self.times(DENSE)
        others = {name: t for name, t in times.items() if name not in OURS}
        return min(others.items(), key=lambda item: item[1]) if others else None


class Disagreement(AssertionError):
    """A candidate computes something else than the others."""


def distance(left: np.ndarray, right: np.ndarray) -> float:
    """The largest difference relative to the largest entry."""
    if left.shape != right.shape:
        return float("inf")
    scale = np.max(np.abs(right), initial=1e-300)
    return float(np.max(np.abs(left - right), initial=0.0) / scale)


def check_small(problem: Problem) -> None:
    """hesse, dense and structured, against the closed form at the smallest size."""
    arguments = problem.data(problem.sizes.guard)
    dense = derivative_of(problem)(*arguments)
    if problem.closed is not None:
        _agree(problem, "hesse", _listed(dense), _listed(problem.closed(*arguments)))
    if has_structured(problem) and problem.kept is not None:
        structured = derivative_of(problem, STRUCTURED)(*arguments)
        _agree(problem, "hesse structured", [np.asarray(structured)], _listed(dense))


def _listed(result: object) -> list[np.ndarray]:
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def _agree(problem: Problem, name: str, found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    worst = max(distance(a, b) for a, b in zip(found, expected, strict=True))
    if not worst <= TOLERANCE:
        raise Disagreement(f"{problem.name}: {name} differs from the reference by {worst:.1e}")


def run_problem(
    problem: Problem,
    sizes: tuple[int, ...],
    limits: Limits,
    with_compile: bool,
    say: Callable[[str], None],
) -> list[Row]:
    """The rows of a problem, smallest size first."""
    check_small(problem)
    slow: dict[tuple[str, str], str] = {}
    rows = []
    for size, following in zip(sizes, (*sizes[1:], sizes[-1]), strict=True):
        row = _run_size(problem, size, limits, with_compile, slow)
        for m in row.measurements:
            if m.samples and m.name not in OURS:
                growth = (following / size) ** (2 if m.comparison == DENSE else 1)  # at least
                if m.seconds * growth > 2 * limits.slow_seconds:
                    slow[m.name, m.comparison] = f"took {m.seconds:.1f} s at size {size:,}"
                elif m.first > 5 * limits.slow_seconds:
                    slow[m.name, m.comparison] = f"took {m.first:.1f} s to prepare at size {size:,}"
        rows.append(row)
        say(f"{problem.name}, {size}")
    return rows


def _run_size(
    problem: Problem, size: int, limits: Limits, with_compile: bool, slow: dict[tuple[str, str], str]
) -> Row:
    arguments = problem.data(size)
    entries = dense_entries(problem, arguments)
    with_dense = entries * 8 <= limits.dense_bytes
    candidates = own_candidates(problem, arguments, with_dense)
    candidates += backend_candidates(problem, arguments, with_dense)
    peers = structured_peers(problem, arguments)
    pushed = max(arguments[0].size * problem.widest(size), entries) * 8
    is_batched = problem.derivative not in ("value_and_grad", "hvp")
    if with_dense and (pushed <= limits.peer_bytes or not is_batched):
        peers += dense_peers(problem, arguments, with_compile)
    measurements = [Measurement(c.name, c.comparison) for c in candidates]
    for peer in peers:
        reason = slow.get((peer.name, peer.comparison)) or problem.left_out.get(peer.name, "")
        measurements.append(Measurement(peer.name, peer.comparison, trouble=reason))
        candidates.append(peer)
    thunks = _prepared(problem, arguments, candidates, measurements)
    _time(thunks, measurements, limits.seconds_per_row)
    for candidate, thunk, m in zip(candidates, thunks, measurements, strict=True):
        if candidate.is_numpy and thunk is not None and m.samples and m.seconds < limits.slow_seconds:
            m.peak_bytes = _peak(thunk)
    return Row(problem.name, problem.group, size, measurements)


def _prepared(
    problem: Problem, arguments: Arrays, candidates: list[Candidate], measurements: list[Measurement]
) -> list[Thunk | None]:
    """The thunks of all candidates after their first call; they have been checked against each other."""
    references: dict[str, list[np.ndarray]] = {}
    order = sorted(range(len(candidates)), key=lambda k: candidates[k].name != CLOSED)
    thunks: list[Thunk | None] = [None] * len(candidates)
    for k in order:
        candidate, m = candidates[k], measurements[k]
        if m.trouble:
            continue
        start = time.perf_counter()
        try:
            thunk = candidate.prepare()
            result = thunk()
            m.first = time.perf_counter() - start
            found = candidate.compare(result)
        except Exception as error:  # another library may fail in any way: the table says how
            if candidate.name == CLOSED:
                raise
            m.trouble = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
            continue
        del result
        _agree(problem, candidate.name, found, references.setdefault(candidate.comparison, found))
        if not candidate.is_rebuilt:
            thunks[k] = thunk
        del thunk, found
        gc.collect()
    _agree_across(problem, arguments, references)
    for k, candidate in enumerate(candidates):
        if candidate.is_rebuilt and not measurements[k].trouble:
            thunks[k] = thunk = candidate.prepare()
            thunk()  # another first call
    return thunks


def _agree_across(problem: Problem, arguments: Arrays, references: dict[str, list[np.ndarray]]) -> None:
    """The structured results against the dense one, by a product with a vector."""
    if DENSE not in references or PRODUCT not in references:
        return
    (dense,) = references[DENSE]
    expected = np.tensordot(dense, direction(arguments), axes=arguments[0].ndim)
    _agree(problem, "structured product", references[PRODUCT], [expected])
    _agree(problem, "structured", references[STRUCTURED], [expected])


def _time(thunks: list[Thunk | None], measurements: list[Measurement], budget: float) -> None:
    """Rounds over all thunks in turns; slow ones take part in fewer rounds."""
    active = [(thunk, m) for thunk, m in zip(thunks, measurements, strict=True) if thunk is not None]
    share = budget / max(len(active), 1)
    repeats = [_repeats(thunk, m) for thunk, m in active]
    gc.collect()
    gc.disable()
    turns = list(zip(active, repeats, strict=True))
    for turn in range(25):
        turns.reverse()  # who follows on whom finds the data in the cache: each in every other round
        for (thunk, m), count in turns:
            spent = sum(m.samples) * count
            if spent > (share if turn >= 5 else 2 * share + 1):
                continue
            if not m.samples or m.samples[-1] < SLOW_CALL:
                thunk()
            m.samples.append(_seconds(thunk, count))
    gc.enable()


def _repeats(thunk: Thunk, measurement: Measurement) -> int:
    """How often to call within one sample so that it takes about two milliseconds."""
    seconds = _seconds(thunk, 1)
    if seconds > 1:  # slow: this is a sample already
        measurement.samples.append(seconds)
    return max(1, int(2e-3 / max(seconds, 1e-7)))


def _seconds(thunk: Thunk, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        thunk()
    return (time.perf_counter() - start) / count


def _peak(thunk: Thunk) -> int:
    tracemalloc.start()
    result = thunk()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return peak
