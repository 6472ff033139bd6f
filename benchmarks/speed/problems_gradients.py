"""Values and gradients of functions whose authors subtract the largest exponent before they exponentiate."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.speed.problem import NESTED, Arrays, Problem, Sizes, generator
from benchmarks.speed.problems_structure import WIDTH, attention_data

FEATURES, CLASSES = 10, 5
MEANS, COORDINATES = 8, 3


def softened(xp: Any, scores: Any) -> tuple[Any, Any]:
    """The softmax and the logsumexp of rows."""
    largest = xp.amax(scores, axis=1, keepdims=True)
    e = xp.exp(scores - largest)
    total = xp.sum(e, axis=1, keepdims=True)
    return e / total, (largest + xp.log(total))[:, 0]


def regression(xp: Any) -> Any:
    def f(W: Any, X: Any, Y: Any) -> Any:
        z = X @ W
        z = z - xp.amax(z, axis=1, keepdims=True)
        return -xp.sum(Y * (z - xp.log(xp.sum(xp.exp(z), axis=1, keepdims=True))))

    return f


def regression_data(n: int) -> Arrays:
    random = generator(n)
    labels = random.integers(0, CLASSES, n)
    return random.normal(size=(FEATURES, CLASSES)), random.normal(size=(n, FEATURES)), np.eye(CLASSES)[labels]


def regression_gradient(W: np.ndarray, X: np.ndarray, Y: np.ndarray) -> Arrays:
    z = X @ W
    p, total = softened(np, z)
    return np.asarray(total.sum() - np.vdot(Y, z)), X.T @ (p - Y)


def means(xp: Any) -> Any:
    def f(C: Any, X: Any) -> Any:
        near = -xp.sum((X[:, None, :] - C[None, :, :]) ** 2, axis=-1)
        largest = xp.amax(near, axis=1, keepdims=True)
        return -xp.sum(largest[:, 0] + xp.log(xp.sum(xp.exp(near - largest), axis=1)))

    return f


def means_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=(MEANS, COORDINATES)), random.normal(size=(n, COORDINATES))


def means_gradient(C: np.ndarray, X: np.ndarray) -> Arrays:
    differences = X[:, None, :] - C
    p, total = softened(np, -np.einsum("ijk,ijk->ij", differences, differences))
    return np.asarray(-total.sum()), -2 * np.einsum("ij,ijk->jk", p, differences)


def attention_loss(xp: Any) -> Any:
    def f(Q: Any, K: Any, V: Any) -> Any:
        scores = Q @ K.T / WIDTH**0.5
        e = xp.exp(scores - xp.amax(scores, axis=-1, keepdims=True))
        result = (e / xp.sum(e, axis=-1, keepdims=True)) @ V
        return xp.sum(result * result)

    return f


def attention_gradient(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> Arrays:
    p, _ = softened(np, Q @ K.T / WIDTH**0.5)
    result = p @ V
    back = result @ V.T
    back *= p
    back -= p * back.sum(axis=1, keepdims=True)
    return np.asarray(np.vdot(result, result)), back @ K * (2 / WIDTH**0.5)


def molecules(xp: Any) -> Any:
    def f(x: Any, far: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        r = xp.sqrt(xp.sum(d * d, axis=-1) + far)
        return xp.sum(r**-12 - r**-6)

    return f


def molecules_data(n: int) -> Arrays:
    """Points, and a matrix that keeps each of them away from itself."""
    return generator(n).uniform(0.0, 2.0 * n ** (1 / 3), size=(n, COORDINATES)), 1e8 * np.eye(n)


def molecules_gradient(x: np.ndarray, far: np.ndarray) -> Arrays:
    d = x.T[:, :, None] - x.T[:, None, :]
    near = 1.0 / (np.einsum("kij,kij->ij", d, d) + far)
    third = near * near * near
    slope = near * third * (6 - 12 * third)
    return np.asarray(np.sum(third * third - third)), 2 * np.einsum("ij,kij->ik", slope, d)


_SIZES = Sizes(6, (20, 100, 1000), (20, 100, 1000, 10000))

PROBLEMS = [
    Problem(
        "softmax regression, value and gradient",
        NESTED,
        "value_and_grad",
        regression,
        regression_data,
        _SIZES,
        lambda n: CLASSES * n,
        closed=regression_gradient,
    ),
    Problem(
        "soft k-means, value and gradient",
        NESTED,
        "value_and_grad",
        means,
        means_data,
        _SIZES,
        lambda n: MEANS * COORDINATES * n,
        closed=means_gradient,
    ),
    Problem(
        "attention, value and gradient",
        NESTED,
        "value_and_grad",
        attention_loss,
        attention_data,
        Sizes(6, (16, 64, 256), (16, 64, 256, 1024)),
        lambda n: n * n,
        closed=attention_gradient,
    ),
    Problem(
        "Lennard-Jones potential, value and gradient",
        NESTED,
        "value_and_grad",
        molecules,
        molecules_data,
        Sizes(6, (10, 50, 200), (10, 50, 200, 600)),
        lambda n: COORDINATES * n * n,
        closed=molecules_gradient,
    ),
]
