"""The five functions on a device, with PyTorch (eager and as a CUDA graph) and JAX (compiled).

All times are for a new point: its frames, environments and everything else are computed each time. `frames`
is the part of the frames. Each result is printed and written at once, so that a limit of time loses nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np
import torch

from benchmarks.trains.functions import NAMES, SIZES, Case, Library, Size, case
from hesse import tt
from hesse.manifolds.derivatives import Objective
from hesse.tt.point import Point

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")  # as PyTorch does by default
SECONDS = 0.2
"""For repetitions of one measurement."""
DTYPES = {"float64": "f8", "float32": "f4"}
AGREEMENT = {"float64": 1e-8, "float32": 1e-2}
SAME_AT_LARGE = ("⟨AX,X⟩", "Rayleigh quotient")
"""Table 1 of the paper has the same ranks for Medium and Large."""

Results = list[dict[str, Any]]


def timed(call: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """The median time of a call in milliseconds."""
    wait(call())
    times: list[float] = []
    while len(times) < 3 or (sum(times) < SECONDS and len(times) < 50):
        start = time.perf_counter()
        wait(call())
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def by_torch(device: str, found: Case, kind: str) -> Callable[[], tuple[Any, ...]]:
    """What is measured, with tensors: a function that computes everything anew."""
    objective, cores = Objective(found.function), found.point.cores

    def frames() -> tuple[Any, ...]:
        made = Point(tt.TensorTrain(cores))
        return (*made.left.cores, *made.right.cores)

    def gradient() -> tuple[Any, ...]:
        value, found = objective.value_and_grad(tt.TensorTrain(cores))
        return (value, *found.deltas)

    def product() -> tuple[Any, ...]:
        X = tt.TensorTrain(cores)
        value, along = objective.value_and_grad(X)
        return (value, *objective.hvp(X, along / along.norm()).deltas)

    return {"frames": frames, "gradient": gradient, "Hessian product": product}[kind]


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """A call as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()

    def replay() -> Any:
        graph.replay()
        return results

    return replay


def by_jax(found: Case, kind: str) -> Callable[[], Any]:
    """The same with arrays of JAX, compiled; completion by operations that are compiled one by one."""
    objective = Objective(found.function)

    def gradient(cores: Any) -> Any:
        value, made = objective.value_and_grad(tt.TensorTrain(cores))
        return value, *made.deltas

    def product(cores: Any) -> Any:
        X = tt.TensorTrain(cores)
        value, along = objective.value_and_grad(X)
        return value, *objective.hvp(X, along / along.norm()).deltas

    function = {"gradient": gradient, "Hessian product": product}[kind]
    compiled = function if found.name == "completion" else jax.jit(function)
    return lambda: compiled(found.point.cores)


def measurements() -> Iterator[tuple[str, str, str]]:
    """Ways, dtypes and kinds, the most important ones first."""
    yield "torch graph", "float64", "gradient"
    yield "JAX", "float64", "gradient"
    yield "torch graph", "float32", "gradient"
    yield "torch graph", "float64", "Hessian product"
    yield "torch", "float64", "gradient"
    yield "JAX", "float32", "gradient"
    yield "torch graph", "float32", "Hessian product"
    yield "torch graph", "float64", "frames"
    yield "JAX", "float64", "Hessian product"


def measured(way: str, device: str, name: str, size: Size, dtype: str, kind: str) -> dict[str, Any]:
    """Time, value and size of the result."""
    if way == "JAX":
        library = Library(jax.numpy.asarray, jax.numpy.log, jax.numpy.exp)
        call, wait = by_jax(case(name, size, library, DTYPES[dtype]), kind), jax.block_until_ready
    else:
        library = Library(lambda a: torch.as_tensor(np.array(a), device=device), torch.log, torch.exp)
        call = by_torch(device, case(name, size, library, DTYPES[dtype]), kind)
        wait = lambda _: torch.cuda.synchronize() if device == "cuda" else None  # noqa: E731
        if way == "torch graph" and device == "cuda":
            call = captured(call)
            torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    results = call()
    wait(results)
    first = time.perf_counter() - start
    milliseconds = timed(call, wait)
    arrays = [np.asarray(r.cpu() if hasattr(r, "cpu") else r, "f8") for r in results]
    return {
        "milliseconds": milliseconds,
        "first call": first,
        "value": float(arrays[0].ravel()[0]),
        "norm": float(np.sqrt(sum(np.sum(array**2) for array in arrays[1:]))),
    }


def run(device: str, output: Path, sizes: list[str], seconds: float) -> Results:
    """Everything that the time allows, written after each measurement."""
    begin = time.perf_counter()
    machine = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    versions = f"PyTorch {torch.__version__}, JAX {jax.__version__}"
    results: Results = []
    for way, dtype, kind in measurements():
        for size in sizes:
            for name in NAMES:
                if size == "large" and name in SAME_AT_LARGE:
                    continue
                if time.perf_counter() - begin > seconds:
                    print("the time is over", flush=True)
                    return results
                row = {"way": way, "dtype": dtype, "kind": kind, "size": size, "name": name}
                try:
                    row |= measured(way, device, name, SIZES[size], dtype, kind)
                except Exception as error:  # one that fails shall not end all
                    row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
                row["at"] = time.perf_counter() - begin
                results.append(row)
                output.write_text(
                    json.dumps({"machine": machine, "versions": versions, "results": results}, indent=1)
                )
                print(json.dumps(row, ensure_ascii=False), flush=True)
    return results


def disagreements(results: Results) -> list[str]:
    """Results for the same function that are not the same numbers."""
    known: dict[Any, dict[str, Any]] = {}
    found = []
    for row in results:
        if "error" in row or row["kind"] == "frames":
            continue
        first = known.setdefault((row["kind"], row["size"], row["name"]), row)
        for what in ("value", "norm"):
            if not abs(row[what] - first[what]) <= AGREEMENT[row["dtype"]] * abs(first[what]):
                found.append(f"{row['way']} {row['dtype']} {row['kind']} {row['size']} {row['name']}: {what}")
    return found
