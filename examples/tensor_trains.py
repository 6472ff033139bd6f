"""Three problems whose unknown is a tensor train, solved on the manifold of trains of fixed rank.

Run it with `python examples/tensor_trains.py [FOLDER]`; it draws a plot of each into the folder.

- The ground state of a Heisenberg chain of spins: the minimum of a Rayleigh quotient.
- The equation -Δu + u = f on a cube in five dimensions: preconditioned steps, which are no gradients.
- Exponential machines: a classifier with a weight for each combination of categories.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import hesse
from hesse import tt


class Curve(NamedTuple):
    """What an example shows: errors step by step, for each method."""

    name: str
    title: str
    errors: dict[str, list[float]]


def chain(terms: Sequence[Sequence[np.ndarray]]) -> tt.TTMatrix:
    """The sum of products of matrices, one for each position."""
    total = tt.TTMatrix([matrix[None, :, :, None] for matrix in terms[0]])
    for term in terms[1:]:
        total = total + tt.TTMatrix([matrix[None, :, :, None] for matrix in term])
    return total


def heisenberg(sites: int) -> tt.TTMatrix:
    """The sum over neighbours of Sx Sx + Sy Sy + Sz Sz, which is real: a chain of rank 5."""
    up, z, one = np.array([[0.0, 1.0], [0.0, 0.0]]), np.diag([0.5, -0.5]), np.eye(2)
    middle = np.zeros((5, 2, 2, 5))
    for k, (left, right) in enumerate([(up, 0.5 * up.T), (up.T, 0.5 * up), (z, z)], start=1):
        middle[0, :, :, k], middle[k, :, :, 4] = left, right
    middle[0, :, :, 0] = middle[4, :, :, 4] = one
    return tt.TTMatrix([middle[:1], *[middle] * (sites - 2), middle[..., 4:]])


def ground_state(sites: int = 10, rank: int = 16, steps: int = 40) -> Curve:
    """The least energy, compared with that of the dense matrix.

    Of ten spins in an open chain it is -4.258035207 (exact diagonalisation, and any course on DMRG).
    """
    H = heisenberg(sites)
    wanted = float(np.linalg.eigvalsh(H.dense())[0])
    start = tt.random((2,) * sites, [min(rank, 2 ** min(k, sites - k)) for k in range(1, sites)], rng=0)
    errors = {}
    for method in ("cg", "trust-region"):
        result = hesse.solvers.minimize(
            lambda X: tt.dot(H @ X, X) / tt.dot(X, X), start, method=method, steps=steps, tol=1e-10
        )
        errors[method] = [abs(step.value - wanted) for step in result.history]
        print(f"{method}: energy {result.value:.9f}, exactly {wanted:.9f}")
    return Curve("ground-state", f"ground state of {sites} spins, rank {rank}", errors)


def poisson(axes: int = 5, size: int = 16, rank: int = 4, steps: int = 40) -> Curve:
    """Steps along the projected residual, with and without a preconditioner: an exponential sum for 1/x.

    The solution is known: A is diagonal in the vectors of one axis. What is left is the error of the rank.
    """
    second = (2.0 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1)) * (size + 1) ** 2
    one = np.eye(size)
    A = chain([[second if j == k else one for j in range(axes)] for k in range(axes)]) + tt.eye(
        (size,) * axes
    )
    values, vectors = np.linalg.eigh(second + one / axes)
    nodes = np.arange(-12, 13) * 0.5
    least = axes * float(values[0])
    B = chain(  # the inverse of x is the integral of exp(-t x) over t
        [
            [(0.5 * t) ** (1.0 / axes) * (vectors * np.exp(-t * values)) @ vectors.T for _ in range(axes)]
            for t in np.exp(nodes) / least
        ]
    )
    grid = np.linspace(0.0, 1.0, size + 2)[1:-1]
    F = tt.rank_one([np.exp(grid)] * axes)
    solution = F.dense()
    for _ in range(axes):  # each time the first axis is transformed, and becomes the last
        solution = np.tensordot(solution, vectors, (0, 0))
    solution /= sum(np.meshgrid(*[values] * axes, indexing="ij", sparse=True))
    for _ in range(axes):
        solution = np.tensordot(solution, vectors, (0, 1))
    M = hesse.manifolds.TensorTrains((size,) * axes, rank)
    errors = {}
    for name, operator, length in (
        ("with preconditioner", B, 1.0),
        ("without", tt.eye((size,) * axes), 1.0 / (axes * float(values[-1]))),
    ):
        residual = hesse.manifolds.project_residual(A, operator, F)
        X = M.random_point(0) * 1e-6
        history = []
        for _ in range(steps):
            step = residual(X)
            X = M.retract(X, step * -length)
            history.append(float(np.linalg.norm(X.dense() - solution) / np.linalg.norm(solution)))
        errors[name] = history
    return Curve("linear-system", f"-Δu + u = f in {axes} dimensions, rank {rank}", errors)


def exponential_machine(
    samples: int = 1000, features: int = 6, categories: int = 3, steps: int = 60
) -> Curve:
    """A class that depends on pairs of features: no linear model of the categories finds it.

    Each feature is a vector with a 1 for the category and a 1 that stands for all of them, so that there is
    a weight for each combination of some of the features.
    """
    rng = np.random.default_rng(0)
    data = rng.integers(0, categories, (2 * samples, features))
    truth = np.where((data[:, 0] == data[:, 1]) ^ (data[:, 2] == data[:, 3]), 1.0, -1.0)
    train, test = slice(0, samples), slice(samples, None)
    coded = [np.column_stack([np.ones(2 * samples), np.eye(categories)[data[:, k]]]) for k in range(features)]
    known, new = (tt.rank_one([column[part] for column in coded]) for part in (train, test))

    def loss(X):
        return np.sum(np.log(1.0 + np.exp(-truth[train] * tt.dot(known, X)))) / samples + 1e-3 * tt.dot(X, X)

    wrong = []

    def watch(X, step):
        wrong.append(float(np.mean(truth[test] * tt.dot(new, X) <= 0.0)))

    start = tt.random((categories + 1,) * features, rank=4, rng=1)
    result = hesse.solvers.minimize(loss, start, method="cg", steps=steps, callback=watch)
    losses = [step.value for step in result.history[1:]]
    found = {"loss": losses, "wrong on new data": wrong}
    return Curve("exponential-machine", f"exponential machine, {features} features", found)


def drawn(curve: Curve) -> Figure:
    """A plot of how the errors fall."""
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    ax = figure.subplots()
    for name, values in curve.errors.items():
        ax.semilogy(np.maximum(values, 1e-16), label=name)
    ax.set_title(curve.title)
    ax.set_xlabel("step")
    ax.set_ylabel("error" if "loss" not in curve.errors else "")
    ax.legend()
    return figure


def main(small: bool = False, folder: Path | None = None) -> list[Curve]:
    """Solve all problems, and draw how."""
    if small:
        curves = [ground_state(6, 4, 15), poisson(3, 8, 3, 12), exponential_machine(300, 4, 3, 30)]
    else:
        curves = [ground_state(), poisson(), exponential_machine()]
    for curve in curves:
        for name, values in curve.errors.items():
            print(f"{curve.title}: {name} {values[0]:.2e} -> {values[-1]:.2e} in {len(values)} steps")
        if folder is not None:
            drawn(curve).savefig(folder / f"{curve.name}.svg", metadata={"Date": None})
    return curves


if __name__ == "__main__":
    main(folder=Path(sys.argv[1] if len(sys.argv) > 1 else "."))
