"""Indexing expressions with NumPy's rules, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend_cases import Case, cases, check, traced
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.frontends import Expression, constant
from hesse.ir import Apply, Einsum, Node, topological, variable

SHAPE = (4, 3, 5)
KEYS: list[Any] = [
    0,
    -1,
    np.int64(2),
    np.array(1),
    slice(None),
    slice(1, 3),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(-3, None, 2),
    slice(2, 2),
    slice(1, 100),
    None,
    ...,
    (),
    (..., 0),
    (0, ..., 1),
    (slice(None), 1),
    (1, slice(None, None, 2), slice(4, 1, -1)),
    (None, 0, None, slice(1, None)),
    (..., None),
    (0, 1, 2),
    [0, 2],
    [2, 0, 0, -1],
    [],
    [[0, 1], [2, 3]],
    np.array([0, 2, 3], dtype=np.uint8),
    ([0, 1], [1, 2]),
    ([0, 1, 3], 1),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 2]),
    (slice(None), [0, 2], [1, 3]),
    (slice(None), [2, 0, 1], slice(1, 4)),
    (slice(1, 3), [0, 2, 1], None),
    (0, slice(None), [1, 4, 2]),
    ([0, 1], None, [1, 2]),
    (slice(None), [0, 1], ..., [1, 2]),
    (..., [0, 3, 4]),
    (..., [0, 2, 1, 1], slice(None)),
    ([[0], [1]], [[0, 2]]),
    ([[0], [3]], slice(None), [[0, 2, 1]]),
    (np.arange(3), np.arange(3)),
    (np.arange(3), np.arange(3), np.arange(3)),
    (np.arange(3)[:, None], np.arange(3), 4 - np.arange(3)[:, None]),
    np.array([True, False, True, True]),
    np.zeros(4, dtype=bool),
    [True, False, False, True],
    (slice(None), np.array([True, False, True])),
    np.arange(12).reshape(4, 3) % 5 < 2,
    (slice(None), np.arange(15).reshape(3, 5) % 4 == 1),
    (np.array([True, False, True, True]), 0),
    (np.array([True, False, True, True]), [0, 1, 2]),
    np.arange(60).reshape(4, 3, 5) % 7 == 0,
]


@pytest.mark.parametrize("key", KEYS, ids=[str(k) for k in range(len(KEYS))])
def test_keys(key: Any) -> None:
    check(Case(str(key), lambda x: x[key], (SHAPE,)))


def axis_keys(size: int) -> st.SearchStrategy[Any]:
    position = st.integers(-size, size - 1)
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.sampled_from([None, 1, 2, 3, -1, -2])
    return position | st.builds(slice, bound, bound, step) | st.lists(position, min_size=2, max_size=2)


@st.composite
def random_keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    entries: list[Any] = [draw(axis_keys(size)) for size in shape[: draw(st.integers(0, len(shape)))]]
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), None)
    if draw(st.booleans()) and len(entries) - entries.count(None) == len(shape):
        entries.insert(draw(st.integers(0, len(entries))), ...)
    return shape, tuple(entries)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(random_keys())
def test_random_keys(shape_and_key: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, key = shape_and_key
    check(Case(str(key), lambda x: x[key], (shape,)))


LABELS = np.array([2, 0, 1, 1])


@cases(
    ("traced index", lambda x, i: x[i], (3, 2), LABELS),
    ("traced number", lambda x, i: x[i], (3, 2), np.array(1)),
    ("negative", lambda x, i: x[i], (3, 2), np.array([-1, 0])),
    ("second axis", lambda x, i: x[:, i], (2, 3), LABELS),
    ("matrix of indices", lambda x, i: x[i], (3, 2), np.array([[0, 1, 2], [2, 2, 0]])),
    ("rows and labels", lambda x, i: x[np.arange(4), i], (4, 3), LABELS),
    ("rows, labels and rest", lambda x, i: x[np.arange(4), i], (4, 3, 2), LABELS),
    ("labels and columns", lambda x, i: x[i, np.arange(4)], (3, 4), LABELS),
    ("labels and a number", lambda x, i: x[i, 1], (3, 2), LABELS),
    ("number and labels apart", lambda x, i: x[1, :, i], (2, 5, 3), LABELS),
    ("two traced", lambda x, i, j: x[i, j], (3, 3), LABELS, np.array([0, 2, 2, 1])),
    ("two traced outer", lambda x, i, j: x[i[:, None], j], (3, 3), LABELS, np.array([0, 2])),
    ("two traced apart", lambda x, i, j: x[i, :, j], (3, 2, 3), LABELS, np.array([0, 2, 2, 1])),
    ("viewed index", lambda x, i: x[i[:, None]], (3, 2), LABELS),
    ("part of an index", lambda x, i: x[i[1:3]], (3, 2), LABELS),
    ("one of the indices", lambda x, i: x[i[1]], (3, 2), LABELS),
    ("all indices in a loop", lambda x, i: [x[j] for j in i], (3, 2), LABELS),
    ("reshaped index", lambda x, i: x[i.reshape(2, 2)], (3, 2), LABELS),
    ("transposed index", lambda x, i: x[i.T], (3, 2), np.array([[0, 1, 2], [2, 2, 0]])),
    ("outer with a constant", lambda x, i: x[np.arange(2)[:, None], i], (2, 3), LABELS),
    ("from an array", lambda i: constant(np.arange(6.0).reshape(3, 2) ** 2)[i]
        if not isinstance(i, np.ndarray) else (np.arange(6.0).reshape(3, 2) ** 2)[i], LABELS),
    ("constant index", lambda x: x[constant([2, 0])] if not isinstance(x, np.ndarray) else x[[2, 0]], (3, 2)),
    ("take", lambda x, i: np.take(x, i, axis=1), (2, 3), LABELS),
    ("take_along_axis", lambda x, i: np.take_along_axis(x, i[:, None], axis=1), (4, 3), LABELS),
    ("take_along_axis rows", lambda x, i: np.take_along_axis(x, i, 1), (2, 3), np.array([[0, 1], [2, 2]])),
    ("take_along_axis first", lambda x, i: np.take_along_axis(x, i, 0), (3, 2), np.array([[0, 1], [2, 2]])),
    ("take_along_axis broadcast", lambda x, i: np.take_along_axis(x, i, 1), (2, 3), np.array([[0, 1, 1]])),
    ("argmax select", lambda x: x[np.arange(4), np.argmax(x, axis=1)], (4, 3)),
    ("argmax keepdims", lambda x: np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), 1), (4, 3)),
    ("argmax of all", lambda x: x.ravel()[np.argmax(x)], (4, 3)),
    ("argmin select", lambda x: x[np.argmin(x, axis=0), np.arange(3)], (4, 3)),
    ("argsort", lambda x: np.take_along_axis(x, np.argsort(x, axis=-1), -1), (4, 3)),
    ("argsort first axis", lambda x: np.take_along_axis(x, np.argsort(x, axis=0), 0), (4, 3)),
    ("order another array", lambda x, y: y[np.argsort(x)], (4,), (4, 2)),
    ("integer type kept", lambda x, i: x[i.astype(int)], (3, 2), LABELS),
    ("labels as numbers", lambda x, i: x * (i == 1), (4,), LABELS),
)  # fmt: skip
def test_traced_indices(case: Case) -> None:
    check(case)


def operations(node: Node) -> list[str]:
    return [part.name for part in topological([node]) if isinstance(part, Apply)]


@pytest.mark.parametrize(
    "key", [[0, 2], (np.arange(3), np.arange(3)), [3, 2, 1], (..., [0, 0, 0]), [1]], ids=str
)
def test_progressions_are_views(key: Any) -> None:
    node = traced(np.ones(SHAPE), "x")[key].node
    assert isinstance(node, Einsum)
    assert not operations(node)


def test_rows_and_labels_are_one_gather() -> None:
    x, labels = traced(np.ones((4, 3)), "x"), traced(LABELS, "i")
    assert operations(x[np.arange(4), labels].node) == ["flat_index", "gather"]


def test_symbolic_sizes() -> None:
    x = Expression(variable("x", ("n", 3)), index=None)
    labels = Expression(variable("i", ("m",)), index=variable("i:index", ("m",), kind="integer"))
    assert x[:, 1].shape == ("n",)
    assert x[:, None].shape == ("n", 1, 3)
    assert x[labels].shape == ("m", 3)
    with pytest.raises(ShapeError, match="axis 0 of symbolic size n can only be taken whole"):
        x[0]
    with pytest.raises(ShapeError, match="symbolic size n can only be taken whole"):
        x[1:]
    with pytest.raises(ShapeError, match=r"len\(\) needs a known size"):
        len(x)
    with pytest.raises(ShapeError, match="iteration needs a known size"):
        iter(x)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (4, ShapeError, "index 4 is out of range for axis 0 of size 4"),
        ((0, -4), ShapeError, "index -4 is out of range for axis 1 of size 3"),
        ([0, 9], ShapeError, "index 9 is out of range for axis 0 of size 4"),
        ((0, 0, 0, 0), ShapeError, r"4 indices were given for a tensor of shape \(4, 3, 5\)"),
        ((..., ...), ArgumentError, "only one Ellipsis"),
        (1.5, ArgumentError, "an index is made of integers"),
        ("a", ArgumentError, "an index is made of integers"),
        (True, TracingError, "x\\[True\\]"),
        (np.array([True, False]), ShapeError, "a mask of size 2 does not fit axis 0 of size 4"),
        (([0, 1], [0, 1, 2]), ShapeError, r"index arrays of shapes \(2,\) and \(3,\) do not broadcast"),
    ],
)
def test_wrong_keys(key: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        traced(np.ones(SHAPE), "x")[key]


def test_traced_masks_and_numbers_are_refused() -> None:
    x = traced(np.ones(3), "x")
    with pytest.raises(TracingError, match=r"x\[mask\] with a traced mask .*np\.where\(mask, x, other\)"):
        x[x > 0]
    with pytest.raises(TracingError, match="a traced real number as an index"):
        x[x[0]]
