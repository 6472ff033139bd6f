"""Functions of trains, and oracles for their Riemannian derivatives.

The oracle knows nothing of trains: JAX differentiates the dense function, and the projection is made from
SVDs of the dense tensor.
"""

import jax
import numpy as np
from tests.test_trains import dense, matrix

import hesse
from hesse import tt
from oracles import fast_jit

jnp = jax.numpy
SHAPE, RANK = (5, 5, 5, 5), 3
SIZE = int(np.prod(SHAPE))
rng = np.random.default_rng(7)
A = tt.random_matrix([(5, 5)] * 4, 2, rng=1)
B = tt.random_matrix([(5, 5)] * 4, 2, rng=2)
S = A + A.T
F = tt.random(SHAPE, 2, rng=3)
WHERE = tuple(rng.integers(0, 5, (4, 200)))
VALUES = rng.standard_normal(200) * 0.1
WORDS = tt.rank_one([rng.standard_normal((6, 5)) for _ in range(4)])
FEW_WORDS = tt.rank_one([rng.standard_normal((3, 5)) for _ in range(4)])
LABELS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
a, b, s, f_dense = matrix(A), matrix(B), matrix(S), dense(F)
words, few_words = np.asarray(WORDS.dense()).reshape(6, -1), np.asarray(FEW_WORDS.dense()).reshape(3, -1)
stop = jax.lax.stop_gradient


def norm(x):
    return jnp.sqrt(jnp.sum(x * x))


FUNCTIONS = {
    "quadratic": (lambda X: tt.dot(S @ X, X), lambda x: x @ s @ x),
    "quadratic, not symmetric": (lambda X: tt.dot(A @ X, X), lambda x: x @ a @ x),
    "gram": (lambda X: tt.dot(A @ X, A @ X), lambda x: jnp.sum((a @ x) ** 2)),
    "gram by transposes": (lambda X: tt.dot(X, A.T @ (A @ X)), lambda x: jnp.sum((a @ x) ** 2)),
    "rayleigh": (lambda X: tt.dot(S @ X, X) / tt.dot(X, X), lambda x: x @ s @ x / (x @ x)),
    "completion": (
        lambda X: ((tt.gather(X, WHERE) - VALUES) ** 2).sum(),
        lambda x: jnp.sum((x.reshape(SHAPE)[WHERE] - VALUES) ** 2),
    ),
    "exponential machine": (
        lambda X: np.sum(np.log(1.0 + np.exp(-LABELS * tt.dot(WORDS, X)))),
        lambda x: jnp.sum(jnp.log(1.0 + jnp.exp(-LABELS * (words @ x)))),
    ),
    "few words": (
        lambda X: np.sum(np.sin(3.0 * tt.dot(X, FEW_WORDS))) + np.prod(tt.dot(FEW_WORDS, X)),
        lambda x: jnp.sum(jnp.sin(3.0 * (few_words @ x))) + jnp.prod(few_words @ x),
    ),
    "norm": (lambda X: (X - F).norm(), lambda x: norm(x - f_dense.ravel())),
    "linear": (lambda X: tt.dot(X, F), lambda x: x @ f_dense.ravel()),
    "logarithm of a sum": (
        lambda X: np.log(2.0 + tt.dot(X, F) ** 2 + X.norm()),
        lambda x: jnp.log(2.0 + (x @ f_dense.ravel()) ** 2 + norm(x)),
    ),
    "fourth powers": (lambda X: 40 * tt.dot(X * X, X * X), lambda x: 40 * jnp.sum(x**4)),
    "cubes": (lambda X: 20 * tt.dot(X * X, X * F), lambda x: 20 * jnp.sum(x**3 * f_dense.ravel())),
    "rounding inside": (
        lambda X: tt.dot((X + S @ X).round(tol=1e-10), X - F),
        lambda x: (x + s @ x) @ (x - f_dense.ravel()),
    ),
    "sums of trains": (
        lambda X: tt.dot(2.0 * X - F + X / 4.0, A @ (X + F) - X),
        lambda x: (2.25 * x - f_dense.ravel()) @ (a @ (x + f_dense.ravel()) - x),
    ),
    "preconditioned": (
        lambda X: tt.dot(B @ (A @ hesse.stop_gradient(X) - F), X),
        lambda x: (b @ (a @ stop(x) - f_dense.ravel())) @ x,
    ),
    "stopped coefficient": (
        lambda X: tt.dot((hesse.stop_gradient(X * tt.dot(X, F)) + X), A @ X) * 3.0,
        lambda x: 3.0 * ((stop(x * (x @ f_dense.ravel())) + x) @ (a @ x)),
    ),
    "number times a train": (
        lambda X: tt.dot(np.exp(tt.dot(X, F)) * X, A @ X),
        lambda x: jnp.exp(x @ f_dense.ravel()) * (x @ a @ x),
    ),
    "batched squares": (
        lambda X: np.sum(np.sin(tt.dot(WORDS, X * X))),
        lambda x: jnp.sum(jnp.sin(words @ (x * x))),
    ),
    "dense": (
        lambda X: np.sum(np.exp((A @ X - X).dense()) * f_dense),
        lambda x: jnp.sum(jnp.exp(a @ x - x) * f_dense.ravel()),
    ),
    "entries of products": (
        lambda X: np.sum(tt.gather(X * X - F, WHERE) * VALUES),
        lambda x: jnp.sum((x**2 - f_dense.ravel()).reshape(SHAPE)[WHERE] * VALUES),
    ),
    "cores": (
        lambda X: np.einsum("aib,bjc,ckd,dle->", *X.cores) ** 2 + tt.dot(A @ X, X),
        lambda x: jnp.sum(x) ** 2 + x @ a @ x,
    ),
}
FIVE = ["quadratic", "gram", "rayleigh", "completion", "exponential machine"]
"""Those of section 7.1 of the paper."""
LINEAR = ["linear"]
STOPPED = ["preconditioned", "stopped coefficient"]


class Dense:
    """The projection to the tangent space at a dense tensor, from its SVDs."""

    def __init__(self, x, ranks):
        self.shape = x.shape
        self.frames = []
        for k in range(1, x.ndim):
            u, _, vt = np.linalg.svd(x.reshape(int(np.prod(x.shape[:k])), -1), full_matrices=False)
            self.frames.append((u[:, : ranks[k]], vt[: ranks[k]]))

    def __call__(self, z):
        """The sum over positions, each made orthogonal to what is on its left."""
        z, count = np.asarray(z).reshape(self.shape), len(self.shape)
        total = np.zeros(z.size)
        for k in range(count):
            part = z.reshape(-1)
            if k + 1 < count:
                vt = self.frames[k][1]
                part = (part.reshape(-1, vt.shape[1]) @ vt.T @ vt).reshape(-1)
            if k > 0:
                u = self.frames[k - 1][0]
                part = (u @ (u.T @ part.reshape(u.shape[0], -1))).reshape(-1)
            if k + 1 < count:
                u = self.frames[k][0]
                full = part.reshape(u.shape[0], -1)
                part = (full - u @ (u.T @ full)).reshape(-1)
            total += part
        return total


def point(seed=0, rank=RANK):
    return tt.random(SHAPE, rank, rng=seed) * 1.5


def close(found, wanted, tolerance=1e-10):
    found, wanted = np.asarray(found).ravel(), np.asarray(wanted).ravel()
    assert np.linalg.norm(found - wanted) <= tolerance * max(1.0, np.linalg.norm(wanted))


def is_gauged(tangent):
    left = tangent.point.left.cores
    for u, delta in list(zip(left, tangent.deltas, strict=True))[:-1]:
        overlap = np.einsum("aib,aic->bc", np.asarray(u), np.asarray(delta))
        assert np.abs(overlap).max() <= 1e-12 * max(1.0, np.abs(np.asarray(delta)).max())


def field(g, cores):
    """The Riemannian gradient, dense, as a smooth function of any cores: projections from interfaces."""
    whole, lefts, rights = jnp.ones((1, 1)), [], [jnp.ones((1, 1))]
    for core in cores:
        whole = jnp.einsum("xa,aib->xib", whole, core).reshape(-1, core.shape[2])
        lefts.append(whole)
    for core in reversed(cores[1:]):
        rights.append(jnp.einsum("aib,bx->aix", core, rights[-1]).reshape(core.shape[0], -1))
    x = whole.ravel()
    gradient, total = jax.grad(lambda x: g(x).reshape(()))(x), 0.0
    onto = lambda a: a @ jnp.linalg.solve(a.T @ a, a.T)  # noqa: E731
    for k in range(len(cores)):
        part = gradient
        if k + 1 < len(cores):
            right = onto(rights[-1 - k].T)
            part = (part.reshape(-1, len(right)) @ right).ravel()
            left = onto(lefts[k])
            part = (part.reshape(len(left), -1) - left @ part.reshape(len(left), -1)).ravel()
        if k > 0:
            left = onto(lefts[k - 1])
            part = (left @ part.reshape(len(left), -1)).ravel()
        total = total + part
    return total


def exact_product(g, Z):
    """The derivative of the Riemannian gradient along a tangent vector, dense, by JAX."""
    point_ = Z.point
    links = point_.links[:-1]
    steps = [delta @ np.linalg.inv(link) for delta, link in zip(Z.deltas, links, strict=False)]
    cores = [*point_.left.cores[:-1], point_.centre(len(links))]
    directions = (*steps, Z.deltas[-1])
    product = fast_jit(lambda *both: jax.jvp(lambda *cores: field(g, cores), *both)[1])
    found = product(tuple(cores), directions)
    x = point_.train.dense()
    return Dense(x, point_.train.ranks)(np.asarray(found))
