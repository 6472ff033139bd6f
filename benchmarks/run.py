"""`python -m benchmarks.run`: start-up, dispatch, and three Hessians beside a closed form and jitted JAX.

Every comparison checks first that all candidates agree. Times are medians; candidates take turns, so that a
busy machine slows all of them alike.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import hesse

START_LIMIT = 0.3
"""Seconds to build and plan the Hessian of a ten-layer net."""
DISPATCH_LIMIT = 20.0
"""Microseconds of a cached call beyond its array calls."""
TOLERANCE = 1e-9
LAYERS, WIDTH = 10, 10
BUILDS = 7
ROUNDS = 9

Thunk = Callable[[], Any]


def medians(candidates: Mapping[str, Thunk], rounds: int, repeats: Mapping[str, int]) -> dict[str, float]:
    """Median seconds of one call of each candidate, timed in turns."""
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(times) for name, times in samples.items()}


def calibrated(candidates: Mapping[str, Thunk], seconds: float = 0.03) -> dict[str, int]:
    """How often to repeat each candidate for a sample of about so many seconds."""
    counts = {}
    for name, call in candidates.items():
        start = time.perf_counter()
        call()
        counts[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    return counts


# (a) first call


def relu_net(first: Any, x: Any, label: Any, *layers: Any) -> Any:
    """Softmax cross-entropy of a ReLU net."""
    state = first @ x
    for layer in layers:
        state = layer @ np.maximum(state, 0.0)
    return np.log(np.sum(np.exp(state))) - label @ state


def tanh_net(first: Any, x: Any, label: Any, *layers: Any) -> Any:
    """Softmax cross-entropy of a tanh net."""
    state = first @ x
    for layer in layers:
        state = layer @ np.tanh(state)
    return np.log(np.sum(np.exp(state))) - label @ state


def net_arguments() -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    first, *layers = generator.normal(size=(LAYERS, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    return (first, generator.normal(size=WIDTH), np.eye(WIDTH)[3], *layers)


def first_call_seconds(function: Callable[..., Any]) -> list[float]:
    """Seconds to trace, differentiate, plan and compile, for fresh derivatives: nothing is cached."""
    arguments = net_arguments()
    seconds = []
    for _ in range(BUILDS):
        derivative = hesse.hessian(function)
        gc.collect()  # nodes of the build before may not be found again
        start = time.perf_counter()
        derivative.explain(*arguments)
        seconds.append(time.perf_counter() - start)
    return seconds


def report_first_calls() -> None:
    print(f"first call: Hessian of a {LAYERS}-layer net of width {WIDTH} by one layer, limit {START_LIMIT} s")
    for function in (relu_net, tanh_net):
        seconds = first_call_seconds(function)
        middle = statistics.median(seconds)
        verdict = "OK" if middle < START_LIMIT else "OVER THE LIMIT"
        print(
            f"  {function.__name__:<10} median {middle:6.3f} s   fastest {min(seconds):6.3f} s"
            f"   very first {seconds[0]:6.3f} s   {verdict}"
        )


# (b) dispatch


def sum_of_squares(x: Any) -> Any:
    return np.sum(x * x)


def report_dispatch() -> None:
    print(f"\ndispatch: a cached call beyond its compiled program, limit {DISPATCH_LIMIT:g} µs")
    x = np.ones(3)
    for make, arguments in ((hesse.grad, (x,)), (hesse.hessian, (x,)), (hesse.hvp, (x, x))):
        derivative = make(sum_of_squares)
        derivative(*arguments)
        (entry,) = derivative._entries.values()
        program = entry.executable.compiled.function
        candidates: dict[str, Thunk] = {
            "call": lambda derivative=derivative, arguments=arguments: derivative(*arguments),
            "bare": lambda program=program, arguments=arguments: program(*arguments),
        }
        times = medians(candidates, 31, dict.fromkeys(candidates, 2000))
        overhead = 1e6 * (times["call"] - times["bare"])
        verdict = "OK" if overhead < DISPATCH_LIMIT else "OVER THE LIMIT"
        columns = f"call {1e6 * times['call']:6.2f} µs   program {1e6 * times['bare']:6.2f} µs"
        print(f"  {make.__name__:<10} {columns}   overhead {overhead:6.2f} µs   {verdict}")


# (c) beside the closed form and jitted JAX


class Problem(NamedTuple):
    """A function in NumPy and in JAX, the Hessian by hand, and data."""

    name: str
    function: Callable[..., Any]
    jax_function: Callable[..., Any]
    closed_form: Callable[..., np.ndarray]
    arguments: tuple[np.ndarray, ...]


def logistic(library: Any) -> Callable[..., Any]:
    return lambda w, x, y: library.sum(library.log(library.exp(-y * (x @ w)) + 1))


def logistic_hessian(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    margin = y * (x @ w)
    sigmoid = 1 / (1 + np.exp(-margin))
    return (x.T * (sigmoid * (1 - sigmoid) * y * y)) @ x


def quadratic(library: Any) -> Callable[..., Any]:
    return lambda x, a: x @ a @ x


def quadratic_hessian(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return a + a.T


def factorisation(library: Any) -> Callable[..., Any]:
    return lambda u, v, t: library.sum((t - u @ v.T) ** 2)


def factorisation_hessian(u: np.ndarray, v: np.ndarray, t: np.ndarray) -> np.ndarray:
    m, k = u.shape
    result = np.zeros((m, k, m, k))
    rows = np.arange(m)
    result[rows, :, rows] = 2 * v.T @ v
    return result


def problems() -> list[Problem]:
    def random(*shape: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=shape)

    found = []
    for m, n in ((200, 50), (2000, 200)):
        data = (0.1 * random(n), random(m, n, seed=1), np.sign(random(m, seed=2)))
        found.append(Problem(f"logistic {m}x{n}", logistic(np), logistic(jnp), logistic_hessian, data))
    for n in (50, 1000):
        data = (random(n), random(n, n, seed=1))
        found.append(Problem(f"quadratic {n}", quadratic(np), quadratic(jnp), quadratic_hessian, data))
    for m, k in ((30, 5), (100, 10)):
        data = (random(m, k), random(m, k, seed=1), random(m, m, seed=2))
        name = f"factorisation {m}x{k}"
        found.append(Problem(name, factorisation(np), factorisation(jnp), factorisation_hessian, data))
    return found


def agreement(results: Sequence[np.ndarray]) -> float:
    """The largest difference from the first result, relative to its largest entry."""
    reference = results[0]
    scale = max(1.0, float(np.abs(reference).max()))
    return max(float(np.abs(result - reference).max()) / scale for result in results[1:])


def report_comparison() -> bool:
    """Print the table; false if some candidates disagree."""
    print(
        "\nHessians: median time, and how many times the time of hesse the others take (below 1: hesse loses)"
    )
    print(f"  {'problem':<22}{'hesse':>11}{'closed form':>20}{'jitted JAX':>20}   agreement")
    agreed = True
    for problem in problems():
        derivative = hesse.hessian(problem.function)
        jitted = jax.jit(jax.hessian(problem.jax_function))
        on_device = [jnp.asarray(array) for array in problem.arguments]
        candidates: dict[str, Thunk] = {
            "hesse": lambda derivative=derivative, problem=problem: derivative(*problem.arguments),
            "closed": lambda problem=problem: problem.closed_form(*problem.arguments),
            "jax": lambda jitted=jitted, on_device=on_device: jitted(*on_device).block_until_ready(),
        }
        difference = agreement([np.asarray(call()) for call in candidates.values()])
        agreed &= difference <= TOLERANCE
        times = medians(candidates, ROUNDS, calibrated(candidates))
        columns = [
            f"{1e6 * times[name]:>11,.1f}µs {times[name] / times['hesse']:>6.2f}"
            for name in ("closed", "jax")
        ]
        verdict = f"{difference:.0e}" if difference <= TOLERANCE else f"DISAGREE {difference:.0e}"
        print(f"  {problem.name:<22}{1e6 * times['hesse']:>9,.1f}µs{''.join(columns)}   {verdict}")
    return agreed


def main() -> int:
    """Print everything; the exit status tells whether all candidates agree."""
    jax.config.update("jax_enable_x64", True)
    start = time.perf_counter()
    print(f"hesse {hesse.__version__}, NumPy {np.__version__}, JAX {jax.__version__}", end=", ")
    print(f"Python {platform.python_version()} on {platform.machine()}", end=", ")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    report_first_calls()
    report_dispatch()
    agreed = report_comparison()
    print(f"\n{time.perf_counter() - start:.1f} s in all")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
