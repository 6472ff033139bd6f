"""Writing by integers where several entries for one place are combined: sums, means, products, extrema."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hesse.frontends.aten.indexing import Places, added, along, cut, slabs, with_an_axis
from hesse.frontends.aten.reductions import amax, amin
from hesse.frontends.aten.table import aten
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression
from hesse.ir import uniform

MOST_PAIRS = 1_000_000
"""Pairs of a place and an entry for it; more are left to PyTorch."""
NEUTRAL = {"prod": 1.0, "amax": -math.inf, "amin": math.inf}
"""What changes nothing, by the way to combine."""


def _combined(x: Any, places: Places, source: Any, reduce: str, includes_self: bool) -> Any:
    """`x` combined with entries at places; where there are entries `x` may be left out."""
    counts = added(Expression(uniform(0.0, x.shape)), places, 1.0)
    is_old = np.equal(counts, 0.0)
    if reduce in NEUTRAL:
        return _of_rows(x, places, source, reduce, np.logical_or(is_old, includes_self))
    base = x if includes_self else np.where(is_old, x, 0.0)
    total = added(base, places, source)
    if reduce == "sum":
        return total
    return np.divide(total, np.maximum(np.add(counts, float(includes_self)), 1.0))


def _of_rows(x: Any, places: Places, source: Any, reduce: str, is_counted: Any) -> Any:
    """The same by a table with a row for each place."""
    neutral, size = NEUTRAL[reduce], math.prod(x.shape)
    values = np.ravel(np.broadcast_to(as_expression(source), np.shape(places)))
    if isinstance(places, Expression):
        if size * math.prod(np.shape(places)) > MOST_PAIRS:
            return NotImplemented
        is_here = np.equal(np.ravel(places), np.arange(size)[:, None])
        table = np.where(is_here, values, neutral)
    else:
        table = np.append(values, neutral)[_numbers(places.ravel(), size)]
    own = np.where(np.ravel(is_counted), np.ravel(x), neutral)
    table = np.concatenate([own[:, None], table], axis=1)
    found = np.prod(table, 1) if reduce == "prod" else (amax if reduce == "amax" else amin)(table, 1)
    return np.reshape(found, x.shape)


def _numbers(places: np.ndarray, size: int) -> np.ndarray:
    """For each place the numbers of the entries that go there, filled up by the number behind the last."""
    counts = np.bincount(places, minlength=size)
    table = np.full((size, counts.max(initial=0)), len(places))
    order = np.argsort(places, kind="stable")
    table[np.arange(table.shape[1]) < counts[:, None]] = order
    return table


@aten("scatter_reduce.two")
@with_an_axis
def scatter_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Entries combined along an axis, chosen at each place of the other axes."""
    return _combined(x, along(x, dim, index), cut(source, index.shape), reduce, include_self)


@aten("scatter.reduce", "scatter.value_reduce")
@with_an_axis
def scatter_by(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    """The same by its old name."""
    name = {"add": "sum", "multiply": "prod"}[reduce]
    return _combined(x, along(x, dim, index), cut(source, index.shape), name, True)


@aten("index_reduce")
@with_an_axis
def index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Slabs combined along an axis."""
    return _combined(x, slabs(x, dim, index), source, reduce, include_self)
