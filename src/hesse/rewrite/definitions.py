"""What is computed for an expression: selections, and functions in terms of those that a target has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hesse.ir import Map, Node, rebuild, topological
from hesse.ops.registry import ELEMENTWISE
from hesse.rewrite.selections import selecting


def expanded(roots: Sequence[Node], is_known: Callable[[str], bool]) -> list[Node]:
    """The expressions with choices as selections, and rows that are not known by their definitions.

    >>> from hesse.ir import variable
    >>> from hesse.ops.registry import elementwise
    >>> (found,) = expanded([elementwise("relu", variable("x", ("n",)))], {"maximum"}.__contains__)
    >>> found.name
    'maximum'
    """
    lacking = [name for name, row in ELEMENTWISE.items() if row.definition is not None and not is_known(name)]
    before, after = None, selecting(roots)
    while lacking and after != before:  # a definition may need others
        before, after = after, by_definitions(after, lacking)
    return after


def by_definitions(roots: Sequence[Node], names: Collection[str]) -> list[Node]:
    """The expressions with some rows replaced by their definitions."""
    order = topological(roots)
    if not any(isinstance(node, Map) and node.name in names for node in order):
        return list(roots)
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple(new[operand] for operand in node.operands)
        formula = ELEMENTWISE[node.name].definition if isinstance(node, Map) and node.name in names else None
        if formula is not None:
            new[node] = formula(*operands)
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]
