"""Functions written in JAX: all blocks of their derivatives against nested `jax.jacfwd`, in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import hesse
import jax_cases
import jax_complex_cases
import jax_rule_cases
from jax_check import check_derivatives
from oracles import assert_close

CASES = jax_cases.CASES | jax_complex_cases.CASES | jax_rule_cases.CASES


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    """The value and the derivatives of all orders, at two points: the second call finds the first."""
    check_derivatives(CASES[name], warns=name in jax_rule_cases.UNKNOWN)


def test_a_rule_backwards() -> None:
    """A function with a rule for its gradient alone, which nested `jacrev` honours."""

    def function(x: Any, limit: Any) -> Any:
        return jnp.sum(jax_rule_cases.clipped(jnp.sin(x), limit) * x**2)

    x, limit = jnp.array([0.3, -0.7, 1.2]), jnp.array(2.0)
    found, expected = hesse.hessian(function), jax.jacrev(jax.jacrev(function))
    assert_close(found(x, limit), expected(x, limit))
    assert_close(found(2 * x, limit), expected(2 * x, limit))
    assert_close(hesse.grad(function, 1)(x, limit), jnp.zeros(()))


def test_the_power_of_nothing_is_smooth() -> None:
    """Nested JAX has 0."""
    found = hesse.hessian(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 2))(jnp.zeros(4))
    assert_close(found, 8.0 * jnp.eye(4))


def test_sizes_of_complex_numbers_at_zero() -> None:
    """Derivatives are 0 there, as in JAX; the square is smooth."""
    x = jnp.array([0.0, 1.0, 0.0, -2.0])

    def joined(x: Any) -> Any:
        return x[:2] + 1j * x[2:]

    for function in (
        lambda x: jnp.sum(jnp.abs(joined(x))),
        lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x) * jnp.arange(3))),
        lambda x: jnp.sum(jnp.real(jnp.sign(joined(x)) * (1 + 2j))),  # JAX has 0 everywhere
    ):
        assert_close(hesse.compile(function)(x), function(x))
        assert_close(hesse.grad(function)(x), jax.grad(function)(x))
    assert_close(hesse.hessian(lambda x: jnp.sum(jnp.abs(joined(x)) ** 2))(x), 2.0 * jnp.eye(4))
