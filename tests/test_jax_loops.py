"""Loops of JAX in derivatives: as many as nested JAX has, and the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hesse
from hesse.backends.jax.jitted import PLAIN, compiler_options
from hesse.backends.jax.machine import JAX_MACHINE

jax.config.update("jax_enable_x64", True)

Function = Callable[..., Any]
RNG = np.random.default_rng(3)
START = jnp.asarray(RNG.normal(size=6) * 0.4)


def loops(function: Function, *arguments: Any) -> int:
    """The loops in what a function computes."""

    def inside(jaxpr: Any) -> Iterator[Any]:
        for equation in jaxpr.eqns:
            yield equation.primitive.name
            for value in equation.params.values():
                for part in value if isinstance(value, tuple | list) else [value]:
                    if hasattr(part, "eqns") or hasattr(part, "jaxpr"):
                        yield from inside(getattr(part, "jaxpr", part))

    names = list(inside(jax.make_jaxpr(function)(*arguments).jaxpr))
    return names.count("scan") + names.count("while")


def riccati(x: Any) -> Any:
    """All of what a step gives is used, and integers are kept for the way back: the pivots."""
    a = 0.3 * jnp.eye(2) + x[:4].reshape(2, 2)

    def step(p: Any, rate: Any) -> Any:
        gain = jnp.linalg.solve(jnp.eye(2) + p, p @ a)
        return jnp.eye(2) * (1 + x[4] ** 2) + a.T @ gain * rate, jnp.trace(p) * x[5]

    p, traces = lax.scan(step, jnp.eye(2), jnp.linspace(0.5, 1.0, 30))
    return jnp.sum(jnp.linalg.inv(p)) + jnp.sum(jnp.sin(traces))


def masked(x: Any) -> Any:
    """Truth values are kept for the way back."""

    def step(c: Any, k: Any) -> Any:
        c = jnp.where(c > 0.1 * k, jnp.sin(c) * x, c + x**2)
        return c, jnp.sum(c)

    c, sums = lax.scan(step, x, jnp.arange(20.0))
    return jnp.sum(c**2) + jnp.prod(jnp.cos(sums))


def nested(x: Any) -> Any:
    """A loop in a loop."""

    def outer(c: Any, _: Any) -> Any:
        d = lax.fori_loop(0, 15, lambda _, d: jnp.sin(d) * x + 0.5 * d, c)
        return d * jnp.cos(c), jnp.sum(d)

    c, sums = lax.scan(outer, x, None, length=12)
    return jnp.sum(c**2) + jnp.sum(sums)


def few_numbers(x: Any) -> Any:
    """More columns than numbers that move."""
    start = jnp.stack([jnp.sum(x), jnp.sum(x**2)])
    end = lax.fori_loop(0, 40, lambda _, s: jnp.tanh(s[::-1]) + 0.1 * s[0], start)
    return jnp.sum(end**3) + jnp.sum(x**4)


FUNCTIONS = [riccati, masked, nested, few_numbers]
named = pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)


def close(found: Any, expected: Any) -> None:
    """Containers of arrays are equal but for rounding."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@named
def test_no_more_loops_than_nested_jax_has(f: Function) -> None:
    assert loops(hesse.grad(f), START) == loops(jax.grad(f), START)
    assert loops(hesse.hessian(f), START) == loops(jax.hessian(f), START)


@named
def test_values_and_gradients_share_loops(f: Function) -> None:
    joint = hesse.value_and_grad(f)
    assert loops(joint, START) == loops(jax.grad(f), START)
    close(joint(START), jax.value_and_grad(f)(START))


@named
def test_derivatives(f: Function) -> None:
    v = jnp.asarray(RNG.normal(size=6))
    close(hesse.hvp(f)(START, v), jax.jvp(jax.grad(f), (START,), (v,))[1])
    close(hesse.jvp(f)(START, v), jax.jvp(f, (START,), (v,))[1])
    close(hesse.derivative(f, 3)(START), jax.jit(jax.jacfwd(jax.hessian(f)))(START))


def test_fourth_order() -> None:
    x = START[:2]
    close(hesse.derivative(masked, 4)(x), jax.jit(jax.jacfwd(jax.jacfwd(jax.hessian(masked))))(x))


def test_several_arguments() -> None:
    def f(p: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(p["w"] @ h + p["b"] * x)
            return h, h[0]

        h, firsts = lax.scan(step, jnp.zeros(3), x)
        return jnp.sum(h**2) + jnp.sum(firsts**3)

    p = {"w": jnp.asarray(RNG.normal(size=(3, 3))), "b": jnp.asarray(RNG.normal(size=3))}
    x = jnp.asarray(RNG.normal(size=17))
    close(hesse.hessian(f, argnums=(0, 1))(p, x), jax.hessian(f, argnums=(0, 1))(p, x))
    assert loops(hesse.hessian(f), p, x) == loops(jax.hessian(f), p, x)


@pytest.mark.parametrize("rows", [1, 4, 40])
def test_jacobians(rows: int) -> None:
    """Whether there are more rows or more columns."""
    mixed = jnp.asarray(RNG.normal(size=(rows, 2)))

    def f(x: Any) -> Any:
        state, sums = lax.scan(lambda s, t: (jnp.sin(s) * x[:2] + t, jnp.sum(s)), x[2:4], x)
        return jnp.sin(mixed @ (state + sums[:2]))

    x = jnp.asarray(RNG.normal(size=20))
    for mode in ("auto", "forward", "reverse", "two-sided", "cross-country"):
        close(hesse.jacobian(f, mode=mode)(x), jax.jacobian(f)(x))


def test_what_is_beside_a_loop_keeps_its_pattern() -> None:
    def f(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.sin(x)) + lax.fori_loop(0, 50, lambda _, s: jnp.cos(s) * y, y)

    blocks = hesse.hessian(f, argnums=(0, 1), form="structured")(jnp.arange(8.0), jnp.float64(0.3))
    assert "pattern ii" in str(blocks[0][0])
    close(np.asarray(blocks[1][1]), jax.hessian(f, argnums=1)(jnp.arange(8.0), 0.3))


@pytest.mark.parametrize("count", [1, 3])
def test_numbers(count: int) -> None:
    """Derivatives by numbers are made in one sweep."""

    def f(*x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda _, s: jnp.cos(s) * sum(x) + x[-1] ** 2, x[0])

    x, every = [jnp.float64(0.3 + 0.1 * k) for k in range(count)], tuple(range(count))
    close(hesse.hessian(f, every)(*x), jax.hessian(f, every)(*x))
    assert loops(hesse.hessian(f, every), *x) <= loops(jax.hessian(f, every), *x)


def test_a_loop_of_unknown_length() -> None:
    def f(x: Any) -> Any:
        many = jnp.where(x[0] > 0, 41, 40)
        return jnp.sum(lax.fori_loop(0, many, lambda _, s: jnp.sin(s) * x + 0.3 * s, x))

    close(hesse.hessian(f)(START), jax.jacfwd(jax.jacfwd(f))(START))


def test_a_tangent_that_depends_on_the_loop() -> None:
    """The loop of such a tangent needs the value: that cannot be taken from it."""

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda _, s: jnp.cos(s) * x, x)

    def ours(x: Any) -> Any:
        return jnp.sum(hesse.jvp(f)(x, f(x) ** 2))

    def theirs(x: Any) -> Any:
        return jnp.sum(jax.jvp(f, (x,), (f(x) ** 2,))[1])

    close(hesse.grad(ours)(START), jax.grad(theirs)(START))


def test_batches() -> None:
    points = jnp.stack([START, 2 * START])
    close(jax.vmap(hesse.hessian(masked))(points), jax.vmap(jax.hessian(masked))(points))


@pytest.mark.parametrize(("width", "is_quick"), [(6, True), (3_000, False)])
def test_loops_of_few_exponentials_are_compiled_the_older_way(width: int, is_quick: bool) -> None:
    """XLA takes half of the time then; exponentials of many entries would take longer to compute."""

    def f(x: Any) -> Any:
        return jnp.sum(lax.fori_loop(0, 500, lambda _, s: jnp.tanh(s) * x, x))

    executable = hesse.grad(f).explain(jnp.ones(width)).executable
    options = compiler_options(executable.program, JAX_MACHINE, np.dtype(float))
    assert (options.items() >= PLAIN.items()) == is_quick
