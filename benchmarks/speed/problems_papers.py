"""The four problems of the papers, as Hessians and as value with gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.speed.problem import PAPERS, Arrays, Problem, Sizes, generator

LAYERS = 10


def quadratic(xp: Any) -> Any:
    def f(x: Any, A: Any) -> Any:
        return x @ A @ x

    return f


def quadratic_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=n), random.normal(size=(n, n))


def quadratic_hessian(x: np.ndarray, A: np.ndarray) -> np.ndarray:
    return A + A.T


def quadratic_gradient(x: np.ndarray, A: np.ndarray, xp: Any = np) -> Arrays:
    left = x @ A
    return xp.dot(left, x), left + A @ x


def logistic(xp: Any) -> Any:
    def f(w: Any, X: Any, y: Any) -> Any:
        return xp.sum(xp.log1p(xp.exp(-y * (X @ w))))

    return f


def logistic_data(n: int) -> Arrays:
    random = generator(n)
    X = random.normal(size=(2 * n, n)) / np.sqrt(n)
    return random.normal(size=n), X, np.sign(random.normal(size=2 * n))


def logistic_hessian(w: np.ndarray, X: np.ndarray, y: np.ndarray, xp: Any = np) -> np.ndarray:
    p = 1 / (1 + xp.exp(y * (X @ w)))
    return X.T @ ((p * (1 - p))[:, None] * X)


def logistic_gradient(w: np.ndarray, X: np.ndarray, y: np.ndarray, xp: Any = np) -> Arrays:
    e = xp.exp(-y * (X @ w))
    return xp.sum(xp.log1p(e)), -((y * e / (1 + e)) @ X)


def factorisation(xp: Any) -> Any:
    def f(U: Any, V: Any, T: Any) -> Any:
        return xp.sum((T - U @ V.T) ** 2)

    return f


def factorisation_data(n: int, k: int) -> Arrays:
    random = generator(n)
    return random.normal(size=(n, k)), random.normal(size=(n, k)), random.normal(size=(n, n))


def factorisation_core(U: np.ndarray, V: np.ndarray, T: np.ndarray) -> np.ndarray:
    return 2 * (V.T @ V)


def block_diagonal(blocks: np.ndarray, n: int) -> np.ndarray:
    """`H[i, :, i, :] = blocks[i]` (or the same block everywhere)."""
    k = blocks.shape[-1]
    dense = np.zeros((n, k, n, k))
    at = np.arange(n)
    dense[at, :, at, :] = blocks
    return dense


def factorisation_hessian(U: np.ndarray, V: np.ndarray, T: np.ndarray) -> np.ndarray:
    return block_diagonal(factorisation_core(U, V, T), len(U))


def factorisation_gradient(U: np.ndarray, V: np.ndarray, T: np.ndarray, xp: Any = np) -> Arrays:
    residual = T - U @ V.T
    return xp.vdot(residual, residual), -2 * (residual @ V)


def masked(xp: Any) -> Any:
    def f(U: Any, V: Any, T: Any, M: Any) -> Any:
        return xp.sum(M * (T - U @ V.T) ** 2)

    return f


def masked_data(n: int, k: int) -> Arrays:
    mask = (generator(n + 1).random((n, n)) < 0.3).astype(float)
    return *factorisation_data(n, k), mask


def masked_core(U: np.ndarray, V: np.ndarray, T: np.ndarray, M: np.ndarray) -> np.ndarray:
    n, k = V.shape
    pairs = (V[:, :, None] * (2 * V)[:, None, :]).reshape(n, k * k)
    return (M @ pairs).reshape(len(U), k, k)


def masked_hessian(U: np.ndarray, V: np.ndarray, T: np.ndarray, M: np.ndarray) -> np.ndarray:
    return block_diagonal(masked_core(U, V, T, M), len(U))


def masked_gradient(U: np.ndarray, V: np.ndarray, T: np.ndarray, M: np.ndarray, xp: Any = np) -> Arrays:
    residual = T - U @ V.T
    weighted = M * residual
    return xp.vdot(weighted, residual), -2 * (weighted @ V)


def network(xp: Any) -> Any:
    def f(W: Any, x: Any, others: Any, y: Any) -> Any:
        z = W @ x
        for k in range(LAYERS - 1):
            z = others[k] @ xp.where(z > 0, z, 0.0)
        return xp.log(xp.sum(xp.exp(z))) - y @ z

    return f


def network_data(n: int) -> Arrays:
    random = generator(n)
    others = random.normal(size=(LAYERS - 1, n, n)) * np.sqrt(2 / n)
    W = random.normal(size=(n, n)) / np.sqrt(n)
    return W, random.normal(size=n), others, np.eye(n)[0]


def _network_forward(W: np.ndarray, x: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    z, active = W @ x, []
    for matrix in others:
        active.append(z > 0)
        z = matrix @ (z * active[-1])
    return z, active


def network_factors(W: np.ndarray, x: np.ndarray, others: np.ndarray, y: np.ndarray, xp: Any = np) -> Arrays:
    z, active = _network_forward(W, x, others)
    jacobian = others[-1] * active[-1]
    for matrix, mask in zip(list(others)[-2::-1], active[-2::-1], strict=True):
        jacobian = (jacobian @ matrix) * mask
    e = xp.exp(z)
    p = e / e.sum()
    mean = p @ jacobian
    return (jacobian.T * p) @ jacobian - xp.outer(mean, mean), x


def network_hessian(
    W: np.ndarray, x: np.ndarray, others: np.ndarray, y: np.ndarray, xp: Any = np
) -> np.ndarray:
    core, x = network_factors(W, x, others, y, xp)
    return core[:, None, :, None] * (x[:, None] * x)[:, None, :]


def network_gradient(W: np.ndarray, x: np.ndarray, others: np.ndarray, y: np.ndarray, xp: Any = np) -> Arrays:
    z, active = _network_forward(W, x, others)
    e = xp.exp(z)
    total = e.sum()
    back = e / total - y
    for matrix, mask in zip(list(others)[::-1], active[::-1], strict=True):
        back = (back @ matrix) * mask
    return xp.log(total) - y @ z, xp.outer(back, x)


def _itself(kept: np.ndarray, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    return kept @ v


def _same_block(kept: np.ndarray, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    return v @ kept


def _blocks(kept: np.ndarray, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    return np.matmul(kept, v[:, :, None])[:, :, 0]


def _network_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    core, x = kept
    return np.outer(core @ (v @ x), x)


def _factorisations(k: int) -> list[Problem]:
    sizes = {
        5: Sizes(6, (100, 300, 1000, 4000), (100, 300, 1000, 2000, 5000)),
        20: Sizes(6, (50, 150, 250, 3000), (100, 250, 500, 2000, 5000)),
    }[k]
    return [
        Problem(
            f"factorisation, k = {k}",
            PAPERS,
            "hessian",
            factorisation,
            partial(factorisation_data, k=k),
            sizes,
            lambda n: n * n,
            closed=factorisation_hessian,
            kept=factorisation_core,
            product=_same_block,
        ),
        Problem(
            f"masked factorisation, k = {k}",
            PAPERS,
            "hessian",
            masked,
            partial(masked_data, k=k),
            sizes,
            lambda n: n * n,
            closed=masked_hessian,
            kept=masked_core,
            product=_blocks,
        ),
    ]


_GRADIENT_SIZES = Sizes(6, (300, 1000), (300, 1000, 3000))

PROBLEMS = [
    Problem(
        "quadratic",
        PAPERS,
        "hessian",
        quadratic,
        quadratic_data,
        Sizes(6, (300, 1000, 3000), (300, 1000, 3000, 6000)),
        lambda n: n,
        closed=quadratic_hessian,
        kept=quadratic_hessian,
        product=_itself,
    ),
    Problem(
        "logistic regression",
        PAPERS,
        "hessian",
        logistic,
        logistic_data,
        Sizes(6, (100, 300, 1000), (100, 300, 1000, 2000)),
        lambda n: 2 * n,
        closed=logistic_hessian,
        kept=logistic_hessian,
        product=_itself,
    ),
    *_factorisations(5),
    *_factorisations(20),
    Problem(
        "ten-layer ReLU net, first layer",
        PAPERS,
        "hessian",
        network,
        network_data,
        Sizes(4, (16, 32, 64, 400), (16, 32, 64, 90, 400, 1000)),
        lambda n: n * n,
        closed=network_hessian,
        kept=network_factors,
        product=_network_product,
    ),
    Problem(
        "quadratic, value and gradient",
        PAPERS,
        "value_and_grad",
        quadratic,
        quadratic_data,
        _GRADIENT_SIZES,
        lambda n: n,
        closed=quadratic_gradient,
    ),
    Problem(
        "logistic regression, value and gradient",
        PAPERS,
        "value_and_grad",
        logistic,
        logistic_data,
        _GRADIENT_SIZES,
        lambda n: n,
        closed=logistic_gradient,
    ),
    Problem(
        "factorisation, k = 20, value and gradient",
        PAPERS,
        "value_and_grad",
        factorisation,
        partial(factorisation_data, k=20),
        _GRADIENT_SIZES,
        lambda n: n,
        closed=factorisation_gradient,
    ),
    Problem(
        "masked factorisation, k = 20, value and gradient",
        PAPERS,
        "value_and_grad",
        masked,
        partial(masked_data, k=20),
        _GRADIENT_SIZES,
        lambda n: n,
        closed=masked_gradient,
    ),
    Problem(
        "ten-layer ReLU net, value and gradient",
        PAPERS,
        "value_and_grad",
        network,
        network_data,
        Sizes(4, (100, 300, 1000), (100, 300, 1000)),
        lambda n: n,
        closed=network_gradient,
    ),
]
