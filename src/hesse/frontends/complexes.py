"""Complex values on the way from real arguments to real results: pairs of traced values.

`1j * x`, `np.exp(1j * x)` and `np.fft.fft(x)` are such pairs. What is known of them is in a table of its own,
in which `dispatch.call` looks where a handler of real values meets something complex.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from hesse.frontends.classes import class_of
from hesse.frontends.dispatch import COMPLEX, call, call_complex, function_name
from hesse.frontends.expression import Expression
from hesse.frontends.flat import Flat
from hesse.frontends.operands import as_expression
from hesse.frontends.orders import reshape_in_place
from hesse.frontends.tracing import ComplexError, ComplexNumbersNeeded, UnknownAttribute, untraceable

Pair = tuple[Any, Any]
"""The real and the imaginary part; None: that is zero."""


class Complex:
    """A complex value: `real` and `imag` are traced values of one shape, which nobody else writes to."""

    __slots__ = ("_imag", "_real")
    __array_priority__ = 1001.0
    boolean = False
    """Whether it holds truth values."""

    def __init__(self, real: Any, imag: Any) -> None:
        self._real: Expression = copy(as_expression(real).astype(float))
        self._imag: Expression = copy(as_expression(imag).astype(float))
        self._real.is_part = self._imag.is_part = True

    @classmethod
    def view(cls, real: Expression, imag: Expression) -> Complex:
        """Parts of an array, to which writes go through."""
        found = cls.__new__(cls)
        found._real, found._imag = real, imag
        real.is_part = imag.is_part = True
        return found

    def __copy__(self) -> Complex:
        return Complex(self.real, self.imag)

    def __deepcopy__(self, memo: Any) -> Complex:
        return self.__copy__()

    def __repr__(self) -> str:
        return f"Complex(shape={self.shape})"

    def __getattr__(self, name: str) -> Any:
        way_out = "Use the NumPy function instead of the method, or z.real, z.imag, np.abs(z), np.angle(z)."
        raise untraceable(f"the attribute .{name} of a complex value", way_out, kind=UnknownAttribute)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """For the user that asks `isinstance(z, np.ndarray)`: what NumPy would have here."""
        return class_of(self, Complex)

    @property
    def is_number(self) -> bool:
        """Whether it is what NumPy makes a number of."""
        return self.real.is_number

    @property
    def real(self) -> Expression:
        """The real part; what is assigned is written to it."""
        return self._real

    @real.setter
    def real(self, value: Any) -> None:
        self._real[...] = value

    @property
    def imag(self) -> Expression:
        """The imaginary part; what is assigned is written to it."""
        return self._imag

    @imag.setter
    def imag(self, value: Any) -> None:
        self._imag[...] = value

    @property
    def shape(self) -> Any:
        """Sizes of the axes."""
        return self.real.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        for part in (self._real, self._imag):
            reshape_in_place(part, shape)

    @property
    def flat(self) -> Flat:
        """The entries in row-major order, to read and to write."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

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

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """The same entries in another shape, given as numbers or as one tuple."""
        return call_complex(np.reshape, (self, shape[0] if len(shape) == 1 else shape), options)

    def transpose(self, *order: Any) -> Any:
        """The axes in a new order, given as numbers or as one tuple; reversed without arguments."""
        return call_complex(np.transpose, (self, order[0] if len(order) == 1 else order or None))

    def copy(self, order: str = "C") -> Any:
        """The same entries, in an array of its own if it is none that NumPy makes a number of."""
        return copy(self) if self.is_number else call_complex(np.copy, (self,), {"order": order})

    def flatten(self, order: str = "C") -> Any:
        """The entries in one row, in an array of its own."""
        return call_complex(np.ravel, (self,), {"order": order}).copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise complex_met(ComplexNumbersNeeded)

    def __complex__(self) -> complex:
        raise complex_met(ComplexNumbersNeeded)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc is np.add:
            return call_complex(np.sum, inputs[:1], {"axis": 0, **options})
        if method == "at":
            return call_complex(getattr(ufunc, method), inputs)
        if method != "__call__":
            raise untraceable(f"{function_name(ufunc)}.{method} of complex values", "Use np.sum.")
        return call_complex(ufunc, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return call_complex(function, tuple(arguments), options)

    def __len__(self) -> int:
        return len(self.real)

    def __getitem__(self, key: Any) -> Complex:
        return Complex.view(self.real[key], self.imag[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        for target, part in zip((self.real, self.imag), both_parts(value), strict=True):
            target[key] = part

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def fill(self, value: Any) -> None:
        """Write a number everywhere."""
        self[...] = value

    def item(self, *position: Any) -> Complex:
        """An entry as a number: the only one, or one at a position."""
        return Complex(self.real.item(*position), self.imag.item(*position))

    def tolist(self) -> Any:
        """The entries as numbers in nested lists."""
        return [part.tolist() for part in self] if self.shape else self

    def __hash__(self) -> int:
        return hash((self.real, self.imag))

    def __format__(self, spec: str) -> str:
        """What `print(f"{z:.3f}")` in a traced function shows: there are no digits yet."""
        return str(self)

    def __bool__(self) -> bool:
        raise untraceable("the truth value of a complex value", "Compare its parts, z.real and z.imag.")


def _method(function: Any) -> Callable[..., Any]:
    return lambda self, *arguments, **options: call_complex(function, (self, *arguments), options)


def _in_place(ufunc: np.ufunc) -> Callable[[Complex, Any], Complex]:
    def method(self: Complex, other: Any) -> Complex:
        found: Complex = call_complex(ufunc, (self, other))
        if self.is_number:
            return found
        self[...] = found
        return self

    return method


def _reflected(function: Any) -> Callable[[Any, Any], Any]:
    return lambda self, other: call_complex(function, (other, self))


_OPERATORS: dict[str, Any] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power},
    "matmul": np.matmul,
}
_METHODS: dict[str, Any] = {
    **{"__neg__": np.negative, "__pos__": np.positive, "__abs__": np.absolute},
    **{"conj": np.conjugate, "conjugate": np.conjugate, "sum": np.sum, "mean": np.mean},
    **{"ravel": np.ravel, "dot": np.dot, "squeeze": np.squeeze},
    **{"swapaxes": np.swapaxes, "cumsum": np.cumsum, "repeat": np.repeat, "take": np.take},
    **{"trace": np.trace, "diagonal": np.diagonal, "prod": np.prod, "var": np.var, "std": np.std},
}
for _name, _function in _OPERATORS.items():
    setattr(Complex, f"__{_name}__", _method(_function))
    setattr(Complex, f"__r{_name}__", _reflected(_function))
    setattr(Complex, f"__i{_name}__", _in_place(_function))
_COMPARISONS: dict[str, Any] = {
    **{"__eq__": np.equal, "__ne__": np.not_equal, "__lt__": np.less, "__le__": np.less_equal},
    **{"__gt__": np.greater, "__ge__": np.greater_equal},
}
for _name, _function in (_METHODS | _COMPARISONS).items():
    setattr(Complex, _name, _method(_function))


def complex_met(kind: type[ComplexError] = ComplexError) -> ComplexError:
    """The error where a real value is needed."""
    return kind(
        str(
            untraceable(
                "a complex value where a real one is needed",
                "Arguments and results are real: take z.real, z.imag, np.abs(z) or np.angle(z), build "
                "arrays of complex values with np.stack, and use np.exp(z) instead of cmath.exp(z).",
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


def both_parts(value: Any) -> Pair:
    """The parts of a value, zeros where the imaginary one is None."""
    real, imag = parts(value)
    return real, (np.zeros(np.shape(real)) if imag is None else imag)


def _by_parts(function: Any) -> Callable[..., Any]:
    """The handler of a function that is linear in its first argument, an array or a list of arrays."""

    def handler(value: Any, *arguments: Any, **options: Any) -> Complex:
        if isinstance(value, tuple | list):
            pairs = [both_parts(part) for part in value]
            real, imag = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            real[0] = as_expression(real[0])  # NumPy asks a traced value what to do
            imag[0] = as_expression(imag[0])
        else:
            real, imag = map(as_expression, both_parts(value))  # type: ignore[assignment]
        found = [call(function, (part, *arguments), options) for part in (real, imag)]
        return (Complex.view if function in VIEWS else Complex)(*found)

    return handler


VIEWS = frozenset(
    {
        *(np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.flip),
        *(np.fliplr, np.flipud, np.diag, np.diagonal, np.broadcast_to, np.rot90, np.atleast_1d, np.copy),
    }
)
"""Functions whose results are views of their arguments, or may be, and are arrays of their own else."""
LINEAR: tuple[Any, ...] = (
    *(np.sum, np.mean, np.cumsum, np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze),
    *(np.expand_dims, np.flip, np.fliplr, np.flipud, np.roll, np.repeat, np.tile, np.take, np.diag, np.trace),
    *(np.diagonal, np.broadcast_to, np.pad, np.diff, np.copy, np.concatenate, np.stack, np.hstack, np.vstack),
    *(np.column_stack, np.dstack),
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
        (a, b), (c, d) = both_parts(x), both_parts(y)
        return Complex(*(call(function, (as_expression(p), q)) for p, q in ((a, c), (b, d))))

    return handler


COMPLEX[np.add], COMPLEX[np.subtract] = _sum(1.0), _sum(-1.0)
