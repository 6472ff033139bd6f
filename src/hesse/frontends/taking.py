"""Entries chosen by integers at each place of the other axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, as_node, axis_number, known_sizes
from hesse.frontends.structural import reshape
from hesse.ops.structural import take_along


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Entries of an axis, chosen by integers at each place of the other axes."""
    expression = as_expression(arr)
    if axis is None:
        expression, axis = expression.ravel(), 0
    number = axis_number("take_along_axis", axis, expression.ndim)
    chosen = indices if isinstance(indices, Expression) else np.asarray(indices)
    if np.ndim(chosen) != expression.ndim:
        raise ShapeError(
            f"take_along_axis: the shapes {expression.shape} and {np.shape(chosen)} differ in rank"
        )
    if isinstance(chosen, Expression) and (direct := _take_rows(expression, chosen, number)) is not None:
        return direct
    places = np.ogrid[tuple(slice(size) for size in known_sizes("take_along_axis", expression.shape))]
    return expression[tuple(chosen if k == number else place for k, place in enumerate(places))]


def _take_rows(expression: Expression, chosen: Expression, axis: int) -> Any:
    """The same by one gather, where each row has its own traced index or row of indices; else None."""
    rows = call(np.moveaxis, (expression, axis, -1))
    order = call(np.moveaxis, (chosen, axis, -1)).index
    if order is None or order.known is not None or not order.is_whole or order.shape[:-1] != rows.shape[:-1]:
        return None
    if order.node.shape == order.shape:
        taken = Expression(take_along(as_node(rows), order.node))
    elif order.shape[-1] == 1:
        table = reshape(as_node(rows), (*order.node.shape, rows.shape[-1]))
        taken = Expression(reshape(take_along(table, order.node), order.shape))
    else:
        return None
    return call(np.moveaxis, (taken, -1, axis))
