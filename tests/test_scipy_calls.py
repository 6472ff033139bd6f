"""Functions of SciPy in traced code as it stands: values are SciPy's, derivatives agree with differences."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from math import atan2, exp
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg as sl
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
from numpy import asarray, sqrt
from scipy.special import logsumexp, softmax
from scipy.stats import norm

import hesse
from hesse.api import scipy_calls
from hesse.errors import ArgumentError, TracingError
from test_numpy_meaning import agrees

POINT = np.array([0.9, 1.7, 0.4])
SQUARE = np.array([[0.3, -1.2, 0.5], [0.7, 0.2, -0.4], [1.1, 0.6, 0.9]])
DEFINITE = SQUARE @ SQUARE.T + np.diag([1.0, 2.0, 3.0])
WEIGHTS = np.cos(np.arange(30.0))
COUNTS = np.array([0, 2, 5])
STAND_INS: dict[Any, dict[str, Callable[..., Any]]] = {
    scipy.special: scipy_calls.SPECIAL,
    sl: scipy_calls.LINEAR_ALGEBRA,
    scipy.fft: scipy_calls.FOURIER,
    scipy.signal: scipy_calls.SIGNALS,
    scipy.spatial.distance: scipy_calls.DISTANCES,
}
NORMAL = scipy.stats.multivariate_normal(POINT, DEFINITE)
PARTS = scipy.stats.dirichlet([2.0, 3.0, 1.5])
LOG_DENSITY = scipy.stats.norm.logpdf


def weighted(y: Any) -> Any:
    """A number that tells all entries apart."""
    return np.sum(np.sin(y) * WEIGHTS[: np.size(y)].reshape(np.shape(y)))


def frozen(x: Any) -> Any:
    return np.sum(
        scipy.stats.norm(x[0], x[1]).logpdf(COUNTS) + scipy.stats.gamma(x[1], scale=x[2]).logpdf(1.5)
    )


def imported_inside(x: Any) -> Any:
    from scipy.special import log_softmax  # noqa: PLC0415

    return log_softmax(x)[1] ** 2


class Model:
    """Methods that call functions which were imported by name."""

    def __init__(self, scale: float) -> None:
        self.scale, self.calls = scale, 0

    def energy(self, x: Any) -> Any:
        return logsumexp(self.scale * x)

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return self.energy(x) ** 2


def by_closure() -> Callable[[Any], Any]:
    from scipy.special import log_softmax as function  # noqa: PLC0415

    return lambda x: weighted(function(x))


def pivoted(a: Any) -> Any:
    lu = sl.cho_factor(a, lower=True)
    return weighted(sl.cho_solve(lu, a[0]))


def triangles(a: Any) -> Any:
    lower = sl.solve_triangular(a, a[0], lower=True, check_finite=False)
    return weighted(lower) + weighted(sl.solve_triangular(a, a[1], trans="T", unit_diagonal=True))


def least_squares(a: Any) -> Any:
    x, residual, _, values = sl.lstsq(a[:, :2], a[:, 2])
    return weighted(x) + residual + weighted(values)


def two_matrices(a: Any) -> Any:
    values, vectors = sl.eigh(a + a.T, a @ a.T + np.eye(3))
    return weighted(values) + weighted(vectors**2) + weighted(sl.eigvalsh(a, np.eye(3) + a.T @ a))


CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "logsumexp": (lambda x: scipy.special.logsumexp(x) ** 2, POINT),
    "logsumexp along axes": (
        lambda a: weighted(logsumexp(a, axis=1, keepdims=True)) + logsumexp(a, (0, 1)),
        SQUARE,
    ),
    "logsumexp with factors": (lambda x: scipy.special.logsumexp(x, b=[0.5, 2.0, 0.0]) ** 3, POINT),
    "logsumexp of a list": (lambda x: logsumexp([x[0], 1.0, x[1] * x[2]]), POINT),
    "softmax": (lambda x: weighted(softmax(x)), POINT),
    "softmax along an axis": (lambda a: weighted(softmax(a, axis=0)), SQUARE),
    "softmax of a matrix": (lambda a: weighted(softmax(a)), SQUARE),
    "log_softmax": (lambda a: weighted(scipy.special.log_softmax(a, axis=-1)), SQUARE),
    "multigammaln": (lambda x: scipy.special.multigammaln(x[0] + 3.0, 3), POINT),
    "polygamma": (lambda x: weighted(scipy.special.polygamma(1, x)), POINT),
    "factorial": (lambda x: weighted(scipy.special.factorial(x)), POINT),
    "comb": (lambda x: weighted(scipy.special.comb(x + 3.0, 1.5)), POINT),
    "comb of nothing": (
        lambda x: weighted(scipy.special.comb(x, [-0.5, 0.3, 2.5])) + weighted(scipy.special.comb(-x, 0.5)),
        POINT,
    ),
    "observations in lists": (
        lambda x: weighted(scipy.stats.poisson.logpmf([1, 2, 3], np.exp(x)))
        + weighted(scipy.stats.norm.logpdf([1, 0, 2], loc=(1, 2, 3), scale=np.exp(x)))
        + weighted(scipy.stats.norm([1, 2, 3], np.exp(x)).logcdf([1.0, 0.0, 2.0]))
        + weighted(scipy.stats.norm.logsf((x[0], 1.0, x[1]), loc=(x[2], x[0], 0.0))),
        POINT,
    ),
    "solve": (lambda a: weighted(sl.solve(a, a[0])), SQUARE),
    "solve of one triangle": (lambda a: weighted(sl.solve(a, a[0], assume_a="pos")), DEFINITE),
    "solve of the lower triangle": (lambda a: weighted(sl.solve(a, a, lower=True, assume_a="sym")), DEFINITE),
    "solve of some diagonals": (
        lambda a: sum(
            weighted(sl.solve(a, a[0], assume_a=structure, transposed=transposed))
            for structure in ("diagonal", "tridiagonal", "lower triangular", "upper triangular", "gen", None)
            for transposed in (False, True)
        ),
        DEFINITE + SQUARE,
    ),
    "solve transposed": (lambda a: weighted(sl.solve(a, a[:, 1], transposed=True)), SQUARE),
    "triangles": (triangles, SQUARE + 2.0 * np.eye(3)),
    "Cholesky": (lambda a: weighted(sl.cholesky(a)) + weighted(sl.cholesky(a, lower=True)), DEFINITE),
    "solve by Cholesky": (pivoted, DEFINITE),
    "eigenvalues": (lambda a: weighted(sl.eigvalsh(a)) + weighted(sl.eigh(a, lower=False)[0]), DEFINITE),
    "eigenvalues of two matrices": (two_matrices, SQUARE),
    "functions of a matrix": (
        lambda a: sl.det(a) + weighted(sl.inv(a)) + sl.norm(a) + sl.norm(a, 1) + weighted(sl.pinv(a)),
        SQUARE,
    ),
    "decompositions": (
        lambda a: weighted(sl.svd(a, compute_uv=False)) + weighted(sl.svdvals(a)) + weighted(sl.qr(a)[1]),
        SQUARE,
    ),
    "narrow decompositions": (
        lambda a: weighted(sl.qr(a[:, :2], mode="economic")[0]) + weighted(sl.qr(a[:, :2], mode="r")[0]),
        SQUARE,
    ),
    "least squares": (least_squares, SQUARE),
    "expm, logm, sqrtm": (
        lambda a: weighted(sl.expm(a / 3.0)) + weighted(sl.logm(a)) + weighted(sl.sqrtm(a)),
        DEFINITE,
    ),
    "patterns": (
        lambda x: (
            weighted(sl.toeplitz(x, x**2)) + weighted(sl.circulant(x)) + weighted(sl.hankel(x)) +
            weighted(sl.hankel(x, [9.0, 1.0, 2.0, 3.0])) + weighted(sl.block_diag(x[:2], [[1.0, 2.0]]))
        ),
        POINT,
    ),
    "solve with constant diagonals": (
        lambda x: weighted(sl.solve_toeplitz(x + 3.0, x)) + sl.solve_toeplitz((x + 3, x), [1, 2, x[0]])[0],
        POINT,
    ),
    "solve with bands": (lambda a: weighted(sl.solve_banded((1, 1), a + 2.0, [1.0, 2.0, 3.0])), SQUARE),
    "solve with more bands": (lambda a: weighted(sl.solve_banded((2, 0), a + 2.0, a)), SQUARE),
    "Sylvester": (lambda a: weighted(sl.solve_sylvester(a, a[:2, :2] + 3.0 * np.eye(2), a[:, :2])), SQUARE),
    "Lyapunov": (
        lambda a: (
            weighted(sl.solve_continuous_lyapunov(a, a.T)) + weighted(sl.solve_discrete_lyapunov(a / 4, a))
        ),
        SQUARE + 2.0 * np.eye(3),
    ),
    "distances": (
        lambda a: sum(
            weighted(scipy.spatial.distance.cdist(a, a[:2] * 2.0, metric))
            for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev")
        ),
        SQUARE,
    ),
    "distances of one set": (
        lambda a: (
            weighted(np.exp(-scipy.spatial.distance.cdist(a, a))) +
            weighted(scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(a)))
        ),
        SQUARE,
    ),
    "cosine transform": (
        lambda a: weighted(scipy.fft.dct(a, axis=0)) + weighted(scipy.fft.idct(a, norm="ortho")),
        SQUARE,
    ),
    "convolution": (
        lambda a: sum(
            weighted(scipy.signal.convolve(a, a[:2, 1:], mode, method="direct")) + weighted(
                scipy.signal.convolve2d(a[:2], a[:, :2] ** 2, mode if mode != "valid" else "full")
            )
            for mode in ("full", "same", "valid")
        ),
        SQUARE,
    ),
    "correlation": (
        lambda a: weighted(scipy.signal.correlate(a[0], a[1, :2])) + weighted(
            scipy.signal.correlate(a, a[1:, 1:], "same")) + weighted(scipy.signal.fftconvolve(a[0], a[1])),
        SQUARE,
    ),
    "convolution of even sizes": (
        lambda a: sum(
            weighted(function(a @ a[:, :columns], (a[:rows] ** 2)[:, :width], "same"))
            for function in (
                scipy.signal.correlate2d,
                scipy.signal.correlate,
                scipy.signal.convolve2d,
                scipy.signal.convolve,
            )
            for rows, width in ((2, 2), (2, 3), (1, 2), (3, 2))
            for columns in (2, 3)
        ),
        SQUARE,
    ),
    "Fourier transform": (lambda x: np.sum(np.abs(scipy.fft.fft(x)) ** 3) + scipy.fft.rfft(x).real[1], POINT),
    "further Fourier transforms": (
        lambda x: np.sum(
            scipy.fft.irfftn(2j * scipy.fft.rfftn(x**2)) ** 2
            + scipy.fft.irfft2(scipy.fft.rfft2(np.outer(x, x)), s=(len(x),) * 2)[0] ** 3
        )
        + np.sum(np.abs(scipy.fft.ihfft(scipy.fft.hfft(x, norm="ortho"))) ** 2),
        np.append(POINT, 0.7)[: 2 * (len(POINT) // 2)],
    ),
    "distributions": (
        lambda x: np.sum(
            scipy.stats.norm.logpdf(COUNTS, loc=x[0], scale=x[1]) + norm.cdf(COUNTS * x[2]) + norm.logsf(x)
        ),
        POINT,
    ),
    "shape parameters": (
        lambda x: (
            scipy.stats.beta.logpdf(0.3, x[0], x[1]) + scipy.stats.t.logpdf(x[2], df=x[0]) +
            scipy.stats.weibull_min.logpdf(1.5, x[0], scale=x[1])
        ),
        POINT,
    ),
    "discrete distributions": (
        lambda x: np.sum(
            scipy.stats.poisson.logpmf(COUNTS, mu=x[0]) + scipy.stats.nbinom.logpmf(COUNTS, x[1], x[2])
            + scipy.stats.binom.pmf(COUNTS, 6, x[2])
        ),
        POINT,
    ),
    "vectors": (
        lambda a: np.sum(scipy.stats.multivariate_normal.logpdf(SQUARE, a[0], a @ a.T + np.eye(3))),
        SQUARE,
    ),
    "frozen distributions": (frozen, POINT),
    "frozen distributions of vectors": (
        lambda a: (
            np.sum(scipy.stats.multivariate_normal(a[0], a @ a.T + np.eye(3)).logpdf(SQUARE))
            + scipy.stats.multivariate_normal(mean=a[1], cov=2.0, allow_singular=False).pdf(POINT)
            + np.sum(scipy.stats.multivariate_normal([1.0, a[0, 0], 2.0], seed=None).logpdf(POINT))
            + np.sum(NORMAL.logpdf(a) * NORMAL.pdf(a[1:2]))
            + scipy.stats.multivariate_normal.logpdf(a[0], POINT, DEFINITE, allow_singular=False)
        ),
        SQUARE,
    ),
    "parts of a whole": (
        lambda x: (
            scipy.stats.dirichlet(x).logpdf([0.2, 0.3, 0.5]) + scipy.stats.dirichlet(x**2).pdf([0.2, 0.3])
            + PARTS.logpdf(x[:2] / 4.0)
        ),
        POINT,
    ),
    "imported inside": (imported_inside, POINT),
    "methods": (Model(1.3), POINT),
    "closures": (by_closure(), POINT),
    "the function itself": (scipy.special.logsumexp, POINT),
    "the method itself": (scipy.stats.norm.logcdf, np.array(0.7)),
    "methods by name": (lambda x: np.sum(LOG_DENSITY(x, scale=x[1])), POINT),
    "math by name": (lambda x: exp(x[0]) * atan2(x[1], x[2]), POINT),
    "math": (lambda x: math.dist(x, [1.0, 2.0, x[0]]) + math.fsum(v**2 for v in [x[0], x[1]]), POINT),
    "arrays by name": (lambda x: np.sum(sqrt(asarray([x[0], 2.0]) ** 2 + x[1])), POINT),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_are_differentiated_as_they_are(name: str) -> None:
    function, point = CASES[name]
    agrees(function, point)


def test_functions_are_back_in_their_places() -> None:
    before = logsumexp, norm.logpdf, scipy.special.logsumexp, type(norm).__dict__.get("logpdf"), exp
    hesse.grad(lambda x: logsumexp(x) + norm.logpdf(x[0]) + exp(x[1]))(POINT)
    with pytest.raises(TracingError):
        hesse.grad(lambda x: logsumexp(x) + scipy.special.struve(x[0], x[1]))(POINT)
    after = logsumexp, norm.logpdf, scipy.special.logsumexp, type(norm).__dict__.get("logpdf"), exp
    assert before == after and before[2] is after[0]


def test_counters_of_an_object_count() -> None:
    model = Model(1.0)
    gradient = hesse.grad(model)
    gradient(POINT)
    assert model.calls > 0
    model.scale = 2.0
    np.testing.assert_allclose(gradient(POINT), hesse.grad(Model(2.0))(POINT))


def test_other_threads_see_no_difference() -> None:
    found: list[Any] = []

    def function(x: Any) -> Any:
        thread = threading.Thread(target=lambda: found.append((logsumexp(POINT), norm.logpdf(0.3))))
        thread.start()
        thread.join()
        inner = hesse.grad(lambda y: logsumexp(y * 2.0))(x)  # a trace inside of a trace
        return logsumexp(x) + np.sum(inner)

    hesse.grad(function)(POINT)
    assert found == [(logsumexp(POINT), norm.logpdf(0.3))]


SINGULAR = np.diag([2.0, 0.0, 0.5])
ON_SUPPORT = np.array([0.3, 0.0, -0.8])


@pytest.mark.parametrize("matrix", [SINGULAR, DEFINITE, SQUARE[:, :2] @ SQUARE[:, :2].T])
def test_covariances_may_be_singular_where_they_are_known(matrix: np.ndarray) -> None:
    basis = np.linalg.eigh(matrix)[1][:, np.linalg.eigvalsh(matrix) > 1e-9]
    fixed = scipy.stats.multivariate_normal(POINT, matrix, allow_singular=True)

    def density(c: Any) -> Any:
        x = POINT + basis @ c
        known = scipy.stats.multivariate_normal.pdf(x, POINT, matrix, allow_singular=True)
        return (
            fixed.logpdf(x) * known
            + scipy.stats.multivariate_normal.logpdf(
                np.array([x, 2.0 * x - POINT]), POINT, matrix, allow_singular=True
            ).sum()
        )

    at = np.array([0.4, -0.3, 0.2])[: basis.shape[1]]
    agrees(density, at)


def test_points_outside_of_a_singular_normal_distribution_have_no_density() -> None:
    def log_density(x: Any) -> Any:
        return scipy.stats.multivariate_normal.logpdf(x, np.zeros(3), SINGULAR, allow_singular=True)

    outside = ON_SUPPORT + np.array([0.0, 1e-3, 0.0])
    value, gradient = hesse.value_and_grad(log_density)(outside)
    assert value == log_density(outside) == -np.inf
    assert np.array_equal(gradient, np.zeros(3))
    assert hesse.value_and_grad(log_density)(ON_SUPPORT)[0] == pytest.approx(
        log_density(ON_SUPPORT), rel=1e-14
    )
    with pytest.raises(ArgumentError, match="allow_singular=True needs a covariance of known numbers"):
        hesse.grad(lambda c: scipy.stats.multivariate_normal.logpdf(ON_SUPPORT, None, c, True))(SINGULAR)
    with pytest.raises(ArgumentError, match="not positive semidefinite"):
        hesse.grad(lambda x: scipy.stats.multivariate_normal.logpdf(x, None, -SINGULAR, True))(ON_SUPPORT)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(TracingError, match=r"scipy\.special\.logsumexp, which computes with numbers"):
        hesse.grad(lambda x: logsumexp(x, return_sign=True)[0])(POINT)
    with pytest.raises(TracingError, match=r"scipy\.stats\.erlang\.logpdf, which computes with numbers"):
        hesse.grad(lambda x: scipy.stats.erlang.logpdf(1.5, 2, scale=x[1]))(POINT)  # derived from gamma
    with pytest.raises(TracingError, match=r"scipy\.stats\.multivariate_normal.*computes with numbers"):
        hesse.grad(lambda x: scipy.stats.multivariate_normal(x, 1.0, True).logpdf(POINT))(POINT)
    with pytest.raises(AttributeError, match="traced parameters has logpdf, pdf and entropy, and no rvs"):
        hesse.grad(lambda x: scipy.stats.multivariate_normal(x).rvs())(POINT)
    with pytest.raises(ArgumentError, match="the metric 'cosine' is not known for traced values"):
        hesse.grad(lambda a: np.sum(scipy.spatial.distance.cdist(a, a, "cosine")))(SQUARE)
    with pytest.raises(ArgumentError, match="poisson takes the parameters mu, loc"):
        hesse.grad(lambda x: scipy.stats.poisson.logpmf(2, x[0], scale=2.0))(POINT)
    with pytest.raises(TracingError, match=r"scipy\.linalg\.solve, which computes with numbers"):
        hesse.grad(lambda a: np.sum(sl.solve(a, a, assume_a="wide")))(SQUARE)
    with pytest.raises(TracingError, match=r"scipy\.linalg\.solve, which computes with numbers"):
        hesse.grad(lambda a: np.sum(sl.solve(a, a, False, False, False, True, "pos")))(SQUARE)
    with pytest.raises(TracingError, match=r"scipy\.signal\.correlate2d, which computes with numbers"):
        hesse.grad(lambda a: np.sum(scipy.signal.correlate2d(a, a, "some")))(SQUARE)


def test_positions_of_arguments_are_those_of_scipy() -> None:
    for module, functions in STAND_INS.items():
        for name, function in functions.items():
            known = inspect.signature(getattr(module, name)).parameters.values()
            found = [
                parameter
                for parameter in inspect.signature(function).parameters.values()
                if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            ]
            assert len(found) <= len(known), name
            for own, other in zip(found, known, strict=False):
                by_name = own.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
                assert not by_name or own.name.lower() == other.name.lower(), (name, own, other)
                assert by_name or other is next(iter(known)), (name, own, other)
                assert own.default == other.default, (name, own, other)
