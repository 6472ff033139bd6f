"""Distributions as in `scipy.stats`, for traced values and for arrays: `stats.norm.logpdf(x, loc, scale)`.

Each is a formula for the logarithm of a density, so that derivatives neither overflow nor cancel, and one for
each tail. Outside of the support, and for parameters that have no distribution, values are SciPy's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, stdtr, xlog1py  # type: ignore[import-untyped]

from hesse.frontends.special import erf, erfc, lgamma, log_ndtr, ndtr, ndtri, sigmoid, softplus, xlogy
from hesse.stats.kinds import HALF_LOG_TWO_PI, Discrete, Distribution, all_positive, is_probability
from hesse.stats.vectors import Dirichlet, MultivariateNormal

__all__ = [
    "bernoulli",
    "beta",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "geom",
    "gumbel_r",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "multivariate_normal",
    "nbinom",
    "norm",
    "poisson",
    "t",
    "uniform",
    "weibull_min",
]


def _positive(z: Any, *shapes: Any) -> Any:
    return z > 0


def _not_negative(z: Any, *shapes: Any) -> Any:
    return z >= 0


def _unit(z: Any, *shapes: Any) -> Any:
    return (z >= 0) & (z <= 1)


def _log_beta(a: Any, b: Any) -> Any:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _t_log_density(z: Any, df: Any) -> Any:
    half = 0.5 * (df + 1.0)
    return lgamma(half) - lgamma(0.5 * df) - 0.5 * np.log(df * np.pi) - half * np.log1p(z**2 / df)


def _laplace_cumulative(z: Any) -> Any:
    half = 0.5 * np.exp(-np.abs(z))
    return np.where(z < 0, half, 1.0 - half)


def _laplace_log_cumulative(z: Any) -> Any:
    is_left = z < 0
    return np.where(is_left, z - math.log(2.0), np.log1p(-0.5 * np.exp(-np.where(is_left, 0.0, z))))


def _cauchy_quantile(q: Any) -> Any:
    """Near 0 and near 1 the distance to these."""
    middle = np.tan(np.pi * (q - 0.5))
    right = np.where(q > 0.75, 1.0 / np.tan(np.pi * (1.0 - q)), middle)
    return np.where(q < 0.25, -1.0 / np.tan(np.pi * q), right)


norm = Distribution(
    "norm",
    (),
    lambda z: -0.5 * z**2 - HALF_LOG_TWO_PI,
    ndtr,
    lambda z: ndtr(-z),
    log_cumulative=log_ndtr,
    log_survival=lambda z: log_ndtr(-z),
    quantile=ndtri,
    upper_quantile=lambda q: -ndtri(q),
)
expon = Distribution(
    "expon",
    (),
    lambda z: -z,
    lambda z: -np.expm1(-z),
    lambda z: np.exp(-z),
    _not_negative,
    log_survival=lambda z: -z,
    quantile=lambda q: -np.log1p(-q),
    upper_quantile=lambda q: -np.log(q),
)
laplace = Distribution(
    "laplace",
    (),
    lambda z: -np.abs(z) - math.log(2.0),
    _laplace_cumulative,
    lambda z: _laplace_cumulative(-z),
    log_cumulative=_laplace_log_cumulative,
    log_survival=lambda z: _laplace_log_cumulative(-z),
)
logistic = Distribution(
    "logistic",
    (),
    lambda z: -z - 2.0 * softplus(-z),
    sigmoid,
    lambda z: sigmoid(-z),
    log_cumulative=lambda z: -softplus(-z),
    log_survival=lambda z: -softplus(z),
    quantile=lambda q: np.log(q) - np.log1p(-q),
    upper_quantile=lambda q: np.log1p(-q) - np.log(q),
)
cauchy = Distribution(
    "cauchy",
    (),
    lambda z: -np.log1p(z**2) - math.log(math.pi),
    lambda z: np.arctan2(1.0, -z) / np.pi,
    lambda z: np.arctan2(1.0, z) / np.pi,
    quantile=_cauchy_quantile,
    upper_quantile=lambda q: -_cauchy_quantile(q),
)
uniform = Distribution(
    "uniform",
    (),
    lambda z: 0.0 * z,
    lambda z: z,
    lambda z: 1.0 - z,
    _unit,
    quantile=lambda q: q,
    upper_quantile=lambda q: 1.0 - q,
)
lognorm = Distribution(
    "lognorm",
    ("s",),
    lambda z, s: -0.5 * (np.log(z) / s) ** 2 - np.log(s * z) - HALF_LOG_TWO_PI,
    lambda z, s: ndtr(np.log(z) / s),
    lambda z, s: ndtr(-np.log(z) / s),
    _positive,
    log_cumulative=lambda z, s: log_ndtr(np.log(z) / s),
    log_survival=lambda z, s: log_ndtr(-np.log(z) / s),
)
gamma = Distribution(
    "gamma",
    ("a",),
    lambda z, a: xlogy(a - 1.0, z) - z - lgamma(a),
    lambda z, a: gammainc(a, z),
    lambda z, a: gammaincc(a, z),
    _not_negative,
)
invgamma = Distribution(
    "invgamma",
    ("a",),
    lambda z, a: -(a + 1.0) * np.log(z) - lgamma(a) - 1.0 / z,
    lambda z, a: gammaincc(a, 1.0 / z),
    lambda z, a: gammainc(a, 1.0 / z),
    _positive,
)
chi2 = Distribution(
    "chi2",
    ("df",),
    lambda z, df: xlogy(0.5 * df - 1.0, z) - 0.5 * z - lgamma(0.5 * df) - 0.5 * df * math.log(2.0),
    lambda z, df: gammainc(0.5 * df, 0.5 * z),
    lambda z, df: gammaincc(0.5 * df, 0.5 * z),
    _not_negative,
)
beta = Distribution(
    "beta",
    ("a", "b"),
    lambda z, a, b: xlogy(a - 1.0, z) + xlog1py(b - 1.0, -z) - _log_beta(a, b),
    lambda z, a, b: betainc(a, b, z),
    lambda z, a, b: betainc(b, a, 1.0 - z),
    _unit,
)
t = Distribution("t", ("df",), _t_log_density, lambda z, df: stdtr(df, z), lambda z, df: stdtr(df, -z))
halfnorm = Distribution(
    "halfnorm",
    (),
    lambda z: -0.5 * z**2 - HALF_LOG_TWO_PI + math.log(2.0),
    lambda z: erf(z / math.sqrt(2.0)),
    lambda z: erfc(z / math.sqrt(2.0)),
    _not_negative,
    log_survival=lambda z: log_ndtr(-z) + math.log(2.0),
)
weibull_min = Distribution(
    "weibull_min",
    ("c",),
    lambda z, c: np.log(c) + xlogy(c - 1.0, z) - z**c,
    lambda z, c: -np.expm1(-(z**c)),
    lambda z, c: np.exp(-(z**c)),
    _not_negative,
    log_survival=lambda z, c: -(z**c),
    quantile=lambda q, c: (-np.log1p(-q)) ** (1.0 / c),
    upper_quantile=lambda q, c: (-np.log(q)) ** (1.0 / c),
)
gumbel_r = Distribution(
    "gumbel_r",
    (),
    lambda z: -z - np.exp(-z),
    lambda z: np.exp(-np.exp(-z)),
    lambda z: -np.expm1(-np.exp(-z)),
    log_cumulative=lambda z: -np.exp(-z),
    quantile=lambda q: -np.log(-np.log(q)),
    upper_quantile=lambda q: -np.log(-np.log1p(-q)),
)


def _log_choose(n: Any, k: Any) -> Any:
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


def _is_count(n: Any) -> Any:
    return np.greater_equal(n, 0.0) & np.equal(np.floor(n), n)


poisson = Discrete(
    "poisson",
    ("mu",),
    lambda k, mu: xlogy(k, mu) - mu - lgamma(k + 1.0),
    lambda k, mu: gammaincc(k + 1.0, mu),
    lambda k, mu: gammainc(k + 1.0, mu),
    _not_negative,
    lambda mu: np.greater_equal(mu, 0.0),
)
bernoulli = Discrete(
    "bernoulli",
    ("p",),
    lambda k, p: xlogy(k, p) + xlogy(1.0 - k, 1.0 - p),
    lambda k, p: 1.0 - p * (1.0 - k),
    lambda k, p: p * (1.0 - k),
    _unit,
    is_probability,
)
binom = Discrete(
    "binom",
    ("n", "p"),
    lambda k, n, p: _log_choose(n, k) + xlogy(k, p) + xlogy(n - k, 1.0 - p),
    lambda k, n, p: np.where(k < n, betainc(np.where(k < n, n - k, 1.0), k + 1.0, 1.0 - p), 1.0),
    lambda k, n, p: np.where(k < n, betainc(k + 1.0, np.where(k < n, n - k, 1.0), p), 0.0),
    lambda k, n, p: (k >= 0) & (k <= n),
    lambda n, p: _is_count(n) & is_probability(p),
)
nbinom = Discrete(
    "nbinom",
    ("n", "p"),
    lambda k, n, p: _log_choose(k + n - 1.0, k) + n * np.log(p) + xlogy(k, 1.0 - p),
    lambda k, n, p: betainc(n, k + 1.0, p),
    lambda k, n, p: betainc(k + 1.0, n, 1.0 - p),
    _not_negative,
    lambda n, p: all_positive(n, p) & np.less_equal(p, 1.0),
)
geom = Discrete(
    "geom",
    ("p",),
    lambda k, p: xlogy(k - 1.0, 1.0 - p) + np.log(p),
    lambda k, p: -np.expm1(xlog1py(k, -p)),
    lambda k, p: np.exp(xlog1py(k, -p)),
    lambda k, p: k >= 1,
    lambda p: all_positive(p) & np.less_equal(p, 1.0),
)


dirichlet = Dirichlet()
multivariate_normal = MultivariateNormal()
