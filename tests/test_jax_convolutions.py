"""Products of windows with kernels in JAX: convolutions where kernels are small, with the same values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hesse
from oracles import fast_jit

jax.config.update("jax_enable_x64", True)


def convolution(**options: Any) -> Any:
    def f(x: Any, kernel: Any) -> Any:
        return jnp.tanh(lax.conv_general_dilated(x, kernel, **options))

    return f


CASES = {
    "plain": ((1, 2, 6, 5), (3, 2, 3, 2), {"window_strides": (1, 1), "padding": "VALID"}),
    "batch": ((4, 2, 5, 5), (1, 2, 2, 2), {"window_strides": (1, 1), "padding": "VALID"}),
    "steps": ((2, 1, 9, 8), (2, 1, 3, 3), {"window_strides": (2, 3), "padding": "VALID"}),
    "dilated": (
        (1, 2, 9, 8),
        (2, 2, 3, 2),
        {"window_strides": (1, 2), "padding": "VALID", "rhs_dilation": (2, 3)},
    ),
    "padded": ((1, 2, 5, 4), (2, 2, 3, 3), {"window_strides": (1, 1), "padding": ((1, 1), (2, 0))}),
    "one axis": ((3, 2, 7), (2, 2, 3), {"window_strides": (2,), "padding": "VALID"}),
    "three axes": ((1, 1, 4, 4, 3), (2, 1, 2, 2, 2), {"window_strides": (1, 1, 1), "padding": "VALID"}),
    "many features": ((1, 2, 5, 5), (9, 2, 3, 3), {"window_strides": (1, 1), "padding": "VALID"}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("argnum", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_jacobians(name: str, argnum: int, dtype: Any) -> None:
    generator = np.random.default_rng(0)
    shape, kernel_shape, options = CASES[name]
    x, kernel = (jnp.asarray(generator.normal(size=s), dtype) for s in (shape, kernel_shape))
    f = convolution(**options)
    tolerance = 1e-9 if dtype == np.float64 else 2e-5
    J = hesse.jacobian(f, argnums=argnum)
    expected = fast_jit(jax.jacrev(f, argnums=argnum))(x, kernel)
    for _ in range(2):
        found = J(x, kernel)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, atol=tolerance)


def source(f: Any, *arrays: Any) -> str:
    """The program of a Jacobian."""
    text: str = hesse.jacobian(f).explain(*arrays).executable.compiled.source
    return text


def test_which_are_convolutions() -> None:
    generator = np.random.default_rng(0)
    f = convolution(window_strides=(1, 1), padding="VALID")
    x, few, many = (jnp.asarray(generator.normal(size=s)) for s in ((1, 8, 6, 6), (3, 8, 3, 3), (9, 8, 3, 3)))
    assert "convolved(" in source(f, x, few)
    assert "affine_view(" not in source(f, x, few)
    assert "convolved(" not in source(f, x, many)
    halves = (x.astype(np.float32), few.astype(np.float32))
    assert "convolved(" not in source(f, *halves)


def test_mapped_and_differentiated_again() -> None:
    """Windows that something else reads, too, and transformations around the convolution."""
    generator = np.random.default_rng(0)
    x, kernel = (jnp.asarray(generator.normal(size=s)) for s in ((3, 1, 2, 5, 5), (2, 2, 3, 3)))
    plain = convolution(window_strides=(1, 1), padding="VALID")

    def loss(x: Any, kernel: Any) -> Any:
        return jnp.sum(plain(x, kernel) ** 2)

    H = hesse.hessian(loss)
    expected = fast_jit(jax.vmap(jax.hessian(loss), (0, None)))(x, kernel)
    np.testing.assert_allclose(jax.vmap(H, (0, None))(x, kernel), expected, atol=1e-9)
    third = jax.jacrev(lambda kernel: hesse.grad(loss, argnums=(0, 1))(x[0], kernel))(kernel)
    wanted = fast_jit(jax.jacrev(lambda kernel: jax.grad(loss, argnums=(0, 1))(x[0], kernel)))(kernel)
    for part, right in zip(third, wanted, strict=True):
        np.testing.assert_allclose(part, right, atol=1e-9)
