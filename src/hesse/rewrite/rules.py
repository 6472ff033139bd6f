"""Laws for element-wise functions and products, most of them for numerical stability.

A rule is a function `node -> node | None`. Its docstring states the law; `RULES` is the table, and each
rule has a tested example.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hesse.ir import (
    Add,
    Einsum,
    Map,
    Node,
    Product,
    Shape,
    add,
    einsum,
    einsum_of,
    has_delta,
    is_sparse,
    is_zero,
    multiply,
    number,
    opened,
    overlapping_labels,
    plain_axes,
    scale,
    sum_pieces,
    uniform_value,
    unscaled,
    view,
    zero,
)
from hesse.ops.elementwise import power
from hesse.ops.registry import elementwise

Rule = Callable[[Node], Node | None]
Head = str | type[Node] | frozenset[str]
"""What a law is about: functions of a name, nodes of a class, or products with one of these functions."""


def argument(node: Node, name: str) -> Node | None:
    """`x` if the node is `name(x)`."""
    return node.operands[0] if isinstance(node, Map) and node.name == name else None


def _one_plus_exp(node: Node) -> Node | None:
    """`z` if the node is `1 + exp(z)`."""
    if not isinstance(node, Add) or len(node.operands) != 2:
        return None
    for one, other in (node.operands, node.operands[::-1]):
        if uniform_value(one) == 1:
            return exp_argument(other)
    return None


def exp_argument(node: Node) -> Node | None:
    """`z` if the node is `exp(z)`, also through a view (a transposed or repeated exp)."""
    source, again = read_through(node)
    z = argument(source, "exp")
    return None if z is None else again(z)


def read_through(node: Node) -> tuple[Node, Callable[[Node], Node]]:
    """What the node is a view of, and the same view of another tensor; of no view, the node itself."""
    if not isinstance(node, Einsum) or len(node.operands) != 1 or node.scale != 1:
        return node, lambda other: other
    if is_sparse(node) or node.summed:
        return node, lambda other: other
    return node.operands[0], lambda other: view(other, node.axes[0], node.output, node.shape, node.ranges)


def log_of_one_plus_exp(node: Node) -> Node | None:
    """log(1 + exp(z)) = softplus(z)."""
    inside = argument(node, "log")
    z = None if inside is None else _one_plus_exp(inside)
    return None if z is None else elementwise("softplus", z)


def log1p_of_exp(node: Node) -> Node | None:
    """log1p(exp(z)) = softplus(z)."""
    inside = argument(node, "log1p")
    z = None if inside is None else exp_argument(inside)
    return None if z is None else elementwise("softplus", z)


def log_of_exp(node: Node) -> Node | None:
    """log(exp(x)) = x."""
    inside = argument(node, "log")
    return None if inside is None else exp_argument(inside)


def exp_of_log(node: Node) -> Node | None:
    """exp(log(x)) = x, for x in the domain of log."""
    inside = argument(node, "exp")
    return None if inside is None else argument(inside, "log")


def reciprocal_of_reciprocal(node: Node) -> Node | None:
    """1 / (1 / x) = x."""
    inside = argument(node, "reciprocal")
    return None if inside is None else argument(inside, "reciprocal")


def reciprocal_of_one_plus_exp(node: Node) -> Node | None:
    """1 / (1 + exp(z)) = sigmoid(-z)."""
    inside = argument(node, "reciprocal")
    z = None if inside is None else _one_plus_exp(inside)
    return None if z is None else elementwise("sigmoid", scale(z, -1.0))


def _root_argument(node: Node) -> Node | None:
    """`x` if the node is the root of x, whatever its derivatives are at 0."""
    return node.operands[0] if isinstance(node, Map) and node.name in ("sqrt", "safe_sqrt") else None


def power_of_sqrt(node: Node) -> Node | None:
    """sqrt(x)^n = x^(n/2), for even n."""
    if not isinstance(node, Map) or node.name != "power":
        return None
    x, exponent = _root_argument(node.operands[0]), uniform_value(node.operands[1])
    return None if x is None or exponent is None or exponent % 2 else power(x, exponent / 2)


def function_of_blocks(node: Node) -> Node | None:
    """f(blocks) = blocks of f, for disjoint blocks that fill the tensor or a function with f(0) = 0."""
    if not isinstance(node, Map) or len(node.operands) != 1 or not isinstance(node.operands[0], Add):
        return None
    blocks = sum_pieces(node.operands[0])
    if not blocks:  # the exact zero, perhaps of a symbolic size
        folded = elementwise(node.name, node.operands[0])
        return None if folded is node else folded
    if len(blocks) == 1 or any(map(has_delta, blocks)) or not all(map(is_sparse, blocks)):
        return None
    boxes = [block.product for block in blocks]
    if any(overlapping_labels(box.output, box.ranges) for box in boxes):
        return None  # as of a convolution, where several products are added into one entry
    entries = sum(math.prod(map(number, box.sizes(box.placed))) for box in boxes)
    fills = entries == math.prod(map(number, node.shape))
    if not fills and not is_zero(elementwise(node.name, zero(()))):
        return None
    return add([_on_block(node.name, box, node.shape) for box in boxes], node.shape)


def _on_block(name: str, block: Product, shape: Shape) -> Node:
    """f(inside) at the place of a block."""
    ranges = block.ranges[: len(block.placed)]  # labels are numbered output first
    place = plain_axes(len(ranges))
    inside = einsum_of(block._replace(output=place), ranges)
    return einsum([elementwise(name, inside)], [place], block.output, shape, ranges)


def log_of_sigmoid(node: Node) -> Node | None:
    """log(sigmoid(z)) = -softplus(-z)."""
    inside = argument(node, "log")
    z = None if inside is None else argument(inside, "sigmoid")
    return None if z is None else scale(elementwise("softplus", scale(z, -1.0)), -1.0)


def one_minus_sigmoid(node: Node) -> Node | None:
    """1 - sigmoid(z) = sigmoid(-z)."""
    if not isinstance(node, Add) or len(node.operands) != 2:
        return None
    for one, other in (node.operands, node.operands[::-1]):
        base, factor = unscaled(other)
        z = argument(base, "sigmoid")
        if z is not None and factor == -1 and uniform_value(one) == 1:
            return elementwise("sigmoid", scale(z, -1.0))
    return None


def one_plus_tanh(node: Node) -> Node | None:
    """1 + tanh(u) = 2*sigmoid(2*u) and 1 - tanh(u) = 2*sigmoid(-2*u), which lose no digits near 0."""
    if not isinstance(node, Add) or len(node.operands) != 2:
        return None
    for one, other in (node.operands, node.operands[::-1]):
        value, (base, factor) = uniform_value(one), unscaled(other)
        source, again = read_through(base)
        u = argument(source, "tanh")
        if u is not None and value and abs(factor) == abs(value):
            return scale(again(elementwise("sigmoid", scale(u, 2.0 * factor / value))), 2.0 * value)
    return None


def _replace_two(node: Einsum, pair: tuple[int, int], operand: Node | None) -> Node:
    """The product with two operands of the same axes replaced by one (or by nothing)."""
    rest = node.product.only([k for k in range(len(node.operands)) if k not in pair])
    if operand is not None:
        rest = rest.times(operand, node.axes[pair[0]])
    return einsum_of(rest, node.shape)


def _pairs(node: Node) -> list[tuple[int, int]]:
    if not isinstance(node, Einsum):
        return []
    count = len(node.operands)
    return [(a, b) for a in range(count) for b in range(count) if a != b and node.axes[a] == node.axes[b]]


def exp_times_sigmoid(node: Node) -> Node | None:
    """exp(z) * sigmoid(-z) = sigmoid(z)."""
    for a, b in _pairs(node):
        z, minus_z = argument(node.operands[a], "exp"), argument(node.operands[b], "sigmoid")
        if z is not None and minus_z is not None and minus_z is scale(z, -1.0):
            assert isinstance(node, Einsum)
            return _replace_two(node, (a, b), elementwise("sigmoid", z))
    return None


def sqrt_times_sqrt(node: Node) -> Node | None:
    """sqrt(x) * sqrt(x) = x."""
    for a, b in _pairs(node):
        x = _root_argument(node.operands[a])
        if x is not None and node.operands[a] is node.operands[b]:
            assert isinstance(node, Einsum)
            return _replace_two(node, (a, b), x)
    return None


def abs_times_abs(node: Node) -> Node | None:
    """abs(x) * abs(x) = x * x, which is smooth at 0; also where one stands in a product inside."""
    for a, b in _pairs(node):
        x = argument(node.operands[a], "abs")
        if x is not None and node.operands[a] is node.operands[b]:
            assert isinstance(node, Einsum)
            return _replace_two(node, (a, b), multiply(x, x))
    sizes = [operand for operand in node.operands if argument(operand, "abs") is not None]
    for k, operand in enumerate(node.operands):
        if isinstance(node, Einsum) and isinstance(operand, Einsum) and set(sizes) & set(operand.operands):
            return abs_times_abs(opened(node, (k,)))
    return None


def power_of_abs(node: Node) -> Node | None:
    """abs(x)^n = x^n, for even n."""
    if not isinstance(node, Map) or node.name != "power":
        return None
    x, exponent = argument(node.operands[0], "abs"), uniform_value(node.operands[1])
    return None if x is None or exponent is None or exponent % 2 else power(x, exponent)


RULES: dict[Rule, Head] = {
    log_of_one_plus_exp: "log",
    log1p_of_exp: "log1p",
    log_of_exp: "log",
    exp_of_log: "exp",
    reciprocal_of_reciprocal: "reciprocal",
    reciprocal_of_one_plus_exp: "reciprocal",
    log_of_sigmoid: "log",
    one_minus_sigmoid: Add,
    one_plus_tanh: Add,
    exp_times_sigmoid: frozenset({"sigmoid"}),
    sqrt_times_sqrt: frozenset({"sqrt", "safe_sqrt"}),
    power_of_sqrt: "power",
    abs_times_abs: frozenset({"abs"}),
    power_of_abs: "power",
    function_of_blocks: Map,
}
