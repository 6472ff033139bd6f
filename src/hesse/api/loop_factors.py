"""Factors of products inside a loop that do not depend on the carry are multiplied before the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from hesse.ir import Add, Axis, Einsum, Node, Variable, add, einsum, label_axis, labels_of, plain_axes


class Factors(NamedTuple):
    """A product of operands that has the labels of one of them, in order of their numbers."""

    members: tuple[int, ...]
    labels: tuple[int, ...]


def joined(
    node: Einsum,
    operands: Sequence[Node],
    free: Sequence[int],
    by_step: Collection[Node],
    named: Callable[[Node, bool], Variable],
) -> Node:
    """A product whose `free` operands are joined where that makes nothing larger.

    `named(product, is_by_step)` gives the variable by which a product of them is read inside.
    """
    found = list(_groups(node, free, by_step))
    if not found:
        return einsum(operands, node.axes, node.output, node.shape, node.ranges, node.scale)
    gone = {k for group in found for k in group.members}
    kept = [k for k in range(len(operands)) if k not in gone]
    names: list[Node] = [
        named(_product(node, group), any(node.operands[k] in by_step for k in group.members))
        for group in found
    ]
    axes = [node.axes[k] for k in kept] + [tuple(map(label_axis, group.labels)) for group in found]
    return einsum([operands[k] for k in kept] + names, axes, node.output, node.shape, node.ranges, node.scale)


def _product(node: Einsum, group: Factors) -> Node:
    place = {label: k for k, label in enumerate(group.labels)}

    def renamed(axis: Axis) -> Axis:
        return axis.rename(place.__getitem__)

    shape = [node.ranges[label] for label in group.labels]
    axes = [tuple(map(renamed, node.axes[k])) for k in group.members]
    return einsum([node.operands[k] for k in group.members], axes, plain_axes(len(shape)), shape, shape)


def _groups(node: Einsum, free: Sequence[int], by_step: Collection[Node]) -> list[Factors]:
    """Items first: what is shared by all steps joins them, not the other way round."""
    labels = {k: labels_of(node.axes[k]) for k in free}
    left = sorted(free, key=lambda k: (node.operands[k] not in by_step, -len(labels[k])))
    found = []
    while left:
        main = left.pop(0)
        own = tuple(sorted(labels[main]))
        entries = math.prod(int(node.ranges[label]) for label in own)
        if entries > math.prod(map(int, node.operands[main].shape)):
            continue
        members = [main, *(k for k in left if labels[k] <= labels[main])]
        left = [k for k in left if k not in members]
        if len(members) > 1 or not all(axis.is_label for axis in node.axes[main]):
            found.append(Factors(tuple(members), own))
    return found


def as_diagonal(carry: Variable, after: Node, live: Collection[Node]) -> tuple[Node, Node] | None:
    """`a, b` if a step is `a[s] carry[s] + b[s]`; the nodes that depend on the carry are `live`."""
    terms = after.operands if isinstance(after, Add) else (after,)
    waiting = [term for term in terms if term in live]
    if len(waiting) != 1:
        return None
    rest = add([term for term in terms if term not in live], after.shape)
    (node,) = waiting
    if node is carry:
        return einsum([], [], plain_axes(carry.rank), carry.shape, carry.shape), rest
    if not isinstance(node, Einsum):
        return None
    where = [k for k, operand in enumerate(node.operands) if operand in live]
    if len(where) != 1 or node.operands[where[0]] is not carry or node.axes[where[0]] != node.output:
        return None
    if not all(axis.is_label or size == 1 for axis, size in zip(node.output, node.shape, strict=True)):
        return None
    if len(labels_of(node.output)) != sum(axis.is_label for axis in node.output):
        return None
    others = [k for k in range(len(node.operands)) if k != where[0]]
    operands, axes = [node.operands[k] for k in others], [node.axes[k] for k in others]
    return einsum(operands, axes, node.output, node.shape, node.ranges, node.scale), rest
