"""Writing by integers: `x.at[i].set(v)`, `add`, `multiply`, `min`, `max`, and windows at traced places."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode

from hesse.frontends.expression import Expression
from hesse.frontends.integers import integer_node
from hesse.frontends.jaxpr.foreign import called
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.places import clamped, column, flat, is_inside
from hesse.frontends.jaxpr.table import is_truth, is_whole, primitive, traced
from hesse.frontends.jaxpr.walk import OTHER, WALKED, Walk, walked
from hesse.frontends.operands import as_node
from hesse.frontends.placing import groups, placed
from hesse.frontends.tracing import untraceable
from hesse.ir import add, reshape
from hesse.ops.structural import scatter as scatter_node

MOST_ROUNDS = 8
"""Known places may occur so often in a product, a maximum or a minimum; more is left to JAX."""

MOST_PAIRS = 1_000_000
"""Pairs of a place and an entry that are combined at places that are not known; more is left to JAX."""


# Where ------------------------------------------------------------------------


def _places(
    shape: Sequence[int], indices: Any, updates: Sequence[int], numbers: Any, mode: Any
) -> tuple[Any, Any]:
    """For each entry of the updates its place among all entries, and whether it is written; True: all are."""
    windows = tuple(map(int, numbers.update_window_dims))
    batch_axes = [axis for axis in range(len(updates)) if axis not in windows]
    kept = [
        axis
        for axis in range(len(shape))
        if axis not in numbers.inserted_window_dims and axis not in numbers.operand_batching_dims
    ]
    sizes = dict.fromkeys(range(len(shape)), 1) | {
        axis: updates[at] for axis, at in zip(kept, windows, strict=True)
    }
    keys: list[Any] = [np.zeros((), int)] * len(shape)
    is_written: Any = True
    for k, axis in enumerate(map(int, numbers.scatter_dims_to_operand_dims)):
        start, last = column(indices, k), shape[axis] - sizes[axis]
        if GatherScatterMode.from_any(mode) is not GatherScatterMode.CLIP:
            own = is_inside(start, last)
            is_written = own if is_written is True else _both(is_written, own)
        keys[axis] = _spread(clamped(start, last), batch_axes, updates)
    for axis, along in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        keys[axis] = _counted(updates, batch_axes[along])
    for axis, at in zip(kept, windows, strict=True):
        keys[axis] = np.add(keys[axis], _counted(updates, at))
    return flat(shape, keys), is_written if is_written is True else _spread(is_written, batch_axes, updates)


def _both(x: Any, y: Any) -> Any:
    return x if y is True else np.logical_and(x, y)


def _spread(value: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
    """Axes at their places among others of size 1."""
    return np.reshape(value, tuple(shape[axis] if axis in axes else 1 for axis in range(len(shape))))


def _counted(shape: Sequence[int], axis: int) -> np.ndarray:
    return np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])


# What is written --------------------------------------------------------------


def written(x: Expression, places: np.ndarray, values: Any) -> Any:
    """`x` with other values at known places, each of its kind; the last of several for one place counts."""
    if places.size == 0:
        return x
    values = traced(values)
    shape = tuple(map(int, x.shape))
    owners, inside = np.zeros(math.prod(shape), int), np.arange(math.prod(shape))
    owners[places.ravel()], inside[places.ravel()] = 1, np.arange(places.size)
    sources = [as_node(x), as_node(values)]
    terms = [
        term
        for owner, targets, own in groups(owners, inside)
        for term in placed(sources[owner], targets, own, shape)
    ]
    return Expression(add(terms, shape), boolean=x.boolean)


def _known_places(places: Any, is_written: Any, values: Any) -> tuple[np.ndarray, Any]:
    """The places that are written to, and the values for them."""
    whole = np.broadcast_to(places, np.shape(values))
    if is_written is True or np.all(is_written):
        return whole, values
    kept = np.broadcast_to(is_written, np.shape(values)).ravel().nonzero()[0]
    return whole.ravel()[kept], np.ravel(values)[kept]


def _in_rounds(x: Any, places: np.ndarray, values: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Known entries combined with values one after the other, a place at most once in each round."""
    if not places.size:
        return x
    order = np.argsort(places, axis=None, kind="stable")
    ranked = places.ravel()[order]
    starts = np.r_[0, np.flatnonzero(np.diff(ranked)) + 1]
    rounds = np.empty(places.size, int)
    rounds[order] = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
    if rounds.max() >= MOST_ROUNDS:
        return NotImplemented
    for k in range(rounds.max() + 1):
        chosen = places.ravel()[rounds == k] if rounds.max() else places
        own = np.ravel(values)[(rounds == k).nonzero()[0]] if rounds.max() else values
        coordinates = np.unravel_index(chosen, x.shape) if x.ndim else ()
        x = written(x, chosen, combine(x[coordinates] if x.ndim else x, own))
    return x


def _is_real(*values: Any) -> bool:
    return not any(is_whole(value) or is_truth(value) for value in values)


def _is_traced(places: Any, is_written: Any) -> bool:
    return isinstance(places, Expression) or isinstance(is_written, Expression)


@primitive("scatter-add")
def scatter_add(x: Any, indices: Any, updates: Any, dimension_numbers: Any, mode: Any, **_: Any) -> Any:
    """Values added at places, of which several may be the same."""
    if not _is_real(x, updates):
        return NotImplemented
    shape = tuple(map(int, np.shape(x)))
    places, is_written = _places(shape, indices, np.shape(updates), dimension_numbers, mode)
    if not _is_traced(places, is_written):
        places, updates = _known_places(places, is_written, updates)
        if np.unique(places).size == places.size:
            zeros = traced(np.zeros(shape))
            return np.add(x, written(zeros, places, updates)) if places.size else x
    elif is_written is not True:
        updates = np.where(is_written, updates, 0.0)
    return np.add(x, _summed(np.broadcast_to(places, np.shape(updates)), updates, shape))


@primitive("scatter-sub")
def scatter_sub(x: Any, indices: Any, updates: Any, **options: Any) -> Any:
    """Values subtracted at places."""
    return (
        scatter_add(x, indices, np.negative(updates), **options) if _is_real(x, updates) else NotImplemented
    )


def _summed(places: Any, values: Any, shape: Sequence[int]) -> Expression:
    """Values added up at places of an array of zeros."""
    index = integer_node(places)
    assert index is not None
    return Expression(reshape(scatter_node(as_node(traced(values)), index, math.prod(shape)), tuple(shape)))


def _of_pairs(
    x: Any, places: Any, is_written: Any, values: Any, reduced: Callable[..., Any], neutral: float
) -> Any:
    """What is combined at each place, by a table of all pairs of a place and a value."""
    size, count = math.prod(np.shape(x)), math.prod(np.shape(values))
    if size * count > MOST_PAIRS or not count:
        return NotImplemented if count else neutral
    is_here = np.equal(np.ravel(np.broadcast_to(places, np.shape(values))), np.arange(size)[:, None])
    if is_written is not True:
        is_here = np.logical_and(is_here, np.ravel(np.broadcast_to(is_written, np.shape(values))))
    table = np.where(is_here, np.ravel(values), neutral)
    return np.reshape(reduced(table, axis=1), np.shape(x))


def _combined(
    combine: Callable[[Any, Any], Any], reduced: Callable[..., Any], neutral: float
) -> Callable[..., Any]:
    def handler(x: Any, indices: Any, updates: Any, dimension_numbers: Any, mode: Any, **_: Any) -> Any:
        shape = tuple(map(int, np.shape(x)))
        places, is_written = _places(shape, indices, np.shape(updates), dimension_numbers, mode)
        if not _is_real(x, updates):
            return NotImplemented
        if not _is_traced(places, is_written):
            return _in_rounds(traced(x), *_known_places(places, is_written, updates), combine)
        found = _of_pairs(x, places, is_written, updates, reduced, neutral)
        return found if found is NotImplemented else combine(x, found)

    return handler


primitive("scatter-mul")(_combined(np.multiply, np.prod, 1.0))
primitive("scatter-min")(_combined(np.minimum, np.min, math.inf))
primitive("scatter-max")(_combined(np.maximum, np.max, -math.inf))


@walked("scatter")
def scatter(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Other values at places. Which one of several for a place that is traced, JAX itself says."""
    x, indices, updates = operands
    parameters = equation.params
    if parameters["update_jaxpr"] is not None:
        raise untraceable("x.at[i].apply(f)", "JAX has no derivative of it. Write x.at[i].set(f(x[i])).")
    if is_whole(x) or is_whole(updates) or not math.prod(np.shape(updates)):
        return WALKED[OTHER](walk, equation, operands) if math.prod(np.shape(updates)) else [traced(x)]
    shape = tuple(map(int, np.shape(x)))
    places, is_written = _places(
        shape, indices, np.shape(updates), parameters["dimension_numbers"], parameters["mode"]
    )
    if not _is_traced(places, is_written):
        return [written(traced(x), *_known_places(places, is_written, updates))]
    return [_replaced(walk, equation, x, indices, updates)]


def _replaced(walk: Walk, equation: JaxprEqn, x: Any, indices: Any, updates: Any) -> Any:
    """Each entry, or the update whose number JAX writes to its place."""
    shape, new = tuple(map(int, np.shape(x))), tuple(map(int, np.shape(updates)))
    options = {name: value for name, value in equation.params.items() if not name.startswith("update_")}
    order = functools.partial(_order, shape=shape, new=new, options=tuple(options.items()))
    jaxpr = jax.make_jaxpr(order)(jax.ShapeDtypeStruct(np.shape(indices), equation.invars[1].aval.dtype))
    (inner,) = [one for one in jaxpr.eqns if one.primitive.name == "scatter"]
    numbers = np.arange(1, math.prod(new) + 1, dtype=np.int32).reshape(new)
    (writer,) = called(walk, "scatter", inner, [np.zeros(shape, np.int32), indices, numbers])
    flat_updates = np.ravel(traced(updates))
    chosen = flat_updates[clamped(np.subtract(writer, 1), math.prod(new) - 1)]
    return np.where(np.greater(writer, 0), chosen, x)


def _order(indices: Any, shape: Sequence[int], new: Sequence[int], options: Sequence[Any]) -> Any:
    """The number of the update that is written to each entry, counted from 1; 0: none is."""
    numbers = jnp.arange(1, math.prod(new) + 1, dtype=jnp.int32).reshape(new)
    return lax.scatter(jnp.zeros(shape, jnp.int32), indices, numbers, **dict(options))


@primitive("dynamic_update_slice")
def dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    """A window with other entries, moved inside if it hangs over an edge."""
    x, update = traced(x), traced(update)
    if is_whole(x) or not update.size:
        return NotImplemented if update.size else x
    keys = []
    for axis, (start, size, own) in enumerate(zip(starts, x.shape, update.shape, strict=True)):
        begin = clamped(start, size - own) if own < size else np.zeros((), int)
        keys.append(np.add(begin, _counted(update.shape, axis)))
    places = flat(x.shape, keys)
    if not isinstance(places, Expression):
        return written(x, np.asarray(places), update)
    places = np.broadcast_to(places, update.shape)
    is_new = np.greater(_summed(places, np.ones(update.shape), x.shape), 0.0)
    return np.where(is_new, _summed(places, update, x.shape), x)
