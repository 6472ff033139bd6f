"""Statistics that NumPy computes from sorted, masked or centred data."""

from __future__ import annotations

import functools
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
    all_,
    argmax,
    argmin,
    argsort,
    cumprod,
    cumsum,
    maximum,
    mean,
    merged_axes,
    minimum,
    prod,
    sort,
    std,
    sum_,
    var,
)
from hesse.frontends.structural import expand_dims
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import where
from hesse.ir import Size, uniform
from hesse.ops import structural


def _is_missing(value: Any) -> Expression:
    return Expression(table.isnan(as_node(value)), boolean=True)


def _without_missing(reduction: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of what is not missing: NumPy's `where` without these entries."""

    @functools.wraps(reduction)
    def handler(a: Any, axis: Any = None, *, where: Any = True, **options: Any) -> Any:
        present = ~_is_missing(a)
        return reduction(a, axis, where=present if where is True else present & where, **options)

    return handler


nansum, nanprod, nanmean, nanvar, nanstd = (
    implements(function)(_without_missing(reduction))
    for function, reduction in (
        (np.nansum, sum_),
        (np.nanprod, prod),
        (np.nanmean, mean),
        (np.nanvar, var),
        (np.nanstd, std),
    )
)


def _extremum_without_missing(reduction: Callable[..., Expression], filling: float) -> Callable[..., Any]:
    def handler(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        missing = _is_missing(a)
        found = reduction(where(missing, filling, Expression(as_node(a))), axis, keepdims=keepdims)
        return where(all_(missing, axis, keepdims=keepdims), math.nan, found)

    return handler


nanmax = implements(np.nanmax)(_extremum_without_missing(maximum, -math.inf))
nanmin = implements(np.nanmin)(_extremum_without_missing(minimum, math.inf))


@implements(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Where the largest value is that is not missing."""
    return argmax(where(_is_missing(a), -math.inf, Expression(as_node(a))), axis, keepdims=keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Where the least value is that is not missing."""
    return argmin(where(_is_missing(a), math.inf, Expression(as_node(a))), axis, keepdims=keepdims)


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None) -> Expression:
    """Running sums of what is not missing."""
    return cumsum(where(_is_missing(a), 0.0, Expression(as_node(a))), axis)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None) -> Expression:
    """Running products of what is not missing."""
    return cumprod(where(_is_missing(a), 1.0, Expression(as_node(a))), axis)


def _checked_places(name: str, kth: Any, axis: Any, sizes: tuple[Size, ...]) -> None:
    """Refuse places outside of an axis; the entries themselves are sorted, which puts all in their places."""
    size = math.prod(known_sizes(name, sizes if axis is None else [sizes[axis]]))
    for place in np.atleast_1d(kth):
        if not -size <= place < size:
            raise ShapeError(f"{name}: the place {place} is out of range for {size} entries")


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Expression:
    """The values with the smaller ones before a place and the larger ones after it: in ascending order."""
    _checked_places("partition", kth, axis, as_node(a).shape)
    return sort(a, axis)


@implements(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Expression:
    """The positions of such values."""
    _checked_places("argpartition", kth, axis, as_node(a).shape)
    return argsort(a, axis)


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


@implements(np.median)
def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Expression:
    """The middle value, or the mean of the two in the middle."""
    ordered, axes = _in_order("median", a, axis)
    (count,) = known_sizes("median", ordered.shape[-1:])
    middle = mean(ordered[..., (count - 1) // 2 : count // 2 + 1], -1)
    return _of_order(ordered, middle, axes, keepdims)


def _in_order(name: str, a: Any, axis: Any) -> tuple[Expression, tuple[int, ...]]:
    """The values along axes, which become the last one, in ascending order; and the axes."""
    node = as_node(a)
    axes = tuple(axis_numbers(name, axis, node.rank))
    ordered = Expression(structural.sort(merged_axes(node, axes, last=True)))
    if not known_sizes(name, ordered.shape[-1:])[0]:
        raise ShapeError(f"{name}: the axes {axes} of the shape {node.shape} are empty")
    return ordered, axes


def _of_order(ordered: Expression, taken: Expression, axes: tuple[int, ...], keepdims: bool) -> Expression:
    """What was taken of values in order, unless one of them is missing: such are the last."""
    found = where(_is_missing(ordered[..., -1]), math.nan, taken)
    return Expression(expand_dims(found.node, axes)) if keepdims and axes else found


METHODS = {"linear": None, "lower": math.floor, "higher": math.ceil, "nearest": round, "midpoint": None}
"""How `np.quantile` chooses between two entries."""
CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Between which plotting positions, α and β of Hyndman and Fan (1996), it interpolates."""


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
    if method not in METHODS and method not in CONTINUOUS:
        known = ", ".join([*METHODS, *CONTINUOUS])
        raise untraceable(f"np.quantile with method={method!r}", f"Use one of {known}.")
    ordered, axes = _in_order("quantile", a, axis)
    (count,) = known_sizes("quantile", ordered.shape[-1:])
    taken = [_between(ordered, _place(float(part), count, method), method) for part in parts.ravel()]
    taken = [_of_order(ordered, one, axes, keepdims) for one in taken]
    if not parts.shape:
        return taken[0]
    return np.stack(taken).reshape(parts.shape + taken[0].shape)  # type: ignore[return-value]


def _place(part: float, count: int, method: str) -> float:
    """Where a part of so many entries ends."""
    if method not in CONTINUOUS:
        return part * (count - 1)
    before, after = CONTINUOUS[method]
    place = count * part + before + part * (1.0 - before - after) - 1.0
    return min(max(place, 0.0), count - 1.0)


def _between(ordered: Expression, place: float, method: str) -> Expression:
    """The entry at a place, which may lie between two."""
    low, high = math.floor(place), math.ceil(place)
    chosen = METHODS.get(method)
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
    data = _variables(m, rowvar)
    if y is not None:
        data = np.concatenate([data, _variables(y, rowvar)])
    (count,) = known_sizes("cov", data.shape[1:])
    correction = ddof if ddof is not None else (0 if bias else 1)
    if fweights is not None or aweights is not None:
        return _weighted_cov(data, correction, fweights, aweights)
    centred = data - mean(data, 1, keepdims=True)
    if count <= correction:
        return Expression(uniform(math.nan, (data.shape[0],) * 2))
    return np.squeeze(centred @ centred.T / (count - correction))


def _weighted_cov(data: Any, correction: Any, fweights: Any, aweights: Any) -> Any:
    """The same for columns that count as often as one kind of weights says, and as much as the other one."""
    weights: Any = np.ones(data.shape[1]) if fweights is None else as_expression(fweights)
    importance = 1.0 if aweights is None else as_expression(aweights)
    weights = weights * importance
    whole = np.sum(weights)
    centred = data - np.sum(data * weights, 1, keepdims=True) / whole
    count = whole - correction * (1.0 if aweights is None else np.sum(weights * importance) / whole)
    return np.squeeze((centred * weights) @ centred.T / count)


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


def _included(running: Callable[..., Any], first: float) -> Callable[..., Any]:
    def handler(x: Any, /, *, axis: Any = None, include_initial: bool = False) -> Any:
        value = as_expression(x)
        if axis is None and value.ndim > 1:
            raise ArgumentError("for an array of several axes, give the axis along which is accumulated")
        axis = 0 if axis is None else axis
        found = running(value, axis)
        if not include_initial:
            return found
        start = np.full_like(np.take(value, [0], axis), first)
        return np.concatenate([start, found], axis)

    return handler


cumulative_sum = implements(np.cumulative_sum)(_included(cumsum, 0.0))
cumulative_prod = implements(np.cumulative_prod)(_included(cumprod, 1.0))


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in one axis, with further entries around them."""
    parts = [to_begin, np.diff(np.ravel(Expression(as_node(ary)))), to_end]
    return np.concatenate([np.ravel(part) for part in parts if part is not None])
