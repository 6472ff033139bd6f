"""Time and memory on a CPU, beside others: all candidates in turns, medians.

Candidates are compared before they are timed. Times are for a new point, frames included; those of Hessian
products are for a known point. Memory is how much the peak of the process grows in one call.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hesse
from benchmarks.trains import peers
from benchmarks.trains.functions import NAMES, SIZES, Case, Library, Size, case
from benchmarks.trains.page import number, table
from benchmarks.trains.t3f_peer import norm_of_cores, t3f_of
from hesse import tt
from hesse.manifolds.derivatives import Objective
from hesse.tt.point import point_of

ROUNDS = 7
ENOUGH = 2.0
"""Seconds of a call, all in all, after which it is not made again."""
TOLERANCE = 1e-9
LIBRARIES = {"numpy": "NumPy", "jax": "JAX", "ttax": "ttax", "t3f": "T3F", "tensorflow_cpu": "TensorFlow"}
PAPER_ENTRIES = 100_000
"""From so many entries on, doubled ranks need gigabytes for completion."""

Call = Callable[[], Any]


def medians(calls: dict[str, Call], rounds: int = ROUNDS) -> dict[str, float]:
    """The median times of calls that take turns; each is made once before, untimed: the cache is its own.

    What takes seconds has fewer turns.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if sum(times[name]) > ENOUGH:
                continue
            jax.block_until_ready(call())
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def growth(call: Call) -> float:
    """How many megabytes the peak of the process grows in a call, above what is in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is what is in use now
    before = _status("VmRSS")
    jax.block_until_ready(call())
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(name)


def candidates(found: Case, size: Size) -> tuple[float, dict[str, Call]]:
    """The time of the first call, and all that is measured of a function."""
    objective, X = Objective(found.function), found.point
    fresh = lambda: tt.TensorTrain(X.cores)  # noqa: E731
    start = time.perf_counter()
    gradient = objective.value_and_grad(X)[1]
    first = time.perf_counter() - start
    product = objective.hvp(X, gradient)
    known = Objective(found.function)
    known.hvp(X, gradient)
    factors = iter(range(2, 10_000))
    calls: dict[str, Call] = {
        "f": lambda: objective.value(fresh()),
        "gradient": lambda: objective.value_and_grad(fresh())[0],
        "product": lambda: known.hvp(X, gradient * float(next(factors))).deltas[0],
    }
    if "where" not in found.data:  # entries are read by kernels of NumPy
        calls["JAX gradient"] = jax_gradient(found.name, size, gradient)
    if "where" not in found.data or len(found.data["values"]) < PAPER_ENTRIES:
        peer, arguments = peers.Doubled(peers.of_cores(found, size.scale)), peers.Doubled.arguments(X)
        along = list(gradient.deltas)
        check(found.name, gradient, peer.gradient(*arguments))
        check(found.name, product, peer.product(*arguments, along))
        check_norm(found.name, gradient, peer.gradient_of_train(list(X.cores)))
        calls["doubled gradient"] = lambda: peer.gradient_of_train(list(X.cores))
        calls["doubled product"] = lambda: peer.product(*arguments, along)
    by_ttax = peers.ttax_gradient(found, size.scale)
    if by_ttax is not None:
        theirs = peers.norm_of_doubled(by_ttax(X).tt_cores)
        assert abs(theirs - float(gradient.norm())) <= TOLERANCE * theirs, (found.name, theirs)
        calls["ttax gradient"] = lambda: by_ttax(X).tt_cores
    by_t3f = t3f_of(found, size.scale)
    if by_t3f is not None and ("where" not in found.data or len(found.data["values"]) < PAPER_ENTRIES):
        along_train = gradient.to_tt()
        for mine, theirs in (
            (gradient, by_t3f.gradient(X)),
            (product, by_t3f.product(X, along_train)),
        ):
            norm = norm_of_cores(theirs)
            assert abs(norm - float(mine.norm())) <= TOLERANCE * norm, (found.name, norm)
        calls["T3F gradient"] = lambda: [core.numpy() for core in by_t3f.gradient(X)]
        calls["T3F product"] = lambda: [core.numpy() for core in by_t3f.product(X, along_train)]
    return first, calls


def jax_gradient(name: str, size: Size, gradient: Any) -> Call:
    """The gradient by hesse with cores of JAX, jitted."""
    found = case(name, size, Library(jnp.asarray, jnp.log, jnp.exp))
    by_hesse = hesse.manifolds.grad(found.function)
    jitted = jax.jit(lambda cores: by_hesse(tt.TensorTrain(cores)).deltas)
    cores = list(found.point.cores)
    check_norm(name, gradient, jitted(cores))
    return lambda: jitted(cores)


def check_norm(name: str, mine: Any, theirs: Any) -> None:
    """Tangent vectors in other frames, gauged, have the same norm."""
    norm = float(np.sqrt(sum(float((delta**2).sum()) for delta in theirs)))
    assert abs(norm - float(mine.norm())) <= TOLERANCE * norm, (name, norm)


def check(name: str, mine: Any, theirs: Any) -> None:
    """Both are the same tangent vector."""
    other = point_of(mine.point.train).gauged([np.asarray(delta) for delta in theirs])
    error = max(float(np.abs(x - y).max()) for x, y in zip(mine.deltas, other, strict=True))
    size = max(float(np.abs(x).max()) for x in mine.deltas)
    assert error <= TOLERANCE * size, (name, error, size)


FUNCTION_HEAD = [
    "function",
    "first call",
    "f",
    "gradient",
    "Hessian product",
    "MB",
    "JAX cores: gradient",
    "doubled: gradient",
    "Hessian product",
    "MB",
    "ttax: gradient",
    "MB",
    "T3F: gradient",
    "Hessian product",
    "MB",
]


def function_row(name: str, size: str) -> list[str]:
    """A row of the table of functions."""
    found = case(name, SIZES[size])
    first, calls = candidates(found, SIZES[size])
    once = medians({"gradient": calls["gradient"]}, 1)["gradient"]
    times = medians(calls, max(3, min(5 * ROUNDS, int(0.5 / once))))
    memory = {key: growth(calls[key]) for key in calls if key.endswith("gradient")}
    cells = [
        number(first),
        *(number(times[key]) for key in ("f", "gradient", "product")),
        number(memory["gradient"]),
        number(times.get("JAX gradient")),
        number(times.get("doubled gradient")),
        number(times.get("doubled product")),
        number(memory.get("doubled gradient")),
        number(times.get("ttax gradient")),
        number(memory.get("ttax gradient")),
        number(times.get("T3F gradient")),
        number(times.get("T3F product")),
        number(memory.get("T3F gradient")),
    ]
    return [f"{name}, {size}", *cells]


LENGTH_HEAD = ["⟨AX,X⟩, rank 10, operator of rank 10", "first call", "gradient", "each position", "float32"]


def length_rows() -> list[list[str]]:
    """Longer and longer trains: the cost of each position stays."""
    found: dict[int, tuple[float, Call]] = {}
    finite = {}
    for count in (25, 50, 100):
        M = tt.random_matrix(((20, 20),) * count, 5, rng=1)
        A, X = M + M.T, tt.random((20,) * count, 10, rng=2)
        objective = Objective(lambda X, A=A: tt.dot(A @ X, X))
        start = time.perf_counter()
        objective.value_and_grad(X)
        first = time.perf_counter() - start
        cores = X.cores
        found[count] = (
            first,
            lambda o=objective, c=cores: o.value_and_grad(tt.TensorTrain(c))[1].deltas[0],
        )
        finite[count] = _is_finite(A, X)
    times = medians({str(count): call for count, (_, call) in found.items()})
    return [
        [
            f"{count} positions",
            number(first),
            number(times[str(count)]),
            number(1e3 * times[str(count)] / count) + " ms",
            "finite" if finite[count] else "not finite",
        ]
        for count, (first, _) in found.items()
    ]


def _is_finite(A: tt.TTMatrix, X: tt.TensorTrain) -> bool:
    """The Rayleigh quotient and its gradient in single precision."""
    short_A, short_X = (type(c)([core.astype("f4") for core in c.cores]) for c in (A, X))
    value, gradient = hesse.manifolds.value_and_grad(lambda X: tt.dot(short_A @ X, X) / tt.dot(X, X))(short_X)
    return bool(np.isfinite(value)) and all(bool(np.isfinite(delta).all()) for delta in gradient.deltas)


MATRIX_HEAD = [
    "matrix completion",
    "gradient",
    "transport",
    "retraction",
    "MB",
    "CG: seconds a step",
    "SciPy: gradient",
    "Pymanopt: gradient",
    "transport",
    "MB",
]


def matrix_row(size: int, rank: int = 10, with_pymanopt: bool = True) -> list[str]:
    """Completion of a matrix from three times as many entries as it has parameters."""
    rng = np.random.default_rng(0)
    M = hesse.manifolds.FixedRankMatrices(size, size, rank)
    X = M.random_point(0)
    rows, columns = rng.integers(0, size, (2, 3 * M.dimension))
    values = rng.standard_normal(len(rows))
    misfit = lambda X: ((X.gather(rows, columns) - values) ** 2).sum()  # noqa: E731
    objective = Objective(misfit)
    gradient = objective.value_and_grad(X)[1]
    Y = M.retract(X, gradient * -1e-3)
    theirs = peers.scipy_gradient(X, rows, columns, values)
    assert np.allclose(theirs[0], gradient.deltas[0][0])
    assert np.allclose(theirs[1], gradient.deltas[1][:, :, 0])
    calls: dict[str, Call] = {
        "gradient": lambda: objective.value_and_grad(tt.TensorTrain(X.cores))[0],
        "transport": lambda: M.transport(X, Y, gradient).deltas[0],
        "retraction": lambda: M.retract(X, gradient).cores[0],
        "scipy": lambda: peers.scipy_gradient(tt.TensorTrain(X.cores), rows, columns, values)[0],
    }
    if with_pymanopt:
        other = peers.Pymanopt(X, rows, columns, values)
        vector = other.gradient()
        calls["pymanopt"] = lambda: other.gradient()[0]
        calls["carried"] = lambda: other.transported(vector)[0]
    times = medians(calls, 3 if size >= 100_000 else 5)
    memory = max(growth(calls[key]) for key in ("gradient", "transport", "retraction"))
    result = hesse.solvers.minimize(misfit, X, steps=3)
    return [
        f"{size} × {size}, {len(rows)} entries",
        *(number(times[key]) for key in ("gradient", "transport", "retraction")),
        number(memory),
        number(result.history[-1].seconds / result.steps),
        number(times["scipy"]),
        *(number(times.get(key)) for key in ("pymanopt", "carried")),
        number(growth(calls["carried"]) if with_pymanopt else None),
    ]


def text(sizes: list[str]) -> str:
    """All tables, printed row by row on the way."""
    installed = {each.name.lower(): each.version for each in importlib.metadata.distributions()}
    versions = "".join(f", {name} {installed[key]}" for key, name in LIBRARIES.items() if key in installed)
    parts = [f"{platform.machine()}, {os.cpu_count()} cores{versions}; seconds and megabytes.\n"]
    named = [f"{name}:{size}" for size in sizes for name in NAMES if size != "large" or name == "completion"]
    groups: list[tuple[list[str], list[Callable[[], list[list[str]]]]]] = [
        (FUNCTION_HEAD, [lambda item=item: [function_row(*item.split(":"))] for item in named]),
        (LENGTH_HEAD, [length_rows]),
        (
            MATRIX_HEAD,
            [lambda: [matrix_row(10_000)], lambda: [matrix_row(100_000, with_pymanopt=False)]],
        ),
    ]
    for head, made in groups:
        rows = []
        for make in made:
            rows += make()
            print(" | ".join(rows[-1]), flush=True)
        parts.append(table(head, rows))
    return "\n".join(parts)
