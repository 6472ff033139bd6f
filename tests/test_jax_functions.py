"""Functions written in JAX: all blocks of their derivatives against nested `jax.jacfwd`, in float64."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import hesse
import jax_cases
import jax_rule_cases
from oracles import FAST_COMPILATION, assert_close, nested_jax

CASES = jax_cases.CASES | jax_rule_cases.CASES


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    """The value and the derivatives of all orders, at two points: the second call finds the first."""
    case = CASES[name]
    argnums = tuple(range(len(case.shapes)))
    orders = [hesse.derivative(case.function, k, argnums=argnums) for k in range(1, case.order + 1)]

    @partial(jax.jit, compiler_options=FAST_COMPILATION)
    def both(*arrays: Any) -> tuple[list[Any], list[Any]]:
        found = [hesse.compile(case.function)(*arrays), *(derivative(*arrays) for derivative in orders)]
        return found, [nested_jax(case.function, k, argnums)(*arrays) for k in range(case.order + 1)]

    for seed in (0, 1):
        points = list(map(jnp.asarray, case.points(seed)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, expected = both(*points)
        assert any("JAX's own" in str(one.message) for one in caught) == (
            name in jax_rule_cases.UNKNOWN and seed == 0
        )
        for order, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, f"{name}, order {order}")


def test_a_rule_backwards() -> None:
    """A function with a rule for its gradient alone, which nested `jacrev` honours."""

    def function(x: Any, limit: Any) -> Any:
        return jnp.sum(jax_rule_cases.clipped(jnp.sin(x), limit) * x**2)

    x, limit = jnp.array([0.3, -0.7, 1.2]), jnp.array(2.0)
    found, expected = hesse.hessian(function), jax.jacrev(jax.jacrev(function))
    assert_close(found(x, limit), expected(x, limit))
    assert_close(found(2 * x, limit), expected(2 * x, limit))
    assert_close(hesse.grad(function, 1)(x, limit), jnp.zeros(()))
