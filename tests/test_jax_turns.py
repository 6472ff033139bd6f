"""Products of matrices are computed by XLA with a factor first that is read along its last axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.backends.jax.turns import turned
from hesse.plan.layout import summed_label
from hesse.plan.program import Contract, Load, Program
from oracles import assert_close
from structured_cases import normal

ROWS, WIDTH = 50, 40
X, Y = normal(ROWS, WIDTH), normal(ROWS, WIDTH, seed=1)
W, V = normal(WIDTH, WIDTH, seed=2) / 6, normal(WIDTH, WIDTH, seed=3) / 6


def plain(xp: Any, X: Any, W: Any, V: Any, Y: Any) -> Any:
    return xp.sum(xp.tanh(xp.tanh(X @ W) @ V))


def transposed(xp: Any, X: Any, W: Any, V: Any, Y: Any) -> Any:
    return xp.sum(xp.tanh(V.T @ xp.tanh(W.T @ X.T)) * Y.T)


def mixed(xp: Any, X: Any, W: Any, V: Any, Y: Any) -> Any:
    inner = xp.exp(W.T * V) - xp.sin(W)
    return xp.sum((X @ inner + Y @ inner.T) * (Y @ V))


def scaled(xp: Any, X: Any, W: Any, V: Any, Y: Any) -> Any:
    left = (W.T * xp.sum(X, axis=0)) @ X.T
    return xp.sum((V * xp.sum(W, axis=1)[:, None]).T @ left + 2.0 * (V @ left))


FUNCTIONS = [plain, transposed, mixed, scaled]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients(function: Callable[..., Any], dtype: Any) -> None:
    point = [jnp.asarray(array, dtype) for array in (X, W, V, Y)]
    found = hesse.grad(lambda *arrays: function(jnp, *arrays), argnums=(0, 1, 2))
    expected = jax.grad(lambda *arrays: function(jnp, *arrays), argnums=(0, 1, 2))(*point)
    for _ in range(2):
        for mine, theirs in zip(found(*point), expected, strict=True):
            assert mine.dtype == dtype
            assert_close(
                np.asarray(mine), np.asarray(theirs), tolerance=1e-11 if dtype == np.float64 else 2e-5
            )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_products_with_hessians(function: Callable[..., Any]) -> None:
    point, direction = [jnp.asarray(array) for array in (X, W, V, Y)], jnp.asarray(Y + X)
    found = hesse.hvp(lambda *arrays: function(jnp, *arrays))(*point, direction)
    gradient = jax.grad(lambda X: function(jnp, X, *point[1:]))
    assert_close(
        np.asarray(found), np.asarray(jax.jvp(gradient, (point[0],), (direction,))[1]), tolerance=1e-10
    )


def test_laplacian_reads_matrices_as_they_lie() -> None:
    """`(W'∘s)·A'` would be computed as it is written: with two transposed factors."""
    A, B, C = 0, 1, 2
    loads = (Load("A"), Load("B"), Load("s"))
    scaled_ = Contract(B, C, (0, 1), (0,), (1, 0))
    product = Contract(3, A, (0, 1), (2, 1), (0, 2))
    norms = Contract(4, 4, (0, 1), (0, 1), (0,))
    shapes = ((ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH,), (WIDTH, WIDTH), (WIDTH, ROWS), (WIDTH,))
    program = Program((*loads, scaled_, product, norms), shapes, (0.0,) * 6, (5,), 6)
    found = turned(program)
    made = [item for item in found.instructions if isinstance(item, Contract)]
    assert made[0].labels == (0, 1)
    assert summed_label(made[1]) == made[1].right_labels[-1] and made[1].labels == (2, 0)
    assert found.shapes[5] == (WIDTH,)


def at_many_points(first: str) -> Program:
    """The squares of `first` times `B`, summed over what `first` does not share with the result."""
    loads = (Load(first), Load("B"))
    product = Contract(0, 1, (0, 1, 2), (2, 3), (3, 0, 1))
    squares = Contract(2, 2, (3, 0, 1), (3, 0, 1), (3, 0))
    shapes = ((ROWS, 3, WIDTH), (WIDTH, WIDTH), (WIDTH, ROWS, 3), (WIDTH, ROWS))
    return Program((*loads, product, squares), shapes, (0.0,) * 4, (3,), 4)


def test_stacks_of_which_squares_are_summed_lie_as_their_factor() -> None:
    product, squares = turned(at_many_points("A")).instructions[2:]
    assert isinstance(product, Contract) and isinstance(squares, Contract)
    assert product.labels == (0, 1, 3)  # the axes of A, then that of B
    assert squares.left_labels == squares.right_labels == (0, 1, 3)
    assert squares.labels == (3, 0)


def test_stacks_that_something_else_reads_stay() -> None:
    program = at_many_points("A")
    read = replace(program, results=(2, 3))
    assert turned(read).instructions[2] == program.instructions[2]
    other = replace(program.instructions[3], right_labels=(3, 1, 0))  # no squares
    assert (
        turned(replace(program, instructions=(*program.instructions[:3], other))).instructions[2]
        == (program.instructions[2])
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_laplacians_at_many_points(dtype: Any) -> None:
    def net(x: Any, W: Any, V: Any) -> Any:
        return jnp.sum(jnp.tanh(jnp.tanh(x @ W) @ V))

    points, weights = jnp.asarray(X, dtype), [jnp.asarray(array, dtype) for array in (W, V)]
    found = jax.jit(jax.vmap(hesse.laplacian(net), (0, None, None)))
    expected = jax.vmap(lambda x: jnp.trace(jax.hessian(net)(x, *weights)))(points)
    for _ in range(2):
        assert_close(
            np.asarray(found(points, *weights)),
            np.asarray(expected),
            tolerance=1e-10 if dtype == np.float64 else 1e-4,
        )
