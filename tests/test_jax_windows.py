"""Sums over windows in JAX: convolutions with small kernels, position by position."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.backends.jax import JaxTarget
from hesse.backends.jax.machine import JaxMachine

jax.config.update("jax_enable_x64", True)
RANDOM = np.random.default_rng(7)


def convolved(x: Any, kernel: Any, step: int = 1, gap: int = 1) -> Any:
    """Channels times kernels, whose entries may lie apart."""
    reach = gap * (kernel.shape[2] - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), axis=(1, 2))
    return np.einsum("ocab,cyxab->oyx", kernel, windows[:, ::step, ::step, ::gap, ::gap])


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("gap", [1, 2])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolutions(step: int, gap: int, channels: int, dtype: Any) -> None:
    x, kernel = RANDOM.normal(size=(channels, 9, 9)), RANDOM.normal(size=(2, channels, 3, 3))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12

    def squares(x: Any, kernel: Any) -> Any:
        return np.sum(np.tanh(convolved(x, kernel, step, gap)) ** 2)

    for derivative in (hesse.compile, hesse.grad, hesse.hessian):
        expected = derivative(squares)(x, kernel)
        given = [jnp.asarray(array, dtype) for array in (x, kernel)]
        found = derivative(squares, backend="jax")(*given)
        assert found.dtype == dtype
        assert "summed_windows" in derivative(squares, backend="jax").explain(*given).source
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def slopes(x: Any, kernel: Any) -> Any:
    return np.tanh(convolved(x, kernel))


def test_windows_are_not_stored() -> None:
    """Few positions are added up; for more of them, and for many kernels, windows are multiplied at once."""
    x, kernel = RANDOM.normal(size=(3, 8, 8)), RANDOM.normal(size=(3, 3, 3, 3))
    blocks = hesse.jacobian(slopes, form="structured", backend="jax")
    assert "summed_windows" in blocks.explain(x, kernel).source
    np.testing.assert_allclose(np.asarray(blocks(x, kernel)), hesse.jacobian(slopes)(x, kernel), atol=1e-12)
    fewer = hesse.jacobian(slopes, form="structured", backend=JaxTarget(machine=JaxMachine(most_pieces=26)))
    assert "summed_windows" not in fewer.explain(x, kernel).source
    np.testing.assert_allclose(np.asarray(fewer(x, kernel)), np.asarray(blocks(x, kernel)), atol=1e-12)
    many = RANDOM.normal(size=(20, 3, 3, 3))
    assert "summed_windows" not in blocks.explain(x, many).source


def test_jax_transforms_sums_over_windows() -> None:
    x, kernel = RANDOM.normal(size=(2, 1, 6, 6)), RANDOM.normal(size=(2, 1, 3, 3))
    run = hesse.compile(slopes, backend="jax")
    assert "summed_windows" in run.explain(x[0], kernel).source
    stacked = jax.vmap(run, (0, None))(x, kernel)
    np.testing.assert_allclose(stacked[1], slopes(x[1], kernel), atol=1e-12)
    found = jax.jacrev(run)(jnp.asarray(x[0]), jnp.asarray(kernel))
    np.testing.assert_allclose(found, hesse.jacobian(slopes)(x[0], kernel), atol=1e-12)


def test_digits_are_no_windows() -> None:
    """Heads inside of channels do not overlap: their products are those of matrices."""
    Q, K = RANDOM.normal(size=(5, 8)), RANDOM.normal(size=(5, 8))

    def scores(Q: Any, K: Any) -> Any:
        return np.sum(np.exp(np.einsum("qhk,jhk->hqj", Q.reshape(5, 2, 4), K.reshape(5, 2, 4))))

    H = hesse.hessian(scores, backend="jax")
    assert "summed_windows" not in H.explain(Q, K).source
    np.testing.assert_allclose(H(Q, K), hesse.hessian(scores)(Q, K), rtol=1e-12)
