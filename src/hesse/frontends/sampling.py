"""Functions on grids: what NumPy writes with loops over entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hesse.ops.elementwise as table
from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_array, as_expression, as_node, axis_number, is_number, known_sizes
from hesse.frontends.structural import moveaxis
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import truth, where
from hesse.ir import multiply

SINC_TERMS = 14
"""Terms of the series of `np.sinc` below 1: derivatives of order twelve have all digits."""


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, *, axis: int = 0
) -> Any:
    """Equal steps from one end to the other."""
    first, last = Expression(as_node(start)), Expression(as_node(stop))
    count = int(num)
    if count < 0:
        raise ArgumentError(f"Number of samples, {count}, must be non-negative.")
    parts = count - 1 if endpoint else count
    step = (last - first) / parts if parts > 0 else (last - first) * math.nan
    weights = np.arange(count, dtype=float) / max(parts, 1)
    shape = (count,) + (1,) * max(first.ndim, last.ndim)
    points = first + (last - first) * weights.reshape(shape)
    if endpoint and count > 1:
        points = np.concatenate([points[:-1], np.broadcast_to(last, points.shape[1:])[None]])
    moved = np.moveaxis(points, 0, axis)
    return (moved, step) if retstep else moved


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, *, axis: int = 0
) -> Any:
    """Powers of a base with exponents in equal steps."""
    if np.ndim(base):
        raise untraceable("np.logspace with several bases", "Write base ** np.linspace(start, stop, num).")
    return np.power(base, linspace(start, stop, num, endpoint, axis=axis))


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, *, axis: int = 0) -> Any:
    """Equal ratios from one positive end to the other."""
    first, last = np.log(as_expression(start)), np.log(as_expression(stop))
    return np.exp(linspace(first, last, num, endpoint, axis=axis))


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences along axes, one-sided ones at the ends; steps are numbers or coordinates."""
    values = Expression(as_node(f))
    axes = range(values.ndim) if axis is None else [axis] if np.ndim(axis) == 0 else list(axis)
    numbers = [axis_number("gradient", k, values.ndim) for k in axes]
    steps = list(varargs) or [1.0]
    if len(steps) == 1:
        steps = steps * len(numbers)
    if len(steps) != len(numbers):
        raise ArgumentError(f"gradient: {len(varargs)} steps for {len(numbers)} axes")
    if edge_order not in (1, 2):
        raise ArgumentError("'edge_order' greater than 2 not supported")
    found = [_slope(values, k, h, edge_order) for k, h in zip(numbers, steps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(values: Expression, axis: int, step: Any, edge_order: int) -> Any:
    y = Expression(moveaxis(values.node, axis, -1))
    (count,) = known_sizes("gradient", y.shape[-1:])
    if count < edge_order + 1:
        raise ArgumentError("gradient: too few entries; edge_order + 1 are needed along each axis")
    distance = Expression(as_node(step))
    widths = np.diff(distance) if distance.ndim else distance + np.zeros(count - 1)
    if widths.shape != (count - 1,):
        raise ShapeError(f"gradient: {distance.shape} coordinates for an axis of size {count}")
    slopes = np.diff(y) / widths
    before, after = widths[:-1], widths[1:]
    inner = (slopes[..., :-1] * after + slopes[..., 1:] * before) / (before + after)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        bends = (slopes[..., 1:] - slopes[..., :-1]) / (before + after)
        first = first - bends[..., :1] * widths[:1]
        last = last + bends[..., -1:] * widths[-1:]
    return np.moveaxis(np.concatenate([first, inner, last], -1), -1, axis)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Piecewise linear interpolation of points that ascend."""
    if period is not None:
        return _periodic(x, xp, fp, abs(period))
    at, points, values = (Expression(as_node(value)) for value in (x, xp, fp))
    (count,) = known_sizes("interp", points.shape)
    if values.shape != points.shape or not count:
        raise ShapeError(f"interp: points of shape {points.shape} and values of shape {values.shape}")
    low = values[0] if left is None else left
    high = values[-1] if right is None else right
    if count == 1:
        inside = values[0] + 0.0 * at
    else:
        k = np.clip(np.searchsorted(points, at, side="right") - 1, 0, count - 2)
        slope = (values[k + 1] - values[k]) / (points[k + 1] - points[k])
        inside = values[k] + slope * (at - points[k])
    return where(at < points[0], low, where(at > points[-1], high, inside))


def _periodic(x: Any, xp: Any, fp: Any, period: float) -> Any:
    """The same where points repeat: they are sorted, and continued by one on both sides."""
    if period == 0:
        raise ArgumentError("period must be a non-zero value")
    points, values = as_expression(xp) % period, as_expression(fp)
    order = np.argsort(points)
    points, values = points[order], values[order]
    points = np.concatenate([points[-1:] - period, points, points[:1] + period])
    return interp(as_expression(x) % period, points, np.concatenate([values[-1:], values, values[:1]]))


@implements(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Powers of the entries as columns."""
    values = Expression(as_node(x))
    count = len(values) if N is None else int(N)
    columns = [values**k if k else np.ones_like(values) for k in range(count)]
    return np.stack(columns if increasing else columns[::-1], 1)


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *arguments: Any, **options: Any) -> Any:
    """Functions by conditions, the last that holds; each is computed everywhere."""
    value = as_expression(x)
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    conditions = [truth(condition) for condition in conditions]
    choices = list(funclist)
    if len(choices) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(f"piecewise: {len(choices)} functions for {len(conditions)} conditions")
    has_default = len(choices) > len(conditions)
    result: Any = _of(choices[-1], value, arguments, options) if has_default else 0.0
    for condition, choice in zip(conditions, choices, strict=False):
        result = where(condition, _of(choice, value, arguments, options), result)
    return result


def _of(choice: Any, value: Expression, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return choice(value, *arguments, **options) if callable(choice) else choice


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """sin(πx)/(πx), by its series below 1, where the quotient and its derivatives lose digits."""
    angle = as_node(x) * math.pi
    square = multiply(angle, angle)
    series: Any = 0.0
    for k in reversed(range(SINC_TERMS)):
        series = multiply(square, series) if not is_number(series) else square * series
        series = series + (-1.0) ** k / math.factorial(2 * k + 1)
    is_small = table.less(square, 1.0)
    safe = table.where(is_small, 1.0, angle)
    return Expression(table.where(is_small, series, table.sin(safe) / safe))


@implements(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2.0 * math.pi) -> Any:
    """Angles without jumps: multiples of the period are added."""
    angles = Expression(moveaxis(as_node(p), axis, -1))
    steps = np.diff(angles)
    limit = period / 2.0 if discont is None else max(discont, period / 2.0)
    wrapped: Any = steps - period * np.floor((steps + period / 2.0) / period)
    wrapped = where((wrapped == -period / 2.0) & (steps > 0), period / 2.0, wrapped)
    turns = np.round((wrapped - steps) / period) * period
    added = np.cumsum(where(np.abs(steps) < limit, 0.0, turns), axis=-1)
    return np.moveaxis(np.concatenate([angles[..., :1], angles[..., 1:] + added], -1), -1, axis)


@implements(np.fmax)
def fmax(x: Any, y: Any, /) -> Any:
    """The larger of two values, the other one where one is missing."""
    return _ignoring_missing(np.maximum, x, y)


@implements(np.fmin)
def fmin(x: Any, y: Any, /) -> Any:
    """The smaller of two values, the other one where one is missing."""
    return _ignoring_missing(np.minimum, x, y)


def _ignoring_missing(function: Any, x: Any, y: Any) -> Any:
    first, second = Expression(as_node(x)), Expression(as_node(y))
    return function(where(np.isnan(first), second, first), where(np.isnan(second), first, second))


@implements(np.copysign)
def copysign(x: Any, y: Any, /) -> Any:
    """The size of one value with the sign of another; -0.0 counts as positive."""
    size = np.abs(Expression(as_node(x)))
    return where(Expression(as_node(y)) < 0, -size, size)


@implements(np.logaddexp2)
def logaddexp2(x: Any, y: Any, /) -> Any:
    """log2(2^x + 2^y)."""
    scale = math.log(2.0)
    first, second = Expression(as_node(x)), Expression(as_node(y))
    return np.logaddexp(first * scale, second * scale) / scale


@implements(np.ldexp)
def ldexp(x: Any, exponent: Any, /) -> Any:
    """x 2^exponent."""
    return Expression(as_node(x)) * 2.0 ** as_array(exponent)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Entries put in before known positions."""
    array = as_expression(arr)
    if axis is None:
        array, axis = array.ravel(), 0
    number = axis_number("insert", axis, array.ndim)
    if isinstance(obj, slice) or np.ndim(obj):
        return _inserted(array, obj, values, number)
    position = int(obj)
    lead = (slice(None),) * number
    before, after = array[(*lead, slice(None, position))], array[(*lead, slice(position, None))]
    new: Any = as_expression(values)
    frame = before.shape[:number], before.shape[number + 1 :]
    if new.ndim < array.ndim:
        new = np.expand_dims(np.broadcast_to(new, frame[0] + frame[1]), number) if array.ndim > 1 else new
        new = new.reshape(-1) if array.ndim == 1 else new
    return np.concatenate([before, new, after], number)


def _inserted(array: Expression, places: Any, values: Any, axis: int) -> Any:
    """One entry before each of several positions: NumPy says which one comes from where."""
    (size,) = known_sizes("insert", array.shape[axis : axis + 1])
    chosen: Any = range(*places.indices(size)) if isinstance(places, slice) else np.asarray(places)
    if isinstance(chosen, np.ndarray) and chosen.dtype == bool:
        chosen = np.flatnonzero(chosen)
    count = np.size(np.arange(size + 1)[chosen])
    order = np.insert(np.arange(size), chosen, size + np.arange(count))
    frame = list(known_sizes("insert", array.shape))
    frame[axis] = count
    new = np.broadcast_to(as_expression(values), frame)
    return np.take(np.concatenate([array, new], axis), order, axis)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """What is left without entries at known positions."""
    array = as_expression(arr)
    if axis is None:
        array, axis = array.ravel(), 0
    number = axis_number("delete", axis, array.ndim)
    (size,) = known_sizes("delete", array.shape[number : number + 1])
    return array[(*(slice(None),) * number, np.delete(np.arange(size), obj))]
