"""torch.compile in a process of its own: compiling may take minutes, and cannot be ended in any other way."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.gpu.cases import Measurement, problems_by_name

NAME = "torch.func compiled"


class Task(NamedTuple):
    """What to compile."""

    problem: str
    size: int
    dtype: str


class Compiler:
    """The process; it is begun again after it had to be ended. `serve(connection, *arguments)` runs in it."""

    def __init__(self, *arguments: Any, serve: Callable[..., None] | None = None) -> None:
        self.arguments, self.serve = arguments, serve or _serve
        self.process: Any = None
        self.connection: Any = None

    def begin(self, task: Task) -> None:
        """Let it compile while something else is done."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.connection, other = context.Pipe()
            self.process = context.Process(target=self.serve, args=(other, *self.arguments), daemon=True)
            self.process.start()
            other.close()
        self.connection.send(task)

    def finish(self, seconds: float) -> Measurement:
        """What became of the first call, if it is over within some seconds."""
        start = time.monotonic()
        if not self.connection.poll(max(seconds, 0.0)):
            self.close()
            waited = time.monotonic() - start
            return Measurement(NAME, trouble=f"not compiled {waited:.0f} s after the others were")
        try:
            found: Measurement = self.connection.recv()
        except EOFError:
            status = self.process.exitcode
            self.close()
            return Measurement(NAME, trouble=f"ended its process with status {status}")
        return found

    def seconds(self, count: int) -> float:
        """The time of a call, the mean of so many."""
        self.connection.send(count)
        found: float = self.connection.recv()
        return found

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


def _serve(connection: Connection, device: str, memory: float) -> None:
    from benchmarks.gpu.measure import Bench, seconds_of  # noqa: PLC0415  (both modules need each other)
    from benchmarks.gpu.setting import torch_alone  # noqa: PLC0415

    bench = Bench(None, torch_alone(device, memory))
    thunk: Any = None
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        if isinstance(request, Task):
            thunk = None
            import_module("torch._dynamo").reset()
            problem = problems_by_name()[request.problem]
            measurement, thunk = bench.compiled(problem, request.size, request.dtype)
            connection.send(measurement)
        else:
            connection.send(seconds_of(thunk, request))
