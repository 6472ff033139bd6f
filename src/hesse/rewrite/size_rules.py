"""Laws for sizes that are used as numbers: `sum(x)/n`. A size is the sum of that many ones."""

from __future__ import annotations

from hesse.ir import Einsum, Map, Node, Size, einsum, einsum_of, plain_axes, reciprocal
from hesse.rewrite.rules import Head, Rule


def _number(size: Size) -> Node:
    return einsum([], [], (), (), [size])


def _size_below(node: Node) -> Size | None:
    """`n` if the node is `1/n`."""
    if not isinstance(node, Map) or node.name != "reciprocal" or node.rank:
        return None
    (inner,) = node.operands
    if not isinstance(inner, Einsum) or inner.operands or inner.scale != 1 or len(inner.ranges) != 1:
        return None
    return inner.ranges[0]


def reciprocal_of_size(node: Node) -> Node | None:
    """1/(2*n*x) = 0.5*(1/n)*(1/x)."""
    if not isinstance(node, Map) or node.name != "reciprocal" or _size_below(node) is not None:
        return None
    (inner,) = node.operands
    if not isinstance(inner, Einsum) or not (labels := inner.counted):
        return None
    sizes = [reciprocal(_number(inner.ranges[label])) for label in labels]
    rest = reciprocal(einsum_of(inner.product._replace(scale=1.0).without(labels), inner.shape))
    axes = plain_axes(node.rank)
    return einsum(
        [*sizes, rest], [*([()] * len(sizes)), axes], axes, node.shape, node.shape, 1.0 / inner.scale
    )


def size_over_itself(node: Node) -> Node | None:
    """n*(1/n) = 1: sizes are not zero."""
    if not isinstance(node, Einsum):
        return None
    below = {k: size for k, part in enumerate(node.operands) if (size := _size_below(part)) is not None}
    if not below:
        return None
    for label in node.counted:
        for k, size in below.items():
            if size == node.ranges[label]:
                rest = [other for other in range(len(node.operands)) if other != k]
                return einsum_of(node.product.only(rest).without([label]), node.shape)
    return None


def sizes_cancelled(node: Node) -> Node:
    """The node without sizes that are both factors and divisors."""
    while (found := size_over_itself(node)) is not None:
        node = found
    return node


SIZE_RULES: dict[Rule, Head] = {
    reciprocal_of_size: "reciprocal",
    size_over_itself: frozenset({"reciprocal"}),
}
