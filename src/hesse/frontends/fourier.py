"""`np.fft`: products with matrices of cosines and sines, which are known.

Their derivatives are such products, too. The matrices have a row for each frequency, so there is a limit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.frontends.complexes import Complex, parts
from hesse.frontends.dispatch import COMPLEX, call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, axis_number, known_sizes
from hesse.frontends.tracing import untraceable

MOST_POINTS = 4096
"""Longer transforms would need matrices of gigabytes."""


@functools.lru_cache(maxsize=32)
def _waves(rows: int, count: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π j k / points, for j < rows and k < count; whole turns are left out exactly."""
    turns = np.outer(np.arange(rows), np.arange(count)) % points
    angles = 2.0 * math.pi / points * turns
    return np.cos(angles), np.sin(angles)


def _factor(points: int, norm: str | None, is_inverse: bool) -> float:
    root = 1.0 / math.sqrt(points)
    choices = {"backward": (1.0, 1.0 / points), "forward": (1.0 / points, 1.0), "ortho": (root, root)}
    norm = "backward" if norm is None else norm
    if norm not in choices:
        raise ArgumentError(f"norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    return choices[norm][is_inverse]


def _resized(value: Any, count: int) -> Any:
    """The last axis cut off, or continued by zeros."""
    (size,) = known_sizes("fft", value.shape[-1:])
    if count <= size:
        return value[..., :count]
    return np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, count - size)])


def _checked(points: int) -> int:
    if points < 1:
        raise ArgumentError(f"Invalid number of FFT data points ({points}) specified.")
    if points > MOST_POINTS:
        raise untraceable(
            f"np.fft of {points} points",
            f"At most {MOST_POINTS} are transformed by matrices; wrap the transform with "
            "hesse.custom_derivative (it is linear).",
        )
    return points


def _along(value: Any, axis: Any) -> tuple[Any, Any, int]:
    """The parts with an axis moved to the end, and its number."""
    real, imag = parts(value)
    real = as_expression(real)
    number = axis_number("fft", axis, real.ndim)
    moved: list[Any] = [
        None if part is None else call(np.moveaxis, (as_expression(part), number, -1))
        for part in (real, imag)
    ]
    return moved[0], moved[1], number


def _transformed(
    value: Any, n: Any, axis: Any, norm: Any, sign: float, rows: Callable[[int], int]
) -> Complex:
    real, imag, number = _along(value, axis)
    points = _checked(int(real.shape[-1] if n is None else n))
    scale = _factor(points, norm, sign > 0)
    cosine, sine = (scale * wave for wave in _waves(rows(points), points, points))
    real = _resized(real, points)
    found = [real @ cosine.T, sign * (real @ sine.T)]
    if imag is not None:
        imag = _resized(imag, points)
        found = [found[0] - sign * (imag @ sine.T), found[1] + imag @ cosine.T]
    return Complex(*(np.moveaxis(part, -1, number) for part in found))


def both(function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a handler for real and complex values."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        COMPLEX[function] = implements(function)(handler)
        return handler

    return register


@both(np.fft.fft)
def fft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Complex:
    """The discrete Fourier transform."""
    return _transformed(a, n, axis, norm, -1.0, lambda points: points)


@both(np.fft.ifft)
def ifft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Complex:
    """Its inverse."""
    return _transformed(a, n, axis, norm, 1.0, lambda points: points)


@implements(np.fft.rfft)
def rfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Complex:
    """The transform of real values: frequencies that are not negative."""
    return _transformed(a, n, axis, norm, -1.0, lambda points: points // 2 + 1)


@both(np.fft.irfft)
def irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The real values of which the frequencies that are not negative are given."""
    real, imag, number = _along(a, axis)
    points = _checked(int(2 * (real.shape[-1] - 1) if n is None else n))
    count = points // 2 + 1
    weights = np.full(count, 2.0 * _factor(points, norm, True))
    weights[0] /= 2.0
    if points % 2 == 0:
        weights[-1] /= 2.0
    cosine, sine = (wave * weights for wave in _waves(points, count, points))
    result = _resized(real, count) @ cosine.T
    if imag is not None:
        result = result - _resized(imag, count) @ sine.T
    return np.moveaxis(result, -1, number)


def _of_axes(one: Callable[..., Complex], default: Sequence[int] | None) -> Callable[..., Complex]:
    def handler(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Complex:
        rank = np.ndim(parts(a)[0])
        chosen = axes if axes is not None else default
        if chosen is None:
            chosen = range(rank) if s is None else range(rank - len(s), rank)
        sizes = [None] * len(chosen) if s is None else s
        result = a
        for axis, size in zip(reversed(list(chosen)), reversed(list(sizes)), strict=True):
            result = one(result, size, axis, norm)
        return result  # type: ignore[no-any-return]

    return handler


fft2, ifft2 = both(np.fft.fft2)(_of_axes(fft, (-2, -1))), both(np.fft.ifft2)(_of_axes(ifft, (-2, -1)))
fftn, ifftn = both(np.fft.fftn)(_of_axes(fft, None)), both(np.fft.ifftn)(_of_axes(ifft, None))


@implements(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The transform of real values along several axes, the last of them halved."""
    rank = np.ndim(parts(a)[0])
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    *others, last = axes
    *sizes, size = [None] * len(axes) if s is None else s
    result = rfft(a, size, last, norm)
    return _of_axes(fft, None)(result, sizes, others, norm) if others else result


@implements(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The transform of real matrices, the last axis halved."""
    return rfftn(a, s, axes, norm)


@both(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The real values of which the frequencies that are not negative along the last axis are given."""
    rank = np.ndim(parts(a)[0])
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    *others, last = axes
    *sizes, size = [None] * len(axes) if s is None else s
    return irfft(_of_axes(ifft, None)(a, sizes, others, norm) if others else a, size, last, norm)


@both(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """The same for matrices."""
    return irfftn(a, s, axes, norm)


SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@both(np.fft.hfft)
def hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
    """The real transform of values of which one half is given, the others being their conjugates."""
    real, imag = parts(a)
    conjugate = a if imag is None else Complex(real, -as_expression(imag))
    return irfft(conjugate, n, axis, SWAPPED.get(norm, norm))


@implements(np.fft.ihfft)
def ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Complex:
    """Its inverse."""
    found = rfft(a, n, axis, SWAPPED.get(norm, norm))
    return Complex(found.real, -found.imag)


def _shifted(sign: int) -> Callable[..., Any]:
    def handler(x: Any, axes: Any = None) -> Any:
        value: Any = Expression(as_expression(x).node)
        chosen = range(value.ndim) if axes is None else [axes] if isinstance(axes, int) else list(axes)
        for axis in chosen:
            (size,) = known_sizes("fftshift", value.shape[axis : axis + 1 or None])
            value = np.roll(value, size // 2 if sign > 0 else -(size // 2), axis)
        return value

    return handler


fftshift, ifftshift = implements(np.fft.fftshift)(_shifted(1)), implements(np.fft.ifftshift)(_shifted(-1))
