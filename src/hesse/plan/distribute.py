"""Distribute or add first: a product with a sum of products is multiplied out where that costs less.

With `p = softmax(Q·K')` the sum `p∘K - p∘(p·K)` is a large tensor; contracted with `V` term by term it is
`p·(V∘K) - (p·V)∘(p·K)`, which never forms it.

A difference of plain tensors (`x[i] - x[j]`, a residual) is always formed first: that is where digits would
be lost, and where the terms are of no use by themselves.
"""

from __future__ import annotations

from collections.abc import Collection

from hesse.cost import Machine, core_entries, einsum_cost
from hesse.ir import Add, Einsum, Node, add, einsum_of

MOST_TERMS = 4
MOST_OPERANDS = 6
"""A product is not multiplied out beyond these (the search for the order of its operands would take long)."""


def distributed(node: Einsum, alone: Collection[Node], machine: Machine) -> Node:
    """The product as a sum of products where that costs less; `alone` are operands nobody else uses."""
    for k, operand in enumerate(node.operands):
        if operand not in alone or node.operands.count(operand) > 1 or not _is_sum_of_products(operand):
            continue
        products = [node.product.with_operand(k, term) for term in operand.operands]
        terms = [einsum_of(product, node.shape, expand=(k,)) for product in products]
        if all(isinstance(term, Einsum) and len(term.operands) <= MOST_OPERANDS for term in terms):
            apart = sum(_time(term, machine) + core_entries(term) for term in terms)
            formed = sum(_time(term, machine) + core_entries(term) for term in operand.operands)
            if apart < formed + _time(node, machine):
                return add(terms, node.shape)
    return node


def _is_sum_of_products(node: Node) -> bool:
    return (
        isinstance(node, Add)
        and 1 < len(node.operands) <= MOST_TERMS
        and all(isinstance(term, Einsum) and len(term.operands) > 1 for term in node.operands)
    )


def _time(node: Node, machine: Machine) -> float:
    return einsum_cost(node).time(machine) if isinstance(node, Einsum) else 0.0
