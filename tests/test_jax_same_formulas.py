"""The same formula in NumPy and in JAX is one expression: nodes, operations and patterns of derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hesse

V, M = (4,), (3, 4)
RIGHT = np.linspace(-1.0, 1.0, 4)
LEFT = np.linspace(0.5, 2.0, 3)
MATRIX = np.linspace(-1.0, 1.5, 12).reshape(3, 4)
SQUARE = np.cos(np.arange(16.0)).reshape(4, 4)
ORDER = np.array([2, 0, 3, 3])

Formula = Callable[..., Any]
VECTORS: dict[str, Formula] = {
    "sum of squares": lambda xp, x: xp.sum(x**2),
    "cubes": lambda xp, x: xp.sum(x**3 - 2 * x),
    "exponentials": lambda xp, x: xp.sum(xp.exp(-x * x)),
    "sines": lambda xp, x: xp.sum(xp.sin(x) * xp.cos(2 * x)),
    "roots": lambda xp, x: xp.sum(xp.sqrt(1 + x**2)),
    "logarithms": lambda xp, x: xp.sum(xp.log(1 + x**2)),
    "quotient": lambda xp, x: xp.sum(x) / (1 + xp.sum(x**2)),
    "powers": lambda xp, x: xp.sum((x**2 + 1) ** 1.5),
    "hyperbolic": lambda xp, x: xp.sum(xp.tanh(x) ** 2),
    "softplus": lambda xp, x: xp.sum(xp.logaddexp(x, 0.0)),
    "softplus by hand": lambda xp, x: xp.sum(xp.log1p(xp.exp(x))),
    "log-sum-exp by hand": lambda xp, x: xp.log(xp.sum(xp.exp(x))),
    "softmax by hand": lambda xp, x: xp.sum((xp.exp(x) / xp.sum(xp.exp(x))) ** 2),
    "norm": lambda xp, x: xp.linalg.norm(x),
    "mean": lambda xp, x: xp.mean(x) ** 2 + xp.mean(x**2),
    "variance": lambda xp, x: xp.var(x),
    "deviation": lambda xp, x: xp.std(x),
    "product of all": lambda xp, x: xp.prod(x),
    "maximum of all": lambda xp, x: xp.max(x) ** 2,
    "positive part": lambda xp, x: xp.sum(xp.maximum(x, 0.0) ** 2),
    "absolute values": lambda xp, x: xp.sum(xp.abs(x) ** 3),
    "where": lambda xp, x: xp.sum(xp.where(x > 0, x**2, xp.exp(x))),
    "clip": lambda xp, x: xp.sum(xp.clip(x, -0.5, 0.5) ** 2),
    "sign": lambda xp, x: xp.sum(xp.sign(x) * x**2),
    "angle": lambda xp, x: xp.sum(xp.arctan2(x, 1 + x**2)),
    "differences": lambda xp, x: xp.sum(xp.diff(x) ** 4),
    "neighbours": lambda xp, x: xp.sum((x[1:] - x[:-1] ** 2) ** 2),
    "rosenbrock": lambda xp, x: xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "backwards": lambda xp, x: xp.sum(x * x[::-1] ** 2),
    "every second": lambda xp, x: xp.sum(xp.sin(x[::2]) * x[1::2]),
    "pairs": lambda xp, x: xp.sum(xp.exp(-((x[:, None] - x[None, :]) ** 2))),
    "outer": lambda xp, x: xp.sum(xp.outer(x, x) ** 3),
    "quadratic form": lambda xp, x: x @ SQUARE @ x,
    "least squares": lambda xp, x: xp.sum((MATRIX @ x - LEFT) ** 2),
    "logistic": lambda xp, x: xp.sum(xp.logaddexp(0.0, MATRIX @ x)),
    "linear and exp": lambda xp, x: xp.sum(xp.exp(MATRIX @ x)) + RIGHT @ x,
    "concatenate": lambda xp, x: xp.sum(xp.concatenate([x, x**2]) ** 2),
    "stack": lambda xp, x: xp.sum(xp.stack([x, xp.sin(x)]) ** 2),
    "reshape": lambda xp, x: xp.sum(xp.reshape(x, (2, 2)) @ xp.reshape(x, (2, 2))),
    "roll": lambda xp, x: xp.sum(xp.roll(x, 1) * x**2),
    "cumulative": lambda xp, x: xp.sum(xp.cumsum(x) ** 2),
    "chosen entries": lambda xp, x: xp.sum(x[ORDER] ** 3),
    "an entry": lambda xp, x: x[1] ** 2 * x[-1],
    "sorted": lambda xp, x: xp.sum(xp.sort(x) * RIGHT) ** 2,
    "median": lambda xp, x: xp.median(x) ** 2,
    "diagonal matrix": lambda xp, x: xp.sum((xp.diag(x) @ SQUARE) ** 2),
    "convolution": lambda xp, x: xp.sum(xp.convolve(x, x[:2]) ** 2),
    "einsum of three": lambda xp, x: xp.einsum("i,ij,j->", x, SQUARE, x),
    "einsum of four": lambda xp, x: xp.einsum("i,j,k,ijk->", x, x, x, np.ones((4, 4, 4))),
    "kron": lambda xp, x: xp.sum(xp.kron(x, x) ** 2),
    "padding": lambda xp, x: xp.sum(xp.pad(x, 1) ** 2),
}
MATRICES: dict[str, Formula] = {
    "frobenius": lambda xp, x: xp.sum(x**2),
    "gram": lambda xp, x: xp.sum((x @ x.T) ** 2),
    "trace": lambda xp, x: xp.trace(x.T @ x @ SQUARE),
    "rows": lambda xp, x: xp.sum(xp.sum(x, axis=1) ** 2),
    "centred": lambda xp, x: xp.sum((x - xp.mean(x, axis=0)) ** 4),
    "distances": lambda xp, x: xp.sum(xp.exp(-xp.sum((x[:, None] - x[None]) ** 2, axis=-1))),
    "triangle": lambda xp, x: xp.sum(xp.tril(x @ x.T) ** 2),
    "log determinant": lambda xp, x: xp.linalg.slogdet(x @ x.T + np.eye(3))[1],
    "determinant": lambda xp, x: xp.linalg.det(x[:, :3] + 3 * np.eye(3)),
    "inverse": lambda xp, x: xp.trace(xp.linalg.inv(x @ x.T + np.eye(3))),
    "solve": lambda xp, x: LEFT @ xp.linalg.solve(x @ x.T + np.eye(3), LEFT),
    "eigenvalues": lambda xp, x: xp.sum(xp.linalg.eigvalsh(x @ x.T) ** 2),
    "cholesky": lambda xp, x: xp.sum(xp.log(xp.diag(xp.linalg.cholesky(x @ x.T + np.eye(3))))),
    "matrix power": lambda xp, x: xp.trace(xp.linalg.matrix_power(x[:, :3], 3)),
    "tensordot": lambda xp, x: xp.sum(xp.tensordot(x, x, ((0,), (0,))) ** 2),
    "swapped": lambda xp, x: xp.sum(xp.swapaxes(x, 0, 1) @ x),
}
FORMULAS = {name: (formula, V) for name, formula in VECTORS.items()} | {
    name: (formula, M) for name, formula in MATRICES.items()
}
DIFFERENT: dict[str, str] = {
    "clip": "JAX clips by a maximum and a minimum, whose bounds share the derivative where they are reached",
    "median": "JAX takes care of entries that are not a number",
    "triangle": "JAX chooses between entries and zeros, which NumPy multiplies by zeros and ones",
}
"""Formulas whose expressions differ, and why."""


def _function(formula: Formula, xp: Any) -> Formula:
    return lambda x: formula(xp, x)


@pytest.mark.parametrize("name", FORMULAS)
def test_same_expression(name: str) -> None:
    """Equal expressions are one node, so those of both libraries can be compared directly."""
    formula, shape = FORMULAS[name]
    point = np.random.default_rng(0).uniform(0.3, 1.5, shape)
    arguments = (np, point), (jnp, jnp.asarray(point))
    # one back end for both: that of NumPy saves operations of its own
    ours, theirs = (hesse.hessian(_function(formula, xp), backend="jax").explain(x) for xp, x in arguments)
    is_same = ours.roots == theirs.roots and ours.flops == theirs.flops
    assert is_same == (name not in DIFFERENT), f"{ours.formula}\n{theirs.formula}"
    structured = {"form": "structured", "backend": "jax"}
    ours, theirs = (hesse.hessian(_function(formula, xp), **structured)(x) for xp, x in arguments)
    assert is_same <= (repr(ours) == repr(theirs))


def test_enough_of_them() -> None:
    assert len(FORMULAS) == 67
    assert len(FORMULAS) - len(DIFFERENT) >= 60
    assert DIFFERENT.keys() <= FORMULAS.keys()
