"""Problems of linear and multilinear algebra: log-determinants, generalised linear models, products."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.speed.problem import CRASHES, STRUCTURE, Arrays, Problem, Sizes, generator
from benchmarks.speed.problems_papers import block_diagonal, factorisation, factorisation_core

RANK = 32


def log_determinant(xp: Any) -> Any:
    return lambda X: xp.linalg.slogdet(X)[1]


def log_determinant_data(n: int) -> Arrays:
    X = generator(n).normal(size=(n, n))
    return (X @ X.T / n + np.eye(n),)


def log_determinant_kept(X: np.ndarray, xp: Any = np) -> np.ndarray:
    return xp.linalg.inv(X)


def log_determinant_hessian(X: np.ndarray, xp: Any = np) -> np.ndarray:
    inverse = xp.linalg.inv(X)
    return (-inverse.T)[:, None, None, :] * inverse[None, :, :, None]


def log_determinant_product(kept: np.ndarray, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    return -(kept @ v @ kept).T


def gaussian_process(xp: Any) -> Any:
    def f(theta: Any, D: Any, y: Any, identity: Any) -> Any:
        K = xp.exp(theta[0] - D * xp.exp(theta[1])) + xp.exp(theta[2]) * identity
        return 0.5 * (y @ xp.linalg.solve(K, y)) + 0.5 * xp.linalg.slogdet(K)[1]

    return f


def gaussian_process_data(n: int) -> Arrays:
    random = generator(n)
    x = random.normal(size=(n, 2))
    D = np.sum((x[:, None] - x) ** 2, axis=-1)
    return np.array([0.1, -0.2, -1.0]), D, random.normal(size=n), np.eye(n)


def gaussian_process_hessian(
    theta: np.ndarray, D: np.ndarray, y: np.ndarray, identity: np.ndarray, xp: Any = np
) -> np.ndarray:
    rate, noise = xp.exp(theta[1]), xp.exp(theta[2])
    scaled = D * rate
    signal = xp.exp(theta[0] - scaled)
    inverse = xp.linalg.inv(signal + noise * identity)
    a = inverse @ y
    by_rate = -scaled * signal
    solved = [inverse @ signal, inverse @ by_rate, noise * inverse]
    moved = [signal @ a, by_rate @ a, noise * a]
    by_rate_twice = scaled * scaled * signal + by_rate
    second = {(0, 0): signal, (0, 1): by_rate, (1, 1): by_rate_twice}
    result: dict[tuple[int, int], Any] = {}
    for i in range(3):
        for j in range(i, 3):
            value = moved[i] @ inverse @ moved[j] - 0.5 * xp.vdot(solved[i], solved[j].T)
            if (i, j) in second:
                value += 0.5 * (xp.vdot(inverse, second[i, j]) - a @ second[i, j] @ a)
            elif i == j:
                value += 0.5 * noise * (xp.trace(inverse) - a @ a)
            result[i, j] = result[j, i] = value
    return xp.array([[result[i, j] for j in range(3)] for i in range(3)])


def poisson(xp: Any) -> Any:
    def f(w: Any, X: Any, y: Any) -> Any:
        z = X @ w
        return xp.sum(xp.exp(z)) - y @ z

    return f


def poisson_data(n: int) -> Arrays:
    random = generator(n)
    X = random.normal(size=(2 * n, n)) / np.sqrt(n)
    return random.normal(size=n), X, random.poisson(2, size=2 * n).astype(float)


def poisson_kept(w: np.ndarray, X: np.ndarray, y: np.ndarray, xp: Any = np) -> Arrays:
    return xp.exp(X @ w), X


def poisson_third(w: np.ndarray, X: np.ndarray, y: np.ndarray, xp: Any = np) -> np.ndarray:
    n = X.shape[1]
    weighted = xp.exp(X @ w)[:, None] * X
    squares = (weighted[:, :, None] * X[:, None, :]).reshape(len(X), n * n)
    return (squares.T @ X).reshape(n, n, n)


def poisson_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    e, X = kept
    return X.T @ ((e * (X @ v))[:, None] * X)


def parafac(xp: Any) -> Any:
    def f(A: Any, B: Any, C: Any, T: Any) -> Any:
        return 0.5 * xp.sum((T - xp.einsum("ir,jr,kr->ijk", A, B, C)) ** 2)

    return f


def parafac_data(n: int) -> Arrays:
    random = generator(n)
    return *(random.normal(size=(n, RANK)) for _ in range(3)), random.normal(size=(n, n, n))


def parafac_core(A: np.ndarray, B: np.ndarray, C: np.ndarray, T: np.ndarray) -> np.ndarray:
    return (B.T @ B) * (C.T @ C)


def parafac_hessian(A: np.ndarray, B: np.ndarray, C: np.ndarray, T: np.ndarray) -> np.ndarray:
    return block_diagonal(parafac_core(A, B, C, T), len(A))


def composed(xp: Any) -> Any:
    def f(x: Any, A: Any, B: Any) -> Any:
        return B @ xp.tanh(xp.sin(A @ x))

    return f


def composed_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=n), random.normal(size=(n, n)), random.normal(size=(n, n))


def composed_jacobian(x: np.ndarray, A: np.ndarray, B: np.ndarray, xp: Any = np) -> np.ndarray:
    z = A @ x
    y = xp.tanh(xp.sin(z))
    return (B * ((1 - y * y) * xp.cos(z))) @ A


def newton(xp: Any) -> Any:
    return factorisation(xp)


def newton_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=(n, 10)), random.normal(size=(n, 10)), random.normal(size=(n, n))


def newton_dense(U: np.ndarray, V: np.ndarray, T: np.ndarray) -> np.ndarray:
    dense = block_diagonal(factorisation_core(U, V, T), len(U)).reshape(U.size, U.size)
    gradient = -2 * ((T - U @ V.T) @ V)
    return np.linalg.solve(dense, gradient.ravel()).reshape(U.shape)


def newton_kept(U: np.ndarray, V: np.ndarray, T: np.ndarray, xp: Any = np) -> np.ndarray:
    gradient = -2 * ((T - U @ V.T) @ V)
    return xp.linalg.solve(factorisation_core(U, V, T), gradient.T).T


PROBLEMS = [
    Problem(
        "log-determinant",
        STRUCTURE,
        "hessian",
        log_determinant,
        log_determinant_data,
        Sizes(4, (10, 30, 60, 400), (10, 30, 60, 90, 400, 1000)),
        lambda n: n * n,
        closed=log_determinant_hessian,
        kept=log_determinant_kept,
        product=log_determinant_product,
    ),
    Problem(
        "Gaussian-process likelihood",
        STRUCTURE,
        "hessian",
        gaussian_process,
        gaussian_process_data,
        Sizes(5, (100, 200, 400), (100, 200, 400, 1000)),
        lambda n: n * n,
        closed=gaussian_process_hessian,
        left_out={"torch.func.hessian compiled": CRASHES},
    ),
    Problem(
        "third derivative of a Poisson model",
        STRUCTURE,
        "third",
        poisson,
        poisson_data,
        Sizes(4, (20, 50, 100, 1000), (20, 50, 100, 200, 1000, 3000)),
        lambda n: n * n,
        closed=poisson_third,
        kept=poisson_kept,
        product=poisson_product,
        left_out={"torch jacfwd(hessian) compiled": CRASHES},
    ),
    Problem(
        "PARAFAC by A",
        STRUCTURE,
        "hessian",
        parafac,
        parafac_data,
        Sizes(40, (20, 40, 80, 300), (20, 40, 80, 160, 300)),
        lambda n: n**3,
        closed=parafac_hessian,
        kept=parafac_core,
        product=lambda kept, v, *arguments: v @ kept,
    ),
    Problem(
        "B g(h(A x))",
        STRUCTURE,
        "jacobian",
        composed,
        composed_data,
        Sizes(5, (200, 500, 1000), (200, 500, 1000, 2000)),
        lambda n: n,
        closed=composed_jacobian,
        kept=composed_jacobian,
        product=lambda kept, v, *arguments: kept @ v,
    ),
    Problem(
        "Newton step of a factorisation, k = 10",
        STRUCTURE,
        "newton",
        newton,
        newton_data,
        Sizes(12, (50, 200, 1000), (50, 100, 200, 1000)),
        lambda n: n * n,
        closed=newton_dense,
        kept=newton_kept,
    ),
]
