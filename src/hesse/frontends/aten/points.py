"""Tensors by which `torch.autograd.grad` differentiates inside a traced function.

PyTorch differentiates by a tensor, hesse by a variable, and equal expressions are one node: a tensor and its
clone are the same, and two columns put together again are the matrix that they were cut from. So the tensors
of a trace are numbered as they are made. When a derivative by one of them is asked for, the function is
called again, and what is made at that number stands for a variable of its own until the trace is done.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hesse.ir import Node, Variable, substitute, variable

_names = itertools.count()


class Again(BaseException):
    """A derivative by tensors that are no points yet: the function must be called again.

    It is no `Exception` because the function may catch those.
    """


class Points:
    """The numbers of the tensors that are made in a call, and the variables for those in `wanted`."""

    def __init__(self, wanted: frozenset[int]) -> None:
        self.wanted = wanted
        self.count = 0
        self.meaning: dict[Variable, Node] = {}
        """By variable, in the order in which they were made: what it stands for."""

    def number(self) -> int:
        """The number of the next tensor."""
        self.count += 1
        return self.count

    def point(self, node: Node) -> Variable:
        """A variable that stands for a node."""
        made = variable(f"point {next(_names)}", node.shape, ["argument"])
        self.meaning[made] = node
        return made

    def expanded(self, roots: list[Node], start: int) -> list[Node]:
        """Nodes without the points that were made after the first `start` ones."""
        table: dict[Node, Node] = {}
        for point, node in itertools.islice(self.meaning.items(), start, None):
            (table[point],) = substitute([node], table)
        return substitute(roots, table) if table else roots

    def place(self, point: Node) -> int | None:
        """How many points are as old as this one; None if it is none."""
        return next((k + 1 for k, known in enumerate(self.meaning) if known is point), None)


current: ContextVar[Points | None] = ContextVar("points", default=None)
"""Those of the trace under way."""


@contextmanager
def points(wanted: frozenset[int]) -> Iterator[Points]:
    """Around a call of a function."""
    made = Points(wanted)
    token = current.set(made)
    try:
        yield made
    finally:
        current.reset(token)
