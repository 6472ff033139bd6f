"""What is computed from a structured tensor, as expressions: patterns are contracted before any array is.

Axes are `[lead…, rows…, columns…]`: columns the last group of rank `rank`, rows the one before it. Tensors
made of a tensor are remembered with it, and so is what was compiled for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.ir import (
    Node,
    Shape,
    add,
    constant_axis,
    einsum,
    einsum_of,
    number,
    place,
    plain_axes,
    remembered,
    select,
    variable,
)
from hesse.structured.windows import Whole, whole_product

VECTOR = "vector"
"""The name of the array a tensor is multiplied with."""


def whole(node: Node) -> Node:
    """The tensor itself."""
    return node


@remembered
def multiple(node: Node, factor: float) -> Node:
    """`factor * H`, term by term."""
    axes = plain_axes(node.rank)
    return einsum([node], [axes], axes, node.shape, node.shape, factor, expand=(0,))


@remembered
def total(node: Node, other: Node) -> Node:
    """`H + G` as one sum of terms."""
    return add([node, other], node.shape, flatten=(node, other))


@remembered
def reordered(node: Node, order: tuple[int, ...]) -> Node:
    """The axes in another order, term by term."""
    axes = plain_axes(node.rank)
    shape = [node.shape[k] for k in order]
    return einsum([node], [axes], [axes[k] for k in order], shape, node.shape, expand=(0,))


def times_vector(node: Node, rank: int, shape: Shape) -> Node:
    """`H[lead…, c…] v[c…, k…] -> [lead…, k…]`."""
    whole = whole_product(node)
    if whole is not None:
        return _whole_times_vector(node, whole, rank, shape)
    extra = shape[rank:]
    axes = plain_axes(node.rank + len(extra))
    lead = node.rank - rank
    return einsum(
        [node, variable(VECTOR, shape)],
        [axes[: node.rank], axes[lead:]],
        axes[:lead] + axes[node.rank :],
        node.shape[:lead] + extra,
        node.shape + extra,
        expand=(0,),
    )


def _whole_times_vector(node: Node, whole: Whole, rank: int, shape: Shape) -> Node:
    """The same with zeros around the vector, and around the result if the product reaches out of it."""
    product, margins = whole
    lead, extra = node.rank - rank, shape[rank:]
    new = plain_axes(len(extra), len(product.ranges))
    none = ((0, 0),) * len(extra)
    columns, rows = (*margins[lead:], *none), (*margins[:lead], *none)
    offsets = [before for before, _ in columns]
    vector = place(variable(VECTOR, shape), _widened(shape, columns), offsets)
    result = einsum_of(
        product.times(vector, product.output[lead:] + new)._replace(
            output=product.output[:lead] + new, ranges=product.ranges + extra
        ),
        _widened(node.shape[:lead] + extra, rows),
    )
    sizes = map(number, node.shape[:lead] + extra)
    return select(result, [slice(first, first + size) for (first, _), size in zip(rows, sizes, strict=True)])


def _widened(shape: Shape, margins: Sequence[tuple[int, int]]) -> Shape:
    return tuple(number(size) + sum(width) for size, width in zip(shape, margins, strict=True))


def quadratic(node: Node, rank: int) -> Node:
    """`v[r…] H[lead…, r…, c…] v[c…] -> [lead…]`."""
    axes, lead = plain_axes(node.rank), node.rank - 2 * rank
    vector = variable(VECTOR, node.shape[lead : lead + rank])
    return einsum(
        [node, vector, vector],
        [axes, axes[lead : lead + rank], axes[lead + rank :]],
        axes[:lead],
        node.shape[:lead],
        node.shape,
        expand=(0,),
    )


def diagonal(node: Node, rank: int, groups: int = 2) -> Node:
    """`H[lead…, s…, s…] -> [lead…, s…]`, where `s…` occurs so often."""
    return _along_diagonal(node, rank, groups, rank)


def trace(node: Node, rank: int) -> Node:
    """`H[lead…, s…, s…] -> [lead…]`."""
    return _along_diagonal(node, rank, 2, 0)


def _along_diagonal(node: Node, rank: int, groups: int, kept: int) -> Node:
    lead = node.rank - groups * rank
    axes = plain_axes(lead + rank)
    shape = node.shape[: lead + rank]
    own, end = axes[lead:], lead + kept
    return einsum([node], [axes + own * (groups - 1)], axes[:end], shape[:end], shape, expand=(0,))


@remembered
def block(node: Node, rank: int, index: tuple[int, ...]) -> Node:
    """Both trailing groups with their first axes at `index`."""
    lead, rest = node.rank - 2 * rank, rank - len(index)
    fixed = tuple(map(constant_axis, index))
    free = plain_axes(lead + 2 * rest)
    axes = free[:lead] + fixed + free[lead : lead + rest] + fixed + free[lead + rest :]
    shape = node.shape[:lead] + node.shape[node.rank - rest :] * 2
    return einsum([node], [axes], free, shape, shape, expand=(0,))
