"""A derivative against finite differences, order by order."""

from __future__ import annotations

from dataclasses import dataclass

from hesse.api.formula import Formula
from hesse.errors import ArgumentError


@dataclass(frozen=True)
class CheckAnswer:
    """How well one order agrees with a finite difference of the order below it, at a random point."""

    order: int
    by: str
    shape: tuple[int | str, ...]
    error: float


def check_orders(derivative: Formula) -> tuple[CheckAnswer, ...]:
    """Compare each order with a finite difference of the one below; a mismatch raises an error.

    >>> from hesse import parse
    >>> [found.error < 1e-6 for found in check_orders(parse("sum(exp(x))").diff("x", "x"))]
    [True, True]
    """
    chain = []
    formula: Formula | None = derivative
    while formula is not None and formula.by is not None:
        chain.append((formula, formula.by.name))
        formula = formula.parent
    if not chain:
        raise ArgumentError("a check needs variables: name those to differentiate by after the formula")
    return tuple(
        CheckAnswer(k, name, found.node.shape, found.verify())
        for k, (found, name) in enumerate(reversed(chain), 1)
    )
