"""Chains of equal steps, as loops in Python leave them, become loops; values are those of the chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.api import recurrences
from hesse.ir import topological
from hesse.ops.foreign import FOREIGN
from oracles import assert_close, evaluate_jax

RANDOM = np.random.default_rng(0)
STEPS = 12
W, X, V = RANDOM.normal(size=(3, 3)) / 2, RANDOM.normal(size=(STEPS + 3, 3)) / 2, RANDOM.normal(size=(3,)) / 2
ARGUMENTS = (W, X, V)
ORDER = RANDOM.permutation(STEPS + 3)
NUMBERS = RANDOM.normal(size=STEPS + 3)


@pytest.fixture(autouse=True)
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "FEWEST_STEPS", 6)
    monkeypatch.setattr(recurrences, "FEWEST_OF_NUMBERS", 6)


def net(xp: Any, W: Any, X: Any, V: Any) -> Any:
    state = V
    for k in range(STEPS):
        state = xp.tanh(W @ state + X[k])
    return xp.sum(state**2)


def net_that_tells_all(xp: Any, W: Any, X: Any, V: Any) -> Any:
    state, total = V, 0.0
    for k in range(STEPS):
        state = xp.tanh(W @ state + X[k])
        total = total + xp.sum(xp.sin(state) * X[k + 1])
    return total + state[0]


def memory_cell(xp: Any, W: Any, X: Any, V: Any) -> Any:
    """Two states, gates that differ in the rows of the weights, and a read in the middle."""
    state, cell, total = V, 0.5 * V, 0.0
    for k in range(STEPS):
        gate = 1 / (1 + xp.exp(-(W[0] * state + X[k])))
        keep = 1 / (1 + xp.exp(-(W[1] * state + X[k])))
        cell = keep * cell + gate * xp.tanh(W[2] * state)
        state = xp.tanh(cell) * gate
        total = total + xp.sum((state - X[k + 2]) ** 2)
    return total


def cells_on_cells(xp: Any, W: Any, X: Any, V: Any) -> Any:
    """Two layers: the longest path goes through one of them and ends in the other."""
    states, cells, total = [V, 2.0 * V], [0.5 * V, V], 0.0
    for k in range(2 * STEPS):
        x = X[k // 2]
        for layer in range(2):
            gate = 1 / (1 + xp.exp(-(W[layer] * states[layer] + W[2])))
            cells[layer] = cells[layer] / (1 + xp.exp(-(W[layer] * x))) + gate * xp.tanh(W[2] * states[layer])
            x = states[layer] = xp.tanh(cells[layer]) / (1 + xp.exp(-x))
        total = total + xp.sum(x * X[k // 2 + 1])
    return total


def pendulum(xp: Any, W: Any, X: Any, V: Any) -> Any:
    u = V[:2]
    for k in range(STEPS):
        u = u + 0.1 * xp.stack([u[1], -xp.sin(u[0])]) + NUMBERS[k] * X[k, :2]
    return xp.sum(u * V[1:])


def smoothing(xp: Any, W: Any, X: Any, V: Any) -> Any:
    s, total = 0.0, 0.0
    for k in range(STEPS):
        s = 0.9 * s + X[k, 1]
        total = total + xp.sin(s)
    return total


def forward_algorithm(xp: Any, W: Any, X: Any, V: Any) -> Any:
    alpha = V
    for k in range(STEPS):
        terms = W.T + alpha
        alpha = xp.log(xp.sum(xp.exp(terms), axis=1)) + X[ORDER[k]]
    return xp.log(xp.sum(xp.exp(alpha)))


def own_weights(xp: Any, W: Any, X: Any, V: Any) -> Any:
    """Items that are computed before, rows and columns of one matrix, and a number for each step."""
    state = V
    for k in range(STEPS):
        state = xp.tanh(xp.outer(xp.sin(X[k]), X[ORDER[k]]) @ state * NUMBERS[k] + W[k % 3] * W[:, k % 3])
    return xp.sum(state)


def two_steps_back(xp: Any, W: Any, X: Any, V: Any) -> Any:
    before, state = V, W @ V
    for k in range(STEPS):
        before, state = state, xp.sin(state) + 0.3 * before * X[k]
    return xp.sum(state * before)


def one_after_the_other(xp: Any, W: Any, X: Any, V: Any) -> Any:
    state = V
    for k in range(STEPS):
        state = xp.tanh(W @ state + X[k])
    for k in range(STEPS):
        state = xp.sin(W.T @ state) * X[k]
    return xp.sum(state)


def products(xp: Any, W: Any, X: Any, V: Any) -> Any:
    found = 1.0
    for k in range(STEPS):
        found = found * (1 + X[k, 0] * X[k + 1, 1] * 0.3)
    return found


def backwards(xp: Any, W: Any, X: Any, V: Any) -> Any:
    states, state = [], V
    for k in reversed(range(STEPS)):
        state = xp.tanh(W @ state - X[k] * state)
        states.append(state)
    return xp.sum(xp.stack(states[::-1]) * X[:STEPS] ** 2)


CHAINS = [
    net,
    net_that_tells_all,
    memory_cell,
    pendulum,
    smoothing,
    forward_algorithm,
    own_weights,
    two_steps_back,
    one_after_the_other,
    products,
    backwards,
]


def loops_in(function: Callable[..., Any]) -> int:
    roots = hesse.compile(lambda *given: function(np, *given)).explain(*ARGUMENTS).roots
    return sum(getattr(node, "name", "") == FOREIGN for node in topological(roots))


@pytest.mark.parametrize("function", CHAINS)
def test_derivatives_are_those_of_jax(function: Callable[..., Any]) -> None:
    def reference(*given: Any) -> Any:
        return function(jnp, *given)

    first = evaluate_jax(jax.grad(reference, argnums=(0, 1, 2)), *ARGUMENTS)
    expected = [function(np, *ARGUMENTS), *first]
    second = evaluate_jax(jax.hessian(reference, argnums=1), *ARGUMENTS)

    def written(*given: Any) -> Any:
        return function(np, *given)

    slopes, curvature = hesse.value_and_grad(written, argnums=(0, 1, 2)), hesse.hessian(written, argnums=1)
    for _ in range(2):
        value, found = slopes(*ARGUMENTS)
        for one, other in zip([value, *found], expected, strict=True):
            assert_close(np.asarray(one), other, function.__name__)
        assert_close(np.asarray(curvature(*ARGUMENTS)), second, function.__name__)


@pytest.mark.parametrize("function", CHAINS)
def test_chains_are_loops(function: Callable[..., Any]) -> None:
    # Vectors that are written are read by entries, too.
    several = {one_after_the_other: 2, pendulum: 2}
    assert loops_in(function) == several.get(function, 1)


def test_layers_are_loops_of_their_own() -> None:
    assert loops_in(cells_on_cells) == 2
    reference = jax.grad(lambda *given: cells_on_cells(jnp, *given), argnums=(0, 1, 2))
    expected = evaluate_jax(reference, *ARGUMENTS)
    slopes = hesse.grad(lambda *given: cells_on_cells(np, *given), argnums=(0, 1, 2))
    for _ in range(2):
        for one, other in zip(slopes(*ARGUMENTS), expected, strict=True):
            assert_close(np.asarray(one), other, "two layers")


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("function", [net_that_tells_all, memory_cell])
def test_arguments_of_other_libraries(library: str, function: Callable[..., Any]) -> None:
    converted = torch.asarray if library == "torch" else jnp.asarray
    slopes = hesse.grad(lambda *given: function(np, *given), argnums=(0, 1))
    with jax.enable_x64(True):
        expected = slopes(*ARGUMENTS)
        for _ in range(2):
            for one, other in zip(slopes(*map(converted, ARGUMENTS)), expected, strict=True):
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-9, atol=1e-9)


def test_short_chains_stay_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "FEWEST_STEPS", STEPS + 1)
    assert loops_in(net) == 0


def test_numbers_and_layers_with_weights_of_their_own_are_no_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "FEWEST_OF_NUMBERS", STEPS + 1)
    assert loops_in(smoothing) == 0

    def layers(weights: list[Any], x: Any) -> Any:
        for weight in weights:
            x = np.tanh(weight @ x)
        return np.sum(x)

    roots = hesse.compile(layers).explain([W + k for k in range(STEPS)], V).roots
    assert not any(getattr(node, "name", "") == FOREIGN for node in topological(roots))
