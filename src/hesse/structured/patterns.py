"""What the patterns of a tensor say before any number is read: its terms, where they go, how many entries.

A tensor is seen as a matrix: `rank` axes of columns at the end, everything before them rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hesse.ir import Add, Axis, Node, Product, Shape, Size, combine, labels_of, number, remembered


def products(node: Node) -> tuple[Product, ...]:
    """The terms of a tensor, sums inside of sums included."""
    return _products(node) if isinstance(node, Add) else (node.product,)


@remembered
def _products(node: Add) -> tuple[Product, ...]:
    return tuple(product for operand in node.operands for product in products(operand))


def count(shape: Shape) -> int:
    """Number of entries of a tensor of this shape."""
    return math.prod(map(number, shape))


def written(product: Product) -> int:
    """Number of entries that a term writes."""
    return count(product.sizes(product.placed))


@remembered
def touched(node: Node) -> int:
    """Number of entries that the terms write (entries that several terms write count several times)."""
    return sum(map(written, products(node)))


def flat_axis(axes: Sequence[Axis], shape: Shape) -> Axis:
    """The position in the flattened axes (row-major) as one affine function of the labels.

    >>> from hesse.ir import plain_axes
    >>> flat_axis(plain_axes(2), (5, 3))
    Axis(terms=((0, 3), (1, 1)), offset=0)
    """
    strides = [count(shape[k + 1 :]) for k in range(len(shape))]
    return combine(list(zip(strides, axes, strict=True)))


def matrix_axes(product: Product, shape: Shape, rank: int) -> tuple[Axis, Axis]:
    """Row and column of the entries of a term in the matrix view."""
    rows = len(shape) - rank
    return (
        flat_axis(product.output[:rows], shape[:rows]),
        flat_axis(product.output[rows:], shape[rows:]),
    )


def interval(axis: Axis, ranges: Sequence[Size]) -> tuple[int, int]:
    """Smallest and largest value of an axis.

    >>> interval(Axis(((0, 2), (1, -1)), 3), (4, 3))
    (1, 9)
    """
    ends = [stride * (number(ranges[label]) - 1) for label, stride in axis.terms]
    return axis.offset + sum(min(0, end) for end in ends), axis.offset + sum(max(0, end) for end in ends)


@remembered
def same_positions(node: Node, rank: int) -> tuple[int, ...]:
    """Positions at which row and column always have the same index: the matrix is block-diagonal there."""
    return tuple(
        p for p in range(rank) if all(term.output[p] == term.output[rank + p] for term in products(node))
    )


@remembered
def shared_positions(node: Node, rank: int) -> tuple[int, ...]:
    """Those of the same positions at which all blocks are equal too."""
    return tuple(
        p
        for p in same_positions(node, rank)
        if node.shape[p] == 1 or all(_repeats(term, p, rank, node.shape) for term in products(node))
    )


def _repeats(term: Product, position: int, rank: int, shape: Shape) -> bool:
    axis = term.output[position]
    if not axis.is_label or term.ranges[axis.label] != shape[position]:
        return False
    others = [a for k, a in enumerate(term.output) if k not in (position, rank + position)]
    return axis.label not in labels_of(others) | term.inside
