"""Choices in products are selections: where one is 0 the product is 0, whatever its other factors are.

The derivative of a choice is a product with zeros and ones (`chosen`). As a product it is a diagonal, and is
absorbed, merged and printed like all others; but 0 times infinity is nan. So before anything is computed,
factors that may be infinite are selected by the choices beside them, entry by entry and before any sum.
In products of factors that are always finite, choices become the numbers that they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hesse.cost import concrete
from hesse.ir import (
    Einsum,
    Node,
    Product,
    add,
    einsum_of,
    label_axis,
    labels_of,
    multiply,
    rebuild,
    topological,
)
from hesse.ops.choices import truth
from hesse.ops.registry import elementwise
from hesse.rewrite.poles import Facts, Mask, Read, is_choice, mask_labels


def selecting(roots: Sequence[Node]) -> list[Node]:
    """The expressions without `chosen`: as selections where another factor may be infinite, else as numbers.

    >>> from hesse.ir import multiply, variable
    >>> x = variable("x", (3,))
    >>> choice = elementwise("chosen", elementwise("greater", x, 0.0))
    >>> [found.name for found in selecting([choice, multiply(choice, elementwise("reciprocal", x))])]
    ['greater', 'select']
    """
    order = topological(roots)
    if not any(map(is_choice, order)):
        return list(roots)
    facts = Facts(order)
    new: dict[Node, Node] = {}
    for node in order:
        masks = facts.masks_within(node) if isinstance(node, Einsum) else []
        if isinstance(node, Einsum) and masks:
            new[node] = _with_selections(node, masks, facts, new)
        elif is_choice(node):
            new[node] = truth(new[node.operands[0]])
        else:
            operands = tuple([new[operand] for operand in node.operands])
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]


class _Group(NamedTuple):
    """Factors of a product that are selected together: their labels, the masks, and the labels of both."""

    labels: frozenset[int]
    masks: tuple[Mask, ...]
    box: tuple[int, ...]


def _groups(node: Einsum, masks: Sequence[Mask], facts: Facts) -> dict[_Group, list[int]]:
    """Which factors of a product are to be selected, and by what."""
    boxes = [*map(mask_labels, masks), *map(labels_of, (node.output, *node.axes))]
    limit = max(_entries(box, node) for box in boxes)
    counted = _counted(node, facts)
    groups: dict[_Group, list[int]] = {}
    for k, (operand, row) in enumerate(zip(node.operands, node.axes, strict=True)):
        labels, own = labels_of(row), facts.masks_through(operand, row, node.ranges)
        found: dict[Mask, set[int]] = {}
        for mask in masks:
            if mask not in own and _is_selected(operand, labels, mask, facts):
                whole = labels | mask_labels(mask)
                box = whole if _entries(whole, node) <= limit else whole - counted
                found |= {mask: box} if _entries(box, node) <= limit else {}
        if found:
            group = _Group(frozenset(labels), tuple(found), tuple(sorted(set().union(*found.values()))))
            groups.setdefault(group, []).append(k)
    return groups


def _counted(node: Einsum, facts: Facts) -> set[int]:
    """The labels that only weights have: other factors are selected by whether any entry is chosen."""
    factors = zip(node.operands, node.axes, strict=True)
    others = [row for operand, row in factors if operand not in facts.weights]
    return node.inside.difference(*map(labels_of, others))


def _is_selected(operand: Node, labels: set[int], mask: Mask, facts: Facts) -> bool:
    """Whether a factor is selected by a mask: it may be infinite, or nan where the mask is data."""
    if operand in facts.weights:
        return False
    is_given = facts.given.issuperset([weight.node for weight in mask])
    return operand in facts.infinite or (is_given and labels == mask_labels(mask))


def _entries(labels: set[int], node: Einsum) -> int:
    return math.prod([concrete(node.ranges[label]) for label in labels])


def _with_selections(node: Einsum, masks: Sequence[Mask], facts: Facts, new: Mapping[Node, Node]) -> Node:
    """The product with groups of factors selected; a choice by which another factor is 0 is no factor."""
    groups = _groups(node, masks, facts)
    done = {k for places in groups.values() for k in places}
    factors = list(zip(node.operands, node.axes, strict=True))
    known = {mask for group in groups for mask in group.masks if mask_labels(mask).issubset(group.box)}
    known.update(mask for operand, row in factors for mask in facts.masks_through(operand, row, node.ranges))
    for k, (operand, row) in enumerate(factors):
        if is_choice(operand):
            mask = (Read(operand, row),)
            done |= {k} if mask in known else set()
            known.add(mask)
    product = node.product._replace(operands=tuple([new[operand] for operand in node.operands]))
    whole = product.only([k for k in range(len(node.operands)) if k not in done])
    for group, places in groups.items():
        axes = tuple(map(label_axis, group.box))
        inside = product.only(places)._replace(output=axes, scale=1.0)
        value = einsum_of(inside.over(group.box), node.sizes(group.box))
        weight = multiply(*[_weight(mask, group.box, node, new) for mask in group.masks])
        whole = whole.times(elementwise("select", weight, value), axes)
    return einsum_of(whole, node.shape)


def _weight(mask: Mask, box: Sequence[int], node: Einsum, new: Mapping[Node, Node]) -> Node:
    """A tensor over some labels that is 0 where all weights of a mask are, whatever their other labels."""
    axes, shape = tuple(map(label_axis, box)), node.sizes(box)
    products = [Product((new[weight.node],), (weight.row,), axes, node.ranges, 1.0) for weight in mask]
    labels = [*box, *sorted(mask_labels(mask).difference(box))]
    return add([einsum_of(product.over(labels), shape) for product in products], shape)
