"""`python -m benchmarks.taylor [--only TEXT]`: operators of high order against jet, folx and nested JAX.

All candidates of a row must agree in double precision. Then they are called in turns, and medians are taken.
The first call of each is timed, too: tracing, planning and compiling. The table goes into `docs/taylor.md`.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import folx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.jet import jet

import hesse
from benchmarks.speed.libraries import jax_library
from benchmarks.texts import columns, markdown, ratio_text, time_text

PAGE = Path(__file__).resolve().parents[1] / "docs" / "taylor.md"
MARK = "<!-- The rest of the page is written by python -m benchmarks.taylor -->"
WIDTH, LAYERS = 64, 3
TOLERANCE = 1e-7
PATIENCE, FEWEST = 2.0, 15
"""Seconds for the samples of a row, and how many at least."""
BEHIND = 1.05
"""From this ratio on hesse is said to be behind."""

Call = Callable[..., Any]


class Row(NamedTuple):
    """An operator, a size, its arguments, and functions of them by the names of candidates."""

    operator: str
    size: str
    arguments: tuple[Any, ...]
    candidates: dict[str, Call]


class Measured(NamedTuple):
    """The first call and the median of the others, in seconds, by candidates."""

    row: Row
    first: dict[str, float]
    median: dict[str, float]

    @property
    def ratio(self) -> float:
        """The time of the fastest way of hesse to that of the fastest other one."""
        return self._best(self.median, True) / self._best(self.median, False)

    @property
    def ratio_first(self) -> float:
        """The same for first calls, those of hesse with XLA."""
        return self.first["hesse, JAX"] / self._best(self.first, False)

    def _best(self, times: dict[str, float], is_ours: bool) -> float:
        return min(seconds for name, seconds in times.items() if name.startswith("hesse") == is_ours)


def net(x: Any, parameters: Any, xp: Any = np) -> Any:
    """A net of a few layers with one result for each row."""
    *layers, last = parameters
    for weight, bias in layers:
        x = xp.tanh(x @ weight + bias)
    return x @ last


def parameters_of(inputs: int) -> Any:
    """Weights and biases."""
    random = np.random.default_rng(inputs)
    sizes = [inputs] + [WIDTH] * LAYERS
    layers = [
        (random.normal(size=(a, b)) / np.sqrt(a), random.normal(size=b)) for a, b in itertools.pairwise(sizes)
    ]
    return [*layers, random.normal(size=WIDTH) / np.sqrt(WIDTH)]


def ours(operator: Call) -> dict[str, Call]:
    """Derivatives by hesse: of NumPy arrays, of JAX arrays inside of jit."""
    return {"hesse, NumPy": operator(net), "hesse, JAX": jax.jit(operator(net))}


def in_jax(operator: Call) -> Call:
    """An operator on functions of one argument, of the net in JAX."""
    return jax.jit(lambda x, parameters: operator(lambda x: net(x, parameters, jnp))(x))


def trace_of_hessian(f: Call) -> Call:
    return lambda x: jnp.trace(jax.hessian(f)(x))


def forward_over_forward(f: Call) -> Call:
    def second(x: Any, v: Any) -> Any:
        return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]

    return lambda x: jnp.sum(jax.vmap(second, (None, 0))(x, jnp.eye(x.size)))


def forward_laplacian(f: Call) -> Call:
    return lambda x: folx.forward_laplacian(f)(x).laplacian


def twice(operator: Call) -> Call:
    return lambda f: operator(operator(f))


def jet_biharmonic(f: Call) -> Call:
    """From fourth derivatives along `e_i`, `e_i + e_j` and `e_i - e_j`."""

    def fourth(x: Any, v: Any) -> Any:
        zero = jnp.zeros_like(x)
        return jet(f, (x,), ((v, zero, zero, zero),))[1][3]

    def operator(x: Any) -> Any:
        unit = jnp.eye(x.size)
        one, two = np.triu_indices(x.size, 1)
        along = partial(jax.vmap(fourth, (None, 0)), x)
        single = along(unit)
        both = along(unit[one] + unit[two]) + along(unit[one] - unit[two])
        mixed = (both - 2.0 * single[one] - 2.0 * single[two]) / 12.0
        return jnp.sum(single) + 2.0 * jnp.sum(mixed)

    return operator


def jet_derivative(order: int) -> Call:
    """The derivative of a function of one number."""
    return lambda f: lambda x: jet(f, (x,), ([jnp.ones_like(x)] + [jnp.zeros_like(x)] * (order - 1),))[1][-1]


def nested_grad(order: int) -> Call:
    def operator(f: Call) -> Call:
        for _ in range(order):
            f = jax.grad(f)
        return f

    return operator


def rows() -> Iterator[Row]:
    """All problems."""
    for order in (4, 8):
        candidates = {**_of_a_number(order), "jet": in_jax(_by_number(jet_derivative(order)))}
        if order == 4:  # of order 8 it takes minutes to compile
            candidates["nested grad"] = in_jax(_by_number(nested_grad(order)))
        yield Row("derivative by a number", f"order {order}", (0.3, parameters_of(1)), candidates)
    for inputs in (10, 100, 1000):
        candidates = {
            **ours(hesse.laplacian),
            "folx": in_jax(forward_laplacian),
            "forward over forward": in_jax(forward_over_forward),
            "trace of the Hessian": in_jax(trace_of_hessian),
        }
        yield Row("Laplacian", f"{inputs} inputs", _arguments(inputs), candidates)
    for batch, inputs in ((256, 10), (64, 100)):
        candidates = {
            **ours(hesse.laplacian),
            "folx": in_jax(lambda f: jax.vmap(forward_laplacian(f))),
            "forward over forward": in_jax(lambda f: jax.vmap(forward_over_forward(f))),
        }
        yield Row("Laplacian at many points", f"{batch} × {inputs}", _arguments(batch, inputs), candidates)
    for inputs in (3, 10, 50):
        candidates = {
            **ours(hesse.biharmonic),
            "folx": in_jax(twice(forward_laplacian)),
            "forward over forward": in_jax(twice(forward_over_forward)),
            "jet": in_jax(jet_biharmonic),
        }
        yield Row("biharmonic operator", f"{inputs} inputs", _arguments(inputs), candidates)


def _arguments(*shape: int) -> tuple[Any, ...]:
    return np.random.default_rng(0).normal(size=shape), parameters_of(shape[-1])


def _of_a_number(order: int) -> dict[str, Call]:
    operator = partial(hesse.derivative, order=order)
    return ours(lambda f: operator(lambda x, parameters: f(np.stack([x]), parameters)))


def _by_number(operator: Call) -> Call:
    return lambda f: operator(lambda x: f(jnp.stack([x])))


def measured(row: Row) -> Measured:
    """First calls, which must agree, and then calls in changing turns, each after one that is not timed."""
    on_device = jax.tree.map(jnp.asarray, row.arguments)
    calls, first, results = {}, {}, {}
    for name, candidate in row.candidates.items():
        arguments = row.arguments if name == "hesse, NumPy" else on_device
        calls[name] = lambda candidate=candidate, arguments=arguments: jax.block_until_ready(
            candidate(*arguments)
        )
        start = time.perf_counter()
        results[name] = np.asarray(calls[name]())
        first[name] = time.perf_counter() - start
    expected = next(reversed(results.values()))
    for name, found in results.items():
        error = np.abs(found - expected).max() / max(1.0, np.abs(expected).max())
        if not error < TOLERANCE:
            raise AssertionError(f"{row.operator}, {row.size}: {name} disagrees by {error:.1e}")
    samples: dict[str, list[float]] = {name: [] for name in calls}
    turns, random = [*calls.items()], np.random.default_rng(0)
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end or min(map(len, samples.values())) < FEWEST:
        random.shuffle(turns)
        for name, call in turns:
            call()
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
    return Measured(row, first, {name: statistics.median(times) for name, times in samples.items()})


def cell(found: Measured, name: str) -> str:
    """The median and the first call of a candidate."""
    if name not in found.median:
        return "–"
    return f"{time_text(found.median[name])} ({time_text(found.first[name])})"


def table(found: list[Measured]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells."""
    names = list(dict.fromkeys(name for one in found for name in one.median))
    headings = ["operator", "size", *names, "hesse to the fastest other", "first call"]
    body = [
        [
            one.row.operator,
            one.row.size,
            *(cell(one, name) for name in names),
            ratio_text(one.ratio),
            ratio_text(one.ratio_first),
        ]
        for one in found
    ]
    return headings, body


def main() -> int:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.taylor", description=__doc__)
    parser.add_argument(
        "--only", default="", help="rows whose operator contains this text; nothing is written"
    )
    options = parser.parse_args()
    jax_library()
    jax.block_until_ready(jax.jit(lambda x: x + 1.0)(jnp.ones(3)))  # what JAX loads when it is used first
    found = []
    for row in rows():
        if options.only in row.operator:
            found.append(measured(row))
            print(f"{row.operator}, {row.size}: {found[-1].median}", file=sys.stderr, flush=True)
    headings, body = table(found)
    print(columns(headings, body))
    behind = [f"{one.row.operator} ({one.row.size})" for one in found if one.ratio > BEHIND]
    print(f"hesse is behind in {', '.join(behind) or 'no row'}")
    if not options.only:
        kept = PAGE.read_text(encoding="utf-8").split(MARK)[0]
        lines = [
            MARK,
            "",
            *markdown(headings, body),
            "",
            f"hesse is behind in {', '.join(behind) or 'no row'}.",
            "",
        ]
        PAGE.write_text(kept + "\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
