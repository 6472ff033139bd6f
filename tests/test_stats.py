"""`hesse.stats` against `scipy.stats`, and functions of `scipy.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import hesse
from hesse import stats
from hesse.errors import ArgumentError, ShapeError
from test_coverage import random, weighted
from test_numpy_meaning import agrees

PARAMETERS: dict[str, tuple[float, ...]] = {
    **{name: () for name in ("norm", "expon", "laplace", "logistic", "cauchy", "uniform")},
    **{
        "gumbel_r": (),
        "halfnorm": (),
        "weibull_min": (1.6,),
        "lognorm": (0.7,),
        "gamma": (2.3,),
        "invgamma": (1.7,),
        "chi2": (3.0,),
        "beta": (2.0, 3.5),
        "t": (4.0,),
    },
}
POINTS = np.array([0.11, 0.42, 0.83])


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("method", ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"])
def test_distributions(name: str, method: str) -> None:
    shapes = PARAMETERS[name]
    own, known = getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)
    for x in (POINTS, 1.3 * POINTS - 0.2):
        with np.errstate(divide="ignore"):  # outside of the support
            found, expected = own(x, *shapes, scale=2.5), known(x, *shapes, scale=2.5)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(own(x, *shapes, -0.3, 1.9), known(x, *shapes, -0.3, 1.9), rtol=1e-10)
    agrees(lambda x: np.sum(own(x[:3], *shapes, x[3], x[4])), np.array([0.11, 0.42, 0.83, -0.3, 1.9]))


@pytest.mark.parametrize("name", [name for name, shapes in PARAMETERS.items() if shapes])
def test_shape_parameters(name: str) -> None:
    logpdf = getattr(stats, name).logpdf
    agrees(lambda p: np.sum(logpdf(POINTS, *p)), np.array(PARAMETERS[name]))


@pytest.mark.parametrize("name", ["norm", "expon", "logistic", "cauchy", "uniform", "gumbel_r"])
def test_quantiles(name: str) -> None:
    own, known = getattr(stats, name).ppf, getattr(scipy.stats, name).ppf
    np.testing.assert_allclose(own(POINTS, 0.5, 2.0), known(POINTS, 0.5, 2.0), rtol=1e-12)
    agrees(lambda q: np.sum(own(q, 0.5, 2.0)), POINTS)


def test_discrete_distributions() -> None:
    k = np.array([0.0, 1.0, 3.0])
    for own, known, point in (
        (lambda p: stats.poisson.logpmf(k, p[0]), lambda p: scipy.stats.poisson.logpmf(k, p[0]), [2.5]),
        (lambda p: stats.binom.logpmf(k, 5, p[0]), lambda p: scipy.stats.binom.logpmf(k, 5, p[0]), [0.3]),
        (lambda p: stats.nbinom.logpmf(k, *p), lambda p: scipy.stats.nbinom.logpmf(k, *p), [2.5, 0.3]),
        (lambda p: stats.geom.pmf(k + 1.0, p=p[0]), lambda p: scipy.stats.geom.pmf(k + 1.0, p=p[0]), [0.3]),
        (
            lambda p: stats.poisson.pmf(k, p[0], loc=-1),
            lambda p: scipy.stats.poisson.pmf(k, p[0], loc=-1),
            [2.5],
        ),
        (
            lambda p: stats.bernoulli.pmf(k[:2], p[0]),
            lambda p: scipy.stats.bernoulli.pmf(k[:2], p[0]),
            [0.3],
        ),
    ):
        np.testing.assert_allclose(own(point), known(point), rtol=1e-12)
        agrees(lambda p, own=own: np.sum(own(p)), np.array(point))


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize(
    ("name", "counts"),
    [("poisson", ()), ("binom", (5,)), ("nbinom", (2.5,)), ("geom", ()), ("bernoulli", ())],
)
def test_sums_of_masses(name: str, method: str, counts: tuple[float, ...]) -> None:
    """They do not depend on k between two whole numbers, and their slopes are those of the sums of masses."""
    k = np.array([0.4]) if name == "bernoulli" else np.array([1.0, 2.7, 3.0])
    own, known = getattr(stats, name), getattr(scipy.stats, name)
    with np.errstate(divide="ignore"):  # of bernoulli there is nothing beyond
        found = getattr(own, method)(k, *counts, 0.3, loc=-1)
    np.testing.assert_allclose(found, getattr(known, method)(k, *counts, 0.3, loc=-1))
    agrees(lambda p: np.sum(getattr(own, method)(k, *counts, p[0])), np.array([0.3]))
    masses = [known.pmf(np.arange(count + 1), *counts, 0.3) for count in np.floor(k).astype(int)]
    if method == "cdf":
        np.testing.assert_allclose(own.cdf(k, *counts, 0.3), [np.sum(mass) for mass in masses])


def test_lists_are_arrays() -> None:
    def f(p: Any) -> Any:
        known = scipy.stats.bernoulli.logpmf([0, 1, 1], p) + scipy.stats.norm.ppf([p[0], 0.5, p[2]])
        return np.sum(known * scipy.stats.norm.logpdf([p[1], 1.0, 2.0], [0.0, p[0], 1.0], [2.0, 1.0, p[2]]))

    p = np.array([0.3, 0.4, 0.6])
    np.testing.assert_allclose(hesse.compile(f)(p), f(p), rtol=1e-12)
    differences = [(f(p + step) - f(p - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(hesse.grad(f)(p), differences, rtol=1e-7)
    for method in ("logpmf", "cdf"):
        own, known = getattr(hesse.stats.poisson, method), getattr(scipy.stats.poisson, method)
        np.testing.assert_allclose(own([1, 2], [0.5, 1]), known([1, 2], [0.5, 1]))
    alpha = [1.5, 2.0, 0.7]
    np.testing.assert_allclose(stats.dirichlet.entropy(alpha), scipy.stats.dirichlet.entropy(alpha))


def test_multivariate_normal() -> None:
    points, mean = random(4, 3), np.array([0.1, -0.2, 0.3])
    matrix = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]])
    own, known = stats.multivariate_normal.logpdf, scipy.stats.multivariate_normal.logpdf
    np.testing.assert_allclose(own(points, mean, matrix), known(points, mean, matrix), rtol=1e-12)
    np.testing.assert_allclose(own(points[0], mean, 2.0), known(points[0], mean, 2.0), rtol=1e-12)
    agrees(lambda m: np.sum(own(points, m[0], matrix + m[1:].T @ m[1:])), random(4, 3) / 3)
    entropy, expected = stats.multivariate_normal.entropy, scipy.stats.multivariate_normal.entropy
    variances = np.array([1.0, 2.0, 3.0])
    for parameters in ((mean, matrix), (None, matrix), (mean, 2.0), (None, 2.0), (mean, variances)):
        np.testing.assert_allclose(entropy(*parameters), expected(*parameters), rtol=1e-12)
    agrees(lambda m: scipy.stats.multivariate_normal.entropy(mean, matrix + m.T @ m), random(4, 3) / 3)
    agrees(lambda m: scipy.stats.multivariate_normal(cov=matrix + m.T @ m).entropy(), random(4, 3) / 3)


def test_dirichlet() -> None:
    parts, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 0.7])
    expected = scipy.stats.dirichlet.logpdf(parts, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(parts, alpha), expected, rtol=1e-12)
    agrees(lambda x: stats.dirichlet.pdf(x[:3], x[3:]), np.concatenate([parts, alpha]))
    expected = scipy.stats.dirichlet.entropy(alpha)
    np.testing.assert_allclose(stats.dirichlet.entropy(alpha), expected, rtol=1e-12)
    np.testing.assert_allclose(hesse.compile(scipy.stats.dirichlet.entropy)(alpha), expected, rtol=1e-12)
    agrees(scipy.stats.dirichlet.entropy, alpha)


def test_outside_of_the_support_the_density_is_zero() -> None:
    x = np.array([-1.0, 0.5, 2.0])
    for name in ("expon", "uniform", "gamma", "beta", "lognorm", "halfnorm"):
        own, known = getattr(stats, name), getattr(scipy.stats, name)
        shapes = PARAMETERS[name]
        np.testing.assert_allclose(own.logpdf(x, *shapes), known.logpdf(x, *shapes), rtol=1e-12)
        np.testing.assert_array_equal(np.isfinite(hesse.grad(lambda x: np.sum(own.pdf(x, *shapes)))(x)), True)  # noqa: B023


def test_parameters_are_checked() -> None:
    with pytest.raises(ArgumentError, match="norm takes the parameters loc, scale"):
        stats.norm.logpdf(0.0, 0.0, 1.0, 2.0)
    with pytest.raises(ArgumentError, match="gamma needs the parameter a"):
        stats.gamma.logpdf(0.5)
    with pytest.raises(ArgumentError, match=r"t\.ppf is not there; use hesse\.root"):
        stats.t.ppf(0.5, 3.0)


DEFINITE = random(3, 3) @ random(3, 3).T + 3.0 * np.eye(3)
MATRICES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "sqrtm": (lambda a: weighted(hesse.sqrtm(a)), DEFINITE),
    "sqrtm at equal eigenvalues": (lambda a: weighted(hesse.sqrtm(a)), 2.0 * np.eye(2)),
    "logm": (lambda a: weighted(hesse.logm(a)), DEFINITE[:2, :2]),
    "logm at equal eigenvalues": (lambda a: weighted(hesse.logm(a)), 2.0 * np.eye(2)),
    "cho_solve": (lambda a: weighted(hesse.cho_solve(hesse.cho_factor(a), POINTS)), DEFINITE),
    "cho_solve of the lower": (lambda a: weighted(hesse.cho_solve(hesse.cho_factor(a, True), a)), DEFINITE),
    "toeplitz": (lambda x: weighted(hesse.toeplitz(x, x[:2] ** 2)), POINTS),
    "symmetric toeplitz": (lambda x: weighted(hesse.toeplitz(x**2)), POINTS),
    "block_diag": (lambda x: weighted(hesse.block_diag(x[:2], np.outer(x, x), 2.0)), POINTS),
}


@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices(name: str) -> None:
    function, point = MATRICES[name]
    agrees(function, point)


def test_they_are_those_of_scipy() -> None:
    np.testing.assert_allclose(hesse.sqrtm(DEFINITE), scipy.linalg.sqrtm(DEFINITE), rtol=1e-12)
    np.testing.assert_allclose(hesse.logm(DEFINITE), scipy.linalg.logm(DEFINITE), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(hesse.toeplitz(POINTS), scipy.linalg.toeplitz(POINTS))
    np.testing.assert_array_equal(hesse.toeplitz(POINTS, [9, 1.0]), scipy.linalg.toeplitz(POINTS, [9, 1.0]))
    blocks = (POINTS, DEFINITE, 2.0)
    np.testing.assert_array_equal(hesse.block_diag(*blocks), scipy.linalg.block_diag(*blocks))
    for lower in (True, False):
        np.testing.assert_allclose(
            hesse.cho_solve(hesse.cho_factor(DEFINITE, lower), POINTS), np.linalg.solve(DEFINITE, POINTS)
        )


def test_matrices_without_a_real_root() -> None:
    with pytest.raises(ArgumentError, match="sqrtm: the matrix has no real one"):
        hesse.sqrtm(np.diag([1.0, -1.0]))
    with pytest.raises(ArgumentError, match=r"logm needs a square matrix, not the shape \(2, 3\)"):
        hesse.logm(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"toeplitz needs vectors, not the shapes \(2, 2\)"):
        hesse.toeplitz(np.ones((2, 2)))


QUANTILES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(["norm", "expon", "logistic", "cauchy", "uniform", "gumbel_r"], ()),
    "weibull_min": (1.7,),
}


@pytest.mark.parametrize("name", QUANTILES)
def test_upper_quantiles_and_their_derivatives_also_in_the_tail(name: str) -> None:
    """By `sf(isf(q)) = q` the derivative is one by the density, which SciPy has."""
    ours, theirs, shapes = getattr(stats, name), getattr(scipy.stats, name), QUANTILES[name]
    q = np.array([1e-100, 1e-12, 1e-3, 0.3, 0.6, 0.999])
    q = q[1:] if name == "uniform" else q
    expected = theirs.isf(q, *shapes, loc=0.5, scale=2.0)
    np.testing.assert_allclose(ours.isf(q, *shapes, loc=0.5, scale=2.0), expected, rtol=1e-12)
    found = hesse.grad(lambda p: np.sum(theirs.isf(p, *shapes, loc=0.5, scale=2.0)))(q)
    log_density = theirs.logpdf(expected, *shapes, loc=0.5, scale=2.0)
    np.testing.assert_allclose(found * np.exp(log_density), -1.0, rtol=1e-8)
    by_scale = hesse.grad(lambda s: theirs.isf(0.2, *shapes, 0.5, s))(2.0)
    np.testing.assert_allclose(by_scale, theirs.isf(0.2, *shapes), rtol=1e-12)
    assert np.isnan(ours.isf(1.5, *shapes))


POINT = np.array([0.3, 0.7, 1.2])
OF_LISTS: dict[str, Callable[[Any], Any]] = {
    "points": lambda x: stats.norm.logpdf((x[0], x[1]), 0.0, [x[2], 1.0]),
    "probabilities": lambda x: stats.norm.isf([0.1, x[0]]),
    "parameters": lambda x: stats.poisson.cdf([1, 2], (x[0], x[1])),
    "vectors": lambda x: stats.multivariate_normal.logpdf(
        (x[0], x[1]), (0.0, x[2]), [[2.0, 0.5], [0.5, 1.0]]
    ),
    "parts": lambda x: stats.dirichlet.logpdf((x[0], 1.0 - x[0]), (x[1], x[2])),
}


@pytest.mark.parametrize("name", OF_LISTS)
def test_lists_of_traced_numbers(name: str) -> None:
    function = OF_LISTS[name]
    agrees(lambda x: np.sum(np.sin(function(x))), POINT)


def test_entropies_of_sizes_that_do_not_fit() -> None:
    for mean, cov in ((0.0, np.eye(3)), (np.zeros(3), [[2.0]]), (np.zeros(3), np.ones(2))):
        with pytest.raises(ArgumentError, match="does not fit to a mean of size"):
            stats.multivariate_normal.entropy(mean, cov)


@pytest.mark.parametrize("name, shapes", [("poisson", (2.5,)), ("nbinom", (3.0, 0.4)), ("geom", (0.3,))])
def test_all_numbers_are_below_infinity(name: str, shapes: tuple[float, ...]) -> None:
    ours = getattr(stats, name)
    for method, expected in (("cdf", 1.0), ("sf", 0.0)):
        function = lambda p, m=method: getattr(ours, m)(np.inf, *shapes[:-1], p)  # noqa: E731
        assert function(shapes[-1]) == expected
        assert hesse.grad(function)(shapes[-1]) == 0.0
