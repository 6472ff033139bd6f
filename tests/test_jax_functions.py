"""Functions written in JAX: all blocks of their derivatives against nested `jax.jacfwd`, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import hesse
from jax_cases import CASES
from oracles import FAST_COMPILATION, assert_close, nested_jax


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
        found, expected = both(*map(jnp.asarray, case.points(seed)))
        for order, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, f"{name}, order {order}")
