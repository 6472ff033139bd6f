"""Functions in terms of others, for targets that do not have them."""

from __future__ import annotations

from collections.abc import Collection

from hesse.ir import Map, Node, rebuild, topological
from hesse.ops.registry import ELEMENTWISE


def expanded(root: Node, known: Collection[str]) -> Node:
    """The expression with rows that are not `known` replaced by their definitions, where they have one.

    >>> from hesse.ir import variable
    >>> from hesse.ops.registry import elementwise
    >>> expanded(elementwise("relu", variable("x", ("n",))), {"maximum"}).name
    'maximum'
    """
    before = None
    while root is not before:  # a definition may need others
        before, root = root, _expanded_once(root, known)
    return root


def _expanded_once(root: Node, known: Collection[str]) -> Node:
    new: dict[Node, Node] = {}
    for node in topological([root]):
        operands = tuple(new[operand] for operand in node.operands)
        definition = ELEMENTWISE[node.name].definition if isinstance(node, Map) else None
        if isinstance(node, Map) and definition is not None and node.name not in known:
            new[node] = definition(*operands)
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return new[root]
