"""Names of the rules of differentiation that a derivative uses."""

from __future__ import annotations

from hesse.ir import Add, Apply, Einsum, Map, Node, Variable, dependents, topological
from hesse.ops.registry import printed_name

MOST_RULES = 3
"""More rules than this are not told apart."""

TITLES = {"reciprocal": "1/x", "power": "a power", "expm_chain": "expm"}
"""Functions that are known by other names than those that formulas call them by."""


def rules_between(node: Node, variable: Node) -> str:
    """The rules that the derivative of a node by a variable needs, outermost first."""
    order = topological([node])
    moving = dependents(order, [variable])
    found = dict.fromkeys(rule for part in reversed(order) if part in moving for rule in _rule(part, moving))
    rules = list(found)
    if not rules:
        return "derivative of a linear function"
    return ", ".join(rules[:MOST_RULES]) + (", and others" if len(rules) > MOST_RULES else "")


def _rule(node: Node, moving: set[Node]) -> list[str]:
    places = [k for k, operand in enumerate(node.operands) if operand in moving]
    match node:
        case Map() | Apply():
            return [f"derivative of {TITLES.get(node.name) or printed_name(node.name)}"] if places else []
        case Einsum() if len(places) > 1:
            same = len({(node.operands[k], node.axes[k]) for k in places}) == 1
            return ["power rule" if same else "product rule"]
        case Add() if len(places) > 1:
            return ["sum rule"]
    return []


def symmetric_variables(node: Node) -> list[str]:
    """The names of the symmetric matrices in an expression."""
    return sorted(
        part.name
        for part in topological([node])
        if isinstance(part, Variable) and "symmetric" in part.attributes
    )
