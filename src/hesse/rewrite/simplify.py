"""One bottom-up pass that applies the laws, with each node seen once.

Sharing decides what may be multiplied out: a sum is merged into the sum around it, and products are
factored, only where nobody else uses them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Map,
    Node,
    carried,
    opened,
    rebuild,
    remembered,
    shortcuts,
    topological,
    use_counts,
)
from hesse.rewrite.attributes import ATTRIBUTE_RULES
from hesse.rewrite.matrix_rules import MATRIX_RULES
from hesse.rewrite.root_rules import ROOT_RULES
from hesse.rewrite.rules import RULES, Head, Rule
from hesse.rewrite.scatter_rules import SCATTER_RULES
from hesse.rewrite.shift_rules import NORMALISATION_RULES, SHIFT_RULES
from hesse.rewrite.size_rules import SIZE_RULES
from hesse.rewrite.softmax_rules import SOFTMAX_RULES
from hesse.rewrite.sums import LongSum, Sums

LAWS: dict[Rule, Head] = {
    **RULES,
    **SOFTMAX_RULES,
    **NORMALISATION_RULES,
    **SHIFT_RULES,
    **SCATTER_RULES,
    **SIZE_RULES,
    **ROOT_RULES,
    **ATTRIBUTE_RULES,
    **MATRIX_RULES,
}
"""All laws in the order in which they are tried, with what each is about."""


def simplify(roots: Sequence[Node]) -> list[Node]:
    """The roots in simpler and numerically stabler form."""
    if len(roots) == 1 and not shortcuts():  # what is remembered has none
        return [_simplified(roots[0])]
    return carried(roots, _all_simplified)


@remembered  # a formula is simplified before it is printed, evaluated and differentiated
def _simplified(root: Node) -> Node:
    return _all_simplified([root])[0]


def _all_simplified(roots: Sequence[Node]) -> list[Node]:
    order = topological(roots)
    uses = use_counts(order, roots)
    sums = Sums(order, uses)
    new: dict[Node, Node] = {}
    inside: dict[Node, LongSum] = {}
    for node in order:
        if isinstance(node, Add):
            terms = [inside.pop(term) if term in inside else new[term] for term in node.operands]
            whole = sums.simplified(node, terms)
            if isinstance(whole, LongSum):
                inside[node] = whole
            else:
                new[node] = _apply_rules(whole)
        else:
            operands = tuple(new[operand] for operand in node.operands)
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
    if isinstance(node, Einsum):
        names = frozenset([operand.name for operand in node.operands if isinstance(operand, Map | Apply)])
    else:
        names = frozenset([node.name] if isinstance(node, Map | Apply) else ())
    for law in _laws_about(type(node), names):  # type: ignore[arg-type]  # classes hash
        result = law(node)
        if result is not None:
            return result
    return None


@functools.cache
def _laws_about(kind: type[Node], names: frozenset[str]) -> tuple[Rule, ...]:
    """The laws about nodes of a class: functions of a name, or products with functions of these names."""

    def is_about(head: Head) -> bool:
        if isinstance(head, frozenset):
            return kind is Einsum and not head.isdisjoint(names)
        return head is kind or (kind is not Einsum and head in names)

    return tuple(law for law, head in LAWS.items() if is_about(head))
