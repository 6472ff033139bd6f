"""NumPy kernels of the element-wise rows: `kernel(name)` finds one, here or in NumPy.

A kernel returns an array of its own (but `stop_gradient`) in the floating-point type of its operands;
conditions are 0 and 1 in that type. Special functions come from SciPy where it is installed, and from slower
replacements where it is not.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.backends.kernels import Kernel, find
from hesse.ops.choices import INDICATORS


def kernel(name: str) -> Kernel:
    """The function that computes the row of this name."""
    return find(name, KERNELS, "hesse.backends.numpy.elementwise.KERNELS", np)


def _float_type(*operands: Any) -> np.dtype[Any]:
    found = np.result_type(*operands)
    return found if found.kind == "f" else np.dtype(np.float64)


def _as_floats(function: Kernel) -> Kernel:
    """A NumPy function with true-or-false values, as zeros and ones of the type of the operands."""

    def computed(*operands: Any) -> Any:
        return function(*operands).astype(_float_type(*operands))

    return computed


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); the overflow at large -x is the right limit."""
    result = np.negative(x, out=np.empty_like(x))
    with np.errstate(over="ignore"):
        np.exp(result, out=result)
    result += 1.0
    return np.reciprocal(result, out=result)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), without overflow."""
    result = np.abs(x, out=np.empty_like(x))
    np.negative(result, out=result)
    np.exp(result, out=result)
    np.log1p(result, out=result)
    result += np.maximum(x, 0.0)
    return result


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    result = np.abs(x, out=np.empty_like(x))
    result += 1.0
    return np.divide(x, result, out=result)


def where(condition: Any, a: Any, b: Any) -> Any:
    """A choice by a condition that is true where it is not 0."""
    return np.where(np.not_equal(condition, 0), a, b)


def stop_gradient(x: Any) -> Any:
    """The operand itself."""
    return x


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0 (nan where y is nan)."""
    is_zero = np.logical_and(np.equal(x, 0.0), ~np.isnan(y))
    return x * np.log(np.where(is_zero, 1.0, y))


@functools.cache
def _scipy_special() -> Any | None:
    """SciPy's special functions, looked for at first use; None where SciPy is not installed."""
    try:
        return importlib.import_module("scipy.special")
    except ImportError:
        return None


def erf(x: Any) -> Any:
    """The error function."""
    special = _scipy_special()
    return _one_by_one(math.erf, x) if special is None else special.erf(x)


def erfc(x: Any) -> Any:
    """1 - erf(x), accurate in the right tail."""
    special = _scipy_special()
    return _one_by_one(math.erfc, x) if special is None else special.erfc(x)


def lgamma(x: Any) -> Any:
    """log |Γ(x)|."""
    special = _scipy_special()
    return _one_by_one(_lgamma_of_float, x) if special is None else special.gammaln(x)


def digamma(x: Any) -> Any:
    """The derivative of lgamma."""
    special = _scipy_special()
    return _digamma(x) if special is None else special.psi(x)


def polygamma(order: Any, x: Any) -> Any:
    """The derivative of digamma of an order 0, 1, …"""
    special = _scipy_special()
    computed = _polygamma if special is None else special.polygamma
    return np.asarray(computed(order, x)).astype(_float_type(x))


def _one_by_one(function: Callable[[float], float], x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(np.frompyfunc(function, 1, 1)(x)).astype(_float_type(x))


def _lgamma_of_float(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
"""The Bernoulli numbers of even index 2, 4, …"""


def _digamma(x: Any) -> Any:
    """Recurrence up to where the asymptotic series holds; reflection at 1/2 for negative x."""
    floats = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = _digamma_right(np.where(floats > 0, floats, 1.0 - floats))
        result = np.where(floats > 0, result, result - np.pi * _cotangent(floats))
        # A simple pole changes sign: at negative integers there is no limit, at a signed zero there is.
        pole = (floats <= 0) & (floats == np.floor(floats))
        result = np.where(pole, np.where(floats == 0, np.copysign(np.inf, -floats), np.nan), result)
    return result.astype(_float_type(x))


def _digamma_right(x: np.ndarray) -> np.ndarray:
    shift = np.zeros_like(x)
    for _ in range(10):
        small = x < 10.0
        shift = shift + np.where(small, 1.0 / x, 0.0)
        x = x + small
    inverse = 1.0 / (x * x)
    series = np.zeros_like(x)
    for k in range(len(BERNOULLI), 0, -1):
        series = (series + BERNOULLI[k - 1] / (2 * k)) * inverse
    result: np.ndarray = np.log(x) - 0.5 / x - series - shift
    return result


def _polygamma(order: Any, x: Any) -> np.ndarray:
    orders, floats = np.broadcast_arrays(order, np.asarray(x, dtype=np.float64))
    result = np.empty(floats.shape)
    for n in np.unique(orders):
        chosen = orders == n
        result[chosen] = _digamma(floats[chosen]) if n == 0 else _polygamma_of_order(int(n), floats[chosen])
    return result


def _polygamma_of_order(n: int, x: np.ndarray) -> np.ndarray:
    """(-1)^(n+1) n! ζ(n+1, x) for n ≥ 1; for x ≤ 0 the n-th derivative of the reflection of digamma."""
    sign = (-1.0) ** (n + 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        right = sign * math.factorial(n) * _zeta(n + 1, np.where(x > 0, x, 1.0 - x))
        left = -sign * right - np.pi ** (n + 1) * _cotangent_derivative(n)(_cotangent(x))
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(x > 0, right, np.where(pole, sign * np.inf, left))


def _zeta(s: int, x: np.ndarray) -> np.ndarray:
    """Hurwitz's ζ(s, x) for x > 0 by Euler-Maclaurin summation from s + 15 on."""
    total = np.zeros_like(x)
    start = s + 15.0
    for _ in range(s + 15):
        small = x < start
        total = total + np.where(small, x ** -float(s), 0.0)
        x = x + small
    series = 1.0 / (s - 1) + 0.5 / x
    factor = np.full_like(x, float(s))
    for k, bernoulli in enumerate(BERNOULLI, start=1):
        factor = factor / (x * x) / ((2 * k - 1) * (2 * k))
        series = series + bernoulli * factor
        factor = factor * ((s + 2 * k - 1) * (s + 2 * k))
    return total + x ** (1.0 - s) * series


def _cotangent(x: np.ndarray) -> np.ndarray:
    """cot(πx), reduced to one period first."""
    return 1.0 / np.tan(np.pi * (x - np.round(x)))


def _cotangent_derivative(n: int) -> np.polynomial.Polynomial:
    """The polynomial P with P(cot u) the n-th derivative of cot u: cot' = -(1 + cot²)."""
    result = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        result = result.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    return result


KERNELS: dict[str, Kernel] = {
    **{name: _as_floats(getattr(np, name)) for name in sorted(INDICATORS)},
    "digamma": digamma,
    "erf": erf,
    "erfc": erfc,
    "lgamma": lgamma,
    "polygamma": polygamma,
    "relu": relu,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "softsign": softsign,
    "stop_gradient": stop_gradient,
    "where": where,
    "xlogy": xlogy,
}
