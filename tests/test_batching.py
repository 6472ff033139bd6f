"""Operations of a step for all steps at once, against the same operations one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse

STEPS = 4
TABLE = np.random.default_rng(1).normal(size=(3, 5))


def _definite(a: Any) -> Any:
    return a @ a.T + 2.0 * np.eye(3)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "argmax": lambda a: a[np.argmax(a[:, 0])],
    "cholesky": lambda a: np.linalg.cholesky(_definite(a)),
    "cumprod": lambda a: np.cumprod(a, axis=0),
    "cumprod of columns": lambda a: np.cumprod(a, axis=1),
    "cumsum": lambda a: np.cumsum(a, axis=0),
    "det": np.linalg.det,
    "eigh": lambda a: np.abs(np.linalg.eigh(_definite(a))[1]),
    "eigvalsh": lambda a: np.linalg.eigvalsh(_definite(a)),
    "einsum": lambda a: np.einsum("ij,ik->jk", a, a),
    "expm": hesse.expm,
    "gather": lambda a: a[np.array([2, 0, 0, -1])],
    "gather from what is known": lambda a: hesse.constant(TABLE)[:, np.array([0, 3, 1])] * a,
    "inv": np.linalg.inv,
    "kron": lambda a: np.kron(a, a[:2]),
    "log_softmax": lambda a: hesse.log_softmax(a, axis=1),
    "logdet": lambda a: np.linalg.slogdet(_definite(a))[1],
    "logsumexp": lambda a: hesse.logsumexp(a, axis=0),
    "max": lambda a: np.max(a, axis=0),
    "median": lambda a: np.sort(a, axis=None)[4],
    "pinv": lambda a: np.linalg.pinv(a[:2]),
    "prod": lambda a: np.prod(a, axis=1),
    "softmax": lambda a: hesse.softmax(a, axis=1),
    "solve": lambda a: np.linalg.solve(_definite(a), np.ones(3)),
    "sort": lambda a: np.sort(a, axis=1),
    "triangular": lambda a: hesse.solve_triangular(_definite(a), a, lower=True),
    "windows": lambda a: np.convolve(a[0], a[1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_steps_at_once(name: str) -> None:
    function = FUNCTIONS[name]
    x = np.random.default_rng(2).normal(size=(STEPS, 3, 3)) + np.eye(3)

    def loss(results: Any) -> Any:
        return np.sum(np.sin(results) * np.arange(1.0, 1.0 + results.size).reshape(results.shape))

    def at_once(x: Any) -> Any:
        return loss(hesse.scan(lambda _, a: (None, function(a)), None, x)[1])

    def one_by_one(x: Any) -> Any:
        return loss(np.stack([function(x[k]) for k in range(STEPS)]))

    found, expected = (hesse.value_and_grad(f)(x) for f in (at_once, one_by_one))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_positions_that_depend_on_the_step() -> None:
    positions = np.array([[0, 2], [1, 1], [-1, 0]])

    def at_once(x: Any) -> Any:
        return np.sum(hesse.scan(lambda s, k: (s, s[k] * x[k] ** 2), x, positions)[1])

    def one_by_one(x: Any) -> Any:
        return np.sum(np.stack([x[k] ** 3 for k in positions]))

    x = np.array([0.3, -1.2, 2.0])
    np.testing.assert_allclose(hesse.hessian(at_once)(x), hesse.hessian(one_by_one)(x))


def test_integers_that_depend_on_the_step_are_refused() -> None:
    def f(x: Any) -> Any:
        return np.sum(x[hesse.scan(lambda s, a: (s, np.argmax(a)), 0.0, x)[1]])

    with pytest.raises(hesse.HesseError):
        hesse.grad(f)(np.eye(3))
