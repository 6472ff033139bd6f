"""Share or flatten: a product that only one other product uses is multiplied out where that costs less.

`(B∘C)·(B∘C)'` is `(B·B')∘(C·C')` when nobody else needs `B∘C`, and `X'·(w∘X)` is multiplied out because it
is seen to be symmetric then.

Sharing is sacred: what is used twice stays a node, or the work would grow with the depth of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.cost import Machine, einsum_cost
from hesse.ir import Einsum, Node, opened, plain_axes, rebuild, symmetries, topological, use_counts
from hesse.plan.distribute import distributed

MOST_OPERANDS = 6
"""Products are not flattened beyond this many operands (the search for their order would take long)."""


def flatten(roots: Sequence[Node], machine: Machine) -> list[Node]:
    """The roots with single-use products multiplied out where it pays."""
    order = topological(roots)
    uses = use_counts(order, roots)
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple(new[operand] for operand in node.operands)
        rebuilt = node if operands == node.operands else rebuild(node, operands)
        new[node] = rebuilt
        if isinstance(rebuilt, Einsum):
            alone = {new[o] for o in node.operands if uses[o] == node.operands.count(o)}
            flat = _flattened(rebuilt, alone, machine)
            new[node] = distributed(flat, alone, machine) if isinstance(flat, Einsum) else flat
    return [new[root] for root in roots]


def _flattened(node: Einsum, alone: set[Node], machine: Machine) -> Node:
    for operand in dict.fromkeys(node.operands):
        if operand not in alone or not isinstance(operand, Einsum):
            continue
        if node.rank != 2 and _is_entrywise(node) and _is_entrywise(operand):
            continue  # it costs the same, and there is no symmetry to gain
        places = [k for k, other in enumerate(node.operands) if other is operand]
        if len(places) * (len(operand.operands) - 1) + len(node.operands) > MOST_OPERANDS:
            continue
        merged = opened(node, places)
        if merged is node or not isinstance(merged, Einsum):
            continue  # no box solves the equations between the two
        apart = einsum_cost(node).time(machine) + einsum_cost(operand).time(machine)
        together = einsum_cost(merged).time(machine)
        is_product = len(node.operands) > 1 < len(operand.operands)
        # products of a chain stay in the order in which they were differentiated: then fewest are alive
        if together < apart or (together == apart and (not is_product or _gains_symmetry(node, merged))):
            return _flattened(merged, alone, machine)
    return node


def _is_entrywise(node: Einsum) -> bool:
    """Whether entries of several tensors of one shape are multiplied."""
    is_plain = node.output == plain_axes(node.rank) and node.ranges == node.shape
    return is_plain and len(node.operands) > 1 and all([row == node.output for row in node.axes])


def _gains_symmetry(apart: Einsum, merged: Einsum) -> bool:
    """Whether a matrix is seen to be symmetric only as one product: half of it need not be computed then."""
    return merged.rank == 2 and bool(symmetries(merged)) and not symmetries(apart)
