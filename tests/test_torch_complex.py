"""Complex tensors between real arguments and real results, and Fourier transforms of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

import hesse.torch
from hesse.errors import TracingError
from torch_nested import assert_agrees, assert_equal

X = torch.tensor([0.3, -0.8, 1.2, 0.5, -0.4, 0.9], dtype=torch.float64)
Y = torch.tensor([1.1, 0.6, -0.7, 0.8, 0.2, -1.3], dtype=torch.float64)
M = torch.stack([X[:4], Y[:4], X[2:] * Y[2:]])
FILTER = torch.tensor([1.0, 0.5, 0.2j, 0.0], dtype=torch.complex128)


def rotary(x: Tensor) -> Tensor:
    """Pairs of entries, turned by known angles."""
    turns = torch.polar(torch.ones(3, 2).double(), torch.arange(6.0).double().reshape(3, 2))
    return torch.view_as_real(torch.view_as_complex(x.reshape(3, 2, 2)) * turns).flatten(1).sin()


def parts(z: Tensor) -> Tensor:
    """Both parts of a complex tensor, each in its own way."""
    return (z.real * 2).sin() + z.imag**2


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "fft": (lambda x: torch.fft.fft(x).abs(), (X,)),
    "rfft": (lambda x: torch.fft.rfft(x).abs() ** 2, (X,)),
    "fft of fewer points": (lambda x: parts(torch.fft.fft(x, n=4, norm="ortho")), (X,)),
    "fft of more points": (lambda x: parts(torch.fft.fft(x, n=8, norm="forward")), (X,)),
    "ifft": (lambda x, y: parts(torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y).conj())), (X, Y)),
    "ifft scaled": (lambda x: parts(torch.fft.ifft(x * (1 + 2j), norm="forward")), (X,)),
    "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * FILTER, n=6) ** 2, (X,)),
    "irfft with odd points": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=5, norm="ortho") ** 2, (X,)),
    "fft2": (lambda x: parts(torch.fft.fft2(x)), (M,)),
    "rfftn": (
        lambda x: torch.fft.irfftn(torch.fft.rfftn(x, dim=(1, 0)) * 2, s=(4, 3), dim=(1, 0)) ** 2,
        (M,),
    ),
    "fftshift": (lambda x: parts(torch.fft.fftshift(torch.fft.fft(x))), (X,)),
    "fftfreq": (
        lambda x: torch.fft.ifft(1j * torch.fft.fftfreq(6).double() * torch.fft.fft(x)).real ** 2,
        (X,),
    ),
    "rotary": (rotary, (M,)),
    "exp": (lambda x: torch.exp(1j * x).sum().abs(), (X,)),
    "polar": (lambda x, y: torch.polar(x**2, y).angle() + torch.polar(x, y).imag, (X[2:4], Y[:2] / 3)),
    "quotient": (lambda x, y: parts(torch.complex(x, y) ** 3 / torch.complex(y, x)), (X, Y)),
    "functions": (
        lambda x: parts((x + 0.5j).sqrt() * (x + 2j).log() * (x * 1j).tanh() + (x + 1j).sin()),
        (X,),
    ),
    "powers": (lambda x: parts((x + 2j) ** 2.5 - 1 / (x - 1j) ** 2), (X,)),
    "sgn": (lambda x: parts(torch.sgn(x + 1j)), (X,)),
    "norm": (lambda x: torch.linalg.vector_norm(torch.fft.fft(x)), (X,)),
    "vdot": (lambda x, y: parts(torch.vdot(torch.exp(1j * x), torch.complex(x, y))), (X, Y)),
    "matrices": (lambda x: parts((x + 1j) @ torch.fft.fft(x).mH), (M,)),
    "einsum": (lambda x: parts(torch.einsum("ij,kj->ik", torch.fft.fft(x), x * 1j)), (M,)),
    "views": (lambda x: parts(torch.fft.fft(x)[1:, ::2].reshape(-1).flip(0)[None].expand(2, 4)), (M,)),
    "inverse": (lambda x: parts(torch.linalg.inv(x[:, :3] + 1j * x[:, 1:])), (M,)),
    "solve": (lambda x: parts(torch.linalg.solve(x[:, :3] * 2j + 1, torch.fft.fft(x))), (M,)),
    "solve for a vector": (lambda x, y: parts(torch.linalg.solve(x[:, :3] * 1j + 1, y[:3] + 2j)), (M, Y)),
    "solve from the right": (
        lambda x: parts(torch.linalg.solve(torch.fft.fft(x)[:, :3], x.mT * 1j, left=False)),
        (M,),
    ),
    "joined": (lambda x, y: parts(torch.cat([x * 1j, torch.stack([y, y.exp()]).sum(0)])), (X, Y)),
    "chosen": (lambda x: parts(torch.where(x > 0, torch.exp(1j * x), x * (2 + 1j))), (X,)),
    "in place": (lambda x: parts(torch.fft.fft(x).mul_(2.0).add_(x)), (X,)),
    "in both dtypes": (lambda x: parts(x.to(torch.complex128) * 1j).to(torch.float64), (X,)),
    "means": (lambda x: parts(torch.fft.fft(x).mean(0) * torch.fft.fft(x).cumsum(1).prod(1)[0]), (M,)),
    "captured": (lambda x: FILTER.abs() * x[:4] + (x[:4] * FILTER).imag, (X,)),
    "without a graph": (lambda x: (_constant(x) * torch.fft.fft(x)).real, (X,)),
}


def _constant(x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.fft.fft(x)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    function, points = CASES[name]
    assert_agrees(function, *points)


@pytest.mark.parametrize("way", [hesse.torch.record, nullcontext])
@pytest.mark.parametrize("name", CASES)
def test_after_the_fact(name: str, way: Callable[[], Any]) -> None:
    function, points = CASES[name]
    leaves = [point.clone().requires_grad_() for point in points]
    with way():
        controller = hesse.torch.backward(function(*leaves).sum(), 2, crossings=True)
    expected = hesse.hessian(lambda *given: function(*given).sum(), argnums=tuple(range(len(points))))(
        *points
    )
    for row, first in zip(expected, leaves, strict=True):
        for block, second in zip(row, leaves, strict=True):
            assert_equal(controller.fetch_hgrad([first, second])[0][0], block)


def test_single_precision() -> None:
    hessian = hesse.hessian(lambda x: (torch.fft.rfft(x).abs() ** 2).sum())
    assert hessian(X.float()).dtype == torch.float32
    torch.testing.assert_close(hessian(X.float()), hessian(X).float())


def _part_written(x: Tensor) -> Tensor:
    z = torch.fft.fft(x)
    z.real[0] = x[0]
    return z.abs()


def _entry_written(x: Tensor) -> Tensor:
    z = torch.zeros(3, dtype=torch.complex128)
    z[0] = x[0]
    return z.abs()


REFUSED: dict[str, tuple[Any, str]] = {
    "a complex result": (torch.fft.fft, r"is complex; return real numbers: z\.real"),
    "a part that is written to": (_part_written, r"writing to a tensor.*clone\(\)"),
    "an entry that is written": (_entry_written, r"part of a complex tensor.*torch\.complex"),
    "an operation": (
        lambda x: torch.linalg.cholesky(torch.outer(x, x) * 1j).real,
        r"of complex tensors.*z\.real",
    ),
    "a variance": (lambda x: torch.fft.fft(x).var(), r"of complex tensors.*z\.real"),
    "a conversion": (lambda x: torch.fft.fft(x).to(torch.float64), r"complex numbers to real ones.*z\.real"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(TracingError, match=message):
        hesse.jacobian(function)(X)


def test_directions_at_zero() -> None:
    """`sgn` has no derivative there, as in PyTorch, and the square of a size is smooth."""
    x = torch.tensor([0.0, 1.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return (torch.sgn(torch.complex(x[:2], x[2:])) * (1 + 3j)).real.sum()

    (expected,) = torch.autograd.grad(function(x), x)
    torch.testing.assert_close(hesse.grad(function)(x.detach()), expected)
    found = hesse.hessian(lambda x: torch.complex(x[:2], x[2:]).abs().square().sum())(x.detach())
    torch.testing.assert_close(torch.as_tensor(found), 2 * torch.eye(4, dtype=torch.float64))
