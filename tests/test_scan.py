"""`hesse.scan` against `jax.lax.scan`: values, derivatives of several orders, other libraries and dtypes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from oracles import fast_jit
from scan_cases import CASES, Case, normal, recurrent, smoothing

jax.config.update("jax_enable_x64", True)
every = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def agree(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=rtol, atol=rtol)


@every
def test_values_and_gradients(case: Case) -> None:
    ours, theirs = case.make(hesse.scan, np), case.make(jax.lax.scan, jnp)
    agree(ours(*case.arguments), fast_jit(theirs)(*case.arguments))
    gradient = hesse.value_and_grad(ours, argnums=case.argnums)
    expected = fast_jit(jax.value_and_grad(theirs, argnums=case.argnums))(*case.arguments)
    agree(gradient(*case.arguments), expected)


@every
def test_hessians(case: Case) -> None:
    ours, theirs = case.make(hesse.scan, np), case.make(jax.lax.scan, jnp)
    found = hesse.hessian(ours, argnums=case.argnums)(*case.arguments)
    agree(found, fast_jit(jax.hessian(theirs, argnums=case.argnums))(*case.arguments), 1e-8)


THIRD = [case for case in CASES if case.name in ("smoothing", "recurrent", "backwards", "little depends")]


@pytest.mark.parametrize("case", THIRD, ids=[case.name for case in THIRD])
def test_third_derivatives(case: Case) -> None:
    ours, theirs = case.make(hesse.scan, np), case.make(jax.lax.scan, jnp)
    found = hesse.jacobian(hesse.hessian(ours))(*case.arguments)
    agree(found, fast_jit(jax.jacfwd(jax.hessian(theirs)))(*case.arguments), 1e-8)


@pytest.mark.parametrize("mode", ["forward", "reverse", "two-sided", "cross-country"])
def test_modes_agree(mode: str) -> None:
    f, arguments = recurrent(hesse.scan, np), (normal(2, 2), normal(3, 2), normal(2))
    expected = fast_jit(jax.hessian(recurrent(jax.lax.scan, jnp), argnums=(0, 1)))(*arguments)
    agree(hesse.hessian(f, argnums=(0, 1), mode=mode)(*arguments), expected)


def test_products_and_operators() -> None:
    f, g = recurrent(hesse.scan, np), recurrent(jax.lax.scan, jnp)
    arguments, v = (normal(2, 2), normal(3, 2), normal(2)), normal(2, 2, seed=2)

    def of_weights(w: Any) -> Any:
        return g(w, *arguments[1:])

    agree(hesse.jvp(f)(*arguments, v), jax.jvp(of_weights, arguments[:1], (v,))[1])
    agree(hesse.hvp(f)(*arguments, v), jax.jvp(jax.grad(of_weights), arguments[:1], (v,))[1])
    entries = jax.hessian(of_weights)(arguments[0]).reshape(4, 4)
    agree(hesse.laplacian(f)(*arguments), np.trace(entries))


def test_a_jacobian_has_all_states() -> None:
    def states(scan: Any, xp: Any) -> Any:
        return lambda x: scan(lambda s, x: (xp.sin(s) + x, s * x), 0.3, x)[1]

    x = normal(6)
    expected = fast_jit(jax.jacobian(states(jax.lax.scan, jnp)))(x)
    for mode in ("auto", "forward", "reverse"):
        agree(hesse.jacobian(states(hesse.scan, np), mode=mode)(x), expected)


def test_second_calls_with_other_lengths_dtypes_and_surroundings() -> None:
    factor = np.array([0.5, 1.5])

    def made(scan: Any, xp: Any) -> Any:
        def f(x: Any) -> Any:
            return xp.sum(scan(lambda s, x: (xp.tanh(s * factor) + x, None), xp.ones(2), x)[0] ** 2)

        return f

    gradient = hesse.grad(made(hesse.scan, np))
    for count, dtype in ((4, np.float64), (4, np.float64), (7, np.float64), (1, np.float64), (4, np.float32)):
        x = normal(count, 2, seed=count).astype(dtype)
        found = gradient(x)
        assert found.dtype == dtype
        agree(found, fast_jit(jax.grad(made(jax.lax.scan, jnp)))(x), 1e-5 if dtype == np.float32 else 1e-9)
    factor = np.array([2.0, -1.0])
    x = normal(4, 2)
    agree(gradient(x), fast_jit(jax.grad(made(jax.lax.scan, jnp)))(x))


def test_no_steps() -> None:
    def made(scan: Any, xp: Any) -> Any:
        def f(x: Any, y: Any) -> Any:
            last, states = scan(lambda s, x: (s * x, s), y, x)
            return last**2 + xp.sum(states)

        return f

    arguments = np.zeros(0), 3.0
    agree(hesse.value_and_grad(made(hesse.scan, np), argnums=1)(*arguments), (9.0, 6.0))


def test_arrays_of_torch() -> None:
    f, arguments = recurrent(hesse.scan, np), (normal(3, 3), normal(4, 3), normal(3))
    expected = fast_jit(jax.hessian(recurrent(jax.lax.scan, jnp)))(*arguments)
    found = hesse.hessian(f)(*map(torch.from_numpy, arguments))
    assert isinstance(found, torch.Tensor)
    agree(found.numpy(), expected)


def test_arrays_of_jax() -> None:
    f, arguments = recurrent(hesse.scan, np), (normal(3, 3), normal(4, 3), normal(3))
    g = recurrent(jax.lax.scan, jnp)
    gradient = jax.jit(hesse.grad(f))
    found = gradient(*map(jnp.asarray, arguments))
    assert isinstance(found, jax.Array)
    agree(found, jax.grad(g)(*arguments))
    program = str(jax.make_jaxpr(hesse.grad(f))(*map(jnp.asarray, arguments)))
    assert program.count("scan[") == program.count("unroll=4") == 2  # short: written out
    arguments = (normal(3, 3), normal(100, 3), normal(3))
    program = str(jax.make_jaxpr(hesse.grad(f))(*map(jnp.asarray, arguments)))
    assert program.count("scan[") == program.count("unroll=1") == 2
    agree(gradient(*map(jnp.asarray, arguments)), jax.grad(g)(*arguments))


@pytest.mark.parametrize("namespace", [np, jnp, torch])
def test_plain_arrays_just_run(namespace: Any) -> None:
    x = namespace.asarray(normal(5, 2))

    def step(carry: Any, x: Any) -> Any:
        return {"sum": carry["sum"] + x}, (carry["sum"] * x, x)

    last, (products, same) = hesse.scan(step, {"sum": x[0] * 0.0}, x, reverse=True)
    assert type(products) is type(x)
    expected, (more, _) = jax.lax.scan(step, {"sum": jnp.zeros(2)}, jnp.asarray(normal(5, 2)), reverse=True)
    agree(np.asarray(last["sum"]), expected["sum"])
    agree(np.asarray(products), more)
    agree(np.asarray(same), np.asarray(x))


def test_functions_of_torch_and_jax_call_it() -> None:
    x = normal(5)
    expected = fast_jit(jax.grad(smoothing(jax.lax.scan, jnp)))(x, 0.9)
    agree(hesse.grad(smoothing(hesse.scan, jnp))(jnp.asarray(x), 0.9), expected)

    def f(x: torch.Tensor) -> torch.Tensor:
        last, states = hesse.scan(lambda s, x: (0.9 * s + x, s), torch.zeros((), dtype=x.dtype), x)
        return torch.sum(torch.sin(states)) + last**2

    agree(hesse.grad(f)(torch.from_numpy(x)).numpy(), expected)


def test_a_derivative_inside_a_step() -> None:
    def made(scan: Any, xp: Any, grad: Any) -> Any:
        def f(x: Any) -> Any:
            energy = lambda u: xp.sum(xp.cos(u) * x)  # noqa: E731
            return xp.sum(scan(lambda u, _: (u - 0.1 * grad(energy)(u), None), x, None, length=3)[0] ** 2)

        return f

    x = normal(3)
    expected = fast_jit(jax.hessian(made(jax.lax.scan, jnp, jax.grad)))(x)
    agree(hesse.hessian(made(hesse.scan, np, hesse.grad))(x), expected)


@pytest.mark.parametrize("derivative", [hesse.grad, hesse.hessian])
def test_programs_do_not_grow_with_the_number_of_steps(derivative: Any) -> None:
    def lines(steps: int) -> int:
        f = derivative(recurrent(hesse.scan, np))
        return len(f.explain(normal(3, 3), normal(steps, 3), normal(3)).source.splitlines())

    assert lines(5000) < 2 * lines(10)


def test_only_what_waits_for_the_carry_is_in_the_loop() -> None:
    gradient = hesse.grad(recurrent(hesse.scan, np), argnums=(0, 1, 2))
    source = gradient.explain(normal(3, 3), normal(20, 3), normal(3)).source
    assert source.count("foreign(") == 2
    assert "exp(" in source  # of all steps at once


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: hesse.scan(lambda s, x: s + x, 0.0, x)[0], hesse.TracingError, r"pair \(carry, y\)"),
        (lambda x: hesse.scan(lambda s, x: (x, x), 0.0, x)[0], hesse.ShapeError, "keep its shapes"),
        (
            lambda x: hesse.scan(lambda s, x: ((s, x), x), [x[0]], x),
            hesse.ArgumentError,
            "structure of carry",
        ),
        (
            lambda x: hesse.scan(lambda s, x: (s, x), x[0], (x, x[:2])),
            hesse.ShapeError,
            "same number of steps",
        ),
        (lambda x: hesse.scan(lambda s, x: (s, x), x, x[0, 0]), hesse.ShapeError, "first axis of xs"),
        (lambda x: hesse.scan(lambda s, x: (s, x), x), hesse.ArgumentError, "length"),
        (lambda x: hesse.scan(3, x, x), hesse.ArgumentError, "not a int"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hesse.grad(call)(normal(3, 2))


def test_no_steps_on_plain_arrays():
    carry, ys = hesse.scan(lambda c, x: (c * x, {"y": c}), 2.0, np.ones(0))
    assert carry == 2.0
    assert isinstance(ys["y"], np.ndarray) and len(ys["y"]) == 0
