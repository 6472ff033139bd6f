"""Sums of positive semidefinite terms, and differences that are semidefinite all the same.

A tensor is shown to hold positive semidefinite matrices by writing it as a sum of products and finding a
reflection (see `reflection`) of each. A term that is negative semidefinite may be outweighed by another:

- `diag(p) - p*p' >= 0` for `p >= 0` that sums to 1 (Jensen), the Hessian of a log-sum-exp;
- `|r|^2*I - r*r' >= 0` (Cauchy and Schwarz), which holds up the Hessian of a norm.
"""

from __future__ import annotations

from typing import NamedTuple

from hesse.convexity.reflection import Knowledge, Outline, Reflection, reflections
from hesse.convexity.terms import Factor, Term, TooLarge, expand, merged
from hesse.ir import (
    Add,
    Apply,
    Axis,
    Node,
    Product,
    combine,
    connected,
    einsum_of,
    is_zero,
    label_axis,
    labels_of,
    multiply,
    renamed,
    scale,
    unscaled,
)
from hesse.ops.elementwise import power

JENSEN = "diag(p) - p*p' >= 0 for p >= 0 that sums to 1"
CAUCHY_SCHWARZ = "(r'*r)*eye - r*r' >= 0"

LEVELS: tuple[int | None, ...] = (None, 2, 0)
"""Sums inside products are multiplied out: none of them, those that may join rows and columns, all."""


class Proof(NamedTuple):
    """The sign of a semidefinite tensor, the number of its terms, and laws that were used beside `B'*D*B`."""

    sign: int
    terms: int
    laws: tuple[str, ...]


def prove(node: Node, outline: Outline, knowledge: Knowledge) -> Proof | None:
    """Why a tensor, with axes as in the outline, is positive or negative semidefinite; None if not shown."""
    if is_zero(node):
        return Proof(1, 0, ())
    previous: list[Term] | None = None
    for level in LEVELS:
        if previous is not None and not _holds_sum(previous, level):
            continue  # nothing more to multiply out
        try:
            terms = expand(node, level)
        except TooLarge:
            return None
        if terms != previous:
            proof = _prove_sum(terms, outline, knowledge)
            if proof is not None:
                return proof
        previous = terms
    return None


def _holds_sum(terms: list[Term], rank: int | None) -> bool:
    """Whether some factor is a sum of at least so many axes."""
    bases = [factor.base for term in terms for factor in term.factors]
    return any(isinstance(base, Add) and rank is not None and base.rank >= rank for base in bases)


def _prove_sum(terms: list[Term], outline: Outline, knowledge: Knowledge) -> Proof | None:
    sides: dict[int, list[Term]] = {1: [], -1: []}
    for term in terms:
        found = next(reflections(term, outline, knowledge), None)
        if found is None:
            return None
        sides[1 if term.scale * found.sign > 0 else -1].append(term)
    for sign, weights in sides.items():
        laws = _laws(sides[-sign], list(weights), outline, knowledge)
        if weights and laws is not None:
            return Proof(sign, len(terms), laws)
    return None


def _laws(
    terms: list[Term], weights: list[Term], outline: Outline, knowledge: Knowledge
) -> tuple[str, ...] | None:
    """The laws by which the weights outweigh all of the terms."""
    laws = []
    for term in terms:
        law = _outweighed(term, weights, outline, knowledge)
        if law is None:
            return None
        laws.append(law)
    return tuple(dict.fromkeys(laws))


def _outweighed(term: Term, weights: list[Term], outline: Outline, knowledge: Knowledge) -> str | None:
    """The law by which one of the weights, which is then used up, outweighs a term of the other sign."""
    for reflection in reflections(term, outline, knowledge):
        for pair in reflection.pairs:
            moving = [label for label in pair[0].labels() if reflection.sigma[label] != label]
            if _by_jensen(term, pair, moving, reflection, weights):
                return JENSEN
            if _by_cauchy_schwarz(term, pair, moving, reflection, weights, knowledge):
                return CAUCHY_SCHWARZ
    return None


Pair = tuple[Factor, Factor]


def _by_jensen(
    term: Term, pair: Pair, moving: list[int], reflection: Reflection, weights: list[Term]
) -> bool:
    """sum_m p_m b_m*b_m' - (sum_m p_m b_m)*(sum_m p_m b_m)' >= 0 for p >= 0 that sums to 1."""
    first, second = pair
    is_softmax = isinstance(first.base, Apply) and first.base.name == "softmax" and first.exponent == 1
    if not is_softmax or len(moving) != 1 or moving != first.axes[-1].labels() or not first.axes[-1].is_label:
        return False
    larger = _joined(term, {reflection.sigma[moving[0]]: moving[0]}, [second])
    key, needed = _weighed(larger)
    for k, weight in enumerate(weights):
        found, given = _weighed(weight)
        if found is key and abs(given) >= abs(needed):
            left = weight.scale * (1.0 - abs(needed) / abs(given))
            weights[k : k + 1] = [weight._replace(scale=left)] if left else []
            return True
    return False


def _by_cauchy_schwarz(
    term: Term,
    pair: Pair,
    moving: list[int],
    reflection: Reflection,
    weights: list[Term],
    knowledge: Knowledge,
) -> bool:
    """c*sum_m b_m*b_m' - d*(sum_m r_m b_m)*(sum_m r_m b_m)' >= 0 for c - d*sum_m r_m^2 >= 0."""
    first, second = pair
    if set(moving) != first.labels():
        return False
    images = {reflection.sigma[label]: label for label in moving}
    coefficient, rest = _split(_joined(term, images, [first, second]))
    if not knowledge.range_of(coefficient).is_nonnegative:
        return False
    key, inner = _weighed(rest)
    square = _square(term, first)
    for k, weight in enumerate(weights):
        given, other = _split(weight)
        found, outer = _weighed(other)
        if found is key and knowledge.range_of(given).is_nonnegative:
            difference = given * abs(outer) - multiply(coefficient, square) * abs(inner)
            if knowledge.range_of(difference).is_nonnegative:
                del weights[k]
                return True
    return False


def _square(term: Term, factor: Factor) -> Node:
    """The sum of the squares of the entries that a factor reads."""
    operand = power(factor.base, factor.exponent)
    return einsum_of(Product((operand,) * 2, (factor.axes,) * 2, (), term.ranges, 1.0).compact(), ())


def _split(term: Term) -> tuple[Node, Term]:
    """The scalar that multiplies a term, times the absolute scale, and the other factors with scale 1."""
    tensors = [labels_of(term.output), *(factor.labels() for factor in term.factors)]
    attached, _ = connected(tensors)[0]
    loose = tuple(factor for k, factor in enumerate(term.factors, 1) if k not in attached)
    rest = tuple(factor for k, factor in enumerate(term.factors, 1) if k in attached)
    labels = sorted(set().union(*(factor.labels() for factor in loose)))
    scalar = _numbered(term._replace(factors=loose, output=(), shape=()), labels).node()
    kept = [label for label in range(len(term.ranges)) if label not in labels]
    return scale(scalar, abs(term.scale)), _numbered(term._replace(factors=rest, scale=1.0), kept)


def _numbered(term: Term, labels: list[int]) -> Term:
    """The term over some of its labels only, which are all that it uses."""
    return term._replace(
        factors=tuple(factor._replace(axes=renamed(factor.axes, labels.index)) for factor in term.factors),
        output=renamed(term.output, labels.index),
        ranges=tuple(term.ranges[label] for label in labels),
    )


def _weighed(term: Term) -> tuple[Node, float]:
    """The term as a node with scale 1, and its scale."""
    key, inner = unscaled(term.node())
    return key, inner * term.scale


def _joined(term: Term, images: dict[int, int], dropped: list[Factor]) -> Term:
    """The term without some factors, labels replaced by their images."""
    kept = [label for label in range(len(term.ranges)) if label not in images]
    numbers = {label: kept.index(images.get(label, label)) for label in range(len(term.ranges))}

    def rename(axis: Axis) -> Axis:
        return combine([(stride, label_axis(numbers[label])) for label, stride in axis.terms], axis.offset)

    factors = [
        factor._replace(axes=tuple(map(rename, factor.axes)))
        for factor in term.factors
        if not any(factor is other for other in dropped)
    ]
    output, ranges = tuple(map(rename, term.output)), tuple(term.ranges[label] for label in kept)
    return Term(merged(factors), output, term.shape, ranges, term.scale)
