"""`root` and `fixed_point`: solutions of equations, differentiated by the implicit function theorem."""

from __future__ import annotations

import gc
import threading
import weakref
from math import exp
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import torch
from scipy.special import logsumexp

import hesse

A = np.array([4.0, 9.0, 2.0])
M = np.array([[0.3, 0.2, 0.1], [0.3, 0.1, 0.4], [0.1, 0.1, 0.2]])
MODES = ("auto", "forward", "reverse", "two-sided", "cross-country")


def nested(f: Any, order: int, argnum: int = 0) -> Any:
    for _ in range(order):
        f = jax.jacfwd(f, argnum)
    return f


def iterated(g: Any, x: Any, *theta: Any, steps: int = 80) -> Any:
    for _ in range(steps):
        x = g(x, *theta)
    return x


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_root_with_a_closed_form(mode: str, order: int) -> None:
    f = hesse.derivative(
        lambda a: np.sum(hesse.root(lambda x, a: x**2 - a, np.ones(3), a) * a), order=order, mode=mode
    )
    expected = nested(lambda a: jnp.sum(a**1.5), order)(A)
    for _ in range(2):
        np.testing.assert_allclose(f(A), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_fixed_point_against_many_iterations(mode: str, order: int) -> None:
    def g(x: Any, W: Any, b: Any) -> Any:
        return np.tanh(W @ x) + b if isinstance(x, hesse.Expression) else jnp.tanh(W @ x) + b

    b = A / 10
    f = hesse.derivative(
        lambda b: np.sum(hesse.fixed_point(g, np.zeros(3), M, b) ** 2), order=order, mode=mode
    )
    expected = nested(lambda b: jnp.sum(iterated(g, jnp.zeros(3), M, b) ** 2), order)(b)
    np.testing.assert_allclose(f(b), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
def test_by_a_matrix(order: int) -> None:
    def f(W: Any) -> Any:
        return np.sum(hesse.fixed_point(lambda x, W: np.tanh(W @ x) + A, A, W) ** 2)

    def g(W: Any) -> Any:
        return jnp.sum(iterated(lambda x, W: jnp.tanh(W @ x) + A, A, W) ** 2)

    np.testing.assert_allclose(
        hesse.derivative(f, order=order)(M), nested(g, order)(M), rtol=1e-9, atol=1e-11
    )


def test_all_blocks_of_several_parameters() -> None:
    def solution(a: Any, b: Any) -> Any:
        return hesse.root(lambda x, a, b: x**3 + a * x - b, 1.0, a, b)

    blocks = hesse.hessian(solution, argnums=(0, 1))(1.5, 2.0)

    def closed(a: Any, b: Any) -> Any:  # Cardano's formula
        s = jnp.sqrt(b**2 / 4 + a**3 / 27)
        return jnp.cbrt(b / 2 + s) + jnp.cbrt(b / 2 - s)

    expected = jax.hessian(closed, (0, 1))(1.5, 2.0)
    for own, theirs in zip(blocks, expected, strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-12)


def test_traced_values_in_closures() -> None:
    def f(a: Any) -> Any:
        b = np.sin(a)
        return np.sum(hesse.root(lambda x: x**2 - a * b - 1.0, np.ones(3)))

    expected = jax.hessian(lambda a: jnp.sum(jnp.sqrt(a * jnp.sin(a) + 1.0)))(A / 5)
    np.testing.assert_allclose(hesse.hessian(f)(A / 5), expected, rtol=1e-11, atol=1e-13)


def test_inside_of_a_root_and_of_a_derivative() -> None:
    def inner(y: Any) -> Any:
        return hesse.root(lambda x, y: x**3 + x - y, 0.5, y)

    def outer(a: Any) -> Any:
        return hesse.root(lambda y: inner(y) * y - a, 1.0)

    # y = x³ + x and x y = a: x⁴ + x² = a
    def closed(a: Any) -> Any:
        x = jnp.sqrt((jnp.sqrt(1 + 4 * a) - 1) / 2)
        return x**3 + x

    for order in (1, 2, 3):
        found = hesse.derivative(outer, order=order)(2.0)
        np.testing.assert_allclose(found, nested(closed, order)(2.0), rtol=1e-10)
    slope = hesse.grad(lambda a: hesse.grad(outer)(a) ** 2)(2.0)
    np.testing.assert_allclose(slope, jax.grad(lambda a: jax.grad(closed)(a) ** 2)(2.0), rtol=1e-10)


def test_a_foreign_function_in_the_equation() -> None:
    @hesse.custom_derivative
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defjvp(lambda p, t: 3 * p[0] ** 2 * t[0])
    found = hesse.hessian(lambda a: np.sum(hesse.root(lambda x, a: cube(x) - a, np.ones(3), a)))(A)
    np.testing.assert_allclose(found, np.diag(-2 / 9 * A ** (-5 / 3)), rtol=1e-12)


def test_the_start_has_no_influence() -> None:
    f = hesse.grad(lambda x0, a: np.sum(hesse.root(lambda x, a: x**2 - a, x0 * x0, a)), argnums=(0, 1))
    by_start, by_parameter = f(np.ones(3), A)
    np.testing.assert_array_equal(by_start, np.zeros(3))
    np.testing.assert_allclose(by_parameter, 0.5 / np.sqrt(A), rtol=1e-14)


def test_independent_equations_stay_a_diagonal() -> None:
    many = np.linspace(1.0, 2.0, 5000)

    def f(a: Any) -> Any:
        return hesse.root(lambda x, a: x**2 - a, np.ones(5000), a)

    np.testing.assert_allclose(f(many), np.sqrt(many), rtol=1e-15)
    jacobian = hesse.jacobian(f, form="structured")(many)
    assert jacobian.solve_method() == "diagonal"
    np.testing.assert_allclose(jacobian.diagonal(), 0.5 / np.sqrt(many), rtol=1e-14)
    assert "inverse" not in hesse.hessian(lambda a: np.sum(f(a))).explain(many[:5].repeat(1000)).source


def test_a_batch_of_systems_is_solved_as_one() -> None:
    shifts = np.arange(8.0).reshape(4, 2) / 4

    def solution(a: Any) -> Any:
        return hesse.root(lambda x, a: x @ np.array([[2.0, 1.0], [0.5, 3.0]]) + x**3 - a, np.zeros((4, 2)), a)

    found = hesse.jacobian(solution)(shifts)
    assert "(4, 2, 2)" in str(hesse.jacobian(solution).explain(shifts).program)

    def newton(a: Any) -> Any:
        x = jnp.zeros(2)
        for _ in range(30):
            residual = lambda x: x @ jnp.array([[2.0, 1.0], [0.5, 3.0]]) + x**3 - a  # noqa: E731
            x = x - jnp.linalg.solve(jax.jacfwd(residual)(x), residual(x))
        return x

    for k in range(4):
        np.testing.assert_allclose(found[k, :, k], jax.jacfwd(newton)(shifts[k]), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(np.delete(found[k], k, axis=1), 0.0)


def test_values_of_all_libraries_and_types() -> None:
    def f(a: Any) -> Any:
        return hesse.root(lambda x, a: x**2 - a, np.ones(3), a)

    np.testing.assert_allclose(f(A), np.sqrt(A), rtol=1e-15)
    assert isinstance(hesse.root(lambda x: x**2 - 2.0, 1.0), float)
    assert f(A.astype(np.float32)).dtype == np.float64  # the start says so, too
    single = hesse.root(lambda x, a: x**2 - a, np.ones(3, np.float32), A.astype(np.float32))
    assert single.dtype == np.float32
    gradient = hesse.grad(lambda a: np.sum(f(a)))
    for given in (A, A.astype(np.float32), torch.tensor(A), jnp.asarray(A)):
        found = gradient(given)
        assert found.dtype == given.dtype
        np.testing.assert_allclose(np.asarray(found), 0.5 / np.sqrt(A), rtol=1e-6)
    tensor = hesse.root(lambda x, a: x**2 - a, torch.ones(3, dtype=torch.float64), torch.tensor(A))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor, np.sqrt(A), rtol=1e-15)
    np.testing.assert_allclose(jax.jit(gradient)(jnp.asarray(A)), 0.5 / np.sqrt(A), rtol=1e-12)


def test_solvers_of_others() -> None:
    calls: list[np.ndarray] = []

    def solver(residual: Any, x0: np.ndarray) -> Any:
        calls.append(x0)
        return scipy.optimize.root(residual, x0, method="hybr").x

    f = hesse.hessian(lambda a: np.sum(hesse.root(lambda x, a: x**2 - a, np.ones(3), a, solver=solver)))
    np.testing.assert_allclose(f(A), np.diag(-0.25 * A**-1.5), rtol=1e-12, atol=1e-16)
    assert len(calls) == 1
    with pytest.raises(hesse.ShapeError, match=r"the solver of root returned shape \(2,\), x0 has \(3,\)"):
        hesse.root(lambda x: x - 1.0, np.ones(3), solver=lambda residual, x0: x0[:2])


def test_newton_makes_steps_shorter() -> None:
    # full steps from here run away
    np.testing.assert_allclose(hesse.root(np.arctan, 3.0), 0.0, atol=1e-14)


@pytest.mark.parametrize(
    ("solve", "message"),
    [
        (lambda: hesse.root(lambda x: x**2 + 1.0, 1.0), r"root did not converge: the residual is 1\.0e\+00"),
        (
            lambda: hesse.root(lambda x: x * 0.0 + 1.0, 1.0),
            r"root did not converge: the residual is 1\.0e\+00",
        ),
        (lambda: hesse.root(np.log, -1.0), "root did not converge: the residual is nan"),
        (
            lambda: hesse.fixed_point(lambda x: 2.0 * x + 1.0, 1.0),
            "fixed_point did not converge: .* use root",
        ),
        (
            lambda: hesse.fixed_point(lambda x: -x, 1.0),
            r"fixed_point did not converge: .* residual is 2\.0e\+00",
        ),
    ],
)
def test_no_solution(solve: Any, message: str) -> None:
    with pytest.raises(hesse.ConvergenceError, match=message):
        solve()


def test_functions_that_fill_arrays_and_know_others_by_name() -> None:
    def reaction(u: Any, p: Any) -> Any:
        rest = np.zeros(2)
        rest[0] = p[0] - u[0] * u[1] ** 2 - 0.1 * u[0]
        rest[1] = u[0] * u[1] ** 2 - exp(p[1]) * u[1]
        return rest

    def energy(u: Any, p: Any) -> Any:
        return logsumexp(u) + np.sum((u - p) ** 2)

    def steady(p: Any) -> Any:
        return hesse.root(reaction, np.ones(2), p)

    def lowest(p: Any) -> Any:
        return hesse.argmin(energy, np.zeros(2), p)

    p = np.array([0.5, -1.0])
    np.testing.assert_allclose(reaction(steady(p), p), 0.0, atol=1e-12)
    for f in (steady, lowest):
        steps = 1e-5 * np.eye(2)
        slopes = np.stack([(f(p + step) - f(p - step)) / 2e-5 for step in steps], -1)
        np.testing.assert_allclose(hesse.jacobian(f)(p), slopes, rtol=1e-7, atol=1e-9)


def test_parameters_in_containers() -> None:
    def f(x: Any, p: Any, c: Any) -> Any:
        return x**2 - p["a"] * p["rest"][0] - c

    p = {"a": 2.0, "rest": (np.array([1.5, 3.0]), 7.0)}
    np.testing.assert_allclose(hesse.root(f, np.ones(2), p, 1.0), [2.0, np.sqrt(7.0)])
    g = hesse.grad(lambda p: np.sum(hesse.root(f, np.ones(2), p, 1.0)))(p)
    np.testing.assert_allclose(g["rest"][0], [0.5, 1 / np.sqrt(7.0)])
    np.testing.assert_allclose(g["a"], 1.5 / 4 + 3 / (2 * np.sqrt(7.0)))
    least = hesse.grad(lambda p: hesse.argmin(lambda x, p: (x - p["a"]) ** 2 + x**2, 0.0, p))
    np.testing.assert_allclose(least({"a": 3.0})["a"], 0.5)
    with pytest.raises(hesse.ArgumentError, match=r"x0 is a dict; start at np\.concatenate"):
        hesse.root(f, {"x": 1.0}, p, 1.0)


def test_no_solution_inside_of_a_derivative() -> None:
    f = hesse.grad(lambda a: hesse.root(lambda x: x**2 - a, 1.0))
    np.testing.assert_allclose(f(4.0), 0.25)
    with pytest.raises(hesse.ConvergenceError, match="root did not converge"):
        f(-4.0)


def test_wrong_arguments() -> None:
    with pytest.raises(hesse.ArgumentError, match="root takes a function, not a float"):
        hesse.root(1.0, 1.0)
    with pytest.raises(hesse.ShapeError, match=r"x0 has shape \(3,\), and the function returned shape \(\)"):
        hesse.root(np.sum, np.ones(3))


def test_the_formula_and_the_check() -> None:
    f = hesse.jacobian(lambda a: hesse.root(lambda x, a: x**2 - a, np.ones(3), a))
    assert f.explain(A).formula == "0.5*diag(1./root(vector(1, 3), a))"
    assert hesse.check(
        lambda b: np.sum(hesse.fixed_point(lambda x, b: np.tanh(M @ x) * b + b, np.zeros(3), b) ** 2),
        A / 10,
        order=3,
    )


def test_two_threads() -> None:
    f = hesse.hessian(lambda a: np.sum(hesse.root(lambda x, a: x**2 - a, np.ones(3), a)))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(f(A))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for result in found:
        np.testing.assert_allclose(result, np.diag(-0.25 * A**-1.5), rtol=1e-12, atol=1e-16)


def test_memory_is_freed() -> None:
    class Data:
        pass

    def use() -> weakref.ref[Data]:
        data = Data()

        def residual(x: Any, a: Any) -> Any:
            assert data is not None
            return x**2 - a

        def solver(residual: Any, x0: Any) -> Any:
            assert data is not None
            return x0

        hesse.hessian(lambda a: np.sum(hesse.root(residual, np.ones(3), a, solver=solver)))(A)
        hesse.root(residual, np.ones(3), A, solver=solver)
        return weakref.ref(data)

    reference = use()
    gc.collect()
    assert reference() is None


def test_small_solutions_are_as_exact_as_large_ones() -> None:
    np.testing.assert_allclose(hesse.root(lambda y: y**2 - 1e-18, 1e-8), 1e-9, rtol=1e-12)
    gradient = hesse.grad(lambda a: hesse.root(lambda y, a: y**2 - a, np.asarray(1e-8), a))
    np.testing.assert_allclose(gradient(np.asarray(1e-18)), 0.5e9, rtol=1e-8)
    found = hesse.root(lambda y: np.stack([y[0] - 1e6, y[1] ** 2 - 1e-4]), np.array([1e6, 0.015]))
    np.testing.assert_allclose(found, [1e6, 1e-2], rtol=1e-12)


def test_solutions_that_are_zero() -> None:
    found = hesse.root(lambda y: np.stack([np.expm1(y[0]) + y[1] - 1.0, np.sin(y[0])]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(found, [0.0, 1.0], atol=1e-15)
