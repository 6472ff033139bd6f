"""Entries chosen by masks and integers, written so, or put in new shapes, and functions of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import METHODS, call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.integers import integer_node
from hesse.frontends.operands import as_expression, axis_number, known_sizes
from hesse.frontends.tracing import decided, untraceable
from hesse.frontends.writing import array_to_write, setitem


def known_mask(name: str, condition: Any) -> np.ndarray:
    """A condition as truth values that are known while the function is traced."""
    if not isinstance(condition, Expression):
        return np.asarray(condition, bool)
    known = decided("mask", (condition != 0).node)
    if known is None:
        raise untraceable(
            f"np.{name} with a condition that is traced (the number of results depends on it)",
            "Write np.where(condition, x, y), or let the function decide by values: @hesse.branching.",
        )
    return np.asarray(known, bool)


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[np.ndarray, ...]:
    """The places where a condition holds, axis by axis."""
    return np.nonzero(known_mask("nonzero (or np.where)", a))


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> np.ndarray:
    """The places where a condition holds, counted through all axes."""
    return np.flatnonzero(known_mask("flatnonzero", a))


@implements(np.argwhere)
def argwhere(a: Any) -> np.ndarray:
    """The places where a condition holds, one after the other."""
    return np.argwhere(known_mask("argwhere", a))


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None) -> Any:
    """What of an axis a condition holds for."""
    expression = as_expression(a)
    if axis is None:
        expression, axis = expression.ravel(), 0
    mask = known_mask("compress", condition)
    if mask.ndim != 1:
        raise ShapeError(f"np.compress: a condition for one axis is needed, not one of shape {mask.shape}")
    chosen = np.flatnonzero(mask)
    return call(np.take, (expression, chosen, axis_number("compress", axis, expression.ndim)))


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """The entries for which a condition holds, in one row."""
    return as_expression(arr).ravel()[np.flatnonzero(known_mask("extract", condition))]


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """The entries in another shape, from the beginning again if there are too few."""
    expression = as_expression(a)
    count = math.prod(known_sizes("resize", expression.shape))
    return expression.ravel()[np.resize(np.arange(count), new_shape)]


def _check_mode(name: str, mode: str) -> None:
    if mode not in ("raise", "wrap", "clip"):
        raise ArgumentError(f"np.{name}: mode is 'raise', 'wrap' or 'clip', not {mode!r}")


@implements(np.choose)
def choose(a: Any, choices: Sequence[Any], *, mode: str = "raise") -> Any:
    """At each place the entry of one of several arrays, by its number."""
    _check_mode("choose", mode)
    count = len(choices)
    number = a if isinstance(a, Expression) else np.asarray(a)
    if integer_node(number) is None:
        raise ArgumentError("np.choose needs whole numbers that say which choice is taken")
    if mode == "wrap":
        number = number % count
    elif mode == "clip":
        number = np.clip(number, 0, count - 1)
    elif isinstance(number, Expression):
        raise untraceable(
            "np.choose with numbers that depend on traced values",
            "Say what numbers outside of the choices mean: mode='clip' or mode='wrap'.",
        )
    elif not np.all((number >= 0) & (number < count)):
        raise ArgumentError(
            f"np.choose: there are {count} choices, numbered from 0; another number was given"
        )
    return call(np.select, ([number == k for k in range(count)], list(choices)))


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *arguments: Any, **options: Any) -> Any:
    """A function of the rows along an axis, one after the other."""
    expression = as_expression(arr)
    number = axis_number("apply_along_axis", axis, expression.ndim)
    rows = call(np.moveaxis, (expression, number, -1))
    lead = known_sizes("apply_along_axis", rows.shape[:-1])
    if 0 in lead:
        raise ShapeError(f"np.apply_along_axis: there are no rows along axis {axis} of {expression.shape}")
    places = itertools.product(*map(range, lead))
    results = [as_expression(func1d(rows[place], *arguments, **options)) for place in places]
    whole = call(np.stack, (results,))
    whole = whole.reshape((*lead, *whole.shape[1:]))
    new = range(whole.ndim - len(lead))
    return call(np.moveaxis, (whole, [len(lead) + k for k in new], [number + k for k in new]))


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """A function with an axis as its second argument, for one axis after the other; axes are kept."""
    value: Any = as_expression(a)
    rank = value.ndim
    for axis in np.atleast_1d(axes).tolist():
        found = as_expression(func(value, axis_number("apply_over_axes", axis, rank)))
        value = found if found.ndim == rank else np.expand_dims(found, axis)
    return value


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write where a mask holds what stands at the same place among values, which repeat."""
    target = array_to_write(a, "np.putmask")
    sizes = known_sizes("putmask", target.shape)
    where = mask if isinstance(mask, Expression) else np.asarray(mask)
    if math.prod(known_sizes("putmask", where.shape)) != math.prod(sizes):
        raise ShapeError(f"np.putmask: a mask of shape {where.shape} for the shape {sizes}")
    options = {"where": where.reshape(sizes), "casting": "unsafe"}
    call(np.copyto, (target, resize(values, sizes)), options)


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write where a mask holds one value after the other."""
    target = array_to_write(arr, "np.place")
    chosen = known_mask("place", mask).reshape(known_sizes("place", target.shape))
    if chosen.any():
        setitem(target, chosen, resize(vals, int(chosen.sum())))


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write one value after the other to places that are counted through all axes."""
    target = array_to_write(a, "np.put")
    sizes = known_sizes("put", target.shape)
    if isinstance(ind, Expression):
        raise untraceable("np.put at places that depend on traced values", "Write x[i] = y.")
    places, count = np.asarray(ind), math.prod(sizes)
    _check_mode("put", mode)
    if mode == "raise" and not np.all((-count <= places) & (places < count)):
        raise ShapeError(f"np.put: there are {count} places, and others were given")
    places = np.clip(places, 0, count - 1) if mode == "clip" else places % count
    setitem(target, np.unravel_index(places, sizes), resize(v, places.shape))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """Write to entries of an axis that are chosen by integers at each place of the other axes."""
    target = array_to_write(arr, "np.put_along_axis")
    if axis is None:
        raise untraceable("np.put_along_axis with axis=None", "Write np.put(x, i, y).")
    number = axis_number("put_along_axis", axis, target.ndim)
    chosen = indices if isinstance(indices, Expression) else np.asarray(indices)
    if np.ndim(chosen) != target.ndim:
        raise ShapeError(f"put_along_axis: the shapes {target.shape} and {np.shape(chosen)} differ in rank")
    places = np.ogrid[tuple(slice(size) for size in known_sizes("put_along_axis", target.shape))]
    setitem(target, tuple(chosen if k == number else place for k, place in enumerate(places)), values)


def _reduced_at(reduction: Callable[..., Any]) -> Callable[..., Any]:
    def handler(array: Any, indices: Any, axis: int = 0) -> Any:
        rows = call(np.moveaxis, (as_expression(array), axis, 0))
        (count,) = known_sizes("reduceat", rows.shape[:1])
        starts = np.asarray(indices).tolist()
        if any(not 0 <= start < count for start in starts):
            raise ShapeError(f"reduceat: positions {starts} of an axis of size {count}")
        if not starts:
            raise ShapeError("reduceat: there are no positions")
        ends = [*starts[1:], count]
        parts = [
            call(reduction, (rows[start:end],), {"axis": 0}) if start < end else rows[start]
            for start, end in zip(starts, ends, strict=True)
        ]
        return call(np.moveaxis, (call(np.stack, (parts,)), 0, axis))

    return handler


METHODS[np.add.reduceat] = _reduced_at(np.sum)
METHODS[np.multiply.reduceat] = _reduced_at(np.prod)
METHODS[np.maximum.reduceat] = _reduced_at(np.max)
METHODS[np.minimum.reduceat] = _reduced_at(np.min)


def _accumulated(reduction: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    """Each entry of an axis with all before it."""

    def handler(array: Any, axis: int = 0) -> Any:
        rows = call(np.moveaxis, (as_expression(array), axis, -1))
        (count,) = known_sizes("accumulate", rows.shape[-1:])
        is_before = np.tri(count, dtype=bool)
        reached = call(np.where, (is_before, rows[..., None, :], neutral))
        return call(np.moveaxis, (call(reduction, (reached,), {"axis": -1}), -1, axis))

    return handler


METHODS[np.maximum.accumulate] = _accumulated(np.max, -math.inf)
METHODS[np.minimum.accumulate] = _accumulated(np.min, math.inf)
