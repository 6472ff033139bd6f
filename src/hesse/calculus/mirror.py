"""Schwarz's theorem inside a block: what lies below the diagonal is what lies above it.

The terms of a structured second derivative are bands and blocks. Terms that touch common entries are a group.
Where the mirror image of a group is another group, each is the transpose of the other, and only the cheaper
one is computed. So the Hessian by a vector that a model takes apart into its parameters costs no more than
the Hessian by the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.cost import PLAIN_MACHINE, Machine, estimate
from hesse.ir import Add, Einsum, Node, Size, add, is_sparse, meeting, transpose

MOST_TERMS = 256
"""Sums of more terms are not searched (the search is quadratic)."""
Support = tuple[tuple[tuple[int, tuple[tuple[int, int], ...]], ...], tuple[Size, ...]]
Group = tuple[Node, ...]


def mirrored(node: Node, rank: int, machine: Machine = PLAIN_MACHINE) -> Node:
    """A derivative by one variable twice, `[…, rows…, columns…]`: of two mirror images one is computed."""
    if not isinstance(node, Add) or len(node.operands) > MOST_TERMS:
        return node
    terms = [term for term in node.operands if isinstance(term, Einsum) and is_sparse(term)]
    if len(terms) < len(node.operands):
        return node  # one of the others may touch everything
    order = [*range(node.rank - 2 * rank), *range(node.rank - rank, node.rank)]
    order += range(node.rank - 2 * rank, node.rank - rank)
    groups = _groups(terms)
    by_support = {_supports(group): group for group in groups}
    chosen: dict[Group, Group] = {}
    for group in groups:
        partner = by_support.get(_supports([transpose(term, order) for term in group]))
        if partner is None or partner is group or group in chosen:
            continue
        kept, other = sorted((group, partner), key=lambda side: (estimate(side, machine), side[0].key))
        chosen[kept], chosen[other] = kept, tuple([transpose(term, order) for term in kept])
    found = [term for group in groups for term in chosen.get(group, group)]
    return add(found, node.shape) if chosen else node


def _groups(terms: Sequence[Einsum]) -> list[Group]:
    """The terms, those together that touch common entries, be it by way of others."""
    groups = {term: [term] for term in terms}
    for one, two in meeting(terms):
        first, second = groups[one], groups[two]
        if first is not second:
            first += second
            groups |= dict.fromkeys(second, first)
    return [tuple(group) for term, group in groups.items() if group[0] is term]


def _supports(terms: Sequence[Node]) -> frozenset[Support]:
    """Which entries terms touch."""
    return frozenset(map(_support, terms))


def _support(term: Node) -> Support:
    """Which entries a term touches: its output, with labels numbered by axes and by steps along them."""
    assert isinstance(term, Einsum), "so are transposes of it"
    numbers: dict[int, int] = {}
    axes = []
    for axis in term.output:
        steps = sorted(axis.terms, key=lambda pair: -pair[1])
        axes.append((axis.offset, tuple([(numbers.setdefault(k, len(numbers)), step) for k, step in steps])))
    return tuple(axes), tuple([term.ranges[label] for label in numbers])
