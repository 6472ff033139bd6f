"""Families of distributions of numbers, by their formulas."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.frontends.making import joined
from hesse.frontends.standing_in import is_traced

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
        upper_quantile: Formula | None = None,
    ) -> None:
        self.name, self.shapes = name, shapes
        self._log_density, self._cumulative, self._survival = log_density, cumulative, survival
        self._log_cumulative = log_cumulative or (lambda *given: np.log(cumulative(*given)))
        self._log_survival = log_survival or (lambda *given: np.log(survival(*given)))
        self._inside, self._quantile, self._upper_quantile = inside, quantile, upper_quantile

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
        z = (array_of(x) - loc) / scale
        if self._inside is None:
            found = formula(z, *shapes)
        else:
            inside = self._inside(z, *shapes)
            outside = np.where(z < 0.5, below, np.where(z > 0.5, above, z))  # of no number there is none
            found = np.where(inside, formula(np.where(inside, z, 0.5), *shapes), outside)
        return valid(found, all_positive(*shapes, scale))

    def ppf(self, q: Any, *parameters: Any, **named: Any) -> Any:
        """The quantile function."""
        return self._at("ppf", "cdf", self._quantile, q, parameters, named)

    def isf(self, q: Any, *parameters: Any, **named: Any) -> Any:
        """The inverse of `sf`, exact also where q is tiny."""
        return self._at("isf", "sf", self._upper_quantile, q, parameters, named)

    def _at(
        self,
        name: str,
        inverse: str,
        formula: Formula | None,
        q: Any,
        parameters: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """A formula of probabilities, from the standardised variable back to that of the family."""
        if formula is None:
            raise ArgumentError(
                f"{self.name}.{name} is not there; use hesse.root of {self.name}.{inverse}(x) - q"
            )
        shapes, loc, scale = self._arguments(parameters, named)
        q = array_of(q)
        inside = is_probability(q)
        found = loc + scale * formula(np.where(inside, q, 0.5), *shapes)
        return valid(found, inside & all_positive(*shapes, scale))


class Discrete:
    """A family of distributions of whole numbers, by the parameters of its masses.

    `cumulative` and `survival` are formulas in whole numbers, `inside(k, *shapes)` says between which numbers
    there are masses, `is_valid(*shapes)` if there are any.
    """

    def __init__(
        self,
        name: str,
        shapes: tuple[str, ...],
        log_mass: Formula,
        cumulative: Formula,
        survival: Formula,
        inside: Formula,
        is_valid: Formula,
    ) -> None:
        self.name, self.shapes = name, shapes
        self._log_mass, self._cumulative, self._survival = log_mass, cumulative, survival
        self._inside, self._is_valid = inside, is_valid

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def logpmf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the probability of k."""
        shapes, loc, _ = _arguments(self.name, self.shapes, ("loc",), parameters, named)
        k = array_of(k) - loc
        inside = self._inside(k, *shapes) & np.equal(np.floor(k), k)
        outside = np.where(np.equal(k, k), -np.inf, np.nan)
        found = np.where(inside, self._log_mass(np.where(inside, k, 1.0), *shapes), outside)
        return valid(found, self._is_valid(*shapes))

    def pmf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The probability of k."""
        return np.exp(self.logpmf(k, *parameters, **named))

    def cdf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The probability of k and of all that is less."""
        return self._summed(self._cumulative, 0.0, 1.0, k, parameters, named)

    def sf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The probability of all that is more than k, exact also where that is tiny."""
        return self._summed(self._survival, 1.0, 0.0, k, parameters, named)

    def logcdf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of the distribution function."""
        return np.log(self.cdf(k, *parameters, **named))

    def logsf(self, k: Any, *parameters: Any, **named: Any) -> Any:
        """The logarithm of one less the distribution function."""
        return np.log(self.sf(k, *parameters, **named))

    def _summed(
        self,
        formula: Formula,
        below: float,
        above: float,
        k: Any,
        parameters: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """A formula between the first and the last whole number, and what holds on both sides of them."""
        shapes, loc, _ = _arguments(self.name, self.shapes, ("loc",), parameters, named)
        k = np.floor(array_of(k) - loc)
        inside = self._inside(k, *shapes) & np.less(k, np.inf)
        outside = np.where(k < 1.0, below, np.where(k >= 1.0, above, k))  # of no number there is none
        found = np.where(inside, formula(np.where(inside, k, 1.0), *shapes), outside)
        return valid(found, self._is_valid(*shapes))


def array_of(values: Any) -> Any:
    """The array that a list stands for."""
    if not isinstance(values, list | tuple):
        return values
    return joined(values) if is_traced(values) else np.asarray(values)


def is_probability(p: Any) -> Any:
    """Whether numbers are between 0 and 1."""
    return np.greater_equal(p, 0.0) & np.less_equal(p, 1.0)


def all_positive(*values: Any) -> Any:
    """Whether all of some values are positive, entry by entry."""
    return functools.reduce(np.logical_and, [np.greater(value, 0.0) for value in values])


def valid(found: Any, is_valid: Any) -> Any:
    """What was found, but no number where something is not valid; nor are there derivatives."""
    if isinstance(is_valid, np.bool_ | np.ndarray) and np.all(is_valid):
        return found
    return found * np.where(is_valid, 1.0, np.nan)


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
    values = {key: array_of(value) for key, value in values.items()}
    missing = [shape for shape in shapes if shape not in values]
    if missing:
        raise ArgumentError(f"{name} needs the parameter {missing[0]}")
    return [values[shape] for shape in shapes], values["loc"], values["scale"]
