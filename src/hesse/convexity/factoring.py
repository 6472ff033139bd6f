"""Signs of differences: `1/t - x^2/t^3` is `1/t^3 * (t^2 - x^2)`, and positive for `t = sqrt(1 + x^2)`."""

from __future__ import annotations

from collections.abc import Callable

from hesse.convexity.terms import Axes, Factor, Term, TooLarge, expand, merged
from hesse.ir import Add, Node, add, plain_axes, scale
from hesse.ops.ranges import Range


def without_common_powers(node: Add, range_of: Callable[[Node], Range]) -> list[Term] | None:
    """The terms of a sum, multiplied out, divided by the lowest powers in it that are not negative."""
    try:
        terms = expand(node, None)
        lowest = _lowest_powers(terms, node.rank)
        common = {key: e for key, e in lowest.items() if e and _is_nonnegative(key[0], e, range_of)}
        return expand(add([_divided(term, common) for term in terms], node.shape), 0)
    except TooLarge:
        return None


def _is_nonnegative(base: Node, exponent: float, range_of: Callable[[Node], Range]) -> bool:
    return range_of(base).power(exponent).is_nonnegative


def _lowest_powers(terms: list[Term], rank: int) -> dict[tuple[Node, Axes], float]:
    """For each base the lowest exponent that it has in a term (0 where it does not occur)."""
    plain, labels = plain_axes(rank), set(range(rank))
    if any(term.output != plain for term in terms):
        return {}
    found: dict[tuple[Node, Axes], list[float]] = {}
    for term in terms:
        for factor in term.factors:
            if factor.labels() <= labels:
                found.setdefault((factor.base, factor.axes), []).append(factor.exponent)
    return {
        key: min(exponents) if len(exponents) == len(terms) else min(0.0, *exponents)
        for key, exponents in found.items()
    }


def _divided(term: Term, common: dict[tuple[Node, Axes], float]) -> Node:
    """The term without the common powers."""
    inverse = [Factor(base, axes, -exponent) for (base, axes), exponent in common.items()]
    return scale(term._replace(factors=merged([*term.factors, *inverse])).node(), term.scale)
