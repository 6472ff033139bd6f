"""Functions written in JAX: all blocks of their derivatives against nested `jax.jacfwd`, in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
import jax_cases
import jax_complex_cases
import jax_rule_cases
from hesse.ir import Apply, TooManyNodes, at_most_nodes, topological, uniform
from hesse.ops.foreign import FOREIGN, rule_of
from jax_check import check_derivatives
from oracles import assert_close, fast_jit, nested_jax

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


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sum(x * 2),
        lambda x: jnp.sum(x * jnp.array([1.0, 2.0, 3.0], jnp.bfloat16)),
        lambda x: jnp.sum(jnp.where(x > 0.25, x, 0.5 * x) ** 2),
        lambda x: jax.lax.scan(lambda c, a: (0.5 * c + a, c), jnp.zeros((), x.dtype), x)[0],
    ],
)
def test_constants_of_half_precision(function: Any) -> None:
    x = jnp.array([0.5, -0.25, 2.0], jnp.bfloat16)
    found = hesse.grad(function)(x)
    assert found.dtype == jnp.bfloat16
    assert_close(found.astype(float), jax.grad(function)(x).astype(float))


def test_matrices_of_matrices_of_loops() -> None:
    """They are computed where the loop is: a call back to Python would wait for itself."""
    f = lambda x: jax.scipy.special.bessel_jn(x, v=2)[2]  # noqa: E731
    x = jnp.array([0.5])
    assert_close(hesse.hessian(lambda x: f(x)[0])(x), fast_jit(nested_jax(lambda x: f(x)[0], 2))(x))


def test_searches_that_are_given_up_inside_of_a_rule() -> None:
    def loop(x: Any) -> Any:
        return jnp.sum(jax.lax.fori_loop(0, 90, lambda _, s: jnp.sin(s) + x, x))

    output = hesse.compile(loop).explain(jnp.ones(2)).roots[0]
    (node,) = (node for node in topological([output]) if isinstance(node, Apply) and node.name == FOREIGN)
    rule = rule_of(node)
    slot = next(slot for slot in range(len(node.operands)) if rule.is_active(node, slot))
    with pytest.raises(TooManyNodes), at_most_nodes(2):
        rule.push(node, slot, uniform(1.0, node.operands[slot].shape))


def test_exponentials_to_a_high_order() -> None:
    f = lambda t: jnp.sum(jax.scipy.linalg.expm(t * jnp.array([[0.1, 0.3], [-0.2, 0.4]])))  # noqa: E731
    assert_close(hesse.derivative(f, 5)(0.4), fast_jit(nested_jax(f, 5))(0.4), tolerance=1e-8)


def test_digits_that_are_dropped() -> None:
    """A rounding that is asked for takes place, and passes derivatives on."""

    def rounded(x: Any) -> Any:
        return jnp.sum(jax.lax.reduce_precision(jnp.sin(x), 8, 7) * x**2)

    x = jnp.array([0.3, -0.7, 1.2])
    assert rounded(x) != jnp.sum(jnp.sin(x) * x**2)
    np.testing.assert_allclose(hesse.compile(rounded)(x), rounded(x), rtol=1e-12)
    np.testing.assert_allclose(hesse.grad(rounded)(x), jax.grad(rounded)(x), rtol=2.0**-8)  # rounds factors
    np.testing.assert_array_equal(  # all the digits of the type, which is that of the argument
        hesse.grad(lambda x: jnp.sum(jax.lax.reduce_precision(x, 8, 23) ** 2))(x.astype("float32")),
        2 * x.astype("float32"),
    )


@pytest.mark.filterwarnings("ignore:hesse has no rule for ragged_dot")
def test_primitives_that_jax_cannot_map() -> None:
    def experts(x: Any) -> Any:
        weights = jnp.arange(8.0).reshape(2, 2, 2)
        return jnp.sum(jax.lax.ragged_dot(x, weights, jnp.array([2, 1], "int32")) ** 2)

    x = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(hesse.grad(experts)(x), jax.grad(experts)(x), rtol=1e-12)


def test_the_largest_of_nothing() -> None:
    """It is the least number, or what it begins with. Nested jax.jacfwd has nan here."""
    x = jnp.array([[0.3, -0.7, 1.2]])

    def function(x: Any) -> Any:
        return jnp.sum(jnp.max(x[:0], axis=0, initial=0.5) * x + jnp.min(x[:, :0], initial=2.0) * x**2)

    np.testing.assert_allclose(hesse.grad(function)(x), 0.5 + 4 * x)
    np.testing.assert_allclose(hesse.hessian(function)(x)[0, :, 0], 4 * np.eye(3))
