"""Schwarz's theorem inside a block: what lies below the diagonal is what lies above it.

The terms of a structured second derivative are bands and blocks. Where a term and its mirror image touch no
entry of any other term, each is the transpose of the other, and only the cheaper one is computed.
"""

from __future__ import annotations

from hesse.cost import PLAIN_MACHINE, Machine, estimate
from hesse.ir import Add, Axis, Einsum, Node, Size, add, disjoint_outputs, is_sparse, transpose

MOST_TERMS = 64
"""Sums of more terms are not searched (the search is quadratic)."""
Support = tuple[tuple[Axis, ...], tuple[Size, ...]]


def mirrored(node: Node, rank: int, machine: Machine = PLAIN_MACHINE) -> Node:
    """A derivative by one variable twice, `[…, rows…, columns…]`: of two mirror images one is computed."""
    if not isinstance(node, Add) or len(node.operands) > MOST_TERMS:
        return node
    places: dict[Support, Einsum] = {}
    for term in node.operands:
        if not isinstance(term, Einsum) or not is_sparse(term):
            return node  # it may touch everything
        places[_support(term)] = term
    order = [*range(node.rank - 2 * rank), *range(node.rank - rank, node.rank)]
    order += range(node.rank - 2 * rank, node.rank - rank)
    chosen: dict[Node, Node] = {}
    for term in node.operands:
        assert isinstance(term, Einsum)
        image = transpose(term, order)
        partner = places.get(_support(image)) if isinstance(image, Einsum) else None
        if partner is None or partner is term or term in chosen or partner in chosen:
            continue
        if all(_apart(one, node) for one in (term, partner)):
            kept, other = sorted((term, partner), key=lambda side: (estimate([side], machine), side.key))
            chosen[kept], chosen[other] = kept, transpose(kept, order)
    return add([chosen.get(term, term) for term in node.operands], node.shape) if chosen else node


def _support(term: Einsum) -> Support:
    """Which entries a term touches: labels are numbered in the order in which the output has them."""
    return term.output, term.ranges[: len(term.placed)]


def _apart(term: Einsum, whole: Add) -> bool:
    """Whether no other term of the sum touches an entry of the term."""
    return all(disjoint_outputs(term, other) for other in whole.operands if other is not term)
