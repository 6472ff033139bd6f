"""Recurrences over an array namespace and a `scan`: the same text for hesse and for JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Function = Callable[..., Any]


class Case(NamedTuple):
    """A scalar function made from a `scan` and a namespace, and its arguments."""

    name: str
    make: Callable[[Any, Any], Function]
    arguments: tuple[Any, ...]
    argnums: tuple[int, ...] = (0,)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers."""
    return np.random.default_rng((seed, *shape)).normal(size=shape) * 0.6


def smoothing(scan: Any, xp: Any) -> Function:
    def f(x: Any, rate: Any) -> Any:
        last, states = scan(lambda s, x: (rate * s + x, s), 0.0, x)
        return xp.sum(xp.sin(states)) + last**2

    return f


def recurrent(scan: Any, xp: Any) -> Function:
    def f(weights: Any, inputs: Any, start: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = xp.tanh(weights @ h + x)
            return h, xp.sum(h**3)

        last, cubes = scan(step, start, inputs)
        return xp.sum(last**2) + xp.sum(xp.exp(0.3 * cubes))

    return f


def backwards(scan: Any, xp: Any) -> Function:
    def f(x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return xp.sin(h) * x + 0.2, h * x

        last, products = scan(step, x[0] * 0.5, x, reverse=True)
        return last + xp.sum(products * xp.cos(x))

    return f


def containers(scan: Any, xp: Any) -> Function:
    def f(p: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            a, b = x
            matrix = xp.tanh(carry["m"] @ p["w"]) * xp.sum(a)
            number = carry["n"] * 0.7 + b * xp.sum(matrix)
            return {"m": matrix, "n": number}, (matrix[0], [number**2])

        last, (rows, (squares,)) = scan(step, {"m": p["m"], "n": 1.5}, xs)
        return xp.sum(last["m"] ** 2) + last["n"] + xp.sum(xp.sin(rows)) + xp.sum(squares)

    return f


def hidden_markov(scan: Any, xp: Any) -> Function:
    def f(transitions: Any, emissions: Any, seen: Any) -> Any:
        def normalised(z: Any) -> Any:
            return z - logsumexp(z)[:, None]

        def logsumexp(z: Any) -> Any:
            largest = xp.max(z, axis=-1)
            return xp.log(xp.sum(xp.exp(z - largest[..., None]), axis=-1)) + largest

        moves, sights = normalised(transitions), normalised(emissions)

        def step(alpha: Any, k: Any) -> Any:
            return logsumexp(moves.T + alpha) + sights[:, k], None

        alpha, _ = scan(step, xp.zeros(len(transitions)), seen)
        return logsumexp(alpha)

    return f


def runge_kutta(scan: Any, xp: Any) -> Function:
    def f(state: Any, rates: Any) -> Any:
        def slope(u: Any) -> Any:
            return xp.stack([rates[0] * u[0] - u[0] * u[1], u[0] * u[1] - rates[1] * u[1]])

        def step(u: Any, _: Any) -> Any:
            h = 0.1
            a = slope(u)
            b = slope(u + h / 2 * a)
            c = slope(u + h / 2 * b)
            d = slope(u + h * c)
            return u + h / 6 * (a + 2 * b + 2 * c + d), u[0]

        last, path = scan(step, state, None, length=7)
        return xp.sum(last**2) + xp.sum(path**3)

    return f


def without_a_batch(scan: Any, xp: Any) -> Function:
    """Operations that are done for one step at a time: entries chosen by position, products, nested loops."""

    def f(x: Any, matrix: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = xp.linalg.solve(matrix * xp.sum(x**2) + 3.0 * xp.eye(3), h + x)
            inner, _ = scan(lambda s, z: (s * z + 0.5, None), h[0], x)
            return h, (xp.prod(h + 2.0), xp.max(x), xp.sort(x * h), inner)

        last, (products, largest, ordered, inner) = scan(step, x[0], x)
        weights = xp.arange(1.0, 4.0)
        return xp.sum(last**2) + xp.sum(products * largest) + xp.sum(ordered @ weights) + xp.sum(inner**2)

    return f


def little_depends(scan: Any, xp: Any) -> Function:
    """Parts of the carry that stay, are forgotten, or take the item as it is; results without any of it."""

    def f(x: Any, y: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            kept, last, number = carry
            return (kept, x, number + 1.0), (xp.sum(kept * last), y * 2.0, 3.0)

        (kept, last, number), (products, same, threes) = scan(step, (y, xp.ones(2), 0.0), x)
        return xp.sum(products**2) + xp.sum(same * kept) * number + xp.sum(last**2) + xp.sum(threes)

    return f


def layers(scan: Any, xp: Any) -> Function:
    """The second leaf waits for the first, nobody for the third."""

    def f(x: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            low, high, alone = state
            low = xp.tanh(low * x)
            high = xp.sin(high + low)
            return (low, high, low * x[0]), high * low + alone

        (low, high, alone), ys = scan(step, (x[0], x[1], x[2]), x)
        return xp.sum(low) + xp.sum(high * alone) * xp.sum(ys**2)

    return f


def narrow(scan: Any, xp: Any) -> Function:
    """All leaves are computed from one vector of two entries."""

    def f(x: Any, start: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            hidden, memory = state
            gate = xp.exp(x)
            memory = memory * gate + xp.tanh(hidden[0] * x) * hidden[1]
            return (xp.stack([xp.sin(memory), memory * gate]), memory), hidden * x

        (hidden, memory), ys = scan(step, (xp.stack([start[:2], start[2:]]), start[1:3]), x, reverse=True)
        return xp.sum(hidden * memory) + xp.sum(ys**2)

    return f


CASES = (
    Case("smoothing", smoothing, (normal(6), 0.9), (0, 1)),
    Case("recurrent", recurrent, (normal(3, 3), normal(4, 3), normal(3)), (0, 1, 2)),
    Case("backwards", backwards, (normal(5),)),
    Case("containers", containers, ({"w": normal(2, 2), "m": normal(3, 2)}, (normal(4, 2), normal(4)))),
    Case("hidden Markov", hidden_markov, (normal(3, 3), normal(3, 4), np.array([0, 3, 1, 1, 2])), (0, 1)),
    Case("Runge-Kutta", runge_kutta, (np.array([1.0, 0.6]), np.array([0.9, 0.7])), (0, 1)),
    Case("without a batch", without_a_batch, (normal(3, 3), normal(3, 3, seed=1)), (0, 1)),
    Case("little depends", little_depends, (normal(4, 2), normal(2)), (0, 1)),
    Case("layers", layers, (normal(7, 2),)),
    Case("narrow", narrow, (normal(7, 2), normal(4)), (0, 1)),
)
