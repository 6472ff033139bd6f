"""Matrices of which only numbers are needed: `tr(A·(C·B·C))` is `⟨C·A, (B·C)'⟩`.

The second derivative of a likelihood by the parameters of a covariance has such a number for each pair of
them. With the product in the middle formed for each `B`, every parameter takes two products of matrices; with
`C·A` and `B·C`, which are of one kind, it takes one. So where all users of a costly product contract it to
something small, it is multiplied out in all of them, and orders that share factors are looked for again.

Sums inside are multiplied out as well if at most one of their terms is a plain tensor: the others are rounded
products, and no digits are lost but those that are lost in them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hesse.cost import Machine, core_entries, einsum_cost
from hesse.ir import Add, Einsum, Node, add, core, core_and_pattern, einsum_of, opened, rebuild, topological

LEAST_TIME = 1e6
"""Operations from which a product is worth it."""
SMALL = 16
"""What is computed from a product has so many times fewer entries."""
MOST_TERMS = 16
MOST_OPERANDS = 8
"""Products are not multiplied out beyond these."""


def with_open_contractions(roots: Sequence[Node], machine: Machine) -> list[Node]:
    """The roots with costly products multiplied out where they are contracted."""
    order = topological(roots)
    private = _private(order, roots, machine)
    if not private:
        return list(roots)
    new: dict[Node, Node] = {}
    inside: set[Node] = set()
    for node in order:
        operands = tuple([new[operand] for operand in node.operands])
        rebuilt = node if operands == node.operands else rebuild(node, operands)
        if node in private:
            inside |= {rebuilt, core(rebuilt) if isinstance(rebuilt, Einsum) else rebuilt}
        elif isinstance(rebuilt, Einsum):
            rebuilt = _spread(rebuilt, inside)
        new[node] = rebuilt
    return [new[root] for root in roots]


def _private(order: Sequence[Node], roots: Sequence[Node], machine: Machine) -> set[Node]:
    """Costly products of which only small tensors are needed, and large tensors that only they need."""
    users, ends = _users(order), set(roots)
    sizes: dict[Node, float] = {}
    for node in reversed(order):
        if node in ends or not users[node] or _is_view(node, users):
            continue
        size = core_entries(node)
        least = max([sizes.get(user, math.inf) for user in users[node]])
        if _is_contracted(node, size, users[node], machine):
            sizes[node] = size
        elif size >= least and _is_opened(node):
            sizes[node] = least
    return set(sizes)


def _users(order: Sequence[Node]) -> dict[Node, list[Node]]:
    """The nodes that use each node; a product with a pattern uses its core."""
    users: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for operand in node.operands:
            users[operand].append(node)
        if _is_view(node, users):
            assert isinstance(node, Einsum)
            users[core(node)].append(node)
    return users


def _is_view(node: Node, nodes: Collection[Node]) -> bool:
    """Whether a tensor is a view of another one of some nodes, which is computed for itself."""
    return isinstance(node, Einsum) and core(node) is not node and core(node) in nodes


def _is_contracted(node: Node, size: float, users: Collection[Node], machine: Machine) -> bool:
    """Whether it is a costly sum of products, of which only small tensors are made."""
    if not isinstance(node, Einsum) or node.inside <= node.placed:
        return False
    if einsum_cost(node).time(machine) < LEAST_TIME:
        return False
    return all([isinstance(user, Einsum) and SMALL * core_entries(user) <= size for user in users])


def _is_opened(node: Node) -> bool:
    """Whether a sum or product may be multiplied out."""
    if not isinstance(node, Add):
        return isinstance(node, Einsum)
    plain = [term for term in node.operands if not isinstance(term, Einsum) or len(term.operands) < 2]
    return len(plain) <= 1


def _spread(node: Einsum, inside: Collection[Node]) -> Node:
    """A product with its operands multiplied out as far as they are inside; itself if that takes too many.

    So it is where an operand is left over, such as a window that is read with an offset: it is needed anyway.
    """
    whole, pattern = core_and_pattern(node)
    waiting, found = [whole], list[Node]()
    while waiting:
        term = waiting.pop()
        k = next((k for k, operand in enumerate(term.operands) if operand in inside), None)
        if k is None or not isinstance(term, Einsum):
            found.append(term)
            continue
        parts = _parts(term, k)
        waiting += parts
        if len(waiting) + len(found) > MOST_TERMS or any(
            len(part.operands) > MOST_OPERANDS or term.operands[k] in part.operands for part in parts
        ):
            return node
    return (
        node if found == [whole] else einsum_of(pattern.with_operand(0, add(found, whole.shape)), node.shape)
    )


def _parts(node: Einsum, k: int) -> list[Node]:
    """The terms of a product with one of its operands multiplied out."""
    operand = node.operands[k]
    if not isinstance(operand, Add):
        return [opened(node, [k])]
    return [einsum_of(node.product.with_operand(k, term), node.shape) for term in operand.operands]
