"""JAX kernels of the element-wise rows: `kernel(name)` finds one, here or in `jax.numpy`.

They follow the conventions of the NumPy kernels, and JAX can trace, batch and differentiate them.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from hesse.backends import plain
from hesse.backends.jax.rows import is_costly, of_matrices
from hesse.backends.kernels import Kernel, find
from hesse.backends.names import ROWS
from hesse.ops.choices import INDICATORS

HIGHEST_ORDER = 30
"""`polygamma` of a higher order is nan for negative x."""


SERIES_ORDER = 10
"""Terms of the series of `log_ndtr` in the left tail: with fewer it would have eleven digits."""


def kernel(name: str) -> Kernel:
    """The function that computes the row of this name."""
    found = find(name, KERNELS, "hesse.backends.jax.elementwise.KERNELS", ROWS["jax"], jnp)
    return of_matrices(found) if is_costly(name) else found


COMPARISONS: dict[str, Kernel] = {
    "equal": lax.eq,
    "greater": lax.gt,
    "greater_equal": lax.ge,
    "less": lax.lt,
    "less_equal": lax.le,
    "not_equal": lax.ne,
}
"""XLA's own operations, for arrays that are alike: functions of `jax.numpy` take longer to trace."""


def _as_floats(name: str) -> Kernel:
    """A function with true-or-false values, as zeros and ones of the type of the operands."""
    function, primitive = getattr(jnp, name), COMPARISONS.get(name)

    def computed(*operands: Any) -> Any:
        if (
            primitive is not None
            and _are_alike(*operands)
            and jnp.issubdtype(operands[0].dtype, jnp.floating)
        ):
            return lax.convert_element_type(primitive(*operands), operands[0].dtype)
        dtype = jnp.result_type(*operands)
        return function(*operands).astype(dtype if jnp.issubdtype(dtype, jnp.floating) else float)

    return computed


def where(condition: Any, a: Any, b: Any) -> Any:
    """A choice by a condition that is true where it is not 0."""
    if _are_alike(condition, a, b):
        return lax.select(lax.ne(condition, np.zeros((), condition.dtype)), a, b)
    return jnp.where(condition != 0, a, b)


def select(condition: Any, a: Any) -> Any:
    """The operand where the condition is not 0, else 0."""
    return where(condition, a, jnp.zeros_like(a))


def _by_primitive(name: str, primitive: Kernel) -> Kernel:
    """A function of `jax.numpy`, by XLA's own operation where that takes the operands as they are."""
    function = getattr(jnp, name)

    def computed(*operands: Any) -> Any:
        is_float = _are_alike(*operands) and jnp.issubdtype(operands[0].dtype, jnp.floating)
        return (primitive if is_float else function)(*operands)

    return computed


def _are_alike(*operands: Any) -> bool:
    """Whether these are arrays of one shape and dtype: XLA's own operations take them as they are."""
    first = operands[0]
    return all(
        isinstance(x, jax.Array) and x.shape == first.shape and x.dtype == first.dtype for x in operands
    )


def log_ndtr(x: Any) -> Any:
    """log(Φ(x)); from -1 on by the other tail, where JAX has few digits."""
    other = jnp.log1p(-0.5 * jax.scipy.special.erfc(jnp.maximum(x, -1.0) / math.sqrt(2.0)))
    tail = jax.scipy.special.log_ndtr(jnp.minimum(x, -1.0), series_order=SERIES_ORDER)
    return jnp.where(x > -1.0, other, tail)


def safe_reciprocal(x: Any) -> Any:
    """1 / x, and 0 at 0."""
    return jnp.where(x == 0, 0.0, 1.0 / jnp.where(x == 0, 1.0, x))


def _sigmoid(x: Any) -> Any:
    """By the exponential that softplus has, too: XLA computes it once."""
    return plain.sigmoid(jnp, x)


def _sigmoid_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return sigmoid(x), sigmoid(x) * sigmoid(-x) * dx


def _softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _softplus_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return softplus(x), sigmoid(x) * dx


def _safe_sqrt_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    root = safe_sqrt(x)
    return root, 0.5 * safe_reciprocal(root) * dx


def _digamma(x: Any) -> Any:
    """The derivative of lgamma; at a signed zero the limit, which JAX takes for nan."""
    return jnp.where(x == 0, -jnp.copysign(jnp.inf, x), jax.scipy.special.digamma(x))


def _digamma_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return digamma(x), polygamma(jnp.ones_like(x), x) * dx


def _polygamma(order: Any, x: Any) -> Any:
    """The derivative of digamma of an order 0, 1, …, which may differ from entry to entry.

    ψ_n(x) = (-1)^(n+1) n! ζ(n+1, x) for n ≥ 1 and x > 0. For x < 0 the n-th derivative of the reflection
    ψ(x) = ψ(1-x) - π cot(πx): ψ_n(x) = (-1)^n ψ_n(1-x) - π^(n+1) cot^(n)(πx).
    """
    order, x = jnp.broadcast_arrays(jnp.asarray(order, x.dtype), x)
    sign = 1.0 - 2.0 * jnp.remainder(order + 1.0, 2.0)
    right = jnp.where(x > 0, x, 1.0 - x)
    zeta = jnp.where(right == jnp.inf, 0.0, jax.scipy.special.zeta(order + 1.0, right))
    value = sign * jnp.exp(jax.scipy.special.gammaln(order + 1.0)) * zeta
    derivative = jax.lax.cond(
        jnp.any(x < 0), _cotangent_derivative, lambda order, x: jnp.zeros_like(x), order, x
    )
    reflected = -sign * value - jnp.pi ** (order + 1.0) * derivative
    pole = (x <= 0) & (x == jnp.floor(x))
    higher = jnp.where(x > 0, value, jnp.where(pole, sign * jnp.inf, reflected))
    return jnp.where(order == 0, digamma(x), higher)


def _polygamma_jvp(primals: Any, tangents: Any) -> Any:
    (order, x), (_, dx) = primals, tangents
    return polygamma(order, x), polygamma(order + 1.0, x) * dx


def _cotangent_derivative(order: Any, x: Any) -> Any:
    """The derivative of cot of an order at πx, reduced to one period first: a polynomial in cot(πx)."""
    cotangent = 1.0 / jnp.tan(jnp.pi * (x - jnp.round(x)))
    chosen = jnp.where(order <= HIGHEST_ORDER, order, 0).astype(int)

    def horner(value: Any, coefficients: Any) -> tuple[Any, None]:
        return value * cotangent + coefficients[chosen], None

    polynomials = jnp.asarray(_COTANGENT_POLYNOMIALS.T, x.dtype)
    result, _ = jax.lax.scan(horner, jnp.zeros_like(x), polynomials, reverse=True)
    return jnp.where(order <= HIGHEST_ORDER, result, jnp.nan)


def _cotangent_polynomials() -> np.ndarray:
    """Row n: the coefficients of P_n, P_n(cot u) being the n-th derivative of cot u. cot' = -(1 + cot²)."""
    rows = np.zeros((HIGHEST_ORDER + 1, HIGHEST_ORDER + 2))
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for row in rows:
        row[: len(polynomial.coef)] = polynomial.coef
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    return rows


_COTANGENT_POLYNOMIALS = _cotangent_polynomials()

# Rules of their own, since JAX knows the derivative of its digamma for positive x only.
digamma = jax.custom_jvp(_digamma)
digamma.defjvp(_digamma_jvp)
safe_sqrt = jax.custom_jvp(jnp.sqrt)
safe_sqrt.defjvp(_safe_sqrt_jvp)
sigmoid, softplus = jax.custom_jvp(_sigmoid), jax.custom_jvp(_softplus)
sigmoid.defjvp(_sigmoid_jvp)
softplus.defjvp(_softplus_jvp)
polygamma = jax.custom_jvp(_polygamma)
polygamma.defjvp(_polygamma_jvp)

KERNELS: dict[str, Kernel] = {
    **{name: _as_floats(name) for name in sorted(INDICATORS)},
    **{
        name: _by_primitive(name, getattr(jax.lax, name))
        for name in ("cos", "exp", "expm1", "log", "log1p", "sin", "sqrt", "tanh")
    },
    "chosen": lambda condition: (condition != 0).astype(condition.dtype),
    "clamp": jnp.clip,
    "digamma": digamma,
    "log_ndtr": log_ndtr,
    "polygamma": polygamma,
    "ratio": jnp.divide,
    "safe_reciprocal": safe_reciprocal,
    "safe_sqrt": safe_sqrt,
    "select": select,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "where": where,
}
