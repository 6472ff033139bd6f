"""Traced arrays are written to as NumPy's are: in place, through views, by entries, masks and indices."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.frontends.memory import Memory

WEIGHTS = np.array([0.3, -1.2, 0.7, 2.1, -0.4, 1.9, 0.2, -0.8, 1.1, 0.6, -1.5, 0.9])
POINT = np.array([0.9, 1.4, -0.6, 2.2, 0.5, -1.3])


def weighted(y: Any) -> Any:
    """A number that tells all entries apart."""
    flat = np.ravel(y)
    return np.sum(np.sin(flat) * WEIGHTS[: flat.shape[0]])


def normalised_by(w: Any) -> None:
    w /= w.sum()


def scaled_by_a_function(x: Any) -> Any:
    y = x**2
    normalised_by(y)
    return weighted(y)


def view_of_a_slice(x: Any) -> Any:
    y = x * 1.0
    v = y[:2]
    v *= 3
    return weighted(y)


def view_sees_its_base(x: Any) -> Any:
    y = x * 1.0
    v = y[1:4]
    y *= x[0]
    y[2] = 7.0 * x[5]
    return weighted(v) + np.sum(y)


def same_object(x: Any) -> Any:
    y = x
    y += 1.0
    return weighted(x * y)


def copies(x: Any) -> Any:
    a, b, c, d, e = x.copy(), x + 0, +x, copy.copy(x), np.copy(x)
    f, g, h = x[[0, 1, 2]], x.flatten(), x.astype(float)
    x *= 2.0
    a += 1.0
    return sum(weighted(part) for part in (a, b, c, d, e, f, g, h, x))


def number(x: Any) -> Any:
    s = x[0]
    t = s
    s += x[1]
    u = x.sum()
    v = u
    u *= 2.0
    return weighted(x) + s * t + u * v


def number_is_not_a_view(x: Any) -> Any:
    s = x[2]
    x[2] = 5.0
    return s * x[1] + weighted(x)


def ellipsis_is_a_view(x: Any) -> Any:
    s = x[2, ...]
    s += x[0]
    s[...] = s * 2.0
    return weighted(x) * s


def filled_by_a_loop(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] ** 2
    return weighted(y)


def recurrence(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = np.tanh(y[i - 1]) + x[i]
    return weighted(y)


def filled_rows(x: Any) -> Any:
    y = np.zeros_like(x, shape=(3, 4))
    y[0] = x[:4]
    y[1, 1:] = x[3:]
    y[:, 0] = x[2] * x[:3]
    y[2, ::2] += x[4]
    return weighted(y)


def empty_then_filled(x: Any) -> Any:
    y = np.empty_like(x)
    y[:] = x * x
    return weighted(y)


def rows_by_iteration(x: Any) -> Any:
    y = x.reshape(2, 3) * 1.0
    for k, row in enumerate(y):
        row *= x[k]  # noqa: PLW2901
        row[0] = x[5]
    return weighted(y)


def transposed_view(x: Any) -> Any:
    y = np.sin(x.reshape(2, 3))
    y.T[0] *= x[3]
    y.T[1:, ::-1] += x[:4].reshape(2, 2)
    np.swapaxes(y, 0, 1)[2] = x[0]
    np.flip(y)[0, 0] = x[1] * x[2]
    return weighted(y)


def reshaped_views(x: Any) -> Any:
    y = x.reshape(2, 3)
    y[0] = x[4]
    z = y[:, :, None]
    z *= x[1]
    return weighted(x) + weighted(y)


def ravel_of_a_copy(x: Any) -> Any:
    y = x.reshape(2, 3).copy()
    v = y.ravel()
    v[1:5:2] = x[:2]
    y.reshape(3, 2)[0] *= 2.0
    w = y.T.ravel()
    w[0] = 9.0
    return weighted(y) + weighted(v) * weighted(w)


def known_mask(x: Any) -> Any:
    y = x * 1.0
    y[np.array([True, False, True, False, False, True])] = x[:3] * 2
    y[np.array([True, False, False, False, True, False])] *= x[1]
    return weighted(y)


def traced_mask(x: Any) -> Any:
    y = x * x
    y[x < 0] = x[1]
    y[y > 2] = 0
    return weighted(y)


def traced_mask_of_rows(x: Any) -> Any:
    y = x.reshape(3, 2) * 1.0
    y[x[:3] > 0] = np.sin(x[:2])
    y[y > 1] = -x[4]
    return weighted(y)


def fancy(x: Any) -> Any:
    y = x * 1.0
    y[[0, 3, 0]] = x[:3] ** 2  # the last one counts
    y[np.array([[1, 2], [4, 5]])] += x[2:4]
    return weighted(y)


def fancy_pairs(x: Any) -> Any:
    y = np.outer(x[:3], x[2:])
    y[[0, 1, 2], [3, 0, 1]] = x[:3]
    y[np.ix_([0, 2], [1, 2])] *= x[0]
    np.fill_diagonal(y, x[1])
    return weighted(y)


def traced_index(x: Any) -> Any:
    y = x * 1.0
    y[np.argmax(x)] = x[0] * x[1]
    y[np.argsort(x)[:2]] = x[4:]
    y[np.argmin(x) - 1] += 2.0 * x[2]
    return weighted(y)


def traced_indices_that_repeat(x: Any) -> Any:
    y = x * 1.0
    y[np.floor(np.abs(x)).astype(int)] = x**2
    return weighted(y)


def added_at(x: Any) -> Any:
    y = np.zeros_like(x)
    np.add.at(y, [0, 2, 2, 5], x[:4])
    np.subtract.at(y, np.argsort(x)[:3], x[0])
    np.add.at(y, 1, x[3])
    return weighted(y)


def added_at_pairs(x: Any) -> Any:
    y = np.zeros_like(x, shape=(2, 3))
    np.add.at(y, ([0, 1, 0], [2, 2, 2]), x[:3])
    np.add.at(y, 1, x[3:])
    return weighted(y)


def applied_at(x: Any) -> Any:
    y = x * 1.0
    np.multiply.at(y, [0, 0, 2, 0], x[:4])
    np.power.at(y[::-1], [0, 0], 2)
    np.sin.at(y, 1)
    z = np.ones((2, 3))
    np.maximum.at(z, (slice(None), [1, 1]), x[:2])
    np.minimum.at(z, np.array([True, False]), -x[3])
    np.divide.at(z, (1, 0), x[4])
    return weighted(y) + weighted(z)


def out_argument(x: Any) -> Any:
    y = np.zeros_like(x)
    z = np.multiply(x, x, out=y)
    z += 1.0
    np.sum(x.reshape(2, 3), axis=0, out=y[3:])
    np.exp(y[:2], out=y[:2])
    return weighted(y)


def methods(x: Any) -> Any:
    y = x * 1.0
    y[1:3].fill(x[0])
    np.copyto(y[3:], x[:3], where=[True, False, True])
    z = x * 2.0
    z.sort()
    z[::-1].sort()
    return weighted(y) + weighted(z)


def truth_values(x: Any) -> Any:
    m = x > 0
    n = m
    m &= x < 2
    n[0] = False
    n |= x > 2
    return np.sum(np.where(m, x**2, x)) + np.sum(n) * x[0]


def integers(x: Any) -> Any:
    i = np.argsort(x)
    j = i[1:]
    i += 1
    j %= 3
    i[0] = 2
    return weighted(x[i % 6] * x) + np.sum(x[j])


def numbers_assigned_to_integers(x: Any) -> Any:
    i = np.argsort(x)
    i[1:3] = x[:2] * 2  # loses its fractions
    return weighted(x[i % 6] * x)


def broadcast_values(x: Any) -> Any:
    y = np.zeros_like(x, shape=(2, 3))
    y[:] = x[:3]
    y[:, 1:] = x[3:5][:, None]
    y[0] += x[5]
    y[:, :1] = x[:1][None]
    return weighted(y)


def diagonal_sees_writes(x: Any) -> Any:
    y = np.outer(x[:3], x[3:])
    d, e = np.diagonal(y), np.broadcast_to(y[0], (2, 3))
    y[0, 0] = x[0] ** 3
    return weighted(d) + weighted(e)


def power_and_matmul(x: Any) -> Any:
    y = 0.1 * x.reshape(2, 3) @ x.reshape(3, 2)
    z = y
    y @= y
    y **= 2
    y -= 1.0
    return weighted(z)


def split_parts(x: Any) -> Any:
    y = x * 1.0
    a, b = np.split(y, 2)
    a *= b
    b[:] = x[0]
    first, *_ = np.atleast_2d(y)
    first[5] = 3.0
    return weighted(y)


PROGRAMS: list[Callable[[Any], Any]] = [
    scaled_by_a_function, view_of_a_slice, view_sees_its_base, same_object, copies, number,
    number_is_not_a_view, ellipsis_is_a_view, filled_by_a_loop, recurrence, filled_rows, empty_then_filled,
    rows_by_iteration, transposed_view, reshaped_views, ravel_of_a_copy, known_mask, traced_mask,
    traced_mask_of_rows, fancy, fancy_pairs, traced_index, traced_indices_that_repeat, added_at,
    added_at_pairs, applied_at, out_argument, methods, truth_values, integers, numbers_assigned_to_integers,
    broadcast_values, diagonal_sees_writes, power_and_matmul, split_parts,
]  # fmt: skip


def differences(function: Callable[[Any], Any], x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient by central differences, of a function that may change its argument."""
    found = [(function(x + step * unit) - function(x - step * unit)) / (2 * step) for unit in np.eye(len(x))]
    return np.array(found)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_numpy(program: Callable[[Any], Any]) -> None:
    value, gradient = hesse.compile(program), hesse.grad(program)
    for point in (POINT, POINT[::-1] * 0.93):
        given = point.copy()
        np.testing.assert_allclose(value(given), program(point.copy()), rtol=1e-12)
        np.testing.assert_allclose(gradient(given), differences(program, point), rtol=2e-6, atol=2e-7)
        np.testing.assert_array_equal(given, point)
    hessian = hesse.hessian(program)(POINT)
    expected = [
        (gradient(POINT + 1e-5 * unit) - gradient(POINT - 1e-5 * unit)) / 2e-5 for unit in np.eye(len(POINT))
    ]
    np.testing.assert_allclose(hessian, expected, rtol=1e-5, atol=1e-5)


def test_arguments_inside_of_a_trace_are_written_to_by_their_function_alone() -> None:
    def inner(y: Any, a: Any) -> Any:
        y *= a
        a += 1.0
        return np.sum(np.sin(y) * a)

    def outer(x: Any) -> Any:
        y = x * 2.0
        slope = hesse.grad(inner)(y, x)
        return np.sum(slope * y)  # neither was changed

    expected = np.sum(POINT * np.cos(2 * POINT * POINT) * (POINT + 1) * 2 * POINT)
    np.testing.assert_allclose(hesse.compile(outer)(POINT), expected)


def test_zeros_outside_of_functions_are_an_array() -> None:
    assert type(hesse.zeros(3)) is np.ndarray
    np.testing.assert_array_equal(hesse.zeros((2, 3)), np.zeros((2, 3)))


def test_zeros_of_no_axes_are_written_to() -> None:
    def add(total: Any, x: Any) -> None:
        total += x.sum()

    def f(x: Any) -> Any:
        total = hesse.zeros(())
        add(total, x**2)
        other = np.zeros_like(x[0])
        add(other, x)
        return total * other

    np.testing.assert_allclose(hesse.grad(f)(POINT), 2 * POINT * POINT.sum() + (POINT**2).sum())


def test_a_loop_that_fills_an_array_is_as_good_as_a_vector() -> None:
    def looped(x: Any) -> Any:
        y = hesse.zeros(40)
        for i in range(40):
            y[i] = (x[i] - 1.0) ** 2
        return np.sum(y)

    def vectorised(x: Any) -> Any:
        return np.sum((x - 1.0) ** 2)

    x = np.linspace(0.0, 1.0, 40)
    np.testing.assert_allclose(hesse.hessian(looped)(x), hesse.hessian(vectorised)(x))
    assert hesse.grad(looped).explain(x).nodes <= hesse.grad(vectorised).explain(x).nodes + 4


TABLE = np.linspace(0.0, 1.0, 20)


def writes_to_a_captured_array(x: Any) -> Any:
    TABLE[0] = x[0]
    return np.sum(TABLE)


def updates_a_captured_view(x: Any) -> Any:
    part = TABLE[:6]
    part += x
    return np.sum(TABLE)


def writes_to_a_diagonal(x: Any) -> Any:
    np.diagonal(np.outer(x, x))[0] = 1.0
    return np.sum(x)


def reads_what_may_be_a_copy(x: Any) -> Any:
    y = np.einsum("ij,ij->ij", x.reshape(2, 3), np.ones((2, 3)))
    v = y.ravel()
    v[0] = 1.0
    return np.sum(y)


def writes_below_what_may_be_a_copy(x: Any) -> Any:
    v = x.ravel()
    x[0] = 1.0
    return np.sum(v)


def traced_mask_with_values(x: Any) -> Any:
    y = x * 1.0
    y[x > 0] = y[:3]
    return np.sum(y)


def fills_and_then_fails(x: Any) -> Any:
    y = np.zeros(2)
    y[0] = x[0]
    return np.unique(y).sum()


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (writes_to_a_captured_array, TracingError, r"an entry of a NumPy array.*hesse\.zeros\(3\)"),
    (updates_a_captured_view, TracingError, r"out= of np\.add.*hesse\.zeros\(3\)"),
    (writes_to_a_diagonal, TracingError, r"np\.diagonal, which is read-only.*x\.copy\(\)"),
    (reads_what_may_be_a_copy, TracingError, r"depends on its layout in memory.*x\.copy\(\)\.reshape"),
    (writes_below_what_may_be_a_copy, TracingError, r"depends on its layout in memory.*x\.copy\(\)\.reshape"),
    (traced_mask_with_values, TracingError, r"depends on the data.*np\.where\(mask, y, x\)"),
    (lambda x: np.multiply.at(x, np.argsort(x), 2.0), TracingError, r"np\.multiply\.at.*np\.add\.at"),
    (fills_and_then_fails, TracingError, r"np\.zeros_like.*it ends here: np\.unique"),
    (lambda x: np.add.at(np.zeros(3), [0], x[0]), TracingError, r"np\.zeros_like\(x\) or hesse\.zeros\(3\)"),
    (lambda x: np.exp(x, out=np.zeros(6)), TracingError, r"np\.zeros_like\(x\) or hesse\.zeros\(3\)"),
    (lambda x: x.__setitem__(7, 1.0), ShapeError, r"index 7 is out of bounds"),
    (lambda x: x.__setitem__(slice(0, 2), x), ShapeError, r"shape \(6,\) do not fit entries of shape \(2,\)"),
    (lambda x: x.__iadd__(np.ones((2, 6))), ShapeError, r"shape \(2, 6\) cannot be written.*\(6,\)"),
    (lambda x: np.argsort(x).__iadd__(0.5), ArgumentError, r"real numbers cannot be written.*integers"),
    (lambda x: (x > 0).__imul__(2.0), ArgumentError, r"real numbers cannot be written.*truth values"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "kind", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_refused(function: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        hesse.grad(function)(POINT)


def test_arrays_of_numpy_name_those_that_can_be_written_to() -> None:
    known = np.zeros(3)

    def f(x: Any) -> Any:
        for i in range(3):
            known[i] = x[i] ** 2
        return np.sum(known)

    with pytest.raises(TracingError, match=re.escape("np.zeros_like(x) or hesse.zeros(3)")):
        hesse.grad(f)(POINT)


def test_variables_are_names() -> None:
    x = hesse.variable("x", (3,))
    with pytest.raises(TracingError, match=r"a write to the variable x.*x = x \+ y"):
        x += 1.0
    with pytest.raises(TracingError, match=r"a write to the variable x.*x\.copy\(\)"):
        x[1:][0] = 1.0
    y = x.copy()
    y[0] = x[1] ** 2
    z = y[1:]
    z *= x[0]
    point = np.array([2.0, 3.0, 5.0])
    np.testing.assert_allclose(np.sum(y).evaluate(x=point), 9 + 6 + 10)
    np.testing.assert_allclose(np.sum(y).diff(x).evaluate(x=point), [8.0, 8.0, 2.0])


def test_symbolic_sizes() -> None:
    x = hesse.variable("x", ("n", "n"))
    y = np.sin(x)
    y += 1.0
    np.testing.assert_allclose(y.evaluate(x=np.zeros((2, 2))), np.ones((2, 2)))
    z = y.T
    with pytest.raises(TracingError, match="symbolic sizes that has views"):
        y += 1.0
    with pytest.raises(TracingError, match="symbolic sizes that has views"):
        z *= 2.0
    with pytest.raises(ShapeError, match="needs known sizes"):
        y[0] = 1.0


def test_entries_of_an_array_with_one_row():
    def f(x):
        a = x.copy()
        a[3] = x[1]
        c = a[None]
        c[0, 4] = x[0]
        return a

    x = np.arange(5.0)
    np.testing.assert_array_equal(hesse.compile(f)(x), f(x))
    np.testing.assert_array_equal(hesse.jacobian(f)(x), np.eye(5)[[0, 1, 2, 1, 0]])


@pytest.mark.parametrize("kind", [float, int, bool])
def test_a_loop_that_fills_an_array_reads_it_once(monkeypatch, kind):
    """Nodes of the whole array for each of its writes would take quadratic time."""
    reads = []
    read = Memory.read
    monkeypatch.setattr(Memory, "read", lambda *given: reads.append(1) or read(*given))
    x = np.arange(-20.0, 20.0)

    def f(x):
        y = np.zeros_like(x, dtype=kind)
        for k in range(len(x)):
            y[k] = x[k] * x[k - 1] if kind is float else kind(7 * k % 3)
        return np.sum(y[1:]) + np.sum(x)

    np.testing.assert_array_equal(hesse.compile(f)(x), f(x))
    assert len(reads) <= 2


def test_new_arrays_by_columns_are_copied_by_reshape() -> None:
    def by_columns(x: Any) -> Any:
        a = np.zeros((2, 3), order="F")
        b = a.reshape(-1)
        a[:] = x[0]
        return np.sum(b)

    assert by_columns(np.ones(2)) == 0.0
    try:
        found = hesse.compile(by_columns)(np.ones(2))
    except TracingError:
        return  # that it is a copy need not be known, but never that it is a view
    assert found == 0.0


SAME: dict[str, Callable[[Any], Any]] = {
    "conj": lambda y: y.conj(),
    "conjugate": lambda y: y.conjugate(),
    "np.conj": np.conj,
    "astype": lambda y: y.astype(float),
    "astype without a copy": lambda y: y.astype(float, copy=False),
    "asarray": np.asarray,
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_writes_to_what_may_be_the_same_array(make: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        y = 2.0 * x
        z = make(y)
        z *= x[0]
        z[1] = x[2] ** 2
        return weighted(y) + weighted(z * z)

    np.testing.assert_allclose(hesse.compile(f)(POINT), f(POINT), rtol=1e-12)
    step = 1e-6 * np.eye(len(POINT))
    differences = [(f(POINT + e) - f(POINT - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(hesse.grad(f)(POINT), differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", [np.array, np.asarray, np.copy])
def test_arrays_of_numbers_are_written_to(make: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        y = make(x[0])
        z = y
        z += x[1]
        z[...] = y * x[2]
        return y**2

    np.testing.assert_allclose(hesse.compile(f)(POINT), f(POINT), rtol=1e-12)
    a, b, c = POINT[:3]
    expected = [2 * (a + b) * c**2, 2 * (a + b) * c**2, 2 * (a + b) ** 2 * c]
    np.testing.assert_allclose(hesse.grad(f)(POINT)[:3], expected, rtol=1e-12)


@pytest.mark.parametrize("make", [np.require, lambda y: np.lib.stride_tricks.as_strided(y, (2,), (8,))])
def test_entries_that_are_no_view_are_not_written_to(make: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        y = 2.0 * x
        make(y)[...] = 1.0
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        hesse.grad(f)(POINT)
