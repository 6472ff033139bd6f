"""First calls, agreement, and samples in turns, of all candidates of a problem on a device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.candidates import Candidate, closed_forms, others
from benchmarks.gpu.cases import DENSE, Measurement, Row
from benchmarks.gpu.compiled import NAME, Compiler, Task
from benchmarks.speed.libraries import Jax, Torch, as_numpy
from benchmarks.speed.problem import Arrays, Problem

TOLERANCES = {"float32": 1e-3, "float64": 1e-8}
SAMPLE = 2e-3
"""Seconds that a sample should take at least."""
FEWEST, MOST = 3, 41
"""Samples of a candidate."""
OUT_OF_MEMORY = "out of memory"

Thunk = Callable[[], Any]
Timer = Callable[[int], float]
"""The mean time of so many calls."""


class Limits(NamedTuple):
    """Seconds for all samples of a row, and how much longer than all else torch may compile."""

    samples: float
    compiling: float


class Bench:
    """The libraries on one device; without JAX only what torch compiles can be measured."""

    def __init__(self, jax: Jax | None, torch: Torch) -> None:
        self.jax, self.torch = jax, torch

    def row(
        self, problem: Problem, size: int, dtype: str, form: str, compiler: Compiler | None, limits: Limits
    ) -> Row:
        """All candidates of a problem."""
        assert self.jax is not None
        if compiler is not None:
            compiler.begin(Task(problem.name, size, dtype))
        data = problem.data(size)
        found = [*closed_forms(problem, form, self.jax, self.torch)]
        reference = self._reference(problem, form, data, found[0])
        found += others(problem, form, self.jax, self.torch)
        row = Row(problem.name, size, dtype, form, [Measurement(c.name) for c in found])
        arguments = tuple(array.astype(dtype) for array in data)
        timers: list[tuple[Timer, Measurement]] = []
        for candidate, measurement in zip(found, row.measurements, strict=True):
            thunk = self._first(problem, form, candidate, arguments, reference, measurement)
            if thunk is not None:
                timers.append((_timer(thunk), measurement))
            self._clean()
        del reference
        self._clean()
        if compiler is not None:
            row.measurements.append(compiler.finish(limits.compiling))
            if not row.measurements[-1].trouble:
                timers.append((compiler.seconds, row.measurements[-1]))
        take_samples(timers, limits.samples)
        return row

    def compiled(self, problem: Problem, size: int, dtype: str) -> tuple[Measurement, Thunk | None]:
        """The derivative by torch, compiled."""
        data = problem.data(size)
        measurement = Measurement(NAME)
        (closed,) = closed_forms(problem, DENSE, None, self.torch)
        reference = self._reference(problem, DENSE, data, closed)
        func = self.torch.xp.func
        transform = func.hessian if problem.derivative == "hessian" else func.jacfwd
        derivative = transform(problem.function_for("torch", self.torch.xp))
        candidate = Candidate(NAME, self.torch, lambda: self.torch.xp.compile(derivative, dynamic=False))
        arguments = tuple(array.astype(dtype) for array in data)
        thunk = self._first(problem, DENSE, candidate, arguments, reference, measurement)
        del reference
        self._clean()
        return measurement, thunk

    def _clean(self) -> None:
        gc.collect()
        if self.torch.device != "cpu":
            self.torch.xp.cuda.empty_cache()

    def _reference(self, problem: Problem, form: str, data: Arrays, closed: Candidate) -> Any:
        """The closed form in double precision."""
        values = [closed.library.array(array) for array in data]
        return self._comparable(problem, form, closed, closed.make()(*values), data)

    def _first(
        self,
        problem: Problem,
        form: str,
        candidate: Candidate,
        arguments: Arrays,
        reference: Any,
        measurement: Measurement,
    ) -> Thunk | None:
        """The thunk of a candidate after its first call, which agrees with the reference."""
        library = candidate.library
        values = [library.array(array) for array in arguments]
        library.wait(values)
        memory = self._memory(candidate)
        start = time.perf_counter()
        try:
            function = candidate.make()
            result = library.wait(function(*values))
            measurement.first = time.perf_counter() - start
            measurement.peak_bytes = memory()
            library.check(result)
            difference = distance(self._comparable(problem, form, candidate, result, arguments), reference)
        except Exception as error:  # a library may fail in any way: the table says how
            measurement.trouble = trouble(error)
            return None
        if not difference <= TOLERANCES[str(arguments[0].dtype)]:
            measurement.trouble = f"DISAGREES by {difference:.1e}"
            return None
        return lambda: library.wait(function(*values))

    def _comparable(
        self, problem: Problem, form: str, candidate: Candidate, result: Any, arguments: Arrays
    ) -> Any:
        """A result as a tensor of torch in double precision; a structured one times a vector."""
        torch = self.torch
        if form != DENSE:
            vector = np.random.default_rng(1).normal(size=arguments[0].shape).astype(arguments[0].dtype)
            if candidate.is_closed:
                assert problem.product is not None
                return torch.array(problem.product(as_numpy(result), vector, *arguments)).double()
            result = result @ candidate.library.array(vector)
        tensor = result if candidate.library is torch else torch.xp.from_dlpack(result)
        return tensor.double()

    def _memory(self, candidate: Candidate) -> Callable[[], int | None]:
        """Asks afterwards for the most bytes that were held beyond those held now, where that is known."""
        if self.torch.device == "cpu":
            return lambda: None
        if candidate.library is self.torch:
            cuda = self.torch.xp.cuda
            cuda.reset_peak_memory_stats()
            held = cuda.memory_allocated()
            return lambda: cuda.max_memory_allocated() - held
        assert self.jax is not None
        device = self.jax.jax.devices()[0]
        before = device.memory_stats()

        def rise() -> int | None:  # JAX never forgets its peak: known only where this is a higher one
            peak = device.memory_stats()["peak_bytes_in_use"]
            return peak - before["bytes_in_use"] if peak > before["peak_bytes_in_use"] else None

        return rise


def trouble(error: Exception) -> str:
    """Why a library failed, in a line."""
    text = str(error)
    if any(word in text.lower() for word in ("out of memory", "resource_exhausted")):
        return OUT_OF_MEMORY
    lines = text.splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:120]}"


def distance(left: Any, right: Any) -> float:
    """The largest difference relative to the largest entry, of two tensors of torch."""
    if left.shape != right.shape:
        return float("inf")
    return float((left - right).abs().max() / right.abs().max().clamp_min(1e-300))


def take_samples(timers: list[tuple[Timer, Measurement]], seconds: float) -> None:
    """Rounds over all candidates in turns, every other one backwards; slow ones take part in fewer rounds."""
    share = seconds / max(len(timers), 1)
    turns = [(timer, m, max(1, int(SAMPLE / max(timer(2), 1e-7)))) for timer, m in timers]
    gc.collect()
    gc.disable()
    for turn in range(MOST):
        turns.reverse()
        for timer, m, count in turns:
            if turn < FEWEST or sum(m.samples) * count < share:
                m.samples.append(timer(count))
    gc.enable()


def seconds_of(thunk: Thunk, count: int) -> float:
    """The mean time of so many calls, after one that is not timed."""
    thunk()
    start = time.perf_counter()
    for _ in range(count):
        thunk()
    return (time.perf_counter() - start) / count


def _timer(thunk: Thunk) -> Timer:
    return lambda count: seconds_of(thunk, count)
