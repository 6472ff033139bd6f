"""Distributions of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.frontends.special import digamma, lgamma, solve_triangular, xlogy
from hesse.frontends.standing_in import is_traced
from hesse.stats.kinds import HALF_LOG_TWO_PI, array_of, is_probability, valid


class Frozen:
    """A distribution with its parameters."""

    def __init__(self, name: str, family: Any, *parameters: Any) -> None:
        self._name, self._family, self._parameters = name, family, parameters

    def __repr__(self) -> str:
        return f"<distribution {self._name} with its parameters>"

    def __getattr__(self, name: str) -> Any:
        known = "logpdf, pdf and entropy"
        raise AttributeError(f"{self._name} with traced parameters has {known}, and no {name}")

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        return self._family.logpdf(x, *self._parameters)

    def pdf(self, x: Any) -> Any:
        """The density."""
        return self._family.pdf(x, *self._parameters)

    def entropy(self) -> Any:
        """The mean of the negative logarithm of the density."""
        return self._family.entropy(*self._parameters)


class MultivariateNormal:
    """The normal distribution of vectors."""

    def __call__(self, mean: Any = None, cov: Any = 1.0) -> Frozen:
        """The distribution with these parameters."""
        return Frozen("multivariate_normal", self, mean, cov)

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> Any:
        """The logarithm of the density, for points along the last axis; of `cov` the lower triangle is read.

        The size of a point is that of the mean, or of the matrix; without both points are numbers.
        """
        x, mean, cov = array_of(x), array_of(mean), array_of(cov)
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
        matrix = cov * np.eye(size) if np.ndim(cov) < 2 else cov
        log_density = _log_density_on_support if allow_singular else _log_density
        found = log_density(np.reshape(centred, (-1, size)), matrix)
        return np.squeeze(np.reshape(found, np.shape(centred)[:-1]))[()]

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1.0) -> Any:
        """The mean of the negative logarithm of the density; of `cov` the lower triangle is read."""
        mean, cov = array_of(mean), array_of(cov)
        size = np.size(mean) if mean is not None else np.shape(cov)[0] if np.ndim(cov) == 2 else 1
        if np.shape(cov) not in ((), (size,), (size, size)):
            raise ArgumentError(
                f"multivariate_normal: a covariance of shape {np.shape(cov)} does not fit to a mean of size "
                f"{size}"
            )
        factor = np.linalg.cholesky(cov * np.eye(size) if np.ndim(cov) < 2 else cov)
        return np.sum(np.log(np.diagonal(factor))) + size * (HALF_LOG_TWO_PI + 0.5)


def _log_density(centred: Any, matrix: Any) -> Any:
    factor = np.linalg.cholesky(matrix)
    solved = solve_triangular(factor, centred.T, lower=True)
    whole = 0.5 * np.sum(solved**2, axis=0) + np.sum(np.log(np.diagonal(factor)))
    return -whole - np.shape(matrix)[0] * HALF_LOG_TWO_PI


def _log_density_on_support(centred: Any, matrix: Any) -> Any:
    """That of a matrix that may be singular: on the space that its columns span, as in SciPy."""
    if is_traced(matrix):
        raise ArgumentError(
            "multivariate_normal: allow_singular=True needs a covariance of known numbers, since its rank "
            "may change with it; leave it out where derivatives by the covariance are wanted"
        )
    values, vectors = np.linalg.eigh(matrix)
    rounding = np.finfo(values.dtype)
    least = (1e6 if rounding.bits == 64 else 1e3) * rounding.eps * np.max(np.abs(values))
    if np.min(values) < -least:
        raise ArgumentError("multivariate_normal: the covariance is not positive semidefinite")
    is_kept = values > least
    solved = centred @ (vectors[:, is_kept] / np.sqrt(values[is_kept]))
    whole = 0.5 * np.sum(solved**2, axis=1) + 0.5 * np.sum(np.log(values[is_kept]))
    outside = centred @ vectors[:, ~is_kept]
    is_on = np.less(np.sum(outside**2, axis=1), (1e3 * least) ** 2)
    return np.where(is_on, -whole - np.sum(is_kept) * HALF_LOG_TWO_PI, -np.inf)


class Dirichlet:
    """The distribution of parts of a whole."""

    def __call__(self, alpha: Any) -> Frozen:
        """The distribution with these parameters."""
        return Frozen("dirichlet", self, alpha)

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density, for parts along the first axis that add up to 1.

        The last part may be left out.
        """
        x, alpha = array_of(x), array_of(alpha)
        if np.shape(x)[0] + 1 == np.shape(alpha)[0]:
            x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
        powers = np.reshape(alpha, (-1,) + (1,) * (np.ndim(x) - 1))
        whole = lgamma(np.sum(alpha)) - np.sum(lgamma(alpha))
        is_valid = np.all(np.greater(alpha, 0.0)) & np.all(is_probability(x), axis=0)
        return valid(np.sum(xlogy(powers - 1.0, x), axis=0) + whole, is_valid)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, alpha))

    def entropy(self, alpha: Any) -> Any:
        """The mean of the negative logarithm of the density."""
        alpha = array_of(alpha)
        whole = np.sum(alpha)
        found = np.sum(lgamma(alpha)) - lgamma(whole) + (whole - np.shape(alpha)[0]) * digamma(whole)
        return valid(found - np.sum((alpha - 1.0) * digamma(alpha)), np.all(np.greater(alpha, 0.0)))
