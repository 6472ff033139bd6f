"""`python -m benchmarks.trains [small] [medium] [large]`: Riemannian derivatives of tensor trains.

The five functions of Novikov, Rakhuba and Oseledets (section 7.1), beside their method, which doubles ranks,
in jitted JAX; and completion of large matrices beside sparse matrices of SciPy. All candidates are compared
before they are timed. Times are the least of several calls, each at a new point, frames included (for
Hessian products: at a known point). Memory is the growth of the peak of the process.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse

import hesse
from hesse import tt
from hesse.manifolds.derivatives import Objective
from hesse.tt.point import point_of

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
ROUNDS = 7
TOLERANCE = 1e-9


class Case(NamedTuple):
    """A function of a train, the same function of dense-free cores for JAX (None: too large), and a point."""

    name: str
    function: Callable[[Any], Any]
    of_cores: Callable[[Any], Any] | None
    point: tt.TensorTrain


def form(*chains: Any) -> Any:
    """⟨A1 … Am X, Y⟩ of cores in JAX: the operators from the left, X and Y last."""
    *operators, x, y = chains
    letters = "ABCDEFG"[: len(operators) + 1]
    axes = "ijklmno"
    labels = []
    for k in range(len(operators)):
        labels.append(f"{letters[k]}{axes[k]}{axes[k + 1]}{letters[k].lower()}")
    labels += [f"X{axes[len(operators)]}x", f"Y{axes[0]}y"]
    left = letters[: len(operators)] + "XY"
    pattern = f"{left},{','.join(labels)}->{left.lower()}"
    environment = jnp.ones((1,) * (len(operators) + 2))
    for operands in zip(*operators, x, y, strict=True):
        environment = jnp.einsum(pattern, environment, *operands, optimize="optimal")
    return environment.reshape(())


def words_of(words: tt.TensorTrain, cores: Any) -> Any:
    """⟨W, X⟩ for a batch of products of vectors."""
    rows = jnp.ones((words.batch, 1))
    for word, core in zip(words.cores, cores, strict=True):
        rows = jnp.einsum("sa,aib,si->sb", rows, core, jnp.asarray(word[:, 0, :, 0]))
    return rows[:, 0]


def entries_of(cores: Any, where: Any) -> Any:
    """The entries of a train, with cores gathered for all samples."""
    rows = cores[0][0][where[0]]
    for core, column in zip(cores[1:], where[1:], strict=True):
        rows = jnp.einsum("sa,asb->sb", rows, core[:, column])
    return rows[:, 0]


def cases(size: str) -> list[Case]:
    """The functions of the paper at the sizes of its table 1."""
    rng = np.random.default_rng(0)
    rank, half, gram, short = {"small": (10, 5, 5, 5), "medium": (20, 10, 10, 10), "large": (20, 10, 20, 20)}[
        size
    ]
    M = tt.random_matrix(((20, 20),) * 40, half, rng=1)
    A, B = M + M.T, tt.random_matrix(((20, 20),) * 10, gram, rng=2)
    long, middle = tt.random((20,) * 40, rank, rng=3), tt.random((20,) * 10, rank, rng=4)
    small = tt.random((20,) * 10, short, rng=5)
    count = 10 * 10 * 20 * short**2
    where = tuple(rng.integers(0, 20, (10, count)))
    values = rng.standard_normal(count)
    words = tt.rank_one([rng.standard_normal((32, 500)) for _ in range(10)])
    labels = np.sign(rng.standard_normal(32))
    wide = tt.random((500,) * 10, short, rng=6)
    a, b = ([jnp.asarray(core) for core in operator.cores] for operator in (A, B))
    bt = [jnp.asarray(core) for core in B.T.cores]
    scale = 1e20  # forms of random trains are tiny
    return [
        Case("⟨AX,X⟩", lambda X: scale * tt.dot(A @ X, X), lambda x: scale * form(a, x, x), long),
        Case("⟨AX,AX⟩", lambda X: tt.dot(B @ X, B @ X), lambda x: form(bt, b, x, x), middle),
        Case(
            "Rayleigh",
            lambda X: scale * tt.dot(A @ X, X) / tt.dot(X, X),
            lambda x: scale * form(a, x, x) / form(x, x),
            long,
        ),
        Case(
            f"completion, {count} entries",
            lambda X: ((tt.gather(X, where) - values) ** 2).sum(),
            (lambda x: ((entries_of(x, where) - values) ** 2).sum()) if size == "small" else None,
            small,
        ),
        Case(
            "exponential machine",
            lambda X: np.sum(np.log(1.0 + np.exp(-labels * tt.dot(words, X)))),
            lambda x: jnp.sum(jnp.log(1.0 + jnp.exp(-labels * words_of(words, x)))),
            wide,
        ),
    ]


def doubled(deltas: Any, left: Any, right: Any) -> list[Any]:
    """The cores of the paper, of doubled ranks."""
    cores, last = [], len(deltas) - 1
    for k, (d, u, v) in enumerate(zip(deltas, left, right, strict=True)):
        if k == 0:
            cores.append(jnp.concatenate([u, d], -1))
        elif k == last:
            cores.append(jnp.concatenate([d, v], 0))
        else:
            upper, lower = (
                jnp.concatenate([u, d], -1),
                jnp.concatenate([jnp.zeros((*v.shape[:-1], u.shape[-1])), v], -1),
            )
            cores.append(jnp.concatenate([upper, lower], 0))
    return cores


class Doubled:
    """The gradient and the Hessian product of the paper, in jitted JAX."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        def value(deltas: Any, left: Any, right: Any) -> Any:
            return function(doubled(deltas, left, right))

        self.gradient = jax.jit(jax.grad(value))
        self.product = jax.jit(
            lambda deltas, left, right, along: jax.jvp(
                lambda d: jax.grad(value)(d, left, right), (deltas,), (along,)
            )[1]
        )

    @staticmethod
    def arguments(X: tt.TensorTrain) -> Any:
        point = point_of(X)
        deltas = [core * 0.0 for core in point.left.cores]
        deltas[-1] = point.centre(len(deltas) - 1)
        return deltas, list(point.left.cores), list(point.right.cores)


def least(call: Callable[[], Any]) -> float:
    """The least time of some calls."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return min(times)


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(case: Case) -> list[str]:
    """A row of the table."""
    objective, X = Objective(case.function), case.point
    before = peak()
    start = time.perf_counter()
    gradient = objective.value_and_grad(X)[1]
    first = time.perf_counter() - start
    product = objective.hvp(X, gradient)
    fresh = lambda: tt.TensorTrain(X.cores)  # noqa: E731
    value, grad = least(lambda: objective.value(fresh())), least(lambda: objective.value_and_grad(fresh())[0])
    directions = iter([gradient * float(k + 2) for k in range(ROUNDS)])
    hessian = least(lambda: objective.hvp(X, next(directions)).deltas[0])
    row = [
        case.name,
        f"{first:.2f}",
        f"{value:.4f}",
        f"{grad:.4f}",
        f"{hessian:.4f}",
        f"{peak() - before:.0f}",
    ]
    if case.of_cores is None:
        return [*row, "–", "–"]
    peer, arguments = Doubled(case.of_cores), Doubled.arguments(X)
    along = list(gradient.deltas)
    point = point_of(X)
    for mine, others in (
        (gradient, peer.gradient(*arguments)),
        (product, peer.product(*arguments, along)),
    ):
        other = point.gauged([np.asarray(delta) for delta in others])
        error = max(float(np.abs(x - y).max()) for x, y in zip(mine.deltas, other, strict=True))
        size = max(float(np.abs(x).max()) for x in mine.deltas)
        assert error <= TOLERANCE * size, (case.name, error, size)
    theirs = least(lambda: peer.gradient(*Doubled.arguments(fresh())))
    return [*row, f"{theirs:.4f}", f"{least(lambda: peer.product(*arguments, along)):.4f}"]


def matrices(size: int, rank: int = 10) -> list[str]:
    """Completion of a matrix: gradient, transport and retraction beside sparse matrices of SciPy."""
    rng = np.random.default_rng(0)
    M = hesse.manifolds.FixedRankMatrices(size, size, rank)
    X = M.random_point(0)
    rows, columns = rng.integers(0, size, (2, 3 * M.dimension))
    values = rng.standard_normal(len(rows))
    objective = Objective(lambda X: ((X.gather(rows, columns) - values) ** 2).sum())
    before = peak()
    gradient = objective.value_and_grad(X)[1]
    Y = M.retract(X, gradient * -1e-3)
    times = [
        least(lambda: objective.value_and_grad(tt.TensorTrain(X.cores))[0]),
        least(lambda: M.transport(X, Y, gradient).deltas[0]),
        least(lambda: M.retract(X, gradient).cores[0]),
    ]
    growth = peak() - before

    def by_scipy() -> Any:
        point = point_of(tt.TensorTrain(X.cores))
        left, right = point.left.cores[0][0], point.right.cores[1][:, :, 0].T
        centre = point.right.cores[0][0]
        residual = np.einsum("sa,sa->s", centre[rows], right[columns]) - values
        sparse = scipy.sparse.csr_matrix((2.0 * residual, (rows, columns)), (size, size))
        first = sparse @ right
        return first - left @ (left.T @ first), (sparse.T @ left).T

    found = by_scipy()
    assert np.allclose(found[0], gradient.deltas[0][0]) and np.allclose(found[1], gradient.deltas[1][:, :, 0])
    theirs = least(lambda: by_scipy()[0])
    return [
        f"{size} × {size}, {len(rows)} entries",
        *(f"{t:.4f}" for t in times),
        f"{growth:.0f}",
        f"{theirs:.4f}",
    ]


def main(sizes: list[str]) -> None:
    """Measure and print tables."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}, JAX {jax.__version__}\n")
    for size in sizes:
        print(f"## {size}\n")
        print("| function | first call | f | gradient | Hessian product | MB | doubled: gradient | product |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for case in cases(size):
            print("|", " | ".join(measured(case)), "|", flush=True)
        print()
    print("| matrix | gradient | transport | retraction | MB | SciPy: gradient |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for count in (10_000, 100_000) if "medium" in sizes else (10_000,):
        print("|", " | ".join(matrices(count)), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["small"])
