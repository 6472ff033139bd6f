"""Five functions, their gradients and Hessians: formula, structure, and time beside the naive ways.

Run it with `make demo`, or `python examples/demo.py --small` for sizes that take no time at all.

Every Hessian is first compared with the naive ones, then all of them are timed:

- *finite differences*: central differences of the gradient, two gradients for each column;
- *column by column*: one Hessian-vector product for each column;
- *jax.jit(jax.hessian)*, where JAX is installed: the same code on `jax.numpy`, in double precision.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import textwrap
import time
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import hesse

Arrays = tuple[np.ndarray, ...]
Function = Callable[..., Any]
WIDTH = 100
LONGEST_FORMULA = 400
"""Characters of a formula that are shown."""
SHORTEST_TIMING = 0.2
"""Seconds for which a call is repeated, at least; the fastest repetition counts."""


def quadratic_form(x, A, b):
    return x @ A @ x / 2 - b @ x


def logistic_regression(w, X, y):
    return np.sum(np.log(np.exp(-y * (X @ w)) + 1))


def matrix_factorisation(U, V, T):
    return np.sum((T - U @ V.T) ** 2)


def rosenbrock_chain(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def small_net(W, B, c, X, y):
    return np.mean((np.tanh(np.tanh(X @ W) @ B) @ c - y) ** 2)


class Example(NamedTuple):
    """A function with arguments, differentiated by the first of them."""

    title: str
    function: Function
    arguments: Arrays
    remark: str


def examples(small: bool) -> list[Example]:
    """The five examples in sizes for reading or for testing."""
    generator = np.random.default_rng(0)
    shrink = 10 if small else 1

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape)

    n = 300 // shrink
    quadratic = (normal(n), normal(n, n), normal(n))
    rows, columns = 2000 // shrink, 100 // shrink
    logistic = (normal(columns), normal(rows, columns), np.sign(normal(rows)))
    factorisation = (normal(60 // shrink, 5), normal(40 // shrink, 5), normal(60 // shrink, 40 // shrink))
    net = (normal(8, 10), normal(10, 10), normal(10), normal(200 // shrink, 8), normal(200 // shrink))
    return [
        Example(
            "Quadratic form",
            quadratic_form,
            quadratic,
            "The Hessian is a formula of A alone: no product is computed.",
        ),
        Example(
            "Logistic regression",
            logistic_regression,
            logistic,
            "One product X' diag X, and sigmoids in the place of log and exp: no margin overflows.",
        ),
        Example(
            "Matrix factorisation, by U",
            matrix_factorisation,
            factorisation,
            "One small product V' V, placed on a diagonal (the label i stands twice in the output).",
        ),
        Example(
            "Rosenbrock chain",
            rosenbrock_chain,
            (normal(1000 // shrink),),
            "Bands: O(n) work, and then the dense array that was asked for.",
        ),
        Example(
            "Net of three layers, by the first weights",
            small_net,
            net,
            "The tanh of each layer is computed once and shared by all terms.",
        ),
    ]


class Way(NamedTuple):
    """One way to compute a Hessian: its value, the seconds of its first call and of later ones."""

    name: str
    value: np.ndarray
    first: float
    later: float


def measured(name: str, function: Function, arguments: Sequence[Any], shortest: float) -> Way:
    """Call a function once, and then again and again for a while."""
    start = time.perf_counter()
    value = np.asarray(function(*arguments))
    first = time.perf_counter() - start
    later: list[float] = []
    while not later or sum(later) < shortest or (len(later) < 5 and sum(later) < 5 * shortest):
        start = time.perf_counter()
        np.asarray(function(*arguments))
        later.append(time.perf_counter() - start)
    return Way(name, value, first, min(later))


def finite_differences(function: Function) -> Function:
    """The Hessian by central differences of the gradient."""
    gradient = hesse.grad(function)

    def computed(x: np.ndarray, *others: np.ndarray) -> np.ndarray:
        step = np.cbrt(np.finfo(float).eps)
        columns = []
        for direction in np.eye(x.size).reshape(-1, *x.shape):
            ahead, behind = (gradient(x + sign * step * direction, *others) for sign in (1, -1))
            columns.append((ahead - behind) / (2 * step))
        return np.stack(columns, axis=-1).reshape(x.shape + x.shape)

    return computed


def column_by_column(function: Function) -> Function:
    """The Hessian by one Hessian-vector product for each column."""
    product = hesse.hvp(function)

    def computed(x: np.ndarray, *others: np.ndarray) -> np.ndarray:
        columns = [product(x, *others, direction) for direction in np.eye(x.size).reshape(-1, *x.shape)]
        return np.stack(columns, axis=-1).reshape(x.shape + x.shape)

    return computed


def jax_hessian(function: Function) -> Function | None:
    """The jitted Hessian of JAX for the same code on `jax.numpy`; None where JAX is not installed."""
    if importlib.util.find_spec("jax") is None:
        return None
    import jax  # noqa: PLC0415 - optional
    import jax.numpy  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    twin = types.FunctionType(function.__code__, {**function.__globals__, "np": jax.numpy})
    return jax.jit(jax.hessian(twin))  # type: ignore[no-any-return]


def all_ways(example: Example, shortest: float) -> list[Way]:
    """hesse and the naive ways on one example, hesse first; they must agree."""
    candidates: list[tuple[str, Function | None, float]] = [
        ("hesse.hessian", hesse.hessian(example.function), 1e-12),
        ("column by column", column_by_column(example.function), 1e-10),
        ("finite differences", finite_differences(example.function), 1e-5),
        ("jax.jit(jax.hessian)", jax_hessian(example.function), 1e-10),
    ]
    ways: list[Way] = []
    for name, function, tolerance in candidates:
        if function is None:
            continue
        way = measured(name, function, example.arguments, shortest)
        if ways and difference(ways[0], way) > tolerance:
            raise AssertionError(f"{name} differs by {difference(ways[0], way):.1e} on {example.title}")
        ways.append(way)
    return ways


def difference(one: Way, other: Way) -> float:
    """The largest difference of two Hessians, relative to the largest entry."""
    return float(np.abs(one.value - other.value).max() / np.abs(one.value).max())


def in_seconds(seconds: float) -> str:
    """A time with a readable unit."""
    for factor, unit in ((1.0, "s "), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:7.1f} {unit}"
    raise AssertionError("a unit always fits")


def field(name: str, text: str) -> None:
    """Print a named text, its further lines indented."""
    for k, line in enumerate(text.splitlines() or [""]):
        pieces = textwrap.wrap(line, WIDTH - 16, subsequent_indent="    ", break_long_words=False) or [""]
        for j, piece in enumerate(pieces):
            print(f"  {name if k == j == 0 else '':<13} {piece}".rstrip())


def shortened(formula: str) -> str:
    """A formula, cut off where it gets too long to be read."""
    if len(formula) <= LONGEST_FORMULA:
        return formula
    return f"{formula[:LONGEST_FORMULA]} … ({len(formula)} characters)"


def show(example: Example, shortest: float) -> list[Way]:
    """Print everything about one example."""
    print(f"{example.title}\n{'-' * len(example.title)}")
    field("code", inspect.getsource(example.function).splitlines()[-1].strip())
    gradient = hesse.grad(example.function).explain(*example.arguments)
    hessian = hesse.hessian(example.function).explain(*example.arguments)
    field("gradient", shortened(gradient.formula))
    field("Hessian", shortened(hessian.formula))
    ways = all_ways(example, shortest)
    field("shape", str(ways[0].value.shape))
    sizes = f"{hessian.nodes} nodes, {hessian.flops:,.0f} FLOPs, peak {hessian.peak_bytes:,} bytes"
    field("structure", sizes)
    shown = hessian.contractions[-3:]
    earlier = len(hessian.contractions) - len(shown)
    field("products", "\n".join([f"({earlier} before)"] * bool(earlier) + list(shown)) or "none")
    field("remark", example.remark)
    print()
    print(f"  {'way':<22}{'first call':>12}{'later calls':>14}{'ratio':>10}{'difference':>14}")
    for way in ways:
        ratio = way.later / ways[0].later
        print(
            f"  {way.name:<22}{in_seconds(way.first):>12}{in_seconds(way.later):>14}"
            f"{ratio:>10.1f}{difference(ways[0], way):>14.0e}"
        )
    print()
    return ways


def main(small: bool = False) -> None:
    """Show all examples and a summary."""
    shortest = 0.0 if small else SHORTEST_TIMING
    table = [(example, show(example, shortest)) for example in examples(small)]
    print("Summary: how many times longer the other ways take (later calls)\n")
    names = [way.name for way in table[0][1]]
    print(f"  {'':<42}{names[0]:>14}" + "".join(f"{name:>22}" for name in names[1:]))
    for example, ways in table:
        ratios = "".join(f"{way.later / ways[0].later:>20.1f} x" for way in ways[1:])
        print(f"  {example.title:<42}{in_seconds(ways[0].later):>14}{ratios}")
    print("\nAll ways agree.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small sizes and no repetitions")
    main(parser.parse_args().small)
