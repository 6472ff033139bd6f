"""Formulas in text: the classic problems, their derivatives against nested JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse

jax.config.update("jax_enable_x64", True)


class Classic(NamedTuple):
    """A formula, the variable to differentiate by, and the same function in JAX."""

    text: str
    variable: str
    function: Callable[..., Any]
    types: dict[str, str] = {}
    order: int = 3


def _norm(x: Any) -> Any:
    return jnp.sqrt(jnp.sum(x * x))


CLASSICS = [
    Classic("x'*A*x", "x", lambda A, x: x @ A @ x),
    Classic("norm2(A*x-y)", "x", lambda A, x, y: _norm(A @ x - y)),
    Classic(
        "sum(log(exp(-y.*(X*w))+vector(1)))",
        "w",
        lambda X, w, y: jnp.sum(jnp.log(1 + jnp.exp(-y * (X @ w)))),
    ),
    Classic("tr(A*inv(X))", "X", lambda A, X: jnp.trace(A @ jnp.linalg.inv(X))),
    Classic("logdet(A'*X*A)", "X", lambda A, X: jnp.linalg.slogdet(A.T @ X @ A)[1]),
    Classic(
        "sum(log(exp(X*W)*vector(1)))-tr(Y'*X*W)",
        "W",
        lambda W, X, Y: jnp.sum(jnp.log(jnp.sum(jnp.exp(X @ W), axis=1))) - jnp.trace(Y.T @ X @ W),
        order=2,
    ),
]
SHAPES = {"A": (4, 3), "x": (3,), "y": (4,), "X": (4, 3), "w": (3,), "W": (3, 2), "Y": (4, 2)}


def _arrays(formula: hesse.Formula) -> dict[str, np.ndarray]:
    """Random arrays of distinct small sizes; square matrices are regular."""
    generator = np.random.default_rng(1)
    sizes: dict[str, int] = {}
    arrays = {}
    for variable in formula.variables:
        for size in variable.shape:
            if isinstance(size, str):
                sizes.setdefault(size, [4, 3, 2, 3, 2][len(sizes)])
        shape = tuple(sizes[s] if isinstance(s, str) else s for s in variable.shape)
        arrays[variable.name] = generator.uniform(0.2, 1.2, shape)
        if len(shape) == 2 and shape[0] == shape[1]:
            arrays[variable.name] += 2 * np.eye(shape[0])
    return arrays


@pytest.mark.parametrize("classic", CLASSICS, ids=lambda classic: classic.text)
def test_derivatives_equal_nested_jax(classic: Classic) -> None:
    """Values and derivatives of orders 1 to 3 agree to 1e-9."""
    formula = hesse.parse(classic.text, **classic.types)
    arrays = _arrays(formula)
    place = sorted(arrays).index(classic.variable)
    reference = classic.function
    for order in range(classic.order + 1):
        expected = np.asarray(reference(*(arrays[name] for name in sorted(arrays))))
        result = formula.evaluate(**arrays)
        np.testing.assert_allclose(
            result, expected, rtol=1e-9, atol=1e-9 * max(1.0, abs(expected).max()), err_msg=str(order)
        )
        formula, reference = formula.diff(classic.variable), jax.jacfwd(reference, argnums=place)
