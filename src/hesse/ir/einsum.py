"""The constructor of the one linear node.

`einsum` checks sizes, distributes over sums whose terms have different sparse patterns, and builds the
product in canonical form: patterns absorbed, labels numbered output first, operands in structural order,
every label starting at zero with a positive first stride.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence

from hesse.errors import ShapeError
from hesse.ir.axis import PATTERNS, Axis, Size, number
from hesse.ir.labelled import Product
from hesse.ir.node import Add, Einsum, Node, Shape
from hesse.ir.product import absorb, is_zero, make, zero
from hesse.ir.split import split
from hesse.ir.sum import add, has_delta, sum_pieces
from hesse.ir.unify import EmptyBox

DISTRIBUTION_LIMIT = 64
"""A product of sums is left a product when distributing would make more terms than this."""


def einsum(
    operands: Sequence[Node],
    axes: Sequence[Sequence[Axis]],
    output: Sequence[Axis],
    shape: Sequence[Size],
    ranges: Sequence[Size],
    scale: float = 1.0,
    expand: Collection[int] = (),
) -> Node:
    """`scale * prod(operands[axes])` added into `output`, in canonical form.

    `ranges[label]` are the sizes of the labels `0, 1, …`. Operands whose position is in `expand` are
    multiplied out completely, cores and sums included (the partial of an operation is consumed so).
    """
    product = Product(tuple(operands), tuple(map(tuple, axes)), tuple(output), tuple(ranges), scale)
    return einsum_of(product, tuple(shape), expand)


def einsum_of(product: Product, shape: Shape, expand: Collection[int] = ()) -> Node:
    """The einsum with the fields of a product."""
    _check(product.axes, product.output, product.ranges, tuple([o.shape for o in product.operands]), shape)
    if product.scale == 0 or 0 in shape:
        return zero(shape)
    if any([isinstance(operand, Add) for operand in product.operands]):
        distributed = _distributed(product, shape, expand)
        if distributed is not None:
            return distributed
    try:
        absorbed = absorb(product, expand)
        parts = split(absorbed)
    except EmptyBox:
        return zero(shape)
    return make(absorbed, shape) if parts is None else add([einsum_of(part, shape) for part in parts], shape)


def _distributed(product: Product, shape: Shape, expand: Collection[int]) -> Node | None:
    """The product with one of its sums multiplied out, or None if all of them stay whole."""
    if any(map(is_zero, product.operands)):
        return zero(shape)
    for k, pieces in enumerate(_distribution(product.operands, expand)):
        if len(pieces) > 1:
            terms = [einsum_of(product.with_operand(k, piece), shape, expand) for piece in pieces]
            if k in expand or any(map(has_delta, pieces)) or not any(map(_reads, terms, pieces)):
                return add(terms, shape)
    return None


def _reads(node: Node, piece: Node) -> bool:
    """Whether a block of a sum stays an operand, as in windows that reach over blocks: then the sum does."""
    return isinstance(node, Einsum) and piece in node.operands


def opened(node: Einsum, positions: Collection[int]) -> Node:
    """The product with the operands at some positions multiplied out completely, cores and sums included."""
    return einsum_of(node.product, node.shape, positions)


@functools.lru_cache(PATTERNS)
def _check(
    axes: tuple[tuple[Axis, ...], ...],
    output: tuple[Axis, ...],
    ranges: tuple[Size, ...],
    shapes: tuple[Shape, ...],
    shape: Shape,
) -> None:
    for tensor_axes, tensor_shape in zip((*axes, output), (*shapes, shape), strict=True):
        if len(tensor_axes) != len(tensor_shape):
            raise ShapeError(f"{len(tensor_axes)} axes were given for a tensor of shape {tensor_shape}")
        for axis, size in zip(tensor_axes, tensor_shape, strict=True):
            terms, offset = axis
            if offset == 0 and len(terms) == 1 and terms[0][1] == 1 and ranges[terms[0][0]] == size:
                continue  # a plain label, as nearly all are
            sizes = [ranges[label] for label in axis.labels()]
            if isinstance(size, str) or any(isinstance(s, str) for s in sizes):
                raise ShapeError(f"an axis of size {size} cannot be indexed by labels of sizes {sizes}")
            if 0 in sizes:
                continue
            ends = [(0, stride * (number(ranges[label]) - 1)) for label, stride in axis.terms]
            low, high = axis.offset + sum(map(min, ends)), axis.offset + sum(map(max, ends))
            if low < 0 or high >= size:
                raise ShapeError(f"an axis of size {size} cannot hold the positions {low} to {high}")


def _distribution(operands: Sequence[Node], expand: Collection[int]) -> list[list[Node]]:
    """For each operand the parts to distribute over (one part: it stays whole)."""
    pieces = [
        list(operand.operands) if k in expand and isinstance(operand, Add) else sum_pieces(operand)
        for k, operand in enumerate(operands)
    ]
    while math.prod(len(parts) for parts in pieces) > DISTRIBUTION_LIMIT:
        largest = max(range(len(pieces)), key=lambda k: (k not in expand, len(pieces[k])))
        if len(pieces[largest]) == 1 or largest in expand:
            break
        pieces[largest] = [operands[largest]]
    return pieces
