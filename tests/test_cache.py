"""Programs of arrays that fit no fast cache: their order, where their values lie, products in parts."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import hesse
from hesse.backends.numpy import NUMPY_MACHINE, NumpyTarget
from hesse.backends.numpy.machine import NumpyMachine
from hesse.backends.numpy.parts import long_product, tall_product, wide_product
from hesse.backends.numpy.spaces import LINE, aligned_arrays

RANDOM = np.random.default_rng(0)
POINTS = 1000  # more than a million multiplications with 32 by 32 weights
WEIGHTS = [RANDOM.normal(size=shape) * 0.3 for shape in ((32, 1), (32, 32), (32, 32), (1, 32))]
WHOLE = replace(NUMPY_MACHINE, least_saved=2**40)
"""A machine that cuts no program into slices."""
X = RANDOM.uniform(-1, 1, size=(1, POINTS))


def net(x, first, second, third, last):
    """The sum of a net over points; a derivative by a point is one of the net."""
    value = np.tanh(third @ np.tanh(second @ np.tanh(first @ x)))
    return np.sum(last @ value)


def loss(x, *weights):
    """A loss over second derivatives, as of a physics-informed net."""
    second = hesse.diagonal(net, order=2)(x, *weights)
    return np.sum((second - np.sin(x)) ** 2)


def on(machine: NumpyMachine):
    """The gradient of the loss by the weights."""
    return hesse.grad(loss, argnums=(1, 2, 3, 4), backend=NumpyTarget(machine=machine))


def torch_loss(x, *weights):
    """The same with nested derivatives of PyTorch."""
    first, second, third, last = weights
    value = torch.tanh(third @ torch.tanh(second @ torch.tanh(first @ x)))
    (rate,) = torch.autograd.grad((last @ value).sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(rate.sum(), x, create_graph=True)
    return ((curvature - torch.sin(x)) ** 2).sum()


def expected_gradients():
    """The gradients of the loss by the weights, by PyTorch."""
    x = torch.tensor(X, requires_grad=True)
    weights = [torch.tensor(weight, requires_grad=True) for weight in WEIGHTS]
    return [part.numpy() for part in torch.autograd.grad(torch_loss(x, *weights), weights)]


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 1e-3)])
def test_a_step_of_a_physics_informed_net(monkeypatch, threads, dtype, tolerance):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    gradient = on(WHOLE)
    arguments = [array.astype(dtype) for array in (X, *WEIGHTS)]
    expected = expected_gradients()
    for _ in range(2):
        for found, wanted in zip(gradient(*arguments), expected, strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    source = gradient.explain(*arguments).source
    assert "long_product(" in source and "aligned_arrays(" in source
    assert ("wide_product(" in source) == (threads == "1")


@pytest.mark.parametrize("columns", [1, 5, 33, 700])
@pytest.mark.parametrize("length", [16, 48, 1024])
def test_products_in_parts(columns, length):
    left, right = RANDOM.normal(size=(7, 4)), RANDOM.normal(size=(4, columns))
    wide, tall = np.full((7, columns), np.nan), np.full((columns, 7), np.nan)
    assert wide_product(left, right, length, wide) is wide
    assert tall_product(right.T, left.T, length, tall) is tall
    np.testing.assert_allclose(wide, np.einsum("ij,jk->ik", left, right), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(tall, np.einsum("ij,jk->ki", left, right), rtol=1e-12, atol=1e-14)
    found = long_product(right, right.T, length)
    np.testing.assert_allclose(found, np.einsum("ij,kj->ik", right, right), rtol=1e-12, atol=1e-14)


def test_many_rows_times_a_small_matrix(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    rows, matrix = RANDOM.normal(size=(9000, 12)), RANDOM.normal(size=(11, 12))
    gradient = hesse.grad(lambda X, W: np.sum((X @ W.T) ** 2), argnums=(0, 1))
    source = gradient.explain(rows, matrix).source
    assert "wide_product(" in source and "tall_product(" in source and "long_product(" in source
    product = np.einsum("ij,kj->ik", rows, matrix)
    by_rows, by_matrix = gradient(rows, matrix)
    np.testing.assert_allclose(by_rows, 2 * np.einsum("ik,kj->ij", product, matrix), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(by_matrix, 2 * np.einsum("ik,ij->kj", product, rows), rtol=1e-11)


def test_parts_of_products_whose_columns_are_several_axes(monkeypatch):
    """The array of a value that is done with has all of its axes: parts are written to another one."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def f(matrix, x):
        done = np.sum(np.cos(np.exp(np.sin(x)) + np.sum(np.sin(x) ** 2)))
        return np.einsum("ij,jab->iab", matrix, np.tanh(x) * done)

    compiled = hesse.compile(f, backend=NumpyTarget(machine=WHOLE))
    matrix, x = RANDOM.normal(size=(32, 32)), RANDOM.normal(size=(32, 60, 50))
    assert "wide_product(" in compiled.explain(matrix, x).source
    for k in range(2):
        np.testing.assert_allclose(compiled(matrix, x + k), f(matrix, x + k), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("count", [990, 1953, 2000, 9000, 15_000])
def test_parts_are_small(monkeypatch, count):
    """A part of one row more would be copied by BLAS as the whole is."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    rows, matrix = RANDOM.normal(size=(count, 32)), RANDOM.normal(size=(32, 32))
    gradient = hesse.grad(lambda X, W: np.sum(np.tanh(X @ W)), argnums=1, backend=NumpyTarget(machine=WHOLE))
    source = gradient.explain(rows, matrix).source
    lengths = [int(found) for found in re.findall(r"(?:wide|tall)_product\([^()]*?, (\d+), ", source)]
    lengths += [int(found) for found in re.findall(r"long_product\(.*, (\d+)\)", source)]
    assert len(lengths) == 2 and max(lengths) * 32 * 32 <= NUMPY_MACHINE.small_product
    assert all(math.ceil(count / length) == math.ceil(count / 976) for length in lengths)


def test_small_products_are_left_whole():
    rows, matrix = RANDOM.normal(size=(500, 12)), RANDOM.normal(size=(11, 12))
    gradient = hesse.grad(lambda X, W: np.sum((X @ W.T) ** 2), argnums=(0, 1))
    assert "_product(" not in gradient.explain(rows, matrix).source


def test_what_ends_the_need_for_large_values_comes_first():
    """The gradients by weights are computed before the cotangents of the next layer, and values stay."""
    early, late = (on(replace(WHOLE, cache_entries=entries)) for entries in (0, 2**40))
    peaks = [made.explain(X, *WEIGHTS).executable.program.peak_elements() for made in (early, late)]
    assert peaks[0] < 0.9 * peaks[1]
    for found, expected in zip(early(X, *WEIGHTS), late(X, *WEIGHTS), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 2731), (64, 64), (5, 7, 131)])
def test_aligned_arrays(dtype, shape):
    arrays = aligned_arrays(3, shape, np.dtype(dtype))
    assert arrays.shape == (3, *shape) and arrays.dtype == dtype
    for k, array in enumerate(arrays):
        assert array.ctypes.data % LINE == 0 and array.flags.c_contiguous
        array[...] = k
    assert [set(array.ravel().tolist()) for array in arrays] == [{0}, {1}, {2}]


def deep(x, matrix):
    """A function of many steps, each with values of the size of its argument."""
    for _ in range(20):
        x = np.sin(matrix @ np.tanh(x)) * np.exp(matrix @ x / 40)
    return np.sum(x)


def test_results_have_memory_of_their_own():
    """An aligned array would keep all others, and the next call might write over it."""
    x, matrix = RANDOM.normal(size=(40, 200)), RANDOM.normal(size=(40, 40)) / 10
    derivative = hesse.grad(deep)
    assert "aligned_arrays(" in derivative.explain(x, matrix).source
    first = derivative(x, matrix)
    kept = first.copy()
    derivative(2 * x, matrix)
    np.testing.assert_array_equal(first, kept)
    assert first.base is None or first.base.nbytes == first.nbytes


def test_short_programs_have_no_aligned_arrays():
    """To allocate them would take longer than they save."""
    x, matrix = RANDOM.normal(size=(40, 200)), RANDOM.normal(size=(40, 40))
    derivative = hesse.grad(lambda x: np.sum(np.sin(matrix @ np.tanh(x)) * np.exp(matrix @ x)))
    assert "aligned_arrays(" not in derivative.explain(x).source


def test_short_axes_keep_their_order():
    """Differences of points with few coordinates are formed along the points, not along the coordinates."""
    x = RANDOM.normal(size=(50, 3))
    derivative = hesse.grad(lambda x: np.sum(np.exp(-np.sum((x[:, None] - x[None]) ** 2, 2))))
    source = derivative.explain(x).source
    assert "order='C'" in source and "_3 = aligned_arrays(" not in source
