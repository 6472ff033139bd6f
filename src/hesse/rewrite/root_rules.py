"""Laws for reciprocals of sums: second derivatives of `sqrt(1 + x*x)` and its kin, without cancellation."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import NamedTuple, TypeGuard

from hesse.ir import Add, Einsum, Map, Node, add, multiply, plain_axes, scale, uniform_value
from hesse.rewrite.factor import LARGEST_SUM
from hesse.rewrite.rules import Head, Rule

MOST_FACTORS = 8
"""Products of more factors are not looked into."""
ROUNDING = 1e-15
"""Numbers are equal if they differ by this share, which is what computing them rounds off."""


class Factors(NamedTuple):
    """A product of tensors of one shape, entry by entry: how often it has each of them, and a number."""

    counts: Counter[Node]
    number: float


class Base(NamedTuple):
    """What a reciprocal v is that of: v^power = 1 / (number + rest)."""

    number: float
    rest: Factors
    power: int


def _factors(node: Node) -> Factors:
    """The factors of a product, those of products inside included."""
    counts, number, stack = Counter[Node](), 1.0, [node]
    while stack:
        part = stack.pop()
        if _is_entry_by_entry(part):
            number *= part.scale
            stack += part.operands
        else:
            counts[part] += 1
        if counts.total() + len(stack) > MOST_FACTORS:
            return Factors(Counter([node]), 1.0)
    return Factors(counts, number)


def _is_entry_by_entry(node: Node) -> TypeGuard[Einsum]:
    if not isinstance(node, Einsum) or node.output != plain_axes(node.rank) or node.ranges != node.shape:
        return False
    return all(axes == node.output for axes in node.axes)


def _base(node: Node) -> Base | None:
    """If the node is 1/(c + s) or 1/sqrt(c + s), for a number c."""
    if not isinstance(node, Map) or node.name != "reciprocal":
        return None
    inner, power = node.operands[0], 1
    if isinstance(inner, Map) and inner.name == "sqrt":
        inner, power = inner.operands[0], 2
    if not isinstance(inner, Add) or len(inner.operands) != 2:
        return None
    for one, other in (inner.operands, inner.operands[::-1]):
        number = uniform_value(one)
        if number is not None:
            return Base(number, _factors(other), power)
    return None


def cancelled_over_sum(node: Node) -> Node | None:
    """p/u - p*s/u^2 = c*p/u^2 and p/sqrt(u) - p*s/sqrt(u)^3 = c*p/sqrt(u)^3, for u = c + s, c a number."""
    if not isinstance(node, Add) or len(node.operands) > LARGEST_SUM:
        return None
    products = [_factors(term) for term in node.operands]
    bases = {v: base for product in products for v in product.counts if (base := _base(v)) is not None}
    for v, base in bases.items():
        for one, other in permutations(range(len(products)), 2):
            first, second = products[one], products[other]
            if v in first.counts and _is_multiple(second, first, v, base):
                left = [term for k, term in enumerate(node.operands) if k not in (one, other)]
                found = multiply(*first.counts.elements(), *[v] * base.power)
                return add([*left, scale(found, first.number * base.number)], node.shape)
    return None


def _is_multiple(second: Factors, first: Factors, v: Node, base: Base) -> bool:
    """Whether the second product is the first one times -s*v^power, where v^power = 1/(c + s)."""
    counts = first.counts + base.rest.counts + Counter({v: base.power})
    number = -first.number * base.rest.number
    return second.counts == counts and math.isclose(second.number, number, rel_tol=ROUNDING)


ROOT_RULES: dict[Rule, Head] = {cancelled_over_sum: Add}
