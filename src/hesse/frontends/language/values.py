"""Values: what a term means, before the sizes are known.

A value knows the sizes of its axes as cells, and how its node is made from the nodes of its operands once
every cell has a size. A value is a scalar, a column, a row, a matrix or a tensor; or, in index notation, a
term whose axes have labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hesse.frontends.language.sizes import Cell
from hesse.frontends.language.source import Span
from hesse.ir import Node


@dataclass(eq=False)
class Value:
    """A typed term. `factors` are set where it is a product in index notation, kept open to be summed."""

    span: Span
    cells: tuple[Cell, ...]
    combine: Callable[..., Node]
    operands: tuple[Value, ...] = ()
    labels: tuple[str, ...] = ()
    is_row: bool = False
    factors: tuple[Value, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.cells)

    @property
    def is_indexed(self) -> bool:
        """Whether the value has labels that are still free."""
        return bool(self.labels)

    @property
    def kind(self) -> str:
        """What the value is, in words."""
        if self.is_indexed:
            return f"a term with the indices {', '.join(self.labels)}"
        if self.is_row:
            return "a row"
        kinds = ("a scalar", "a column vector", "a matrix")
        return kinds[self.rank] if self.rank < len(kinds) else f"a tensor of order {self.rank}"


def build(root: Value) -> Node:
    """The node of a value whose sizes are known; each value it needs is made once."""
    nodes: dict[int, Node] = {}
    stack = [root]
    while stack:
        value = stack[-1]
        missing = [operand for operand in value.operands if id(operand) not in nodes]
        if id(value) in nodes or not missing:
            if id(value) not in nodes:
                nodes[id(value)] = value.combine(*(nodes[id(operand)] for operand in value.operands))
            stack.pop()
        else:
            stack.extend(missing)
    return nodes[id(root)]
