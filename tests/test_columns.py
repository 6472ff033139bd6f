"""Derivatives by columns of the identity: the same values in fewer instructions, where arrays are small."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
import jax_model_cases
from hesse.backends.jax import JaxTarget
from hesse.backends.jax.machine import JaxMachine
from oracles import assert_close, fast_jit

jax.config.update("jax_enable_x64", True)

STRUCTURED = JaxTarget(machine=JaxMachine(call_cost=0.0))
"""JAX without derivatives by columns."""
SIZE = jax_model_cases._sizes(jax_model_cases.BLOCK)
VECTOR = jnp.asarray(np.random.default_rng(0).uniform(-0.7, 0.7, SIZE))
SHORT = VECTOR[: jax_model_cases._sizes(jax_model_cases.PERCEPTRON)]


def loss(p: Any, x: Any) -> Any:
    """A net of two layers with norms, of several arrays of parameters."""
    for w, b in p:
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        x = jnp.tanh(x @ w + b) / jnp.sqrt(1.0 + jnp.sum(x**2, axis=-1, keepdims=True))
    return jnp.sum(x**3)


FIRST = (jnp.linspace(-1, 1, 12).reshape(3, 4), jnp.ones(4))
PARAMETERS = [FIRST, (jnp.linspace(-1, 0.5, 8).reshape(4, 2), jnp.zeros(2))]
INPUTS = jnp.linspace(-1.0, 2.0, 6).reshape(2, 3)


def instructions(derivative: Any, *arguments: Any) -> int:
    """The length of the program of a derivative."""
    return len(derivative.explain(*arguments).executable.program.instructions)


def test_a_vector_of_parameters() -> None:
    """Far fewer instructions, and the formula is the same."""
    H, other = (hesse.hessian(jax_model_cases.block, backend=backend) for backend in (None, STRUCTURED))
    assert instructions(H, VECTOR) < 0.5 * instructions(other, VECTOR)
    assert H.explain(VECTOR).roots == other.explain(VECTOR).roots
    expected = fast_jit(jax.hessian(jax_model_cases.block))(VECTOR)
    for _ in range(2):
        assert_close(H(VECTOR), expected, tolerance=1e-10)


def test_blocks_by_several_arrays() -> None:
    H, other = (hesse.hessian(loss, argnums=(0, 1), backend=backend) for backend in (None, STRUCTURED))
    assert instructions(H, PARAMETERS, INPUTS) < instructions(other, PARAMETERS, INPUTS)
    expected = fast_jit(jax.hessian(loss, argnums=(0, 1)))(PARAMETERS, INPUTS)
    found = H(PARAMETERS, INPUTS)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(one, two, tolerance=1e-10)


def test_differentiated_again() -> None:
    """By hesse, which sees the formula, and by JAX, which sees the program."""

    def entries(vector: Any) -> Any:
        return jnp.sum(hesse.hessian(jax_model_cases.perceptron)(vector) ** 2)

    def reference(vector: Any) -> Any:
        return jnp.sum(jax.hessian(jax_model_cases.perceptron)(vector) ** 2)

    expected = fast_jit(jax.grad(reference))(SHORT)
    assert_close(hesse.grad(entries)(SHORT), expected, tolerance=1e-9)
    assert_close(fast_jit(jax.grad(entries))(SHORT), expected, tolerance=1e-9)


@pytest.mark.parametrize("has_aux", [False, True])
def test_jacobians(has_aux: bool) -> None:
    def outputs(vector: Any) -> Any:
        x = jnp.tanh(vector.reshape(4, 13))
        for _ in range(4):
            x = jnp.sin(x[:, ::-1] * jnp.cumsum(x, axis=1)) + x**2
        return (x[:, :2], {"sum": jnp.sum(x)}) if has_aux else x[:, :2]

    J = hesse.jacobian(outputs, has_aux=has_aux)
    expected = fast_jit(jax.jacfwd(outputs, has_aux=has_aux))(VECTOR)
    found = J(VECTOR)
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(one, two, tolerance=1e-10)


def test_where_patterns_pay_they_are_used() -> None:
    """Large arrays, few instructions, and results that stay structured."""

    def sums(x: Any) -> Any:
        return jnp.sum(jnp.tanh(x) * jnp.sin(x)) + jnp.sum(x) ** 2

    for size in (3, 3000):
        x = jnp.linspace(0.0, 1.0, size)
        H, other = (hesse.hessian(sums, backend=backend) for backend in (None, STRUCTURED))
        assert instructions(H, x) == instructions(other, x)
    kept = hesse.hessian(jax_model_cases.perceptron, form="structured")(SHORT)
    assert isinstance(kept, hesse.Structured)
    assert_close(kept.dense(), fast_jit(jax.hessian(jax_model_cases.perceptron))(SHORT), tolerance=1e-10)
