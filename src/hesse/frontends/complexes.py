"""Complex values on the way from real arguments to real results: pairs of traced values.

`1j * x`, `np.exp(1j * x)` and `np.fft.fft(x)` are such pairs. What is known of them is in a table of its own,
in which `dispatch.call` looks where a handler of real values meets something complex.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.frontends.dispatch import COMPLEX, call, call_complex, function_name, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression
from hesse.frontends.tracing import ComplexError, untraceable

Pair = tuple[Any, Any]
"""The real and the imaginary part; None: that is zero."""


class Complex:
    """A complex value: `real` and `imag` are traced values of one shape."""

    __slots__ = ("imag", "real")
    __array_priority__ = 1001.0

    def __init__(self, real: Any, imag: Any) -> None:
        self.real, self.imag = as_expression(real), as_expression(imag)

    def __repr__(self) -> str:
        return f"Complex(shape={self.shape})"

    @property
    def shape(self) -> Any:
        """Sizes of the axes."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.real.ndim

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.real.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The complex type with parts of the type of the call."""
        return np.result_type(self.real.dtype, np.complex64)

    @property
    def T(self) -> Any:
        """All axes in reverse order."""
        return call_complex(np.transpose, (self,))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise complex_met()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc is np.add:
            return call_complex(np.sum, inputs[:1], {"axis": 0, **options})
        if method != "__call__":
            raise untraceable(f"{function_name(ufunc)}.{method} of complex values", "Use np.sum.")
        return call_complex(ufunc, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return call_complex(function, tuple(arguments), options)

    def __len__(self) -> int:
        return len(self.real)

    def __getitem__(self, key: Any) -> Complex:
        return Complex(self.real[key], self.imag[key])

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def __bool__(self) -> bool:
        raise untraceable("the truth value of a complex value", "Compare its parts, z.real and z.imag.")


def _method(function: Any) -> Callable[..., Any]:
    return lambda self, *arguments, **options: call_complex(function, (self, *arguments), options)


def _reflected(function: Any) -> Callable[[Any, Any], Any]:
    return lambda self, other: call_complex(function, (other, self))


_OPERATORS: dict[str, Any] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power},
    "matmul": np.matmul,
}
_METHODS: dict[str, Any] = {
    **{"__neg__": np.negative, "__pos__": np.positive, "__abs__": np.absolute},
    **{"conj": np.conjugate, "conjugate": np.conjugate, "sum": np.sum, "mean": np.mean, "copy": np.copy},
    **{"reshape": np.reshape, "ravel": np.ravel, "dot": np.dot, "squeeze": np.squeeze},
}
for _name, _function in _OPERATORS.items():
    setattr(Complex, f"__{_name}__", _method(_function))
    setattr(Complex, f"__r{_name}__", _reflected(_function))
for _name, _function in _METHODS.items():
    setattr(Complex, _name, _method(_function))


def complex_met() -> ComplexError:
    """The error where a real value is needed."""
    return ComplexError(
        str(
            untraceable(
                "a complex value where a real one is needed",
                "Arguments and results are real: take z.real, z.imag, np.abs(z) or np.angle(z), and build "
                "arrays of complex values with np.stack.",
            )
        )
    )


def parts(value: Any) -> Pair:
    """The parts of a value, of which the imaginary one may be None."""
    if isinstance(value, Complex):
        return value.real, value.imag
    if isinstance(value, Expression):
        return value, None
    array = np.asarray(value)
    if array.dtype.kind != "c":
        return array, None
    return array.real, array.imag


def _both(value: Any) -> Pair:
    real, imag = parts(value)
    return real, (np.zeros(np.shape(real)) if imag is None else imag)


def complexes(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a handler for complex values."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        COMPLEX.update(dict.fromkeys(functions, handler))
        return handler

    return register


def _by_parts(function: Any) -> Callable[..., Any]:
    """The handler of a function that is linear in its first argument, an array or a list of arrays."""

    def handler(value: Any, *arguments: Any, **options: Any) -> Complex:
        if isinstance(value, tuple | list):
            pairs = [_both(part) for part in value]
            real, imag = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            real[0] = as_expression(real[0])  # NumPy asks a traced value what to do
            imag[0] = as_expression(imag[0])
        else:
            real, imag = map(as_expression, _both(value))  # type: ignore[assignment]
        found = [call(function, (part, *arguments), options) for part in (real, imag)]
        return Complex(*found)

    return handler


LINEAR: tuple[Any, ...] = (
    *(np.sum, np.mean, np.cumsum, np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze),
    *(np.expand_dims, np.flip, np.fliplr, np.flipud, np.roll, np.repeat, np.tile, np.take, np.diag, np.trace),
    *(np.diagonal, np.broadcast_to, np.pad, np.diff, np.copy, np.concatenate, np.stack, np.hstack, np.vstack),
    *(np.negative, np.positive, np.tril, np.triu, np.rot90, np.atleast_1d, np.fft.fftshift, np.fft.ifftshift),
)
COMPLEX.update({function: _by_parts(function) for function in LINEAR})


def _multilinear(function: Any, first: int = 0) -> Callable[..., Any]:
    """The handler of a function that is linear in each of its arguments from one on."""

    def handler(*arguments: Any, **options: Any) -> Complex:
        lead, values = arguments[:first], [parts(value) for value in arguments[first:]]
        sums: list[Any] = [0.0, 0.0]
        for choice in itertools.product((0, 1), repeat=len(values)):
            chosen = [pair[k] for pair, k in zip(values, choice, strict=True)]
            if any(part is None for part in chosen):
                continue
            chosen[0] = as_expression(chosen[0])
            turns = sum(choice)
            term = call(function, (*lead, *chosen), options)
            sums[turns % 2] = sums[turns % 2] + (term if turns % 4 < 2 else -term)
        real, imag = sums
        return Complex(real if np.ndim(real) or not np.ndim(imag) else real + 0.0 * imag, imag + 0.0 * real)

    return handler


BILINEAR: tuple[Any, ...] = (
    *(np.multiply, np.matmul, np.dot, np.inner, np.outer, np.kron, np.tensordot, np.convolve),
)
COMPLEX.update({function: _multilinear(function) for function in BILINEAR})
COMPLEX[np.einsum] = _multilinear(np.einsum, first=1)


def _sum(sign: float) -> Callable[[Any, Any], Complex]:
    function = np.add if sign > 0 else np.subtract

    def handler(x: Any, y: Any, /) -> Complex:
        (a, b), (c, d) = _both(x), _both(y)
        return Complex(*(call(function, (as_expression(p), q)) for p, q in ((a, c), (b, d))))

    return handler


COMPLEX[np.add], COMPLEX[np.subtract] = _sum(1.0), _sum(-1.0)


@complexes(np.absolute)
def absolute(z: Any, /) -> Any:
    """|z|; its square is smooth at 0."""
    return np.sqrt(_square(z))


def _square(z: Any) -> Any:
    real, imag = map(as_expression, _both(z))
    return real * real + imag * imag


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
    return _both(val)[1]


@complexes(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The angle from the real axis."""
    real, imag = map(as_expression, _both(z))
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
        a, b = map(as_expression, _both(x))
        return Complex(a / y, b / y)
    inverse = conjugate(y if isinstance(y, Complex) else Complex(*_both(y))) * (1.0 / _square(y))
    return inverse * x


@complexes(np.reciprocal)
def reciprocal(z: Any, /) -> Any:
    """1/z."""
    return divide(1.0, z)


@complexes(np.exp)
def exp(z: Any, /) -> Complex:
    """exp(a) (cos(b) + i sin(b))."""
    real, imag = map(as_expression, _both(z))
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
            x if count else Complex(*(as_expression(p) for p in (_both(x)[0] * 0.0 + 1.0, _both(x)[1] * 0.0)))
        )
        for _ in range(abs(count) - 1):
            result = result * x
        return divide(1.0, result) if count < 0 else result
    return exp(call_complex(np.multiply, (y, log(x))))


def _by_exponentials(function: Callable[[Any, Any], Any]) -> Callable[..., Complex]:
    def handler(z: Any, /) -> Complex:
        return Complex(*function(*map(as_expression, _both(z))))

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
        *(call(np.where, (condition, as_expression(a), b)) for a, b in zip(_both(x), _both(y), strict=True))
    )


@complexes(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The product of all entries, those of the first conjugated."""
    first = conjugate(a) if isinstance(a, Complex) else np.conjugate(a)
    return call_complex(np.dot, (np.ravel(first), np.ravel(b)))


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
def prod(a: Any, axis: Any = None) -> Any:
    """The product of all entries, or along an axis."""
    whole = np.ravel(a) if axis is None else np.moveaxis(a, axis, 0)
    entries: Sequence[Any] = list(whole)
    result = entries[0]
    for entry in entries[1:]:
        result = result * entry
    return result
