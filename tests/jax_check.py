"""How cases of JAX functions are checked: all blocks of their derivatives against nested `jax.jacfwd`."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp

import hesse
from jax_cases import Case
from oracles import assert_close, fast_jit, nested_jax


def check_derivatives(case: Case, warns: bool = False) -> None:
    """The value and the derivatives of all orders, at two points: the second call finds the first."""
    argnums = tuple(range(len(case.shapes)))
    orders = [hesse.derivative(case.function, k, argnums=argnums) for k in range(1, case.order + 1)]

    @fast_jit
    def both(*arrays: Any) -> tuple[list[Any], list[Any]]:
        found = [hesse.compile(case.function)(*arrays), *(derivative(*arrays) for derivative in orders)]
        return found, [nested_jax(case.function, k, argnums)(*arrays) for k in range(case.order + 1)]

    for seed in (0, 1):
        points = list(map(jnp.asarray, case.points(seed)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, expected = both(*points)
        assert any("JAX's own" in str(one.message) for one in caught) == (warns and seed == 0)
        for order, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, f"{case.name}, order {order}")
