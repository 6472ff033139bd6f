"""Complex values between real arguments and results: writes, in-place operators, linear systems."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import TracingError
from test_numpy_meaning import agrees

POINT = np.array([0.3, -0.7, 1.1, 0.4, 0.9])
KNOWN = np.array([True, False, True, False, True])
PHASES = np.exp(1j * np.arange(1.0, 6.0))


def size(z: Any) -> Any:
    """A number in which all parts have a share."""
    return np.sum(np.abs(z - 0.3 + 0.2j) ** 4) + np.sum((z * PHASES[: len(z)].reshape(-1)).real)


def low_pass(x: Any) -> Any:
    spectrum = np.fft.fft(x)
    spectrum[2:] = 0
    return size(spectrum) + np.sum(np.fft.ifft(spectrum).real ** 3)


def known_mask(x: Any) -> Any:
    spectrum = np.fft.fft(x)
    spectrum[KNOWN] = x[:3] ** 2
    spectrum[~KNOWN] *= 1j
    return size(spectrum)


def entries(x: Any) -> Any:
    z = np.exp(1j * x)
    z[2] *= 2 - 1j
    z[0] = x[1] + 1j * x[2]
    z[1:] = z[:-1] * x[1:]
    return size(z)


def in_place(x: Any) -> Any:
    z = np.exp(1j * x)
    same = z
    z *= 2
    z += x
    z[1:] -= 1j * x[:-1]
    z /= 1.0 + 0.5j
    return size(same)


def views(x: Any) -> Any:
    z = np.exp(1j * np.outer(x, x))
    z.T[0] = x
    row = z[1]
    row[2:] = 0.5j
    z.real[2] *= x
    np.diagonal(z)
    return np.sum(np.abs(z[:, :3]) ** 4) + z[1, 0].imag + size(z[0])


def copies(x: Any) -> Any:
    z = np.exp(1j * x)
    y, w = z.copy(), z.conj()
    z[:] = 0
    w[1] = 1
    return size(z) + size(y) + size(w)


def numbers(x: Any) -> Any:
    z = np.exp(1j * x)
    first = z[0]
    first *= 3j  # a number is replaced
    return size(z) + np.abs(first - 1) ** 2


def of_its_argument(x: Any) -> Any:
    z = x + 1j * x
    z[0] = 2.0
    return size(z) + np.sum(x**3)


def matrix(x: Any) -> Any:
    return x[:4].reshape(2, 2) * (1 + 2j) + np.array([[2.0, 0.3j], [1.0, 1.5]])


def solved(x: Any) -> Any:
    return size(np.linalg.solve(matrix(x), x[:2] * 1j)) + size(np.linalg.solve(np.eye(2) + 0.1, matrix(x)[0]))


def solved_matrices(x: Any) -> Any:
    right = np.outer(x[:2], x[1:4]) * (1 - 1j)
    return np.sum(np.abs(np.linalg.solve(matrix(x), right)) ** 2)


def inverted(x: Any) -> Any:
    both = np.stack([matrix(x), matrix(x**2)])
    return np.sum(np.linalg.inv(both).imag ** 3) + np.sum(np.abs(np.linalg.inv(matrix(x))) ** 2)


def filled(x: Any) -> Any:
    z = np.zeros(5, complex)
    z[:3] = x[:3]
    z[3] = 1j * x[4]
    z[1:4] += np.exp(1j * x[:3])
    return size(z)


def filled_by_a_loop(x: Any) -> Any:
    z = np.empty(5, dtype=np.complex128)
    z[0] = x[2]
    for k in range(1, 5):
        z[k] = z[k - 1] * (0.5j + x[k]) + x[0]
    return size(z)


def from_a_list(x: Any) -> Any:
    z = np.array([x[0] + 1j * x[1], x[2], 1j, 2.0])
    w = np.array([[1j * x[0], x[1]], [x[2], x[3]]]) @ np.array([1.0, x[1] * 1j], dtype=complex)
    return size(z) + size(w)


def parts_assigned(x: Any) -> Any:
    z = x[:4] + 1j * x[1:]
    part, row = z[:2], z.reshape(2, 2)[1]
    z.real = x[1:] ** 2
    z.imag *= x[:4]
    z.imag[1:3] = x[:2]
    return size(part) + size(row)


def flat_entries(x: Any) -> Any:
    z = np.zeros((2, 2), complex)
    z.T.flat = x[:4]
    z.flat[1] = 1j * x[4]
    w = 1j * x
    w.fill(0.5 - 2j)
    w[1] = z.flat[2] * z.item(1) * z.tolist()[1][0]
    return size(z.ravel()) + size(w)


def filled_by_out(x: Any) -> Any:
    z, w, y = np.zeros(5, complex), np.empty(5, complex), np.zeros(5)
    z += x
    np.multiply(z, 1j * x, out=z)
    np.add(x, 1.0, out=w)
    np.abs(w - z, out=y)
    np.copyto(w, z + 1, where=KNOWN)
    np.add.at(w, [1, 1, 2], 1j * x[:3])
    np.subtract.at(w, [4], x[0])
    return size(z) + size(w) + np.sum(y**3)


def made_like(x: Any) -> Any:
    z, w = np.zeros_like(x, dtype=complex), np.zeros_like(1j * x)
    z[:] = x**2
    w[1:] = 1j * x[:-1]
    u = np.full_like(w, x[0]) + np.full_like(x, 2j, dtype=complex) + np.ones_like(w) * x
    r = np.ones_like(w, dtype=float)
    r *= x
    m = np.zeros_like(z, shape=(2, 2))
    m += x[3]
    np.fill_diagonal(m, 1j * x[:2])
    return size(z) + size(w) + size(u) + np.sum(r**3) + size(m.ravel())


def compared(x: Any) -> Any:
    z = np.zeros(5, complex)
    z[1:] = x[1:] + 1j * x[:-1] * KNOWN[1:]
    z[z == 0] = x[0]
    z *= np.where(z != x + 0j, 2j, 1)
    z[np.isnan(z) | ~np.isfinite(z)] = 0.0
    message = f"{z} {z[0]:.3f}"
    return size(z) + np.sum(np.where(1j * x == 1j * x, x**2, x)) + 0 * len(message)


def powers(x: Any) -> Any:
    a = matrix(x)
    both = np.column_stack([a, np.linalg.matrix_power(a, 3)]) + np.linalg.matrix_power(a, 0)[0, 0]
    return np.sum(np.abs(both) ** 2) + np.sum(np.linalg.matrix_power(a, -2).imag)


def copied(x: Any) -> Any:
    z = 1j * x
    y, w = copy.copy(z), copy.deepcopy(z)
    z += x
    return size(y) + 2.0 * size(w)


def statistics(x: Any) -> Any:
    z = np.outer(x, 1j + x)
    moments = np.sum(z.std(axis=0, ddof=1)) + z.var() + np.sum(np.var(z, 1, keepdims=True) ** 2)
    return moments + np.abs(z[:2, 1].prod()) + z.trace().imag + size(z.diagonal().take([0, 2]))


def rational(x: Any) -> Any:
    numerator = np.polyval(x[:3], 1j * np.arange(1.0, 6.0))
    return size(numerator / np.polyval([1j, x[3], 2.0], x[4] + 1j)) + np.abs(np.polyval([1j, 2], x[0]))


def flattened(x: Any) -> Any:
    z = x * (1 + 2j)
    row = z.flatten()
    row *= 3j
    row[0] = x[1]
    return size(z) + size(row)


def copied_where(x: Any) -> Any:
    z = x * (1 + 2j)
    np.copyto(z, x, "same_kind", KNOWN)
    return size(z)


def without_axes(x: Any) -> Any:
    one, other = np.array(1j * x[0]), np.copy(x[1] + 1j)
    same, also = one, np.asarray(other)
    same += 1.0
    also *= x[2]
    number = (x[3] * 1j).copy()
    kept = number
    number += 2.0
    return np.abs(one) ** 2 + np.abs(other) ** 4 + np.abs(kept) ** 2


FUNCTIONS = (
    *(flattened, copied_where, without_axes),
    *(compared, powers),
    *(parts_assigned, flat_entries, filled_by_out, made_like, copied, statistics, rational),
    *(filled, filled_by_a_loop, from_a_list),
    *(low_pass, known_mask, entries, in_place, views, copies, numbers, of_its_argument),
    *(solved, solved_matrices, inverted),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_in_numpy(function: Callable[[Any], Any]) -> None:
    agrees(function, POINT)


def test_determinants_name_the_way_out() -> None:
    with pytest.raises(TracingError, match=r"np\.linalg\.det of complex.*np\.block"):
        hesse.grad(lambda x: np.abs(np.linalg.det(matrix(x))))(POINT)

    def way_out(x: Any) -> Any:
        a = matrix(x)
        return np.linalg.det(np.block([[a.real, -a.imag], [a.imag, a.real]]))

    np.testing.assert_allclose(hesse.compile(way_out)(POINT), np.abs(np.linalg.det(matrix(POINT))) ** 2)


def test_what_is_not_there_is_an_attribute_error_that_names_ways_out() -> None:
    with pytest.raises(AttributeError, match=r"\.sort of a complex value.*z\.real"):
        hesse.grad(lambda x: (1j * x).sort())(POINT)

    with pytest.raises(TracingError, match=r"np\.less of complex values"):
        hesse.grad(lambda x: np.where(1j * x < 1, x, 0).sum())(POINT)

    def real_array(x: Any) -> Any:
        y = x + 1.0
        y += 1j * x
        return y

    with pytest.raises(TracingError, match="a complex value where a real one is needed"):
        hesse.grad(real_array)(POINT)


METHODS: dict[str, Callable[[Any], Any]] = {
    "reshape by numbers": lambda z: z.reshape(-1, 2),
    "reshape by a tuple": lambda z: z.reshape((3, 2)),
    "transpose by numbers": lambda z: z.transpose(1, 0),
    "transpose": lambda z: z.transpose(),
    "flatten": lambda z: z.flatten(),
    "swapaxes": lambda z: z.swapaxes(0, 1),
    "cumsum": lambda z: z.cumsum(),
    "repeat": lambda z: z.repeat(2),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods(method: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        z = method(x.reshape(2, 3) * (1 + 2j))
        return z.real**2 - z.imag

    x = np.arange(1.0, 7.0)
    np.testing.assert_allclose(hesse.compile(f)(x), f(x))
    np.testing.assert_allclose(hesse.jvp(f)(x, x), (f(x + 1e-5 * x) - f(x - 1e-5 * x)) / 2e-5, rtol=1e-8)


def test_shapes_of_parts_are_not_changed_in_place() -> None:
    def of_part(x: Any) -> Any:
        z = np.full_like(1j * x[:4], 2j)
        part = z.real
        part.shape = (4, 1)
        return np.sum(np.abs(z + x[:4]) ** 2)

    with pytest.raises(TracingError, match=r"in place of a part of a complex value.*x\.reshape"):
        hesse.grad(of_part)(POINT)

    def of_all(x: Any) -> Any:
        z = 2 * x[:4] + 3j * x[1:]
        z.shape = (2, 2)
        return np.sum(np.abs(z @ z) ** 2)

    agrees(of_all, POINT)


@pytest.mark.parametrize("dtype", [None, float])
def test_imaginary_parts_are_not_dropped(dtype: Any) -> None:
    with pytest.raises(TracingError, match="a complex value where a real one is needed"):
        hesse.grad(lambda x: np.sum(np.abs(np.full_like(x, 2j * x[0], dtype=dtype) + x)))(POINT)
