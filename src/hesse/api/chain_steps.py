"""The steps of a chain, written down alike, and the body of the loop that they become."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from hesse.calculus.progressions import Read, joined_einsum, whole
from hesse.ir import (
    Axis,
    Einsum,
    Node,
    concatenate,
    constant,
    einsum,
    first_labels,
    label_axis,
    plain_axes,
    rebuild,
    reshape,
    variable,
    view,
)


class Item(NamedTuple):
    """What a step reads that does not depend on steps before: a node, or entries of it, or a number."""

    node: Node | None
    offsets: tuple[int, ...] = ()
    scale: float = 1.0
    axes: Hashable = None
    """How entries of it are read, but for the offsets."""


class Row(NamedTuple):
    """A node of a step; `operands` are numbers of rows, of leaves of the carry ("carry") and of items."""

    node: Node
    order: Sequence[int]
    operands: tuple[tuple[str, int], ...]
    scale: int


class Step(NamedTuple):
    """A step: rows of nodes, operands first; what it reads, and what it leaves."""

    key: Hashable
    rows: list[Row]
    carries: list[Node]
    items: list[Item]
    results: list[int]


class ItemInside(NamedTuple):
    """An item in the body: a tensor that is read by its own labels, or as it is written."""

    tensor: Node | None
    is_own: bool
    scale: float = 1.0


def items_inside(steps: Sequence[Step], stacks: dict[Node, Node]) -> list[ItemInside]:
    """The items as the body reads them; those that differ are variables, whose stacks are entered."""
    readers: dict[int, tuple[Einsum, int]] = {}
    for row in steps[0].rows:
        for k, (kind, number) in zip(row.order, row.operands, strict=True):
            if kind == "item" and isinstance(row.node, Einsum):
                readers.setdefault(number, (row.node, k))
    found = []
    for number, item in enumerate(steps[0].items):
        values = [step.items[number] for step in steps]
        if all(value == item for value in values):
            found.append(ItemInside(item.node, False, item.scale))
            continue
        stack = _stack(values, readers.get(number))
        inside = variable(f"item {number} of a chain", stack.shape[1:], ["loop"])
        stacks[inside] = stack
        found.append(ItemInside(inside, True))
    return found


def _stack(values: Sequence[Item], reader: tuple[Einsum, int] | None) -> Node:
    """What all steps read, along a new first axis."""
    node = values[0].node
    if node is None:
        return constant(np.array([value.scale for value in values]))
    if reader is None:
        pieces = [value.node for value in values if value.node is not None]
        return concatenate([reshape(piece, (1, *piece.shape)) for piece in pieces], 0)
    einsum_node, k = reader
    axes = einsum_node.axes[k]
    labels = first_labels(axes)
    names = {label: label_axis(j) for j, label in enumerate(labels)}
    ranges = [einsum_node.ranges[label] for label in labels]
    own = [axis.at(names)._replace(offset=0) if axis.terms else Axis((), 0) for axis in axes]
    if all(value.node is node for value in values):
        offsets = np.array([value.offsets for value in values], np.int64).reshape(len(values), -1)
        scales = np.ones(len(values))
        return joined_einsum(
            [Read(node, own, offsets)], whole(ranges, len(values)), ranges, ranges, scales, True
        )
    pieces = []
    for value in values:
        assert value.node is not None
        moved = [axis._replace(offset=offset) for axis, offset in zip(own, value.offsets, strict=True)]
        pieces.append(view(value.node, moved, plain_axes(len(ranges)), ranges, ranges))
    return concatenate([reshape(piece, (1, *piece.shape)) for piece in pieces], 0)


class Body:
    """A step in terms of the leaves of the carry and of items."""

    def __init__(self, step: Step, leaves: Sequence[Node], items: Sequence[ItemInside]) -> None:
        self.nodes: list[Node] = []
        self.leaves, self.items = leaves, items
        for row in step.rows:
            self.nodes.append(self._product(row) if isinstance(row.node, Einsum) else self._other(row))

    def _operand(self, kind: str, number: int) -> Node:
        if kind == "row":
            return self.nodes[number]
        found = self.leaves[number] if kind == "carry" else self.items[number].tensor
        assert found is not None
        return found

    def _other(self, row: Row) -> Node:
        return rebuild(row.node, tuple([self._operand(*operand) for operand in row.operands]))

    def _product(self, row: Row) -> Node:
        node = row.node
        assert isinstance(node, Einsum)
        operands = [self._operand(*operand) for operand in row.operands]
        axes: list[Sequence[Axis]] = []
        for k, (kind, number) in zip(row.order, row.operands, strict=True):
            is_own = kind == "item" and self.items[number].is_own
            axes.append([*map(label_axis, first_labels(node.axes[k]))] if is_own else node.axes[k])
        scale = self.items[row.scale]
        if scale.tensor is not None:
            operands.append(scale.tensor)
            axes.append(())
        return einsum(operands, axes, node.output, node.shape, node.ranges, scale.scale)


def offsets_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Where axes begin."""
    return tuple([offset for _, offset in axes])
