"""Integer powers by products: `1/x^6`, `1/x^12` and their derivatives share `1/x`, its square and so on.

A power takes a library as long as some dozen products.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.ir import Map, Node, multiply, rebuild, reciprocal, topological, uniform_value

LARGEST_EXPONENT = 16
"""Larger powers are left to the library: each product rounds once."""


def multiplied_out(roots: Sequence[Node]) -> list[Node]:
    """The roots with small integer powers as products of smaller powers of the same base."""
    new: dict[Node, Node] = {}
    for node in topological(roots):
        operands = tuple(new[operand] for operand in node.operands)
        exponent = _exponent(node)
        if exponent is not None:
            base = operands[0] if exponent > 0 else reciprocal(operands[0])
            new[node] = _power(base, abs(exponent))
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]


def _exponent(node: Node) -> int | None:
    if not isinstance(node, Map) or node.name != "power":
        return None
    value = uniform_value(node.operands[1])
    if value is None or not value.is_integer() or not 2 <= abs(value) <= LARGEST_EXPONENT:
        return None
    return int(value)


def _power(base: Node, exponent: int) -> Node:
    """By repeated squaring; nodes are interned, so that powers of one base share what they can."""
    if exponent == 1:
        return base
    half = _power(base, exponent // 2)
    squared = multiply(half, half)
    return multiply(squared, base) if exponent % 2 else squared
