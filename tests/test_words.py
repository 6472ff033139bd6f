"""Words (batches of products of vectors) at large trains, and frames that they read before these are made."""

import copy
import time
from functools import partial

import numpy as np
import pytest

from hesse import tt
from hesse.manifolds import TensorTrains
from hesse.manifolds.derivatives import Objective
from hesse.tt import compiler, rows_kernel, spread_kernel
from hesse.tt.point import Point, _are_large, point_of
from hesse.tt.sweep_kernel import left_sweep, right_sweep
from hesse.tt.threads import in_turns
from hesse.tt.words import WordsFunctional, _combined

SHAPE, RANK = (900, 300, 250, 900), 16
SMALLEST = [1.0, 0.2, 5e-3, 1e-6, 1e-12, 0.0]
"""Singular values of a bond."""


def train(least, dtype="f8", scale=1.0):
    """A train with large cores; one singular value of the middle bond is about so much of the others."""
    cores = [np.array(core) * scale for core in tt.random(SHAPE, RANK, rng=4).cores]
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((RANK, RANK)))[0]
    values = np.array([1.0] * (RANK - 1) + [least])
    cores[2] = np.einsum("ac,cib->aib", (turned * values) @ turned.T, cores[2])
    return tt.TensorTrain([core.astype(dtype) for core in cores])


def vectors(dtype="f8", scale=1.0):
    generator = np.random.default_rng(3)
    return [(scale * generator.standard_normal((5, size))).astype(dtype) for size in SHAPE]


def sines(rows):
    """As a function of all words, and of each of them, which are forms like any others."""
    single = [tt.rank_one([own[k] for own in rows]) for k in range(5)]
    return (
        lambda X: np.sin(tt.dot(tt.rank_one(rows), X)).sum(),
        lambda X: sum(np.sin(tt.dot(word, X)) for word in single),
    )


def columns(core):
    return core.astype("f8").reshape(-1, core.shape[2])


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("least", SMALLEST)
def test_frames_that_are_multiplied_later(least, dtype):
    """Orthogonal to rounding, and with each link the train; cores that are far from even come as they are."""
    X = train(least, dtype)
    point, eps = Point(X), np.finfo(dtype).eps
    assert _are_large(X.library, X.cores)
    waits = [[factored.waits for factored in chain] for chain in point.factors]
    assert waits[0][0] and waits[1][3] and (1e-12 < least < 0.2 or waits[1][2] == (least == 1.0))
    left, links, right = point.left.cores, point.links, point.right.cores
    assert not any(factored.waits for chain in point.factors for factored in chain)
    for k in range(4):
        u = columns(left[k])
        assert np.abs(u.T @ u - np.eye(len(u.T))).max() < 30 * eps
        if k:
            v = columns(right[k].T)
            assert np.abs(v.T @ v - np.eye(len(v.T))).max() < 30 * eps
        same = tt.TensorTrain([*left[:k], np.einsum("aib,bc->aic", left[k], links[k]), *right[k + 1 :]])
        wide, given = (tt.TensorTrain([core.astype("f8") for core in Y.cores]) for Y in (same, X))
        assert float((wide - given).norm()) <= 100 * eps * float(given.norm())


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("least", SMALLEST)
@pytest.mark.parametrize("kernel", [True, False])
def test_derivatives_agree_with_those_of_each_word(kernel, least, dtype, monkeypatch):
    monkeypatch.setattr(compiler, "is_installed", lambda: kernel)
    X = train(least, dtype)
    Z = TensorTrains(SHAPE, RANK).random_tangent(X, rng=5)
    f, g = map(Objective, sines(vectors(dtype)))
    tolerance = {"f8": 1e-12, "f4": 3e-4}[dtype]
    value, G = f.value_and_grad(X)
    (words,) = f._recorded._last.functionals
    assert isinstance(words, WordsFunctional) and G.deltas[0].dtype == dtype
    wanted = g.value_and_grad(X)
    assert abs(value - wanted[0]) <= tolerance * 5.0
    assert (G - wanted[1]).norm() <= tolerance * wanted[1].norm()
    product = f.hvp(X, Z)
    assert (product - g.hvp(X, Z)).norm() <= tolerance * product.norm()
    for T in (G, product):
        for u, delta in zip(T.point.left.cores[:-1], T.deltas, strict=False):
            inside = columns(u).T @ columns(delta)
            assert np.linalg.norm(inside) <= 10 * np.finfo(dtype).eps * np.linalg.norm(delta.astype("f8"))


def test_gradients_do_not_multiply_frames():
    """Whatever comes later finds the same gradient: frames are made when somebody asks for them."""
    X, f = train(1.0), sines(vectors())[0]
    objective = Objective(f)
    G = objective.value_and_grad(X)[1]
    point = point_of(X)
    assert not {"left", "unit"} & set(vars(point))
    other = copy.copy(point)
    assert point.left is point.left and len(point.right) == 4
    again = Objective(f).value_and_grad(X)[1]
    assert (again - G).norm() <= 1e-14 * G.norm()
    np.testing.assert_array_equal(other.left.cores[1], point.left.cores[1])


def test_values_need_no_frames():
    """And what they read serves the gradient, whether or not somebody made the frames in between."""
    X, words = train(1.0), tt.rank_one(vectors())
    f = lambda X: np.sin(tt.dot(words, X)).sum()  # noqa: E731
    objective = Objective(f)
    objective.value(X)
    point = point_of(X)
    assert not {"factors", "unit_links", "turns", "left", "unit"} & set(vars(point))
    given = objective._recorded._last.functionals[0]._given
    G = objective.value_and_grad(X)[1]
    assert objective._recorded._last.functionals[0]._given is given
    other = tt.TensorTrain(X.cores)
    made = point_of(other)
    assert len(made.turns.left) == len(made.turns.right) == 3
    assert len(made.unit_links) == len(made.left) == len(made.unit) == 4
    again = Objective(f).value_and_grad(other)[1]
    np.testing.assert_allclose(again.norm(), G.norm(), rtol=1e-13)
    for mine, own in zip(G.deltas, again.deltas, strict=True):
        np.testing.assert_allclose(mine, own, atol=1e-12 * np.abs(mine).max())


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    ("count", "size", "left", "right"),
    [
        (5, 300, 16, 16),
        (1, 8, 1, 4),
        (3, 41, 7, 5),
        (6, 100, 5, 32),
        (4, 1100, 3, 29),
        (32, 65, 10, 10),
        (70, 50, 3, 9),
    ],
)
@pytest.mark.parametrize("kernel", [True, False])
def test_derivatives_by_large_cores(kernel, count, size, left, right, dtype):
    """Compiled and not, for sizes that no tile divides, whatever order entries have in memory."""
    generator = np.random.default_rng(0)
    words, before, behind, core, inside = (
        generator.standard_normal(shape).astype(dtype)
        for shape in [(count, size), (count, left), (count, right), (left, size, right), (right, right)]
    )
    function = spread_kernel.spread if kernel else _combined
    wanted = np.einsum("si,sa,sb->aib", *(array.astype("f8") for array in (words, before, behind)))
    inner = np.einsum("aib,bc->aic", core.astype("f8"), inside.astype("f8"))
    tolerance = 200 * np.finfo(dtype).eps
    for order in ("C", "F"):
        own = [np.asarray(array, order=order) for array in (words, before, behind, core, inside)]
        free = spread_kernel.Part(*own[:3], None, None)
        assert np.abs(function(free) - wanted).max() < tolerance
        found = function(spread_kernel.Part(*own))
        assert found.dtype == dtype and np.abs(found - (wanted - inner)).max() < tolerance
        read = rows_kernel.read(own[0], own[3])
        assert np.abs(read - np.einsum("si,aib->abs", words, core)).max() < tolerance * size**0.5


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    ("ranks", "sizes", "uneven"),
    [
        ((10, 10, 10, 10), (900, 500, 2000), 3),
        ((10, 10, 10, 10), (900, 901, 903), 1),
        ((16, 16, 16), (400, 300), 0),
        ((8, 12, 12), (700, 500), 2),
        ((32, 29), (103,), 1),
        ((5, 5, 5), (3000, 4001), 2),
    ],
)
def test_sweeps(ranks, sizes, uneven, dtype):
    """Compiled ones are those of QR decompositions, but for signs; they end where columns are not even."""
    generator = np.random.default_rng(2)
    shapes = [*zip(ranks[:-1], sizes, ranks[1:], strict=True)]
    cores = [generator.standard_normal(shape).astype(dtype) for shape in shapes]
    for core in cores[uneven : uneven + 1]:
        core[:, :, 0] *= 30.0
    tolerance = 100 * np.finfo(dtype).eps
    for is_left in (True, False):
        matrix = (np.eye(ranks[0]) + 0.2 * generator.standard_normal((ranks[0],) * 2) / ranks[0]).astype(
            dtype
        )
        given = cores if is_left else [core.transpose(2, 1, 0) for core in cores]
        swept = (left_sweep if is_left else right_sweep)(given, matrix if is_left else matrix.T)
        alike = len(cores) if ranks[0] == ranks[1] and len(set(ranks)) == 1 else 1
        assert len(swept.factors) == min(uneven, alike) and (swept.gram is None) == (uneven >= alike)
        last = matrix.astype("f8")
        for k, (lower, inverse) in enumerate(swept.factors):
            product = np.einsum("ca,aib->cib", last, cores[k])
            if is_left:
                np.testing.assert_allclose(swept.products[k], product, atol=tolerance * np.abs(product).max())
            r = np.linalg.qr(product.reshape(-1, product.shape[2]))[1]
            last = np.sign(np.diag(r))[:, None] * r
            assert np.abs(lower.T - last).max() <= tolerance * np.abs(last).max()
            assert np.abs(inverse.T @ last - np.eye(len(last))).max() <= tolerance
        if swept.gram is not None:
            product = columns(np.einsum("ca,aib->cib", last, cores[len(swept.factors)]))
            assert np.abs(swept.gram - product.T @ product).max() <= tolerance * np.abs(swept.gram).max()


@pytest.mark.parametrize("least", [1.0, 0.3, 5e-3, 1e-8])
@pytest.mark.parametrize("place", range(1, 6))
def test_uneven_bonds_anywhere(place, least):
    """One bond of several has a small singular value: sweeps end there and go on behind it."""
    generator = np.random.default_rng(7)
    shape = (2000, 400, 400, 400, 400, 2000)
    cores = [np.array(core) for core in tt.random(shape, 10, rng=4).cores]
    values = np.array([least, *[1.0] * (cores[place].shape[0] - 1)])
    turned = np.linalg.qr(generator.standard_normal((len(values),) * 2))[0]
    cores[place] = np.einsum("ac,cib->aib", (turned * values) @ turned.T, cores[place])
    X = tt.TensorTrain(cores)
    assert _are_large(X.library, X.cores)
    rows = [generator.standard_normal((5, size)) for size in shape]
    single = [tt.rank_one([own[k] for own in rows]) for k in range(5)]
    value, G = Objective(lambda X: np.sin(tt.dot(tt.rank_one(rows), X)).sum()).value_and_grad(X)
    wanted = Objective(lambda X: sum(np.sin(tt.dot(word, X)) for word in single)).value_and_grad(X)
    assert abs(value - wanted[0]) <= 1e-12
    assert (G - wanted[1]).norm() <= 1e-12 * wanted[1].norm()
    for u, delta in zip(G.point.left.cores[:-1], G.deltas, strict=False):
        assert np.linalg.norm(columns(u).T @ columns(delta)) <= 1e-12 * np.linalg.norm(delta)


def test_a_single_large_core():
    X, words = tt.random((20_000,), 1, rng=0), np.random.default_rng(0).standard_normal((3, 20_000))
    f = Objective(lambda X: np.sin(tt.dot(tt.rank_one([words]), X)).sum())
    value, G = f.value_and_grad(X)
    numbers = words @ X.cores[0][0, :, 0]
    np.testing.assert_allclose(value, np.sin(numbers).sum(), rtol=1e-12)
    np.testing.assert_allclose(G.deltas[0][0, :, 0], np.cos(numbers) @ words, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("scale", "by_words"), [(1e-9, True), (1e12, True), (1e30, False), (1e-30, True)])
def test_numbers_that_single_precision_does_not_hold(scale, by_words):
    """Words are so much larger, cores so much smaller: it holds the number, but not that of the frames."""
    found = {}
    for dtype in ("f8", "f4"):
        X = train(1.0, dtype, 1e2 / scale)
        words = tt.rank_one(vectors(dtype, scale))
        f = Objective(lambda X, words=words: tt.dot(words, X).sum())
        found[dtype] = float(f.value(X))
        assert dtype == "f8" or isinstance(f._recorded._last.functionals[0], WordsFunctional) == by_words
    np.testing.assert_allclose(found["f4"], found["f8"], rtol=1e-3)


def test_gradients_whose_parts_single_precision_does_not_hold():
    """Small words: deltas fit into the type, the numbers by which they are multiplied do not."""
    found = {}
    for dtype in ("f8", "f4"):
        rows = vectors(dtype)
        rows[1] = (rows[1].astype("f8") * 1e-25).astype(dtype)
        X = train(1.0, dtype)
        f = Objective(lambda X, rows=rows: 1e40 * tt.dot(tt.rank_one(rows), X).sum())
        found[dtype] = f.value_and_grad(X)[1].deltas[1].astype("f8")
        assert isinstance(f._recorded._last.functionals[0], WordsFunctional)
    lengths = [np.linalg.norm(found[dtype]) for dtype in ("f8", "f4")]
    assert 0.0 < lengths[0] < 1e38
    np.testing.assert_allclose(lengths[1], lengths[0], rtol=1e-4)


@pytest.mark.parametrize("power", [4, 6, 12])
def test_words_that_are_tiny_before_and_huge_behind(power):
    """In single precision only their products fit: here those of two words with opposite sizes."""
    shape = SHAPE[:2] * 3
    generator = np.random.default_rng(3)
    sizes = np.array([10.0**power, 10.0**-power])[:, None]
    rows = [
        generator.standard_normal((2, size)) * (sizes if k < 3 else 1 / sizes) for k, size in enumerate(shape)
    ]
    cores = [np.array(core) for core in tt.random(shape, RANK, rng=4).cores]
    deltas = {}
    for dtype in ("f8", "f4"):
        words, X = (
            tt.rank_one([r.astype(dtype) for r in rows]),
            tt.TensorTrain([c.astype(dtype) for c in cores]),
        )
        deltas[dtype] = Objective(lambda X, words=words: tt.dot(words, X).sum()).value_and_grad(X)[1].deltas
    for mine, expected in zip(deltas["f4"], deltas["f8"], strict=True):
        assert mine.dtype == np.float32
        assert np.linalg.norm(mine - expected) < 2e-5 * np.linalg.norm(expected)


def test_no_task_begins_after_one_has_failed():
    done = []

    def task(k):
        if k == 3:
            raise ZeroDivisionError
        time.sleep(0.001)
        done.append(k)

    with pytest.raises(ZeroDivisionError):
        in_turns([partial(task, k) for k in range(100)])
    time.sleep(0.2)
    assert len(done) < 10
    assert in_turns([partial(int, k) for k in range(50)]) == list(range(50))
    assert in_turns([]) == []
