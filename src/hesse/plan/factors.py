"""Which factors to take out of the sums of a program, so that most of their terms need no other one.

What is kept of a sum is the sum divided by a factor of our choice. A term is the product of some values and a
number; it needs no multiplication by a number if the factors of these values and the number give that of the
sum. These are equations between factors, more of them than factors; each sum takes the one that solves most
of its equations, in turns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hesse.plan.program import Combine, Contract, Literal, Load, Program, Reduce, Ref, Scale, View, sources

LARGEST = 2.0**20
"""Factors beyond this, or below its reciprocal, are not taken out: numbers might leave their range."""
CALL = 2**10
"""Entries that are multiplied in the time that it takes to begin."""
MOST_FACTORS = 6
"""A product of more sums than this is an equation that nobody tries to solve."""
SWEEPS = 6
"""How often each sum has its turn."""


class Monomial(NamedTuple):
    """A number times the factors of some sums."""

    number: float
    sums: tuple[Ref, ...]


class Equation(NamedTuple):
    """A monomial that should be the factor of a sum (of None: one), and how much that saves."""

    monomial: Monomial
    total: Ref | None
    weight: int

    def solution(self, ref: Ref, factors: Mapping[Ref, float]) -> float | None:
        """The factor of a sum that solves it, if that occurs once."""
        number, sums = self.monomial
        if ref == self.total:
            return number * math.prod([factors[k] for k in sums])
        if sums.count(ref) > 1:
            return None
        others = number * math.prod([factors[k] for k in sums if k != ref])
        return (1.0 if self.total is None else factors[self.total]) / others


def common_factors(program: Program) -> dict[Ref, float]:
    """For each sum the factor to take out of it."""
    equations = list(_equations(program))
    factors = {k: 1.0 for k, item in enumerate(program.instructions) if isinstance(item, Combine)}
    own: dict[Ref, list[Equation]] = {k: [] for k in factors}
    around: dict[Ref, list[Equation]] = {k: [] for k in factors}
    for equation in equations:
        if equation.total is not None:
            own[equation.total].append(equation)
        for k in {*equation.monomial.sums, *([] if equation.total is None else [equation.total])}:
            around[k].append(equation)
    for k in factors:
        factors[k] = _best(k, own[k], factors)
    for _ in range(SWEEPS):
        before = dict(factors)
        for k in reversed(factors):  # what reads a sum has more equations for it than it has terms
            factors[k] = _best(k, around[k], factors)
        if factors == before:
            break
    return factors


def _best(ref: Ref, equations: Sequence[Equation], factors: Mapping[Ref, float]) -> float:
    """The factor that solves most; the one that it has, if no other one solves more."""
    current = factors[ref]
    weights: Counter[float] = Counter()
    exact = {_rounded(current): current}
    for equation in equations:
        found = equation.solution(ref, factors)
        if found is not None and 1 / LARGEST <= abs(found) <= LARGEST:
            weights[_rounded(found)] += equation.weight
            exact.setdefault(_rounded(found), abs(found))
    best = max(weights, key=weights.__getitem__, default=1.0)
    return exact[best] if weights[best] > weights[_rounded(current)] else current


def _rounded(factor: float) -> float:
    """The same for factors that differ by rounding; taken out, it would leave factors close to one."""
    return float(f"{abs(factor):.12g}")


def _equations(program: Program) -> Iterator[Equation]:
    known: list[Monomial] = []
    weights = [math.prod(shape) + CALL for shape in program.shapes]
    whole: set[Ref] = set(program.results)
    one = Monomial(1.0, ())
    for k, item in enumerate(program.instructions):
        match item:
            case Scale():
                number, sums = known[item.source]
                known.append(Monomial(number * item.factor, sums))
            case View() | Reduce():
                known.append(known[item.source])
            case Contract():
                left, right = known[item.left], known[item.right]
                product = Monomial(left.number * right.number, left.sums + right.sums)
                known.append(product if len(product.sums) <= MOST_FACTORS else one)
            case Combine():
                for term in item.terms:
                    number, sums = known[term.source]
                    yield Equation(Monomial(number * term.factor, sums), k, weights[term.source])
                known.append(Monomial(1.0, (k,)))
            case Load() | Literal():
                known.append(one)
            case _:
                whole.update(sources(item))
                known.append(one)
    for k in sorted(whole):
        yield Equation(known[k], None, weights[k])
