"""Processes in which torch.compile works; those that take too long are ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.gpu.cases import Measurement
from benchmarks.gpu.compiled import Compiler
from benchmarks.torch_functions.measure import Task, serve


class Compilers:
    """One process for each candidate that torch compiles; all are ready, or ended, before samples."""

    def __init__(self, device: str, dtype: str, threads: int) -> None:
        self.arguments = device, dtype, threads
        self.running: dict[Task, Compiler] = {}
        self.found: dict[Task, Measurement] = {}

    def run(self, tasks: list[Task], seconds: float) -> None:
        """Let all tasks be compiled at once, for so many seconds."""
        for task in tasks:
            self.running[task] = Compiler(*self.arguments, serve=serve)
            self.running[task].begin(task)
        end = time.monotonic() + seconds
        for task in tasks:
            self.found[task] = self.running[task].finish(end - time.monotonic())
            self.found[task].name = task.candidate

    def finish(self, task: Task) -> tuple[Measurement | None, Callable[[int], float] | None]:
        """What became of a task, and what takes its samples; nothing of those that were not run."""
        measurement = self.found.get(task)
        if measurement is None or measurement.trouble:
            return measurement, None
        return measurement, self.running[task].seconds

    def close(self) -> None:
        """End all processes."""
        for compiler in self.running.values():
            compiler.close()
