"""Tensor trains against dense arrays."""

import copy
import itertools
import pickle
import re
import warnings

import numpy as np
import pytest

import hesse
from hesse import tt
from hesse.errors import ArgumentError, ShapeError
from hesse.tt import arrays

SHAPE = (3, 4, 2, 5)


def random_train(shape=SHAPE, rank=3, seed=0, library="numpy"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tt.random(shape, rank, rng=seed)
    return in_library(made, library)


def in_library(train, library):
    if library == "numpy":
        return train
    if library == "torch":
        torch = pytest.importorskip("torch")
        return type(train)([torch.tensor(np.array(core)) for core in train.cores])
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return type(train)([jax.numpy.asarray(np.array(core)) for core in train.cores])


def random_operator(shape=SHAPE, rank=2, seed=1):
    return tt.random_matrix([(size, size) for size in shape], rank, rng=seed)


def dense(train):
    """The entries by their definition."""
    cores = [np.asarray(core) for core in train.cores]
    result = np.zeros(train.shape)
    for index in itertools.product(*map(range, train.shape)):
        product = np.eye(1)
        for core, i in zip(cores, index, strict=True):
            product = product @ core[:, i, :]
        result[index] = product[0, 0]
    return result


def matrix(operator):
    sizes = operator.shape
    result = np.zeros([s[0] for s in sizes] + [s[1] for s in sizes])
    for rows in itertools.product(*(range(s[0]) for s in sizes)):
        for columns in itertools.product(*(range(s[1]) for s in sizes)):
            product = np.eye(1)
            for core, i, j in zip(operator.cores, rows, columns, strict=True):
                product = product @ np.asarray(core)[:, i, j, :]
            result[rows + columns] = product[0, 0]
    return result.reshape(np.prod([s[0] for s in sizes]), -1)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_algebra(library):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        shape = SHAPE if library != "jax" else SHAPE[:2]  # JAX compiles each operation for each shape
        X, Y = random_train(shape, library=library), random_train(shape, seed=5, rank=2, library=library)
        x, y = dense(X), dense(Y)
        close = lambda a, b: np.testing.assert_allclose(np.asarray(a), b, atol=1e-13)  # noqa: E731
        close(X.dense(), x)
        close((X + Y).dense(), x + y)
        close((X - Y).dense(), x - y)
        close((2.5 * X).dense(), 2.5 * x)
        close((X * np.float64(2.0)).dense(), 2.0 * x)
        close((np.float64(2.0) * X / 4).dense(), 0.5 * x)
        close((-X).dense(), -x)
        close((X * Y).dense(), x * y)
        close(tt.dot(X, Y), np.sum(x * y))
        close((7.0 * X).norm(), 7.0 * np.linalg.norm(x))
        close(X.orthogonalize(1).dense(), x)
        close((X + Y).round(tol=1e-12).dense(), x + y)
        where = np.array([[0, 3, 1, 4], [2, 0, 0, 0], [1, -1, -2, 2]])[:, : len(shape)]
        close(tt.gather(X, where), x[tuple(where.T)])
        close(X.gather(*where.T), x[tuple(where.T)])
        assert X.shape == shape and set(X.ranks) == {1, 3} and set((X + Y).ranks) == {1, 5}


def test_operators():
    A, B, X = random_operator(), random_operator(seed=4, rank=3), random_train()
    a, b, x = matrix(A), matrix(B), dense(X)
    np.testing.assert_allclose(A.dense(), a, atol=1e-14)
    np.testing.assert_allclose((A @ X).dense().ravel(), a @ x.ravel(), atol=1e-14)
    np.testing.assert_allclose((A @ B).dense(), a @ b, atol=1e-14)
    np.testing.assert_allclose((A + B).dense(), a + b, atol=1e-14)
    np.testing.assert_allclose((A - 2.0 * B).dense(), a - 2 * b, atol=1e-14)
    np.testing.assert_allclose(A.T.dense(), a.T, atol=1e-14)
    np.testing.assert_allclose(tt.eye(SHAPE).dense(), np.eye(120))
    np.testing.assert_allclose(B.norm(), np.linalg.norm(b))
    assert A.T.T is A and A.T is A.T
    assert not A.is_symmetric and (A + A.T).is_symmetric and tt.eye(SHAPE).is_symmetric
    assert not (A + A.T + 1e-9 * A).is_symmetric


def test_rectangular_operators():
    A = tt.random_matrix([(2, 3), (4, 2)], 3, rng=0)
    X = random_train((3, 2), rank=2)
    np.testing.assert_allclose((A @ X).dense().ravel(), matrix(A) @ dense(X).ravel(), atol=1e-14)
    assert A.T.shape == ((3, 2), (2, 4)) and (A @ X).shape == (2, 4)
    assert not A.is_symmetric


def test_matrices_of_low_rank():
    X, rng = random_train((6, 5), rank=2), np.random.default_rng(0)
    x, a, b = dense(X), rng.standard_normal((3, 6)), rng.standard_normal((5, 4))
    np.testing.assert_allclose(X.left @ X.right.T, x)
    np.testing.assert_allclose((a @ X).dense(), a @ x)
    np.testing.assert_allclose((X @ b).dense(), x @ b)
    np.testing.assert_allclose(X.T.dense(), x.T)


def test_from_dense_and_rounding():
    X = random_train(rank=2)
    found = tt.from_dense(dense(X))
    assert found.ranks == (1, 2, 2, 2, 1)
    np.testing.assert_allclose(found.dense(), dense(X), atol=1e-14)
    full = np.random.default_rng(0).standard_normal(SHAPE)
    exact = tt.from_dense(full)
    assert exact.ranks == (1, 3, 10, 5, 1)
    np.testing.assert_allclose(exact.dense(), full, atol=1e-12)
    rough = exact.round(tol=0.3)
    assert max(rough.ranks) < 10
    assert np.linalg.norm(rough.dense() - full) <= 0.3 * np.linalg.norm(full)
    assert exact.round(rank=2).ranks == (1, 2, 2, 2, 1)
    best = np.linalg.svd(full.reshape(3, -1))[1]
    small = tt.from_dense(full.reshape(3, 40)).round(rank=2)
    assert np.isclose(np.linalg.norm(small.dense() - full.reshape(3, 40)), best[2])


def test_constructors():
    vectors = [np.arange(1.0, n + 1) for n in (2, 3, 4)]
    np.testing.assert_allclose(tt.rank_one(vectors).dense(), np.einsum("i,j,k->ijk", *vectors))
    rows = [np.random.default_rng(n).standard_normal((5, n)) for n in (2, 3, 4)]
    batch = tt.rank_one(rows)
    assert batch.batch == 5 and batch.shape == (2, 3, 4)
    np.testing.assert_allclose(batch.dense(), np.einsum("si,sj,sk->sijk", *rows))
    X = random_train((2, 3, 4), rank=2)
    np.testing.assert_allclose(tt.dot(batch, X), np.einsum("sijk,ijk->s", batch.dense(), dense(X)))
    np.testing.assert_allclose((batch + X).dense(), batch.dense() + dense(X))
    np.testing.assert_allclose(tt.ones((2, 3)).dense(), np.ones((2, 3)))
    assert np.isclose(tt.random((20,) * 40, rank=10, rng=0).norm(), 1.0)
    for core in tt.random((20,) * 40, rank=10, rng=0).cores:
        assert 0.01 < np.linalg.norm(core) < 100.0


def test_ranks_are_clipped_with_a_warning():
    with pytest.warns(UserWarning, match=r"ranks up to \(1, 3, 10, 5, 1\)"):
        assert tt.random(SHAPE, 20).ranks == (1, 3, 10, 5, 1)


def test_cross_interpolates_exactly_and_smooth_functions_well():
    X = random_train((5, 6, 4, 5), rank=3, seed=3)
    full = dense(X)
    found = tt.cross(lambda i: full[tuple(i.T)], full.shape, rank=3, rng=0)
    np.testing.assert_allclose(found.dense(), full, atol=1e-12)
    grid = np.indices((12,) * 4).sum(0)
    smooth = tt.cross(lambda i: 1.0 / (1.0 + i.sum(1)), (12,) * 4, rank=8, rng=0)
    assert np.abs(smooth.dense() - 1.0 / (1.0 + grid)).max() < 1e-6


def test_cores_never_change():
    core = np.ones((1, 3, 1))
    X = tt.TensorTrain([core])
    core[:] = 7.0
    assert X.dense().tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        X.cores[0][:] = 2.0


ones = np.ones


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tt.TensorTrain([]), ArgumentError, "at least one core"),
        (lambda: tt.TensorTrain([ones((1, 2))]), ShapeError, "core 0 of a tensor train has 2 axes"),
        (lambda: tt.TensorTrain([ones((1, 2, 3)), ones((2, 2, 1))]), ShapeError, "core 0 ends with rank 3"),
        (lambda: tt.TensorTrain([ones((2, 2, 1))]), ShapeError, "outer ranks must be 1, not 2 and 1"),
        (lambda: tt.TensorTrain([ones((1, 2, 1)), ones((1, 2, 1), "f4")]), ArgumentError, "different dtypes"),
        (lambda: tt.TensorTrain([ones((1, 2, 1), int)]), ArgumentError, "floating-point numbers, not int64"),
        (
            lambda: tt.TensorTrain([ones((4, 1, 2, 1)), ones((3, 1, 2, 1))]),
            ShapeError,
            "different batch axes",
        ),
        (lambda: tt.ones((2, 3)) + tt.ones((2, 4)), ShapeError, r"shapes \(2, 3\) and \(2, 4\)"),
        (lambda: tt.ones((2, 3)) * tt.ones((2, 3, 4)), ShapeError, "one has 2 positions, the other 3"),
        (
            lambda: tt.eye((2, 3)) @ tt.ones((2, 4)),
            ShapeError,
            r"columns \(2, 3\), but X has the shape \(2, 4\)",
        ),
        (lambda: tt.dot(tt.ones((2,)), ones(2)), ArgumentError, "second argument of tt.dot must be a train"),
        (lambda: tt.gather(tt.ones((2, 3)), [[0, 3]]), ArgumentError, "index 3 is out of range along axis 1"),
        (lambda: tt.gather(tt.ones((2, 3)), [[0, 1, 1]]), ShapeError, "indices for 3 axes"),
        (lambda: tt.gather(tt.ones((2, 3)), [[0.0, 1.0]]), ArgumentError, "whole numbers, not float64"),
        (lambda: tt.gather(tt.ones((2, 3)), ([0], [0, 1])), ShapeError, "one length"),
        (lambda: tt.random((2, 0), 2), ShapeError, "sizes of at least 1"),
        (lambda: tt.random((2, 2), 0), ArgumentError, "ranks must be at least 1"),
        (
            lambda: tt.random((2, 2, 2), (1, 2, 2, 2, 1)),
            ArgumentError,
            "3 ranks for the 2 inner bonds|5 ranks",
        ),
        (lambda: tt.ones((2, 2)).round(tol=-1.0), ArgumentError, "tol must not be negative"),
        (lambda: tt.ones((2, 2)).orthogonalize(2), ArgumentError, "position from 0 to 1"),
        (lambda: tt.ones((2, 2, 2)).left, ShapeError, "this train has 3"),
        (lambda: tt.rank_one([ones(2), ones((2, 2))]), ShapeError, "takes vectors"),
        (lambda: tt.cross(lambda i: i, (3, 3), 1), ShapeError, "one entry for each"),
        (lambda: list(tt.ones((2, 2))), TypeError, "X.dense"),
        (lambda: tt.random((2, 2.5), 1), ArgumentError, "sizes of a shape must be whole numbers"),
        (lambda: tt.random((2, 2), "2"), ArgumentError, "ranks must be whole numbers, not '2'"),
        (lambda: tt.random((2, 2, 2), (1.5, 2)), ArgumentError, "ranks must be whole numbers"),
        (lambda: tt.ones((2, 2)).round(rank=1.5), ArgumentError, "ranks must be whole numbers, not 1.5"),
        (lambda: tt.from_dense(ones((3, 0))), ShapeError, r"shape \(3, 0\) has no axes or no entries"),
        (lambda: tt.from_dense(np.full((3, 3), np.nan)), ArgumentError, "not finite"),
        (lambda: tt.TensorTrain([np.full((1, 3, 1), np.nan)] * 2).round(rank=1), ArgumentError, "not finite"),
        (lambda: tt.eye((2, 2)) @ ones((2, 2)), ArgumentError, "take tt.from_dense"),
        (lambda: tt.ones((2, 2)) @ tt.eye((2, 2)), ArgumentError, "write A.T @ X"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_libraries_are_not_mixed():
    pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=re.escape("numpy and torch")):
        tt.dot(random_train(), random_train(library="torch"))


def test_trains_are_loaded_by_name():
    assert hesse.tt is tt


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("condition", [1.0, 2.6, 10.0, 1e3, 1e9, 1e15, np.inf])
def test_tall_cores_are_orthogonal_whatever_their_singular_values(dtype, order, condition):
    rng = np.random.default_rng(0)
    values = np.geomspace(1.0, 1.0 / condition, 5) if np.isfinite(condition) else np.array([1.0, 1, 1, 0, 0])
    u, v = np.linalg.qr(rng.standard_normal((2000, 5)))[0], np.linalg.qr(rng.standard_normal((5, 5)))[0]
    a = ((u * values) @ v).astype(dtype, order=order)
    q, r = tt.arrays.NUMPY.qr(a)
    eps = np.finfo(dtype).eps
    assert q.dtype == r.dtype == dtype
    assert np.abs(q.T @ q - np.eye(5)).max() < 50 * eps
    assert np.abs(q @ r - a).max() < 50 * eps


def test_a_workspace_that_another_thread_takes_first():
    from hesse.tt.positions import Prepared  # noqa: PLC0415

    class TakenMeanwhile(list):
        """A list that had an entry when it was asked."""

        def __len__(self):
            return 1

    prepared = Prepared([], None, None, TakenMeanwhile())
    with prepared.workspace(tt.arrays.NUMPY) as work:
        assert work.library is tt.arrays.NUMPY
    assert prepared.idle[0] is work


@pytest.mark.parametrize("rows", [1, 13, 127, 128, 1021])
def test_products_are_cut_into_few_blocks_whatever_the_number_of_rows(rows):
    generator = np.random.default_rng(0)
    inner = 2 * arrays.ALONE // (rows * 40) + 1
    left, right = generator.normal(size=(rows, inner)), generator.normal(size=(inner, 40))
    for given in (left, np.asfortranarray(left)):
        np.testing.assert_allclose(arrays.product(given, right), left @ right, rtol=1e-12, atol=1e-9)
    parts, size = arrays.blocks(rows, rows * inner * 40)
    assert parts <= 4
    assert rows == 1 or size * inner * 40 < arrays.ALONE
    assert 0 <= rows - parts * size < parts


def test_products_of_trains_and_entries_without_a_value_are_refused():
    train = tt.random((3, 4, 5), 2, rng=0)
    with pytest.raises(ArgumentError, match=r"X @ Y of two trains is no product: write tt\.dot\(X, Y\)"):
        train @ train
    with pytest.raises(ArgumentError, match=r"gave nan at the position \(1, 1, 1\)"):
        tt.cross(lambda i: np.where((i == 1).all(1), np.nan, 1.0), (2, 2, 2), 2, rng=0)


def test_dense_tensors_of_whole_numbers_and_lists():
    for given in (np.arange(12).reshape(3, 4), np.arange(3), [[1.0, 2.0], [3.0, 5.0]], np.eye(3, dtype=bool)):
        found = tt.from_dense(given)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.dense(), np.asarray(given, np.float64), atol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_trains_can_be_stored(library):
    """What is kept with a train is not, nor that nobody else may write to it."""
    train = random_train(library=library)
    train.round(rank=1)
    for chain in (train, tt.random_matrix(((2, 3), (4, 5)), 2, rng=0)):
        for again in (pickle.loads(pickle.dumps(chain)), copy.copy(chain), copy.deepcopy(chain)):
            assert type(again) is type(chain) and again.ranks == chain.ranks
            np.testing.assert_array_equal(again.dense(), chain.dense())
            assert type(again.cores[0]) is type(chain.cores[0])
            assert not isinstance(again.cores[0], np.ndarray) or not again.cores[0].flags.writeable
