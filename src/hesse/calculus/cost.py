"""What products cost, on structured sizes: contraction orders, operations and entries."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import opt_einsum

from hesse.ir import Add, Axis, Einsum, Node, Size, topological

Labels = tuple[int, ...]
SYMBOLIC_SIZE = 100
"""What a symbolic size counts as when costs are compared."""


def concrete(size: Size) -> int:
    """A number for a size that may not have one yet."""
    return SYMBOLIC_SIZE if isinstance(size, str) else size


def first_labels(axes: Sequence[Axis]) -> Labels:
    """The distinct labels of some axes, in order of appearance."""
    return tuple(dict.fromkeys(label for axis in axes for label in axis.labels()))


@functools.lru_cache(maxsize=8192)
def contraction_path(
    inputs: tuple[Labels, ...], output: Labels, ranges: tuple[int, ...]
) -> tuple[Labels, ...]:
    """The positions to contract, step by step, in the convention of opt_einsum."""
    if len(inputs) <= 2:
        return (tuple(range(len(inputs))),)
    sizes = dict(enumerate(ranges))
    path = opt_einsum.paths.auto([frozenset(labels) for labels in inputs], frozenset(output), sizes)
    return tuple(tuple(pair) for pair in path)


@functools.lru_cache(maxsize=8192)
def product_flops(inputs: tuple[Labels, ...], output: Labels, ranges: tuple[int, ...]) -> float:
    """Operations of a product in its best order."""
    remaining = [set(labels) for labels in inputs]
    flops = 0.0
    for positions in contraction_path(inputs, output, ranges):
        chosen = [remaining[k] for k in positions]
        remaining = [labels for k, labels in enumerate(remaining) if k not in positions]
        present = set().union(*chosen)
        kept = present & set(output).union(*remaining)
        work = math.prod(ranges[label] for label in present)
        if len(chosen) > 1:
            flops += work * (2 if len(kept) < len(present) else 1)
        elif kept != present:
            flops += work
        remaining.append(kept)
    return flops


def einsum_flops(node: Einsum) -> float:
    """Operations of the core of an einsum."""
    inside = set(first_labels([axis for axes in node.axes for axis in axes]))
    output = tuple(label for label in first_labels(node.output) if label in inside)
    inputs = tuple(first_labels(axes) for axes in node.axes)
    return product_flops(inputs, output, tuple(map(concrete, node.ranges))) if inputs else 0.0


def core_entries(node: Node) -> float:
    """Entries of the cores of a tensor: its structured size."""
    if isinstance(node, Add):
        return sum(core_entries(term) for term in node.operands)
    if not isinstance(node, Einsum):
        return math.prod(map(concrete, node.shape))
    inside = set(first_labels([axis for axes in node.axes for axis in axes]))
    return math.prod(concrete(node.ranges[label]) for label in first_labels(node.output) if label in inside)


def node_flops(node: Node) -> float:
    """Operations of one node alone."""
    if isinstance(node, Einsum):
        return einsum_flops(node)
    if isinstance(node, Add):
        return core_entries(node)
    return math.prod(map(concrete, node.shape))


def estimate(roots: Sequence[Node]) -> float:
    """Operations to compute the roots, each node once."""
    return sum(node_flops(node) for node in topological(roots) if node.operands)
