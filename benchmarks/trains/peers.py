"""What others compute: doubled ranks in jitted JAX (the method of the paper), ttax, SciPy and Pymanopt."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse

from benchmarks.trains.functions import Case
from hesse import tt
from hesse.tt.point import point_of

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy


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


def of_cores(case: Case, scale: float) -> Callable[[Any], Any]:
    """The function of a case as a function of cores in JAX."""
    data = case.data
    arrays = {name: [jnp.asarray(core) for core in data[name].cores] for name in ("A", "B") if name in data}
    if case.name == "⟨AX,X⟩":
        return lambda x: scale * form(arrays["A"], x, x)
    if case.name == "Rayleigh quotient":
        return lambda x: scale * form(arrays["A"], x, x) / form(x, x)
    if case.name == "⟨AᵀAX,X⟩":
        turned = [jnp.asarray(core) for core in data["B"].T.cores]
        return lambda x: form(turned, arrays["B"], x, x)
    if case.name == "completion":
        return lambda x: ((entries_of(x, data["where"]) - data["values"]) ** 2).sum()
    return lambda x: jnp.log(1.0 + jnp.exp(-data["labels"] * words_of(data["words"], x))).sum()


def doubled_cores(deltas: Any, left: Any, right: Any) -> list[Any]:
    """The cores of the paper, of doubled ranks."""
    cores, last = [], len(deltas) - 1
    for k, (d, u, v) in enumerate(zip(deltas, left, right, strict=True)):
        if k == 0:
            cores.append(jnp.concatenate([u, d], -1))
        elif k == last:
            cores.append(jnp.concatenate([d, v], 0))
        else:
            upper = jnp.concatenate([u, d], -1)
            lower = jnp.concatenate([jnp.zeros((*v.shape[:-1], u.shape[-1])), v], -1)
            cores.append(jnp.concatenate([upper, lower], 0))
    return cores


def frames(cores: Any) -> tuple[list[Any], list[Any], Any]:
    """Left and right orthogonal cores of a train, by QR decompositions, and its last core between them."""
    right, carried = [], jnp.ones((1, 1))
    for core in reversed(cores):
        turned = jnp.einsum("aib,bc->cia", core, carried)
        q, r = jnp.linalg.qr(turned.reshape(-1, turned.shape[-1]))
        right.insert(0, q.reshape(*turned.shape[:2], -1).transpose(2, 1, 0))
        carried = r.T
    left = []
    for core in right:
        turned = jnp.einsum("ca,aib->cib", carried, core)
        q, carried = jnp.linalg.qr(turned.reshape(-1, turned.shape[-1]))
        left.append(q.reshape(*turned.shape[:2], -1))
    return left, right, turned


def gauged(deltas: Any, left: Any) -> list[Any]:
    """Deltas that are orthogonal to the left frames, but for the last one."""

    def projected(delta: Any, frame: Any) -> Any:
        return delta - jnp.einsum("aib,cjb,cjd->aid", frame, frame, delta, optimize="optimal")

    return [*map(projected, deltas[:-1], left[:-1]), deltas[-1]]


class Doubled:
    """The gradient and the Hessian product of the paper, in jitted JAX."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        def value(deltas: Any, left: Any, right: Any) -> Any:
            return function(doubled_cores(deltas, left, right))

        def gradient(deltas: Any, left: Any, right: Any) -> Any:
            return gauged(jax.grad(value)(deltas, left, right), left)

        def of_train(cores: Any) -> Any:
            left, right, centre = frames(cores)
            return gradient([*(0.0 * core for core in left[:-1]), centre], left, right)

        self.gradient = jax.jit(gradient)
        self.gradient_of_train = jax.jit(of_train)
        self.product = jax.jit(
            lambda deltas, left, right, along: jax.jvp(
                lambda d: gradient(d, left, right), (deltas,), (along,)
            )[1]
        )

    @staticmethod
    def arguments(X: tt.TensorTrain) -> Any:
        """The deltas that give the point itself, and the frames."""
        point = point_of(X)
        deltas = [core * 0.0 for core in point.left.cores]
        deltas[-1] = point.centre(len(deltas) - 1)
        return deltas, list(point.left.cores), list(point.right.cores)


def ttax_gradient(case: Case, scale: float) -> Callable[[tt.TensorTrain], Any] | None:
    """The gradient by ttax, jitted: its norm and its cores. None: ttax is missing, or has no such function.

    Its Hessian product cannot run: it gives the point to JAX in the place of an argument number.
    """
    if importlib.util.find_spec("ttax") is None or not {"A", "B"} & set(case.data):
        return None
    ttax = importlib.import_module("ttax")
    (operator,) = (
        ttax.TTMatrix([jnp.asarray(core) for core in case.data[name].cores])
        for name in ("A", "B")
        if name in case.data
    )
    quadratic = ttax.fuse(lambda a, x: ttax.flat_inner(ttax.matmul(a, x), x))
    gram = ttax.fuse(lambda a, x: ttax.flat_inner(ttax.matmul(a, x), ttax.matmul(a, x)))
    square = ttax.fuse(ttax.flat_inner)
    function = {
        "⟨AX,X⟩": lambda x: scale * quadratic(operator, x),
        "Rayleigh quotient": lambda x: scale * quadratic(operator, x) / square(x, x),
        "⟨AᵀAX,X⟩": lambda x: gram(operator, x),
    }[case.name]
    gradient = jax.jit(ttax.grad(function))

    def call(X: tt.TensorTrain) -> Any:
        return gradient(ttax.TTMatrix([jnp.asarray(core)[:, :, None, :] for core in X.cores]))

    return call


def norm_of_doubled(cores: Any) -> float:
    """The norm of a train of JAX with cores of four axes."""
    return float(tt.TensorTrain([np.asarray(core)[:, :, 0, :] for core in cores]).norm())


def scipy_gradient(X: tt.TensorTrain, rows: Any, columns: Any, values: Any) -> Any:
    """The deltas of the gradient of a misfit by a sparse matrix."""
    point = point_of(X)
    left, right = point.left.cores[0][0], point.right.cores[1][:, :, 0].T
    centre = point.right.cores[0][0]
    residual = np.einsum("sa,sa->s", centre[rows], right[columns]) - values
    sparse = scipy.sparse.csr_matrix((2.0 * residual, (rows, columns)), X.shape)
    first = sparse @ right
    return first - left @ (left.T @ first), (sparse.T @ left).T


class Pymanopt:
    """Pymanopt's matrices of fixed rank, with a gradient written by hand: it has none for sparse misfits."""

    def __init__(self, X: tt.TensorTrain, rows: Any, columns: Any, values: Any) -> None:
        manifolds = importlib.import_module("pymanopt.manifolds")
        self.manifold = manifolds.FixedRankEmbedded(*X.shape, X.ranks[1])
        left, right = np.linalg.qr(X.left), np.linalg.qr(X.right)
        u, self.s, vt = np.linalg.svd(left[1] @ right[1].T)
        self.point = left[0] @ u, self.s, vt @ right[0].T
        self.data = rows, columns, values

    def gradient(self) -> Any:
        """The Riemannian gradient, as a tangent vector of Pymanopt."""
        rows, columns, values = self.data
        u, s, vt = self.point
        residual = np.einsum("sa,sa->s", u[rows] * s, vt.T[columns]) - values
        sparse = scipy.sparse.csr_matrix((2.0 * residual, (rows, columns)), (len(u), vt.shape[1]))
        du, dvt = sparse @ vt.T * s, (sparse.T @ (u * s)).T
        return self.manifold.euclidean_to_riemannian_gradient(
            self.point, (du, np.einsum("ia,ia->a", u, du) / s, dvt)
        )

    def transported(self, vector: Any) -> Any:
        """A tangent vector, carried to the point where it is."""
        return self.manifold.transport(self.point, self.point, vector)
