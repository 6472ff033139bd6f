"""Statistics that NumPy computes from sorted, masked or centred data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import hesse.ops.elementwise as table
from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_array, as_expression, as_node, axis_numbers, known_sizes
from hesse.frontends.reductions import (
    count_nonzero,
    cumprod,
    cumsum,
    maximum,
    mean,
    merged_axes,
    minimum,
    prod,
    sum_,
)
from hesse.frontends.structural import expand_dims
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import where
from hesse.ir import uniform
from hesse.ops import structural


def _is_missing(value: Any) -> Expression:
    return Expression(table.isnan(as_node(value)), boolean=True)


def _filled(value: Any, filling: float) -> tuple[Expression, Expression]:
    """The values with another number in place of those that are missing, and where these are."""
    missing = _is_missing(value)
    return where(missing, filling, Expression(as_node(value))), missing


def _without_missing(reduction: Callable[..., Expression], filling: float) -> Callable[..., Expression]:
    def handler(a: Any, axis: Any = None, *, keepdims: bool = False) -> Expression:
        return reduction(_filled(a, filling)[0], axis, keepdims=keepdims)

    return handler


nansum = implements(np.nansum)(_without_missing(sum_, 0.0))
nanprod = implements(np.nanprod)(_without_missing(prod, 1.0))


def _extremum_without_missing(reduction: Callable[..., Expression], filling: float) -> Callable[..., Any]:
    def handler(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        values, missing = _filled(a, filling)
        is_empty = sum_(~missing, axis, keepdims=keepdims) == 0
        return where(is_empty, math.nan, reduction(values, axis, keepdims=keepdims))

    return handler


nanmax = implements(np.nanmax)(_extremum_without_missing(maximum, -math.inf))
nanmin = implements(np.nanmin)(_extremum_without_missing(minimum, math.inf))


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None) -> Expression:
    """Running sums of what is not missing."""
    return cumsum(_filled(a, 0.0)[0], axis)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None) -> Expression:
    """Running products of what is not missing."""
    return cumprod(_filled(a, 1.0)[0], axis)


@implements(np.nanmean)
def nanmean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The mean of what is not missing."""
    values, missing = _filled(a, 0.0)
    count = count_nonzero(~missing, axis, keepdims=keepdims)
    return sum_(values, axis, keepdims=keepdims) / Expression(as_node(count))


@implements(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: float = 0
) -> Any:
    """The mean square distance from the mean, of what is not missing."""
    values, missing = _filled(a, 0.0)
    distance = where(missing, 0.0, values - nanmean(a, axis, keepdims=True))
    count = Expression(as_node(count_nonzero(~missing, axis, keepdims=keepdims)))
    return sum_(distance * distance, axis, keepdims=keepdims) / (count - (ddof or correction))


@implements(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: float = 0
) -> Any:
    """The square root of the variance, of what is not missing."""
    return np.sqrt(nanvar(a, axis, ddof=ddof, keepdims=keepdims, correction=correction))


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Expression:
    """Numbers in place of those that are missing or infinite; the others keep their derivatives."""
    if not copy:
        raise untraceable("np.nan_to_num with copy=False", "Assign the result: x = np.nan_to_num(x).")
    value = as_expression(x)
    largest = float(np.finfo(value.dtype).max) if value.dtype.kind == "f" else math.inf
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    result = where(_is_missing(value), nan, value)
    return where(value == math.inf, high, where(value == -math.inf, low, result))


METHODS = {"linear": None, "lower": math.floor, "higher": math.ceil, "nearest": round, "midpoint": None}
"""How `np.quantile` chooses between two entries."""


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Expression:
    """Entries of the sorted values, or between two of them; the parts must be known."""
    if isinstance(q, Expression):
        raise untraceable("np.quantile at a traced part", "Give q as a number.")
    parts = as_array(q)
    if ((parts < 0) | (parts > 1)).any():
        raise ArgumentError("quantiles must be in the range [0, 1]")
    if method not in METHODS:
        raise untraceable(f"np.quantile with method={method!r}", f"Use one of {', '.join(METHODS)}.")
    node = as_node(a)
    axes = axis_numbers("quantile", axis, node.rank)
    ordered = Expression(structural.sort(merged_axes(node, axes, last=True)))
    (count,) = known_sizes("quantile", ordered.shape[-1:])
    if not count:
        raise ShapeError(f"quantile: the axes {axes} of the shape {node.shape} are empty")
    taken = [_between(ordered, float(part) * (count - 1), method) for part in parts.ravel()]
    if keepdims and axes:
        taken = [Expression(expand_dims(one.node, axes)) for one in taken]
    if not parts.shape:
        return taken[0]
    return np.stack(taken).reshape(parts.shape + taken[0].shape)  # type: ignore[return-value]


def _between(ordered: Expression, place: float, method: str) -> Expression:
    """The entry at a place, which may lie between two."""
    low, high = math.floor(place), math.ceil(place)
    chosen = METHODS[method]
    if chosen is not None:
        return ordered[..., chosen(place)]  # type: ignore[no-any-return]
    part = 0.5 if method == "midpoint" and low < high else place - low
    first, second = ordered[..., low], ordered[..., high]
    return first + (second - first) * part if part < 0.5 else second - (second - first) * (1.0 - part)  # type: ignore[no-any-return]


@implements(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Expression:
    """Quantiles at parts in percent."""
    if isinstance(q, Expression):
        raise untraceable("np.percentile at a traced part", "Give q as a number.")
    return quantile(a, as_array(q) / 100.0, axis, method=method, keepdims=keepdims)


@implements(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Any:
    """The covariance matrix of rows, or of columns."""
    if fweights is not None or aweights is not None:
        raise untraceable("np.cov with weights", "Write it with np.average.")
    data = _variables(m, rowvar)
    if y is not None:
        data = np.concatenate([data, _variables(y, rowvar)])
    (count,) = known_sizes("cov", data.shape[1:])
    correction = ddof if ddof is not None else (0 if bias else 1)
    centred = data - mean(data, 1, keepdims=True)
    if count <= correction:
        return Expression(uniform(math.nan, (data.shape[0],) * 2))
    return np.squeeze(centred @ centred.T / (count - correction))


def _variables(m: Any, rowvar: bool) -> Any:
    """Variables as rows."""
    data = Expression(as_node(m))
    if data.ndim > 2:
        raise ShapeError(f"cov needs one axis or two, not the shape {data.shape}")
    if data.ndim < 2:
        return data.reshape(1, -1)
    return data if rowvar or data.shape[0] == 1 else data.T


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The covariance matrix divided by standard deviations."""
    matrix = cov(x, y, rowvar)
    if not matrix.ndim:
        return matrix / matrix
    deviations = np.sqrt(np.diag(matrix))
    return matrix / deviations[:, None] / deviations


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in one axis, with further entries around them."""
    parts = [to_begin, np.diff(np.ravel(Expression(as_node(ary)))), to_end]
    return np.concatenate([np.ravel(part) for part in parts if part is not None])
