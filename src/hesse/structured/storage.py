"""How a structured tensor is stored: for each term a core, or its factors where they are smaller.

`stored` rewrites a derivative into an expression over *parts*: variables whose values are the arrays to
keep. The expression has the patterns, the parts have the numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hesse.ir import (
    Add,
    Einsum,
    Node,
    Shape,
    Variable,
    add,
    core_and_pattern,
    einsum,
    negated,
    number,
    plain_axes,
    transpose,
    variable,
)


class Storage(NamedTuple):
    """An expression over parts, and the nodes that compute the parts (in the order of their names)."""

    node: Node
    parts: tuple[Variable, ...]
    sources: tuple[Node, ...]

    @property
    def entries(self) -> int:
        """Number of entries that are kept."""
        return sum(entries(part.shape) for part in self.parts)


def entries(shape: Shape) -> int:
    """Number of entries of a tensor."""
    return math.prod(map(number, shape))


def stored(node: Node) -> Storage:
    """The node as patterns over parts that take the least memory."""
    parts = _Parts()
    terms = node.operands if isinstance(node, Add) else (node,)
    rebuilt = [_stored_term(_least(term), parts) for term in terms]
    return Storage(add(rebuilt, node.shape), tuple(parts.variables), tuple(parts.sources))


class _Parts:
    """The arrays that are kept, each with the order of axes in which its first term needs it."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.sources: list[Node] = []
        self._known: dict[Node, tuple[Variable, tuple[int, ...]]] = {}

    def sign(self, node: Node) -> float:
        """-1 if the negative of the node is kept already."""
        is_new_sum = isinstance(node, Add) and node not in self._known
        return -1.0 if is_new_sum and negated(node) in self._known else 1.0

    def find(self, node: Node, order: tuple[int, ...] | None = None) -> tuple[Variable, tuple[int, ...]]:
        """The variable that stands for a node (or its negative), and which axis of the node each axis is."""
        if self.sign(node) < 0:
            node = negated(node)
        if node not in self._known:
            order = order or tuple(range(node.rank))
            source = transpose(node, order)
            part = variable(f"part{len(self.variables)}", source.shape)
            self.variables.append(part)
            self.sources.append(source)
            self._known[node] = (part, order)
        return self._known[node]

    def of(self, node: Node) -> Variable:
        return self.find(node)[0]


def _least(term: Node) -> Node:
    """A product with inner products multiplied out where their factors are smaller than they are."""
    if not isinstance(term, Einsum):
        return term
    for k, operand in enumerate(term.operands):
        if isinstance(operand, Einsum) and _factor_entries(operand) < entries(operand.shape):
            fields = (term.operands, term.axes, term.output, term.shape, term.ranges, term.scale)
            merged = einsum(*fields, expand=(k,))
            if merged is not term:  # else no box solves the equations between the two
                return _least(merged)
    return term


def _factor_entries(product: Einsum) -> int:
    return sum(entries(operand.shape) for operand in set(product.operands))


def _stored_term(term: Node, parts: _Parts) -> Node:
    if isinstance(term, Add):  # multiplying out made a sum of it
        return add([_stored_term(inner, parts) for inner in term.operands], term.shape)
    if not isinstance(term, Einsum):
        axes, sign = plain_axes(term.rank), parts.sign(term)
        return einsum([parts.of(term)], [axes], axes, term.shape, term.shape, sign)
    core, pattern = core_and_pattern(term)
    if isinstance(core, Einsum) and core.operands and _factor_entries(core) >= entries(core.shape):
        labels = [axis.label for axis in pattern.axes[0]]
        appearing = dict.fromkeys(label for axis in pattern.output for label in axis.labels())
        part, order = parts.find(core, tuple(labels.index(label) for label in appearing if label in labels))
        axes = tuple(pattern.axes[0][k] for k in order)
        return einsum([part], [axes], pattern.output, term.shape, pattern.ranges, pattern.scale)
    scale = term.scale * math.prod(map(parts.sign, term.operands))
    operands = [parts.of(operand) for operand in term.operands]
    return einsum(operands, term.axes, term.output, term.shape, term.ranges, scale)
