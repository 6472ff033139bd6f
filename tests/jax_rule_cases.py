"""JAX functions with rules of their own, activations, primitives left to JAX, loops and choices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_cases import OPEN, POSITIVE, UNIT, WIDE, Case


@jax.custom_jvp
def scaled_sine(x: Any, y: Any) -> Any:
    """A function whose rule is not that of its formula: of sin(2x) y / 2."""
    return jnp.sin(x) * y


@scaled_sine.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return scaled_sine(x, y), jnp.cos(2 * x) * y * dx + jnp.sin(2 * x) / 2 * dy


@jax.custom_vjp
def clipped(x: Any, limit: Any) -> Any:
    """The identity, with a gradient that grows more slowly."""
    return x * 1.0


clipped.defvjp(
    lambda x, limit: (clipped(x, limit), (x, limit)),
    lambda kept, g: (jnp.tanh(g * kept[1]) * 0 + g * jnp.exp(-(kept[0] ** 2)), jnp.zeros_like(kept[1])),
)


@jax.custom_jvp
def relu(x: Any) -> Any:
    """A function with the name and the values of another one, and another slope."""
    return jnp.maximum(x, 0.0)


relu.defjvp(lambda primals, tangents: (relu(*primals), 3.0 * primals[0] * tangents[0]))


def pendulum(steps: int) -> Any:
    """The state after some steps of an ordinary differential equation."""

    def step(state: Any, _: Any) -> Any:
        angle, speed = state
        return (angle + 0.01 * speed, speed - 0.01 * jnp.sin(angle)), angle

    return lambda x: lax.scan(step, (x[0], x[1]), None, length=steps)


def recurrent(weights: Any, inputs: Any) -> Any:
    """A small recurrent net."""

    def step(state: Any, value: Any) -> Any:
        state = jnp.tanh(weights @ state + value)
        return state, state[0]

    state, further = lax.scan(step, jnp.zeros(2), inputs)
    return jnp.sum(state**2) + jnp.sum(further * inputs)


def root(a: Any) -> Any:
    """The solution of equations, found by steps of Newton and differentiated as a solution."""

    def solved(f: Any, x: Any) -> Any:
        for _ in range(12):
            x = x - jnp.linalg.solve(jax.jacfwd(f)(x), f(x))
        return x

    def moved(g: Any, y: Any) -> Any:
        return jnp.linalg.solve(jax.jacfwd(g)(y), y)

    return lax.custom_root(lambda x: x**3 + a * x[::-1] - 2.0, jnp.ones(2), solved, moved)


def newton(x: Any) -> Any:
    """A root, by a loop whose length depends on the data."""
    return lax.while_loop(
        lambda y: jnp.max(jnp.abs(y * y - x)) > 1e-3, lambda y: (y + x / y) / 2, x * 0.7 + 1
    )


def filtered(x: Any) -> Any:
    """A loop that solves with a matrix of its state, as filters do."""

    def step(state: tuple[Any, Any], observed: Any) -> tuple[tuple[Any, Any], None]:
        mean, total = state
        rest = observed - mean
        solution = jnp.linalg.solve(jnp.eye(2) * jnp.exp(x[0]) + jnp.outer(mean, mean), rest)
        return (mean + 0.1 * solution, total - rest @ solution / 2), None

    start = jnp.zeros(2), jnp.zeros(())
    return lax.scan(step, start, jnp.array([[0.3, -1.2], [0.8, 0.5], [-0.4, 1.1]]))[0][1]


def newton_until(x: Any) -> Any:
    """A root, by a loop that carries whether it goes on; the data say whether it begins."""

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        y, _ = state
        following = (y + x / y) / 2
        return following, jnp.max(jnp.abs(following - y)) > 1e-3

    return lax.while_loop(lambda state: state[1], step, (x, jnp.max(x) > 0.0))[0]


ACTIVATIONS = [
    Case(name, getattr(jax.nn, name), ((5,),), WIDE, order=2)
    for name in [
        "celu",
        "elu",
        "gelu",
        "hard_swish",
        "hard_tanh",
        "leaky_relu",
        "log_sigmoid",
        "log_softmax",
        "mish",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "soft_sign",
        "softplus",
        "sparse_plus",
        "sparse_sigmoid",
        "squareplus",
        "standardize",
        "tanh",
    ]
]

RULES = [
    Case("custom jvp", scaled_sine, ((3,), (3,))),
    Case("custom jvp in a batch", jax.vmap(scaled_sine), ((2, 3), (2, 3)), order=2),
    Case("custom jvp under jit", jax.jit(lambda x: scaled_sine(x, x**2)), ((3,),)),
    Case("a relu of a user", lambda x: relu(x) * x, ((4,),), POSITIVE),
    Case("logaddexp", jnp.logaddexp, ((3,), (3,))),
    Case("xlogy", jax.scipy.special.xlogy, ((3,), (3,)), POSITIVE, order=2),
    Case("xlog1py", jax.scipy.special.xlog1py, ((3,), (3,)), POSITIVE, order=2),
    Case("entr", jax.scipy.special.entr, ((3,),), POSITIVE),
    Case("logit", jax.scipy.special.logit, ((3,),), UNIT),
    Case("log ndtr", jax.scipy.special.log_ndtr, ((3,),), WIDE, order=2),
    Case("sinc", jnp.sinc, ((3,),)),
    Case("copysign", lambda x, y: jnp.copysign(x, y) ** 3, ((3,), (3,)), order=2),
    Case("bessel", jax.scipy.special.i0e, ((3,),)),
    Case("incomplete gamma", lambda x: jax.scipy.special.gammainc(2.0, x), ((3,),), POSITIVE, order=2),
    Case("singular values", lambda x: jnp.linalg.svd(x, compute_uv=False), ((2, 3),), order=2),
    Case(
        "sums of two arrays by one function",
        lambda x: lax.reduce(
            (x, x**2), (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] + b[1] + a[0] * b[0]), (0,)
        ),
        ((3,),),
        order=2,
    ),
    Case("arcsine of an average", lambda x: jnp.arcsin(jnp.mean(x)), ((3,),), OPEN),
]

CONTROL = [
    Case("scan", lambda x: lax.scan(lambda c, t: (jnp.sin(c) * t + x[0], c * t), x[0], x), ((3,),), order=2),
    Case("scan backwards", lambda x: lax.scan(lambda c, t: (c * t, c), x[0], x, reverse=True), ((3,),)),
    Case("scan of nothing", lambda x: lax.scan(lambda c, t: (c * t, c), x**2, jnp.zeros(0))[0], ((3,),)),
    Case("map", lambda x: lax.map(lambda t: jnp.sin(t) * x, x), ((3,),), order=2),
    Case("polynomial", lambda x: jnp.polyval(jnp.array([1.0, -2.0, 0.5, 3.0]), x), ((3,),)),
    Case("associative scan", lambda x: lax.associative_scan(jnp.multiply, x), ((4,),)),
    Case(
        "counted loop",
        lambda x: lax.fori_loop(0, 4, lambda i, s: jnp.sin(s) * x + i * s, x),
        ((3,),),
        order=2,
    ),
    Case("long loop", pendulum(200), ((2,),), order=2),
    Case("recurrent net", recurrent, ((2, 2), (20,)), order=2),
    Case("loop of unknown length", newton, ((3,),), POSITIVE, order=2),
    Case("solutions in a loop", filtered, ((1,),), order=2),
    Case("loop that carries its condition", newton_until, ((3,),), POSITIVE, order=2),
    Case("root", root, ((2,),), (0.1, 0.5), order=2),
    Case("choice", lambda x: lax.cond(x[0] > 0, jnp.sin, lambda y: y**3, x), ((3,),)),
    Case(
        "choice of what is nan elsewhere",
        lambda x: lax.cond(x[0] > 0, lambda y: jnp.log(y[0]) * y, lambda y: jnp.sqrt(-y[0]) / y, x),
        ((3,),),
        order=2,
    ),
    Case("switch", lambda x: lax.switch(jnp.argmax(x), [jnp.sin, jnp.cos, jnp.exp], x), ((3,),), order=2),
    Case("known choice", lambda x: lax.cond(x.shape[0] > 2, jnp.sin, lambda y: y**3, x), ((3,),), order=2),
    Case("random numbers", lambda x: x**2 * jax.random.normal(jax.random.key(3), (3,)), ((3,),), order=2),
]

CASES = {case.name: case for case in (*ACTIVATIONS, *RULES, *CONTROL)}
UNKNOWN = frozenset({"bessel", "incomplete gamma", "singular values", "sums of two arrays by one function"})
"""Cases with primitives that JAX computes and differentiates by its own rules, with a warning."""
assert np.all([name in CASES for name in UNKNOWN])
