"""Distributions as in `scipy.stats`, for traced values and for arrays: `stats.norm.logpdf(x, loc, scale)`.

Each is a formula for the logarithm of a density, so that derivatives neither overflow nor cancel, and one for
each tail. Outside of the support, and for parameters that have no distribution, values are SciPy's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, stdtr, xlog1py  # type: ignore[import-untyped]

from hesse.errors import ArgumentError
from hesse.frontends.special import (
    erf,
    erfc,
    lgamma,
    log_ndtr,
    ndtr,
    ndtri,
    sigmoid,
    softplus,
    solve_triangular,
    xlogy,
)

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
Formula = Callable[..., Any]


class Distribution:
    """A family of continuous distributions: formulas in the standardised variable and in shape parameters.

    `inside(z, *shapes)` says where the density is not zero; None: everywhere. Shapes are positive numbers.
    """

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_density: Formula,
        cumulative: Formula,
        survival: Formula,
        inside: Formula | None = None,
        log_cumulative: Formula | None = None,
        log_survival: Formula | None = None,
        quantile: Formula | None = None,
    ) -> None:
        self.name, self.shapes = name, shapes
        self._log_density, self._cumulative, self._survival = log_density, cumulative, survival
        self._log_cumulative = log_cumulative or (lambda *given: np.log(cumulative(*given)))
        self._log_survival = log_survival or (lambda *given: np.log(survival(*given)))
        self._inside, self._quantile = inside, quantile

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def _arguments(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        return _arguments(self.name, self.shapes, ("loc", "scale"), given, named)

    def logpdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the density."""
        _, _, scale = self._arguments(parameters, named)
        return self._within(self._log_density, -np.inf, -np.inf, x, parameters, named) - np.log(scale)

    def pdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, *parameters, **named))

    def cdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The distribution function."""
        return self._within(self._cumulative, 0.0, 1.0, x, parameters, named)

    def sf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """One less the distribution function, exact also where that is tiny."""
        return self._within(self._survival, 1.0, 0.0, x, parameters, named)

    def logcdf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the distribution function."""
        return self._within(self._log_cumulative, -np.inf, 0.0, x, parameters, named)

    def logsf(self, x: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of one less the distribution function."""
        return self._within(self._log_survival, 0.0, -np.inf, x, parameters, named)

    def _within(
        self,
        formula: Formula,
        below: float,
        above: float,
        x: Any,
        parameters: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """A formula where the density is not zero, and what holds on both sides of that."""
        shapes, loc, scale = self._arguments(parameters, named)
        z = (x - loc) / scale
        if self._inside is None:
            found = formula(z, *shapes)
        else:
            inside = self._inside(z, *shapes)
            outside = np.where(z < 0.5, below, np.where(z > 0.5, above, z))  # of no number there is none
            found = np.where(inside, formula(np.where(inside, z, 0.5), *shapes), outside)
        return _valid(found, _all_positive(*shapes, scale))

    def ppf(self, q: Any, *parameters: Any, **named: Any) -> Any:
        """The quantile function."""
        if self._quantile is None:
            raise ArgumentError(f"{self.name}.ppf is not there; use hesse.root of {self.name}.cdf(x) - q")
        shapes, loc, scale = self._arguments(parameters, named)
        is_probability = np.greater_equal(q, 0.0) & np.less_equal(q, 1.0)
        found = loc + scale * self._quantile(np.where(is_probability, q, 0.5), *shapes)
        return _valid(found, is_probability & _all_positive(*shapes, scale))


def _all_positive(*values: Any) -> Any:
    return functools.reduce(np.logical_and, [np.greater(value, 0.0) for value in values])


def _valid(found: Any, is_valid: Any) -> Any:
    """What was found, but no number where something is not valid; nor are there derivatives."""
    if isinstance(is_valid, np.bool_ | np.ndarray) and np.all(is_valid):
        return found
    return found * np.where(is_valid, 1.0, np.nan)


class Discrete:
    """A family of distributions of whole numbers, by the parameters of its masses.

    `inside(k, *shapes)` says between which numbers there are masses, `is_valid(*shapes)` if there are any.
    """

    def __init__(
        self, name: str, shapes: tuple[str, ...], log_mass: Formula, inside: Formula, is_valid: Formula
    ) -> None:
        self.name, self.shapes = name, shapes
        self._log_mass, self._inside, self._is_valid = log_mass, inside, is_valid

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def logpmf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the probability of k."""
        shapes, loc, _ = _arguments(self.name, self.shapes, ("loc",), parameters, named)
        k = k - loc
        inside = self._inside(k, *shapes) & np.equal(np.floor(k), k)
        outside = np.where(np.equal(k, k), -np.inf, np.nan)
        found = np.where(inside, self._log_mass(np.where(inside, k, 1.0), *shapes), outside)
        return _valid(found, self._is_valid(*shapes))

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
)
cauchy = Distribution(
    "cauchy",
    (),
    lambda z: -np.log1p(z**2) - math.log(math.pi),
    lambda z: np.arctan2(1.0, -z) / np.pi,
    lambda z: np.arctan2(1.0, z) / np.pi,
    quantile=_cauchy_quantile,
)
uniform = Distribution(
    "uniform",
    (),
    lambda z: 0.0 * z,
    lambda z: z,
    lambda z: 1.0 - z,
    _unit,
    quantile=lambda q: q,
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
)
gumbel_r = Distribution(
    "gumbel_r",
    (),
    lambda z: -z - np.exp(-z),
    lambda z: np.exp(-np.exp(-z)),
    lambda z: -np.expm1(-np.exp(-z)),
    log_cumulative=lambda z: -np.exp(-z),
    quantile=lambda q: -np.log(-np.log(q)),
)


def _log_choose(n: Any, k: Any) -> Any:
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


def _is_probability(p: Any) -> Any:
    return np.greater_equal(p, 0.0) & np.less_equal(p, 1.0)


def _is_count(n: Any) -> Any:
    return np.greater_equal(n, 0.0) & np.equal(np.floor(n), n)


poisson = Discrete(
    "poisson",
    ("mu",),
    lambda k, mu: xlogy(k, mu) - mu - lgamma(k + 1.0),
    _not_negative,
    lambda mu: np.greater_equal(mu, 0.0),
)
bernoulli = Discrete(
    "bernoulli", ("p",), lambda k, p: xlogy(k, p) + xlogy(1.0 - k, 1.0 - p), _unit, _is_probability
)
binom = Discrete(
    "binom",
    ("n", "p"),
    lambda k, n, p: _log_choose(n, k) + xlogy(k, p) + xlogy(n - k, 1.0 - p),
    lambda k, n, p: (k >= 0) & (k <= n),
    lambda n, p: _is_count(n) & _is_probability(p),
)
nbinom = Discrete(
    "nbinom",
    ("n", "p"),
    lambda k, n, p: _log_choose(k + n - 1.0, k) + n * np.log(p) + xlogy(k, 1.0 - p),
    _not_negative,
    lambda n, p: _all_positive(n, p) & np.less_equal(p, 1.0),
)
geom = Discrete(
    "geom",
    ("p",),
    lambda k, p: xlogy(k - 1.0, 1.0 - p) + np.log(p),
    lambda k, p: k >= 1,
    lambda p: _all_positive(p) & np.less_equal(p, 1.0),
)


class _MultivariateNormal:
    """The normal distribution of vectors."""

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The logarithm of the density, for points along the last axis; of `cov` the lower triangle is read.

        The size of a point is that of the mean, or of the matrix; without both points are numbers.
        """
        size = np.shape(cov)[0] if mean is None and np.ndim(cov) == 2 else 1
        mean = np.zeros(size) if mean is None else np.reshape(mean, -1)
        size = np.size(mean)
        are_numbers = np.ndim(x) == 0 or (np.ndim(x) == 1 and size == 1)
        centred = (np.expand_dims(x, -1) if are_numbers else x) - mean
        if np.shape(centred)[-1] != size or np.shape(cov) not in ((), (size,), (size, size)):
            raise ArgumentError(
                f"multivariate_normal: points of shape {np.shape(x)} and a covariance of shape "
                f"{np.shape(cov)} do not fit to a mean of size {size}"
            )
        factor = np.linalg.cholesky(cov * np.eye(size) if np.ndim(cov) < 2 else cov)
        solved = solve_triangular(factor, np.reshape(centred, (-1, size)).T, lower=True)
        whole = 0.5 * np.sum(solved**2, axis=0) + np.sum(np.log(np.diagonal(factor)))
        return np.squeeze(np.reshape(-whole - size * HALF_LOG_TWO_PI, np.shape(centred)[:-1]))[()]

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, mean, cov))


class _Dirichlet:
    """The distribution of parts of a whole."""

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density, for parts along the first axis that add up to 1.

        The last part may be left out.
        """
        if np.shape(x)[0] + 1 == np.shape(alpha)[0]:
            x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
        powers = np.reshape(alpha, (-1,) + (1,) * (np.ndim(x) - 1))
        whole = lgamma(np.sum(alpha)) - np.sum(lgamma(alpha))
        is_valid = np.all(np.greater(alpha, 0.0)) & np.all(_is_probability(x), axis=0)
        return _valid(np.sum(xlogy(powers - 1.0, x), axis=0) + whole, is_valid)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, alpha))


dirichlet = _Dirichlet()
multivariate_normal = _MultivariateNormal()
KINDS = (Distribution, Discrete, _Dirichlet, _MultivariateNormal)
FAMILIES = tuple(name for name, value in list(globals().items()) if isinstance(value, KINDS))
"""The names of all distributions."""
