"""Sums, means, extrema, norms, orders and running sums, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
from frontend_cases import Case, cases, check, traced
from hesse.errors import ShapeError, TracingError
from hesse.frontends import Expression
from hesse.ir import variable

REDUCTIONS = [np.sum, np.mean, np.prod, np.var, np.std, np.max, np.min, np.ptp, np.any, np.all, np.median]
AXES = [None, 0, -1, (0, 2), (0, 1, 2), [1]]


@pytest.mark.parametrize("function", REDUCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(function: Any, axis: Any, keepdims: bool) -> None:
    axis = tuple(axis) if isinstance(axis, list) else axis
    check(Case("reduction", lambda x: function(x, axis=axis, keepdims=keepdims), ((2, 1, 3),)))


@pytest.mark.parametrize(
    "function", [np.sum, np.mean, np.prod, np.max, np.any, np.linalg.norm], ids=lambda f: f.__name__
)
def test_reductions_of_a_number(function: Any) -> None:
    check(Case("number", function, ((),)))


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom", "ignore:invalid value")
@cases(
    ("sum empty", np.sum, (0, 3)),
    ("sum empty axis", lambda x: x.sum(axis=0), (0, 3)),
    ("sum over nothing", lambda x: x.sum(axis=()), (2, 3)),
    ("prod empty", lambda x: np.prod(x, axis=0), (0, 3)),
    ("mean empty", lambda x: np.mean(x, axis=0), (0, 3)),
    ("mean of empty rows", lambda x: np.mean(x, axis=1), (0, 3)),
    ("max of empty rows", lambda x: np.max(x, axis=1), (0, 3)),
    ("var without freedom", lambda x: np.var(x, ddof=2), (2,)),
    ("var sample", lambda x: np.var(x, axis=0, ddof=1), (4, 2)),
    ("std sample", lambda x: x.std(ddof=1), (4, 2)),
    ("var correction", lambda x: np.var(x, correction=1), (4, 2)),
    ("average", np.average, (2, 3)),
    ("average weights", lambda x: np.average(x, axis=1, weights=[1.0, 2.0, 3.0]), (2, 3)),
    ("average weights traced", lambda x, w: np.average(x, weights=w**2), (2, 3), (2, 3)),
    ("average keepdims", lambda x: np.average(x, axis=0, weights=[1.0, 2.0], keepdims=True), (2, 3)),
    ("amax amin", lambda x: np.amax(x, 0) - np.amin(x, 1)[0], (2, 3)),
    ("methods", lambda x: x.sum(0) + x.mean(0) + x.prod(0) + x.max(0) - x.min(0) + x.var(0), (2, 3)),
    ("methods of conditions", lambda x: [(x > 0).any(axis=1), (x > -9).all(), (x > 0).max(axis=0)], (2, 3)),
    ("mean of conditions", lambda x: np.mean(x > 0), (2, 3)),
    ("count_nonzero", lambda x: np.count_nonzero(x, axis=1), np.array([[0.0, 1.0], [2.0, 3.0]])),
    ("median even", np.median, (4,)),
    ("median axis", lambda x: np.median(x, axis=0), (4, 3)),
    ("sort", np.sort, (3, 4)),
    ("sort first axis", lambda x: np.sort(x, axis=0), (3, 4)),
    ("sort all", lambda x: np.sort(x, axis=None), (3, 4)),
    ("sort ties", np.sort, np.array([2.0, 1.0, 2.0, 1.0])),
    ("cumsum", np.cumsum, (2, 3)),
    ("cumsum axis", lambda x: x.cumsum(axis=-1), (2, 3)),
    ("cumprod", lambda x: np.cumprod(x, axis=1), (2, 3)),
    ("cumprod all", lambda x: x.cumprod(), (2, 3)),
    ("norm", np.linalg.norm, (3,)),
    ("norm of a tensor", np.linalg.norm, (2, 3, 2)),
    ("norms of vectors", lambda x: [np.linalg.norm(x, p) for p in (1, 2, 3, 0.5, 0, np.inf, -np.inf)], (4,)),
    ("norms along an axis", lambda x: [np.linalg.norm(x, p, axis=0) for p in (None, 1, 2, np.inf)], (3, 2)),
    ("matrix norms", lambda x: [np.linalg.norm(x, p) for p in ("fro", 1, -1, 2, np.inf, -np.inf)], (3, 4)),
    ("axes norms", lambda x: [np.linalg.norm(x, p, axis=(2, 0)) for p in ("fro", 1, 2, np.inf)], (3, 2, 4)),
    ("norm keepdims", lambda x: np.linalg.norm(x, 1, axis=(0, 1), keepdims=True), (3, 2, 4)),
    ("vector_norm", lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=1), (3, 2, 4)),
    ("matrix_norm", lambda x: np.linalg.matrix_norm(x, keepdims=True), (3, 2, 4)),
)  # fmt: skip
def test_more_reductions(case: Case) -> None:
    check(case)


def test_mean_of_a_symbolic_size() -> None:
    x = Expression(variable("x", ("n", 2)))
    node = np.mean(x).node
    values = np.arange(6.0).reshape(3, 2)
    assert naive.evaluate(node, {"x": values}, {"n": 3}) == pytest.approx(values.mean())
    assert naive.evaluate(np.var(x, axis=0).node, {"x": values}, {"n": 3}) == pytest.approx(
        values.var(axis=0)
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.max(x[:0]), "are empty and have no max"),
        (lambda x: np.argmax(x[:0], axis=0), "argmax works on the last axis, which must not be empty"),
        (lambda x: np.median(x[:0]), "are empty"),
        (lambda x: np.sum(x, axis=2), "sum: axis 2 is out of range for 2 axes"),
        (lambda x: np.sum(x, axis=(0, -2)), "name one axis twice"),
        (lambda x: np.cumsum(x, axis=7), "cumsum: axis 7 is out of range"),
        (lambda x: np.average(x, axis=0, weights=[1.0, 2.0, 3.0]), "average: weights of shape"),
        (lambda x: np.linalg.norm(x[None], 1), "one axis .* or two .* are needed"),
        (lambda x: np.sum(x, where=np.ones((4, 2, 3), bool)), r"mask of shape \(4, 2, 3\) for .* \(2, 3\)"),
        (lambda x: np.partition(x, 3), "place 3 is out of range for 3 entries"),
    ],
)
def test_shape_errors(function: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        function(traced(np.ones((2, 3)), "x"))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.linalg.norm(x, 3), r"norm of a matrix with ord=3 .*'nuc'"),
        (lambda x: np.linalg.norm(x, "max"), "ord='max'"),
        (lambda x: np.linalg.norm(x[0], "a"), "norm of a vector with ord='a'"),
        (lambda x: np.sum(x, dtype=int), r"np\.sum with these arguments .*'dtype'"),
        (lambda x: np.sum(x, out=np.zeros(())), r"the argument out= of np\.sum"),
        (lambda x: np.sum(x, 0, np.float64), r"np\.sum with these arguments .*positional"),
        (lambda x: np.median(x, overwrite_input=True), "overwrite_input"),
        (lambda x: np.nanpercentile(x, 50), r"np\.nanpercentile, for which hesse has no rule"),
    ],
)
def test_refused(function: Any, message: str) -> None:
    with pytest.raises(TracingError, match=message):
        function(traced(np.ones((2, 3)), "x"))


def test_neutral_options_are_accepted() -> None:
    x = traced(np.ones((2, 3)), "x")
    assert np.sum(x, dtype=float, out=None, where=True).shape == ()
    assert x.sum(axis=0, dtype=None, out=None).shape == (3,)
