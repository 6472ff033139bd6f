"""Which parts of an expression may be infinite, and where they are 0 because something else is chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from hesse.ir import Add, Apply, Axis, Constant, Einsum, Map, Node, Variable, uniform_value
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
"""Where all of these are 0, something else is."""
Zeros = tuple[tuple[Node, tuple[int, ...]], ...]
"""A mask of a tensor: weights, and which axes of the tensor are theirs."""


class Facts:
    """What is known of the nodes of an expression."""

    def __init__(self, order: Sequence[Node]) -> None:
        self.infinite: set[Node] = set()
        """Those that may be infinite or nan though all variables are finite."""
        self.weights: set[Node] = set()
        """Choices, and sums of positive multiples of products of them."""
        self.given: set[Node] = set()
        """Conditions that are data or say which data is finite: beside them, variables may be nan."""
        self._zeros: dict[Node, tuple[Zeros, ...]] = {}
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
            found += self.masks_through(operand, row)
        return list(dict.fromkeys(found))

    def masks_through(self, operand: Node, row: tuple[Axis, ...]) -> list[Mask]:
        """The masks by which an operand is 0, as a product reads it by these axes."""
        return [
            tuple([Read(node, tuple([row[place] for place in places])) for node, places in zeros])
            for zeros in self._zeros[operand]
        ]

    def _zeros_of(self, node: Node) -> tuple[Zeros, ...]:
        if isinstance(node, Einsum):
            places = {axis: k for k, axis in enumerate(node.output) if _is_whole(node, k)}
            found = [_placed(mask, places, node) for mask in self.masks_within(node)]
            return tuple([zeros for zeros in found if zeros is not None])
        if isinstance(node, Add) and node.operands:
            first, *others = [self._zeros[term] for term in node.operands]
            if common := tuple([zeros for zeros in first if all(zeros in other for other in others)]):
                return common
            either = dict.fromkeys([weight for zeros in (first, *others) for weight in (zeros or ((),))[0]])
            return (tuple(either),) if all((first, *others)) and len(either) <= MOST_WEIGHTS else ()
        return ()


def _placed(mask: Mask, places: Mapping[Axis, int], node: Einsum) -> Zeros | None:
    """A mask of a product by the axes of its output, if it is one of its entries."""
    if not all(axis in places for weight in mask for axis in weight.row):
        return None
    zeros = tuple([(weight.node, tuple([places[axis] for axis in weight.row])) for weight in mask])
    fits = all(weight.shape == tuple([node.shape[k] for k in axes]) for weight, axes in zeros)
    return zeros if fits else None


def _is_whole(node: Einsum, position: int) -> bool:
    """Whether an axis of the output is one label, or none, and has no other entries."""
    axis, size = node.output[position], node.shape[position]
    return node.ranges[axis.label] == size if axis.is_label else not axis.terms and size == 1


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
