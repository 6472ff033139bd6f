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
"""A product of sums is left a product when distributing would leave more terms than this."""


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


def undistributed(product: Product, shape: Shape) -> Node:
    """The einsum with its sums as they are, even where a delta in them would disappear."""
    return make(product, shape)


def _distributed(product: Product, shape: Shape, expand: Collection[int]) -> Node | None:
    """The product with one of its sums multiplied out, or None if all of them stay whole."""
    if any(map(is_zero, product.operands)):
        return zero(shape)
    whole = [_parts(operand, k in expand) for k, operand in enumerate(product.operands)]
    if math.prod(map(len, whole)) > DISTRIBUTION_LIMIT:
        terms = [einsum_of(survivor, shape, expand) for survivor in _survivors(product, whole)]
        if terms and all([_pays(k in expand, pieces, terms) for k, pieces in enumerate(whole)]):
            return add(terms, shape)
    for k, pieces in enumerate(_limited(whole, product.operands, expand)):
        if len(pieces) > 1:
            terms = [einsum_of(product.with_operand(k, piece), shape, expand) for piece in pieces]
            if _pays(k in expand, pieces, terms):
                return add(terms, shape)
    return None


def _pays(is_expanded: bool, pieces: Sequence[Node], terms: Sequence[Node]) -> bool:
    """Whether terms are better than the sum of these pieces as an operand.

    Where a block stays an operand, as in windows that reach over blocks, the sum does.
    """
    if is_expanded or len(pieces) == 1 or any(map(has_delta, pieces)):
        return True
    operands = {operand for term in terms if isinstance(term, Einsum) for operand in term.operands}
    return operands.isdisjoint(pieces)


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


def _parts(operand: Node, is_expanded: bool) -> list[Node]:
    """The parts of an operand to distribute over (one part: it stays whole)."""
    return list(operand.operands) if is_expanded and isinstance(operand, Add) else sum_pieces(operand)


def _limited(whole: list[list[Node]], operands: Sequence[Node], expand: Collection[int]) -> list[list[Node]]:
    """For each operand its parts, or itself: sums of most parts stay whole where there are too many terms."""
    pieces = list(whole)
    while math.prod(map(len, pieces)) > DISTRIBUTION_LIMIT:
        largest = max(range(len(pieces)), key=lambda k: (k not in expand, len(pieces[k])))
        if len(pieces[largest]) == 1 or largest in expand:
            break
        pieces[largest] = [operands[largest]]
    return pieces


def _survivors(product: Product, whole: list[list[Node]]) -> list[Product]:
    """The products of one part of each sum that are not seen to be zero; none if there are too many."""
    found: list[Product] = [product]
    chosen: list[int] = []
    for k, pieces in enumerate(whole):
        if len(pieces) > 1:
            chosen.append(k)
            terms = [one.with_operand(k, piece) for one in found for piece in pieces]
            found = [term for term in terms if not _is_empty(term.only(chosen))]
            if len(found) > DISTRIBUTION_LIMIT:
                return []
    return found


def _is_empty(product: Product) -> bool:
    try:
        absorb(product, ())
    except EmptyBox:
        return True
    return False
