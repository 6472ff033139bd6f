"""Distributions of SciPy in traced code: in the tails, outside of the support, for invalid parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import hesse
from hesse import stats
from hesse.api.scipy_calls import METHODS
from hesse.errors import ArgumentError
from test_stats import PARAMETERS

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy divides by scales that are zero
DISCRETE: dict[str, tuple[tuple[float, ...], ...]] = {
    "poisson": ((2.5,), (0.0,), (-1.0,)),
    "bernoulli": ((0.3,), (0.0,), (1.0,), (1.2,), (-0.1,)),
    "binom": ((5.0, 0.3), (0.0, 0.3), (5.0, 1.0), (4.5, 0.3), (-1.0, 0.3), (5.0, 1.2)),
    "nbinom": ((2.5, 0.3), (2.5, 1.0), (0.0, 0.3), (2.5, 0.0), (2.5, 1.2)),
    "geom": ((0.3,), (1.0,), (0.0,), (1.2,)),
}
COUNTS = np.array([-1.0, 0.0, 1.0, 2.0, 2.5, 5.0, 6.0, 80.0, np.nan])
SMALL = np.exp([-50.0, -20.0, -5.0, -0.5])
CONTINUOUS = [(name, method) for name in PARAMETERS for method in METHODS if "pmf" not in method]
QUANTILES = [name for name, method in CONTINUOUS if method == "ppf" and getattr(stats, name)._quantile]


def rows(name: str) -> np.ndarray:
    """Points, shapes, locations and scales: tails, both sides of the support, its ends, what is not valid."""
    shapes, family = PARAMETERS[name], getattr(scipy.stats, name)
    points = np.concatenate([family.ppf(SMALL, *shapes), family.isf(SMALL, *shapes)])
    found = [[point, *shapes, 0.0, 1.0] for point in (*points, -1.0, 0.0, 0.4, 1.0, 2.0, np.nan)]
    found += [[1.3 * point - 0.7, *shapes, -0.7, 1.3] for point in points]
    for slot in (*range(1, len(shapes) + 1), len(shapes) + 2):
        for wrong in (0.0, -1.5, np.nan):
            found.append([0.4, *shapes, 0.1, 1.3])
            found[-1][slot] = wrong
    return np.array(found)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize(("name", "method"), [pair for pair in CONTINUOUS if pair[1] not in ("ppf", "isf")])
def test_values_are_those_of_scipy(name: str, method: str) -> None:
    function = getattr(getattr(scipy.stats, name), method)
    value = hesse.compile(lambda row: function(*row))
    for row in rows(name):
        same(value(row), function(*row))
        same(hesse.compile(lambda x, row=row: function(x, *row[1:]))(row[0]), function(*row))
        with np.errstate(all="ignore"):
            same(getattr(getattr(stats, name), method)(*row), function(*row))


def slope(name: str, method: str, point: float, shapes: tuple[float, ...]) -> tuple[float, float]:
    """The derivative by SciPy's values, of densities by their differences, and how uncertain these are."""
    family = getattr(scipy.stats, name)
    logarithms = {"logcdf": family.logcdf, "logsf": family.logsf}
    if method in logarithms:
        sign = 1.0 if method == "logcdf" else -1.0
        return sign * np.exp(family.logpdf(point, *shapes) - logarithms[method](point, *shapes)), 1e-30
    if method in ("cdf", "sf"):
        return family.pdf(point, *shapes) * (1.0 if method == "cdf" else -1.0), 1e-30
    ends = np.array(family.support(*shapes))
    step = 1e-5 * min(np.min(np.abs(ends - point)), max(1.0, abs(point)))
    above, below = point + step, point - step
    values = getattr(family, method)(np.array([above, below]), *shapes)
    return (values[0] - values[1]) / (above - below), 4e-16 * abs(values[0]) / step


@pytest.mark.parametrize(("name", "method"), [pair for pair in CONTINUOUS if pair[1] not in ("ppf", "isf")])
def test_slopes_in_the_tails(name: str, method: str) -> None:
    shapes, family = PARAMETERS[name], getattr(scipy.stats, name)
    gradient = hesse.grad(lambda x: getattr(family, method)(x, *shapes))
    points = np.concatenate([family.ppf(SMALL, *shapes), family.isf(SMALL, *shapes)])
    inside = [point for point in points if point not in family.support(*shapes)]
    assert len(inside) >= 6
    for point in inside:
        expected, uncertain = slope(name, method, point, shapes)
        np.testing.assert_allclose(gradient(point), expected, rtol=1e-5, atol=uncertain)


@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_are_those_of_scipy(name: str, method: str) -> None:
    shapes, function = PARAMETERS[name], getattr(getattr(scipy.stats, name), method)
    value = hesse.compile(lambda row: function(*row))
    for q in (*SMALL, 0.9, 1.0 - 1e-10, 0.0, 1.0, -0.1, 1.1, np.nan):
        row = np.array([q, *shapes, 0.5, 2.0])
        same(value(row), function(*row))
    for slot in (*range(1, len(shapes) + 1), len(shapes) + 2):
        row = np.array([0.3, *shapes, 0.5, 2.0])
        row[slot] = -1.0
        same(value(row), function(*row))
    gradient = hesse.grad(lambda q: function(q, *shapes))
    for q in SMALL:
        expected = (1.0 if method == "ppf" else -1.0) / getattr(scipy.stats, name).pdf(
            function(q, *shapes), *shapes
        )
        np.testing.assert_allclose(gradient(q), expected, rtol=1e-8)


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize("name", DISCRETE)
def test_masses_are_those_of_scipy(name: str, method: str) -> None:
    function = getattr(getattr(scipy.stats, name), method)
    value, of_parameters = (
        hesse.compile(lambda row: function(*row)),
        hesse.compile(lambda p: function(COUNTS, *p)),
    )
    for shapes in DISCRETE[name]:
        with np.errstate(all="ignore"):
            expected = function(COUNTS, *shapes)
            if method == "logcdf":  # SciPy's is 0 beyond the last number, for invalid parameters, too
                expected = np.log(getattr(scipy.stats, name).cdf(COUNTS, *shapes))
        same(of_parameters(np.array(shapes)), expected)
        for k, one in zip(COUNTS, expected, strict=True):
            same(value(np.array([k, *shapes])), one)


def test_invalid_parameters_have_no_derivatives() -> None:
    for function in (
        lambda p: scipy.stats.norm.logpdf(0.3, 0.0, p),
        lambda p: scipy.stats.expon.cdf(-0.3, 0.0, p),
        lambda p: scipy.stats.gamma.logpdf(0.3, p),
        lambda p: scipy.stats.poisson.logpmf(3, p),
    ):
        assert np.isnan(hesse.grad(function)(-1.0))


MATRIX = np.array([[2.0, 9.0, 9.0], [0.3, 1.0, 9.0], [0.1, 0.2, 1.5]])


def test_vectors() -> None:
    function, points = scipy.stats.multivariate_normal.logpdf, np.cos(np.arange(12.0)).reshape(4, 3)
    for x, mean, cov in (
        (points, points[1], MATRIX),
        (points[0], points[1], MATRIX),
        (points[0], None, MATRIX),
        (points[0], None, 2.0),
        (points[0], points[1], 2.0),
        (points, points[1], MATRIX[:, 0]),
        (points[:, :1], 0.3, 2.0),
        (points.reshape(2, 2, 3), points[1], MATRIX),
        (0.3, None, 1.0),
    ):
        value = hesse.compile(lambda x, mean=mean, cov=cov: function(x, mean, cov))
        same(value(np.array(x)), function(x, mean, cov))
        same(stats.multivariate_normal.logpdf(x, mean, cov), function(x, mean, cov))
    with pytest.raises(ArgumentError, match=r"a covariance of shape \(3, 3\) do not fit to a mean of size 2"):
        hesse.compile(lambda x: function(x, [0.0, 1.0], MATRIX))(points[0, :2])
    gradient = hesse.grad(lambda cov: np.sum(function(points, points[1], cov)))(MATRIX)
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[place] = 1e-6
        sums = [np.sum(function(points, points[1], MATRIX + sign * step)) for sign in (1.0, -1.0)]
        np.testing.assert_allclose(gradient[place], (sums[0] - sums[1]) / 2e-6, rtol=1e-6, atol=1e-7)


def test_parts() -> None:
    function, alpha = scipy.stats.dirichlet.logpdf, np.array([1.5, 2.0, 0.7])
    for x in ([0.2, 0.3, 0.5], [0.2, 0.3], [[0.2, 0.1], [0.3, 0.3], [0.5, 0.6]], [[0.2, 0.1], [0.3, 0.3]]):
        same(hesse.compile(lambda alpha, x=x: function(x, alpha))(alpha), function(x, alpha))
        same(hesse.compile(lambda x: function(x, alpha))(np.array(x)), function(x, alpha))
    assert np.isnan(hesse.compile(lambda alpha: function([0.2, 0.3], alpha))(-alpha))
