"""Polynomials given by their coefficients, as `np.polyval` and `np.polynomial` compute with them.

Coefficients that are traced are never left out, also where they happen to be 0: how many there are cannot
depend on values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import polynomial

from hesse.errors import ShapeError
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, as_node
from hesse.frontends.tracing import untraceable


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """A polynomial with the highest coefficient first."""
    result: Any = 0.0
    for coefficient in Expression(as_node(p)):
        result = result * x + coefficient
    return result


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    """The coefficients of the derivative."""
    result: Any = Expression(as_node(p))
    for _ in range(m):
        result = result[:-1] * np.arange(len(result) - 1, 0, -1.0)
    return result


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The coefficients of the antiderivative."""
    if k is not None:
        raise untraceable("np.polyint with constants of integration", "Add them to the result.")
    result: Any = Expression(as_node(p))
    for _ in range(m):
        result = np.concatenate([result / np.arange(len(result), 0, -1.0), np.zeros(1)])
    return result


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """The coefficients of a product."""
    return np.convolve(Expression(as_node(a1)), Expression(as_node(a2)))


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """The coefficients of a sum."""
    first, second = Expression(as_node(a1)), Expression(as_node(a2))
    size = max(len(first), len(second))
    return np.pad(first, (size - len(first), 0)) + np.pad(second, (size - len(second), 0))


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """The coefficients of a difference."""
    return polyadd(a1, -Expression(as_node(a2)))


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The coefficients of a quotient and of what is left."""
    rest, divisor = Expression(as_node(u)) * 1.0, Expression(as_node(v))
    steps = len(rest) - len(divisor) + 1
    if steps < 1:
        return np.zeros(1), rest
    found = []
    for k in range(steps):
        found.append(rest[k] / divisor[0])
        rest = rest - np.pad(found[-1] * divisor, (k, steps - 1 - k))
    return np.stack(found), rest[steps:] if len(divisor) > 1 else np.zeros(1)


@implements(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with these roots."""
    roots = as_expression(seq_of_zeros)
    if roots.ndim != 1:
        raise untraceable(
            "np.poly of a matrix", "Its characteristic polynomial at x is np.linalg.det(x * np.eye(n) - a)."
        )
    result: Any = Expression(as_node(np.ones(1)))
    for root in roots:
        result = polymul(result, np.stack([1.0, -root]))
    return result


@implements(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients of least squares, of the highest power first."""
    if full or cov:
        raise untraceable(
            "np.polyfit with full or cov", "Write np.linalg.lstsq(np.vander(x, degree + 1), y)."
        )
    return _fitted(call(np.vander, (as_expression(x), int(deg) + 1)), as_expression(y), w)


def _fitted(matrix: Any, values: Any, weights: Any) -> Any:
    if weights is not None:
        weight = Expression(as_node(weights))
        matrix, values = matrix * weight[:, None], (values.T * weight).T
    return np.linalg.lstsq(Expression(as_node(matrix)), values)[0]


def fit(
    vander_f: Callable[..., Any],
    x: Any,
    y: Any,
    deg: Any,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
) -> Any:
    """What `polyfit`, `chebfit`, … of `np.polynomial` call with their matrices of powers."""
    degrees = np.asarray(deg)
    if full or degrees.ndim:
        raise untraceable(
            "a fit with full=True or a list of degrees", "Write np.linalg.lstsq with columns of the matrix."
        )
    points, values = Expression(as_node(x)), Expression(as_node(y))
    return _fitted(vander_f(points, int(degrees)), values, w)


def from_roots(line_f: Callable[..., Any], mul_f: Callable[..., Any], roots: Any) -> Any:
    """What `polyfromroots`, … call with what makes a polynomial of a root, and what multiplies two."""
    factors = [line_f(-root, 1) for root in Expression(as_node(roots))]
    return Expression(as_node(functools.reduce(mul_f, factors)))


def _of_two(along: Callable[..., Any], is_grid: bool) -> Callable[..., Any]:
    def handler(x: Any, y: Any, c: Any) -> Any:
        """A polynomial of two variables at points, or on the grid of all pairs."""
        first, second = as_expression(x), as_expression(y)
        if not is_grid and first.shape != second.shape:
            raise ShapeError(f"x, y are incompatible: the shapes {first.shape} and {second.shape}")
        return along(second, along(first, as_expression(c)), tensor=is_grid)

    return handler


polyval2d = implements(polynomial.polyval2d)(_of_two(polynomial.polyval, is_grid=False))
polygrid2d = implements(polynomial.polygrid2d)(_of_two(polynomial.polyval, is_grid=True))
