"""Primitives that put entries in order, and running sums, products and extrema."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.frontends import special
from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.places import integer_entries
from hesse.frontends.jaxpr.table import enter, is_truth, is_whole, primitive, traced

LONGEST = 256
"""Up to here running maxima and the like are computed from all pairs of entries; then they are JAX's."""


@primitive("sort")
def sort(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """Arrays in the order of the first ones along an axis."""
    if len(operands) == 1 and not is_whole(operands[0]) and not is_truth(operands[0]):
        return [np.sort(operands[0], axis=dimension)]
    order: Any = None
    for key in reversed(operands[:num_keys]):
        rows = np.multiply(traced(key), 1.0)
        further = np.argsort(rows if order is None else taken(rows, order, dimension), axis=dimension)
        order = further if order is None else taken(order, further, dimension)
    return [order if _is_count(one, dimension) else taken(one, order, dimension) for one in operands]


def _is_count(value: Any, axis: int) -> bool:
    """Whether an array holds the numbers of its entries along an axis."""
    if isinstance(value, Expression) or np.asarray(value).dtype.kind not in "iu":
        return False
    size = np.shape(value)[axis]
    spread = np.arange(size).reshape([-1 if k == axis else 1 for k in range(np.ndim(value))])
    return bool(np.all(value == spread))


def taken(x: Any, order: Any, axis: int) -> Any:
    """Entries along an axis at places of their own in each row."""
    x = traced(x)
    if not is_whole(x):
        return np.take_along_axis(x, order, axis)
    shape = tuple(map(int, x.shape))
    grids = np.ogrid[tuple(map(slice, np.shape(order)))]
    flat: Any = 0
    for k, size in enumerate(shape):
        flat = np.add(np.multiply(flat, size), order if k == axis else grids[k])
    return integer_entries(x, flat)


@primitive("top_k")
def top_k(x: Any, k: int, axis: int = -1, **_: Any) -> Any:
    """The largest entries along an axis, and their places."""
    axis %= x.ndim
    order = np.argsort(np.negative(np.multiply(x, 1.0)), axis)[(*[slice(None)] * axis, slice(k))]
    return taken(x, order, axis), order


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    """From the beginning of an axis, or from its end."""

    def handler(x: Any, axis: int, reverse: bool) -> Any:
        if not reverse:
            return function(x, axis)
        found = function(np.flip(x, axis), axis)
        return NotImplemented if found is NotImplemented else np.flip(found, axis)

    return handler


def _of_all_before(reduce: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    """A reduction of each entry with all before it."""

    def function(x: Any, axis: int) -> Any:
        if not 0 < x.shape[axis] <= LONGEST or is_whole(x):
            return NotImplemented
        rows = np.moveaxis(x, axis, -1)
        is_before = np.tri(x.shape[axis], dtype=bool)
        return np.moveaxis(reduce(np.where(is_before, rows[..., None, :], -math.inf)), -1, axis)

    return function


def _largest(x: Any) -> Any:
    return np.max(x, axis=-1)


def _cummin(x: Any, axis: int) -> Any:
    found = _of_all_before(_largest)(np.negative(x), axis)
    return NotImplemented if found is NotImplemented else np.negative(found)


RUNNING: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": _of_all_before(_largest),
    "cummin": _cummin,
    "cumlogsumexp": _of_all_before(lambda x: special.logsumexp(x, -1)),
}
for _name, _function in RUNNING.items():
    enter([_name], _running(_function))
