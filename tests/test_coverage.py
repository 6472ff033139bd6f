"""Functions of NumPy: values against NumPy, gradients and Hessians against differences, at two points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from test_numpy_meaning import agrees

Case = tuple[Callable[[Any], Any], np.ndarray]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=shape)


X = np.array([0.3, 1.2, 2.7, -0.8, 1.9])
POSITIVE = np.abs(X) + 0.1
TALL, WIDE, SQUARE = random(4, 3), random(2, 4), random(3, 3)
PARTS = (0.0, 0.1, 0.37, 0.9, 1.0)
BETWEEN = ("hazen", "weibull", "median_unbiased", "normal_unbiased", "interpolated_inverted_cdf")
WEIGHTS = np.arange(1.0, 200.0)


def weighted(y: Any) -> Any:
    """A number that tells all entries apart."""
    return np.sum(np.sin(y) * WEIGHTS[: np.size(y)].reshape(np.shape(y)))


def missing(x: Any) -> Any:
    """The entries of x among some that are no numbers."""
    return np.concatenate([x[:1], [np.nan], x[1:], [np.nan]])


def complement(u: Any) -> Any:
    """What is left of four dimensions after the first three columns."""
    return u[:, 3:] @ u[:, 3:].T


CASES: dict[str, Case] = {
    "angle of real numbers": (lambda x: np.sum(np.angle(x) * x + np.real_if_close(x) ** 2), X),
    "nansum": (lambda x: np.nansum(missing(x) ** 2), X),
    "nanmean": (lambda x: np.nanmean(missing(x) ** 2), X),
    "nanvar": (lambda x: np.nanvar(missing(x) ** 2), X),
    "nanstd": (lambda x: np.nanstd(missing(x), ddof=1), X),
    "nanmax": (lambda x: np.nanmax(missing(x) ** 2), X),
    "nanmin": (lambda x: np.nanmin(missing(x) ** 3), X),
    "nanprod": (lambda x: np.nanprod(missing(x) ** 2), X),
    "nancumsum": (lambda x: weighted(np.nancumsum(missing(x) ** 2)), X),
    "nan_to_num": (lambda x: weighted(np.nan_to_num(missing(x) ** 2, nan=0.7)), X),
    "nanmean axis": (
        lambda x: weighted(
            np.nanmean(np.stack([missing(x[0]), missing(x[1])[::-1]]) ** 2, axis=0, keepdims=True)[:, 1:-1]
        ),
        random(2, 5),
    ),
    "quantile": (lambda x: np.quantile(x**2, 0.3), X),
    "quantiles": (lambda x: weighted(np.quantile(x**2, [0.1, 0.5, 0.9], axis=0)), random(5, 2)),
    "perc": (lambda x: np.percentile(x**2, 85, method="lower"), X),
    "percm": (lambda x: np.percentile(x**2, 33, method="midpoint", keepdims=True)[0], X),
    "percn": (lambda x: np.percentile(x**2, 33, method="nearest"), X),
    "median": (lambda x: np.median(x**2), X),
    "cov": (lambda x: weighted(np.cov(x)), TALL),
    "cov y": (lambda x: weighted(np.cov(x[0], x[1])), TALL),
    "cov T": (lambda x: weighted(np.cov(x, rowvar=False, bias=True)), TALL),
    "corrcoef": (lambda x: weighted(np.corrcoef(x)), TALL),
    "cov1": (np.cov, X),
    "linspace": (lambda x: weighted(np.linspace(x[0], x[1], 5)), X),
    "linspace2": (lambda x: weighted(np.linspace(x[0], x[1], 5, endpoint=False)), X),
    "linspace3": (lambda x: weighted(np.linspace(x[:2], x[2:4], 4, axis=1)), X),
    "linspace4": (lambda x: weighted(np.linspace(0.0, x[1], 4, retstep=True)[0]), X),
    "logspace": (lambda x: weighted(np.logspace(x[0], x[1], 5)), X / 5),
    "geomspace": (lambda x: weighted(np.geomspace(x[0], x[1], 5)), POSITIVE),
    "gradient": (lambda x: weighted(np.gradient(x**2)), X),
    "gradient2": (lambda x: weighted(np.gradient(x**2, 0.3, edge_order=2)), X),
    "gradient coords": (
        lambda x: weighted(np.gradient(x**2, np.array([0.0, 1.0, 1.5, 3.0, 4.0]), edge_order=2)),
        X,
    ),
    "gradient axes": (lambda x: weighted(np.stack(np.gradient(x**2))), TALL),
    "gradient axis": (lambda x: weighted(np.gradient(x**2, axis=1)), TALL),
    "interp": (
        lambda x: weighted(
            np.interp(x, np.array([-2.0, 0.0, 1.0, 2.0, 3.0]), np.array([1.0, 3.0, 0.0, 2.0, 5.0]))
        ),
        X,
    ),
    "interp fp": (
        lambda x: weighted(
            np.interp(np.array([-1.0, 0.1, 0.5, 2.5, 9.0]), np.array([0.0, 1.0, 2.0, 3.0, 4.0]), x)
        ),
        X,
    ),
    "interp xp": (
        lambda x: weighted(
            np.interp(
                np.array([-1.0, 0.1, 0.5, 2.5, 9.0]),
                np.cumsum(x),
                np.array([1.0, 3.0, 0.0, 2.0, 5.0]),
                left=-1.0,
            )
        ),
        POSITIVE,
    ),
    "polyval": (lambda x: np.polyval(x, 0.7), X),
    "polyval x": (lambda x: weighted(np.polyval([1.0, 2.0, 3.0], x)), X),
    "P.polyval": (lambda x: np.sum(np.polynomial.polynomial.polyval(x, [1.0, 2.0, 3.0])), X),
    "cheb": (lambda x: np.sum(np.polynomial.chebyshev.chebval(x, [1.0, 2.0, 3.0, 4.0])), X),
    "cheb c": (lambda x: np.polynomial.chebyshev.chebval(0.3, x), X),
    "leg": (lambda x: np.sum(np.polynomial.legendre.legval(x, [1.0, 2.0, 3.0, 0.5])), X),
    "herm": (lambda x: np.sum(np.polynomial.hermite.hermval(x, [1.0, 2.0, 3.0, 0.5])), X),
    "lag": (lambda x: np.sum(np.polynomial.laguerre.lagval(x, [1.0, 2.0, 3.0, 0.5])), X),
    "Polynomial": (lambda x: np.sum(np.polynomial.Polynomial([1.0, 2.0, 3.0])(x)), X),
    "polyder": (lambda x: weighted(np.polyder(x, 2)), X),
    "polyint": (lambda x: weighted(np.polyint(x, 2)), X),
    "polymul": (lambda x: weighted(np.polymul(x, x[:2])), X),
    "polyadd": (lambda x: weighted(np.polyadd(x**2, x[:2])), X),
    "vander": (lambda x: weighted(np.vander(x, 4)), X),
    "vander inc": (lambda x: weighted(np.vander(x, increasing=True)), X),
    "piecewise": (
        lambda x: weighted(np.piecewise(x, [x < 0, x > 1], [lambda x: -(x**3), lambda x: x**2, 0.5])),
        X,
    ),
    "sinc": (lambda x: weighted(np.sinc(x)), X),
    "sinc0": (lambda x: np.sum(np.sinc(x)), np.array([0.0, 1e-4, 0.3, 0.32, 5.0])),
    "unwrap": (lambda x: weighted(np.unwrap(x * 7)), X),
    "fmax": (lambda x: weighted(np.fmax(missing(x), 0.5)), X),
    "fmin": (lambda x: weighted(np.fmin(0.5, missing(x))), X),
    "copysign": (lambda x: weighted(np.copysign(x**2 + 1, [-1.0, 1, 1, -1, 2])), X),
    "logaddexp2": (lambda x: weighted(np.logaddexp2(x, x[::-1] ** 2)), X),
    "insert": (lambda x: weighted(np.insert(x**2, 2, x[0])), X),
    "delete": (lambda x: weighted(np.delete(x**2, [1, 3])), X),
    "ediff1d": (lambda x: weighted(np.ediff1d(x**2, to_begin=x[0])), X),
    "insert several": (lambda x: weighted(np.insert(x**2, [1, 3, 1], [x[0], 2.0, x[1]])), X),
    "insert slice": (lambda x: weighted(np.insert(x**2, slice(0, 2), x[4])), X),
    "insert mask": (lambda x: weighted(np.insert(x**2, X > 1, 3.0)), X),
    "insert columns": (lambda x: weighted(np.insert(x**2, [0, 2], [[1.0], [2.0], [3.0]], axis=1)), SQUARE),
    "nanargmax": (lambda x: x[np.nanargmax(missing(x)[:4])] ** 2 + x[np.nanargmin(x)] ** 3, X),
    "cov weights": (lambda x: weighted(np.cov(x**2, fweights=[1, 2, 1], aweights=[0.5, 1.0, 2.0])), TALL),
    "cov weighted": (lambda x: weighted(np.cov(TALL.T, aweights=x[:4] ** 2, ddof=0)), X),
    "quantile methods": (
        lambda x: weighted(np.stack([np.quantile(x**2, q, method=m) for m in BETWEEN for q in PARTS])),
        X,
    ),
    "interp periodic": (lambda x: weighted(np.interp(7 * x, [4.0, 0.0, 1.7], x[:3], period=3.0)), X),
    "average returned": (lambda x: np.prod(np.average(x**2, weights=x + 3, returned=True)), X),
    "cumulative_sum": (lambda x: weighted(np.cumulative_sum(x**2, include_initial=True)), X),
    "cumulative_prod": (lambda x: weighted(np.cumulative_prod(x, axis=1)), TALL),
    "apply_over_axes": (lambda x: weighted(np.apply_over_axes(np.sum, x[None] ** 2, [0, -1])), TALL),
    "linalg of today": (
        lambda x: (
            weighted(np.linalg.cross(x, x[::-1] ** 2)) + weighted(np.linalg.matmul(x, np.linalg.vecdot(x, x)))
        ),
        SQUARE,
    ),
    "tensorsolve": (
        lambda x: weighted(np.linalg.tensorsolve((x + 4 * np.eye(3)).reshape(1, 3, 3), X[None, :3])),
        SQUARE,
    ),
    "tensorinv": (
        lambda x: weighted(np.linalg.tensorinv((x + 4 * np.eye(3)).reshape(3, 1, 3), ind=1)),
        SQUARE,
    ),
    "types and indices": (
        lambda x: (
            weighted(np.zeros(3, dtype=np.result_type(x, np.float32)) + x[np.diag_indices_from(x)])
            + weighted(x[np.tril_indices_from(x)])
            + np.einsum("ij,ij", x, x, optimize=np.einsum_path("ij,ij", x, x)[0])
            + len(np.array2string(x)) * 0.0
        ),
        SQUARE,
    ),
    "infinite": (lambda x: weighted(np.where(np.isposinf(x) | np.isneginf(x), 0.0, np.astype(x, float))), X),
    "P.polyval of columns": (lambda x: weighted(np.polynomial.polynomial.polyval(x[:3], SQUARE)), X),
    "chebval of columns": (lambda x: weighted(np.polynomial.chebyshev.chebval(X[:3], x)), SQUARE),
    "legval of columns": (lambda x: weighted(np.polynomial.legendre.legval(x[:2], x[2:, None])), X),
    "polyval2d": (lambda x: weighted(np.polynomial.polynomial.polyval2d(x[0], x[1], x)), SQUARE),
    "polygrid2d": (lambda x: weighted(np.polynomial.polynomial.polygrid2d(x[0], x[1], SQUARE)), SQUARE),
    "P.polymul": (lambda x: weighted(np.polynomial.polynomial.polymul(x, x[:2])), X),
    "P.polyfromroots": (lambda x: weighted(np.polynomial.polynomial.polyfromroots(x)), X),
    "Polynomials": (
        lambda x: weighted(
            (np.polynomial.Polynomial(x) ** 2 - np.polynomial.Polynomial(X) * 3).deriv()(0.1 * x)
        ),
        X,
    ),
    "chebfit": (lambda x: weighted(np.polynomial.chebyshev.chebfit(X, x**2, 2)), X),
    "polyfit": (lambda x: weighted(np.polyfit(X, x**2, 2, w=x**2 + 1)), X),
    "poly": (lambda x: weighted(np.poly(x)), X),
    "polydiv": (lambda x: weighted(np.concatenate(np.polydiv(x, [1.0, 2.0, 0.5]))), X),
    "irfft2": (lambda x: weighted(np.fft.irfft2(np.fft.rfft2(x**2), s=(4, 3))), TALL),
    "irfftn": (lambda x: weighted(np.fft.irfftn(2j * np.fft.rfftn(x, axes=(1, 0)), axes=(1, 0))), TALL),
    "hfft": (lambda x: weighted(np.fft.hfft(x * (1 + 2j), norm="ortho")), X),
    "ihfft": (lambda x: weighted(np.abs(np.fft.ihfft(x**2, norm="forward"))), X),
    "trapezoid": (lambda x: np.trapezoid(x**2, dx=0.3), X),
    "convolve": (lambda x: weighted(np.convolve(x, x[:3], "same")), X),
    "correlate": (lambda x: weighted(np.correlate(x, x[:3], "full")), X),
    "digitize": (lambda x: np.sum(x**2 * np.digitize(x, [0.0, 1.0])), X),
    "svdvals": (lambda x: weighted(np.linalg.svdvals(x)), TALL),
    "svd": (
        lambda x: (
            weighted(np.linalg.svd(x)[1])
            + weighted(np.linalg.svd(x, full_matrices=False).U)
            + weighted(np.linalg.svd(x, full_matrices=False)[2])
        ),
        TALL,
    ),
    "svd sq": (lambda x: weighted(np.linalg.svd(x)[0]) + weighted(np.linalg.svd(x)[2]), SQUARE),
    "svd wide": (
        lambda x: (
            weighted(np.linalg.svd(x, full_matrices=False)[0])
            + weighted(np.linalg.svd(x, full_matrices=False)[2])
        ),
        WIDE,
    ),
    "svd full": (
        lambda x: weighted(complement(np.linalg.svd(x)[0])) + weighted(np.linalg.svd(x)[0][:, :3]),
        TALL,
    ),
    "svd batch": (lambda x: weighted(np.linalg.svd(x, full_matrices=False)[0]), random(2, 3, 2)),
    "qr": (lambda x: weighted(np.linalg.qr(x)[0]) + weighted(np.linalg.qr(x).R), TALL),
    "qr sq": (lambda x: weighted(np.linalg.qr(x)[0]), SQUARE),
    "qr wide": (lambda x: weighted(np.linalg.qr(x)[1]) + weighted(np.linalg.qr(x)[0]), WIDE),
    "qr r": (lambda x: weighted(np.linalg.qr(x, mode="r")), TALL),
    "lstsq": (lambda x: weighted(np.linalg.lstsq(x, np.arange(4.0))[0]), TALL),
    "lstsq res": (lambda x: weighted(np.linalg.lstsq(x, np.arange(4.0))[1]), TALL),
    "lstsq b": (lambda x: weighted(np.linalg.lstsq(TALL, x)[0]), np.arange(4.0)),
    "pinv": (lambda x: weighted(np.linalg.pinv(x)), TALL),
    "cond": (np.linalg.cond, SQUARE),
    "cond1": (lambda x: np.linalg.cond(x, 1), SQUARE),
    "nuc": (lambda x: np.linalg.norm(x, "nuc"), TALL),
    "norm-2": (lambda x: np.linalg.norm(x, -2), TALL),
    "norm2": (lambda x: np.linalg.norm(x, 2), TALL),
    "ravelF": (lambda x: weighted(np.ravel(x**2, order="F")), TALL),
    "reshapeF": (lambda x: weighted(np.reshape(x**2, (2, 6), order="F")), TALL),
    "flattenF": (lambda x: weighted((x**2).flatten("F")), TALL),
    "reshapeF2": (lambda x: weighted((x**2).reshape(6, 2, order="F")), TALL),
    "reshapeF3": (lambda x: weighted((x**2).reshape((6, -1), order="F")), TALL),
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_numpy(name: str) -> None:
    function, point = CASES[name]
    agrees(function, point)
