"""Models written in JAX: nets, likelihoods, integrators, potentials."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_cases import Case

INPUTS = np.linspace(-1.0, 1.0, 6).reshape(3, 2)
TARGETS = np.array([0, 2, 1])
TOKENS = np.linspace(-1.0, 1.0, 12).reshape(3, 4)


def _sizes(shapes: dict[str, tuple[int, ...]]) -> int:
    return sum(int(np.prod(shape)) for shape in shapes.values())


def _unflattened(vector: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Parameters by name, cut from one vector."""
    found, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = vector[start : start + size].reshape(shape)
        start += size
    return found


PERCEPTRON = {"w": (2, 3), "b": (3,), "v": (3, 3), "c": (3,)}


def perceptron(vector: Any) -> Any:
    """The cross-entropy of a net with one hidden layer."""
    p = _unflattened(vector, PERCEPTRON)
    logits = jax.nn.gelu(INPUTS @ p["w"] + p["b"]) @ p["v"] + p["c"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), TARGETS[:, None], axis=1))


CONVOLUTIONAL = {"k": (2, 2, 1, 2), "b": (2,), "w": (2, 2)}


def convolutional(vector: Any) -> Any:
    """A convolution, a pool and a linear layer on a small image."""
    p = _unflattened(vector, CONVOLUTIONAL)
    image = np.cos(np.arange(25.0)).reshape(1, 5, 5, 1)
    seen = lax.conv_general_dilated(
        image, p["k"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    pooled = lax.reduce_window(
        jax.nn.softplus(seen + p["b"]), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )
    return jax.nn.logsumexp(jnp.mean(pooled, axis=(1, 2)) @ p["w"])


BLOCK = {"q": (4, 2), "k": (4, 2), "v": (4, 4), "scale": (4,), "w": (4, 2), "u": (2, 4)}


def _normalized(x: Any, scale: Any) -> Any:
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return scale * centred * lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-3)


def block(vector: Any) -> Any:
    """A block of a transformer with two heads and a causal mask."""
    p = _unflattened(vector, BLOCK)
    x = _normalized(TOKENS, p["scale"])
    q, k, v = ((x @ p[name]).reshape(3, 2, -1) for name in "qkv")
    scores = jnp.einsum("thd,shd->hts", q, k)
    scores = jnp.where(np.tri(3, dtype=bool), scores, -1e9)
    x = TOKENS + jnp.einsum("hts,shd->thd", jax.nn.softmax(scores), v).reshape(3, 4)
    return jnp.sum((x + jax.nn.silu(_normalized(x, p["scale"]) @ p["w"]) @ p["u"]) ** 2)


def process(theta: Any) -> Any:
    """The negative logarithm of the likelihood of a Gaussian process."""
    points, values = jnp.linspace(0.0, 1.0, 5), jnp.array([0.1, 0.5, -0.2, 0.3, 0.9])
    distances = (points[:, None] - points[None]) ** 2
    covariance = jnp.exp(theta[0] - distances * jnp.exp(theta[1])) + jnp.exp(theta[2]) * jnp.eye(5)
    factor = jnp.linalg.cholesky(covariance)
    solved = jax.scipy.linalg.solve_triangular(factor, values, lower=True)
    return 0.5 * solved @ solved + jnp.sum(jnp.log(jnp.diag(factor)))


def oscillator(theta: Any) -> Any:
    """A differential equation by the method of Runge and Kutta, and its distance from data."""

    def slope(y: Any) -> Any:
        return jnp.array([y[1], -theta[0] * jnp.sin(y[0]) - theta[1] * y[1]])

    def step(y: Any, _: Any) -> Any:
        a = slope(y)
        b = slope(y + 0.05 * a)
        y = y + 0.1 * b
        return y, y[0]

    _, path = lax.scan(step, jnp.array([1.0, 0.0]), None, length=6)
    return jnp.sum((path - jnp.cos(jnp.linspace(0.1, 0.6, 6))) ** 2)


PAIRS = np.triu_indices(4, 1)


def lennard_jones(x: Any) -> Any:
    """The energy of four atoms, summed over the pairs."""
    difference = (3.0 * np.eye(4, 3) + x)[PAIRS[0]] - (3.0 * np.eye(4, 3) + x)[PAIRS[1]]
    inverse = 1.0 / jnp.sum(difference**2, axis=1)
    return jnp.sum(inverse**6 - inverse**3)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attention by hand; that of JAX rounds to single precision on the way."""
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v)


def mixture(theta: Any) -> Any:
    """The log-likelihood of a mixture of two normal distributions."""
    means, logits = theta[:2], theta[2:]
    data = np.array([-1.0, 0.3, 1.1])
    log_densities = jax.scipy.stats.norm.logpdf(data[:, None], means, 0.7)
    return jnp.sum(jax.nn.logsumexp(log_densities + jax.nn.log_softmax(logits), axis=1))


def markov(theta: Any) -> Any:
    """The log-likelihood of a hidden chain, by the forward recursion."""
    step, emission = jax.nn.log_softmax(theta[:2]), jax.nn.log_softmax(theta[2:])

    def forward(alpha: Any, seen: Any) -> Any:
        alpha = jax.nn.logsumexp(alpha[:, None] + step, axis=0) + emission[:, seen]
        return alpha, None

    alpha, _ = lax.scan(forward, jnp.log(jnp.array([0.4, 0.6])), np.array([0, 1, 1, 0]))
    return jax.nn.logsumexp(alpha)


def factorization(u: Any, v: Any) -> Any:
    """Squared errors of a product of thin matrices at some entries."""
    rows, columns = np.array([0, 0, 1, 2]), np.array([0, 2, 1, 1])
    return jnp.sum((jnp.sum(u[rows] * v[columns], axis=1) - np.arange(4.0)) ** 2)


def graph(x: Any) -> Any:
    """Messages along the edges of a graph, added up at their ends."""
    senders, receivers = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 0, 2])
    messages = jnp.tanh(x[senders] * x[receivers])
    return jnp.sum(jax.ops.segment_sum(messages, receivers, 4) ** 2)


CASES = {
    case.name: case
    for case in [
        Case("perceptron", perceptron, ((_sizes(PERCEPTRON),),), order=2),
        Case("convolutional net", convolutional, ((_sizes(CONVOLUTIONAL),),), order=2),
        Case("block of a transformer", block, ((_sizes(BLOCK),),), (-0.7, 0.7), order=1),
        Case("Gaussian process", process, ((3,),), (-1.0, 1.0), order=2),
        Case("oscillator", oscillator, ((2,),), (0.2, 1.0), order=2),
        Case("Lennard-Jones", lennard_jones, ((4, 3),), (-0.5, 0.5), order=2),
        Case("attention", attention, ((1, 2, 1, 2),) * 3, order=2),
        Case("mixture", mixture, ((4,),), order=3),
        Case("hidden chain", markov, ((4, 2),), order=2),
        Case("factorization", factorization, ((3, 2), (3, 2)), order=3),
        Case("graph", graph, ((4, 2),), order=2),
    ]
}
