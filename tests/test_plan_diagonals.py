"""Diagonals of products: added to matrices, and read off products that are there anyway."""

from __future__ import annotations

import numpy as np
import pytest

import hesse
from hesse.ir import Add, Einsum, add, core, einsum, label_axis, topological, variable
from hesse.plan.diagonals import with_diagonals

RNG = np.random.default_rng(3)
N, K, D = 200, 2, 3
n, k, i, j = map(label_axis, range(4))


def _scaled_sum(rows: int, factor: float = 1.0):
    matrix, numbers = variable("L", (K, D, D)), variable("s", (K, D))
    points = variable("x", (rows, K, D))
    wide = einsum((matrix, points), ((k, i, j), (n, k, j)), (n, k, i), (rows, K, D), (rows, K, D, D))
    narrow = einsum((numbers, points), ((k, i), (n, k, i)), (n, k, i), (rows, K, D), (rows, K, D), factor)
    return add([wide, narrow], (rows, K, D))


def _products(roots):
    return [node for node in topological(roots) if isinstance(node, Einsum) and len(node.operands) == 2]


def test_a_diagonal_is_added_to_the_matrix():
    assert len(_products([_scaled_sum(N)])) == 2
    (root,) = with_diagonals([_scaled_sum(N)])
    assert len(_products([root])) == 1
    assert any(isinstance(operand, Add) for operand in root.operands)


def test_not_for_few_vectors():
    small = _scaled_sum(4)
    assert with_diagonals([small]) == [small]


@pytest.mark.parametrize("factor", [1.0, -0.5])
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_values_and_derivatives(factor, backend):
    def f(L, s, x):
        return np.sum(np.tanh(factor * s * x + np.einsum("kij,nkj->nki", L, x)) ** 2)

    def split(L, s, x):  # the same, with the diagonal in the matrix from the start
        whole = L + factor * np.einsum("ki,ij->kij", s, np.eye(D))
        return np.sum(np.tanh(np.einsum("kij,nkj->nki", whole, x)) ** 2)

    arguments = RNG.normal(size=(K, D, D)), RNG.normal(size=(K, D)), RNG.normal(size=(N, K, D))
    one = hesse.grad(f, argnums=(0, 1, 2), backend=backend)
    other = hesse.grad(split, argnums=(0, 1, 2))
    for _ in range(2):
        for found, expected in zip(one(*arguments), other(*arguments), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    step = 1e-6 * RNG.normal(size=(K, D))
    up, down = (f(arguments[0], arguments[1] + sign * step, arguments[2]) for sign in (1, -1))
    assert np.isclose((up - down) / 2, np.sum(one(*arguments)[1] * step), rtol=1e-6)


def test_the_derivative_by_a_diagonal_is_read_off():
    g, x = variable("g", (N, K, D)), variable("x", (N, K, D))
    whole = einsum((g, x), ((n, k, i), (n, k, j)), (k, i, j), (K, D, D), (N, K, D, D), 2.0)
    part = einsum((g, x), ((n, k, i), (n, k, i)), (k, i), (K, D), (N, K, D), -1.0)
    wide, narrow = with_diagonals([whole, part])
    assert wide is whole and narrow.operands == (core(whole),)
    assert narrow.scale == -1.0  # a core has no scale
    trace = einsum((g, x), ((n, k, i), (n, k, i)), (), (), (N, K, D))
    assert with_diagonals([whole, trace]) == [whole, trace]  # sums over more than the product does


def test_both_in_a_program():
    def f(L, s, x):
        return np.sum((s * x + np.einsum("kij,nkj->nki", L, x)) ** 2)

    arguments = RNG.normal(size=(K, D, D)), RNG.normal(size=(K, D)), RNG.normal(size=(N, K, D))
    source = hesse.grad(f, argnums=(0, 1)).explain(*arguments).source
    assert source.count("matmul") + source.count("einsum") <= 2, source


SIZES = {"i": 3, "j": 3, "b": 40, "c": 2}
PAIRS = [
    ("i,bcj->ibc", "i,bci->ibc"),  # no matrix: what is summed are the vectors alone
    ("i,cbj->ibc", "ii,cbi->ibc"),
    ("ii,bjc->bci", "ii,bic->bci"),
    ("ij,bj->bi", "i,bi->bi"),
    ("ij,bj->bi", "ii,bi->bi"),
    ("ji,bj->bi", "i,bi->bi"),
    ("cij,bcj->bci", "ci,bci->bci"),
    ("cij,bcj->bci", "i,bci->bci"),
    ("cij,bcj->cbi", "c,bci->cbi"),
]


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
def test_sums_of_products_of_the_same_vectors(wide: str, narrow: str) -> None:
    def f(matrix, numbers, vectors):
        return np.einsum(wide, matrix, vectors) + np.einsum(narrow, numbers, vectors)

    shapes = [tuple(SIZES[label] for label in part) for part in wide[: wide.index("-")].split(",")]
    numbers = tuple(SIZES[label] for label in narrow[: narrow.index(",")])
    arguments = RNG.normal(size=shapes[0]), RNG.normal(size=numbers), RNG.normal(size=shapes[1])
    np.testing.assert_allclose(hesse.compile(f)(*arguments), f(*arguments), rtol=1e-11, atol=1e-11)
    directions = [RNG.normal(size=a.shape) for a in arguments]
    for k, direction in enumerate(directions):
        moved = [a + direction if m == k else a for m, a in enumerate(arguments)]
        found = hesse.jvp(f, argnums=k)(*arguments, direction)
        np.testing.assert_allclose(found, f(*moved) - f(*arguments), rtol=1e-9, atol=1e-9)
