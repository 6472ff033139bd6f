"""Complex tensors between real arguments and real results: pairs of expressions.

Handlers of other operations serve complex tensors, too, if they are linear or written with functions of NumPy
that know pairs. Which ones these are is said here, because some mean something else (a norm, a variance).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hesse.frontends import fourier
from hesse.frontends.aten.reductions import vector_norm
from hesse.frontends.aten.table import Typed, aten, handler_of, operation_name
from hesse.frontends.aten.tensor import TracedTensor, known
from hesse.frontends.complex_functions import direction, size_of
from hesse.frontends.complexes import Complex, both_parts
from hesse.frontends.expression import Expression
from hesse.frontends.handlers import Handlers
from hesse.frontends.operands import as_expression
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import elementwise

SHARED = """
_reshape_copy _unsafe_view add addmm alias bmm cat clone concat constant_pad_nd contiguous cos cosh cumsum
diag_embed diagonal div dot exp expand expand_as flatten flip hstack index index_select inner kron
lift_fresh_copy linear log matmul mean mm movedim mT mul mv narrow neg numpy_T outer permute positive pow prod
ravel reciprocal repeat reshape resolve_neg roll rsub select sin sinh slice split split_with_sizes sqrt square
squeeze stack sub sum t tan tanh tile trace transpose tril triu unbind unflatten unsqueeze view vstack where
"""
"""Operations whose handlers do the right thing for complex tensors."""
FORWARD, BACKWARD = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")
"""NumPy's names for PyTorch's ways to scale a transform: not at all, by a root, by the number of points."""
OWN = Handlers()
"""By the name of an operation: handlers of complex tensors."""
own = OWN.register


def complex_handler_of(function: Any) -> Callable[..., Any] | None:
    """The handler of an operation on complex tensors."""
    name = operation_name(function)
    return OWN.get(name) or (handler_of(function) if name in SHARED.split() else None)


# What makes complex tensors of real ones.


@aten("complex")
def complex_(real: Any, imag: Any) -> Complex:
    """A tensor with these parts."""
    shape = np.broadcast_shapes(real.shape, imag.shape)
    return Complex(np.broadcast_to(real, shape), np.broadcast_to(imag, shape))


@aten("polar")
def polar(size: Any, angle: Any) -> Complex:
    """`size * exp(1j * angle)`."""
    return Complex(np.multiply(size, np.cos(angle)), np.multiply(size, np.sin(angle)))


@aten("view_as_complex")
def view_as_complex(x: Any) -> Any:
    """The last axis, of two entries, as the parts."""
    return Apart(Complex(x[..., 0], x[..., 1]))


@aten("_fft_r2c")
def fft_of_real(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """The discrete Fourier transform of a real tensor; the last axis may be halved."""
    transform = fourier.rfftn if onesided else fourier.fftn
    return transform(x, None, dim, FORWARD[normalization])


# Operations on complex tensors.


class Apart:
    """A result that shares memory with the operand in PyTorch, but not here: neither may be written to."""

    def __init__(self, value: Any) -> None:
        self.value = value


@own("_fft_c2c")
def fft(z: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """The discrete Fourier transform, or its inverse."""
    if forward:
        return fourier.fftn(z, None, dim, FORWARD[normalization])
    return fourier.ifftn(z, None, dim, BACKWARD[normalization])


@own("_fft_c2r")
def fft_to_real(z: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """The inverse transform of half of the frequencies, to real values."""
    *others, last = dim
    norm = BACKWARD[normalization]
    rest = fourier.ifftn(z, None, others, norm) if others else z
    return fourier.irfft(rest, last_dim_size, last, norm)


@own("real")
def real(z: Complex) -> Any:
    """The real part."""
    return Apart(z.real)


@own("imag")
def imag(z: Complex) -> Any:
    """The imaginary part."""
    return Apart(z.imag)


@aten("_neg_view")
def negative(x: Any) -> Any:
    """The imaginary part of a tensor that PyTorch has yet to conjugate."""
    return Apart(np.negative(x))


@own("view_as_real")
def view_as_real(z: Complex) -> Any:
    """The parts along a last axis."""
    return Apart(np.stack([z.real, z.imag], -1))


@own("conj", "_conj", "conj_physical")
def conjugate(z: Complex) -> Any:
    """The other imaginary part."""
    return Apart(np.conjugate(z))


@own("resolve_conj")
def resolved(z: Complex) -> Any:
    """The tensor itself."""
    return z


@own("mH", "matrix_H", "adjoint")
def adjoint(z: Complex) -> Any:
    """The conjugate with the last two axes exchanged."""
    return Apart(np.conjugate(np.swapaxes(z, -1, -2)))


@own("angle")
def angle(z: Complex) -> Any:
    """The angle from the real axis."""
    return np.angle(z)


own("abs")(size_of)
own("sgn")(direction)


@own("vdot")
def vdot(x: Any, y: Any) -> Any:
    """The product of vectors, the first of them conjugated."""
    return np.dot(np.conjugate(x) if isinstance(x, Complex) else x, y)


@own("linalg_vector_norm")
def norm(z: Complex, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of the absolute values."""
    return vector_norm(size_of(z), ord, dim, keepdim)


def _unread() -> TracedTensor:
    """In the place of factors and error codes, which only PyTorch's own rules read."""
    return known(torch.empty(0))


@own("linalg_inv", "inverse")
def inverse(a: Any) -> Any:
    """The inverse of matrices."""
    return np.linalg.inv(a)


@own("linalg_inv_ex")
def inverse_ex(a: Any, check_errors: bool = False) -> Any:
    """The inverse and the error codes."""
    return np.linalg.inv(a), _unread()


@own("linalg_solve")
def solve(a: Any, b: Any, left: bool = True) -> Any:
    """The solution of `a x = b`, or of `x a = b`."""
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return solve(a, np.expand_dims(b, -1), True)[..., 0] if left else solve(np.swapaxes(a, -1, -2), b)
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


@own("_linalg_solve_ex")
def solve_factored(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Any:
    """The solution, the factors, the pivots and the error codes."""
    return solve(a, b, left), _unread(), _unread(), _unread()


@own("linalg_solve_ex")
def solve_ex(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Any:
    """The solution and the error codes."""
    return solve(a, b, left), _unread()


@own("detach")
def detach(z: Complex) -> Any:
    """A constant."""
    return constant_part(z)


@own("to", "_to_copy")
def converted(z: Complex, *arguments: Any, dtype: Any = None, **_: Any) -> Any:
    """The tensor in another complex dtype."""
    found = [value for value in (*arguments, dtype) if isinstance(value, torch.dtype)]
    if found and not found[0].is_complex:
        raise untraceable("a conversion of complex numbers to real ones", "Take z.real.")
    return Typed(z, found[0]) if found else z


def constant_part(value: Any) -> Any:
    """A real or complex value as a constant."""
    if isinstance(value, Complex):
        return Complex(*(elementwise("stop_gradient", part) for part in (value.real, value.imag)))
    return elementwise("stop_gradient", value)


def as_complex(value: Any) -> Complex:
    """A real or complex value as a complex one."""
    if isinstance(value, Complex):
        return value
    assert isinstance(value, Expression)
    return Complex(*map(as_expression, both_parts(value)))


def is_complex(value: Any) -> bool:
    """Whether a tensor with known entries, or what stands for one, is complex."""
    return isinstance(value, Complex) or (isinstance(value, torch.Tensor) and value.dtype.is_complex)
