"""Programs whose tangents have many patterns: gates that are cut out of one array, step after step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.ir import TooManyNodes, add, at_most_nodes, multiply, variable
from oracles import assert_close

jax.config.update("jax_enable_x64", True)

STEPS, WIDTH = 5, 3


def gated(xp: Any, W: Any, U: Any, b: Any, x: Any) -> Any:
    """The states of a net of memory cells, which has the four gates of a step in one array."""
    h = c = x[:, 0, :1] * xp.zeros(WIDTH)
    states = []
    for step in range(STEPS):
        z = x[:, step] @ W.T + h @ U.T + b
        enter, keep, new, show = (z[:, k * WIDTH : (k + 1) * WIDTH] for k in range(4))
        c = c / (1 + xp.exp(-keep)) + xp.tanh(new) / (1 + xp.exp(-enter))
        h = xp.tanh(c) / (1 + xp.exp(-show))
        states.append(xp.sum(h, axis=1))
    return xp.stack(states)


def loss(xp: Any, *arguments: Any) -> Any:
    """A number made of all states."""
    return xp.sum(gated(xp, *arguments) ** 2)


def with_library(function: Any, xp: Any) -> Any:
    """The function of arrays, with named arguments."""
    return lambda W, U, b, x: function(xp, W, U, b, x)


RANDOM = np.random.default_rng(0)
ARGUMENTS = (
    RANDOM.normal(size=(4 * WIDTH, 2)),
    RANDOM.normal(size=(4 * WIDTH, WIDTH)),
    RANDOM.normal(size=4 * WIDTH),
    RANDOM.normal(size=(2, STEPS, 2)),
)


@pytest.fixture(scope="module")
def expected() -> Any:
    return jax.hessian(with_library(loss, jnp), argnums=(0, 1, 2))(*map(jnp.asarray, ARGUMENTS))


@pytest.mark.parametrize("make", [np.array, torch.tensor, jnp.asarray], ids=["numpy", "torch", "jax"])
def test_patterns_are_given_up(make: Any, expected: Any) -> None:
    """The program stays as long as that for one direction; second calls and other types are right, too."""
    H = hesse.hessian(with_library(loss, np), argnums=(0, 1, 2))
    arguments = tuple(map(make, ARGUMENTS))
    explanation = H.explain(*arguments)
    assert explanation.modes[-1] == "columns"
    assert explanation.nodes < 1500
    for _ in range(2):
        for row, expected_row in zip(H(*arguments), expected, strict=True):
            for block, right in zip(row, expected_row, strict=True):
                assert_close(np.asarray(block), right, tolerance=1e-10)


def test_single_precision(expected: Any) -> None:
    H = hesse.hessian(with_library(loss, np), argnums=1)
    H(*ARGUMENTS)
    found = H(*(array.astype(np.float32) for array in ARGUMENTS))
    assert found.dtype == np.float32
    assert_close(found, expected[1][1], tolerance=1e-4)


def test_structured_results_keep_their_patterns(expected: Any) -> None:
    H = hesse.hessian(with_library(loss, np), argnums=2, form="structured")
    assert "columns" not in H.explain(*ARGUMENTS).modes
    assert_close(H(*ARGUMENTS).dense(), expected[2][2], tolerance=1e-10)


def test_asked_for_a_mode() -> None:
    H = hesse.hessian(with_library(loss, np), argnums=2, mode="reverse")
    assert H.explain(*ARGUMENTS).modes == ("reverse", "reverse")


def test_programs_of_numbers_keep_their_patterns() -> None:
    """A number takes less time than an array of three."""
    returns = np.sin(np.arange(30.0))

    def likelihood(p: Any) -> Any:
        h, total = p[0] ** 2, 0.0
        for r in returns:
            h = p[0] ** 2 + p[1] ** 2 * r**2 + p[2] ** 2 * h
            total = total + np.log(h) + r**2 / h
        return total

    p = np.array([0.3, 0.5, 0.6])
    H = hesse.hessian(likelihood)
    assert "columns" not in H.explain(p).modes
    assert hesse.check(likelihood, p, order=2).ok


def test_jacobian() -> None:
    J = hesse.jacobian(with_library(gated, np), argnums=(0, 1))
    right = jax.jacobian(with_library(gated, jnp), argnums=(0, 1))(*map(jnp.asarray, ARGUMENTS))
    for found, block in zip(J(*ARGUMENTS), right, strict=True):
        assert_close(found, block, tolerance=1e-10)


def test_third_derivative() -> None:
    """Columns of columns."""
    W, U, b, x = ARGUMENTS

    def of_bias(xp: Any) -> Any:
        return lambda b: loss(xp, W, U, b, x[:1])

    T = hesse.derivative(of_bias(np), order=3)
    right = jax.jacfwd(jax.hessian(of_bias(jnp)))(jnp.asarray(b))
    assert_close(T(b), right, tolerance=1e-9)


def test_derivative_of_a_hessian() -> None:
    """A Hessian inside of a function is an expression, whatever made it."""

    def total(b: Any, W: Any, U: Any, x: Any) -> Any:
        return np.sum(hesse.hessian(lambda b: loss(np, W, U, b, x))(b) ** 2)

    def right(b: Any, W: Any, U: Any, x: Any) -> Any:
        return jnp.sum(jax.hessian(lambda b: loss(jnp, W, U, b, x))(b) ** 2)

    W, U, b, x = ARGUMENTS
    assert_close(
        hesse.grad(total)(b, W, U, x), jax.grad(right)(*map(jnp.asarray, (b, W, U, x))), tolerance=1e-9
    )


def test_layers_of_a_module() -> None:
    torch.manual_seed(0)

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.last = torch.nn.LSTM(2, 3, batch_first=True), torch.nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.cells(x)[0])

    module = Recurrent().double()
    x, y = torch.randn(2, 5, 2).double(), torch.randn(2, 5, 1).double()
    parameters = hesse.torch.parameters_of(module)
    f = hesse.torch.functional(module, torch.nn.functional.mse_loss)
    H = hesse.hessian(f, blocks="layer")
    assert "columns" in H.explain(parameters, x, y).modes
    found = H(parameters, x, y)

    def of(values: Any) -> Any:
        return torch.nn.functional.mse_loss(torch.func.functional_call(module, values, (x,)), y)

    right = torch.func.jacrev(torch.func.jacrev(of))(dict(parameters))
    for layer, rows in found.items():
        for first, row in rows.items():
            for second, block in row.items():
                assert_close(block, right[f"{layer}.{first}"][f"{layer}.{second}"], tolerance=1e-10)

    leaves = [module.cells.weight_hh_l0, module.cells.bias_ih_l0]
    hesse.torch.backward(torch.nn.functional.mse_loss(module(x), y), order=2)
    for leaf, name in zip(leaves, ("cells.weight_hh_l0", "cells.bias_ih_l0"), strict=True):
        assert_close(leaf.hgrad[1][0], right[name][name], tolerance=1e-10)


def test_explanations_leave_long_formulas_out() -> None:
    explanation = hesse.hessian(with_library(loss, np), argnums=(0, 1, 2)).explain(*ARGUMENTS)
    assert str(explanation).startswith("formula        long; the attribute formula has it\n")


def test_a_limit_of_nodes() -> None:
    """It holds for what is made inside, and not after it."""
    x = variable("limited", (3,))

    def made(count: int) -> Any:
        node = x
        for _ in range(count):
            node = add([multiply(node, x), x], (3,))
        return node

    with pytest.raises(TooManyNodes), at_most_nodes(10):
        made(20)
    with at_most_nodes(1000):
        made(20)
    made(2000)
