"""A canonical form for products: equal products become equal tuples.

Operands are sorted by their structural key. Equal operands (`x[i] x[i+2]`) are told apart by colour
refinement over the labels they share, and what is still tied is broken by the smallest numbering, so
that equal terms always merge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from hesse.ir.axis import Axis, Size, combine, label_axis
from hesse.ir.axis import number as number_of
from hesse.ir.node import Node, Variable

Axes = tuple[Axis, ...]
PERMUTATION_LIMIT = 120
"""Beyond this many orders of tied operands the given order is kept."""


def canonical(
    operands: tuple[Node, ...], axes: tuple[Axes, ...], output: Axes, ranges: tuple[Size, ...], scale: float
) -> tuple[tuple[Node, ...], tuple[Axes, ...], Axes, tuple[Size, ...], float]:
    """The product with operands in canonical order and labels numbered output first."""
    if len(operands) <= 1:
        orders: Sequence[tuple[int, ...]] = [tuple(range(len(operands)))]
    elif len(set(operands)) == len(operands):
        orders = [tuple(sorted(range(len(operands)), key=lambda k: operands[k].key))]
    else:
        orders = _candidate_orders(operands, axes, ranges, _output_colours(output, ranges))
    numberings = [_number(order, operands, axes, output, ranges) for order in orders]
    best = min(range(len(orders)), key=lambda k: numberings[k][:2]) if len(orders) > 1 else 0
    new_axes, new_output, new_ranges = numberings[best]
    return tuple(operands[k] for k in orders[best]), new_axes, new_output, new_ranges, scale


def operand_order(
    operands: Sequence[Node], axes: Sequence[Axes], ranges: Sequence[Size], colours: Mapping[int, Hashable]
) -> tuple[int, ...]:
    """One canonical order of the operands, given a colour for some labels."""
    return _candidate_orders(operands, axes, ranges, colours)[0]


def _output_colours(output: Axes, ranges: Sequence[Size]) -> dict[int, str]:
    places: dict[int, list[Any]] = {}
    for position, axis in enumerate(output):
        for label, stride in axis.terms:
            places.setdefault(label, []).append((position, abs(stride), _lowest(axis, ranges)))
    return {label: repr(sorted(found)) for label, found in places.items()}


def _lowest(axis: Axis, ranges: Sequence[Size]) -> int:
    """Smallest position of the axis: the part of an offset that flipping a label does not change."""
    return axis.offset + sum(
        stride * (number_of(ranges[label]) - 1) for label, stride in axis.terms if stride < 0
    )


def _candidate_orders(
    operands: Sequence[Node], axes: Sequence[Axes], ranges: Sequence[Size], given: Mapping[int, Hashable]
) -> list[tuple[int, ...]]:
    indices = range(len(operands))
    if len(set(operands)) == len(operands):
        return [tuple(sorted(indices, key=lambda k: operands[k].key))]
    colours = _refine(operands, axes, ranges, given)
    groups: dict[int, list[int]] = {}
    for k in indices:
        groups.setdefault(colours[k], []).append(k)
    ordered = [groups[colour] for colour in sorted(groups)]
    if math.prod(math.factorial(len({axes[k] for k in group})) for group in ordered) > PERMUTATION_LIMIT:
        return [tuple(k for group in ordered for k in group)]
    choices = [
        list(itertools.permutations(group)) if len({axes[k] for k in group}) > 1 else [tuple(group)]
        for group in ordered
    ]
    return [tuple(k for group in choice for k in group) for choice in itertools.product(*choices)]


def _refine(
    operands: Sequence[Node], axes: Sequence[Axes], ranges: Sequence[Size], given: Mapping[int, Hashable]
) -> list[int]:
    """Colours (small ints) of the operands that do not depend on the order they came in."""
    labels = _ranked([(str(size), str(given.get(label, ""))) for label, size in enumerate(ranges)])
    colours: list[int] = _ranked([operand.key for operand in operands])
    for _ in range(3):
        seen = [
            (
                colours[k],
                tuple(
                    (
                        _lowest(axis, ranges),
                        tuple(sorted((labels[label], abs(stride)) for label, stride in axis.terms)),
                    )
                    for axis in (_sorted_if_symmetric(operand, axes[k], labels))
                ),
            )
            for k, operand in enumerate(operands)
        ]
        colours = _ranked(seen)
        uses: list[list[tuple[int, int]]] = [[] for _ in ranges]
        for k, operand in enumerate(operands):
            for position, axis in enumerate(axes[k]):
                for label in axis.labels():
                    uses[label].append((colours[k], 0 if is_symmetric(operand) else position))
        labels = _ranked([(labels[label], tuple(sorted(use))) for label, use in enumerate(uses)])
    return colours


def _sorted_if_symmetric(operand: Node, axes: Axes, labels: list[int]) -> Axes:
    if not is_symmetric(operand):
        return axes
    return tuple(sorted(axes, key=lambda axis: sorted(labels[label] for label in axis.labels())))


def _ranked(values: list[Any]) -> list[int]:
    ranks = {value: rank for rank, value in enumerate(sorted(set(values)))}
    return [ranks[value] for value in values]


def is_symmetric(node: Node) -> bool:
    """Whether the two axes of the node may be swapped."""
    return isinstance(node, Variable) and "symmetric" in node.attributes


def _number(
    order: Sequence[int], operands: Sequence[Node], axes: Sequence[Axes], output: Axes, ranges: Sequence[Size]
) -> tuple[tuple[Axes, ...], Axes, tuple[Size, ...]]:
    """Labels numbered by first use (output, operands, symmetric operands last), first strides positive."""
    number: dict[int, int] = {}
    flips: dict[int, Axis] = {}
    last = sorted(order, key=lambda k: is_symmetric(operands[k]))
    for tensor_axes in [output, *(axes[k] for k in last)]:
        for axis in tensor_axes:
            for label, stride in axis.terms:
                if label not in number:
                    number[label] = len(number)
                    if stride < 0:
                        flips[label] = combine([(-1, label_axis(label))], number_of(ranges[label]) - 1)
    for label in range(len(ranges)):
        number.setdefault(label, len(number))

    def rename(axis: Axis) -> Axis:
        if flips:
            axis = combine([(s, flips.get(label, label_axis(label))) for label, s in axis.terms], axis.offset)
        return axis.rename(number.__getitem__)

    new_axes = tuple(
        tuple(sorted(map(rename, axes[k]))) if is_symmetric(operands[k]) else tuple(map(rename, axes[k]))
        for k in order
    )
    by_number = sorted(number, key=number.__getitem__)
    return new_axes, tuple(map(rename, output)), tuple(ranges[label] for label in by_number)
