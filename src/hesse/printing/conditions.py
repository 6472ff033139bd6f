"""Comparisons and choices in a form for reading: those that only keep out a special case are left out."""

from __future__ import annotations

from hesse.ir import (
    Add,
    Map,
    Node,
    add,
    map_,
    rebuild,
    scale,
    substitute,
    topological,
    uniform,
    uniform_value,
    unscaled,
)
from hesse.ops.registry import elementwise
from hesse.rewrite import by_definitions


def choices(root: Node) -> Node:
    """chosen(c) = c: what a product with it means besides goes without saying."""
    return by_definitions([root], ["chosen"])[0]


def complements(root: Node) -> Node:
    """sigmoid(-z) = 1 - sigmoid(z), where both are there."""
    found = {
        node.operands[0]: node
        for node in topological([root])
        if isinstance(node, Map) and node.name == "sigmoid"
    }
    both = [z for z in found if scale(z, -1.0) in found and unscaled(z)[1] < 0]
    return substitute([root], {found[z]: 1.0 - found[scale(z, -1.0)] for z in both})[0] if both else root


def guards(root: Node) -> Node:
    """where(x == 0 and e == 0, 1, f) = f and not(x == 0 and e == 0) = 1 beside x^e: they keep out 0^0."""
    order = topological([root])
    bases = {node.operands[0] for node in order if isinstance(node, Map) and node.name == "power"}
    if not bases:
        return root
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple(new[operand] for operand in node.operands)
        new[node] = node if operands == node.operands else rebuild(node, operands)
        if not isinstance(node, Map) or not _keeps_out_zero(node.operands[0], bases):
            continue
        if node.name == "where" and uniform_value(node.operands[1]) == 1:
            new[node] = operands[2]
        elif node.name == "logical_not":
            new[node] = uniform(1.0, node.shape)
    return new[root]


def _keeps_out_zero(condition: Node, bases: set[Node]) -> bool:
    """Whether a condition is `x == 0 and e == 0` for the base x of a power."""
    tests = condition.operands if _is_named(condition, "logical_and") else ()
    zeros = [test for test in tests if _is_named(test, "equal") and uniform_value(test.operands[1]) == 0]
    return 0 < len(zeros) == len(tests) and any(test.operands[0] in bases for test in zeros)


def unguarded(node: Node, base: Node) -> Node:
    """`where(x == 0 and …, 1, e)` beside x, or with x for e, is e: the choice only keeps out the zero."""
    if not isinstance(node, Map) or node.name != "where":
        return node
    condition, _, chosen = node.operands
    tests = condition.operands if _is_named(condition, "logical_and") else (condition,)
    zeros = [test for test in tests if _is_named(test, "equal") and uniform_value(test.operands[1]) == 0]
    compared = [test.operands[0] for test in zeros]
    return chosen if base in compared or chosen in compared else node


def steps(root: Node) -> Node:
    """(x > y) = sign(relu(x - y)), unless the comparison chooses between values.

    A sum of (x > y) and (x >= y) is left for `signs`.
    """
    maps = [node for node in topological([root]) if isinstance(node, Map)]
    if any(node.name == "where" or node.name.startswith("logical") for node in maps):
        return root
    wide = {node.operands for node in maps if node.name == "greater_equal"}
    return substitute(
        [root],
        {
            node: elementwise("sign", elementwise("relu", node.operands[0] - node.operands[1]))
            for node in maps
            if node.name == "greater" and node.operands not in wide
        },
    )[0]


def signs(node: Node) -> Node:
    """(x > y) + (x >= y) = sign(x - y) + 1."""
    if not isinstance(node, Add):
        return node
    parts = {unscaled(term)[0]: unscaled(term)[1] for term in node.operands}
    for base, factor in parts.items():
        if not isinstance(base, Map) or base.name != "greater":
            continue
        partner = map_("greater_equal", *base.operands)
        if parts.get(partner) == factor:
            first, second = base.operands
            found = scale(elementwise("sign", first - second) + 1.0, factor)
            rest = [scale(part, times) for part, times in parts.items() if part not in (base, partner)]
            return signs(add([*rest, found], node.shape, flatten=[found]))
    return node


def _is_named(node: Node, name: str) -> bool:
    return isinstance(node, Map) and node.name == name
