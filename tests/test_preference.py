"""Which back end `explain` prefers for NumPy arrays: problems of which it was measured what is faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from benchmarks.adbench import bundles, mixtures, sequences
from hesse.api.compiled import Derivative

FASTER = 'numpy   (backend="jax" is likely to be faster)'
Problem = tuple[Derivative, tuple[np.ndarray, ...]]


def chain(count: int) -> Problem:
    function = lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)  # noqa: E731
    return hesse.grad(function), (np.linspace(0.0, 1.0, count),)


def stencil() -> Problem:
    def energy(u: Any) -> Any:
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return np.sum((4.0 * u[1:-1, 1:-1] - around) ** 2)

    return hesse.grad(energy), (np.ones((1500, 1500)),)


def lstm(count: int) -> Problem:
    case = sequences.case(count)
    return hesse.grad(sequences.scanned(np, hesse.scan), argnums=case.argnums), case.arguments


def bundle(count: int) -> Problem:
    case = bundles.case(count)
    return hesse.jacobian(case.function(np), argnums=case.argnums, form="structured"), case.arguments


def mixture() -> Problem:
    case = mixtures.case(2, 5, 1000)
    return hesse.grad(case.function(np), argnums=case.argnums), case.arguments


def pairs(count: int) -> Problem:
    def potential(x: Any) -> Any:
        apart = x[:, None] - x
        distances = np.sqrt(np.sum(apart**2, -1) + 1)
        return np.sum(np.exp(-distances) / distances)

    return hesse.grad(potential), (np.linspace(0.0, 1.0, 3 * count).reshape(count, 3),)


def functions(count: int) -> Problem:
    function = lambda x: np.sum(np.exp(np.sin(x)) * np.cos(x) + np.tanh(x) ** 2)  # noqa: E731
    return hesse.grad(function), (np.linspace(0.0, 1.0, count),)


def regression() -> Problem:
    X = np.ones((2000, 100))
    return hesse.grad(lambda w: np.sum(np.log1p(np.exp(-(X @ w))))), (np.ones(100),)


def product() -> Problem:
    return hesse.grad(lambda a: np.sum((a @ a) ** 2)), (np.ones((300, 300)),)


def few_entries() -> Problem:
    return hesse.grad(lambda x: np.sum(np.exp(x) * x)), (np.ones(10),)


@pytest.mark.parametrize(
    "problem",
    [
        lambda: chain(1_000_000),
        stencil,
        lambda: lstm(11),
        lambda: lstm(101),
        lambda: pairs(1500),
        lambda: functions(1_000_000),
    ],
    ids=["chain", "stencil", "short loop", "loop", "pairs", "functions"],
)
def test_xla_is_preferred_where_it_is_faster(problem: Callable[[], Problem]) -> None:
    derivative, arguments = problem()
    assert derivative.explain(*arguments).backend == FASTER


@pytest.mark.parametrize(
    "problem",
    [
        product,
        few_entries,
        mixture,
        lambda: bundle(100),
        lambda: bundle(3184),
        lambda: chain(10_000),
        lambda: pairs(50),
        regression,
    ],
    ids=["product", "entries", "mixture", "few points", "points", "short chain", "pairs", "regression"],
)
def test_numpy_is_preferred_where_it_is_faster(problem: Callable[[], Problem]) -> None:
    derivative, arguments = problem()
    assert derivative.explain(*arguments).backend == "numpy"
