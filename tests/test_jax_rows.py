"""Functions of narrow rows in JAX, which one processor computes over one row, against JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.backends.jax import elementwise


@pytest.mark.parametrize("shape", [(5, 20), (3, 63), (2, 2, 12), (5, 64), (12,)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_functions_of_narrow_rows(shape: tuple[int, ...], dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=shape), dtype)

    def f(x: Any) -> Any:
        return jnp.sum(
            jnp.tanh(x) * jnp.exp(-x) * jax.nn.softmax(jnp.sin(x), -1) + jax.nn.logsumexp(x, -1).mean()
        )

    H, expected = hesse.hessian(f), jax.hessian(f)(x)
    tolerance = 200 * float(jnp.finfo(dtype).eps)
    for run in (H, H, jax.jit(H), lambda x: jax.vmap(H)(x[None])[0]):
        np.testing.assert_allclose(run(x), expected, rtol=tolerance, atol=tolerance)
        assert run(x).dtype == dtype
    third = jax.grad(lambda x: jnp.sum(H(x) ** 2))(x)
    np.testing.assert_allclose(
        third,
        jax.grad(lambda x: jnp.sum(jax.hessian(f)(x) ** 2))(x),
        rtol=10 * tolerance,
        atol=10 * tolerance,
    )


@pytest.mark.parametrize("x", [0.5, np.full((4, 20), 0.5), np.full((0, 20), 0.5), np.full((2, 3, 20), 0.5)])
def test_kernels_take_numbers_and_arrays_of_any_shape(x: Any) -> None:
    np.testing.assert_allclose(elementwise.kernel("exp")(x), np.exp(x), rtol=1e-6)
