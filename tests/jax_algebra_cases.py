"""JAX functions: windows, convolutions, linear algebra, special functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_cases import POSITIVE, UNIT, Case

IMAGE = (1, 4, 4, 2)
KERNEL = (2, 3, 2, 2)
LAYOUT = ("NHWC", "HWIO", "NHWC")
VECTOR = np.array([0.5, -1.0, 2.0])
COLUMNS = np.array([[0.5, 1.0], [-1.0, 0.3], [2.0, 1.5]])


def _convolution(*arguments: Any, **options: Any) -> Any:
    return lambda x, w: lax.conv_general_dilated(x, w, *arguments, dimension_numbers=LAYOUT, **options) ** 2


def _average(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


def _largest(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 2, 1, 1), "SAME")


WINDOWS = [
    Case("convolution", _convolution((1, 1), "SAME"), (IMAGE, KERNEL), order=1),
    Case("strides", _convolution((2, 1), "VALID"), (IMAGE, KERNEL), order=1),
    Case("dilation", _convolution((1, 2), ((2, 1), (-1, 3)), (1, 2), (2, 1)), (IMAGE, KERNEL), order=1),
    Case(
        "groups of features",
        _convolution((1, 1), "VALID", feature_group_count=2),
        ((1, 3, 3, 2), (2, 2, 1, 4)),
        order=1,
    ),
    Case(
        "groups of a batch",
        _convolution((1, 1), "VALID", batch_group_count=2),
        ((2, 3, 3, 1), (2, 2, 1, 4)),
        order=1,
    ),
    Case(
        "transposed",
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=LAYOUT) ** 2,
        ((1, 2, 2, 2), KERNEL),
        order=1,
    ),
    Case("convolve", lambda x, y: jnp.convolve(x, y, mode="same") ** 2, ((4,), (3,)), order=2),
    Case("correlate", lambda x, y: jnp.correlate(x, y, mode="full") ** 2, ((4,), (3,)), order=2),
    Case("mean of windows", lambda x: _average(x) ** 2, (IMAGE,), order=2),
    Case("maximum of windows", lambda x: _largest(x) ** 2, (IMAGE,), order=2),
    Case(
        "minimum of windows",
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2,), (1,), "SAME") ** 3,
        ((5,),),
        order=2,
    ),
    Case(
        "windows with gaps",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), ((1, 2),), (2,), (3,)) ** 2,
        ((5,),),
        order=2,
    ),
    Case(
        "gradient of maxima",
        lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(_largest(y))))(x) * x,
        ((1, 4, 3, 1),),
        order=2,
    ),
]


def _definite(a: Any) -> Any:
    return a @ a.T + 2 * jnp.eye(3)


def _regular(a: Any) -> Any:
    return a + 4 * jnp.eye(3)


def _of_matrix(functions: dict[str, Any], order: int = 2) -> list[Case]:
    return [Case(name, function, ((3, 3),), (-1.0, 1.0), order) for name, function in functions.items()]


ALGEBRA = [
    *_of_matrix(
        {
            "cholesky": lambda a: jnp.linalg.cholesky(_definite(a)),
            "cholesky, upper": lambda a: jax.scipy.linalg.cholesky(_definite(a)),
            "eigenvalues": lambda a: jnp.linalg.eigvalsh(_definite(a)),
            "eigenvectors": lambda a: jnp.linalg.eigh(_definite(a))[1] ** 2,
            "triangular": lambda a: jax.scipy.linalg.solve_triangular(_regular(a), VECTOR, lower=True),
            "transposed and unit": lambda a: jax.scipy.linalg.solve_triangular(
                a, VECTOR * a[0], lower=True, trans=1, unit_diagonal=True
            ),
            "from the right": lambda a: lax.linalg.triangular_solve(
                _regular(a), COLUMNS.T, left_side=False, lower=False
            ),
            "solve": lambda a: jnp.linalg.solve(_regular(a), VECTOR * a[0]),
            "solve for columns": lambda a: jnp.linalg.solve(_regular(a), COLUMNS),
            "solve one by one": lambda a: jax.vmap(jnp.linalg.solve, (None, 0))(_regular(a), COLUMNS.T),
            "solve, definite": lambda a: jax.scipy.linalg.solve(_definite(a), VECTOR, assume_a="pos"),
            "inverse": lambda a: jnp.linalg.inv(_regular(a)),
            "determinant": jnp.linalg.det,
            "log determinant": lambda a: jnp.linalg.slogdet(_regular(a))[1],
            "negative power": lambda a: jnp.linalg.matrix_power(_regular(a), -2),
            "norms": lambda a: jnp.linalg.norm(a) * jnp.linalg.norm(a, 1) + jnp.linalg.norm(a, axis=1),
            "vander": lambda a: jnp.vander(a[0], 3),
        }
    ),
    *_of_matrix(
        {
            "exponential": jax.scipy.linalg.expm,
            "pseudo-inverse": lambda a: jnp.linalg.pinv(_regular(a)[:, :2]),
            "lu factors": lambda a: jax.scipy.linalg.lu_factor(_regular(a))[0],
            "lu_solve": lambda a: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(_regular(a)), VECTOR),
            "cho_solve": lambda a: jax.scipy.linalg.cho_solve(
                jax.scipy.linalg.cho_factor(_definite(a)), VECTOR
            ),
            "inverse of each": lambda a: jax.vmap(jnp.linalg.inv)(jnp.stack([_regular(a), _definite(a)])),
            "solve each": lambda a: jax.vmap(jnp.linalg.solve)(
                jnp.stack([_regular(a), _definite(a)]), COLUMNS.T
            ),
            "cholesky of a batch": lambda a: jnp.linalg.cholesky(jnp.stack([_definite(a), _definite(a.T)])),
        },
        order=1,
    ),
    Case("determinant of four", lambda a: jnp.linalg.det(a + 3 * jnp.eye(4)), ((4, 4),), (-1.0, 1.0), 1),
]

SPECIAL = [
    Case(
        "multivariate normal",
        lambda x: jax.scipy.stats.multivariate_normal.logpdf(x, VECTOR, 2 * np.eye(3)),
        ((3,),),
    ),
    Case("normal", lambda x: jax.scipy.stats.norm.logpdf(x, 0.3, 1.2), ((3,),)),
    Case("normal integral", jax.scipy.stats.norm.cdf, ((3,),)),
    Case("gamma density", lambda x: jax.scipy.stats.gamma.logpdf(x, 2.5), ((3,),), POSITIVE),
    Case("beta density", lambda x: jax.scipy.stats.beta.logpdf(x, 2.0, 3.0), ((3,),), UNIT),
    Case("t density", jax.scipy.stats.t.logpdf, ((3,), ()), POSITIVE, 1),
    Case("poisson", lambda x: jax.scipy.stats.poisson.logpmf(np.array([0, 2, 5]), x), ((3,),), POSITIVE),
    Case("gamma function", jax.scipy.special.gamma, ((3,),), POSITIVE, 2),
    Case("beta function", jax.scipy.special.betaln, ((3,), (3,)), POSITIVE, 1),
    Case("polygamma", lambda x: jax.scipy.special.polygamma(1, x), ((3,),), POSITIVE, 2),
    Case("normal quantile", jax.scipy.special.ndtri, ((3,),), UNIT, 1),
    Case("expit", jax.scipy.special.expit, ((3,),), order=4),
    Case("relative entropy", jax.scipy.special.rel_entr, ((3,), (3,)), POSITIVE, 2),
    Case("multigammaln", lambda x: jax.scipy.special.multigammaln(x + 2, 2), ((3,),), POSITIVE, 2),
    Case(
        "logsumexp with weights",
        lambda x: jax.nn.logsumexp(x, axis=1, b=np.array([1.0, 2.0, 0.5])),
        ((2, 3),),
        order=2,
    ),
    Case(
        "softmax where", lambda x: jax.nn.softmax(x, where=np.array([True, False, True])), ((2, 3),), order=2
    ),
    Case("glu", lambda x: jax.nn.glu(x, axis=1), ((2, 4),), order=2),
    Case("polynomial roots kept apart", lambda x: jnp.polyval(x, jnp.array([0.5, -1.0])), ((4,),)),
    Case("fft-free cosine sum", lambda x: jnp.cos(jnp.outer(np.arange(3), x)) @ x, ((3,),), order=4),
]

CASES = {case.name: case for case in (*WINDOWS, *ALGEBRA, *SPECIAL)}
assert len(CASES) == len(WINDOWS) + len(ALGEBRA) + len(SPECIAL)
