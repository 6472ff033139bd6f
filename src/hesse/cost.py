"""What products cost, on structured sizes: contraction orders, operations and entries."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import opt_einsum

from hesse.ir import Add, Einsum, Node, Size, remembered, topological
from hesse.ir import first_labels as first_labels  # noqa: PLC0414

Labels = tuple[int, ...]
SYMBOLIC_SIZE = 100
"""What a symbolic size counts as when costs are compared."""


@dataclass(frozen=True)
class Machine:
    """What decides between programs: how an array library behaves on the processor it runs on.

    Costs are in operations of a large matrix product (a multiplication and an addition are two), sizes in
    array entries. As it stands the record is that of a library without habits of its own.
    """

    entry_cost: float = 16.0
    """Operations that take as long as moving one array entry."""
    smallest_halved: float = math.inf
    """Rows from which a product that is known to be symmetric is computed by halves."""
    halved_share: float = 1.0
    """The share of the operations of such a product that is left."""
    call_cost: float = 0.0
    """Operations in the time that an instruction takes on arrays of hardly any entries."""
    large_sum: float = math.inf
    """Entries of a sum whose terms should not all be in memory together."""
    largest_joined: int = 0
    """Entries of diagonal blocks up to which the terms of a structured result in them are one array."""
    larger_first: bool = False
    """Whether the axes of the larger factor come first in a product, which is copied for another order."""

    def halves(self, sizes: Iterable[int]) -> bool:
        """Whether a symmetric product of two matrices with these rows, columns and so on is halved."""
        return min(sizes) >= self.smallest_halved


PLAIN_MACHINE = Machine()
"""For decisions that are made before a library is chosen: one derivative is the same for all of them."""


def concrete(size: Size) -> int:
    """A number for a size that may not have one yet."""
    return SYMBOLIC_SIZE if isinstance(size, str) else size


@functools.lru_cache(maxsize=8192)
def contraction_path(
    inputs: tuple[Labels, ...], output: Labels, ranges: tuple[int, ...]
) -> tuple[Labels, ...]:
    """The positions to contract, step by step, in the convention of opt_einsum."""
    if len(inputs) <= 2:
        return (tuple(range(len(inputs))),)
    # a label of its own for each operand: opt_einsum takes products of equal sets of labels for the same
    # whatever else is left to multiply
    own = range(len(ranges), len(ranges) + len(inputs))
    sizes = dict(enumerate((*ranges, *(1 for _ in own))))
    operands = [frozenset((*labels, mark)) for labels, mark in zip(inputs, own, strict=True)]
    path = opt_einsum.paths.auto(operands, frozenset((*output, *own)), sizes)
    return tuple(tuple(pair) for pair in path)


class Cost(NamedTuple):
    """Operations, and array entries read or written."""

    flops: float
    entries: float

    def time(self, machine: Machine) -> float:
        """Operations, with each entry moved counted as several: memory is slower than arithmetic."""
        return self.flops + machine.entry_cost * self.entries


@functools.lru_cache(maxsize=8192)
def product_cost(inputs: tuple[Labels, ...], output: Labels, ranges: tuple[int, ...]) -> Cost:
    """The cost of a product in its best order."""
    remaining = [set(labels) for labels in inputs]
    flops = entries = 0.0
    for positions in contraction_path(inputs, output, ranges):
        chosen = [remaining[k] for k in positions]
        remaining = [labels for k, labels in enumerate(remaining) if k not in positions]
        present = set().union(*chosen)
        kept = present & set(output).union(*remaining)
        if len(chosen) > 1 or kept != present:
            work = math.prod(ranges[label] for label in present)
            flops += work * (2 if len(chosen) > 1 and len(kept) < len(present) else 1)
            entries += sum(math.prod(ranges[label] for label in labels) for labels in (*chosen, kept))
        remaining.append(kept)
    return Cost(flops, entries)


@remembered
def einsum_cost(node: Einsum) -> Cost:
    """The cost of the core of an einsum."""
    inputs = tuple(map(first_labels, node.axes))
    ranges = tuple(map(concrete, node.ranges))
    return product_cost(inputs, node.core_labels, ranges) if inputs else Cost(0.0, 0.0)


def _core_sizes(term: Node) -> list[int]:
    sizes = term.sizes(term.core_labels) if isinstance(term, Einsum) else term.shape
    return [concrete(size) for size in sizes]


def _terms(node: Node) -> Sequence[Node]:
    return node.operands if isinstance(node, Add) else (node,)


def core_entries(node: Node) -> float:
    """Entries of the cores of a tensor: its structured size."""
    return sum(math.prod(_core_sizes(term)) for term in _terms(node))


def core_order(node: Node) -> int:
    """The largest number of axes of the cores of a tensor."""
    return max((len(_core_sizes(term)) for term in _terms(node)), default=0)


def node_cost(node: Node) -> Cost:
    """The cost of one node alone."""
    if isinstance(node, Einsum):
        return einsum_cost(node)
    count = core_entries(node)
    return Cost(count, 2 * count)


def estimate(roots: Sequence[Node], machine: Machine = PLAIN_MACHINE) -> float:
    """The cost of computing the roots, each node once (in operations, not in seconds)."""
    return sum(node_cost(node).time(machine) for node in topological(roots) if node.operands)
