"""Solving with structured tensors: each method is chosen where it fits and agrees with the dense system."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
from hesse import ArgumentError, ShapeError, Structured
from hesse.backends import target as target_module
from structured_cases import (
    batch_as_sum,
    control,
    factorisation,
    flattened_factorisation,
    log_determinant,
    logistic,
    masked_factorisation,
    normal,
    pair_potential,
    parafac,
    positive,
    random_tensor,
    rosenbrock,
    stencil,
)

SEEDS = st.integers(0, 2**32 - 1)

LARGEST_CONDITION = 1e9
"""Systems with a larger condition number are only solved with damping."""


def check_solve(tensor: Structured, damping: float, tolerance: float = 1e-12) -> None:
    """Solutions for none, one and two further axes, to a tolerance times the condition number."""
    shape = tensor.shape[: tensor.ndim // 2]
    size = int(np.prod(shape))
    matrix = tensor.dense().astype(np.float64).reshape(size, size) + damping * np.eye(size)
    condition = float(np.linalg.cond(matrix))
    if condition > LARGEST_CONDITION:
        return
    for extra in [(), (3,), (2, 2)]:
        right = normal(*shape, *extra, seed=5).astype(tensor.dtype)
        expected = np.linalg.solve(matrix, right.reshape(size, -1)).reshape(right.shape)
        found = tensor.solve(right, damping)
        assert found.shape == right.shape and found.dtype == right.dtype
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error <= tolerance * max(10.0, condition), f"error {error:.1e}, condition {condition:.1e}"


class System(NamedTuple):
    """A tensor to solve with, and the methods expected without and with damping."""

    derivative: Callable[..., Any]
    point: np.ndarray
    plain: str
    damped: str

    def tensor(self, dtype: Any = np.float64) -> Structured:
        """The structured tensor."""
        return self.derivative(self.point.astype(dtype))  # type: ignore[no-any-return]


def hessian(function: Callable[..., Any]) -> Callable[..., Any]:
    """The structured Hessian."""
    return hesse.hessian(function, form="structured")


def jacobian(function: Callable[..., Any]) -> Callable[..., Any]:
    """The structured Jacobian."""
    return hesse.jacobian(function, form="structured")


SYMMETRIC, OTHER = positive(4, seed=30) / 4, positive(5, seed=31) / 5
LARGE = normal(400, 200, seed=32)


def piecewise(x: Any) -> Any:
    return np.sum(x[:4] ** 4) + np.sum(np.exp(x[4:]))


def columns_of_chains(u: Any) -> Any:
    return np.sum((u[1:] - u[:-1]) ** 2) + np.sum(u**2)


def rows_of_chains(u: Any) -> Any:
    return np.sum((u[:, 1:] - np.sin(u[:, :-1])) ** 2) + np.sum(u**2)


def log_determinants(a: Any) -> Any:
    return np.sum(np.linalg.slogdet(a)[1])


def shifted(x: Any) -> Any:
    return 3.0 * x + np.concatenate([np.sin(x[1:]), 0.5 * x[:1] ** 2 * 0.0])


def reversed_copy(x: Any) -> Any:
    return 2.0 * x + x[::-1]


SYSTEMS: dict[str, System] = {
    "diagonal": System(hessian(lambda x: np.sum(np.exp(x))), normal(6), "diagonal", "diagonal"),
    "scaled identity": System(hessian(lambda x: np.sum(x**2)), normal(3, 4), "diagonal", "diagonal"),
    "piecewise diagonal": System(hessian(piecewise), normal(9) + 3, "diagonal", "diagonal"),
    "equal blocks": System(hessian(factorisation), normal(8, 3), "block-diagonal", "block-diagonal"),
    "PARAFAC": System(hessian(parafac), normal(6, 3), "block-diagonal", "block-diagonal"),
    "blocks": System(hessian(masked_factorisation), normal(8, 3), "block-diagonal", "block-diagonal"),
    "batch": System(hessian(batch_as_sum), normal(7, 3), "block-diagonal", "block-diagonal"),
    "digits": System(hessian(flattened_factorisation), normal(24), "block-diagonal", "block-diagonal"),
    "flat factorisation": System(
        hessian(lambda x: factorisation(x.reshape(8, 3))), normal(24), "block-diagonal", "block-diagonal"
    ),
    "equal banded blocks": System(
        hessian(columns_of_chains), normal(30, 4), "block-diagonal, banded", "block-diagonal, banded"
    ),
    "banded blocks": System(hessian(rows_of_chains), normal(3, 100), "banded", "banded"),
    "Rosenbrock": System(hessian(rosenbrock), 1 + normal(40) / 9, "banded", "banded"),
    "indefinite band": System(hessian(rosenbrock), normal(40), "banded", "banded"),
    "bidiagonal Jacobian": System(jacobian(shifted), normal(30), "banded", "banded"),
    "optimal control": System(hessian(control), normal(40, 3), "banded", "banded"),
    "log-determinant": System(hessian(log_determinant), positive(4), "kronecker", "kronecker"),
    "log-determinant, not symmetric": System(
        hessian(log_determinant), positive(4) + normal(4, 4), "kronecker", "dense"
    ),
    "log-determinants": System(
        hessian(log_determinants),
        np.stack([positive(3, seed=k) for k in range(4)]),
        "kronecker",
        "kronecker",
    ),
    "product": System(jacobian(lambda x: -2 * SYMMETRIC @ x @ OTHER), normal(4, 5), "kronecker", "kronecker"),
    "flat product": System(
        jacobian(lambda x: (SYMMETRIC @ x.reshape(4, 5) @ OTHER).reshape(20)),
        normal(20),
        "kronecker",
        "kronecker",
    ),
    "logistic, few examples": System(hessian(logistic(normal(3, 12))), normal(12), "low rank", "low rank"),
    "softmax": System(hessian(hesse.logsumexp), normal(9), "low rank", "low rank"),
    "low rank without diagonal": System(
        hessian(lambda x: np.sum((normal(3, 12) @ x) ** 4)), normal(12), "dense", "low rank"
    ),
    "arrow": System(
        hessian(lambda x: np.sum(np.cosh(x)) + x[0] * np.sum(x[1:] ** 2)), normal(15), "low rank", "low rank"
    ),
    "2-d stencil": System(hessian(stencil), normal(20, 20) + 2, "sparse", "sparse"),
    "reversal": System(jacobian(reversed_copy), normal(100), "sparse", "sparse"),
    "logistic, many examples": System(hessian(logistic(normal(40, 10))), normal(10), "dense", "dense"),
    "large positive definite": System(hessian(logistic(LARGE)), normal(200), "dense", "dense"),
    "pair potential": System(hessian(pair_potential), normal(6, 3), "dense", "dense"),
    "indefinite": System(hessian(lambda x: np.prod(x) + np.sum(x**2)), normal(5), "dense", "dense"),
    "one unknown": System(hessian(lambda x: np.sum(x**3) ** 2), normal(1, 1), "diagonal", "diagonal"),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_methods(name: str) -> None:
    system = SYSTEMS[name]
    tensor = system.tensor()
    assert tensor.solve_method() == system.plain
    assert tensor.solve_method(0.5) == system.damped
    check_solve(tensor, 0.0)
    check_solve(tensor, 0.5)
    check_solve(-2.5 * tensor, 0.0)
    check_solve(2.5 * tensor, 30.0)


@pytest.mark.parametrize("name", SYSTEMS)
def test_single_precision(name: str) -> None:
    check_solve(SYSTEMS[name].tensor(np.float32), 20.0, tolerance=1e-5)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from([(0, 1, 1), (1, 1), (0, 2, 2), (2, 2)]))
def test_random_patterns(seed: int, groups: tuple[int, ...]) -> None:
    drawn = random_tensor(seed, groups)
    rank = groups[-1]
    if drawn.dense.shape[:rank] == drawn.dense.shape[rank:]:
        damping = 1.0 + 2.0 * np.abs(drawn.dense).sum()
        check_solve(drawn.tensor, damping)
        check_solve(drawn.tensor, -0.37)
        check_solve(drawn.tensor, 0.0)


def test_zero_tensor() -> None:
    zero = hessian(lambda x: np.sum(normal(3)) + 0.0 * np.sum(x))(np.ones(4))
    assert zero.solve_method() == "diagonal"
    np.testing.assert_allclose(zero.solve(np.arange(4.0), damping=2.0), np.arange(4.0) / 2)
    with pytest.raises(np.linalg.LinAlgError, match="damping"):
        zero.solve(np.ones(4))


def test_function_of_a_number() -> None:
    second = hessian(lambda x: x**4)(np.array(2.0))
    assert second.solve_method() == "diagonal"
    assert second.solve(48.0).shape == () and second.solve(48.0) == 1.0
    np.testing.assert_allclose(second.solve(np.array([48.0, 24.0])), [1.0, 0.5])


def test_empty_right_hand_side() -> None:
    assert hessian(rosenbrock)(np.ones(30)).solve(np.ones((30, 0))).shape == (30, 0)


SINGULAR: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "diagonal": (lambda x: np.sum(x[1:] ** 2), normal(5)),
    "block-diagonal": (lambda u: np.sum((u @ normal(3, 7)[:2].T @ normal(2, 5)) ** 2), normal(6, 7)),
    "block-diagonal, rank one blocks": (lambda x: np.sum(np.exp(np.sum(x, axis=1))), normal(6, 3)),
    "banded": (lambda x: np.sum((x[1:] - x[:-1]) ** 2), normal(50)),
    "low rank": (hesse.logsumexp, normal(9)),
    "sparse": (lambda u: np.sum((u[1:] - u[:-1]) ** 2) + np.sum((u[:, 1:] - u[:, :-1]) ** 2), normal(24, 24)),
    "dense": (pair_potential, normal(7, 3)),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_systems(name: str) -> None:
    function, point = SINGULAR[name]
    tensor = hessian(function)(point)
    with pytest.raises(np.linalg.LinAlgError, match=r"singular to working precision.*damping=1e-6"):
        tensor.solve(normal(*point.shape))
    tensor.solve(normal(*point.shape), damping=3.0)


def test_singular_kronecker_product() -> None:
    rank_one = np.outer(normal(4), normal(4))
    tensor = jacobian(lambda x: rank_one @ x @ OTHER)(normal(4, 5))
    assert tensor.solve_method() == "kronecker"
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        tensor.solve(normal(4, 5))
    check_solve(tensor, 0.1)


@pytest.mark.parametrize("name", ["diagonal", "equal blocks", "Rosenbrock", "log-determinant", "2-d stencil"])
def test_not_a_number_is_an_error(name: str) -> None:
    system = SYSTEMS[name]
    right = normal(*system.point.shape)
    right[(0,) * right.ndim] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="NaN"):
        system.tensor().solve(right)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda h: h.solve(np.ones(3)),
            r"right-hand side has shape \(3,\), but the trailing axes are \(8, 3\)",
        ),
        (lambda h: h.solve(np.ones((8, 3)), damping=np.inf), "damping must be a finite number, not inf"),
        (lambda h: h.solve(np.ones((8, 3)), damping="1"), "damping must be a finite number, not '1'"),
    ],
)
def test_errors(call: Callable[[Structured], Any], message: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=message):
        call(SYSTEMS["equal blocks"].tensor())


def test_leading_axes_are_an_error() -> None:
    third = hesse.derivative(rosenbrock, 3, form="structured")(np.ones(5))
    with pytest.raises(ShapeError, match=r"no others; the shape is \(5, 5, 5\), in groups of \(0, 1, 1, 1\)"):
        third.solve(np.ones(5))
    with pytest.raises(ShapeError, match="needs two equal trailing groups"):
        jacobian(lambda x: x[1:])(np.ones(5)).solve(np.ones(5))


def test_repeated_solves_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "equal blocks",
        "blocks",
        "Rosenbrock",
        "log-determinant",
        "logistic, few examples",
        "2-d stencil",
    ):
        system = SYSTEMS[name]
        right = normal(*system.point.shape)
        system.tensor().solve(right, damping=0.1)
        with monkeypatch.context() as patch:
            patch.setattr(target_module, "make_plan", _must_not_run)
            system._replace(point=system.point * 1.1).tensor().solve(right, damping=0.2)


def _must_not_run(*_: Any) -> Any:
    raise AssertionError("something was planned again")


def test_newton_step_of_factorisation_is_fast() -> None:
    """n = 1000, k = 10: at least 1,000 times faster than the dense system of 10,000 equations."""
    right, target = normal(300, 10, seed=1), normal(1000, 300, seed=2)
    point = normal(1000, 10, seed=3)
    tensor = hessian(lambda u: np.sum((target - u @ right.T) ** 2))(point)
    gradient = hesse.grad(lambda u: np.sum((target - u @ right.T) ** 2))(point)
    assert tensor.solve_method() == "block-diagonal"
    step = tensor.solve(gradient)
    expected = np.linalg.lstsq(right, target.T, rcond=None)[0].T
    np.testing.assert_allclose(point - step, expected, atol=1e-9)
    size = 600
    matrix, vector = positive(size), normal(size)
    dense = shortest(lambda: np.linalg.solve(matrix, vector)) * (10_000 / size) ** 3
    assert dense >= 1000 * shortest(lambda: tensor.solve(gradient))


def shortest(call: Callable[[], Any], repeats: int = 5) -> float:
    """The shortest of a few runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def test_chains_are_solved_in_linear_time_and_memory() -> None:
    size = 200_000
    tensor = hessian(rosenbrock)(np.full(size, 0.9))
    right = normal(size)
    solution = tensor.solve(right, damping=1.0)
    residual = tensor @ solution + solution - right
    assert np.abs(residual).max() <= 1e-9 * np.abs(solution).max() * 1000


def test_low_rank_systems_stay_low_rank() -> None:
    size = 20_000
    data = normal(5, size, seed=40)
    tensor = hessian(logistic(data))(normal(size) / 100)
    assert tensor.solve_method() == "low rank"
    right = normal(size, 2, seed=41)
    assert np.abs(tensor @ tensor.solve(right) - right).max() <= 1e-9
    small = tensor.solve(right, damping=-1.0 + 1e-6)  # the diagonal is almost nothing
    assert np.abs(tensor @ small + (-1.0 + 1e-6) * small - right).max() <= 1e-9 * np.abs(small).max()
