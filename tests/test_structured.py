"""Structured tensors: every operation agrees with the dense tensor, for random patterns and derivatives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot
from scipy.sparse.linalg import cg

import hesse
from hesse import ArgumentError, HesseError, ShapeError, Structured
from hesse.ir import zero
from hesse.structured.plot import raster
from structured_cases import (
    PROBLEMS,
    RIGHT,
    WIDE,
    Chooser,
    assembled,
    batch_as_sum,
    convolution,
    normal,
    random_tensor,
    rosenbrock,
)

mpl.use("Agg")

TOLERANCE = 1e-10

SEEDS = st.integers(0, 2**32 - 1)

GROUPS = [(0, 1), (1, 1), (2, 1), (0, 1, 1), (1, 1, 1), (0, 2, 2), (0, 1, 1, 1)]
"""Ranks of the groups of axes of the random tensors: derivatives of orders 1 to 3."""


def assert_same(found: Any, dense: Any, what: str = "", tolerance: float = TOLERANCE) -> None:
    """Equal shapes and entries, relative to the largest entry."""
    found, dense = np.asarray(found), np.asarray(dense)
    assert found.shape == dense.shape, f"{what}: shape {found.shape} instead of {dense.shape}"
    error = np.abs(found - dense).max(initial=0.0)
    assert error <= tolerance * np.abs(dense).max(initial=1.0), f"{what}: error {error:.1e}"


def check_operations(
    tensor: Structured, dense: np.ndarray, groups: Sequence[int], tolerance: float = TOLERANCE
) -> None:
    """All operations of a tensor against its dense form."""
    generator = np.random.default_rng(7)
    rank = groups[-1]
    columns = dense.shape[dense.ndim - rank :]
    assert tensor.shape == dense.shape and tensor.ndim == dense.ndim
    assert_same(tensor.dense(), dense, "dense", tolerance)
    assert_same(np.asarray(tensor), dense, "__array__", tolerance)
    for extra in [(), (2,), (2, 3)]:
        vector = generator.normal(size=columns + extra)
        expected = np.tensordot(dense, vector, axes=rank)
        assert_same(tensor @ vector, expected, "@", tolerance)
        assert_same(tensor.matvec(vector), expected, "matvec", tolerance)
    assert_same((tensor * 3).dense(), 3 * dense, "*", tolerance)
    assert_same((0.5 * tensor).dense(), dense / 2, "*", tolerance)
    assert_same((tensor / 4).dense(), dense / 4, "/", tolerance)
    assert_same((-tensor).dense(), -dense, "negative", tolerance)
    assert_same((tensor + 2 * tensor).dense(), 3 * dense, "+", tolerance)
    assert_same((tensor - tensor).dense(), 0 * dense, "-", tolerance)
    check_matrix_view(tensor, dense, rank, tolerance)
    check_transpose(tensor, dense, groups, tolerance)
    if len(groups) > 1 and dense.shape[dense.ndim - 2 * rank : dense.ndim - rank] == columns and rank:
        check_square_operations(tensor, dense, rank, tolerance)


def check_transpose(tensor: Structured, dense: np.ndarray, groups: Sequence[int], tolerance: float) -> None:
    """T exchanges the two last groups, and products with it agree."""
    if len(groups) < 2:
        return
    *lead, rows, _ = groups
    start = sum(lead)
    order = [*range(start), *range(start + rows, dense.ndim), *range(start, start + rows)]
    expected = dense.transpose(order)
    assert_same(tensor.T.dense(), expected, "T", tolerance)
    vector = np.random.default_rng(8).normal(size=expected.shape[dense.ndim - rows :])
    assert_same(tensor.T @ vector, np.tensordot(expected, vector, axes=rows), "T @", tolerance)
    assert_same((tensor.T.T - tensor).dense(), 0 * dense, "T.T", tolerance)


def check_matrix_view(tensor: Structured, dense: np.ndarray, rank: int, tolerance: float) -> None:
    """The sparse matrix, the linear operator and the picture."""
    generator = np.random.default_rng(9)
    columns = int(np.prod(dense.shape[dense.ndim - rank :]))
    matrix = dense.reshape(-1, columns)
    for layout in ("csr", "csc", "coo"):
        found = tensor.to_sparse(layout)
        assert found.format == layout
        assert_same(found.toarray(), matrix, f"to_sparse {layout}", tolerance)
    operator = tensor.to_linear_operator()
    assert operator.shape == matrix.shape
    right, left = generator.normal(size=columns), generator.normal(size=len(matrix))
    assert_same(operator @ right, matrix @ right, "operator", tolerance)
    assert_same(operator.rmatvec(left), matrix.T @ left, "rmatvec", tolerance)
    many = generator.normal(size=(columns, 3))
    assert_same(operator @ many, matrix @ many, "matmat", tolerance)
    assert_same(operator.H @ generator.normal(size=(len(matrix), 2)) * 0, np.zeros((columns, 2)), "rmatmat")
    drawn = raster(tensor.node, rank) >= 0
    assert not (matrix[~drawn] != 0).any(), "the picture has every entry"


def check_square_operations(tensor: Structured, dense: np.ndarray, rank: int, tolerance: float) -> None:
    """What needs two equal groups at the end."""
    lead = dense.shape[: dense.ndim - 2 * rank]
    columns = dense.shape[dense.ndim - rank :]
    size = int(np.prod(columns))
    matrices = dense.reshape(*lead, size, size)
    vector = np.random.default_rng(10).normal(size=columns)
    flat = vector.ravel()
    assert_same(tensor.quadratic(vector), matrices @ flat @ flat, "quadratic", 10 * size * tolerance)
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    assert_same(tensor.diagonal(), diagonal.reshape(lead + columns), "diagonal", tolerance)
    assert_same(tensor.trace(), diagonal.sum(-1), "trace", tolerance)
    for depth in range(1, rank + 1):
        index = tuple(n // 2 for n in columns[:depth])
        expected = dense[
            (..., *index, *[slice(None)] * (rank - depth), *index, *[slice(None)] * (rank - depth))
        ]
        block = tensor.block(*index)
        assert_same(block.dense(), expected, f"block{index}", tolerance)
        last = tensor.block(*(at - n for at, n in zip(index, columns, strict=False)))
        assert_same(last.dense(), expected, "block from the end", tolerance)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(GROUPS))
def test_random_patterns(seed: int, groups: tuple[int, ...]) -> None:
    drawn = random_tensor(seed, groups)
    check_operations(drawn.tensor, drawn.dense, drawn.groups)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_sums_of_random_tensors(seed: int) -> None:
    chooser, generator = Chooser(seed), np.random.default_rng(seed)
    shape = chooser.shape((0, 1, 1))
    terms = [chooser.term(shape) for _ in range(3)]
    one, two, three = (assembled(part, shape, (0, 1, 1), generator) for part in (terms, terms[:2], terms[1:]))
    total, dense = one.tensor + (two.tensor - 2 * three.tensor), one.dense + two.dense - 2 * three.dense
    check_operations(total, dense, (0, 1, 1))
    check_operations(three.tensor + total, dense + three.dense, (0, 1, 1))


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives(name: str) -> None:
    problem = PROBLEMS[name]
    check_operations(problem.structured(), problem.dense(), problem.groups())


@pytest.mark.parametrize("name", PROBLEMS)
def test_single_precision(name: str) -> None:
    problem = PROBLEMS[name]
    single = problem._replace(point=problem.point.astype(np.float32))
    tensor, dense = single.structured(), problem.dense()
    assert_same(tensor.dense(), dense, "dense", 1e-4)
    vector = np.ones(problem.point.shape, np.float32)
    assert_same(tensor @ vector, np.tensordot(dense, vector, axes=vector.ndim), "@", 1e-3)
    if tensor.terms and tensor.nbytes:
        assert tensor.dtype == np.float32
        assert (tensor @ vector).dtype == np.float32
        assert tensor.T.dtype == (2 * tensor).dtype == tensor.to_sparse().dtype == np.float32


def test_axes_of_size_one_may_have_no_label() -> None:
    def f(weights: Any, column: Any) -> Any:
        picked = column[np.array([0, 2, 1])]
        row = picked.T @ weights
        return np.sum(np.tanh(np.sum((row @ row.T) * row, axis=0) * np.ones(1)))

    point = normal(3, 2), normal(5, 1, seed=1)
    structured = hesse.hessian(f, argnums=(0, 1), form="structured")(*point)
    dense = hesse.hessian(f, argnums=(0, 1))(*point)
    gradient = hesse.grad(f, argnums=(0, 1))
    steps = 1e-6 * np.eye(5)[:, :, None]
    for i in range(2):
        for j in range(2):
            assert_same(structured[i][j].dense(), dense[i][j])
        up, down = ([gradient(point[0], point[1] + sign * step)[i] for step in steps] for sign in (1, -1))
        differences = np.stack([a - b for a, b in zip(up, down, strict=True)], axis=-1) / 2e-6
        assert_same(structured[i][1].dense()[..., 0], differences, tolerance=1e-7)


def test_terms_hold_the_factors() -> None:
    (term,) = PROBLEMS["log-determinant"].structured().terms
    inverse = np.linalg.inv(PROBLEMS["log-determinant"].point)
    assert term.pattern == "ijkl" and term.scale == -1.0
    assert [factor.shape for factor in term.factors] == [(4, 4), (4, 4)]
    assert_same(term.factors[0], inverse)
    (term,) = PROBLEMS["factorisation"].structured().terms
    assert (term.pattern, term.core_shape, term.entries) == ("ijik", (3, 3), 72)


def test_structure_survives_operations() -> None:
    hessian = PROBLEMS["logistic, few examples"].structured()
    for changed in (2 * hessian, -hessian, hessian.T, hessian.T.T, hessian / 3):
        assert sorted(len(term.factors) for term in changed.terms) == sorted(
            len(term.factors) for term in hessian.terms
        )
        assert changed.nbytes == hessian.nbytes
    quartic = hesse.hessian(lambda x: np.sum((WIDE @ x) ** 4), form="structured")(normal(10))
    both = quartic + hesse.hessian(lambda x: np.sum((WIDE[:2] @ x) ** 6), form="structured")(normal(10))
    assert [len(term.factors) > 1 for term in (both + 2 * both.T - both).terms] == [True, True]
    chain = PROBLEMS["Rosenbrock"].structured()
    assert {term.pattern for term in (chain * 2.0).terms} == {term.pattern for term in chain.terms}
    assert len((chain + chain.T).terms) == len(chain.terms)
    assert (chain - chain).terms == () and (chain - chain).nbytes == 0


def test_repr_says_what_is_kept() -> None:
    tensor = hesse.hessian(lambda u: np.sum((u @ RIGHT.T) ** 2), form="structured")(np.ones((2000, 3)))
    assert repr(tensor) == (
        "<Structured (2000, 3, 2000, 3): 1 term, pattern ijik, core (3, 3); 72 bytes instead of 288 MB>"
    )
    assert repr(PROBLEMS["zero"].structured()) == "<Structured (5, 5): 0 terms; 0 bytes instead of 200 bytes>"


def test_sparse_matrix_has_only_what_is_touched() -> None:
    size = 50_000
    hessian = hesse.hessian(rosenbrock, form="structured")(np.full(size, 0.5))
    matrix = hessian.to_sparse()
    assert matrix.shape == (size, size) and matrix.nnz == 3 * size - 2
    vector = normal(size)
    assert_same(matrix @ vector, hessian @ vector)
    assert hesse.derivative(convolution, form="structured")(normal(6, 6)).to_sparse().nnz == 16 * 9


def test_linear_operator_solves() -> None:
    hessian = PROBLEMS["logistic, few examples"].structured()
    right = normal(10, seed=20)
    solution, status = cg(hessian.to_linear_operator(), right, rtol=1e-12)
    assert status == 0
    assert_same(hessian @ solution, right, "cg", 1e-9)


def test_scaling_leaves_arrays_alone() -> None:
    tensor = PROBLEMS["factorisation"].structured()
    with pytest.raises(TypeError):
        tensor * np.ones(3)  # type: ignore[operator]
    with pytest.raises(TypeError):
        np.ones(3) + tensor
    assert (np.float64(2.0) * tensor).terms[0].scale == 2 * tensor.terms[0].scale


def test_names_of_parts_do_not_collide() -> None:
    rows = [
        hesse.hessian(lambda x, c=c: np.sum(c * x**4), form="structured")(normal(3, seed=c))
        for c in (1, 2, 3)
    ]
    expected = sum(row.dense() for row in rows)
    assert_same((rows[0] + (rows[1] + rows[2])).dense(), expected)
    assert_same(((rows[0] + rows[1]) + rows[2]).dense(), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h: h @ np.ones(3), r"the array has shape \(3,\), but the trailing axes are \(8, 3\)"),
        (lambda h: h.quadratic(np.ones((8, 3, 1))), r"the array has shape \(8, 3, 1\)"),
        (lambda h: h.block(), "block takes 1 to 2 positions, not 0"),
        (lambda h: h.block(8), r"block \(8,\) is outside of the axes \(8, 3\)"),
        (lambda h: h + h.block(0), r"cannot add tensors of shapes \(8, 3, 8, 3\) and \(3, 3\)"),
        (lambda h: h.to_sparse("dense"), "format must be one of 'bsr', 'coo'"),
    ],
)
def test_errors(call: Callable[[Structured], Any], message: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=message):
        call(PROBLEMS["factorisation"].structured())


@pytest.mark.parametrize("name", ["diagonal", "trace", "solve_method"])
def test_square_operations_need_two_groups(name: str) -> None:
    with pytest.raises(ShapeError, match="needs two equal trailing groups"):
        getattr(PROBLEMS["Jacobian, convolution"].structured(), name)()


def test_plots_need_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.colors", None)
    with pytest.raises(HesseError, match=r"plot needs matplotlib.*pip install 'matplotlib'"):
        PROBLEMS["factorisation"].structured().plot()


def test_dense_form_that_does_not_fit_is_refused() -> None:
    tensor = hesse.hessian(rosenbrock, form="structured")(np.ones(10_000))
    hesse.set_memory_limit(1e6)
    try:
        with pytest.raises(HesseError, match="would take 800 MB"):
            tensor.dense()
    finally:
        hesse.set_memory_limit(None)


def test_raster_of_large_tensors() -> None:
    chain = hesse.hessian(rosenbrock, form="structured")(np.ones(100_000))
    cells = raster(chain.node, 1, pixels=100)
    drawn = cells >= 0
    near = np.abs(np.subtract.outer(np.arange(100), np.arange(100))) <= 1
    assert drawn[np.arange(100), np.arange(100)].all() and not drawn[~near].any()
    blocks = hesse.hessian(batch_as_sum, form="structured")(normal(3000, 4))
    assert (raster(blocks.node, 2, pixels=100) >= 0).sum() <= 300
    assert (raster(zero((4, 4)), 1) == -1).all()


def test_plot() -> None:
    axes = PROBLEMS["Rosenbrock"].structured().plot()
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(texts) == ["[i+1,i]: core (11,)", "[i,i+1]: core (11,)", "ii: core (12,)"]
    _, given_axes = pyplot.subplots()
    assert PROBLEMS["factorisation"].structured().plot(given_axes) is given_axes
    assert given_axes.get_title() == "24 × 24, axes (8, 3, 8, 3)"
    assert [text.get_text() for text in given_axes.get_legend().get_texts()] == ["ijik: core (3, 3), 8 times"]
    assert PROBLEMS["zero"].structured().plot().get_legend() is None
    many = PROBLEMS["Jacobian, convolution"].structured().plot()
    assert len(many.get_legend().get_texts()) == 9
    pyplot.close("all")
