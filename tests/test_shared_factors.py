"""Products of several tensors are multiplied in orders in which their intermediates coincide."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import hesse
import naive
from hesse.cost import PLAIN_MACHINE
from hesse.ir import Axis, Node, Variable, einsum, label_axis, plain_axes, reshape, transpose, variable
from hesse.plan import make_plan, shared
from oracles import assert_close, evaluate_jax
from structured_cases import normal

RANKS, OPERATOR_RANKS, LENGTH = (1, 12, 12, 12, 1), (1, 4, 4, 4, 1), 8
OPERATOR = [normal(a, LENGTH, LENGTH, b, seed=k) for k, (a, b) in enumerate(pairwise(OPERATOR_RANKS))]
DATA = normal(20, 21, 22)


def energy(xp: Any, *cores: Any) -> Any:
    environment = xp.ones((1, 1, 1))
    for X, A in zip(cores, OPERATOR, strict=True):
        environment = xp.einsum("apb,aic,pijq,bjd->cqd", environment, X, A, X)
    return environment.sum()


def tucker(xp: Any, core: Any, U: Any, V: Any, W: Any) -> Any:
    return ((DATA - xp.einsum("abc,ia,jb,kc->ijk", core, U, V, W)) ** 2).sum()


def canonical(xp: Any, U: Any, V: Any, W: Any) -> Any:
    return ((DATA - xp.einsum("ir,jr,kr->ijk", U, V, W)) ** 2).sum()


TRAIN = [normal(a, LENGTH, b, seed=9) for a, b in pairwise(RANKS)]
MATRICES = [normal(20, 6), normal(21, 7), normal(22, 8)]


@pytest.mark.parametrize(
    ("function", "point", "alone", "most"),
    [
        (energy, TRAIN, 4_225_920, 0.7),
        (tucker, [normal(6, 7, 8), *MATRICES], 841_080, 0.7),
        (canonical, [normal(20, 9), normal(21, 9), normal(22, 9)], 699_798, 0.8),
    ],
)
def test_gradients_share_what_several_products_have(
    function: Any, point: list[np.ndarray], alone: float, most: float
) -> None:
    """`alone` are the operations if each product is multiplied in the order that is best for itself."""
    everything = tuple(range(len(point)))
    gradient = hesse.grad(lambda *arrays: function(np, *arrays), argnums=everything)
    expected = evaluate_jax(jax.grad(lambda *arrays: function(jnp, *arrays), everything), *point)
    for _ in range(2):
        for found, right in zip(gradient(*point), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-10)
    assert gradient.explain(*point).flops < most * alone


def chain(*factors: Node, scale: float = 1.0) -> Node:
    """The product of matrices of one size."""
    axes = plain_axes(len(factors) + 1)
    size = factors[0].shape[0]
    rows = list(pairwise(axes))
    return einsum(factors, rows, (axes[0], axes[-1]), (size, size), (size,) * len(axes), scale)


def test_a_factor_is_the_same_in_another_layout_and_scale() -> None:
    A, B, C, D = (variable(name, (60, 60)) for name in "ABCD")
    work = 2 * 60**3
    roots = [chain(A, B, C), transpose(chain(B, C, D, scale=3.0), [1, 0])]
    assert make_plan(roots, PLAIN_MACHINE).total_flops == 3 * work + 60**2
    roots = [chain(A, B, C), chain(C, B, D)]
    assert make_plan(roots, PLAIN_MACHINE).total_flops == 4 * work


def test_what_is_there_already_is_used() -> None:
    A, B, C = (variable(name, (60, 60)) for name in "ABC")
    roots = [chain(B, C), chain(A, B, C), chain(A, B, C, A, B)]
    assert make_plan(roots, PLAIN_MACHINE).total_flops == 4 * 2 * 60**3


def test_small_products_are_left_alone() -> None:
    A, B, C, D = (variable(name, (4, 4)) for name in "ABCD")
    roots = [chain(A, B, C), chain(B, C, D)]
    assert shared.with_shared_factors(roots, PLAIN_MACHINE) == roots


def test_values_of_random_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of a few tensors that meet again and again, in all sizes: some of them must share."""
    monkeypatch.setattr(shared, "LEAST_TIME", 0.0)
    changed = 0
    for seed in range(150):
        random = np.random.default_rng(seed)
        ranges = tuple(random.integers(2, 4, size=5).tolist())
        rows = [tuple(random.integers(0, 5, size=random.integers(1, 4)).tolist()) for _ in range(4)]
        shapes = [tuple(ranges[label] for label in row) for row in rows]
        pool = [variable(name, shape) for name, shape in zip("ABCD", shapes, strict=True)]
        roots = [random_product(random, pool, rows, ranges) for _ in range(5)]
        values = {node.name: random.normal(size=node.shape) for node in pool}
        found = shared.with_shared_factors(roots, PLAIN_MACHINE)
        changed += found != roots
        pairs = zip(naive.evaluate_all(found, values), naive.evaluate_all(roots, values), strict=True)
        for value, expected in pairs:
            assert_close(value, expected)
    assert changed > 75


def random_product(
    random: np.random.Generator, pool: list[Variable], rows: list[tuple[int, ...]], ranges: tuple[int, ...]
) -> Node:
    """Operands read by the labels that they were made with, or by others of the same range."""
    chosen = random.integers(0, len(pool), size=random.integers(2, 6)).tolist()

    def another(label: int) -> int:
        same = [other for other, size in enumerate(ranges) if size == ranges[label]]
        return label if random.random() < 0.7 else int(random.choice(same))

    axes = [tuple(label_axis(another(label)) for label in rows[k]) for k in chosen]
    output = random.integers(0, len(ranges), size=random.integers(0, 3)).tolist()
    shape = [ranges[label] for label in output]
    scale = float(random.normal())
    return einsum([pool[k] for k in chosen], axes, [*map(label_axis, output)], shape, ranges, scale)


def test_blocks_of_a_merged_axis_meet_only_their_own_kind() -> None:
    """Blocks of a reshaped axis interleave: no boxes separate them, and still none touches another."""
    rank, size = 3, 4
    width = (2 * rank) ** 2
    a, i, b, c, d = plain_axes(5)

    def placed(name: str, offset: int) -> Node:
        first, last = (Axis(axis.terms, offset) for axis in (a, b))
        shape = (2 * rank, size, 2 * rank)
        return einsum([variable(name, (rank, size, rank))], [(a, i, b)], (first, i, last), shape, (3, 4, 3))

    blocks = placed("U", 0) + placed("V", rank)
    squares = einsum(
        [blocks, blocks],
        [(a, i, b), (c, i, d)],
        (a, c, i, b, d),
        (2 * rank, 2 * rank, size, 2 * rank, 2 * rank),
        (2 * rank, size, 2 * rank, 2 * rank, 2 * rank),
    )
    merged = reshape(squares, (width, size, width))
    ranges = (width, size, width, size, width)
    chained = einsum([merged, merged], [(a, i, b), (b, c, d)], (a, i, c, d), (width, 4, 4, width), ranges)
    assert make_plan([chained], PLAIN_MACHINE).total_flops < 0.05 * 2 * math.prod(ranges)
    values = {"U": normal(3, 4, 3), "V": normal(3, 4, 3, seed=1)}
    half = np.zeros((2 * rank, size, 2 * rank))
    half[:rank, :, :rank], half[rank:, :, rank:] = values["U"], values["V"]
    whole = np.einsum("aib,cid->acibd", half, half).reshape(width, size, width)
    assert_close(naive.evaluate_all([chained], values)[0], np.einsum("aib,bjc->aijc", whole, whole))


def test_the_limit_of_distribution_counts_the_terms_that_are_left() -> None:
    """A product of four matrices of three blocks each on the diagonal has 81 terms; three are not zero."""
    rows, columns, *_ = plain_axes(2)
    names = ["ABC", "DEF", "GHI", "JKL"]

    def diagonal(letters: str) -> Node:
        blocks = []
        for k, letter in enumerate(letters):
            first, second = (Axis(axis.terms, 5 * k) for axis in (rows, columns))
            blocks.append(
                einsum([variable(letter, (5, 5))], [(rows, columns)], (first, second), (15, 15), (5, 5))
            )
        return blocks[0] + blocks[1] + blocks[2]

    root = chain(*map(diagonal, names))
    assert make_plan([root], PLAIN_MACHINE).total_flops < 1.1 * 3 * 3 * 2 * 5**3
    values = {letter: normal(5, 5, seed=ord(letter)) for letter in "".join(names)}
    factors = [scipy.linalg.block_diag(*[values[letter] for letter in letters]) for letters in names]
    assert_close(naive.evaluate_all([root], values)[0], np.linalg.multi_dot(factors))
