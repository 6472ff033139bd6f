"""Frames of points, and how long they are kept."""

import copy
import pickle
import weakref

import jax
import numpy as np
import pytest
from tests.manifold_cases import (
    SHAPE,
    A,
    S,
    close,
    point,
)
from tests.test_trains import dense, in_library

import hesse
from hesse import tt
from hesse.tt import arrays, compiler, gram_frames
from hesse.tt.point import _are_large, point_of

jnp = jax.numpy


def with_singular_values(values):
    """A train with given singular values at its middle bond, of scales that differ from core to core."""
    X = tt.random(SHAPE, len(values), rng=0).orthogonalize(1)
    cores = [np.array(core) for core in X.cores]
    left, size, right = cores[1].shape
    u, _, vt = np.linalg.svd(cores[1].reshape(left * size, right), full_matrices=False)
    cores[1] = ((u * values) @ vt).reshape(cores[1].shape)
    return tt.TensorTrain([core * scale for core, scale in zip(cores, (1e3, 1e-5, 1e4, 1e-2), strict=True)])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("least", [1.0, 1e-3, 1e-6, 1e-11])
def test_frames_from_gram_matrices(dtype, least):
    """The frames of GPUs: orthogonal, and with each link the train itself."""
    torch = pytest.importorskip("torch")
    X = with_singular_values(np.geomspace(1.0, least, 3))
    cores = [torch.tensor(np.array(core), dtype=getattr(torch, dtype)) for core in X.cores]
    found, fits = gram_frames.frames(arrays.library(cores[0]), cores)
    eps = float(np.finfo(dtype).eps)
    assert bool(fits)
    left, links, right = ([np.asarray(a, "f8") for a in chain] for chain in found)
    for k in range(len(SHAPE)):
        u = left[k].reshape(-1, left[k].shape[2])
        assert np.abs(u.T @ u - np.eye(u.shape[1])).max() < 100 * eps
        if k:
            v = right[k].reshape(len(right[k]), -1)
            assert np.abs(v @ v.T - np.eye(len(v))).max() < 100 * eps
        joined = tt.TensorTrain([*left[:k], np.einsum("aib,bc->aic", left[k], links[k]), *right[k + 1 :]])
        close(dense(joined), dense(X), 100 * eps)


@pytest.mark.parametrize("least", [1.0, 0.0])
def test_derivatives_with_frames_from_gram_matrices(least, monkeypatch):
    """Also where singular values are zero, and QR decompositions follow if that can be decided."""
    pytest.importorskip("torch")
    cores = [np.array(core) for core in with_singular_values(np.array([1.0, 0.5, 1e-3])).cores]
    cores[1][:, :, -1] *= least  # exactly zero: frames of what is only rounded are any
    X, operator = in_library(tt.TensorTrain(cores), "torch"), in_library(A, "torch")
    f = lambda X: tt.dot(operator @ X, X) / tt.dot(X, X)  # noqa: E731
    wanted = hesse.manifolds.grad(f)(X)
    monkeypatch.setattr(gram_frames, "serves", lambda library, cores: True)
    found = hesse.manifolds.grad(f)(tt.TensorTrain(X.cores))
    close(found.dense(), wanted.dense(), 1e-11)
    undecided = arrays.library(X.cores[0])._replace(decided=lambda condition: None)
    monkeypatch.setitem(arrays._made, "torch", undecided)
    found = hesse.manifolds.grad(f)(tt.TensorTrain(X.cores))
    if least:
        close(found.dense(), wanted.dense(), 1e-11)
    else:
        assert all(bool(delta.isnan().all()) for delta in found.deltas)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("least", [1.0, 1e-9, 0.0])
def test_frames_of_large_cores_meet(dtype, least):
    """Both sweeps go over the cores as they are given: orthogonal, and with each link the train itself."""
    X = tt.random((60, 400, 60), 12, rng=0)
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0]
    values = np.array([*np.ones(11), least])
    given = X.cores[0] * 1e3, (turned * values) @ X.cores[1].reshape(12, -1), X.cores[2]
    X = tt.TensorTrain(
        [core.reshape(old.shape).astype(dtype) for core, old in zip(given, X.cores, strict=True)]
    )
    made = point_of(X)
    eps, whole = np.finfo(dtype).eps, X.dense()
    assert _are_large(X.library, X.cores)
    for frame, axis in [(made.left.cores[0], 2), (made.left.cores[1], 2), (made.right.cores[1], 0)]:
        rows = np.moveaxis(frame, axis, 0).reshape(12, -1)
        assert np.abs(rows @ rows.T - np.eye(12)).max() < 100 * eps
    for k in range(3):
        cores = [*made.left.cores[:k], made.centre(k), *made.right.cores[k + 1 :]]
        assert np.abs(tt.TensorTrain(cores).dense() - whole).max() < 100 * eps * np.abs(whole).max()


def test_large_cores_of_ranks_that_one_half_cannot_have():
    """Sweeps from both ends would not meet in a bond of one size."""
    generator = np.random.default_rng(0)
    shapes = (1, 3, 5), (5, 4000, 5), (5, 3, 1)
    X = tt.TensorTrain([generator.standard_normal(shape) for shape in shapes])
    made = point_of(X)
    assert not _are_large(X.library, X.cores)
    assert made.ranks == (1, 3, 3, 1)
    close(tt.TensorTrain([*made.left.cores[:2], made.centre(2)]).dense(), X.dense())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e12, np.inf])
def test_orthogonal_frames_by_products(dtype, condition):
    """The decomposition of GPUs, which says itself whether it is one."""
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(0)
    u, v = (np.linalg.qr(generator.standard_normal((n, 8)))[0] for n in (160, 8))
    values = np.geomspace(1.0, 1.0 / min(condition, 1e12), 8)
    if np.isinf(condition):
        v, values[-1] = np.eye(8), 0.0  # a column of zeros, which rounding does not fill
    a = torch.tensor((u * values) @ v, dtype=getattr(torch, dtype))
    q, r, fits = arrays.cholesky_qr(
        a,
        lambda gram: torch.linalg.cholesky_ex(gram)[0],
        lambda q, lower: torch.linalg.solve_triangular(lower.mT, q, upper=True, left=False),
        torch.eye(8, dtype=a.dtype),
    )
    eps = torch.finfo(a.dtype).eps
    assert bool(fits) or condition > (1e12 if dtype == "float64" else 1e4)
    assert not (bool(fits) and np.isinf(condition))
    if bool(fits):
        assert float((q.mT @ q - torch.eye(8, dtype=a.dtype)).abs().max()) < 100 * eps
        assert float((q @ r - a).abs().max()) < 100 * eps


def test_points_are_gone_with_their_trains():
    X = point()
    gradient = hesse.manifolds.grad(lambda X: tt.dot(S @ X, X))(X)
    assert gradient.point.train is X
    gone = weakref.ref(X)
    del X
    assert gone() is None  # without a search for cycles
    assert point_of(gradient.point.train) is gradient.point
    assert gradient.shape == SHAPE


def test_a_copied_tangent_vector_belongs_to_the_train_of_its_own_point():
    X = point()
    f = lambda X: tt.dot(S @ X, X)  # noqa: E731
    gradient = hesse.manifolds.grad(f)(X)
    copied = copy.deepcopy(gradient)
    assert copied.point.train is not X
    found = hesse.manifolds.hvp(f)(copied.point.train, copied)
    close(found.dense(), hesse.manifolds.hvp(f)(X, gradient).dense(), 1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_tangent_vectors_can_be_stored(library):
    X, operator = in_library(point(), library), in_library(S, library)
    f = lambda X: tt.dot(operator @ X, X)  # noqa: E731
    gradient = hesse.manifolds.grad(f)(X)
    stored = pickle.loads(pickle.dumps(gradient))
    close(stored.dense(), gradient.dense(), 1e-14)
    found = hesse.manifolds.hvp(f)(stored.point.train, stored)
    close(found.dense(), hesse.manifolds.hvp(f)(X, gradient).dense(), 1e-12)


def test_a_point_does_not_belong_to_cores_that_were_changed():
    torch = pytest.importorskip("torch")
    cores = [torch.as_tensor(np.array(core)) for core in point().cores]
    f = lambda X: tt.dot(X, X)  # noqa: E731
    X = tt.TensorTrain(cores)
    gradient = hesse.manifolds.grad(f)(X)
    del X
    cores[1].mul_(2.0)
    for changed in (gradient.point.train, copy.copy(gradient.point).train):
        value, own = hesse.manifolds.value_and_grad(f)(changed)
        assert own.point is not gradient.point
        torch.testing.assert_close(value, torch.sum(changed.dense() ** 2))
    again = copy.copy(own.point)
    assert point_of(again.train) is again


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(400, 1), (400, 7), (5000, 10), (40_000, 9), (1301, 32), (900, 33)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kernel", [True, False])
def test_gram_matrices_of_tall_matrices(kernel, shape, order, dtype, monkeypatch):
    """Small and large, with rows or columns that follow each other, compiled and not."""
    monkeypatch.setattr(compiler, "is_installed", lambda: kernel)
    a = np.asarray(np.random.default_rng(0).standard_normal(shape), dtype=dtype, order=order)
    wanted = a.astype("f8").T @ a.astype("f8")
    assert np.abs(arrays._gram(a) - wanted).max() <= 50 * np.finfo(dtype).eps * np.abs(wanted).max()
