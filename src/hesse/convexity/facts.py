"""What is known of the nodes of an expression: ranges of entries, and positive semidefinite matrices.

Everything follows from what is declared of variables and from the structure of the nodes; a fact that is
not derived is not claimed. Sizes count as at least one.
"""

from __future__ import annotations

import math

import numpy as np

from hesse.convexity.factoring import without_common_powers
from hesse.convexity.reflection import Knowledge, Outline, plain_outline, reflections
from hesse.convexity.semidefinite import Proof, prove
from hesse.convexity.terms import Term, TooLarge, constant_exponent, expand, is_symmetric
from hesse.ir import (
    Add,
    Apply,
    Constant,
    Einsum,
    Map,
    Node,
    Variable,
    is_sparse,
    is_zero,
    topological,
    uniform_value,
)
from hesse.ops.behaviour import power_behaviour
from hesse.ops.ranges import NONNEGATIVE, NONPOSITIVE, POSITIVE, UNKNOWN, Range, product, total
from hesse.ops.registry import ELEMENTWISE, record_of


class Facts:
    """Facts about nodes, each derived once."""

    def __init__(self) -> None:
        self._ranges: dict[Node, Range] = {}
        self._semidefinite: dict[Node, bool] = {}
        self.knowledge = Knowledge(self.range_of, self.is_semidefinite)

    def range_of(self, node: Node) -> Range:
        """The range of the entries of a node."""
        if node not in self._ranges:
            for part in topological([node]):  # operands first: no recursion over the depth
                if part not in self._ranges:
                    self._ranges[part] = self._derived(part)
        return self._ranges[node]

    def _derived(self, node: Node) -> Range:
        match node:
            case Variable():
                return POSITIVE if "positive" in node.attributes else UNKNOWN
            case Constant():
                return _range_of_array(node.value)
            case Einsum():
                return self._product(node)
            case Add():
                return self._sum(node)
            case Map():
                return self._map(node)
            case Apply():
                return self._operation(node)
        return UNKNOWN

    def _product(self, node: Einsum) -> Range:
        value = uniform_value(node)
        if value is not None:
            return Range(value, value)
        found = product(map(self.range_of, node.operands)).scaled(node.scale)
        if node.summed:
            found = found.summed()
        if is_sparse(node):
            found = found.with_zero()
        if found.is_nonnegative or found.is_nonpositive:
            return found
        try:
            (term,) = expand(node, None)
        except (TooLarge, ValueError):  # too large, or a sum or zero after multiplying out
            return found
        return found.intersection(self._range_of_square(term))

    def _range_of_square(self, term: Term) -> Range:
        """The sign of a sum of squares, of x'*P*x and the like."""
        outline = plain_outline(len(term.output), 0)
        found = next(reflections(term, outline, self.knowledge), None)
        return (
            UNKNOWN
            if found is None
            else NONNEGATIVE.scaled(math.copysign(found.sign, term.scale * found.sign))
        )

    def _sum(self, node: Add) -> Range:
        if is_zero(node):
            return Range(0.0, 0.0)
        found = total(map(self.range_of, node.operands))
        if found.is_nonnegative or found.is_nonpositive:
            return found
        simpler = without_common_powers(node, self.range_of)
        if simpler is None:
            return found
        other = total(self.range_of(term.node()).scaled(term.scale) for term in simpler)
        sign = NONNEGATIVE if other.is_nonnegative else NONPOSITIVE if other.is_nonpositive else UNKNOWN
        return found.intersection(sign)

    def _map(self, node: Map) -> Range:
        ranges = [self.range_of(operand) for operand in node.operands]
        exponent = constant_exponent(node) if node.name == "power" else None
        if exponent is not None:
            return ranges[0].power(exponent).intersection(power_behaviour(exponent).values)
        return ELEMENTWISE[node.name].range(*ranges)

    def _operation(self, node: Apply) -> Range:
        if node.name == "determinant" and self.is_semidefinite(node.operands[0]):
            return NONNEGATIVE
        return record_of(node).range(*map(self.range_of, node.operands))

    def is_semidefinite(self, node: Node) -> bool:
        """Whether a tensor, rows in the first half of its axes, is positive semidefinite (and symmetric)."""
        if node not in self._semidefinite:
            self._semidefinite[node] = False  # what is asked again on the way to the answer is not known
            self._semidefinite[node] = self._derived_semidefinite(node)
        return self._semidefinite[node]

    def _derived_semidefinite(self, node: Node) -> bool:
        half = node.rank // 2
        if node.rank == 0 or node.rank % 2 or node.shape[:half] != node.shape[half:]:
            return False
        match node:
            case Variable():
                return "psd" in node.attributes
            case Constant():
                return half == 1 and _is_definite_array(node.value)
            case Apply(name="inverse"):
                return node.rank == 2 and self.is_semidefinite(node.operands[0])
            case Apply(name="expm_chain"):
                return node.rank == 2 and is_symmetric(node)
            case Einsum() | Add():
                proof = self.proof(node, plain_outline(0, half))
                return proof is not None and (proof.sign > 0 or is_zero(node))
        return False

    def proof(self, node: Node, outline: Outline) -> Proof | None:
        """Why the matrices that a tensor holds are positive or negative semidefinite, if it can be shown."""
        return prove(node, outline, self.knowledge)


def _range_of_array(array: np.ndarray) -> Range:
    if array.size == 0 or not np.isfinite(array).all():
        return UNKNOWN
    return Range(float(array.min()), float(array.max()), bool((array != 0).all()))


def _is_definite_array(array: np.ndarray) -> bool:
    """Whether a matrix is positive definite by a margin far above rounding."""
    if not np.isfinite(array).all() or not (array == array.T).all():
        return False
    values = np.linalg.eigvalsh(array.astype(float))
    return bool(values[0] > 1e-9 * values[-1])
