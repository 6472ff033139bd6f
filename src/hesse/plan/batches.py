"""Axes over which products of matrices are repeated come first in memory.

A product of many small matrices reads them one after the other. Where an operand is itself a product entry by
entry, it can be laid out so at no cost; else each product copies it first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hesse.plan.program import CallMap, Combine, Contract, Program, Ref, Scale
from hesse.plan.reading import Order, permuted

SMALLEST = 2**12
"""Values with fewer entries are copied at once."""


def batches_first(program: Program) -> Program:
    """The program with products entry by entry laid out as products of matrices read them."""
    wanted: dict[Ref, tuple[float, Order]] = {}
    """By value: the axes that should come first, and for how much work."""
    for ref in reversed(range(len(program.instructions))):
        for source, axes, work in _wishes(program, ref, wanted.get(ref)):
            if source not in wanted or wanted[source][0] < work:
                wanted[source] = work, axes
    orders = {}
    for ref, (_, first) in wanted.items():
        shape = program.shapes[ref]
        order = (*first, *[k for k in range(len(shape)) if k not in first])
        item = program.instructions[ref]
        is_free = isinstance(item, Contract) and not item.is_sum and ref not in program.results
        if is_free and math.prod(shape) >= SMALLEST and order != tuple(range(len(shape))):
            orders[ref] = order
    return permuted(program, orders)


def _wishes(
    program: Program, ref: Ref, own: tuple[float, Order] | None
) -> Iterator[tuple[Ref, Order, float]]:
    """Which axes an instruction would like to come first in its operands."""
    item = program.instructions[ref]
    work, first = own or (0.0, ())
    match item:
        case Contract() if item.is_sum:
            repeated = [k for k in item.left_labels if k in item.right_labels and k in item.labels]
            has_matrices = len(repeated) + 1 < len(item.left_labels) or len(repeated) + 1 < len(
                item.right_labels
            )
            if repeated and has_matrices:
                for source, labels in ((item.left, item.left_labels), (item.right, item.right_labels)):
                    yield source, tuple(map(labels.index, repeated)), program.flops[ref]
        case Contract() if first:
            for source, labels in ((item.left, item.left_labels), (item.right, item.right_labels)):
                axes = [labels.index(item.labels[k]) for k in first if item.labels[k] in labels]
                yield source, tuple(axes), work
        case Combine() if first:
            for term in item.terms:
                if term.is_dense(program.shapes[ref]):
                    chosen = [term.output[k].label for k in first]
                    yield term.source, tuple(term.labels.index(k) for k in chosen if k in term.labels), work
        case Scale() if first:
            yield item.source, first, work
        case CallMap() if first:
            for source in item.sources:
                if program.shapes[source] == program.shapes[ref]:
                    yield source, first, work
