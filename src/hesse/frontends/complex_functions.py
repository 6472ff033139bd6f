"""Functions of complex values by their real and imaginary parts."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.frontends.complexes import Complex, both_parts, parts
from hesse.frontends.dispatch import COMPLEX, call, call_complex, complexes, implements
from hesse.frontends.operands import as_expression
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import elementwise


@complexes(np.absolute)
def absolute(z: Any, /) -> Any:
    """|z|; its square is smooth at 0."""
    return np.sqrt(_square(z))


def _square(z: Any) -> Any:
    real, imag = map(as_expression, both_parts(z))
    return real * real + imag * imag


def size_of(z: Any) -> Any:
    """|z|, whose derivatives are 0 at 0, as those of PyTorch and JAX."""
    return elementwise("safe_sqrt", _square(z))


def direction(z: Any) -> Any:
    """`z / |z|`, and 0 with all its derivatives at 0."""
    return np.multiply(z, elementwise("safe_reciprocal", size_of(z)))


@complexes(np.conjugate)
def conjugate(z: Any, /) -> Complex:
    """The same real part, the other imaginary part."""
    return Complex(z.real, -z.imag)


@complexes(np.real)
def real(val: Any) -> Any:
    """The real part."""
    return parts(val)[0]


@complexes(np.imag)
def imag(val: Any) -> Any:
    """The imaginary part."""
    return both_parts(val)[1]


@complexes(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The angle from the real axis."""
    real, imag = map(as_expression, both_parts(z))
    found = np.arctan2(imag, real)
    return found * (180.0 / math.pi) if deg else found


@implements(np.angle)
def angle_of_real(z: Any, deg: bool = False) -> Any:
    """0, or half a turn for negative numbers; locally constant."""
    return call(np.where, (as_expression(z) < 0, 180.0 if deg else math.pi, 0.0))


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """Real values themselves."""
    return as_expression(a)


@complexes(np.divide)
def divide(x: Any, y: Any, /) -> Any:
    """The quotient."""
    if parts(y)[1] is None:
        a, b = map(as_expression, both_parts(x))
        return Complex(a / y, b / y)
    inverse = conjugate(y if isinstance(y, Complex) else Complex(*both_parts(y))) * (1.0 / _square(y))
    return inverse * x


@complexes(np.reciprocal)
def reciprocal(z: Any, /) -> Any:
    """1/z."""
    return divide(1.0, z)


@complexes(np.exp)
def exp(z: Any, /) -> Complex:
    """exp(a) (cos(b) + i sin(b))."""
    real, imag = map(as_expression, both_parts(z))
    size = np.exp(real)
    return Complex(size * np.cos(imag), size * np.sin(imag))


@complexes(np.log)
def log(z: Any, /) -> Complex:
    """The principal logarithm."""
    return Complex(0.5 * np.log(_square(z)), angle(z))


@complexes(np.sqrt)
def sqrt(z: Any, /) -> Any:
    """The principal root."""
    size, turn = np.sqrt(absolute(z)), 0.5 * angle(z)
    return Complex(size * np.cos(turn), size * np.sin(turn))


@complexes(np.square)
def square(z: Any, /) -> Any:
    """z²."""
    return z * z


@complexes(np.power)
def power(x: Any, y: Any, /) -> Any:
    """x^y: products for whole numbers, else by the principal logarithm."""
    if isinstance(y, int | np.integer) or (isinstance(y, float) and y.is_integer()):
        count = operator.index(int(y))
        result: Any = (
            x
            if count
            else Complex(*(as_expression(p) for p in (both_parts(x)[0] * 0.0 + 1.0, both_parts(x)[1] * 0.0)))
        )
        for _ in range(abs(count) - 1):
            result = result * x
        return divide(1.0, result) if count < 0 else result
    return exp(call_complex(np.multiply, (y, log(x))))


def _by_exponentials(function: Callable[[Any, Any], Any]) -> Callable[..., Complex]:
    def handler(z: Any, /) -> Complex:
        return Complex(*function(*map(as_expression, both_parts(z))))

    return handler


COMPLEX[np.sin] = _by_exponentials(lambda a, b: (np.sin(a) * np.cosh(b), np.cos(a) * np.sinh(b)))
COMPLEX[np.cos] = _by_exponentials(lambda a, b: (np.cos(a) * np.cosh(b), -np.sin(a) * np.sinh(b)))
COMPLEX[np.sinh] = _by_exponentials(lambda a, b: (np.sinh(a) * np.cos(b), np.cosh(a) * np.sin(b)))
COMPLEX[np.cosh] = _by_exponentials(lambda a, b: (np.cosh(a) * np.cos(b), np.sinh(a) * np.sin(b)))


@complexes(np.tan)
def tan(z: Any, /) -> Any:
    """sin(z)/cos(z)."""
    return divide(np.sin(z), np.cos(z))


@complexes(np.tanh)
def tanh(z: Any, /) -> Any:
    """sinh(z)/cosh(z)."""
    return divide(np.sinh(z), np.cosh(z))


@complexes(np.where)
def where(condition: Any, x: Any, y: Any, /) -> Complex:
    """A choice by a real condition."""
    return Complex(
        *(
            call(np.where, (condition, as_expression(a), b))
            for a, b in zip(both_parts(x), both_parts(y), strict=True)
        )
    )


@complexes(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """A polynomial, whose coefficient of the highest power comes first."""
    result: Any = np.zeros(np.shape(x))
    for k in range(len(p)):
        result = call(np.add, (call(np.multiply, (result, x)), p[k]))
    return result


@complexes(np.equal)
def equal(x: Any, y: Any, /) -> Any:
    """Whether both parts are equal."""
    pairs = zip(both_parts(x), both_parts(y), strict=True)
    real, imag = (call(np.equal, (as_expression(a), b)) for a, b in pairs)
    return real & imag


@complexes(np.not_equal)
def not_equal(x: Any, y: Any, /) -> Any:
    """Whether a part differs."""
    return ~equal(x, y)


@complexes(np.isnan)
def isnan(x: Any, /) -> Any:
    """Whether a part is no number."""
    return np.isnan(x.real) | np.isnan(x.imag)


@complexes(np.isfinite)
def isfinite(x: Any, /) -> Any:
    """Whether both parts are numbers, and not infinite."""
    return np.isfinite(x.real) & np.isfinite(x.imag)


@complexes(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    """Products of a matrix with itself, or of its inverse."""
    if n == 0:
        return Complex(np.linalg.matrix_power(a.real, 0), 0.0 * a.imag)
    return functools.reduce(operator.matmul, [a if n > 0 else inv(a)] * abs(n))


@complexes(np.var)
def var(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """The mean square of the distance from the mean."""
    squares = _square(a - call_complex(np.mean, (a, axis), {"keepdims": True}))
    count = squares.size / np.mean(squares, axis, keepdims=True).size
    return np.sum(squares, axis, keepdims=keepdims) / (count - ddof)


@complexes(np.std)
def std(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """The root of the variance."""
    return np.sqrt(var(a, axis, ddof, keepdims))


@complexes(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The product of all entries, those of the first conjugated."""
    first = conjugate(a) if isinstance(a, Complex) else np.conjugate(a)
    return call_complex(np.dot, (np.ravel(first), np.ravel(b)))


def _real_form(a: Any) -> Any:
    """The real matrices [[Re, -Im], [Im, Re]], which multiply the parts one above the other."""
    re, im = map(as_expression, both_parts(a))
    rows = [np.concatenate([re, -im], axis=-1), np.concatenate([im, re], axis=-1)]
    return np.concatenate(rows, axis=-2)


@complexes(np.linalg.inv)
def inv(a: Any) -> Complex:
    """The inverse."""
    size, found = a.shape[-1], np.linalg.inv(_real_form(a))
    return Complex(found[..., :size, :size], found[..., size:, :size])


@complexes(np.linalg.solve)
def solve(a: Any, b: Any) -> Complex:
    """The solution of a linear system; as in NumPy 2, b is one vector if it has one axis."""
    re, im = map(as_expression, both_parts(b))
    axis = -1 if re.ndim == 1 else -2
    found = np.linalg.solve(_real_form(a), np.concatenate([re, im], axis=axis))
    parts_found = np.split(found, 2, axis=axis)
    return Complex(parts_found[0], parts_found[1])


@complexes(np.linalg.det)
def det(a: Any) -> Complex:
    """Refused, with a way to the absolute value."""
    raise untraceable(
        "np.linalg.det of complex matrices",
        "np.abs(det(a))**2 is the real np.linalg.det(np.block([[a.real, -a.imag], [a.imag, a.real]])).",
    )


@complexes(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of the absolute values; of matrices only that of all entries."""
    if ord in (None, 2, "fro") and not (ord == 2 and axis is None and np.ndim(x) == 2):
        return np.sqrt(np.sum(_square(x), axis=axis, keepdims=keepdims))
    if np.ndim(x) == 1 or isinstance(axis, int):
        return np.linalg.norm(absolute(x), ord, axis, keepdims)
    raise untraceable(f"np.linalg.norm of complex matrices with ord={ord!r}", "Use 'fro'.")


@complexes(np.iscomplexobj)
def is_complex(x: Any) -> bool:
    """Complex values are."""
    return True


@complexes(np.isrealobj)
def is_real(x: Any) -> bool:
    """Complex values are not."""
    return False


@complexes(np.shape)
def shape(a: Any) -> Any:
    """The sizes of the axes."""
    return np.shape(parts(a)[0])


@complexes(np.ndim)
def ndim(a: Any) -> int:
    """The number of axes."""
    return np.ndim(parts(a)[0])


@complexes(np.size)
def size(a: Any, axis: Any = None) -> int:
    """The number of entries."""
    return np.size(parts(a)[0], axis)


@complexes(np.prod)
def prod(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product of all entries, or along axes."""
    rank = np.ndim(a)
    axes = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    result = a
    for number in sorted((axis % rank for axis in axes), reverse=True):
        entries: Sequence[Any] = list(np.moveaxis(result, number, 0))
        result = functools.reduce(operator.mul, entries)
        result = np.expand_dims(result, number) if keepdims else result
    return result
