"""One bottom-up pass that applies the laws, with each node seen once.

Sharing decides what may be multiplied out: a sum is merged into the sum around it, and products are
factored, only where nobody else uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Map,
    Node,
    add,
    opened,
    rebuild,
    remembered,
    topological,
    unscaled,
    use_counts,
)
from hesse.rewrite.attributes import ATTRIBUTE_RULES
from hesse.rewrite.factor import factor
from hesse.rewrite.matrix_rules import MATRIX_PRODUCT_RULES, MATRIX_RULES
from hesse.rewrite.rules import RULES
from hesse.rewrite.shift_rules import NORMALISATION_RULES, SHIFT_RULES
from hesse.rewrite.size_rules import SIZE_RULES
from hesse.rewrite.softmax_rules import SOFTMAX_RULES

APPLY_RULES = (*MATRIX_RULES, *NORMALISATION_RULES)
OTHER_RULES = (
    *RULES,
    *SOFTMAX_RULES,
    *SHIFT_RULES,
    *SIZE_RULES,
    *ATTRIBUTE_RULES,
    *MATRIX_PRODUCT_RULES,
)


def simplify(roots: Sequence[Node]) -> list[Node]:
    """The roots in simpler and numerically stabler form."""
    return [_simplified(roots[0])] if len(roots) == 1 else _all_simplified(roots)


@remembered  # a formula is simplified before it is printed, evaluated and differentiated
def _simplified(root: Node) -> Node:
    return _all_simplified([root])[0]


def _all_simplified(roots: Sequence[Node]) -> list[Node]:
    order = topological(roots)
    uses = use_counts(order, roots)
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple(new[operand] for operand in node.operands)
        if isinstance(node, Add):
            new[node] = _apply_rules(_sum(node, operands, uses))
        else:
            rebuilt = node if operands == node.operands else rebuild(node, operands)
            new[node] = _apply_rules(_opened(rebuilt, node, uses))
    return [new[root] for root in roots]


def _opened(rebuilt: Node, node: Node, uses: dict[Node, int]) -> Node:
    """Law: a sum over or a part of a product that nobody else uses is itself a product."""
    if not isinstance(rebuilt, Einsum) or len(rebuilt.operands) != 1 or not isinstance(node, Einsum):
        return rebuilt
    inner = rebuilt.operands[0]
    if len(node.operands) != 1 or not isinstance(inner, Einsum) or uses[node.operands[0]] > 1:
        return rebuilt
    return opened(rebuilt, (0,))


def _apply_rules(node: Node) -> Node:
    while (changed := _rewritten(node)) is not None:
        node = changed
    return node


@remembered
def _rewritten(node: Node) -> Node | None:
    """The node after the first law that applies to it."""
    if not isinstance(node, Map | Einsum | Add | Apply):
        return None
    rules = APPLY_RULES if isinstance(node, Apply) else OTHER_RULES
    return next((result for rule in rules if (result := rule(node)) is not None), None)


def _sum(node: Add, operands: tuple[Node, ...], uses: dict[Node, int]) -> Node:
    inner = [
        new
        for old, new in zip(node.operands, operands, strict=True)
        if uses[old] == 1 and isinstance(unscaled(new)[0], Add)
    ]
    whole = node if operands == node.operands and not inner else add(operands, node.shape, flatten=inner)
    if not isinstance(whole, Add) or len(whole.operands) < 2:
        return whole
    protected = [term for term in whole.operands if uses.get(term, 1) > 1]
    factored = factor([term for term in whole.operands if uses.get(term, 1) <= 1], node.shape)
    if len(factored) + len(protected) == len(whole.operands):
        return whole
    return add([*factored, *protected], node.shape)
