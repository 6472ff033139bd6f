"""Laws from declared facts about variables: antisymmetric matrices and positive entries.

Symmetric and antisymmetric variables need no law for their transposes: the canonical form of a product
orders their axes (`A' = A`, `A' = -A`), and `psd` and `diagonal` variables are symmetric. The table of this
module is applied with that of `rules`.
"""

from __future__ import annotations

from hesse.ir import (
    Add,
    Einsum,
    Map,
    Node,
    Variable,
    is_sparse,
    is_zero,
    opened,
    uniform,
    uniform_value,
    zero,
)
from hesse.ops.ranges import POSITIVE, UNKNOWN, Range
from hesse.ops.registry import ELEMENTWISE
from hesse.rewrite.rules import Head, Rule

MOST_LEVELS = 8
"""How deep in an expression positive variables are looked for."""


def is_positive(node: Node, levels: int = MOST_LEVELS) -> bool:
    """Whether all entries are positive by what is declared of the variables."""
    if isinstance(node, Variable):
        return "positive" in node.attributes
    value = uniform_value(node)
    if value is not None:
        return value > 0
    if isinstance(node, Map) and _range(node, UNKNOWN).is_positive:
        return True
    if levels == 0 or not node.operands:
        return False
    match node:
        case Einsum():
            signed = node.scale > 0 and not is_sparse(node)
        case Map():
            signed = _range(node, POSITIVE).is_positive
        case _:
            signed = isinstance(node, Add)
    return signed and all(is_positive(operand, levels - 1) for operand in node.operands)


def _range(node: Map, operand: Range) -> Range:
    """The range of a function of entries all of which lie in one range."""
    return ELEMENTWISE[node.name].range(*[operand] * len(node.operands))


def _positive_argument(node: Node, name: str) -> Node | None:
    """`x` if the node is `name(x)` with x > 0."""
    if not isinstance(node, Map) or node.name != name or not is_positive(node.operands[0]):
        return None
    return node.operands[0]


def abs_of_positive(node: Node) -> Node | None:
    """abs(x) = x, for x > 0."""
    return _positive_argument(node, "abs")


def sign_of_positive(node: Node) -> Node | None:
    """sign(x) = 1, for x > 0."""
    return None if _positive_argument(node, "sign") is None else uniform(1.0, node.shape)


def relu_of_positive(node: Node) -> Node | None:
    """relu(x) = x, for x > 0."""
    return _positive_argument(node, "relu")


def sqrt_of_square_of_positive(node: Node) -> Node | None:
    """sqrt(x * x) = x, for x > 0."""
    inside = _positive_argument(node, "sqrt")
    if not isinstance(inside, Einsum) or inside.scale != 1 or len(inside.operands) != 2:
        return None
    first, second = inside.operands
    axes = inside.axes[0]
    whole = first.shape == inside.shape and axes == inside.output == inside.axes[1]
    return first if first is second and whole and len(inside.ranges) == first.rank else None


def antisymmetric_cancels(node: Node) -> Node | None:
    """x' * (A * x) = 0, for antisymmetric A: the product as a whole is its own negative."""
    if not isinstance(node, Einsum):
        return None
    inner = [k for k, operand in enumerate(node.operands) if _multiplies_antisymmetric(operand)]
    return zero(node.shape) if inner and is_zero(opened(node, inner)) else None


def _multiplies_antisymmetric(node: Node) -> bool:
    return isinstance(node, Einsum) and any(
        isinstance(operand, Variable) and "antisymmetric" in operand.attributes for operand in node.operands
    )


ATTRIBUTE_RULES: dict[Rule, Head] = {
    abs_of_positive: "abs",
    sign_of_positive: "sign",
    relu_of_positive: "relu",
    sqrt_of_square_of_positive: "sqrt",
    antisymmetric_cancels: Einsum,
}
