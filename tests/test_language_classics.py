"""Formulas in text: the classic problems, their derivatives against nested JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from oracles import evaluate_jax

jax.config.update("jax_enable_x64", True)


class Classic(NamedTuple):
    """A formula, the variable to differentiate by, the same function in JAX, and the highest order tested.

    The JAX function takes the variables in alphabetical order, capitals first.
    """

    text: str
    variable: str
    function: Callable[..., Any]
    order: int = 3
    types: Mapping[str, str] = MappingProxyType({})


def _norm(x: Any) -> Any:
    return jnp.sqrt(jnp.sum(x * x))


def _logdet(x: Any) -> Any:
    return jnp.linalg.slogdet(x)[1]


inv, det, tr = jnp.linalg.inv, jnp.linalg.det, jnp.trace
SYMMETRIC = {"A": "symmetric matrix"}

CLASSICS = [
    Classic("x'*A*x", "x", lambda A, x: x @ A @ x),
    Classic("norm2(A*x-y)", "x", lambda A, x, y: _norm(A @ x - y)),
    Classic(
        "sum(log(exp(-y.*(X*w))+vector(1)))",
        "w",
        lambda X, w, y: jnp.sum(jnp.log(1 + jnp.exp(-y * (X @ w)))),
    ),
    Classic("tr(A*inv(X))", "X", lambda A, X: tr(A @ inv(X)), 2),
    Classic("logdet(A'*X*A)", "X", lambda A, X: _logdet(A.T @ X @ A), 2),
    Classic(
        "sum(log(exp(X*W)*vector(1)))-tr(Y'*X*W)",
        "W",
        lambda W, X, Y: jnp.sum(jnp.log(jnp.sum(jnp.exp(X @ W), axis=1))) - tr(Y.T @ X @ W),
        2,
    ),
    Classic("norm2(M.*(T-U*V'))^2", "U", lambda M, T, U, V: jnp.sum((M * (T - U @ V.T)) ** 2)),
    Classic("norm2(A*x-y)^2", "x", lambda A, x, y: jnp.sum((A @ x - y) ** 2)),
    Classic(
        "1/2*norm2(A*x-y)^2 + c*norm2(x)^2", "x", lambda A, c, x, y: jnp.sum((A @ x - y) ** 2) / 2 + c * x @ x
    ),
    Classic("a'*X*b", "X", lambda X, a, b: a @ X @ b, types={"a": "vector", "b": "vector"}),
    Classic("a'*X'*X*a", "X", lambda X, a: a @ X.T @ X @ a, types={"a": "vector"}),
    Classic("tr(X'*A*X)", "X", lambda A, X: tr(X.T @ A @ X)),
    Classic("tr(A*X*B)", "X", lambda A, B, X: tr(A @ X @ B)),
    Classic("tr(X^3)", "X", lambda X: tr(X @ X @ X)),
    Classic("det(X)", "X", det, 2),
    Classic("det(A*X*B)", "X", lambda A, B, X: det(A @ X @ B), 2, {"A": "matrix(2,3)", "B": "matrix(3,2)"}),
    Classic("log(det(X))", "X", _logdet, 2),
    Classic("x'*inv(A)*y", "A", lambda A, x, y: x @ inv(A) @ y, 2),
    Classic("(x'*A*x)/(x'*x)", "x", lambda A, x: x @ A @ x / (x @ x)),
    Classic(
        "exp(-norm2(x-y)^2/(2*s^2))",
        "x",
        lambda s, x, y: jnp.exp(-jnp.sum((x - y) ** 2) / (2 * s**2)),
        types={"s": "scalar"},
    ),
    Classic("sum(x.*log(x))", "x", lambda x: jnp.sum(x * jnp.log(x)), types={"x": "positive vector"}),
    Classic("log(sum(exp(A*x)))", "x", lambda A, x: jax.nn.logsumexp(A @ x)),
    Classic("softmax(A*x)", "x", lambda A, x: jax.nn.softmax(A @ x), 2),
    Classic("sum(tanh(W*x).^2)", "W", lambda W, x: jnp.sum(jnp.tanh(W @ x) ** 2), 2),
    Classic("y'*diag(x)*A*x", "x", lambda A, x, y: y @ (x * (A @ x))),
    Classic("norm2(A*X*B-C)^2", "X", lambda A, B, C, X: jnp.sum((A @ X @ B - C) ** 2)),
    Classic(
        "y'*inv(c*eye+X*X')*y/2 + logdet(c*eye+X*X')/2",
        "c",
        lambda X, c, y: y @ inv(c * jnp.eye(4) + X @ X.T) @ y / 2 + _logdet(c * jnp.eye(4) + X @ X.T) / 2,
        2,
    ),
    Classic("sum[i,j,k](T[i,j,k]*x[i]*x[j]*x[k])", "x", lambda T, x: jnp.einsum("ijk,i,j,k", T, x, x, x)),
    Classic(
        "norm2(kron(A,B)*vec(X))^2", "X", lambda A, B, X: jnp.sum((jnp.kron(A, B) @ X.T.reshape(-1)) ** 2)
    ),
    Classic("sum(vec(kron(X,X)).^3)", "X", lambda X: jnp.sum(jnp.kron(X, X) ** 3)),
    Classic("x'*A*x", "x", lambda A, x: x @ ((A + A.T) / 2) @ x, types=SYMMETRIC),
]


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
        if "symmetric" in variable.attributes:
            arrays[variable.name] = arrays[variable.name] + arrays[variable.name].T
    return arrays


@pytest.mark.parametrize("classic", CLASSICS, ids=lambda classic: f"{classic.text} by {classic.variable}")
def test_derivatives_equal_nested_jax(classic: Classic) -> None:
    """Values and derivatives of orders 1 to 3 agree to 1e-9."""
    formula = hesse.parse(classic.text, **classic.types)
    arrays = _arrays(formula)
    place = sorted(arrays).index(classic.variable)
    reference = classic.function
    for order in range(classic.order + 1):
        expected = evaluate_jax(reference, *(arrays[name] for name in sorted(arrays)))
        result = formula.evaluate(**arrays)
        np.testing.assert_allclose(
            result, expected, rtol=1e-9, atol=1e-9 * max(1.0, abs(expected).max()), err_msg=str(order)
        )
        formula, reference = formula.diff(classic.variable), jax.jacfwd(reference, argnums=place)


@pytest.mark.parametrize("classic", CLASSICS[:8], ids=lambda classic: f"{classic.text} by {classic.variable}")
def test_derivatives_are_verified_and_printed(classic: Classic) -> None:
    """Printing compares with a finite difference; reading the text back gives the same values."""
    formula = hesse.parse(classic.text, **classic.types)
    arrays = _arrays(formula)
    for order in (1, 2):
        derivative = formula.diff(*[classic.variable] * order)
        assert derivative.verify() < 1e-6
        again = hesse.parse(str(derivative), **classic.types)
        given = {variable.name: arrays[variable.name] for variable in again.variables}
        np.testing.assert_allclose(
            again.evaluate(**given), derivative.evaluate(**arrays), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    "text", ["det(X)", "log(det(X))", "tr(A*inv(X))", "logdet(A'*X*A)", "tr(expm(A*X))", "tr(X^-2)"]
)
def test_third_derivatives_agree_with_finite_differences(text: str) -> None:
    assert hesse.parse(text).diff("X", "X", "X").verify() < 1e-6
