"""GMM: the logarithm of the likelihood of a mixture of Gaussians with a Wishart prior."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.adbench.case import GRADIENT, Case, Function

GAMMA, DEGREES = 1.0, 0.0
"""The prior: its scale and its additional degrees of freedom."""


def places(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries below the diagonal stand in a parameter vector, column by column; and a mask."""
    index = np.zeros((d, d), dtype=int)
    index.T[np.triu_indices(d, 1)] = np.arange(d * (d - 1) // 2)
    return index + d, np.tril(np.ones((d, d)), -1)


def prior_constant(d: int) -> float:
    """The normalisation of the prior of one component."""
    freedom = d + DEGREES + 1
    gammas = sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + gammas
    return freedom * d * (math.log(GAMMA) - 0.5 * math.log(2.0)) - log_gamma


def objective(xp: Any, d: int) -> Function:
    """The likelihood as a function of weights, means and factors of the inverse covariances."""
    index, mask = map(xp.asarray, places(d))
    constant = prior_constant(d)

    def logsumexp(values: Any) -> Any:
        largest = xp.amax(values, -1)
        return xp.log(xp.sum(xp.exp(values - largest[..., None]), -1)) + largest

    def likelihood(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        n, components = x.shape[0], alphas.shape[0]
        lower = factors[:, index] * mask
        scales, sums = xp.exp(factors[:, :d]), xp.sum(factors[:, :d], 1)
        centred = x[:, None, :] - means
        scaled = scales * centred + xp.einsum("kij,nkj->nki", lower, centred)
        inner = alphas + sums - 0.5 * xp.sum(scaled**2, 2)
        total = xp.sum(logsumexp(inner)) - n * logsumexp(alphas)
        squares = xp.sum(scales**2) + xp.sum(factors[:, d:] ** 2)
        prior = 0.5 * GAMMA**2 * squares - DEGREES * xp.sum(sums) - components * constant
        return total + prior - 0.5 * n * d * math.log(2.0 * math.pi)

    return likelihood


def by_hand(alphas: Any, means: Any, factors: Any, x: Any) -> tuple[np.ndarray, ...]:
    """The gradient as an expert writes it: a batch of matrix products in each direction."""
    n, d = x.shape
    index, mask = places(d)
    scales = np.exp(factors[:, :d])
    lower = factors[:, index] * mask
    lower[:, np.arange(d), np.arange(d)] = scales
    centred = x - means[:, None, :]
    scaled = centred @ lower.transpose(0, 2, 1)
    inner = (alphas + factors[:, :d].sum(1))[:, None] - 0.5 * np.einsum("kni,kni->kn", scaled, scaled)
    shares = np.exp(inner - inner.max(0))
    shares /= shares.sum(0)
    weights = np.exp(alphas - alphas.max())
    totals = shares.sum(1)
    scaled *= -shares[:, :, None]
    slopes = scaled.transpose(0, 2, 1) @ centred
    by_factors = np.empty_like(factors)
    by_factors[:, :d] = np.einsum("kii->ki", slopes) * scales + totals[:, None] - DEGREES
    by_factors[:, :d] += GAMMA**2 * scales**2
    columns, rows = np.triu_indices(d, 1)
    by_factors[:, d:] = slopes[:, rows, columns] + GAMMA**2 * factors[:, d:]
    by_means = -(scaled.sum(1)[:, None, :] @ lower)[:, 0]
    return totals - n * weights / weights.sum(), by_means, by_factors


def data(d: int, components: int, n: int) -> tuple[np.ndarray, ...]:
    """Random parameters and points."""
    random = np.random.default_rng(0)
    factors = random.normal(size=(components, d * (d + 1) // 2))
    return random.normal(size=components), random.random((components, d)), factors, random.normal(size=(n, d))


def case(d: int, components: int, n: int) -> Case:
    """A row."""
    size = f"d = {d}, K = {components}, n = {n:,}"
    return Case(
        "GMM", size, GRADIENT, lambda xp: objective(xp, d), data(d, components, n), 3, by_hand=by_hand
    )


def cases() -> Iterator[Case]:
    """All rows."""
    for d, components, n in ((2, 5, 1000), (10, 25, 1000), (32, 25, 1000), (64, 50, 1000)):
        yield case(d, components, n)
    for d, components, n in ((2, 5, 10_000), (10, 25, 10_000), (32, 25, 10_000)):
        yield case(d, components, n)
