"""Pieces of one product as the whole product again, over a padded tensor.

The Jacobian of a padded convolution has a term for the windows that lie inside and some for those that hang
over an edge (`ir/split.py`). To multiply it with a vector, the vector is padded instead, and one contraction
reads all of its windows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hesse.ir import Add, Axis, Einsum, Node, Product, Shape, combine, connected, number, remembered

MOST_POINTS = 2**20
"""Axes that go over more points than this are not looked through."""
Box = dict[int, range]
"""The values of labels."""


class Whole(NamedTuple):
    """A product over a tensor with margins: for each axis of the tensor how far it reaches out, both ways."""

    product: Product
    margins: tuple[tuple[int, int], ...]


@remembered
def whole_product(node: Node) -> Whole | None:
    """The product of which the terms of a sum are the pieces that lie inside of the tensor, or None."""
    terms = node.operands if isinstance(node, Add) else ()
    pieces = [term.product for term in terms if isinstance(term, Einsum)]
    if len(pieces) < max(2, len(terms)):
        return None
    largest = max(pieces, key=lambda piece: math.prod(map(number, piece.ranges)))
    if any(piece.operands != largest.operands or piece.scale != largest.scale for piece in pieces):
        return None
    boxes = [box for piece in pieces if (box := _box(piece, largest)) is not None]
    if len(boxes) < len(pieces) or not all(itertools.starmap(_apart, itertools.combinations(boxes, 2))):
        return None
    hull = {k: _hull([box[k] for box in boxes]) for k in range(len(largest.ranges))}
    if not all(_inside(*tensor, hull) for tensor in zip(largest.operands, largest.axes, strict=True)):
        return None
    if _count_inside(largest.output, node.shape, hull) != sum(map(_points, boxes)):
        return None
    return _with_margins(largest, hull, node.shape)


def _box(piece: Product, whole: Product) -> Box | None:
    """The values of the labels of a product over which it is the piece; None if it is not."""
    axes = [
        *zip(
            itertools.chain(*whole.axes, whole.output),
            itertools.chain(*piece.axes, piece.output),
            strict=True,
        )
    ]
    values = {
        mine.label: combine([(1, other)], -mine.offset)
        for mine, other in axes
        if [stride for _, stride in mine.terms] == [1]
    }
    labels = sorted(label for value in values.values() for label in value.labels())
    if len(values) < len(whole.ranges) or labels != list(range(len(piece.ranges))):
        return None
    for mine, other in axes:
        if combine([(stride, values[label]) for label, stride in mine.terms], mine.offset) != other:
            return None
    sizes = {k: number(piece.ranges[value.label]) if value.terms else 1 for k, value in values.items()}
    return {k: range(value.offset, value.offset + sizes[k]) for k, value in values.items()}


def _hull(ranges: Sequence[range]) -> range:
    return range(min(values.start for values in ranges), max(values.stop for values in ranges))


def _points(box: Box) -> int:
    return math.prod(map(len, box.values()))


def _apart(one: Box, two: Box) -> bool:
    return any(one[k].stop <= two[k].start or two[k].stop <= one[k].start for k in one)


def _span(axis: Axis, box: Box) -> tuple[int, int]:
    """The smallest and the largest value of an axis over a box."""
    ends = [sorted((stride * box[k][0], stride * box[k][-1])) for k, stride in axis.terms]
    return axis.offset + sum(low for low, _ in ends), axis.offset + sum(high for _, high in ends)


def _inside(operand: Node, axes: Sequence[Axis], box: Box) -> bool:
    spans = [_span(axis, box) for axis in axes]
    return all(
        low >= 0 and high < number(size) for (low, high), size in zip(spans, operand.shape, strict=True)
    )


def _count_inside(axes: Sequence[Axis], shape: Shape, box: Box) -> int:
    """How many points of a box have their place in a tensor; -1 for too many to look at."""
    count = _points(box)
    for members, labels in connected(axis.labels() for axis in axes):
        values = dict(zip(sorted(labels), np.ix_(*(box[k] for k in sorted(labels))), strict=True))
        size = math.prod(len(box[k]) for k in labels)
        if size > MOST_POINTS:
            return -1
        there = np.ones((1,) * len(labels), bool)
        for position in members:
            place = axes[position].offset + sum(stride * values[k] for k, stride in axes[position].terms)
            there = there & (place >= 0) & (place < number(shape[position]))
        count = count // size * int(np.broadcast_to(there, [len(box[k]) for k in sorted(labels)]).sum())
    return count


def _with_margins(product: Product, box: Box, shape: Shape) -> Whole:
    spans = [_span(axis, box) for axis in product.output]
    margins = [
        (max(0, -low), max(0, high + 1 - number(size)))
        for (low, high), size in zip(spans, shape, strict=True)
    ]

    def moved(axis: Axis, margin: int = 0) -> Axis:
        return Axis(axis.terms, axis.offset + margin + sum(stride * box[k].start for k, stride in axis.terms))

    axes = tuple(tuple(map(moved, row)) for row in product.axes)
    output = tuple(moved(axis, before) for axis, (before, _) in zip(product.output, margins, strict=True))
    ranges = tuple(len(box[k]) for k in range(len(product.ranges)))
    return Whole(product._replace(axes=axes, output=output, ranges=ranges), tuple(margins))
