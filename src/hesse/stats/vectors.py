"""Distributions of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.frontends.special import digamma, lgamma, solve_triangular, xlogy
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

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
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
        factor = np.linalg.cholesky(cov * np.eye(size) if np.ndim(cov) < 2 else cov)
        solved = solve_triangular(factor, np.reshape(centred, (-1, size)).T, lower=True)
        whole = 0.5 * np.sum(solved**2, axis=0) + np.sum(np.log(np.diagonal(factor)))
        return np.squeeze(np.reshape(-whole - size * HALF_LOG_TWO_PI, np.shape(centred)[:-1]))[()]

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, mean, cov))

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
