"""Which parts of an expression may be infinite, and where they are 0 because something else is chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from hesse.ir import (
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Map,
    Node,
    Size,
    Variable,
    labels_of,
    number,
    uniform_value,
)
from hesse.ops.choices import INDICATORS
from hesse.ops.registry import ELEMENTWISE, Foreign, Linear, record_of

EXTREMES = (-2000.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2000.0)
"""A row that has a finite value at each of these is taken to be finite wherever its operands are."""
FINITE_RECORDS = frozenset(
    {"as_real", "cumulative_product", "kron", "log_softmax", "logsumexp", "max", "product", "softmax"}
)
"""Records, besides the linear ones, whose values are finite if those of their operands are."""
TESTS = frozenset({"isfinite", "isinf", "isnan"})
"""Who asks for these expects data that is not finite."""
MOST_MASKS = 8
"""Masks that are noted for one tensor …"""
MOST_WEIGHTS = 4
"""… and weights of one of them."""


class Read(NamedTuple):
    """A weight, and the axes by which a product reads it."""

    node: Node
    row: tuple[Axis, ...]


Mask = tuple[Read, ...]
"""Where all of these are 0, something else is; the labels of a tensor's own masks number its axes."""


class Facts:
    """What is known of the nodes of an expression."""

    def __init__(self, order: Sequence[Node]) -> None:
        self.infinite: set[Node] = set()
        """Those that may be infinite or nan though all variables are finite."""
        self.weights: set[Node] = set()
        """Choices, and sums of positive multiples of products of them."""
        self.given: set[Node] = set()
        """Conditions that are data or say which data is finite: beside them, variables may be nan."""
        self._zeros: dict[Node, tuple[Mask, ...]] = {}
        for node in order:
            if _may_be_infinite(node, self.infinite):
                self.infinite.add(node)
            if _is_weight(node, self.weights):
                self.weights.add(node)
            if isinstance(node, Map) and _is_given(node, self.given):
                self.given.add(node)
            self._zeros[node] = self._zeros_of(node)[:MOST_MASKS]

    def masks_within(self, node: Einsum) -> list[Mask]:
        """The masks by which a product is 0: its factors, and those of its factors."""
        found: list[Mask] = []
        for operand, row in zip(node.operands, node.axes, strict=True):
            found += [(Read(operand, row),)] if operand in self.weights else []
            found += self.masks_through(operand, row, node.ranges)
        return list(dict.fromkeys(found))

    def masks_through(self, operand: Node, row: tuple[Axis, ...], ranges: tuple[Size, ...]) -> list[Mask]:
        """The masks by which an operand is 0, as a product reads it by these axes."""
        found = [_read_by(zeros, dict(enumerate(row))) for zeros in self._zeros[operand]]
        return [mask for mask in found if all(_is_inside(weight, ranges) for weight in mask)]

    def _zeros_of(self, node: Node) -> tuple[Mask, ...]:
        if isinstance(node, Einsum):
            places = _places(node)
            masks = [mask for mask in self.masks_within(node) if mask_labels(mask) <= places.keys()]
            return tuple([_read_by(mask, places) for mask in masks])
        if isinstance(node, Add) and node.operands:
            first, *others = [self._zeros[term] for term in node.operands]
            if common := tuple([zeros for zeros in first if all(zeros in other for other in others)]):
                return common
            either = dict.fromkeys([weight for zeros in (first, *others) for weight in (zeros or ((),))[0]])
            return (tuple(either),) if all((first, *others)) and len(either) <= MOST_WEIGHTS else ()
        return ()


def mask_labels(mask: Mask) -> set[int]:
    """The labels that a mask depends on."""
    return labels_of(axis for weight in mask for axis in weight.row)


def _read_by(mask: Mask, values: Mapping[int, Axis]) -> Mask:
    """A mask with its labels replaced by affine expressions."""
    return tuple([Read(node, tuple([axis.at(values) for axis in row])) for node, row in mask])


def _places(node: Einsum) -> dict[int, Axis]:
    """The labels that positions along the axes of the output give; where they give none, the product is 0."""
    return {
        axis.label: Axis(((k, 1),), -axis.offset)
        for k, axis in enumerate(node.output)
        if len(axis.terms) == 1 and axis.terms[0][1] == 1
    }


def _is_inside(weight: Read, ranges: Sequence[Size]) -> bool:
    """Whether a weight has all entries that are read: a tensor may be 0 outside of its masks, too."""
    return all(
        _is_within(axis, size, ranges) for axis, size in zip(weight.row, weight.node.shape, strict=True)
    )


def _is_within(axis: Axis, size: Size, ranges: Sequence[Size]) -> bool:
    if axis.is_label and ranges[axis.label] == size:
        return True
    sizes = [size, *[ranges[label] for label in axis.labels()]]
    if any(isinstance(each, str) for each in sizes):
        return False
    ends = [stride * (number(ranges[label]) - 1) for label, stride in axis.terms]
    first = axis.offset + sum([end for end in ends if end < 0])
    last = axis.offset + sum([end for end in ends if end > 0])
    return first >= 0 and last < number(size)


def _may_be_infinite(node: Node, infinite: set[Node]) -> bool:
    if any(operand in infinite for operand in node.operands):
        return True
    if isinstance(node, Constant):
        return not np.isfinite(node.value).all()
    if isinstance(node, Map):
        return not (_is_whole_power(node) or _is_finite_row(node.name))
    if isinstance(node, Apply) and node.kind != "integer":
        record = record_of(node)
        return isinstance(record, Foreign) or not (isinstance(record, Linear) or node.name in FINITE_RECORDS)
    return False


def _is_whole_power(node: Map) -> bool:
    exponent = uniform_value(node.operands[1]) if node.name == "power" else None
    return exponent is not None and exponent >= 0 and exponent.is_integer()


@cache
def _is_finite_row(name: str) -> bool:
    """Whether an element-wise function has no poles and does not overflow."""
    row = ELEMENTWISE[name]
    if row.value is None:
        return False
    try:
        return all(
            math.isfinite(row.value(*point)) for point in itertools.product(EXTREMES, repeat=row.arity)
        )
    except (ArithmeticError, ValueError, TypeError):
        return False


def is_choice(node: Node) -> bool:
    """Whether a tensor is the derivative of a choice."""
    return isinstance(node, Map) and node.name == "chosen"


def _is_weight(node: Node, weights: set[Node]) -> bool:
    if isinstance(node, Einsum):
        is_positive = node.scale > 0 and not node.summed
        return is_positive and bool(node.operands) and weights.issuperset(node.operands)
    if isinstance(node, Add):
        return bool(node.operands) and weights.issuperset(node.operands)
    return is_choice(node)


def _is_given(node: Map, given: set[Node]) -> bool:
    """Whether a condition is data, or asks which data is finite."""
    if node.name in TESTS:
        return True
    if node.name not in INDICATORS and not is_choice(node):
        return False
    first, *others = node.operands
    is_compared = all(uniform_value(other) is not None or other is first for other in others)
    return any(operand in given for operand in node.operands) or (_is_data(first) and is_compared)


def _is_data(node: Node) -> bool:
    """Whether a node is an input, as it is or repeated."""
    if isinstance(node, Einsum) and len(node.operands) == 1:
        node = node.operands[0]
    return isinstance(node, Variable | Constant)
