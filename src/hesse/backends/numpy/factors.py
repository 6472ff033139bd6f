"""Which factors to take out of the sums of a program, so that most of their terms need no other one.

What is kept of a sum is the sum divided by a factor of our choice. A term is the product of some values and a
number; it needs no multiplication by a number if the factors of these values and the number give that of the
sum. These are equations between factors, more of them than factors; each sum takes the one that solves most
of its equations, in turns. In the end each tries the others, and the sums around it follow.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from operator import itemgetter
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
MOST_STEPS, MOST_LOOKS = 24, 3_000
"""How many sums are looked at when the factor of one is changed, and in all such changes (some 50 ms)."""
DIGITS, ROUNDING = 10, 1e-9
"""Of logarithms: those that solve the same equations agree to so many digits."""
LARGEST_LOGARITHM = math.log2(LARGEST)
LARGEST_DENOMINATOR = 1_000
"""Of factors that are taken for quotients of whole numbers."""


class Monomial(NamedTuple):
    """A number times the factors of some sums."""

    number: float
    sums: tuple[Ref, ...]


class Equation(NamedTuple):
    """A monomial that should be the factor of a sum (of None: one), and how much that saves."""

    monomial: Monomial
    total: Ref | None
    weight: int

    @property
    def unknowns(self) -> dict[Ref, int]:
        """The sums in it; how often each is multiplied in."""
        found = Counter(self.monomial.sums)
        return dict(found) if self.total is None else {**found, self.total: -1}


def common_factors(program: Program) -> Iterator[dict[Ref, float]]:
    """For each sum the factor to take out of it: as each sum wants it, and as sums want it together."""
    sums = [k for k, item in enumerate(program.instructions) if isinstance(item, Combine)]
    search = _Search([equation for equation in _equations(program) if equation.monomial.number], sums)
    for k in sums:
        search.set(k, search.best(k, is_own=True))
    for _ in range(SWEEPS):
        # what reads a sum has more equations for it than it has terms
        if not sum([search.set(k, search.best(k)) for k in reversed(sums)]):
            break
    yield search.factors()
    for k in sums:
        for _, logarithm in search.solutions(k)[1:]:
            if search.looks < MOST_LOOKS:
                search.try_along(k, logarithm)
    yield search.factors()


class _Search:
    """Logarithms of factors, and for each equation of the quotient of its sides, which should be zero."""

    def __init__(self, equations: list[Equation], sums: Sequence[Ref]) -> None:
        self.equations = equations
        self.unknowns = [equation.unknowns for equation in equations]
        self.logarithms = dict.fromkeys(sums, 0.0)
        self.around: dict[Ref, list[tuple[int, int]]] = {k: [] for k in sums}
        """The equations in which a sum is, and how often."""
        for number, unknowns in enumerate(self.unknowns):
            for k, power in unknowns.items():
                self.around[k].append((number, power))
        self.numbers = [math.log2(abs(equation.monomial.number)) for equation in equations]
        self.residuals = list(self.numbers)
        self.looks = 0

    def set(self, ref: Ref, logarithm: float) -> int:
        """Change the factor of a sum; the answer is how much more is saved."""
        if logarithm == self.logarithms[ref]:
            return 0
        self.logarithms[ref], gain = logarithm, 0
        for number, _ in self.around[ref]:
            was_solved = abs(self.residuals[number]) < ROUNDING
            powers = self.unknowns[number].items()
            # as a whole: differences would add up their roundings
            new = self.numbers[number] + math.fsum([power * self.logarithms[k] for k, power in powers])
            self.residuals[number] = new
            gain += self.equations[number].weight * ((abs(new) < ROUNDING) - was_solved)
        return gain

    def solutions(self, ref: Ref, is_own: bool = False) -> list[tuple[int, float]]:
        """What a factor saves, and the factor, for all that solve equations in which a sum is once.

        The first one is that which the sum has; `is_own` says that only equations of its terms count.
        """
        current = self.logarithms[ref]
        weights, exact = Counter({round(current, DIGITS): 0}), {round(current, DIGITS): current}
        for number, power in self.around[ref]:
            if power == -1 or (power == 1 and not is_own):
                solution = current - power * self.residuals[number]
                if abs(solution) <= LARGEST_LOGARITHM:
                    weights[round(solution, DIGITS)] += self.equations[number].weight
                    exact.setdefault(round(solution, DIGITS), solution)
        return [(weight, exact[key]) for key, weight in weights.items()]

    def best(self, ref: Ref, is_own: bool = False) -> float:
        """The factor that solves most; the one that it has, if no other one solves more."""
        return max(self.solutions(ref, is_own), key=itemgetter(0))[1]

    def try_along(self, ref: Ref, logarithm: float) -> None:
        """Change a factor, then those of sums around it that gain by it; kept if all of it saves more.

        A chain of sums that all want another factor does not get it one by one.
        """
        before = {ref: self.logarithms[ref]}
        gain = self.set(ref, logarithm)
        waiting = deque(self._near(ref))
        for _ in range(MOST_STEPS):
            if not waiting:
                break
            other = waiting.popleft()
            self.looks += 1
            found = self.best(other)
            if other != ref and found != self.logarithms[other]:
                before.setdefault(other, self.logarithms[other])
                gain += self.set(other, found)
                waiting.extend([k for k in self._near(other) if k not in waiting])
        if gain <= 0:
            for k, old in before.items():
                self.set(k, old)

    def _near(self, ref: Ref) -> list[Ref]:
        """The sums that could solve what a sum has left unsolved."""
        unsolved = [number for number, _ in self.around[ref] if abs(self.residuals[number]) >= ROUNDING]
        return list(dict.fromkeys([k for number in unsolved for k in self.unknowns[number]]))

    def factors(self) -> dict[Ref, float]:
        """The factors; those of terms are not read off logarithms, which would leave multiples near 1."""
        found: dict[Ref, float] = {}
        for ref, logarithm in self.logarithms.items():
            found[ref] = _number(logarithm)
            for number, power in self.around[ref]:
                if power == -1 and abs(self.residuals[number]) < ROUNDING:
                    factor, sums = self.equations[number].monomial
                    found[ref] = abs(factor) * math.prod([found[k] for k in sums])
        return found


def _number(logarithm: float) -> float:
    """The factor that a logarithm is of: a quotient of small whole numbers, rounded once, if it is near one.

    Products with such a factor and its reciprocal are exact more often than not, and `floor` may see them.
    """
    value = 2.0**logarithm
    quotient = float(Fraction(value).limit_denominator(LARGEST_DENOMINATOR))
    return quotient if math.isclose(quotient, value, rel_tol=1e-12) else float(f"{value:.15g}")


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
