"""Reductions of ATen: variances, norms, extrema, orders, with PyTorch's derivatives at ties and at 0."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hesse.frontends import special
from hesse.frontends.aten.products import axes, number
from hesse.frontends.aten.table import Typed, aten, enter
from hesse.frontends.aten.tensor import known
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node, axis_number, axis_numbers
from hesse.frontends.reductions import merged_axes
from hesse.frontends.ufuncs import elementwise
from hesse.ir import Constant
from hesse.ops.structural import shared_maximum


def _var(x: Any, dim: Any, correction: float | None, keepdim: bool) -> Any:
    return np.var(x, axes(dim, x), ddof=1 if correction is None else correction, keepdims=keepdim)


def _std(x: Any, dim: Any, correction: float | None, keepdim: bool) -> Any:
    return elementwise("safe_sqrt", _var(x, dim, correction, keepdim))


def _with_mean(function: Callable[..., Any]) -> Callable[..., Any]:
    def both(x: Any, dim: Any, correction: float | None, keepdim: bool) -> Any:
        return function(x, dim, correction, keepdim), np.mean(x, axes(dim, x), keepdims=keepdim)

    return both


def _enter_deviation(name: str, function: Callable[..., Any]) -> None:
    """The three ways to call a variance or a deviation."""

    def of_all(x: Any, unbiased: bool = True) -> Any:
        return function(x, None, int(unbiased), False)

    def along(x: Any, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return function(x, dim, int(unbiased), keepdim)

    def corrected(x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False) -> Any:
        return function(x, dim, correction, keepdim)

    enter([f"{name}.default"], of_all)
    enter([f"{name}.dim"], along)
    enter([f"{name}.correction"], corrected)


_enter_deviation("var", _var)
_enter_deviation("std", _std)
_enter_deviation("var_mean", _with_mean(_var))
_enter_deviation("std_mean", _with_mean(_std))


def _kept(value: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """The result of a reduction, with axes of size 1 if asked for."""
    where = axis_numbers("a reduction", axes(dim, x), x.ndim)
    return np.expand_dims(value, where) if keepdim and where else value


@aten("amax")
def amax(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The maximum over axes; equal ones share the derivative."""
    if not x.ndim:
        return x
    chosen = axis_numbers("amax", axes(dim, x), x.ndim)
    if x.boolean:
        return np.any(x, axis=chosen, keepdims=keepdim)
    return _kept(
        Expression(shared_maximum(merged_axes(as_node(number(x)), chosen, last=True))), x, dim, keepdim
    )


@aten("amin")
def amin(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The minimum over axes; equal ones share the derivative."""
    if x.boolean:
        return np.logical_not(amax(np.logical_not(x), dim, keepdim))
    return np.negative(amax(np.negative(number(x)), dim, keepdim))


@aten("aminmax")
def aminmax(x: Any, dim: int | None = None, keepdim: bool = False) -> tuple[Any, Any]:
    """Both extrema."""
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


enter(["max.default"], amax)
enter(["min.default"], amin)


Handler = Callable[..., tuple[Any, ...]]


def of_rows(handler: Handler) -> Handler:
    """Let a function of an axis take tensors without axes: they are one entry."""

    @functools.wraps(handler)
    def wrapped(x: Any, *arguments: Any, **options: Any) -> tuple[Any, ...]:
        found = handler(number(x) if x.ndim else np.reshape(number(x), (1,)), *arguments, **options)
        if x.boolean:  # the extrema of truth values are such
            found = np.not_equal(found[0], 0.0), *found[1:]
        return found if x.ndim else tuple(np.reshape(part, ()) for part in found)

    return wrapped


def _chosen(x: Any, dim: int, keepdim: bool, places: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The entry of each row at a place that depends on the row, and that place."""
    axis = axis_number("a reduction", dim, x.ndim)
    place = np.expand_dims(places(np.moveaxis(x, axis, -1)), axis)
    value = np.take_along_axis(x, place, axis)
    return (value, place) if keepdim else (np.squeeze(value, axis), np.squeeze(place, axis))


@aten("max.dim")
@of_rows
def max_along(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The maximum over an axis and its place, which gets the derivative."""
    return _chosen(x, dim, keepdim, lambda rows: np.argmax(rows, -1))


@aten("min.dim")
@of_rows
def min_along(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The minimum over an axis and its place, which gets the derivative."""
    return _chosen(x, dim, keepdim, lambda rows: np.argmin(rows, -1))


@aten("kthvalue")
@of_rows
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The k-th smallest entry along an axis and its place."""
    return _chosen(x, dim, keepdim, lambda rows: np.argsort(rows, -1)[..., k - 1])


@aten("median.dim")
@of_rows
def median_along(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, ...]:
    """The middle entry along an axis, the smaller one of two, and its place."""
    return kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)


@aten("median.default")
def median(x: Any) -> Any:
    """The middle entry of all; equal ones share the derivative."""
    flat = np.ravel(x)
    is_middle = np.equal(flat, median_along(flat, 0)[0])
    return np.divide(np.sum(np.where(is_middle, flat, 0.0)), np.sum(np.multiply(is_middle, 1.0)))


@aten("sort.default", "sort.stable")
@of_rows
def sort(x: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> tuple[Any, Any]:
    """An axis in order, and the places that its entries had."""
    order = np.argsort(np.negative(x) if descending else x, dim)
    return np.take_along_axis(x, order, dim), order


@aten("topk")
@of_rows
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
    """The k largest or smallest entries along an axis, and their places."""
    axis = axis_number("topk", dim, x.ndim)
    order = np.argsort(np.negative(x) if largest else x, axis)[(*[slice(None)] * axis, slice(k))]
    return np.take_along_axis(x, order, axis), order


INTERPOLATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda part: part,
    "lower": np.zeros_like,
    "higher": np.ones_like,
    "midpoint": lambda part: np.full_like(part, 0.5),
    "nearest": lambda part: np.where(part > 0.5, 1.0, 0.0),
}
"""How far a value lies between two neighbours."""


@aten("quantile")
def quantile(
    x: Any, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"
) -> Any:
    """The values below which shares of the entries lie, interpolated between neighbours."""
    shares = q.node.value if isinstance(q, Expression) and isinstance(q.node, Constant) else q
    if isinstance(shares, Expression):
        return NotImplemented
    rows = np.sort(np.ravel(x) if dim is None or not x.ndim else np.moveaxis(x, dim, -1), -1)
    parts, below = np.modf(np.asarray(shares) * (rows.shape[-1] - 1))
    low, high = below.astype(int), np.ceil(below + parts).astype(int)
    parts = INTERPOLATIONS[interpolation](parts)
    found = np.add(rows[..., low], np.multiply(np.subtract(rows[..., high], rows[..., low]), parts))
    found = np.moveaxis(found, -1, 0) if parts.ndim else found
    if not keepdim or not x.ndim:
        return found
    kept = range(x.ndim) if dim is None else [axis_number("quantile", dim, x.ndim)]
    return np.expand_dims(found, tuple(k + parts.ndim for k in kept))


def _position(function: Callable[..., Any]) -> Callable[..., Any]:
    def handler(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        rows = number(x) if x.ndim else np.reshape(x, (1,))
        place = function(rows, axis=dim, keepdims=keepdim)
        return place if x.ndim else np.reshape(place, ())

    return handler


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim=None, keepdim=False: function(x, axis=axes(dim, x), keepdims=keepdim)


enter(["argmax"], _position(np.argmax))
enter(["argmin"], _position(np.argmin))
enter(["any"], _truth(np.any))
enter(["all"], _truth(np.all))


@aten("logsumexp")
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    """`log(sum(exp(x)))` over axes."""
    return special.logsumexp(number(x), axes(dim, x), keepdim) if x.ndim else x


@aten("logcumsumexp")
def logcumsumexp(x: Any, dim: int) -> Any:
    """The logarithms of running sums of exponentials: of each entry with all before it."""
    if not x.ndim:
        return x
    rows = np.moveaxis(x, dim, -1)
    is_before = np.tri(rows.shape[-1], dtype=bool)
    return np.moveaxis(special.logsumexp(np.where(is_before, rows[..., None, :], -math.inf), -1), -1, dim)


def vector_norm(x: Any, order: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The norm of vectors along axes; at 0 its derivatives are 0."""
    chosen, power = axes(dim, x), 2.0 if order is None else float(order)
    if math.isinf(power):
        return (amax if power > 0 else amin)(np.abs(x), dim, keepdim)
    if power == 0:
        return np.sum(np.multiply(np.not_equal(x, 0.0), 1.0), axis=chosen, keepdims=keepdim)
    if power == 1:
        return np.sum(np.abs(x), axis=chosen, keepdims=keepdim)
    if power == 2:
        return elementwise("safe_sqrt", np.sum(np.square(x), axis=chosen, keepdims=keepdim))
    total = np.sum(_size_power(x, power), axis=chosen, keepdims=keepdim)
    is_zero = np.equal(total, 0.0)
    if power < 0:
        is_zero = np.any(np.equal(x, 0.0), axis=chosen, keepdims=keepdim)
    return np.where(is_zero, 0.0, np.power(np.where(is_zero, 1.0, total), 1.0 / power))


def _size_power(x: Any, power: float) -> Any:
    """`|x| ** power`, whose derivatives at 0 are 0 where they are not finite."""
    if power > 0 and power % 2 == 0:
        return np.power(x, power)
    if power > 1:
        return np.power(np.abs(x), power)
    is_zero = np.equal(x, 0.0)
    return np.where(is_zero, 0.0, np.power(np.abs(np.where(is_zero, 1.0, x)), power))


@aten("_is_all_true")
def is_all_true(x: Any) -> Any:
    """Yes: PyTorch asks whether arguments are valid (`torch.distributions`), and nobody knows."""
    return known(torch.tensor(True))


@aten("linalg_vector_norm")
def linalg_vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The norm of vectors along axes."""
    result = vector_norm(x, ord, dim, keepdim)
    return result if dtype is None else Typed(result, dtype)


@aten("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The same by another name."""
    return linalg_vector_norm(x, p, dim, keepdim, dtype)
