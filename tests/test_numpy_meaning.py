"""What NumPy computes at points where it would be easy to compute something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, ShapeError
from test_writing import differences, weighted

LOPSIDED = np.array([[5.0, 0.3, -0.4], [1.1, 4.0, 0.9], [0.2, -0.7, 6.0]])


def flat(function: Callable[[Any], Any], shape: tuple[int, ...]) -> Callable[[Any], Any]:
    return lambda x: function(x.reshape(shape))


def agrees(function: Callable[[Any], Any], point: np.ndarray) -> None:
    """Value, gradient and Hessian, against NumPy and differences, at the first and the second call."""
    gradient, value, hessian = hesse.grad(function), hesse.compile(function), hesse.hessian(function)
    of_flat = flat(function, point.shape)
    for x in (point, point * 1.01):
        np.testing.assert_allclose(value(x), function(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x).ravel(), differences(of_flat, x.ravel()), rtol=1e-6, atol=1e-8)
    found = hessian(point).reshape(point.size, point.size)
    expected = [
        (gradient(point + e.reshape(point.shape)) - gradient(point - e.reshape(point.shape))).ravel() / 2e-5
        for e in 1e-5 * np.eye(point.size)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


WEIGHTS = np.array([0.7, -1.3, 0.4])
TRIANGLES: dict[str, Callable[[Any], Any]] = {
    "eigvalsh": lambda a: WEIGHTS @ np.linalg.eigvalsh(a),
    "eigvalsh of the upper": lambda a: WEIGHTS @ np.linalg.eigvalsh(a, "U"),
    "eigh": lambda a: np.sum(np.linalg.eigh(a)[1] ** 2 * np.outer(WEIGHTS, WEIGHTS**2)),
    "eigh of the upper": lambda a: np.sum(np.linalg.eigh(a, UPLO="u").eigenvectors ** 2 * WEIGHTS[:, None]),
    "cholesky": lambda a: np.sum(np.sin(np.linalg.cholesky(a))),
    "cholesky of the upper": lambda a: np.sum(np.sin(np.linalg.cholesky(a, upper=True)) * WEIGHTS),
}


@pytest.mark.parametrize("name", TRIANGLES)
def test_one_triangle_is_read(name: str) -> None:
    agrees(TRIANGLES[name], LOPSIDED)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_signs_of_eigenvectors_are_those_of_numpy(triangle: str) -> None:
    for seed in range(8):
        a = np.random.default_rng(seed).normal(size=(5, 5))
        found = hesse.compile(lambda a: np.linalg.eigh(a, triangle)[1])(a)
        np.testing.assert_allclose(found, np.linalg.eigh(a, triangle)[1], atol=1e-12)


def test_of_a_symmetric_expression_no_triangle_is_cut_out() -> None:
    x = hesse.variable("x", (3, 3))
    assert str(np.linalg.eigvalsh(x @ x.T)) == "eigvalsh(x*x')"


def test_there_are_two_triangles() -> None:
    with pytest.raises(ArgumentError, match="UPLO is 'L' or 'U', not 'B'"):
        hesse.compile(lambda a: np.linalg.eigvalsh(a, "B"))(LOPSIDED)


EVEN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "square": (lambda x: np.sum(np.abs(x) ** 2), lambda x: np.sum(x**2)),
    "square of fabs": (lambda x: np.sum(np.square(np.fabs(x))), lambda x: np.sum(x**2)),
    "product": (lambda x: np.sum(abs(x) * np.arange(3.0) * abs(x)), lambda x: np.sum(np.arange(3.0) * x**2)),
    "fourth power": (lambda x: np.sum(abs(x) ** 4), lambda x: np.sum(x**4)),
    "norm of one entry": (lambda x: np.linalg.norm(x[:1], 1) ** 2, lambda x: x[0] ** 2),
    "large power": (lambda x: np.sum(abs(x) ** 12.0), lambda x: np.sum(x**12)),
    "third power": (lambda x: np.sum(abs(x) ** 3), lambda x: np.sum(abs(x * x) * abs(x))),
}


@pytest.mark.parametrize("name", EVEN)
def test_even_powers_of_absolute_values_are_smooth(name: str) -> None:
    absolute, smooth = EVEN[name]
    for x in (np.zeros(3), np.array([0.0, -1.5, 2.0])):
        for order in (1, 2):
            found = hesse.derivative(absolute, order)(x)
            np.testing.assert_allclose(found, hesse.derivative(smooth, order)(x), atol=1e-14)
    np.testing.assert_array_equal(hesse.hessian(lambda x: np.sum(np.abs(x) ** 2))(np.zeros(2)), 2 * np.eye(2))


TIES = np.array([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]])


def test_ties_share_the_derivative() -> None:
    thirds = np.array([[0, 0.5, 0.5, 0], [0.25] * 4])
    np.testing.assert_array_equal(hesse.grad(lambda x: np.sum(np.max(x, axis=1)))(TIES), thirds)
    np.testing.assert_array_equal(hesse.grad(np.max)(TIES[1]), [0.25] * 4)
    np.testing.assert_array_equal(hesse.grad(np.max)(TIES), [[0, 0.5, 0.5, 0], [0] * 4])
    np.testing.assert_array_equal(hesse.grad(lambda x: x.min())(TIES[0]), [0, 0, 0, 1])
    np.testing.assert_array_equal(hesse.grad(np.amin)(TIES[1]), [0.25] * 4)
    np.testing.assert_array_equal(
        hesse.grad(lambda x: np.sum(x.min(axis=0) * [1, 2, 3, 4]))(TIES), [[1, 0, 0, 4], [0, 2, 3, 0]]
    )
    np.testing.assert_array_equal(hesse.grad(np.ptp)(TIES[0]), [0, 0.5, 0.5, -1])
    np.testing.assert_array_equal(hesse.grad(np.ptp)(TIES[1]), [0] * 4)
    np.testing.assert_array_equal(
        hesse.hessian(lambda x: np.max(x) ** 2)(TIES[0]), np.outer(*[[0, 0.5, 0.5, 0]] * 2) * 2
    )


def test_extrema_of_what_is_not_a_number() -> None:
    x = np.array([[1.0, np.nan, 3.0], [2.0, 5.0, 4.0]])
    for function in (np.max, np.min, np.ptp):
        with np.errstate(all="ignore"):
            found = hesse.compile(lambda x, f=function: f(x, axis=1))(x)
        np.testing.assert_array_equal(found, function(x, axis=1))
        np.testing.assert_array_equal(hesse.compile(function)(x), function(x))
    infinite = np.array([1.0, np.inf, -np.inf])
    np.testing.assert_array_equal(hesse.compile(lambda x: np.max(x[None], axis=1))(infinite), [np.inf])
    np.testing.assert_array_equal(hesse.compile(np.min)(infinite), -np.inf)


def test_standard_deviation_of_one_sample_is_constant() -> None:
    point = np.array([[2.0], [3.0]])
    for function in (np.std, lambda x: np.sum(np.std(x, axis=1)), lambda x: np.std(x[:1])):
        is_whole = function is np.std
        x = point[:1] if is_whole else point
        np.testing.assert_array_equal(hesse.grad(function)(x), 0 * x)
        np.testing.assert_array_equal(hesse.jvp(function)(x, np.ones_like(x)), 0.0)
        np.testing.assert_array_equal(hesse.vjp(function)(x, 1.0), 0 * x)
        np.testing.assert_array_equal(hesse.jacobian(function)(x), 0 * x)


SINGULAR = {
    "rank one": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "rank two": np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]]),
    "rank one of three": np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 3.0]),
    "zero": np.zeros((2, 2)),
    "small": np.array([[0.0]]),
    "batch": np.array([[[1.0, 2.0], [2.0, 4.0]], [[3.0, 1.0], [0.0, 2.0]]]),
}


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_the_derivative_of_a_determinant_exists_at_singular_matrices(name: str, backend: str) -> None:
    functions = (lambda a: np.sum(np.linalg.det(a)), lambda a: np.sum(np.sin(np.linalg.det(2.0 * a) + 1.0)))
    for function in functions:
        gradient, x = hesse.grad(function, backend=backend), SINGULAR[name]
        for point in (x, x + 0.1 * np.eye(x.shape[-1]), -x):
            expected = differences(flat(function, point.shape), point.ravel())
            np.testing.assert_allclose(np.ravel(gradient(point)), expected, rtol=1e-6, atol=1e-8)
    directional = hesse.jvp(np.linalg.det)(SINGULAR[name], np.ones_like(SINGULAR[name]))
    expected = hesse.grad(functions[0])(SINGULAR[name]).sum(axis=(-1, -2))
    np.testing.assert_allclose(directional, expected, atol=1e-12)


def test_what_arrays_say_of_themselves() -> None:
    def f(x: Any) -> Any:
        eps = np.finfo(x.dtype).eps
        first, *rest = x
        total = sum(row.sum() for row in rest) + first[0].item() + x.item(1, 2) + x.item(4)
        entries = [entry for row in x.tolist() for entry in row]
        y = np.zeros_like(x)
        y.flat[1:5:2] = x.flat[3]
        y.flat[0] = sum(x.flat)
        return (
            (total + sum(entries) * entries[0] + weighted(y)) / (1 + eps)
            + x.nbytes
            + len(x.flat)
            + x.itemsize
        )

    agrees(f, np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0]]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtypes_are_those_of_the_call(dtype: Any) -> None:
    kinds = []

    def f(x: Any) -> Any:
        kinds.append((x.dtype, (x > 0).dtype, np.argsort(x).dtype))
        return x

    hesse.compile(f)(np.ones(3, dtype))
    assert kinds == [(np.dtype(dtype), np.dtype(bool), np.dtype(int))]


def test_one_entry_is_no_number() -> None:
    with pytest.raises(
        ArgumentError,
        match=r"has shape \(1, 1\); pass one_entry=True, or return its only entry, y\.item\(\)",
    ):
        hesse.grad(lambda x: x[:1, None])(np.ones(3))
    np.testing.assert_array_equal(hesse.grad(lambda x: (x[:1, None] ** 2).item())(np.ones(3)), [2.0, 0, 0])
    with pytest.raises(ShapeError, match=r"item\(\) needs a position in an array of 3 entries"):
        hesse.grad(lambda x: x.item())(np.ones(3))


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_remainders_are_exact_in_every_library(name, library):
    """49 * (1/49) is less than 1, and 1e16/0.7 knows nothing of what is left."""
    module = {"numpy": np, "torch": torch, "jax": jnp}[library]
    make = {"numpy": np.array, "torch": torch.tensor, "jax": jnp.array}[library]
    function = getattr(module, name)
    x = make([1e16, 7.5, -7.5, 49.0, -49.0, 2.1])
    for divisor in (49.0, 0.7, -0.3):
        found = hesse.compile(lambda x, divisor=divisor: function(x, divisor))(x)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(function(x, divisor)))
        found = hesse.compile(function)(x, divisor * make([1.0] * 6))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(function(x, divisor)))


def test_truncated_quotients_of_torch_are_exact():
    x = torch.tensor([49.0, -49.0, 48.9, 100.0])
    found = hesse.compile(lambda x: torch.div(x, 49.0, rounding_mode="trunc"))(x)
    assert found.tolist() == [1.0, -1.0, 0.0, 2.0]


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_quotients_jump_where_the_library_does(name, library):
    """49 * (1/49) is less than 1, and 0.3 * (1/0.1) is 3 where 0.3/0.1 is not."""
    module = {"numpy": np, "torch": torch, "jax": jnp}[library]
    make = {"numpy": np.array, "torch": torch.tensor, "jax": jnp.array}[library]
    rounded = getattr(module, name)
    steps = np.arange(1.0, 60.0)
    for divisor in (49.0, 0.1, 3.0, 0.25):
        for x in map(make, (steps * divisor, steps / 10)):
            for function in (
                lambda x, d: rounded(x / d),
                lambda x, d: rounded((x - 1.0) / d + 0.5) + x,
                lambda x, d: rounded(-x / d) * x,
            ):
                expected = np.asarray(function(x, divisor))
                found = hesse.compile(lambda x, f=function, d=divisor: f(x, d))(x)
                np.testing.assert_array_equal(np.asarray(found), expected)
                if (library, name) != ("jax", "trunc"):  # XLA itself multiplies by a reciprocal that is there
                    expected = np.asarray(function(x, make(divisor)))
                    found = hesse.compile(function)(x, make(divisor))
                    np.testing.assert_array_equal(np.asarray(found), expected)


def test_bins_are_those_of_numpy():
    table, x = np.arange(20.0), np.array([0.3, 0.7, 1.1])
    found = hesse.grad(lambda x: np.sum(table[(x / 0.1).astype(int)] * x))(x)
    np.testing.assert_array_equal(found, table[(x / 0.1).astype(int)])


def test_a_value_that_was_multiplied_and_divided_elsewhere_is_itself():
    """(31 * 0.3) / 0.3 is less than 31: what is known of a quotient is no property of what it equals."""

    def function(x):
        y = x[1:]
        back = (y * 0.3) / 0.3
        return np.sum(np.floor(y) * y) + np.sum(back)

    x = np.array([0.0, 31.0, 57.0, 62.0])
    np.testing.assert_array_equal(hesse.grad(function)(x)[1:], x[1:] + 1)


def test_products_with_reciprocals_do_not_depend_on_quotients_in_other_functions():
    x = np.array([49.0, 98.0])
    other = hesse.compile(lambda x: np.sin(x / 49.0))
    other(x)
    found = hesse.compile(lambda x: np.floor(x * (1 / 49.0)))(x)
    np.testing.assert_array_equal(found, np.floor(x * (1 / 49.0)))


def test_quotients_that_are_written_to_are_what_was_written():
    def function(x):
        y = x / 49.0
        y[0] = 0.5
        z = x / 49.0
        z += 1.0
        z *= 0.5
        return np.floor(y) + 10 * np.floor(z)

    x = np.array([51.0, 99.0, 161.0])
    np.testing.assert_array_equal(hesse.compile(function)(x), function(x))


def test_whole_numbers_of_quotients_that_a_function_decides_by():
    @hesse.branching
    def function(x):
        return x * float(int(x / 49.0))

    assert hesse.grad(function)(49.0) == 1.0


GRID = np.array([[0.3, 1.4, 0.9], [2.1, 0.6, 1.7], [1.2, 0.8, 0.4]])
HELD = np.array([[True, False, True], [True, True, False], [False, True, True]])
MASKED: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum(np.sum(x**3, axis=0, where=x > 0.7) * WEIGHTS),
    "sum of what is known": lambda x: x[0, 0] ** 2 * np.sum(GRID, where=x > 0.7),
    "sum from a number": lambda x: np.sum(x**2, axis=1, where=HELD, initial=2.0, keepdims=True)[1, 0],
    "mean": lambda x: WEIGHTS @ np.mean(x**2, axis=1, where=HELD),
    "product": lambda x: WEIGHTS @ np.prod(x, axis=0, where=x > 0.7, initial=3.0),
    "variance": lambda x: WEIGHTS @ x.var(axis=1, where=HELD, ddof=1),
    "deviation": lambda x: np.std(x, where=x > 0.5) ** 3,
    "maximum": lambda x: WEIGHTS @ np.max(x**2, axis=1, where=x < 1.5, initial=0.7),
    "minimum": lambda x: x.min(initial=0.5) * np.min(x**2, where=HELD, initial=9.0),
    "conditions": lambda x: np.sum(x**2, where=np.any(x > 1.5, axis=1, where=HELD)),
    "all conditions": lambda x: np.sum(x**2 * np.all(x > 0.35, axis=0, where=HELD)),
    "without what is missing": lambda x: WEIGHTS @ np.nanvar(np.where(x > 0.7, x, np.nan), axis=0),
    "with a mask, too": lambda x: np.nansum(np.where(x > 0.7, x**2, np.nan), where=HELD),
    "partition": lambda x: (
        np.sum(np.partition(x, 1, axis=0)[:2]) ** 2 + np.partition(x, 4, axis=None)[4] ** 3
    ),
    "positions": lambda x: np.sum(x[0][np.argpartition(x[0], 1)[:2]]) ** 2,
    "whole numbers": lambda x: np.sum(np.modf(x)[0] ** 2 * np.modf(2.9 * x)[1]),
    "near": lambda x: np.sum(np.where(np.isclose(x, 0.85, rtol=0.2), x**3, x**2)),
    "real": lambda x: np.sum(np.where(np.isreal(x), x**2, 0.0) + x * np.iscomplex(x)),
    "decided by being real": lambda x: np.sum(
        x**3 if np.isreal(x).all() and not np.iscomplex(x[0, 0]) else x
    ),
    "shown": lambda x: np.sum(x**2) * len(f"{x[0, 0]:.3f}") ** 0,
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_and_places(name: str) -> None:
    agrees(MASKED[name], GRID)


def test_ranges_of_axes() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    moved = hesse.compile(lambda x: np.moveaxis(x, range(2), range(1, 3)))
    np.testing.assert_array_equal(moved(x), np.moveaxis(x, range(2), range(1, 3)))


def test_counts_of_what_a_mask_holds_for_are_positions() -> None:
    def entry(x: Any) -> Any:
        return x[0, np.sum(x[1] > 0.7, where=HELD[1])] ** 2

    np.testing.assert_allclose(hesse.grad(entry)(GRID), [[0, 2 * 1.4, 0], [0] * 3, [0] * 3])


def test_extrema_of_a_mask_need_a_number() -> None:
    with pytest.raises(ArgumentError, match=r"np\.max with where= needs initial="):
        hesse.grad(lambda x: np.max(x, where=x > 0))(GRID)


def test_functions_where_a_mask_holds() -> None:
    def inverse(x: Any) -> Any:
        return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)

    def logarithm(x: Any) -> Any:
        out = x**2
        np.log(x, out=out, where=x > 0)
        return out

    x = np.array([0.0, 2.0, -4.0])
    np.testing.assert_allclose(hesse.compile(inverse)(x), inverse(x))
    np.testing.assert_allclose(hesse.jacobian(inverse)(x), np.diag([0.0, -0.25, -0.0625]))
    np.testing.assert_allclose(hesse.jacobian(logarithm)(x), np.diag([0.0, 0.5, -8.0]))
    np.testing.assert_allclose(hesse.compile(logarithm)(x), logarithm(x))


def test_comparisons_decide() -> None:
    @hesse.branching
    def function(x: Any) -> Any:
        assert np.allclose(x, x + 1e-12)
        assert not np.allclose(x, np.nan)
        assert np.allclose([np.nan, np.inf], x[:2] * [np.nan, np.inf], equal_nan=True)
        assert np.array_equal(x, x)
        assert not np.array_equal(x, x[:2])
        assert not np.array_equal(x * np.nan, x * np.nan)
        assert np.array_equal(x * np.nan, x * np.nan, equal_nan=True)
        return np.sum(x**2)

    x = np.array([1.0, 2.0, 3.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(hesse.grad(function)(x), 2 * x)


KEEP_TRUTHS: dict[str, Callable[[Any], Any]] = {
    "pad": lambda m: np.pad(m, 1),
    "sort": np.sort,
    "partition": lambda m: np.partition(m, 2),
    "choose": lambda m: np.choose([0, 1, 0, 1, 0], [m, ~m]),
    "outer": lambda m: np.outer(m, m),
    "kron": lambda m: np.kron(m, m),
    "abs": np.abs,
    "maximum": lambda m: np.maximum(m, False),
    "fmin": lambda m: np.fmin(m, m[::-1]),
    "clip": lambda m: np.clip(m, False, True),
    "diff": np.diff,
    "diff twice": lambda m: np.diff(m, n=2, prepend=False),
    "accumulate": np.maximum.accumulate,
    "nan_to_num": np.nan_to_num,
    "nanmax": np.nanmax,
}


@pytest.mark.parametrize("name", KEEP_TRUTHS)
def test_truth_values_stay_truth_values(name: str) -> None:
    """Their sum is `or` in NumPy, not two."""

    def f(m: Any, n: Any) -> Any:
        return 1.0 * (KEEP_TRUTHS[name](m) + KEEP_TRUTHS[name](n))

    m, n = np.array([True, False, True, True, False]), np.array([True, True, False, True, False])
    np.testing.assert_array_equal(hesse.compile(f)(m, n), f(m, n))
    np.testing.assert_array_equal(hesse.compile(lambda x, y: f(x > 0, y > 0))(m * 1.0, n * 1.0), f(m, n))


@pytest.mark.parametrize("function", [np.vdot, np.convolve, np.correlate, np.dot], ids=lambda f: f.__name__)
def test_products_of_truth_values_only_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(hesse.TracingError, match=rf"{function.__name__} of truth values only.*by 1\.0"):
        hesse.grad(lambda x: np.sum(x * function(x > 0, x > 1)))(np.ones(3))


@pytest.mark.parametrize(
    "function",
    [
        np.median,
        lambda x: np.median(x.reshape(2, 3), axis=1),
        lambda x: np.quantile(x, [0.1, 0.5]),
        lambda x: np.percentile(x.reshape(2, 3), 30, axis=1, keepdims=True),
        lambda x: np.heaviside(x, 0.25),
    ],
)
def test_what_is_no_number_shows(function: Callable[..., Any]) -> None:
    """Also where it is not among the entries that are taken."""
    for x in (np.array([1.0, 2.0, 5.0, np.nan, 0.0, -1.0]), np.array([1.0, 2.0, 5.0, 7.0, 0.0, -1.0])):
        np.testing.assert_array_equal(hesse.compile(function)(x), function(x))
