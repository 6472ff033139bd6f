"""Programs as people write them, with loops in Python; `xp` is NumPy or JAX's NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Arguments = tuple[np.ndarray, ...]


class Program(NamedTuple):
    """A scalar function over an array namespace, its data, and what is asked for."""

    name: str
    function: Callable[[Any], Callable[..., Any]]
    arguments: Callable[[], Arguments]
    derivative: str = "gradient"
    count: int = 1
    """By how many of its first arguments it is differentiated."""

    @property
    def title(self) -> str:
        """What tells it from all others."""
        return f"{self.name}: {self.derivative}"

    @property
    def argnums(self) -> int | tuple[int, ...]:
        """Those arguments, as hesse and JAX are told."""
        return 0 if self.count == 1 else tuple(range(self.count))


def normal(*shapes: tuple[int, ...]) -> Arguments:
    """Random arrays, the same ones every time."""
    generator = np.random.default_rng(0)
    return tuple(generator.normal(size=shape) / max(1, shape[-1] if shape else 1) ** 0.5 for shape in shapes)


def cox(people: int) -> Program:
    """The partial likelihood of Cox's model, the people in the order of their times."""

    def function(xp: Any) -> Callable[..., Any]:
        def likelihood(w: Any, data: Any) -> Any:
            scores = data @ w
            total = 0.0
            for k in range(people):
                total = total + xp.log(xp.sum(xp.exp(scores[k:]))) - scores[k]
            return total

        return likelihood

    return Program(f"Cox, {people} terms", function, lambda: normal((5,), (people, 5)), "Hessian")


def point_losses(xp: Any, points: int, w: Any, data: Any, labels: Any) -> list[Any]:
    """The loss of each point of a logistic regression."""
    return [xp.log1p(xp.exp(-labels[k] * (data[k] @ w))) for k in range(points)]


def loop(points: int) -> Program:
    """A loss added up point by point."""

    def function(xp: Any) -> Callable[..., Any]:
        def loss(w: Any, data: Any, labels: Any) -> Any:
            total = 0.0
            for term in point_losses(xp, points, w, data, labels):
                total = total + term
            return total

        return loss

    name = f"sum in a loop, {points:,} terms"
    return Program(name, function, lambda: normal((5,), (points, 5), (points,)))


def stacked(points: int) -> Program:
    """The same losses as a vector."""

    def function(xp: Any) -> Callable[..., Any]:
        return lambda w, data, labels: xp.sum(xp.stack(point_losses(xp, points, w, data, labels)) ** 2)

    name = f"np.stack of {points:,} numbers"
    return Program(name, function, lambda: normal((5,), (points, 5), (points,)))


def recurrence(steps: int, derivative: str) -> Program:
    """Exponential smoothing, every state of which is read."""

    def function(xp: Any) -> Callable[..., Any]:
        def loss(x: Any) -> Any:
            state, total = 0.0, 0.0
            for k in range(steps):
                state = 0.9 * state + x[k]
                total = total + xp.sin(state)
            return total

        return loss

    name = f"s = 0.9*s + x[k], {steps:,} steps"
    return Program(name, function, lambda: normal((steps,)), derivative)


def recurrent(steps: int) -> Program:
    """A recurrent net that has read a sequence."""

    def function(xp: Any) -> Callable[..., Any]:
        def loss(weights: Any, inputs: Any, start: Any) -> Any:
            state = start
            for k in range(steps):
                state = xp.tanh(weights @ state + inputs[k])
            return xp.sum(state**2)

        return loss

    name = f"recurrent net, {steps:,} steps"
    return Program(name, function, lambda: normal((8, 8), (steps, 8), (8,)), count=2)


def transformer(layers: int, width: int = 8, tokens: int = 6) -> Program:
    """Attention and a perceptron in each layer, with the residual and the norm around both."""

    def function(xp: Any) -> Callable[..., Any]:
        def normed(x: Any) -> Any:
            centred = x - xp.mean(x, axis=-1, keepdims=True)
            return centred / xp.sqrt(xp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)

        def attended(x: Any, queries: Any, keys: Any, values: Any, out: Any) -> Any:
            scores = (x @ queries) @ (x @ keys).T / width**0.5
            weights = xp.exp(scores)
            weights = weights / xp.sum(weights, axis=-1, keepdims=True)
            return weights @ (x @ values) @ out

        def loss(*arguments: Any) -> Any:
            *weights, x = arguments
            for k in range(layers):
                queries, keys, values, out, first, second = weights[6 * k : 6 * k + 6]
                x = x + attended(normed(x), queries, keys, values, out)
                x = x + xp.tanh(normed(x) @ first) @ second
            return xp.sum(x**2)

        return loss

    square, wide = (width, width), (width, 4 * width)
    shapes = [square] * 4 + [wide, wide[::-1]]
    arguments = [*shapes * layers, (tokens, width)]
    return Program(f"transformer, {layers} layers", function, lambda: normal(*arguments), count=6 * layers)


def perceptron() -> Program:
    """A net of three layers, by all of its weights."""

    def function(xp: Any) -> Callable[..., Any]:
        def loss(first: Any, second: Any, third: Any, x: Any, y: Any) -> Any:
            return xp.sum((xp.tanh(xp.tanh(x @ first) @ second) @ third - y) ** 2)

        return loss

    shapes = [(6, 8), (8, 8), (8, 3), (20, 6), (20, 3)]
    return Program("three-layer net, all weights", function, lambda: normal(*shapes), "Hessian", 3)


def chain(operations: int) -> Program:
    """One element-wise operation after the other."""

    def function(xp: Any) -> Callable[..., Any]:
        def loss(x: Any, y: Any) -> Any:
            state = x
            for _ in range(operations // 4):
                state = xp.tanh(xp.sin(state) * y + x)
            return xp.sum(state)

        return loss

    return Program(f"chain of {operations:,} operations", function, lambda: normal((10,), (10,)))


def many_arguments(count: int) -> Program:
    """A function of so many arrays, differentiated by all of them."""

    def function(xp: Any) -> Callable[..., Any]:
        def loss(*arrays: Any) -> Any:
            total = 0.0
            for array in arrays:
                total = total + xp.sum(xp.sin(array))
            return total

        return loss

    name = f"{count:,} arguments"
    return Program(name, function, lambda: normal(*[(3,)] * count), count=count)


PROGRAMS = (
    *map(cox, (20, 40, 60)),
    *map(loop, (1000, 2000, 4000)),
    stacked(4000),
    *(recurrence(400, derivative) for derivative in ("gradient", "Hessian")),
    *map(recurrent, (100, 1000, 5000)),
    transformer(12),
    perceptron(),
    chain(20_000),
    many_arguments(1000),
)
