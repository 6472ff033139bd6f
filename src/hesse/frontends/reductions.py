"""Sums, means, extrema, norms and running sums over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hesse.ops.elementwise as table
from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.decompositions import svdvals
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import (
    as_expression,
    as_node,
    axis_number,
    axis_numbers,
    expand,
    is_boolean,
    known_sizes,
)
from hesse.frontends.structural import expand_dims, moveaxis, ravel, reshape
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import logical_not, truth
from hesse.frontends.ufuncs import where as chosen
from hesse.ir import Node, Size, broadcast, multiply, pairwise, scale, select, total, transpose, uniform, zero
from hesse.ops import spectra, structural
from hesse.ops.integers import as_integer
from hesse.ops.reshaping import maximum_entry


def _kept(node: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    return expand_dims(node, axes) if keepdims and axes else node


def held_values(a: Any, where: Any, filling: float) -> Any:
    """The values, with another number where a mask does not hold."""
    if where is True:
        return a
    result = chosen(where, a, bool(filling) if is_boolean(a) else filling)
    if result.shape != np.shape(a):
        raise ShapeError(f"where: a mask of shape {np.shape(where)} for values of shape {np.shape(a)}")
    return result


@implements(np.sum)
def sum_(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Expression:
    """The sum over axes, of what a mask holds for."""
    held = held_values(a, where, 0)
    node = as_node(held)
    axes = axis_numbers("sum", axis, node.rank)
    result = _counted(_kept(total(node, axes), axes, keepdims), held)
    return result if initial is None else call(np.add, (result, initial))


def _counted(result: Node, added: Any) -> Expression:
    """A sum; of integers, and of conditions that hold, it may serve as a position: that of a threshold."""
    is_integer = is_boolean(added) or (isinstance(added, Expression) and added.index is not None)
    return Expression(result, index=as_integer(result) if is_integer else None)


def _mean(node: Node, axes: tuple[int, ...], correction: float = 0.0) -> Node:
    """The sum divided by the number of entries less a correction."""
    sizes = [node.shape[k] for k in axes]
    summed = total(node, axes)
    if 0 in sizes:
        return uniform(math.nan, summed.shape)
    if any(isinstance(size, str) for size in sizes):
        count = total(uniform(1.0, sizes), range(len(sizes))) - correction
        return summed / broadcast(count, summed.shape, ())
    number = math.prod(known_sizes("mean", sizes)) - correction
    return scale(summed, 1.0 / number if number > 0 else math.inf)


def _number_held(a: Any, axis: Any, keepdims: bool, where: Any) -> Expression:
    """For how many entries a mask holds."""
    return sum_(Expression(uniform(1.0, as_node(a).shape)), axis, keepdims=keepdims, where=where)


@implements(np.mean)
def mean(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """The mean over axes, of what a mask holds for."""
    if where is not True:
        return sum_(a, axis, keepdims=keepdims, where=where) / _number_held(a, axis, keepdims, where)
    node = as_node(a)
    axes = axis_numbers("mean", axis, node.rank)
    return Expression(_kept(_mean(node, axes), axes, keepdims))


@implements(np.var)
def var(
    a: Any,
    axis: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float = 0,
    where: Any = True,
) -> Any:
    """The mean square distance from the mean, of what a mask holds for."""
    if where is not True:
        off = held_values(as_expression(a) - mean(a, axis, keepdims=True, where=where), where, 0)
        count = _number_held(a, axis, keepdims, where)
        return sum_(off * off, axis, keepdims=keepdims) / (count - (ddof or correction))
    node = as_node(a)
    axes = axis_numbers("var", axis, node.rank)
    distance = node - expand(_kept(_mean(node, axes), axes, True), node.shape)
    return Expression(_kept(_mean(multiply(distance, distance), axes, ddof or correction), axes, keepdims))


@implements(np.std)
def std(
    a: Any,
    axis: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float = 0,
    where: Any = True,
) -> Expression:
    """The square root of the variance."""
    variance = var(a, axis, ddof=ddof, keepdims=keepdims, correction=correction, where=where)
    return Expression(table.sqrt(variance.node))


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean over axes, with weights."""
    if weights is None and not returned:
        return mean(a, axis, keepdims=keepdims)
    weights = np.ones_like(as_expression(a)) if weights is None else weights
    node, weight = as_node(a), as_node(weights)
    axes = axis_numbers("average", axis, node.rank)
    if weight.shape != node.shape:
        if weight.shape != tuple(node.shape[k] for k in axes):
            raise ShapeError(
                f"average: weights of shape {weight.shape} for values of shape {node.shape} over axes {axes}"
            )
        weight = broadcast(weight, node.shape, axes)
    whole = total(weight, axes)
    result = Expression(_kept(total(multiply(node, weight), axes) / whole, axes, keepdims))
    return (result, Expression(_kept(whole, axes, keepdims))) if returned else result


def merged_axes(node: Node, axes: tuple[int, ...], last: bool) -> Node:
    """The given axes as one axis, at the end or at the front."""
    rest = [k for k in range(node.rank) if k not in axes]
    kept = tuple(node.shape[k] for k in rest)
    moved = transpose(node, [*rest, *axes] if last else [*axes, *rest])
    if len(axes) == 1:
        return moved
    count = math.prod(known_sizes("a reduction over several axes", [node.shape[k] for k in axes]))
    merged: tuple[Size, ...] = (*kept, count) if last else (count, *kept)
    return reshape(moved, merged)


@implements(np.prod)
def prod(
    a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Expression:
    """The product over axes, of what a mask holds for."""
    node = as_node(held_values(a, where, 1))
    axes = axis_numbers("prod", axis, node.rank)
    result = Expression(_kept(structural.product(merged_axes(node, axes, last=False)), axes, keepdims))
    return result if initial is None else call(np.multiply, (result, initial))


def _largest(node: Node, axes: Sequence[int]) -> Node:
    """The maxima along some axes; equal entries share the derivative.

    Axes of one entry are left out: the maximum of `x[None]` is a view of that of `x`, and cancels against it.
    """
    if 1 in node.shape:
        long = [k for k, size in enumerate(node.shape) if size != 1]
        rest = [k for k in range(node.rank) if k not in axes]
        core = select(node, [slice(None) if k in long else 0 for k in range(node.rank)])
        found = _largest(core, [long.index(k) for k in axes if k in long])
        return broadcast(found, [node.shape[k] for k in rest], [rest.index(k) for k in long if k not in axes])
    if not axes:
        return node
    if len(axes) == node.rank:
        return maximum_entry(node)
    return structural.shared_maximum(merged_axes(node, tuple(axes), last=True))


def _extremum(name: str, sign: float, larger: np.ufunc) -> Callable[..., Expression]:
    def handler(
        a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Expression:
        if where is not True and initial is None:
            raise ArgumentError(f"np.{name} with where= needs initial=: there may be no entry to take")
        if initial is not None:
            held = held_values(as_expression(a), where, -sign * math.inf)
            return call(larger, (handler(held, axis, keepdims=keepdims), initial))  # type: ignore[no-any-return]
        expression = as_expression(a)
        node = as_node(a)
        axes = axis_numbers(name, axis, node.rank)
        if any(node.shape[k] == 0 for k in axes):
            raise ShapeError(
                f"{name}: the axes {axes} of the shape {node.shape} are empty and have no {name}"
            )
        rest = tuple(size for k, size in enumerate(node.shape) if k not in axes)
        if not axes or 0 in rest:
            result = zero(rest) if 0 in rest else node
        else:
            result = scale(_largest(scale(node, sign), axes), sign)
        return Expression(_kept(result, axes, keepdims), boolean=expression.boolean)

    return handler


maximum = implements(np.max, np.amax)(_extremum("max", 1.0, np.maximum))
minimum = implements(np.min, np.amin)(_extremum("min", -1.0, np.minimum))


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The maximum less the minimum."""
    return maximum(a, axis, keepdims=keepdims) - minimum(a, axis, keepdims=keepdims)


@implements(np.any)
def any_(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Expression:
    """Whether an entry is not zero, of those that a mask holds for."""
    held = a if where is True else call(np.logical_and, (a, where))
    counted = sum_(Expression(truth(held).node), axis, keepdims=keepdims).node
    return Expression(table.greater(counted, 0.0), boolean=True)


@implements(np.all)
def all_(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Expression:
    """Whether no entry is zero, of those that a mask holds for."""
    return logical_not(any_(logical_not(a), axis, keepdims=keepdims, where=where))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Expression:
    """The number of entries that are not zero."""
    return sum_(truth(a), axis, keepdims=keepdims)


def _position(name: str, function: Callable[[Node], Node]) -> Callable[..., Any]:
    def handler(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        node = as_node(a)
        if axis is None:
            result = Expression(function(ravel(node)))
            return result.reshape((1,) * node.rank) if keepdims else result
        number = axis_number(name, axis, node.rank)
        result = Expression(function(moveaxis(node, number, -1)))
        return call(np.expand_dims, (result, number)) if keepdims else result

    return handler


argmax = implements(np.argmax)(_position("argmax", structural.argmax))
argmin = implements(np.argmin)(_position("argmin", structural.argmin))


def _along(name: str, function: Callable[[Node], Node], axis: Any, node: Node, place: int) -> Expression:
    """A function of one axis that keeps it, applied where `function` expects that axis."""
    number = axis_number(name, axis, node.rank)
    result = Expression(function(moveaxis(node, number, place)))
    return call(np.moveaxis, (result, place, number))  # type: ignore[no-any-return]


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Expression:
    """The values of an axis in ascending order."""
    node, axis = (ravel(as_node(a)), 0) if axis is None else (as_node(a), axis)
    return _along("sort", structural.sort, axis, node, -1)


@implements(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Expression:
    """The positions that sort an axis."""
    node, axis = (ravel(as_node(a)), 0) if axis is None else (as_node(a), axis)
    return _along("argsort", structural.argsort, axis, node, -1)


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None) -> Expression:
    """Running sums along an axis."""
    node, axis = (ravel(as_node(a)), 0) if axis is None else (as_node(a), axis)
    return _counted(_along("cumsum", structural.cumulative_sum, axis, node, 0).node, a)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None) -> Expression:
    """Running products along an axis."""
    node, axis = (ravel(as_node(a)), 0) if axis is None else (as_node(a), axis)
    return _along("cumprod", structural.cumulative_product, axis, node, 0)


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Expression:
    """Vector norms of one axis, matrix norms of two."""
    node = as_node(x)
    if axis is None and ord is None:
        axes = tuple(range(node.rank))
        return Expression(_kept(_length(node, axes), axes, keepdims))
    axes = axis_numbers("norm", axis, node.rank)
    if len(axes) not in (1, 2):
        raise ShapeError(
            f"norm of order {ord!r}: one axis (a vector) or two (a matrix) are needed, not {axes}"
        )
    result = _vector_norm(node, ord, axes) if len(axes) == 1 else _matrix_norm(node, ord, axes)
    return Expression(_kept(result, axes, keepdims))


def _length(node: Node, axes: tuple[int, ...]) -> Node:
    return table.sqrt(total(multiply(node, node), axes))


def _vector_norm(node: Node, order: Any, axes: tuple[int, ...]) -> Node:
    if order is None or order == 2:
        return _length(node, axes)
    sizes = table.abs(node)
    if order == 1:
        return total(sizes, axes)
    if order in (math.inf, -math.inf):
        return (maximum if order > 0 else minimum)(Expression(sizes), axes).node
    if order == 0:
        return total(truth(Expression(node)).node, axes)
    if not isinstance(order, int | float | np.number):
        raise untraceable(f"np.linalg.norm of a vector with ord={order!r}", "Give a number: 1, 2, np.inf.")
    return table.power(total(table.power(sizes, float(order)), axes), 1.0 / float(order))


def _matrix_norm(node: Node, order: Any, axes: tuple[int, ...]) -> Node:
    if order is None or order == "fro":
        return _length(node, axes)
    if order in (1, -1, math.inf, -math.inf):
        row, column = axes
        summed, rest = (row, column) if abs(order) == 1 else (column, row)
        sums = Expression(total(table.abs(node), [summed]))
        return (maximum if order > 0 else minimum)(sums, rest - (summed < rest)).node
    if order == 2:
        return _largest_singular_value(node, axes)
    if order in (-2, "nuc"):
        lead = [k for k in range(node.rank) if k not in axes]
        values = svdvals(Expression(transpose(node, [*lead, *axes])))
        return as_node(values[..., -1] if order == -2 else values.sum(axis=-1))
    raise untraceable(
        f"np.linalg.norm of a matrix with ord={order!r}", "Use 'fro', 'nuc', 1, 2, np.inf or one of -1, -2."
    )


def _largest_singular_value(node: Node, axes: tuple[int, ...]) -> Node:
    """The square root of the largest eigenvalue of A A' or A' A, whichever is smaller."""
    rows, columns = known_sizes("norm", [node.shape[k] for k in axes])
    lead = [k for k in range(node.rank) if k not in axes]
    moved = transpose(node, [*lead, *(axes if rows <= columns else axes[::-1])])
    values = spectra.eigvalsh(pairwise("...ij,...kj->...ik", moved, moved))
    return table.sqrt(select(values, [slice(None)] * len(lead) + [min(rows, columns) - 1]))


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of all entries, or of those along axes."""
    node = as_node(x)
    axes = axis_numbers("vector_norm", axis, node.rank)
    result = _vector_norm(merged_axes(node, axes, last=True), ord, (node.rank - len(axes),))
    return Expression(_kept(result, axes, keepdims))


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Expression:
    """The norm of the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)
