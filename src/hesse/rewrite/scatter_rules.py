"""Laws of sums over what was scattered: such a sum does not depend on the places.

They make the second derivative of a cross entropy independent of its labels.
"""

from __future__ import annotations

import math

import numpy as np

from hesse.ir import (
    Apply,
    Axis,
    Constant,
    Einsum,
    Node,
    combine,
    einsum_of,
    label_axis,
    number,
    reshape,
    total,
)
from hesse.rewrite.rules import Head, Rule


def sum_of_scattered(node: Node) -> Node | None:
    """sum_k scatter(u, index)[k] = sum(u)."""
    for place, label in _sums_over_scattered(node):
        assert isinstance(node, Einsum)
        u, index = node.operands[place].operands
        if node.axes[place][0].is_label and node.ranges[label] == node.operands[place].shape[0]:
            summed = total(u, range(index.rank))
            return _replaced(node, place, label, summed, ())
    return None


def sum_of_scattered_row(node: Node) -> Node | None:
    """sum_l scatter(u, index)[n*i + l] = u[i], if index[i] is in the i-th row of n places."""
    for place, label in _sums_over_scattered(node):
        assert isinstance(node, Einsum)
        u, index = node.operands[place].operands
        axis, size = node.axes[place][0], number(node.ranges[label])
        others = [(stride, other) for other, stride in axis.terms if other != label]
        if axis.offset % size or any(stride % size for stride, _ in others) or not _is_in_rows(index, size):
            continue
        rows = reshape(u, (math.prod(map(number, index.shape)), *u.shape[index.rank :]))
        read = combine([(stride // size, label_axis(other)) for stride, other in others], axis.offset // size)
        return _replaced(node, place, label, rows, (read,))
    return None


def _sums_over_scattered(node: Node) -> list[tuple[int, int]]:
    """The scattered operands of a product, with labels of step 1 that nothing else has."""
    if not isinstance(node, Einsum):
        return []
    found = []
    for place, operand in enumerate(node.operands):
        if isinstance(operand, Apply) and operand.name == "scatter":
            rest = [axis for k, row in enumerate(node.axes) for axis in row[k == place :]]
            elsewhere = {label for axis in (*rest, *node.output) for label in axis.labels()}
            terms = node.axes[place][0].terms
            found += [(place, label) for label, step in terms if step == 1 and label not in elsewhere]
    return found


def _is_in_rows(index: Node, size: int) -> bool:
    """Whether there is one position for each row of so many places."""
    if isinstance(index, Constant):
        return bool(np.array_equal(index.value.reshape(-1) // size, np.arange(index.value.size)))
    return isinstance(index, Apply) and index.name == "flat_index" and index.params == (size, index.rank)


def _replaced(node: Einsum, place: int, label: int, operand: Node, lead: tuple[Axis, ...]) -> Node:
    """The product with another operand in place of the scattered one, without a label."""
    product = node.product.with_operand(place, operand)
    axes = [(*lead, *row[1:]) if k == place else row for k, row in enumerate(product.axes)]
    return einsum_of(product._replace(axes=tuple(axes)).without({label}), node.shape)


SCATTER_RULES: dict[Rule, Head] = {
    sum_of_scattered: frozenset({"scatter"}),
    sum_of_scattered_row: frozenset({"scatter"}),
}
