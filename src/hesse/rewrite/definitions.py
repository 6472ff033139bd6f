"""Functions in terms of others, for targets that do not have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hesse.ir import Map, Node, rebuild, topological
from hesse.ops.registry import ELEMENTWISE, Formula


def expanded(roots: Sequence[Node], is_known: Callable[[str], bool]) -> list[Node]:
    """The expressions with rows that are not known replaced by their definitions, where they have one.

    >>> from hesse.ir import variable
    >>> from hesse.ops.registry import elementwise
    >>> (found,) = expanded([elementwise("relu", variable("x", ("n",)))], {"maximum"}.__contains__)
    >>> found.name
    'maximum'
    """
    lacking = {
        name: row.definition
        for name, row in ELEMENTWISE.items()
        if row.definition is not None and not is_known(name)
    }
    before, after = None, list(roots)
    while lacking and after != before:  # a definition may need others
        before, after = after, _expanded_once(after, lacking)
    return after


def _expanded_once(roots: Sequence[Node], lacking: Mapping[str, Formula]) -> list[Node]:
    new: dict[Node, Node] = {}
    for node in topological(roots):
        operands = tuple(new[operand] for operand in node.operands)
        if isinstance(node, Map) and node.name in lacking:
            new[node] = lacking[node.name](*operands)
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]
