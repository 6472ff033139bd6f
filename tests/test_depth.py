"""Everything grows linearly with the depth of a program: nodes, instructions, operations and building.

Building is gated by the number of Python function calls it takes, which does not depend on the load of the
machine as seconds do.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.api import recurrences
from hesse.calculus import MODES
from hesse.ir import topological
from oracles import assert_close, fast_jit

WIDTH = 3
DEPTHS = (10, 40, 120)
STEEPER = 1.25
"""How much more one layer more may cost in a deep net than in a shallow one; sharing varies a little."""
DEARER = 1.5
"""How much more a layer may cost on average where `auto` may choose another mode for a deep net."""


class Counts(NamedTuple):
    """What a derivative of one depth amounts to."""

    nodes: int
    edges: int
    instructions: int
    flops: float
    calls: int


def function_calls(action: Callable[[], Any]) -> tuple[Any, int]:
    """The result of an action and the number of Python functions it called."""
    count = 0

    def count_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    previous = sys.getprofile()
    sys.setprofile(count_call)
    try:
        result = action()
    finally:
        sys.setprofile(previous)
    return result, count


def counts(derivative: Any, *arguments: Any, count_calls: bool = True) -> Counts:
    """The counts for these arguments; counting calls takes about as long again as building."""
    explain = functools.partial(derivative.explain, *arguments)
    report, calls = function_calls(explain) if count_calls else (explain(), 0)
    order = topological(report.roots)
    return Counts(
        len(order),
        sum(len(node.operands) for node in order),
        len(report.program.instructions),
        report.flops,
        calls,
    )


def described(name: str, depths: Sequence[int], values: Sequence[float]) -> str:
    grown = "  ".join(f"{value:,.0f} at {depth}" for value, depth in zip(values, depths, strict=True))
    return f"{name} grow faster than the depth: {grown}"


def assert_linear(depths: Sequence[int], table: Sequence[Counts]) -> None:
    """One layer more costs the same everywhere: no slope is steeper than the first one or the average."""
    for name in Counts._fields:
        values = [getattr(row, name) for row in table]
        pairs = zip(itertools.pairwise(values), itertools.pairwise(depths), strict=True)
        first, *others = [(after - before) / (deep - shallow) for (before, after), (shallow, deep) in pairs]
        usual = max(first, *(value / depth for value, depth in zip(values[:-1], depths[:-1], strict=True)))
        assert max(others) <= STEEPER * usual, described(name, depths, values)


def assert_proportional(depths: Sequence[int], table: Sequence[Counts]) -> None:
    """A layer costs about the same on average in nets of all depths."""
    for name in Counts._fields:
        values = [getattr(row, name) for row in table]
        first, *others = [value / depth for value, depth in zip(values, depths, strict=True)]
        assert max(others) <= DEARER * first, described(name, depths, values)


def relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


def weights(depth: int, width: int = WIDTH) -> list[np.ndarray]:
    generator = np.random.default_rng(depth)
    return [generator.normal(size=(width, width)) / np.sqrt(width) for _ in range(depth)]


def chain(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(first: Any, x: Any, *rest: Any) -> Any:
        state = first @ x
        for matrix in rest:
            state = matrix @ activation(state)
        return (state**2).sum()

    return loss


def residual(tanh: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(first: Any, x: Any, *rest: Any) -> Any:
        state = first @ x
        for matrix in rest:
            state = state + tanh(matrix @ state)
        return (state**2).sum()

    return loss


NETS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (chain(relu), chain(jax.nn.relu)),
    "tanh": (chain(np.tanh), chain(jnp.tanh)),
    "residual": (residual(np.tanh), residual(jnp.tanh)),
}


def arguments(depth: int, width: int = WIDTH) -> tuple[np.ndarray, ...]:
    first, *rest = weights(depth, width)
    return (first, np.linspace(-1.0, 1.0, width), *rest)


@pytest.mark.parametrize("order", [1, 2], ids=["gradient", "hessian"])
@pytest.mark.parametrize("name", NETS)
def test_derivatives_by_the_first_layer_grow_linearly(name: str, order: int) -> None:
    def derivative(depth: int) -> Counts:
        return counts(hesse.derivative(NETS[name][0], order=order), *arguments(depth), count_calls=False)

    assert_proportional(DEPTHS, [derivative(depth) for depth in DEPTHS])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETS)
def test_hessian_is_built_in_linear_time_in_every_mode(name: str, mode: str) -> None:
    """`auto` builds candidates in these modes and chooses one."""
    depths = (8, 8, 20, 48) if mode in ("forward", "reverse") else (8, 8, 16, 32)
    table = [counts(hesse.hessian(NETS[name][0], mode=mode), *arguments(depth)) for depth in depths]
    assert_linear(depths[1:], table[1:])  # the first one fills the caches that all share


@pytest.mark.parametrize("name", NETS)
def test_gradient_by_all_layers_grows_linearly(name: str) -> None:
    def gradient(depth: int) -> Counts:
        layers = tuple(k for k in range(depth + 1) if k != 1)
        return counts(hesse.grad(NETS[name][0], argnums=layers), *arguments(depth), count_calls=False)

    assert_linear(DEPTHS, [gradient(depth) for depth in DEPTHS])


@pytest.mark.parametrize("name", NETS)
def test_derivatives_of_deep_nets_are_right(name: str) -> None:
    function, reference = NETS[name]
    given = arguments(12)
    for derivative, oracle in ((hesse.grad, jax.grad), (hesse.hessian, jax.hessian)):
        what = f"{derivative.__name__} of {name}"
        assert_close(derivative(function)(*given), fast_jit(oracle(reference))(*given), what)


@pytest.mark.parametrize("name", NETS)
def test_gradient_of_a_very_deep_net_is_right(name: str) -> None:
    function, reference = NETS[name]
    given = arguments(200)
    scale = max(1.0, abs(float(function(*given))))

    def scaled(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: f(*values) / scale

    assert_close(hesse.grad(scaled(function))(*given), jax.grad(scaled(reference))(*given), name)


# Diamonds: without sharing, k of them make 2^k paths.


def diamonds(count: int, library: Any = np) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for _ in range(count):
            x = library.sin(x) * library.exp(x)
        return library.sum(x)

    return function


POINT = np.array([0.02, -0.2, -0.5])
"""Positive entries grow from one diamond to the next: 1/x goes down by about one."""


@pytest.mark.parametrize("order", [1, 2], ids=["gradient", "hessian"])
def test_stacked_diamonds_grow_linearly(order: int) -> None:
    depths = (5, 10, 20)
    table = [counts(hesse.derivative(diamonds(depth), order=order), POINT) for depth in depths]
    assert_linear(depths, table)
    assert table[2].nodes <= 20 * 30, "twenty diamonds take tens of nodes each, not a million in all"


@functools.cache
def diamonds_in_jax() -> tuple[np.ndarray, np.ndarray]:
    reference = diamonds(20, jnp)
    gradient, hessian = fast_jit(lambda x: (jax.grad(reference)(x), jax.hessian(reference)(x)))(POINT)
    return np.asarray(gradient), np.asarray(hessian)


@pytest.mark.parametrize("mode", ["auto", *MODES])
def test_stacked_diamonds_are_right(mode: str) -> None:
    gradient, hessian = diamonds_in_jax()
    assert_close(hesse.grad(diamonds(20), mode=mode)(POINT), gradient, "gradient")
    assert_close(hesse.hessian(diamonds(20), mode=mode)(POINT), hessian, "Hessian")


# Five thousand operations: nothing recurses.

LENGTH = 5000
CENTRE = np.array([np.pi - 0.3, np.pi + 0.2])
"""x + sin(x) has a fixed point at π, which attracts: the values stay of order one."""


def long_chain(x: Any) -> Any:
    for _ in range(LENGTH // 2):
        x = np.sin(x) + x
    return np.sum(x)


def sines(length: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for _ in range(length):
            x = np.sin(x)
        return np.sum(x)

    return function


def sines_derivatives(point: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives of each entry, by the chain rule along one variable."""
    value, first, second = point, np.ones_like(point), np.zeros_like(point)
    for _ in range(length):
        second = np.cos(value) * second - np.sin(value) * first**2
        first = np.cos(value) * first
        value = np.sin(value)
    return first, second


def test_no_recursion_limit_in_the_gradient_of_a_long_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "FEWEST_STEPS", LENGTH + 1)  # it is to stay a chain
    assert sys.getrecursionlimit() < LENGTH
    first, _ = sines_derivatives(CENTRE, LENGTH)
    derivative = hesse.grad(sines(LENGTH))
    np.testing.assert_allclose(derivative(CENTRE), first, rtol=1e-9)
    report = derivative.explain(CENTRE)
    assert LENGTH <= report.nodes <= 4 * LENGTH
    assert str(report).startswith("formula")


@pytest.mark.slow
def test_no_recursion_limit_in_the_hessian_of_a_long_chain() -> None:
    _, second = sines_derivatives(CENTRE, LENGTH)
    derivative = hesse.hessian(sines(LENGTH), mode="reverse")  # one candidate, to save time
    np.testing.assert_allclose(derivative(CENTRE), np.diag(second), rtol=1e-9)
    assert derivative.explain(CENTRE).nodes <= 8 * LENGTH


def test_no_recursion_limit_when_a_long_chain_is_printed() -> None:
    value = long_chain(hesse.variable("x", (2,)))
    for notation in ("text", "einsum", "latex"):
        assert len(value.to(notation)) > LENGTH
    assert value.graph().dot.count("->") >= LENGTH
    assert value.evaluate(x=np.full(2, np.pi)) == pytest.approx(2 * np.pi)
