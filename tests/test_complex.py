"""Complex values between real arguments and real results, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError, TracingError
from test_coverage import random, weighted
from test_numpy_meaning import agrees

X = np.array([0.3, 1.2, 2.7, -0.8, 1.9])
MATRIX = random(4, 3)
FILTER = random(2, 5)[0] + 1j * random(2, 5)[1]


def both(z: Any) -> Any:
    """A number that tells all entries and their parts apart."""
    return weighted(z.real) + 2.0 * weighted(z.imag)


CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "rfftn of sizes and axes": (lambda x: both(np.fft.rfftn(x, s=(3, 4), axes=(1, 0))), MATRIX),
    "abs exp": (lambda x: np.sum(np.abs(np.exp(1j * x)) * x), X),
    "exp": (lambda x: both(np.exp((0.3 + 1j) * x)), X),
    "exp(x*1j)": (lambda x: both(np.exp(x * 1j) / (1 + x)), X),
    "poly": (lambda x: both((x + 2j) ** 3 - 1j * x), X),
    "div": (lambda x: both((1 + 1j * x) / (2 - 1j * x)), X),
    "rdiv": (lambda x: both(1 / (2 - 1j * x)), X),
    "div real": (lambda x: both((1 + 1j * x) / (x + 3)), X),
    "log": (lambda x: both(np.log(x + 2j)), X),
    "sqrt": (lambda x: both(np.sqrt(x + 2j)), X),
    "pow": (lambda x: both((x + 2j) ** 0.3), X),
    "neg pow": (lambda x: both((x + 2j) ** -2), X),
    "trig": (
        lambda x: both(
            np.sin(x + 0.5j)
            + np.cos(1j * x)
            + np.sinh(x - 1j)
            + np.cosh(1j * x)
            + np.tan(x + 0.5j)
            + np.tanh(x + 0.2j)
        ),
        X,
    ),
    "abs2": (lambda x: np.sum(np.abs(x + 1j * x**2) ** 2), X),
    "angle": (lambda x: weighted(np.angle(x + 2j * x**2)), X),
    "conj": (lambda x: both(np.conj(x + 2j) * (x + 1j)), X),
    "const array": (lambda x: both(FILTER * x + FILTER), X),
    "fft": (lambda x: weighted(np.fft.fft(x).real) + weighted(np.fft.fft(x).imag), X),
    "power spectrum": (lambda x: weighted(np.abs(np.fft.fft(x)) ** 2), X),
    "abs fft": (lambda x: weighted(np.abs(np.fft.fft(x))), X),
    "rfft": (lambda x: both(np.fft.rfft(x)), X),
    "rfft even": (lambda x: both(np.fft.rfft(x, 6)), X),
    "irfft": (lambda x: weighted(np.fft.irfft(np.fft.rfft(x) * FILTER[:3], 5)), X),
    "irfft even": (lambda x: weighted(np.fft.irfft(x)), X),
    "conv": (lambda x: weighted(np.fft.ifft(np.fft.fft(x) * np.fft.fft(x**2)).real), X),
    "ifft": (lambda x: both(np.fft.ifft(x * FILTER, norm="ortho")), X),
    "fft n": (lambda x: both(np.fft.fft(x, 3)), X),
    "fft axis": (lambda x: both(np.fft.fft(x, axis=0, norm="forward")), MATRIX),
    "fft2": (lambda x: both(np.fft.fft2(x)), MATRIX),
    "ifft2": (lambda x: both(np.fft.ifft2(np.fft.fft2(x) ** 2)), MATRIX),
    "fftn": (lambda x: both(np.fft.fftn(x)), MATRIX),
    "rfft2": (lambda x: both(np.fft.rfft2(x)), MATRIX),
    "rfftn": (lambda x: both(np.fft.rfftn(x)), MATRIX),
    "shift": (lambda x: both(np.fft.fftshift(np.fft.fft(x))), X),
    "shift real": (lambda x: weighted(np.fft.fftshift(x**2)), X),
    "ishift": (lambda x: weighted(np.fft.ifftshift(x**2, axes=0)), MATRIX),
    "sum": (lambda x: np.abs(np.sum(np.exp(1j * x))), X),
    "sum axis": (lambda x: both(np.sum(np.exp(1j * x), axis=0)), MATRIX),
    "mean": (lambda x: abs((x * 1j + 2).mean()), X),
    "matmul": (lambda x: both((x + 1j) @ (x.T - 2j)), MATRIX),
    "matmul real": (lambda x: both(FILTER[:4] @ (x + 0j * x)), MATRIX),
    "einsum": (lambda x: both(np.einsum("ij,kj->ik", x + 1j, x * 1j)), MATRIX),
    "vdot": (lambda x: np.vdot(x + 1j, x * 2j).imag, X),
    "index": (lambda x: both((x + 1j)[1:3]), X),
    "concat": (lambda x: both(np.concatenate([x + 1j, x])), X),
    "stack": (lambda x: both(np.stack([x, x * 1j])), X),
    "where": (lambda x: both(np.where(x > 1, x * 1j, x)), X),
    "norm": (lambda x: np.linalg.norm(x + 1j * x[::-1]), X),
    "dft": (
        lambda x: weighted(np.abs(np.exp(-2j * np.pi * np.outer(np.arange(5), np.arange(5)) / 5) @ x)),
        X,
    ),
    "structure": (lambda x: both(np.exp(1j * x).reshape(5, 1).T), X),
    "prod": (lambda x: both(np.prod(x + 1j)), X),
    "real,imag": (lambda x: np.real(np.exp(1j * x)).sum() + np.imag(x * 2j).sum(), X),
    "astype": (lambda x: both(x.astype(complex) ** 2), X),
    "loop": (lambda x: abs(sum(np.exp(1j * k * x[k]) for k in range(5))), X),
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_numpy(name: str) -> None:
    function, point = CASES[name]
    agrees(function, point)


def test_complex_results_are_refused() -> None:
    for derivative in (hesse.jacobian, hesse.compile):
        with pytest.raises(TracingError, match=r"result of f is complex; return real numbers: z\.real"):
            derivative(f)(X)


def f(x: Any) -> Any:
    return np.exp(1j * x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_back_ends_and_precisions(dtype: Any, backend: str) -> None:
    def spectrum(x: Any) -> Any:
        return np.sum(np.abs(np.fft.rfft(x * np.hanning(5))) ** 2 * np.arange(3.0))

    found = np.asarray(hesse.grad(spectrum, backend=backend)(X.astype(dtype)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, hesse.grad(spectrum)(X), rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_norms_of_transforms() -> None:
    with pytest.raises(ArgumentError, match="norm is 'backward', 'ortho' or 'forward', not 'unit'"):
        hesse.grad(lambda x: np.sum(np.fft.fft(x, norm="unit").real))(X)


def test_what_complex_values_say_of_themselves() -> None:
    seen: list[Any] = []

    def function(x: Any) -> Any:
        z = np.exp(1j * x)
        seen.append((z.shape, z.ndim, z.size, len(z), np.iscomplexobj(z), np.shape(z), z.dtype, repr(z)))
        return np.sum(abs(z))

    hesse.grad(function)(X)
    assert seen[0] == ((5,), 1, 5, 5, True, (5,), np.dtype(complex), "Complex(shape=(5,))")
