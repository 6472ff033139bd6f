"""Problems where nested differentiation is already good."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.speed.problem import CRASHES, NESTED, Arrays, Problem, Sizes, generator
from benchmarks.speed.problems_chains import chain_data, rosenbrock, rosenbrock_bands, tridiagonal

EXAMPLES = 64
HIDDEN = 64
CLASSES = 50


def perceptron(xp: Any) -> Any:
    def f(W: Any, X: Any, V: Any, w: Any, y: Any) -> Any:
        residual = xp.tanh(xp.tanh(X @ W) @ V) @ w - y
        return 0.5 * xp.sum(residual * residual)

    return f


def perceptron_data(n: int) -> Arrays:
    """The arguments, and a direction last."""
    random = generator(n)
    W, V, direction = (random.normal(size=(n, n)) / np.sqrt(n) for _ in range(3))
    X, w, y = random.normal(size=(EXAMPLES, n)), random.normal(size=n), random.normal(size=EXAMPLES)
    return W, X, V, w / np.sqrt(n), y, direction


def perceptron_product(
    W: np.ndarray,
    X: np.ndarray,
    V: np.ndarray,
    w: np.ndarray,
    y: np.ndarray,
    direction: np.ndarray,
    xp: Any = np,
) -> np.ndarray:
    a = xp.tanh(X @ W)
    b = xp.tanh(a @ V)
    slope_a, slope_b = 1 - a * a, 1 - b * b
    residual = b @ w - y
    along_a = slope_a * (X @ direction)
    along_b = slope_b * (along_a @ V)
    back_b = residual[:, None] * w
    along_back_b = (along_b @ w)[:, None] * w
    inner = back_b * slope_b
    along_inner = along_back_b * slope_b - 2 * back_b * b * along_b
    back_a = inner @ V.T
    along_back_a = along_inner @ V.T
    return X.T @ (along_back_a * slope_a - 2 * back_a * a * along_a)


def field(xp: Any) -> Any:
    def f(x: Any, W: Any, V: Any, w: Any) -> Any:
        return w @ xp.tanh(V @ xp.tanh(W @ x))

    return f


def field_data(n: int) -> Arrays:
    random = generator(n)
    W, V = random.normal(size=(HIDDEN, n)) / np.sqrt(n), random.normal(size=(HIDDEN, HIDDEN)) / 8
    return random.normal(size=n), W, V, random.normal(size=HIDDEN)


def field_laplacian(x: np.ndarray, W: np.ndarray, V: np.ndarray, w: np.ndarray, xp: Any = np) -> np.ndarray:
    a = xp.tanh(W @ x)
    b = xp.tanh(V @ a)
    slope_a, slope_b = 1 - a * a, 1 - b * b
    inner = V @ (slope_a[:, None] * W)
    first = (w * b * slope_b) @ xp.sum(inner * inner, axis=1)
    second = ((w * slope_b) @ V * a * slope_a) @ xp.sum(W * W, axis=1)
    return -2 * (first + second)


def log_sum_exp(xp: Any) -> Any:
    return lambda x, A: xp.log(xp.sum(xp.exp(A @ x)))


def log_sum_exp_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=n), random.normal(size=(CLASSES, n)) / np.sqrt(n)


def log_sum_exp_third(x: np.ndarray, A: np.ndarray, xp: Any = np) -> np.ndarray:
    n = len(x)
    e = xp.exp(A @ x)
    p = e / e.sum()
    centred = A - p @ A
    squares = ((p[:, None] * centred)[:, :, None] * centred[:, None, :]).reshape(len(A), n * n)
    return (squares.T @ centred).reshape(n, n, n)


PROBLEMS = [
    Problem(
        "Hessian-vector product of a perceptron",
        NESTED,
        "hvp",
        perceptron,
        perceptron_data,
        Sizes(4, (64, 256, 1024), (64, 256, 1024, 2048)),
        lambda n: 1,
        closed=perceptron_product,
    ),
    Problem(
        "tiny Rosenbrock",
        NESTED,
        "hessian",
        rosenbrock,
        chain_data,
        Sizes(4, (4, 8), (4, 8, 16)),
        lambda n: n,
        closed=lambda x: tridiagonal(*rosenbrock_bands(x)),
    ),
    Problem(
        "Laplacian of a perceptron",
        NESTED,
        "laplacian",
        field,
        field_data,
        Sizes(3, (4, 32, 256), (4, 32, 256, 1024)),
        lambda n: HIDDEN,
        closed=field_laplacian,
    ),
    Problem(
        "dense third derivative",
        NESTED,
        "third",
        log_sum_exp,
        log_sum_exp_data,
        Sizes(4, (20, 60, 120), (20, 60, 120, 200)),
        lambda n: CLASSES * n,
        closed=log_sum_exp_third,
        left_out={"torch jacfwd(hessian) compiled": CRASHES},
    ),
]
