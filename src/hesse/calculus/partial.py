"""Partials: how a node depends on one of its operands, and how tangents and cotangents pass through.

Every node but a structural `Linear` record gives its partial as an `Edge`: a product over labels whose
`output` axes are those of the node and whose `input` axes are those of the operand (Theorems 5 to 10 of
the tensor calculus, each in one line). Linear records are applied, or their transposes, to whole tensors,
and the rules of foreign functions say for themselves how tangents and cotangents pass through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, assert_never, cast

from hesse.errors import DifferentiationError
from hesse.ir import (
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Map,
    Node,
    Shape,
    Size,
    Variable,
    add,
    delta,
    einsum,
    plain_axes,
    transpose,
    zero,
)
from hesse.ops.foreign import rule_of
from hesse.ops.registry import ELEMENTWISE, Foreign, Linear, apply_linear, record_of


class Edge(NamedTuple):
    """A linear map as a product: `prod(operands[axes])` with the axes of the result and the argument."""

    operands: tuple[Node, ...]
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    input: tuple[Axis, ...]
    ranges: tuple[Size, ...]
    scale: float = 1.0
    expand: tuple[int, ...] = ()


def edge(node: Node, slot: int) -> Edge | None:
    """The partial of a node by its operand `slot`; None where the node is locally constant in it."""
    node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
    axes = plain_axes(node.rank)
    match node:
        case Einsum():
            others = tuple(k for k in range(len(node.operands)) if k != slot)
            return Edge(
                tuple(node.operands[k] for k in others),
                tuple(node.axes[k] for k in others),
                node.output,
                node.axes[slot],
                node.ranges,
                node.scale,
            )
        case Add():
            return Edge((), (), axes, axes, node.shape)
        case Map():
            formula = ELEMENTWISE[node.name].partials[slot]
            if formula is None:
                return None
            return Edge((formula(node, *node.operands),), (axes,), axes, axes, node.shape)
        case Apply():
            return _record_edge(node, slot)
        case Variable() | Constant():
            raise DifferentiationError(f"a {type(node).__name__} has no operands to differentiate by")
    assert_never(node)


def _record_edge(node: Apply, slot: int) -> Edge | None:
    record = record_of(node)
    if isinstance(record, Linear | Foreign):
        raise DifferentiationError(f"{node.name} has no partial: it is applied, not multiplied")
    formula = record.partials[slot]
    if formula is None:
        return None
    shape = node.shape + node.operands[slot].shape
    axes = plain_axes(len(shape))
    return Edge((formula(node),), (axes,), axes[: node.rank], axes[node.rank :], shape, expand=(0,))


def is_active(node: Node, slot: int) -> bool:
    """Whether derivatives flow through an operand at all (index arrays and locally constant ones do not)."""
    if node.kind == "integer" or node.operands[slot].kind == "integer":
        return False
    if isinstance(node, Map):
        return ELEMENTWISE[node.name].partials[slot] is not None
    if isinstance(node, Apply):
        record = record_of(node)
        if isinstance(record, Foreign):
            return rule_of(node).is_active(node, slot)
        return slot == 0 if isinstance(record, Linear) else record.partials[slot] is not None
    return True


def _applied(node: Node) -> Linear | Foreign | None:
    """The record of an operation that is applied to whole tensors, not multiplied by them."""
    record = record_of(node) if isinstance(node, Apply) else None
    return record if isinstance(record, Linear | Foreign) else None


def pull(node: Node, slot: int, cotangent: Node) -> Node:
    """`cotangent [lead…, node…]` times the partial: a cotangent of the operand, `[lead…, operand…]`."""
    operand = node.operands[slot]
    lead = cotangent.shape[: cotangent.rank - node.rank]
    if isinstance(node, Add):
        return cotangent
    if (record := _applied(node)) is not None:
        assert isinstance(node, Apply)
        if isinstance(record, Foreign):
            return rule_of(node).pull(node, slot, cotangent)
        return _pull_linear(node, record, cotangent, len(lead))
    found = edge(node, slot)
    if found is None:
        return zero(lead + operand.shape)
    lead_axes = plain_axes(len(lead), len(found.ranges))
    return einsum(
        [cotangent, *found.operands],
        [lead_axes + found.output, *found.axes],
        lead_axes + found.input,
        lead + operand.shape,
        found.ranges + lead,
        found.scale,
        expand=[k + 1 for k in found.expand],
    )


def _pull_linear(node: Apply, record: Linear, cotangent: Node, lead: int) -> Node:
    rank = node.operands[0].rank
    front = transpose(cotangent, [*range(lead, cotangent.rank), *range(lead)])
    result = record.transpose(node, front)
    return transpose(result, [*range(rank, result.rank), *range(rank)])


def push(node: Node, slot: int, tangent: Node) -> Node:
    """The partial times `tangent [operand…, trail…]`: a tangent of the node, `[node…, trail…]`."""
    trail = tangent.shape[node.operands[slot].rank :]
    if isinstance(node, Add):
        return tangent
    if (record := _applied(node)) is not None:
        assert isinstance(node, Apply)
        if isinstance(record, Foreign):
            return rule_of(node).push(node, slot, tangent)
        return apply_linear(node, tangent)
    found = edge(node, slot)
    if found is None:
        return zero(node.shape + trail)
    trail_axes = plain_axes(len(trail), len(found.ranges))
    return einsum(
        [*found.operands, tangent],
        [*found.axes, found.input + trail_axes],
        found.output + trail_axes,
        node.shape + trail,
        found.ranges + trail,
        found.scale,
        expand=found.expand,
    )


def push_all(node: Node, tangents: Mapping[int, Node], trail: Shape) -> Node:
    """The tangent of the node for those of several operands, by their slots."""
    if tangents and isinstance(_applied(node), Foreign):
        assert isinstance(node, Apply)
        return rule_of(node).push_all(node, tangents)
    return add([push(node, slot, tangent) for slot, tangent in tangents.items()], node.shape + trail)


def partial(node: Node, slot: int) -> Node:
    """The partial as a tensor, axes of the node first and those of the operand after them."""
    return push(node, slot, delta(node.operands[slot].shape))
