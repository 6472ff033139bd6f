"""The normal form in which signs are read off: a sum of products of powers.

Products of products are multiplied out, powers of one base are merged (`x * x^-2` is `x^-1`, wherever it is
defined), and equal products are collected. Sums inside products are multiplied out on request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from hesse.ir import (
    Add,
    Apply,
    Axis,
    Einsum,
    Map,
    Node,
    Shape,
    Size,
    Variable,
    combine,
    einsum,
    is_sparse,
    labels_of,
    opened,
    transpose,
    uniform_value,
    unscaled,
)
from hesse.ops.elementwise import LARGEST_PRODUCT, power

Axes = tuple[Axis, ...]
MOST_TERMS = 60
"""Sums with more terms than this are not multiplied out."""
MOST_FACTORS = 16
"""Products with more factors than this are not multiplied out."""


class Factor(NamedTuple):
    """An operand of a product, raised to a power."""

    base: Node
    axes: Axes
    exponent: float

    def labels(self) -> set[int]:
        """The labels of the axes."""
        return labels_of(self.axes)


class Term(NamedTuple):
    """`scale * prod(base[axes]^exponent)`, summed over the labels that `output` does not have."""

    factors: tuple[Factor, ...]
    output: Axes
    shape: Shape
    ranges: tuple[Size, ...]
    scale: float

    def node(self) -> Node:
        """The term with scale 1 as a node: equal terms are one node."""
        operands: list[Node] = []
        axes: list[Axes] = []
        for factor in self.factors:
            repeated = factor.exponent in range(1, LARGEST_PRODUCT + 1)
            operand = factor.base if repeated else power(factor.base, factor.exponent)
            count = int(factor.exponent) if repeated else 1
            operands += [operand] * count
            axes += [factor.axes] * count
        return einsum(operands, axes, self.output, self.shape, self.ranges)


class TooLarge(Exception):
    """A product or sum is too large to be multiplied out; nothing is claimed of it."""


def expand(node: Node, sums_of_rank: int | None) -> list[Term]:
    """The node as a sum of terms; sums in products with at least so many axes are multiplied out."""
    todo, found, steps = [node], [], 0
    while todo:
        part = todo.pop()
        if isinstance(part, Add):
            todo += part.operands
        else:
            opened = _opened(part, sums_of_rank)
            if opened is part:
                found.append(_as_term(part))
            else:
                todo.append(opened)
        steps += 1
        if len(todo) + len(found) > MOST_TERMS or steps > 2 * MOST_TERMS:
            raise TooLarge
    return collect(found)


def collect(terms: Iterable[Term]) -> list[Term]:
    """Equal terms added, terms that cancel dropped."""
    scales: dict[Node, float] = {}
    examples: dict[Node, tuple[Term, float]] = {}
    for term in terms:
        key, inner = unscaled(term.node())
        scales[key] = scales.get(key, 0.0) + term.scale * inner
        examples.setdefault(key, (term, inner))
    return [
        term._replace(scale=scales[key] / inner) for key, (term, inner) in examples.items() if scales[key]
    ]


def _opened(node: Node, sums_of_rank: int | None) -> Node:
    """The product with products (and sums) among its operands multiplied out by one level.

    A factor that occurs twice in the same place stays whole: it is a square.
    """
    if not isinstance(node, Einsum):
        return node
    if len(node.operands) > MOST_FACTORS:
        raise TooLarge
    places = Counter(zip(node.operands, node.axes, strict=True))
    inner = [
        k
        for k, operand in enumerate(node.operands)
        if places[operand, node.axes[k]] == 1
        and (
            isinstance(operand, Einsum)
            or (isinstance(operand, Add) and sums_of_rank is not None and operand.rank >= sums_of_rank)
        )
    ]
    if not inner:
        return node
    return opened(node, inner)


def _as_term(node: Node) -> Term:
    operands, tables, output, ranges, scale = node.product
    todo = [Factor(operand, axes, 1.0) for operand, axes in zip(operands, tables, strict=True)]
    found = []
    while todo:
        factor = todo.pop()
        inner = _inner_power(factor)
        if inner is not None:
            todo.append(inner)
        elif (
            isinstance(factor.base, Einsum)
            and float(factor.exponent).is_integer()
            and _is_entrywise(factor.base)
        ):
            scale *= factor.base.scale**factor.exponent
            todo += _opened_power(factor.base, factor)
        else:
            found.append(factor)
    return Term(merged(found), output, node.shape, ranges, scale)


def merged(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """The factors with powers of one base in the same place merged."""
    exponents: dict[tuple[Node, Axes], float] = {}
    for factor in factors:
        axes = tuple(sorted(factor.axes)) if is_symmetric(factor.base) else factor.axes
        exponents[factor.base, axes] = exponents.get((factor.base, axes), 0.0) + factor.exponent
    return tuple(Factor(base, axes, exponent) for (base, axes), exponent in exponents.items() if exponent)


def _inner_power(factor: Factor) -> Factor | None:
    """(z^a)^b = z^(a*b), where it holds: for an integer b, or z^a that is only defined for z >= 0."""
    base = factor.base
    exponent = constant_exponent(base)
    if exponent is None:
        return None
    if not float(factor.exponent).is_integer() and exponent % 2 == 0:
        return None
    return Factor(base.operands[0], factor.axes, exponent * factor.exponent)


def constant_exponent(node: Node) -> float | None:
    """`a` if the node is `z^a` for a number a."""
    if not isinstance(node, Map):
        return None
    if node.name in ("sqrt", "reciprocal"):
        return 0.5 if node.name == "sqrt" else -1.0
    return uniform_value(node.operands[1]) if node.name == "power" else None


def _is_entrywise(node: Einsum) -> bool:
    """Whether the node is a product of tensors entry by entry, none of them summed or placed apart."""
    labels = [axis.label for axis in node.output if axis.is_label]
    return len(labels) == node.rank == len(set(labels)) == len(node.ranges) and not is_sparse(node)


def _opened_power(node: Einsum, factor: Factor) -> list[Factor]:
    """(a*b)^k = a^k * b^k."""
    outer = {axis.label: factor.axes[k] for k, axis in enumerate(node.output)}

    def read(axis: Axis) -> Axis:
        return combine([(stride, outer[label]) for label, stride in axis.terms], axis.offset)

    return [
        Factor(operand, tuple(map(read, axes)), factor.exponent)
        for operand, axes in zip(node.operands, node.axes, strict=True)
    ]


def is_symmetric(node: Node) -> bool:
    """Whether the node is a symmetric matrix by what is declared."""
    if isinstance(node, Variable):
        return "symmetric" in node.attributes
    keeps = isinstance(node, Apply) and (
        node.name == "inverse" or (node.name == "expm_chain" and node.rank == 2)
    )
    return keeps and (is_symmetric(node.operands[0]) or _is_own_transpose(node.operands[0]))


def _is_own_transpose(node: Node) -> bool:
    return node.rank == 2 and node.shape[0] == node.shape[1] and transpose(node, [1, 0]) is node
