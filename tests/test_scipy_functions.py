"""Functions of SciPy in traced code: those of `scipy.special`, and what is said of others."""

# ruff: noqa: SIM905 -- lambdas keep the line in this file, where the error must point

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.special
import scipy.stats

import hesse
from hesse.errors import DifferentiationError, TracingError
from test_numpy_meaning import agrees

POINT = np.array([0.3, 1.3, 2.7])
PART = np.array([0.2, 0.5, 0.8])
WEIGHTS = np.array([1.0, 2.0, 3.0])
OF_ONE = """gamma rgamma j0 j1 y0 y1 i0 i1 i0e i1e k0 k1 k0e k1e expi exp1 erfcx dawsn cosm1 log_expit exp10
entr expm1 log1p exp2 cbrt ndtr log_ndtr erf erfc gammaln psi expit exprel""".split()
OF_PARTS = ["logit", "erfinv", "ndtri", "ellipk", "ellipe"]
WITH_FIRST: dict[str, tuple[float, ...]] = {
    **{"jv": (2,), "iv": (1.5,), "kv": (2,), "yv": (1,), "ive": (1,), "kve": (0,), "expn": (2,)},
    **{"gammainc": (1.5,), "gammaincc": (2.2,), "stdtr": (3.0,), "pseudo_huber": (1.1,), "huber": (1.1,)},
    **{"xlogy": (1.3,), "xlog1py": (1.3,), "rel_entr": (0.7,), "kl_div": (0.7,), "betaln": (1.7,)},
    **{"beta": (1.7,), "binom": (4.5,), "poch": (2.2,), "kn": (2,), "hyp1f1": (0.5, 1.5)},
}


def of(name: str, *first: float) -> Callable[[Any], Any]:
    function = getattr(scipy.special, name)
    return lambda x: np.sum(function(*first, x) * WEIGHTS)


CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    **{name: (of(name), POINT) for name in OF_ONE},
    **{name: (of(name), PART) for name in OF_PARTS},
    **{f"{name} with its order": (of(name, *first), POINT) for name, first in WITH_FIRST.items()},
    "beta of both": (lambda x: np.sum(scipy.special.beta(x, x**2)), POINT),
    "binom of both": (lambda x: np.sum(scipy.special.binom(x + 2, 0.5 * x)), POINT),
    "poch of its first": (lambda x: np.sum(scipy.special.poch(x, 1.5)), POINT),
    "betainc": (of("betainc", 1.5, 2.5), PART),
    "betaincinv": (of("betaincinv", 1.5, 2.5), PART),
    "gammaincinv": (of("gammaincinv", 1.5), PART),
    "hyp2f1": (of("hyp2f1", 0.5, 1.3, 1.7), PART),
    "boxcox of both": (lambda x: np.sum(scipy.special.boxcox(x, x - 1.0)), POINT),
    "boxcox without a power": (lambda x: np.sum(scipy.special.boxcox(x, 0.0)), POINT),
    "boxcox1p": (lambda x: np.sum(scipy.special.boxcox1p(x, 0.7 * x)), POINT),
    "gammasgn": (lambda x: np.sum(scipy.special.gammasgn(-x) * x**2), POINT),
    "gamma of negative numbers": (of("gamma"), -POINT),
    "i0 of NumPy": (lambda x: np.sum(np.i0(x)), -POINT),
    "i1e near zero": (of("i1e"), np.array([1e-3, -1.0, -2.0])),
    "remainder": (lambda x: np.sum((x % 0.7) ** 2) + np.sum((2.0 % x) ** 2), POINT),
    "remainder of negative numbers": (lambda x: np.sum((x % -0.7) ** 2), -POINT),
    "floor_divide": (lambda x: np.sum(x // 0.37 * x), POINT),
    "fmod": (lambda x: np.sum(np.fmod(-3.0 * x, 0.7) * x + np.fmod(3.1, x) * x), POINT),
    "divmod": (lambda x: np.sum(divmod(x, 0.7)[0] * divmod(x, 0.7)[1]), POINT),
    "rosen": (scipy.optimize.rosen, POINT),
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_scipy(name: str) -> None:
    function, point = CASES[name]
    agrees(function, point)


def test_remainders_are_those_of_numpy() -> None:
    x, y = np.array([1.0, -1.0, 5.5, 0.3, -7.0]), np.array([0.1, 0.1, -2.0, 0.1, 3.0])
    for function in (np.remainder, np.floor_divide, np.fmod):
        np.testing.assert_array_equal(hesse.compile(function)(x, y), function(x, y))


@pytest.mark.parametrize("power", [0.0, 0.5, 2.0, -1.5])
def test_box_cox_transforms_near_zero(power: float) -> None:
    x = np.array([1e-300, 1e-100, 1e-10, 0.5, 1e10, 1e100])
    function = lambda x: np.sum(scipy.special.boxcox(x, power))  # noqa: E731
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(hesse.grad(function)(x), x ** (power - 1.0), rtol=1e-11)
        found = hesse.grad(lambda x: np.sum(scipy.special.boxcox1p(x, power)))(x)
        np.testing.assert_allclose(found, (1.0 + x) ** (power - 1.0), rtol=1e-11)
    if power == 2.0:
        assert hesse.value_and_grad(function)(np.zeros(1)) == (-0.5, 0.0)


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_other_back_ends_call_scipy(backend: str) -> None:
    function = of("jv", 1)
    found = hesse.hessian(function, backend=backend)(POINT)
    np.testing.assert_allclose(found, hesse.hessian(function)(POINT), rtol=1e-12)


def test_derivatives_of_bessel_functions_are_diagonal() -> None:
    found = hesse.hessian(lambda x: np.sum(scipy.special.jv(0, x)), form="structured")(POINT)
    assert {term.pattern for term in found.terms} == {"ii"}


def test_a_derivative_that_nobody_knows() -> None:
    with pytest.raises(DifferentiationError, match=r"gammainc by argument 1 is not known in hesse; keep"):
        hesse.grad(lambda a: scipy.special.gammainc(a, 1.0))(1.5)
    np.testing.assert_allclose(
        hesse.grad(lambda a: scipy.special.gammainc(hesse.stop_gradient(a), a))(1.5),
        scipy.stats.gamma.pdf(1.5, 1.5),
    )


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "minimize": (lambda x: scipy.optimize.minimize(lambda y: y**2, x[0]).x, r"hesse\.argmin"),
    "fsolve": (lambda x: scipy.optimize.fsolve(lambda y: y**3 - x[0], 1.0)[0], r"hesse\.root"),
    "brentq": (lambda x: scipy.optimize.brentq(lambda y: y**3 - x[0], 0.0, 9.0), r"hesse\.root"),
    "quad": (lambda x: scipy.integrate.quad(lambda y: y * x[0], 0.0, 1.0)[0], r"leggauss"),
    "odeint": (
        lambda x: scipy.integrate.odeint(lambda y, t: -x[0] * y, 1.0, [0.0, 1.0])[-1, 0],
        r"hesse\.scan",
    ),
    "logsumexp": (
        lambda x: scipy.special.logsumexp(x, return_sign=True)[0],
        r"Write hesse\.logsumexp\(x, axis=axis\)",
    ),
    "pinv": (lambda x: scipy.linalg.pinv(x[:, None] * x, rtol=0.1).sum(), r"Write np\.linalg\.pinv\(a\)"),
    "norm.interval": (lambda x: scipy.stats.norm.interval(x)[0].sum(), r"\)\. Write its formula"),
    "gaussian_kde": (lambda x: scipy.stats.gaussian_kde(x)(0.3)[0], r"\)\. Write its formula"),
    "multivariate_normal.cdf": (
        lambda x: scipy.stats.multivariate_normal.cdf(2 * x),
        r"\)\. Write its formula",
    ),
    "gaussian_filter": (lambda x: scipy.ndimage.gaussian_filter(x, 1.0).sum(), r"hesse\.custom_derivative"),
    "CubicSpline": (lambda x: scipy.interpolate.CubicSpline(x, x)(1.0), r"hesse\.custom_derivative"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_of_scipy_name_the_way_out(name: str) -> None:
    function, way_out = REFUSED[name]
    with pytest.raises(TracingError, match=rf"scipy\.[\w.]*{re.escape(name)}.*{way_out}") as caught:
        hesse.grad(function)(POINT)
    assert f"(at {__file__}:{function.__code__.co_firstlineno})" in str(caught.value)


def test_a_function_of_scipy_by_itself_is_refused_where_it_is_called() -> None:
    with pytest.raises(TracingError, match=rf"skew.*\(at {re.escape(__file__)}:\d+\)"):
        hesse.grad(scipy.stats.skew)(POINT)


def test_errors_of_scipy_about_numbers_pass_unchanged() -> None:
    def indefinite(x: Any) -> Any:
        return np.sum(x) * scipy.linalg.cholesky(-np.eye(2))[0, 0]

    def failing(x: Any) -> Any:
        def inside(_: float) -> float:
            raise ValueError("of the user")

        return np.sum(x) * scipy.integrate.quad(inside, 0, 1)[0]

    with pytest.raises(np.linalg.LinAlgError):
        hesse.grad(indefinite)(POINT)
    with pytest.raises(ValueError, match=r"^of the user$"):
        hesse.grad(failing)(POINT)


@pytest.mark.parametrize("name", ["ellipk", "ellipe"])
def test_elliptic_integrals_beyond_their_domain_are_no_numbers(name: str) -> None:
    function, m = getattr(scipy.special, name), np.array([0.5, 1.0, 1.5, -2.0])
    np.testing.assert_allclose(hesse.compile(function)(m), function(m), rtol=1e-14)
    slopes = hesse.grad(lambda m: np.sum(function(m)))(np.array([0.5, 1.5]))
    assert np.isfinite(slopes[0])
    assert np.isnan(slopes[1])
