"""Second and higher derivatives of determinants, which exist at singular matrices, too."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import torch

import hesse
import hesse.torch
import naive
from hesse.errors import ArgumentError, MemoryLimitError

ROUNDED = np.array([[0.1, 0.2, 0.3], [0.2, 0.4, 0.6], [1.0, 0.0, 1.0]])  # its inverse is rounding alone
MATRICES = {
    "rank one": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "rank two": np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]]),
    "rank two, rounded": ROUNDED,
    "rank one of three": np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 3.0]),
    "zero": np.zeros((3, 3)),
    "one entry": np.array([[0.0]]),
    "regular": np.array([[1.0, 2.0, 3.0], [2.0, -4.0, 6.0], [1.0, 0.5, 1.0]]),
}
BACKENDS = ("numpy", "torch", "jax")


def minors(a: np.ndarray, order: int) -> np.ndarray:
    """The derivative of the determinant, by its rows."""
    return np.asarray(naive.OPERATIONS["minors"]((order,), a))


def assert_near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MATRICES)
def test_derivatives_of_orders_two_and_three(name: str, backend: str) -> None:
    a = MATRICES[name]
    direction = np.cos(np.arange(a.size)).reshape(a.shape)
    second = minors(a, 2)
    assert_near(hesse.hessian(np.linalg.det, backend=backend)(a), second)
    assert_near(
        hesse.hvp(np.linalg.det, backend=backend)(a, direction), np.einsum("ijkl,kl", second, direction)
    )
    assert_near(hesse.derivative(np.linalg.det, 3, backend=backend)(a), minors(a, 3))
    assert_near(hesse.jacobian(hesse.grad(np.linalg.det), backend=backend)(a), second)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", [2, 3])
def test_no_order_loses_many_digits_at_badly_conditioned_matrices(
    order: int, dtype: type[np.floating]
) -> None:
    """Each order has one more inverse, and loses the digits of a condition number more."""
    left, right = (np.linalg.qr(np.random.default_rng(k).normal(size=(4, 4)))[0] for k in (1, 2))
    derivative = hesse.derivative(np.linalg.det, order)
    eps = float(np.finfo(dtype).eps)
    for condition in eps ** -np.array([0.1, 0.2, 0.25, 0.34, 0.5, 0.9]):
        a = (left @ np.diag([1.0, 1.0, 1.0, 1 / condition]) @ right).astype(dtype)
        expected = minors(a.astype(float), order)
        np.testing.assert_allclose(np.asarray(derivative(a)), expected, atol=50 * eps**0.625)


def test_the_fourth_derivative_is_of_signs() -> None:
    left, right = (np.linalg.qr(np.random.default_rng(k).normal(size=(4, 4)))[0] for k in (1, 2))
    a = left @ np.diag([1.0, 1.0, 1.0, 1e-5]) @ right
    expected = np.zeros((4,) * 8)
    for rows, columns in itertools.product(itertools.permutations(range(4)), repeat=2):
        place = tuple(itertools.chain(*zip(rows, columns, strict=True)))
        expected[place] = round(np.linalg.det(np.eye(4)[[*rows]]) * np.linalg.det(np.eye(4)[[*columns]]))
    assert_near(hesse.derivative(np.linalg.det, 4)(a), expected)


def test_what_runs_instead_keeps_to_the_memory_limit() -> None:
    product = hesse.hvp(np.linalg.det, backend="numpy")
    regular, direction = 3.0 * np.eye(24) + 0.1, np.ones((24, 24))
    singular = regular.copy()
    singular[0] = singular[1]
    try:
        hesse.set_memory_limit(1e6)  # the minors have 2.7 MB
        assert np.isfinite(product(regular, direction)).all()
        with pytest.raises(MemoryLimitError, match="more than the 1 MB allowed"):
            product(singular, direction)
    finally:
        hesse.set_memory_limit(None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_determinants(name: str, backend: str) -> None:
    a = MATRICES[name]
    value, first, second = np.linalg.det(a), minors(a, 1), minors(a, 2)
    outer = np.multiply.outer(first, first)
    squared = hesse.hessian(lambda a: np.linalg.det(a) ** 2, backend=backend)
    assert_near(squared(a), 2 * outer + 2 * value * second)
    sine = hesse.hessian(lambda a: np.sin(np.linalg.det(2.0 * a)), backend=backend)
    size = 2.0 ** len(a)
    expected = size * np.cos(size * value) * second - size**2 * np.sin(size * value) * outer
    assert_near(sine(a), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_function_for_singular_and_regular_matrices_and_batches(backend: str) -> None:
    hessian = hesse.hessian(np.linalg.det, backend=backend)
    for name in ("regular", "rank two", "zero", "regular", "rank two, rounded"):
        assert_near(hessian(MATRICES[name]), minors(MATRICES[name], 2))
    batch = np.stack([MATRICES[name] for name in ("regular", "rank two", "zero")])
    found = hesse.hessian(lambda a: np.sum(np.linalg.det(a)), backend=backend)(batch)
    for k, m in itertools.product(range(3), repeat=2):
        assert_near(found[k, :, :, m], minors(batch[k], 2) * (k == m))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["regular", "rank two"])
def test_blocks_that_are_zero_beside_those_of_a_determinant(name: str, backend: str) -> None:
    a, size = MATRICES[name], MATRICES[name].shape
    both = (0, 1)
    blocks = hesse.hessian(lambda a, b: np.linalg.det(a) + b**3, argnums=both, backend=backend)(a, 2.0)
    assert_near(blocks[0][0], minors(a, 2))
    assert_near(blocks[0][1], np.zeros(size))
    assert_near(blocks[1][0], np.zeros(size))
    assert_near(blocks[1][1], 12.0)
    slopes = hesse.jacobian(lambda a, b: np.stack([np.linalg.det(a), b**2]), argnums=both, backend=backend)
    assert_near(slopes(a, 2.0)[0], np.stack([minors(a, 1), np.zeros(size)]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_numbers_and_infinities_spoil_their_own_matrix_alone(backend: str) -> None:
    batch = np.stack([MATRICES[name] for name in ("regular", "rank two", "zero", "regular")])
    batch[0, 1, 1], batch[3, 0, 2] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        found = hesse.hessian(lambda a: np.sum(np.linalg.det(a)), backend=backend)(batch)
        assert np.isnan(hesse.hessian(np.linalg.det, backend=backend)(batch[0])).all()
        first = hesse.grad(lambda a: np.sum(np.linalg.det(a)), backend=backend)(batch)
    assert np.isnan(first[[0, 3]]).all()
    assert_near(first[1], minors(batch[1], 1))
    assert np.isnan(found[0, :, :, 0]).all() and np.isnan(found[3, :, :, 3]).all()
    assert_near(found[1, :, :, 1], minors(batch[1], 2))
    assert_near(found[2, :, :, 2], minors(batch[2], 2))


def test_functions_of_other_libraries() -> None:
    a = MATRICES["rank two"]
    second = minors(a, 2)
    assert_near(hesse.hessian(scipy.linalg.det)(a), second)
    assert_near(hesse.hessian(torch.linalg.det)(torch.tensor(a)), second)
    with jax.enable_x64(True):
        hessian = hesse.hessian(jnp.linalg.det)
        assert_near(hessian(jnp.array(a)), second)
        assert_near(jax.jit(hessian)(jnp.array(a)), second)
        batch = jnp.stack([a, jnp.array(MATRICES["regular"])])
        assert_near(jax.vmap(hessian)(batch)[0], second)


def test_the_formula_stays_short_and_uses_the_inverse() -> None:
    found = hesse.hessian(np.linalg.det).explain(MATRICES["regular"])
    assert found.formula == "H[i,j,k,l] = det(a)*(inv(a)[j,i]*inv(a)[l,k] - inv(a)[j,k]*inv(a)[l,i])"
    assert "svd" not in found.source and "minors" not in found.source


def test_structured_results_say_what_to_do() -> None:
    hessian = hesse.hessian(np.linalg.det, form="structured")
    assert_near(hessian(MATRICES["regular"]).dense(), minors(MATRICES["regular"], 2))
    with pytest.raises(ArgumentError, match=r"singular.*form='dense', without chunk"):
        hessian(MATRICES["rank one"]).dense()


def test_inverses_of_users_still_need_regular_matrices() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        hesse.hessian(lambda a: np.linalg.det(a) * np.sum(np.linalg.inv(a)) ** 3)(MATRICES["rank one"])


def test_bound_derivatives_invert_nothing() -> None:
    h = hesse.hessian(lambda a, factor: factor * np.linalg.det(a)).bind(factor=2.0)
    for _ in range(2):
        for name in ("rank two", "zero", "regular"):
            assert_near(h(MATRICES[name]), 2.0 * minors(MATRICES[name], 2))


def nearly(a: np.ndarray) -> np.ndarray:
    """A matrix with an inverse that has no digits."""
    return a + 1e-13 * np.cos(np.arange(a.size)).reshape(a.shape)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("options", [{"form": "structured"}, {"chunk": 2}])
def test_parts_of_results_are_refused_where_digits_are_lost(options: dict[str, Any], backend: str) -> None:
    hessian = hesse.hessian(np.linalg.det, backend=backend, **options)
    with pytest.raises(ArgumentError, match=r"singular, or nearly.*form='dense', without chunk"):
        hessian(nearly(MATRICES["rank two"]))
    found = hessian(MATRICES["regular"] + np.diag([0.0, 0.0, 1e3]))  # not as badly conditioned
    expected = minors(MATRICES["regular"] + np.diag([0.0, 0.0, 1e3]), 2)
    assert_near(found.dense() if "form" in options else found, expected)


def test_parts_of_results_are_nan_where_values_cannot_be_seen() -> None:
    a = MATRICES["rank two"]
    with jax.enable_x64(True):
        chunks = jax.jit(hesse.hessian(jnp.linalg.det, chunk=2))
        assert np.isnan(chunks(jnp.array(nearly(a)))).all()
        assert_near(chunks(jnp.array(MATRICES["regular"])), minors(MATRICES["regular"], 2))
    batched = torch.func.vmap(hesse.hessian(torch.linalg.det, chunk=2))
    assert batched(torch.tensor(nearly(a))[None]).isnan().all()
    with pytest.raises(ArgumentError, match="singular, or nearly"):
        batched(torch.zeros(1, 3, 3, dtype=torch.float64))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("backend", BACKENDS)
def test_matrices_that_are_not_finite(value: float, backend: str) -> None:
    a = MATRICES["regular"].copy()
    a[0, 0] = value
    with np.errstate(all="ignore"):
        assert np.isnan(hesse.hessian(np.linalg.det, backend=backend)(a)).all()
        assert np.isnan(hesse.derivative(np.linalg.det, 3, backend=backend)(np.full((3, 3), value))).any()


NAMES = ("rank two", "zero", "regular", "nearly", "unit")
POINTS = {**MATRICES, "nearly": nearly(MATRICES["rank two"]), "unit": np.eye(3)}


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch.func
@pytest.mark.parametrize("name", NAMES)
def test_transformations_of_torch(name: str) -> None:
    a, other = torch.tensor(POINTS[name]), torch.tensor(MATRICES["regular"])
    second, third = minors(POINTS[name], 2), minors(POINTS[name], 3)
    hessian, gradient = hesse.hessian(torch.linalg.det), hesse.grad(torch.linalg.det)
    both = torch.stack([a, other])
    assert_near(torch.func.vmap(hessian)(both)[0], second)
    for differentiated in (torch.func.jacrev, torch.func.jacfwd):
        assert_near(differentiated(hessian)(a), third)
        assert_near(torch.func.vmap(differentiated(hessian))(both)[0], third)
        if name != "nearly":  # that goes through the inverse
            assert_near(differentiated(gradient)(a), second)
    point = a.clone().requires_grad_()
    weights = torch.cos(torch.arange(81, dtype=torch.float64)).reshape(3, 3, 3, 3)
    (found,) = torch.autograd.grad((hessian(point) * weights).sum(), point)
    assert_near(found, np.einsum("ijkl,ijklmn", weights.numpy(), third))


@pytest.mark.parametrize("name", ["zero", "nearly"])
def test_transformations_of_jax(name: str) -> None:
    with jax.enable_x64(True):
        a = jnp.array(POINTS[name])
        second, third = minors(POINTS[name], 2), minors(POINTS[name], 3)
        hessian = hesse.hessian(jnp.linalg.det)
        both = jnp.stack([a, jnp.array(MATRICES["regular"])])
        assert_near(jax.vmap(hessian)(both)[0], second)
        assert_near(jax.jit(jax.jacrev(hessian))(a), third)
        assert_near(jax.vmap(jax.jacfwd(hessian))(both)[0], third)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_tensors(name: str) -> None:
    x = torch.tensor(POINTS[name], requires_grad=True)
    controller = hesse.torch.backward(torch.linalg.det(x), order=3)
    assert_near(x.hgrad[1][0], minors(POINTS[name], 2))
    assert_near(x.hgrad[2][0], minors(POINTS[name], 3))
    if name in ("nearly", "zero"):
        with pytest.raises(ArgumentError, match="singular, or nearly"):
            controller.structured((x, x))
    else:
        batch = torch.tensor(np.stack([POINTS[name], POINTS["regular"]]), requires_grad=True)
        hesse.torch.backward(torch.linalg.det(batch).sum(), order=2).fetch_hgrad((batch, batch), True)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_determinants_in_jax_that_vanish_but_for_rounding(size: int) -> None:
    """The determinant and the inverse of JAX do not fit together there."""
    for seed in range(3):
        x = jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, size))
        found = hesse.hessian(lambda x: jnp.linalg.det(jnp.outer(x, x)))(x)
        expected = np.zeros((size, size))
        np.testing.assert_allclose(found, expected, atol=1e-14)
