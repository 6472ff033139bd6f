"""Loops that repeat what other loops compute: their results are taken from those.

The loop of a tangent, and the one that runs before a loop backwards, compute the values, too. Where such a
loop is needed anyway, the loop of the values alone is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from hesse.ir import Apply, Node, rebuild, topological
from hesse.ops.foreign import FOREIGN, Rule, foreign, rule_of


def without_repeated_loops(roots: Sequence[Node]) -> list[Node]:
    """The roots, with each value of a loop taken from the loop that computes most besides."""
    while found := _repeated(roots):
        new = _replaced(roots, found)
        if new is None:
            break
        roots = new
    return list(roots)


def _repeated(roots: Sequence[Node]) -> dict[Node, Node]:
    """Results of loops, and the same results of others."""
    loops = [
        node
        for node in topological(roots)
        if isinstance(node, Apply) and node.name == FOREIGN and rule_of(node).is_loop
    ]
    calls: dict[Rule, dict[tuple[Node, ...], None]] = {}
    for node in loops:
        calls.setdefault(rule_of(node), {})[node.operands] = None
    found: dict[Node, Node] = {}
    for node in loops:
        for other in rule_of(node).repeated(node):
            for operands in calls.get(other.rule, ()) if other.rule is not rule_of(node) else ():
                if all(operands[slot] is operand for slot, operand in other.operands.items()):
                    found[node] = foreign(other.rule, *operands)[other.number]
    return found


def _replaced(roots: Sequence[Node], found: Mapping[Node, Node]) -> list[Node] | None:
    """The roots with nodes replaced, also below what replaces others; None if one were below itself."""
    below = {
        node: (found[node],) if node in found else node.operands
        for node in topological([*roots, *found.values()])
    }
    try:
        order = list(TopologicalSorter(below).static_order())
    except CycleError:
        return None
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple(new[operand] for operand in below[node])
        if node in found:
            (new[node],) = operands
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]
