"""Agreement first, then samples in turns; what torch.compile takes part in runs in a process of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.gpu.cases import Measurement
from benchmarks.gpu.measure import distance, seconds_of, take_samples, trouble
from benchmarks.torch_functions import batches, modules, pinns
from benchmarks.torch_functions.setting import Candidate, Case, Row, Setting, Thunk, in_one_vector, setting_on

CASES: tuple[Case, ...] = (*batches.CASES, *pinns.CASES, *modules.CASES)
TOLERANCES = {"float32": 2e-3, "float64": 1e-8}


class Task(NamedTuple):
    """What the other process compiles: the name of a candidate of a case at a size."""

    case: int
    size: int
    candidate: str


def case_named(group: str, problem: str, size_is: str) -> int:
    """The number of a case."""
    wanted = group, problem, size_is
    return next(k for k, c in enumerate(CASES) if (c.group, c.problem, c.size_is) == wanted)


def measured(
    setting: Setting, number: int, size: int, seconds: float, compiled: Callable[[Task], Any]
) -> Row:
    """A row; `compiled` gives the measurement of a task and, if there is one, what takes its samples."""
    case = CASES[number]
    row = Row(case.group, case.problem, case.size_is, size, setting.torch.device, setting.dtype)
    reference = reference_of(setting, case, size)
    timers = []
    for candidate in case.candidates(setting, size):
        if candidate.is_compiled:
            measurement, timer = compiled(Task(number, size, candidate.name))
        else:
            measurement, thunk = first_call(setting, candidate, reference)
            timer = None if thunk is None else (lambda count, thunk=thunk: seconds_of(thunk, count))
        if measurement is not None:
            row.measurements.append(measurement)
        if timer is not None:
            timers.append((timer, measurement))
    del reference
    gc.collect()
    take_samples(timers, seconds)
    return row


def reference_of(setting: Setting, case: Case, size: int) -> Any:
    """The first candidate in double precision."""
    candidate = case.candidates(setting.in_double(), size)[0]
    return in_one_vector(setting.torch.xp, candidate.entries(candidate.make()()))


def first_call(setting: Setting, candidate: Candidate, reference: Any) -> tuple[Measurement, Thunk | None]:
    """A candidate after its first call, which agrees with the reference, and so does the third."""
    torch, measurement = setting.torch, Measurement(candidate.name)

    def waited(thunk: Thunk) -> Any:
        result = thunk()
        if candidate.name.startswith("JAX"):
            assert setting.jax is not None
            return setting.jax.wait(result)
        return torch.wait(result)

    try:
        start = time.perf_counter()
        thunk = candidate.make()
        waited(thunk)
        measurement.first = time.perf_counter() - start
        waited(thunk)
        result = waited(thunk)
        difference = distance(in_one_vector(torch.xp, candidate.entries(result)), reference)
    except Exception as error:  # a library may fail in any way: the table says how
        measurement.trouble = trouble(error)
        return measurement, None
    if not difference <= TOLERANCES[setting.dtype]:
        measurement.trouble = f"DISAGREES by {difference:.1e}"
        return measurement, None
    return measurement, lambda: waited(thunk)


def serve(connection: Connection, device: str, dtype: str, threads: int) -> None:
    """What the other process does: compile a task, then take samples of it on demand."""
    setting = setting_on(device, dtype, threads, with_jax=False)
    thunk: Thunk | None = None
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        if isinstance(request, Task):
            case = CASES[request.case]
            reference = reference_of(setting, case, request.size)
            found = {c.name: c for c in case.candidates(setting, request.size)}
            measurement, thunk = first_call(setting, found[request.candidate], reference)
            connection.send(measurement)
        else:
            assert thunk is not None
            connection.send(seconds_of(thunk, request))
