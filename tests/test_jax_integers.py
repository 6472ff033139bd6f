"""Integers in JAX functions: exact and as short as in JAX, whatever the floating type of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from oracles import fast_jit

TIMES = np.array([1700000003, 1700000000])
LARGE = np.array([2**53 + 1, 2**53])
SHORT = np.array([100, 3])
X = np.array([0.5, -1.0, 2.0])
CASES: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "difference": (lambda x, i: x * (i[0] - i[1]), TIMES),
    "differences summed": (lambda x, i: x * jnp.sum(jnp.diff(i)), TIMES),
    "extrema": (lambda x, i: x * (jnp.max(i) - jnp.min(i)), TIMES),
    "sorted": (lambda x, i: x * jnp.diff(jnp.sort(i)), TIMES),
    "argmax": (lambda x, i: x * jnp.argmax(i[::-1]), TIMES),
    "searched": (lambda x, i: x[jnp.searchsorted(jnp.array([0, 1700000001, 1700000002]), i)], TIMES),
    "product with signs": (lambda x, i: x * (i @ jnp.array([1, -1])), TIMES),
    "hash": (lambda x, i: x * ((i[0].astype(jnp.int32) * jnp.int32(-1640531535)) >> 28), TIMES),
    "unsigned difference": (
        lambda x, i: jnp.where(i[1].astype(jnp.uint32) - jnp.uint32(2000000000) > 5, x, 2 * x),
        TIMES,
    ),
    "remainders of squares": (lambda x, i: x * ((i[0] * i[0] + 1) % 7), TIMES),
    "sum": (lambda x, i: x * (jnp.sum(i) % 10), LARGE),
    "running sum": (lambda x, i: x * (jnp.cumsum(i)[1] % 10), LARGE),
    "long difference": (lambda x, i: x * (i[0] - i[1]), LARGE),
    "short sum": (lambda x, i: x * jnp.sum(i.astype(jnp.int8), dtype=jnp.int8), np.array([100, 100])),
    "short product": (lambda x, i: x * jnp.prod(i.astype(jnp.int8), dtype=jnp.int8), SHORT),
    "short dot": (lambda x, i: x * jnp.dot(i.astype(jnp.int8), i.astype(jnp.int8)), SHORT),
    "short size": (lambda x, i: x * jnp.abs(i.astype(jnp.int8))[0], np.array([-128, 1])),
    "truth values": (lambda x, i: x[:2] * jnp.dot(i > 3, i > 1), SHORT),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_integers(name: str, dtype: Any) -> None:
    function, integers = CASES[name]
    x, i = jnp.asarray(X, dtype), jnp.asarray(integers)
    found = hesse.compile(function)(x, i), hesse.jacobian(function)(x, i)
    expected = fast_jit(lambda x, i: (function(x, i), jax.jacfwd(function)(x, i)))(x, i)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32"])
def test_numbers_outside_of_a_type_of_integers(dtype: str) -> None:
    x = jnp.array([-1.0, 710.0, -745.0, -2.5, 2.7, 70000.0, -70000.0, 5e9])
    np.testing.assert_array_equal(
        hesse.compile(lambda x: x * x.astype(dtype))(x), x * np.asarray(x.astype(dtype))
    )


@pytest.mark.parametrize(
    "function", [jax.nn.relu6, jax.nn.hard_sigmoid, lambda x: jax.lax.clamp(-1.0, x, 1.0)]
)
def test_bounds_let_nan_through(function: Callable[[Any], Any]) -> None:
    x = jnp.array([jnp.nan, -jnp.inf, jnp.inf, 0.0, 6.0, -7.0, 0.5])
    np.testing.assert_array_equal(hesse.compile(function)(x), function(x))
