"""Distributions as in `scipy.stats`, for traced values and for arrays: `stats.norm.logpdf(x, loc, scale)`.

Each is a formula for the logarithm of a density, so that derivatives neither overflow nor cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, stdtr  # type: ignore[import-untyped]

from hesse.errors import ArgumentError
from hesse.frontends.special import erfc, lgamma, log_ndtr, ndtr, ndtri, sigmoid, softplus, xlogy

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
Formula = Callable[..., Any]


class Distribution:
    """A family of continuous distributions: formulas in the standardised variable and in shape parameters.

    `inside(z, *shapes)` says where the density is not zero; None: everywhere.
    """

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_density: Formula,
        cumulative: Formula,
        inside: Formula | None = None,
        log_cumulative: Formula | None = None,
        quantile: Formula | None = None,
        survival: Formula | None = None,
        log_survival: Formula | None = None,
    ) -> None:
        self.name, self.shapes = name, shapes
        self._log_density, self._cumulative, self._inside = log_density, cumulative, inside
        self._log_cumulative, self._log_survival = log_cumulative, log_survival
        self._quantile, self._survival = quantile, survival

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def _arguments(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        return _arguments(self.name, self.shapes, ("loc", "scale"), given, named)

    def logpdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the density."""
        shapes, loc, scale = self._arguments(parameters, named)
        z = (x - loc) / scale
        return self._within(z, shapes, self._log_density, -np.inf, -np.inf) - np.log(scale)

    def pdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, *parameters, **named))

    def cdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The distribution function."""
        shapes, loc, scale = self._arguments(parameters, named)
        return self._within((x - loc) / scale, shapes, self._cumulative, 0.0, 1.0)

    def _within(self, z: Any, shapes: list[Any], formula: Formula, below: float, above: float) -> Any:
        """A formula where the density is not zero, and what holds on both sides of that."""
        if self._inside is None:
            return formula(z, *shapes)
        inside = self._inside(z, *shapes)
        return np.where(inside, formula(np.where(inside, z, 0.5), *shapes), np.where(z < 0.5, below, above))

    def sf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """One less the distribution function."""
        if self._survival is None:
            return 1.0 - self.cdf(x, *parameters, **named)
        shapes, loc, scale = self._arguments(parameters, named)
        return self._within((x - loc) / scale, shapes, self._survival, 1.0, 0.0)

    def logcdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the distribution function."""
        if self._log_cumulative is None:
            return np.log(self.cdf(x, *parameters, **named))
        shapes, loc, scale = self._arguments(parameters, named)
        return self._log_cumulative((x - loc) / scale, *shapes)

    def logsf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of one less the distribution function."""
        if self._survival is None:
            return np.log1p(-self.cdf(x, *parameters, **named))
        if self._log_survival is None:
            return np.log(self.sf(x, *parameters, **named))
        shapes, loc, scale = self._arguments(parameters, named)
        return self._log_survival((x - loc) / scale, *shapes)

    def ppf(self, q: Any, *parameters: Any, **named: Any) -> Any:
        """The quantile function."""
        if self._quantile is None:
            raise ArgumentError(f"{self.name}.ppf is not there; use hesse.root of {self.name}.cdf(x) - q")
        shapes, loc, scale = self._arguments(parameters, named)
        return loc + scale * self._quantile(q, *shapes)


class Discrete:
    """A family of distributions of whole numbers, by the parameters of its masses."""

    def __init__(self, name: str, shapes: tuple[str, ...], log_mass: Formula) -> None:
        self.name, self.shapes, self._log_mass = name, shapes, log_mass

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def logpmf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the probability of k."""
        shapes, loc, _ = _arguments(self.name, self.shapes, ("loc",), parameters, named)
        return self._log_mass(k - loc, *shapes)

    def pmf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The probability of k."""
        return np.exp(self.logpmf(k, *parameters, **named))


def _arguments(
    name: str,
    shapes: tuple[str, ...],
    further: tuple[str, ...],
    given: tuple[Any, ...],
    named: dict[str, Any],
) -> tuple[list[Any], Any, Any]:
    """Shape parameters, location and scale, by position or by name."""
    names = (*shapes, *further)
    if len(given) > len(names) or not set(named) <= set(names[len(given) :]):
        raise ArgumentError(f"{name} takes the parameters {', '.join(names)}")
    values = {"loc": 0.0, "scale": 1.0, **dict(zip(names, given, strict=False)), **named}
    missing = [shape for shape in shapes if shape not in values]
    if missing:
        raise ArgumentError(f"{name} needs the parameter {missing[0]}")
    return [values[shape] for shape in shapes], values["loc"], values["scale"]


def _positive(z: Any, *shapes: Any) -> Any:
    return z > 0


def _not_negative(z: Any, *shapes: Any) -> Any:
    return z >= 0


def _unit(z: Any, *shapes: Any) -> Any:
    return (z > 0) & (z < 1)


def _log_beta(a: Any, b: Any) -> Any:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _t_log_density(z: Any, df: Any) -> Any:
    half = 0.5 * (df + 1.0)
    return lgamma(half) - lgamma(0.5 * df) - 0.5 * np.log(df * np.pi) - half * np.log1p(z**2 / df)


norm = Distribution(
    "norm",
    (),
    lambda z: -0.5 * z**2 - HALF_LOG_TWO_PI,
    ndtr,
    log_cumulative=log_ndtr,
    quantile=ndtri,
    survival=lambda z: ndtr(-z),
    log_survival=lambda z: log_ndtr(-z),
)
expon = Distribution(
    "expon",
    (),
    lambda z: -z,
    lambda z: -np.expm1(-z),
    _not_negative,
    quantile=lambda q: -np.log1p(-q),
    survival=lambda z: np.exp(-z),
)
laplace = Distribution(
    "laplace",
    (),
    lambda z: -np.abs(z) - math.log(2.0),
    lambda z: np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1.0 - 0.5 * np.exp(-np.abs(z))),
)
logistic = Distribution(
    "logistic",
    (),
    lambda z: -z - 2.0 * softplus(-z),
    sigmoid,
    log_cumulative=lambda z: -softplus(-z),
    quantile=lambda q: np.log(q) - np.log1p(-q),
    survival=lambda z: sigmoid(-z),
)
cauchy = Distribution(
    "cauchy",
    (),
    lambda z: -np.log1p(z**2) - math.log(math.pi),
    lambda z: 0.5 + np.arctan(z) / np.pi,
    quantile=lambda q: np.tan(np.pi * (q - 0.5)),
)
uniform = Distribution(
    "uniform",
    (),
    lambda z: 0.0 * z,
    lambda z: z,
    lambda z: (z >= 0) & (z <= 1),
    quantile=lambda q: q,
)
lognorm = Distribution(
    "lognorm",
    ("s",),
    lambda z, s: -0.5 * (np.log(z) / s) ** 2 - np.log(s * z) - HALF_LOG_TWO_PI,
    lambda z, s: 0.5 * erfc(-np.log(z) / (s * math.sqrt(2.0))),
    _positive,
)
gamma = Distribution(
    "gamma", ("a",), lambda z, a: xlogy(a - 1.0, z) - z - lgamma(a), lambda z, a: gammainc(a, z), _positive
)
invgamma = Distribution(
    "invgamma",
    ("a",),
    lambda z, a: -(a + 1.0) * np.log(z) - lgamma(a) - 1.0 / z,
    lambda z, a: gammaincc(a, 1.0 / z),
    _positive,
)
chi2 = Distribution(
    "chi2",
    ("df",),
    lambda z, df: xlogy(0.5 * df - 1.0, z) - 0.5 * z - lgamma(0.5 * df) - 0.5 * df * math.log(2.0),
    lambda z, df: gammainc(0.5 * df, 0.5 * z),
    _positive,
)
beta = Distribution(
    "beta",
    ("a", "b"),
    lambda z, a, b: xlogy(a - 1.0, z) + (b - 1.0) * np.log1p(-z) - _log_beta(a, b),
    lambda z, a, b: betainc(a, b, z),
    _unit,
)
t = Distribution("t", ("df",), _t_log_density, lambda z, df: stdtr(df, z))
halfnorm = Distribution(
    "halfnorm",
    (),
    lambda z: -0.5 * z**2 - HALF_LOG_TWO_PI + math.log(2.0),
    lambda z: 1.0 - erfc(z / math.sqrt(2.0)),
    _not_negative,
)
weibull_min = Distribution(
    "weibull_min",
    ("c",),
    lambda z, c: np.log(c) + xlogy(c - 1.0, z) - z**c,
    lambda z, c: -np.expm1(-(z**c)),
    _positive,
    quantile=lambda q, c: (-np.log1p(-q)) ** (1.0 / c),
    survival=lambda z, c: np.exp(-(z**c)),
    log_survival=lambda z, c: -np.where(z > 0, np.where(z > 0, z, 1.0) ** c, 0.0),
)
gumbel_r = Distribution(
    "gumbel_r",
    (),
    lambda z: -z - np.exp(-z),
    lambda z: np.exp(-np.exp(-z)),
    log_cumulative=lambda z: -np.exp(-z),
    quantile=lambda q: -np.log(-np.log(q)),
)


def _log_choose(n: Any, k: Any) -> Any:
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


poisson = Discrete("poisson", ("mu",), lambda k, mu: xlogy(k, mu) - mu - lgamma(k + 1.0))
bernoulli = Discrete(
    "bernoulli",
    ("p",),
    lambda k, p: np.where((k == 0) | (k == 1), xlogy(k, p) + xlogy(1.0 - k, 1.0 - p), -np.inf),
)
binom = Discrete("binom", ("n", "p"), lambda k, n, p: _log_choose(n, k) + xlogy(k, p) + xlogy(n - k, 1.0 - p))
nbinom = Discrete(
    "nbinom", ("n", "p"), lambda k, n, p: _log_choose(k + n - 1.0, k) + n * np.log(p) + xlogy(k, 1.0 - p)
)
geom = Discrete("geom", ("p",), lambda k, p: xlogy(k - 1.0, 1.0 - p) + np.log(p))


class _MultivariateNormal:
    """The normal distribution of vectors."""

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The logarithm of the density, for points along the last axis."""
        centred = x if mean is None else x - mean
        size = np.shape(centred)[-1]
        matrix = cov * np.eye(size) if np.ndim(cov) < 2 else cov
        solved = np.linalg.solve(matrix, centred[..., None])[..., 0]
        whole = np.sum(centred * solved, axis=-1) + np.linalg.slogdet(matrix)[1]
        return -0.5 * whole - size * HALF_LOG_TWO_PI

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, mean, cov))


class _Dirichlet:
    """The distribution of parts of a whole."""

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density, for parts that add up to 1."""
        whole = lgamma(np.sum(alpha)) - np.sum(lgamma(alpha))
        return np.sum(xlogy(alpha - 1.0, x)) + whole

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, alpha))


dirichlet = _Dirichlet()
multivariate_normal = _MultivariateNormal()
KINDS = (Distribution, Discrete, _Dirichlet, _MultivariateNormal)
FAMILIES = tuple(name for name, value in list(globals().items()) if isinstance(value, KINDS))
"""The names of all distributions."""
