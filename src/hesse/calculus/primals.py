"""Functions whose rule says what takes their place wherever they were differentiated.

A rule of JAX computes the value of its function, too. Where it does so by another expression than by calling
the function again, derivatives of derivatives are those of that expression: behind a reversed gradient the
second derivative is not reversed once more. So a derivative is no longer made of the function itself.
Recurrences for Taylor coefficients cannot tell the first derivative from later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hesse.calculus.repeated_loops import without_repeated_loops
from hesse.ir import Apply, Node, substitute, topological
from hesse.ops.foreign import FOREIGN, Rule, rule_of
from hesse.rewrite import simplify


def replaced_rules(output: Node) -> set[Rule]:
    """The rules in an expression that put something else in the place of their function."""
    return {rule_of(node) for node in _foreign([output]) if rule_of(node).primal(node) is not node}


def settled(output: Node, derivatives: Sequence[Node]) -> list[Node]:
    """Derivatives of an expression, with what its rules put in the place of their functions."""
    derivatives = without_repeated_loops(derivatives)
    rules = replaced_rules(output)
    found: dict[Node, Node] = {}
    for node in _foreign(derivatives) if rules else ():
        if rule_of(node) in rules:
            (found[node],) = substitute([rule_of(node).primal(node)], found)
    return simplify(substitute(derivatives, found)) if found else list(derivatives)


def _foreign(roots: Iterable[Node]) -> list[Apply]:
    return [node for node in topological(roots) if isinstance(node, Apply) and node.name == FOREIGN]
