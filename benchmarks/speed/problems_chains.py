"""Chains and stencils: Hessians with a few bands, at sizes where nothing dense fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.speed.problem import CHAINS, Arrays, Problem, Sizes, generator

STATES, CONTROLS = 4, 2
STEP, PENALTY = 0.1, 10.0

_SIZES = Sizes(6, (300, 3000, 100_000), (300, 3000, 100_000, 1_000_000))


def rosenbrock(xp: Any) -> Any:
    def f(x: Any) -> Any:
        return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return f


def chain_data(n: int) -> Arrays:
    return (generator(n).normal(size=n),)


def rosenbrock_bands(x: np.ndarray) -> Arrays:
    diagonal = np.zeros_like(x)
    diagonal[:-1] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2
    diagonal[1:] += 200.0
    return diagonal, -400.0 * x[:-1]


def tridiagonal(diagonal: np.ndarray, off: np.ndarray) -> np.ndarray:
    """The dense symmetric matrix of two bands."""
    n = len(diagonal)
    dense = np.zeros((n, n))
    dense.flat[:: n + 1] = diagonal
    dense.flat[1 :: n + 1] = off
    dense.flat[n :: n + 1] = off
    return dense


def bands_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    diagonal, off = kept
    result = diagonal * v
    result[:-1] += off * v[1:]
    result[1:] += off * v[:-1]
    return result


def rod(xp: Any) -> Any:
    """The energy of a rod under tension with a reaction: sqrt of strains and exp of values."""

    def f(u: Any) -> Any:
        n = u.shape[0]
        strain = (u[1:] - u[:-1]) * (n + 1)
        return (xp.sum(xp.sqrt(1 + strain * strain)) - xp.sum(xp.exp(u))) / (n + 1)

    return f


def rod_data(n: int) -> Arrays:
    t = np.linspace(0, 1, n)
    return (np.sin(3 * t) + 0.1 * np.cos(11 * t),)


def rod_bands(u: np.ndarray) -> Arrays:
    n = len(u)
    strain = (u[1:] - u[:-1]) * (n + 1)
    root = 1 + strain * strain
    curvature = (n + 1) / (root * np.sqrt(root))
    diagonal = np.exp(u) / -(n + 1)
    diagonal[1:] += curvature
    diagonal[:-1] += curvature
    return diagonal, -curvature


def surface(xp: Any) -> Any:
    """The area of a surface over a square grid, with a load."""

    def f(u: Any) -> Any:
        n = u.shape[0]
        a = (u[1:, :-1] - u[:-1, :-1]) * n
        b = (u[:-1, 1:] - u[:-1, :-1]) * n
        return (xp.sum(xp.sqrt(1 + a * a + b * b)) + xp.sum(u**4)) / n**2

    return f


def surface_data(n: int) -> Arrays:
    t = np.linspace(0, 1, n)
    return (np.sin(3 * t)[:, None] * np.cos(2 * t) + 0.1 * t,)


def surface_bands(u: np.ndarray) -> Arrays:
    """Diagonal, and couplings down, right and across the other diagonal."""
    n = len(u)
    a = (u[1:, :-1] - u[:-1, :-1]) * n
    b = (u[:-1, 1:] - u[:-1, :-1]) * n
    root = 1 + a * a + b * b
    cube = 1 / (root * np.sqrt(root))
    aa, bb, ab = (1 + b * b) * cube, (1 + a * a) * cube, -a * b * cube
    down, right = aa + ab, bb + ab
    diagonal = u * u * (12 / n**2)
    diagonal[:-1, :-1] += down + right
    diagonal[1:, :-1] += aa
    diagonal[:-1, 1:] += bb
    return diagonal, -down, -right, ab


def surface_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    diagonal, down, right, across = kept
    result = diagonal * v
    corner, below, beside = v[:-1, :-1], v[1:, :-1], v[:-1, 1:]
    result[:-1, :-1] += down * below + right * beside
    result[1:, :-1] += down * corner + across * beside
    result[:-1, 1:] += right * corner + across * below
    return result


def surface_hessian(u: np.ndarray) -> np.ndarray:
    n = len(u)
    diagonal, down, right, across = surface_bands(u)
    dense = np.zeros((n, n, n, n))
    i, j = np.ogrid[:n, :n]
    dense[i, j, i, j] = diagonal
    i, j = np.ogrid[: n - 1, : n - 1]
    for band, first, second in (
        (down, (i, j), (i + 1, j)),
        (right, (i, j), (i, j + 1)),
        (across, (i + 1, j), (i, j + 1)),
    ):
        dense[*first, *second] = band
        dense[*second, *first] = band
    return dense


def control(xp: Any) -> Any:
    """Stages of states and controls: quadratic costs, and a penalty on defects of the dynamics."""

    def f(Z: Any, A: Any, B: Any) -> Any:
        x, u = Z[:, :STATES], Z[:, STATES:]
        moved = x[:-1] + STEP * (xp.tanh(x[:-1]) @ A.T + u[:-1] @ B.T)
        defect = x[1:] - moved
        return 0.5 * (xp.sum(x * x) + 0.1 * xp.sum(u * u) + PENALTY * xp.sum(defect * defect))

    return f


def control_data(n: int) -> Arrays:
    random = generator(n)
    return (
        random.normal(size=(n, STATES + CONTROLS)),
        random.normal(size=(STATES, STATES)),
        random.normal(size=(STATES, CONTROLS)),
    )


def control_blocks(Z: np.ndarray, A: np.ndarray, B: np.ndarray) -> Arrays:
    """Diagonal blocks and the blocks above them."""
    x, u = Z[:, :STATES], Z[:, STATES:]
    y = np.tanh(x[:-1])
    slope = 1 - y * y
    defect = x[1:] - x[:-1] - STEP * (y @ A.T + u[:-1] @ B.T)
    jacobian = np.empty((len(Z) - 1, STATES, STATES + CONTROLS))
    jacobian[:, :, :STATES] = -STEP * A * slope[:, None, :] - np.eye(STATES)
    jacobian[:, :, STATES:] = -STEP * B
    diagonal = np.zeros((len(Z), STATES + CONTROLS, STATES + CONTROLS))
    np.matmul(PENALTY * jacobian.transpose(0, 2, 1), jacobian, out=diagonal[:-1])
    states, controls = np.arange(STATES), np.arange(STATES, STATES + CONTROLS)
    diagonal[:-1, states, states] += (2 * PENALTY * STEP) * (defect @ A) * y * slope
    diagonal[1:, states, states] += PENALTY
    diagonal[:, states, states] += 1
    diagonal[:, controls, controls] += 0.1
    return diagonal, PENALTY * jacobian.transpose(0, 2, 1)


def control_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    diagonal, above = kept
    result = np.matmul(diagonal, v[:, :, None])[:, :, 0]
    result[:-1] += np.matmul(above, v[1:, :STATES, None])[:, :, 0]
    result[1:, :STATES] += np.matmul(above.transpose(0, 2, 1), v[:-1, :, None])[:, :, 0]
    return result


def control_hessian(Z: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    n, width = Z.shape
    diagonal, above = control_blocks(Z, A, B)
    dense = np.zeros((n, width, n, width))
    at = np.arange(n)
    dense[at, :, at, :] = diagonal
    dense[at[:-1], :, at[1:], :STATES] = above
    dense[at[1:], :STATES, at[:-1], :] = above.transpose(0, 2, 1)
    return dense


PROBLEMS = [
    Problem(
        "Rosenbrock chain",
        CHAINS,
        "hessian",
        rosenbrock,
        chain_data,
        _SIZES,
        lambda n: n,
        closed=lambda x: tridiagonal(*rosenbrock_bands(x)),
        kept=rosenbrock_bands,
        product=bands_product,
        is_sparse=True,
    ),
    Problem(
        "rod energy (1-d)",
        CHAINS,
        "hessian",
        rod,
        rod_data,
        _SIZES,
        lambda n: n,
        closed=lambda u: tridiagonal(*rod_bands(u)),
        kept=rod_bands,
        product=bands_product,
        is_sparse=True,
    ),
    Problem(
        "surface energy (2-d)",
        CHAINS,
        "hessian",
        surface,
        surface_data,
        Sizes(4, (20, 50, 300), (20, 50, 300, 1000)),
        lambda n: n * n,
        closed=surface_hessian,
        kept=surface_bands,
        product=surface_product,
        is_sparse=True,
    ),
    Problem(
        "optimal control",
        CHAINS,
        "hessian",
        control,
        control_data,
        Sizes(4, (50, 500, 2000, 20_000), (50, 500, 2000, 20_000, 160_000)),
        lambda n: n * (STATES + CONTROLS),
        closed=control_hessian,
        kept=control_blocks,
        product=control_product,
        is_sparse=True,
    ),
]
