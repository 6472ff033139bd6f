"""Products of tensors and linear algebra, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
from frontend_cases import Case, cases, check, traced
from hesse.errors import NotationError, ShapeError, TracingError
from hesse.frontends import Expression, einsum
from hesse.ir import Einsum, variable

SHAPES = [(), (3,), (2, 3), (3, 2), (3, 3), (1, 3), (2, 3, 3), (4, 1, 3, 3)]


@pytest.mark.parametrize("function", [np.matmul, np.dot, np.inner], ids=lambda f: f.__name__)
@pytest.mark.parametrize("first", SHAPES, ids=str)
@pytest.mark.parametrize("second", SHAPES, ids=str)
def test_products_of_any_rank(function: Any, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    """What NumPy accepts gives the same; what it refuses is a ShapeError."""
    try:
        function(np.ones(first), np.ones(second))
    except ValueError:
        with pytest.raises(ShapeError, match="shapes"):
            function(traced(np.ones(first), "x"), traced(np.ones(second), "y"))
    else:
        check(Case("product", function, (first, second)))


@cases(
    ("matmul operator", lambda x: np.ones((2, 3)) @ x, (3,)),
    ("matmul empty", lambda x, y: x @ y, (2, 0), (0, 3)),
    ("matmul by itself", lambda x: x @ x, (3, 3)),
    ("method dot", lambda x, y: x.dot(y), (2, 3), (3,)),
    ("dot with a number", lambda x: np.dot(2.0, x), (2, 3)),
    ("matvec", np.matvec, (4, 2, 3), (3,)),
    ("vecmat", np.vecmat, (4, 2), (2, 3)),
    ("vecdot", np.vecdot, (4, 3), (3,)),
    ("vecdot axis", lambda x, y: np.vecdot(x, y, axis=0), (3, 2), (3, 2)),
    ("outer", np.outer, (2, 2), (3,)),
    ("linalg outer", np.linalg.outer, (2,), (3,)),
    ("vdot", np.vdot, (2, 3), (2, 3)),
    ("tensordot", np.tensordot, (4, 2, 3), (2, 3, 5)),
    ("tensordot none", lambda x, y: np.tensordot(x, y, 0), (2,), (3,)),
    ("tensordot lists", lambda x, y: np.tensordot(x, y, ([0, -1], [1, 0])), (2, 4, 3), (3, 2)),
    ("tensordot axes", lambda x, y: np.tensordot(x, y, (1, 0)), (4, 2), (2, 3)),
    ("kron", np.kron, (2, 3), (2, 2)),
    ("kron ranks", np.kron, (3,), (2, 2)),
    ("kron of vectors", np.kron, (3,), (2,)),
    ("kron with an array", lambda x: np.kron(np.eye(2), x), (2, 3)),
    ("trace", np.trace, (3, 4)),
    ("trace offset", lambda x: [x.trace(k) for k in (-1, 1, 5)], (3, 4)),
    ("trace axes", lambda x: np.trace(x, 0, -1, 0), (3, 2, 3)),
    ("linalg trace", lambda x: np.linalg.trace(x, offset=1), (2, 3, 3)),
    ("multi_dot", lambda x, y, z: np.linalg.multi_dot([x, y, z]), (2, 3), (3, 4), (4,)),
    ("cross", np.cross, (3,), (3,)),
    ("cross batch", np.cross, (2, 3), (3,)),
    ("cross axes", lambda x, y: np.cross(x, y, axis=0), (3, 2), (3, 2)),
    ("convolve", np.convolve, (4,), (3,)),
    ("convolve modes", lambda x, y: [np.convolve(x, y, mode) for mode in ("same", "valid")], (4,), (3,)),
    ("convolve longer", lambda x, y: [np.convolve(x, y, mode) for mode in ("same", "valid")], (2,), (5,)),
    ("correlate", np.correlate, (5,), (3,)),
    ("correlate modes", lambda x, y: [np.correlate(x, y, mode) for mode in ("same", "full")], (4,), (3,)),
    ("correlate longer", lambda x, y: [np.correlate(x, y, mode) for mode in ("same", "valid")], (2,), (5,)),
    ("correlate longer, full", lambda x, y: np.correlate(x, y, "full"), (2,), (5,)),
    ("convolve with an array", lambda x: np.convolve([1.0, -2.0, 1.0], x), (4,)),
)  # fmt: skip
def test_products(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("notation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba,ac", [(2, 3), (3, 4)]),
        ("i,ij,j->", [(2,), (2, 3), (3,)]),
        ("ii->", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iij->ij", [(3, 3, 2)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->j", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(5, 2, 3), (1, 3, 4)]),
        ("i...->...", [(2, 3, 4)]),
        ("...i->i...", [(2, 3, 4)]),
        ("...,...->...", [(2, 3), (3,)]),
        ("ij...,j->i...", [(2, 3, 4), (3,)]),
        (" i j , j -> i ", [(2, 3), (3,)]),
        ("ij,ij->ij", [(2, 1), (2, 3)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
        (",i->i", [(), (3,)]),
        ("aB,Bc->Ac".replace("A", "a"), [(2, 3), (3, 4)]),
    ],
)
def test_einsum(notation: str, shapes: list[tuple[int, ...]]) -> None:
    check(Case(notation, lambda *operands: np.einsum(notation, *operands), tuple(shapes)))


@cases(
    ("sublists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), (2, 3), (3, 4)),
    ("sublists without output", lambda x, y: np.einsum(x, [1, 0], y, [0, 2]), (2, 3), (3, 4)),
    ("sublists with dots", lambda x: np.einsum(x, [..., 0], [0, ...]), (2, 3, 4)),
    ("optimize", lambda x: np.einsum("ij,jk->ik", x, np.ones((3, 2)), optimize=True), (2, 3)),
)
def test_einsum_forms(case: Case) -> None:
    check(case)


def test_einsum_may_repeat_output_labels() -> None:
    x = Expression(variable("x", (3,)))
    node = einsum("i->ii", x).node
    assert isinstance(node, Einsum)
    np.testing.assert_array_equal(naive.evaluate(node, {"x": [1.0, 2.0, 3.0]}), np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(NotationError, match=r"the output repeats a label; hesse\.einsum allows that"):
        np.einsum("i->ii", x)


@pytest.mark.parametrize(
    ("notation", "error", "message"),
    [
        ("ij->ij", NotationError, "names 1 operands, but 2 were given"),
        ("ij,jk->iz", NotationError, "the output label z is in no operand"),
        ("i1,jk->ik", NotationError, "'i1' is not made of letters"),
        ("ij,j.k->ik", NotationError, "'j.k' is not made of letters"),
        ("...ij,jk->ik", ShapeError, None),
        ("ijk,jk->i", ShapeError, "'ijk' does not fit an operand of shape"),
        ("i,jk->i", ShapeError, "'i' does not fit an operand of shape"),
        ("ij,ik->jk", ShapeError, "the label i has the sizes 2 and 3"),
        (3, NotationError, "einsum starts with its notation"),
    ],
)
def test_einsum_errors(notation: Any, error: type[Exception], message: str | None) -> None:
    x, y = traced(np.ones((2, 3)), "x"), traced(np.ones((3, 4)), "y")
    if message is None:
        einsum(notation, x, y)  # an empty `...` needs no `...` in the output
        return
    with pytest.raises(error, match=message):
        einsum(notation, x, y)


def test_einsum_needs_the_dots_of_its_operands_in_the_output() -> None:
    with pytest.raises(NotationError, match=r"the output lacks the '\.\.\.' of the operands"):
        einsum("...i->i", traced(np.ones((2, 3)), "x"))


def definite(*shape: int) -> np.ndarray:
    matrix = np.random.default_rng(3).uniform(-1, 1, shape)
    return matrix @ matrix.swapaxes(-1, -2) + np.diag(1.0 + np.arange(shape[-1]))


@cases(
    ("inv", np.linalg.inv, definite(3, 3)),
    ("inv batch", np.linalg.inv, definite(2, 3, 3)),
    ("det", np.linalg.det, definite(2, 3, 3)),
    ("slogdet", lambda a: tuple(np.linalg.slogdet(-a)), definite(3, 3)),
    ("slogdet names", lambda a: np.linalg.slogdet(a).logabsdet, definite(3, 3)),
    ("solve vector", np.linalg.solve, definite(3, 3), (3,)),
    ("solve matrix", np.linalg.solve, definite(3, 3), (3, 2)),
    ("solve batch vector", np.linalg.solve, definite(2, 3, 3), (3,)),
    ("solve batch matrix", np.linalg.solve, definite(2, 3, 3), (3, 2)),
    ("solve broadcast", np.linalg.solve, definite(3, 3), (4, 3, 2)),
    ("solve with an array", lambda b: np.linalg.solve(definite(3, 3), b), (3,)),
    ("cholesky", np.linalg.cholesky, definite(2, 3, 3)),
    ("cholesky upper", lambda a: np.linalg.cholesky(a, upper=True), definite(3, 3)),
    ("matrix_power", lambda a: [np.linalg.matrix_power(a, n) for n in (-2, 0, 1, 5)], definite(3, 3)),
    ("pinv", np.linalg.pinv, (3, 2)),
    ("eigvalsh", np.linalg.eigvalsh, definite(2, 3, 3)),
    ("eigh", lambda a: tuple(np.linalg.eigh(a)), definite(3, 3)),
    ("eigh names", lambda a: np.linalg.eigh(a).eigenvectors ** 2, definite(3, 3)),
)  # fmt: skip
def test_linear_algebra(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x @ np.ones(4), r"matmul: the shapes \(2, 3\) and \(4,\) do not fit together"),
        (lambda x: x @ 2.0, "matmul needs axes to multiply along"),
        (lambda x: np.dot(x, x), r"dot: the shapes \(2, 3\) and \(2, 3\) do not fit"),
        (lambda x: np.tensordot(x, x, 1), "tensordot: the shapes"),
        (lambda x: np.tensordot(x, x, 5), "tensordot over 5 axes"),
        (lambda x: np.tensordot(x, x, ([0], [0, 1])), "do not name equally many axes"),
        (lambda x: np.cross(x[:, :2], x), "cross needs three components"),
        (lambda x: np.convolve(x, x), "convolve takes two vectors"),
        (lambda x: np.correlate(x, x), "correlate takes two vectors"),
        (lambda x: np.convolve(x[0], x[1], "some"), "the mode is full, same or valid"),
        (np.linalg.inv, r"inv needs square matrices, not the shape \(2, 3\)"),
        (lambda x: np.linalg.det(x[0]), "det needs square matrices"),
        (lambda x: np.linalg.solve(np.eye(2), x[0]), r"solve: the shapes \(2, 2\) and \(3,\) do not fit"),
        (lambda x: np.linalg.pinv(x[0]), "pinv needs matrices"),
    ],
)
def test_shape_errors(function: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        function(traced(np.ones((2, 3)), "x"))


def test_products_of_truth_values_are_refused() -> None:
    x = traced(np.ones((3, 3)), "x")
    for function in (np.matmul, np.dot, np.inner, np.tensordot, lambda a, b: np.einsum("ij,jk->ik", a, b)):
        with pytest.raises(TracingError, match="of truth values only"):
            function(x > 0, x < 1)
    assert ((x > 0) @ x).shape == (3, 3)
