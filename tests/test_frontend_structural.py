"""Functions that move, join and cut tensors, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from frontend_cases import Case, cases, check, traced
from hesse.errors import ShapeError, TracingError
from hesse.frontends import Expression
from hesse.ir import Apply, topological, variable


@cases(
    ("transpose", np.transpose, (2, 3, 4)),
    ("transpose order", lambda x: np.transpose(x, (1, -1, 0)), (2, 3, 4)),
    ("T", lambda x: x.T, (2, 3)),
    ("T of a vector", lambda x: x.T, (3,)),
    ("mT", lambda x: x.mT, (2, 3, 4)),
    ("method transpose", lambda x: x.transpose(2, 0, 1), (2, 3, 4)),
    ("method transpose of a tuple", lambda x: x.transpose((2, 0, 1)), (2, 3, 4)),
    ("swapaxes", lambda x: x.swapaxes(0, -1), (2, 3, 4)),
    ("moveaxis", lambda x: np.moveaxis(x, 0, -1), (2, 3, 4)),
    ("moveaxis many", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (2, 3, 4)),
    ("rollaxis", lambda x: [np.rollaxis(x, 2), np.rollaxis(x, 0, 3), np.rollaxis(x, 1, 1)], (2, 3, 4)),
    ("matrix_transpose", np.linalg.matrix_transpose, (2, 3, 4)),
    ("permute_dims", lambda x: np.permute_dims(x, (1, 0)), (2, 3)),
    ("expand_dims", lambda x: np.expand_dims(x, (0, -1)), (2, 3)),
    ("expand_dims middle", lambda x: np.expand_dims(x, 1), (2, 3)),
    ("squeeze", np.squeeze, (1, 2, 1)),
    ("squeeze axis", lambda x: np.squeeze(x, -1), (1, 2, 1)),
    ("squeeze to a number", np.squeeze, (1, 1)),
    ("broadcast_to", lambda x: np.broadcast_to(x, (4, 2, 3)), (2, 1)),
    ("broadcast_to a number", lambda x: np.broadcast_to(x, 3), ()),
    ("broadcast_arrays", np.broadcast_arrays, (2, 1), (3,)),
    ("broadcast with an array", lambda x: np.broadcast_arrays(x, np.ones((2, 1)))[0], (3,)),
    ("meshgrid", np.meshgrid, (2,), (3,), (4,)),
    ("meshgrid ij", lambda x, y: np.meshgrid(x, y, indexing="ij"), (2,), (3,)),
    ("meshgrid sparse", lambda x, y: np.meshgrid(x, y, sparse=True), (2,), (3,)),
    ("outer broadcast", lambda x, y: x[:, None] - y[None, :], (2,), (3,)),
    ("reshape", lambda x: x.reshape(3, 2), (2, 3)),
    ("reshape unknown", lambda x: x.reshape(4, -1), (2, 3, 2)),
    ("reshape tuple", lambda x: np.reshape(x, (6,)), (2, 3)),
    ("reshape to new axes", lambda x: x.reshape((1, 2, 1, 3)), (2, 3)),
    ("reshape coprime", lambda x: x.reshape(2, 3), (3, 2)),
    ("reshape a number", lambda x: x.reshape(1, 1), ()),
    ("reshape empty", lambda x: x.reshape(3, 0), (0, 2)),
    ("reshape order", lambda x: x.reshape(3, 2, order="C"), (2, 3)),
    ("ravel", np.ravel, (2, 3)),
    ("ravel empty", np.ravel, (0, 3)),
    ("ravel a number", np.ravel, ()),
    ("flatten", lambda x: x.flatten(), (2, 3)),
    ("flip", np.flip, (2, 3)),
    ("flip axis", lambda x: np.flip(x, -1), (2, 3)),
    ("fliplr flipud", lambda x: np.fliplr(x) + np.flipud(x), (2, 3)),
    ("rot90", lambda x: [np.rot90(x, k) for k in range(-1, 5)], (2, 3)),
    ("rot90 axes", lambda x: np.rot90(x, axes=(2, 0)), (2, 3, 4)),
    ("diagonal", np.diagonal, (3, 4)),
    ("diagonals", lambda x: [x.diagonal(k) for k in range(-4, 6)], (3, 4)),
    ("diagonal of axes", lambda x: np.diagonal(x, 1, -1, 0), (3, 2, 4)),
    ("linalg diagonal", lambda x: np.linalg.diagonal(x, offset=-1), (2, 3, 4)),
    ("diag", lambda x: [np.diag(x, k) for k in (-2, 0, 1)], (3,)),
    ("diag of a matrix", lambda x: [np.diag(x, k) for k in (-1, 0, 2)], (3, 4)),
    ("diag empty", np.diag, (0,)),
    ("diagflat", lambda x: np.diagflat(x, 1), (2, 2)),
    ("repeat", lambda x: np.repeat(x, 2), (2, 3)),
    ("repeat axis", lambda x: x.repeat(3, axis=0), (2, 3)),
    ("repeat each", lambda x: np.repeat(x, [2, 0, 1], axis=-1), (2, 3)),
    ("repeat one", lambda x: np.repeat(x, [2], axis=1), (2, 3)),
    ("repeat nothing", lambda x: np.repeat(x, 0, axis=1), (2, 3)),
    ("tile", lambda x: np.tile(x, 2), (2, 3)),
    ("tile matrix", lambda x: np.tile(x, (2, 3)), (2, 2)),
    ("tile new axes", lambda x: np.tile(x, (2, 1, 3)), (2,)),
    ("tile fewer", lambda x: np.tile(x, 2), (2, 3, 1)),
    ("roll", lambda x: [np.roll(x, k) for k in (-5, -1, 0, 2, 9)], (5,)),
    ("roll all", lambda x: np.roll(x, 2), (2, 3)),
    ("roll axes", lambda x: np.roll(x, (1, -1), (0, 1)), (3, 4)),
    ("roll axis", lambda x: np.roll(x, 1, axis=-1), (3, 4)),
    ("roll empty", lambda x: np.roll(x, 1), (0,)),
    ("take", lambda x: np.take(x, [2, 0, 0], axis=1), (2, 3)),
    ("take flat", lambda x: x.take([[1, 4], [5, -1]]), (2, 3)),
    ("take one", lambda x: np.take(x, 1, axis=0), (2, 3)),
    ("take wrap", lambda x: np.take(x, [4, -7], axis=1, mode="wrap"), (2, 3)),
    ("take clip", lambda x: np.take(x, [4, -7], axis=1, mode="clip"), (2, 3)),
    ("take_along_axis", lambda x: np.take_along_axis(x, np.array([[0, 2], [1, 1]]), 1), (2, 3)),
    ("take_along_axis broadcast", lambda x: np.take_along_axis(x, np.array([[0, 2]]), 1), (2, 3)),
    ("take_along_axis flat", lambda x: np.take_along_axis(x, np.array([5, 0]), None), (2, 3)),
    ("tril", lambda x: [np.tril(x, k) for k in (-1, 0, 2)], (3, 4)),
    ("triu", lambda x: [np.triu(x, k) for k in (-1, 0, 2)], (2, 3, 4)),
    ("shapes", lambda x: x * np.size(x) + np.ndim(x) + np.shape(x)[1] + np.size(x, 1), (2, 3)),
    ("iterate", lambda x: [row * 2 for row in x], (2, 3)),
    ("length", lambda x: x[0] / len(x), (2, 3)),
    ("unpack", lambda x: np.subtract(*x), (2, 3)),
    ("zip", lambda x, y: [a * b for a, b in zip(x, y, strict=True)], (3,), (3, 2)),
)  # fmt: skip
def test_moves(case: Case) -> None:
    check(case)


def blocks(v: Any, s: Any, u: Any) -> Any:
    return np.block([[v, np.zeros((2, 3))], [s, u]])


@cases(
    ("concatenate", lambda x, y: np.concatenate([x, y]), (2, 3), (1, 3)),
    ("concatenate last", lambda x, y: np.concatenate((x, y, x), axis=-1), (2, 3), (2, 1)),
    ("concatenate flat", lambda x, y: np.concatenate([x, y], axis=None), (2, 3), (2,)),
    ("concatenate with an array", lambda x: np.concatenate([np.ones(2), x, [3.0]]), (3,)),
    ("concatenate empty", lambda x, y: np.concatenate([x, y]), (0, 2), (3, 2)),
    ("concat", lambda x, y: np.concat([x, y]), (2,), (3,)),
    ("concatenate conditions", lambda x: np.concatenate([x > 0, x < 1]), (3,)),
    ("stack", lambda x, y: np.stack([x, y]), (2, 3), (2, 3)),
    ("stack last", lambda x, y: np.stack([x, y], axis=-1), (2, 3), (2, 3)),
    ("stack numbers", lambda x: np.stack([x[0], x[1] * 2, 3.0]), (3,)),
    ("vstack", lambda x, y: np.vstack([x, y]), (3,), (2, 3)),
    ("hstack", lambda x, y: np.hstack([x, y]), (2, 3), (2, 1)),
    ("hstack vectors", lambda x, y: np.hstack([x, y]), (3,), (2,)),
    ("hstack numbers", lambda x: np.hstack([x[0], x[1]]), (2,)),
    ("dstack", lambda x, y: np.dstack([x, y]), (2, 3), (2, 3)),
    ("column_stack", lambda x, y: np.column_stack([x, y]), (3,), (3, 2)),
    ("append", np.append, (2, 2), (3,)),
    ("append axis", lambda x, y: np.append(x, y, axis=1), (2, 2), (2, 1)),
    ("block", blocks, (2, 2), (3, 2), (3, 3)),
    ("block row", lambda x, y: np.block([x, y]), (2,), (3,)),
    ("block one", np.block, (2, 3)),
    ("block numbers", lambda x: np.block([[x[0], 0.0], [1.0, x[1]]]), (2,)),
    ("atleast", lambda x: [np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)], ()),
    ("atleast of two", np.atleast_2d, (), (3,)),
    ("atleast vector", lambda x: [np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)], (3,)),
    ("atleast matrix", lambda x: [np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)], (2, 3)),
    ("split", lambda x: np.split(x, 3), (6, 2)),
    ("split at", lambda x: np.split(x, [1, 4, 9], axis=-1), (2, 5)),
    ("split at negative", lambda x: np.split(x, [-2]), (5,)),
    ("array_split", lambda x: np.array_split(x, 3), (7,)),
    ("hsplit vsplit", lambda x: [*np.hsplit(x, 2), *np.vsplit(x, 2)], (2, 4)),
    ("hsplit vector", lambda x: np.hsplit(x, 2), (4,)),
    ("dsplit", lambda x: np.dsplit(x, 2), (1, 2, 4)),
    ("unstack", lambda x: np.unstack(x, axis=1), (2, 3)),
    ("pad", lambda x: np.pad(x, 1), (2, 3)),
    ("pad pair", lambda x: np.pad(x, (1, 2)), (2, 3)),
    ("pad each", lambda x: np.pad(x, ((1, 0), (0, 2))), (2, 3)),
    ("pad a dictionary", lambda x: np.pad(x, {-1: (1, 2)}), (2, 3)),
    ("pad value", lambda x: np.pad(x, 1, constant_values=5.0), (2, 3)),
    ("pad values", lambda x: np.pad(x, 1, constant_values=((1, 2), (3, 4))), (2, 3)),
    ("pad edge", lambda x: np.pad(x, ((1, 2), (0, 3)), mode="edge"), (2, 3)),
    ("pad reflect", lambda x: np.pad(x, ((1, 0), (2, 2)), "reflect"), (2, 3)),
    ("pad reflect far", lambda x: np.pad(x, 7, "reflect"), (3,)),
    ("pad symmetric", lambda x: np.pad(x, 2, mode="symmetric"), (2, 3)),
    ("pad wrap", lambda x: np.pad(x, 2, mode="wrap"), (2, 3)),
    ("diff", np.diff, (2, 5)),
    ("diff twice", lambda x: np.diff(x, n=2, axis=0), (4, 2)),
    ("diff ends", lambda x: np.diff(x, prepend=0.0, append=[1.0, 2.0]), (5,)),
    ("trapezoid", np.trapezoid, (2, 5)),
    ("trapezoid points", lambda y, x: np.trapezoid(y, x, axis=0), (5, 2), (5,)),
    ("trapezoid step", lambda y: np.trapezoid(y, dx=0.5), (5,)),
    ("windows", lambda x: sliding_window_view(x, 3), (5,)),
    ("windows of an axis", lambda x: sliding_window_view(x, 2, axis=0), (3, 4)),
    ("windows of two axes", lambda x: sliding_window_view(x, (2, 3)), (3, 4)),
)  # fmt: skip
def test_joins_and_cuts(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.roll(x, 2),
        lambda x: np.pad(x, 3, mode="edge"),
        lambda x: np.pad(x, 3, mode="wrap"),
        lambda x: np.repeat(x, 3),
        lambda x: np.tile(x, 3),
        lambda x: np.stack([x, x]),
        lambda x: np.diag(x, 1),
        lambda x: sliding_window_view(x, 2),
        lambda x: np.split(x, 2)[1],
    ],
)
def test_they_are_affine_einsums(function: Any) -> None:
    node = function(traced(np.ones(6), "x")).node
    assert not any(isinstance(part, Apply) for part in topological([node]))


def test_block_matrices_know_their_zero_block() -> None:
    v, s, u = (
        Expression(variable(name, shape)) for name, shape in (("V", (2, 2)), ("S", (3, 2)), ("U", (3, 3)))
    )
    product = blocks(v, s, u) @ blocks(v, s, u)
    assert len(product.node.operands) == 3


def symbolic(*shape: Any) -> Expression:
    return Expression(variable("x", shape))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.T, ("m", "n")),
        (lambda x: x[:, None] + np.zeros(4), ("n", 4)),
        (lambda x: x + np.ones((3, 1)), (3, "n")),
        (np.diag, ("n", "n")),
        (np.mean, ()),
        (lambda x: x.ravel(), ("n",)),
        (lambda x: x * 2 + 1, ("n",)),
    ],
)
def test_symbolic_sizes(function: Any, shape: tuple[Any, ...]) -> None:
    start = ("n", "m") if shape == ("m", "n") else ("n",)
    assert function(symbolic(*start)).shape == shape


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.transpose(x, (0, 0)), r"transpose: the axes \(0, 0\) name one axis twice"),
        (lambda x: np.transpose(x, (0,)), "transpose: the axes"),
        (lambda x: x.swapaxes(0, 5), "swapaxes: axis 5 is out of range for 2 axes"),
        (lambda x: x.sum(axis=-3), "sum: axis -3 is out of range for 2 axes"),
        (lambda x: x.sum(axis="a"), "sum: an axis is an integer, not 'a'"),
        (lambda x: np.moveaxis(x, [0, 1], 0), "are not equally many axes"),
        (lambda x: np.squeeze(x, 0), r"squeeze: axis 0 of the shape \(2, 3\) does not have size 1"),
        (lambda x: x.reshape(4, 2), r"cannot reshape \(2, 3\) \(6 entries\) to \(4, 2\)"),
        (lambda x: x.reshape(-1, 4), r"cannot reshape \(2, 3\) \(6 entries\) to \(-1, 4\)"),
        (lambda x: np.broadcast_to(x, (3, 2)), r"the shape \(2, 3\) cannot be broadcast to \(3, 2\)"),
        (lambda x: np.concatenate([x, x[0]]), r"concatenate: the shapes \(2, 3\) and \(3,\) differ"),
        (lambda x: np.stack([x, x[0]]), r"stack: the shapes \(2, 3\) and \(3,\) are not equal"),
        (lambda x: np.split(x, 2, axis=1), "an axis of size 3 has no 2 equal parts; use np.array_split"),
        (lambda x: np.array_split(x, 0), "cannot be split into 0 parts"),
        (lambda x: np.pad(x, (1, 2, 3)), "pad: the widths"),
        (lambda x: np.pad(x, -1), "must not be negative"),
        (lambda x: np.block([[x], x]), "equally many nested lists"),
        (lambda x: np.diag(x[None]), "diag takes a vector or a matrix"),
        (lambda x: sliding_window_view(x, 2), "1 window sizes for 2 axes"),
        (lambda x: sliding_window_view(x, (2, 9)), "window 9"),
        (lambda x: np.take_along_axis(x, np.array([0]), 0), "differ in rank"),
        (lambda x: np.repeat(x, [1, 2], axis=1), "numbers of repeats for an axis of size 3"),
        (lambda x: np.matrix_transpose(x[0]), "matrix_transpose needs two axes"),
        (lambda x: symbolic("n").reshape(2, -1), "reshape to -1 needs known sizes"),
        (lambda x: np.concatenate([symbolic("n"), symbolic("n")]), "the size n has no value"),
        (lambda x: symbolic("n").size, "the number of entries needs a known size"),
    ],
)  # fmt: skip
def test_shape_errors(function: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        function(traced(np.ones((2, 3)), "x"))


def test_refused_modes() -> None:
    with pytest.raises(TracingError, match=r"np\.pad with mode='mean'"):
        np.pad(traced(np.ones(3), "x"), 1, mode="mean")
    with pytest.raises(TracingError, match="reflect_type"):
        np.pad(traced(np.ones(3), "x"), 1, mode="reflect", reflect_type="odd")
    with pytest.raises(TracingError, match=r"np\.reshape with order='A'.*say 'C' or 'F'"):
        np.reshape(traced(np.ones((2, 3)), "x"), (3, 2), order="A")
