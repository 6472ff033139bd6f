"""Sums with common factors taken out: `A'*(A*x - y)` instead of `A'*A*x - A'*y`.

Every way to factor is tried, and what is shortest as text is kept; without a gain the sum stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hesse.printing.forms import (
    Call,
    Chain,
    Elementwise,
    Form,
    Indexed,
    Leaf,
    Number,
    Over,
    Scaled,
    Sum,
    Transposed,
    parts,
)
from hesse.printing.index_forms import bound_alike
from hesse.printing.products import chained, transposed
from hesse.printing.terms import (
    Powers,
    Term,
    chain_factors,
    element_factors,
    element_product,
    term_of,
)

MOST_TERMS = 12
"""Longer sums are not searched for common factors."""
NESTED_FRACTION = 12
"""What a fraction in a fraction costs, in characters: `(A - x*x'/c)/c`."""


class Collecting:
    """Sums in their shortest form; `length` measures a form."""

    def __init__(self, length: Callable[[Form], int]) -> None:
        self._length = length
        self._known: dict[tuple[tuple[Form, ...], bool], Form] = {}

    def sum(self, terms: Sequence[Form], scalar: bool) -> Form:
        """The sum of terms in the shortest form."""
        key = tuple(terms), scalar
        if key not in self._known:
            self._known[key] = self._shortest(terms, scalar)
        return self._known[key]

    def _shortest(self, terms: Sequence[Form], scalar: bool) -> Form:
        merged = _merged([term_of(term, scalar) for form in terms for term in _flat(form)])
        if not merged:
            return Number(0.0)
        plain = _sum(merged)
        placed = any(isinstance(term.body, Indexed) for term in merged)
        if len(merged) == 1 or len(merged) > MOST_TERMS or placed:
            return plain
        candidates = [(self._length(plain), 1, plain)]
        for form in self._factored(merged, scalar):
            candidates.append((self._length(form) + _nesting(form), 0 if _is_collected(form) else 2, form))
        return min(candidates, key=lambda candidate: candidate[:2])[2]

    def _factored(self, terms: list[Term], scalar: bool) -> list[Form]:
        """The sum with factors common to all terms, or to some of them, taken out."""
        found: list[Form] = []
        whole = self._scalars_out(terms, scalar)
        if whole is not None:
            found.append(whole)
        joined = self._sums_joined(terms) if scalar else None
        if joined is not None:
            found.append(joined)
        if not scalar:
            for way in (self._left_out, self._right_out, self._elements_out):
                inner = way(terms)
                if inner is not None:
                    found.append(inner)
        if len(terms) > 2:
            found += self._by_groups(terms, scalar)
        return found

    def _by_groups(self, terms: list[Term], scalar: bool) -> list[Form]:
        """Terms that share some factor collected, the others left as they are."""
        found: list[Sum] = []
        for key in (_divisors, _factors, *(() if scalar else (_first, _last))):
            groups: dict[object, list[Term]] = {}
            for term in terms:
                groups.setdefault(key(term), []).append(term)
            if len(groups) in (1, len(terms)):
                continue
            sums = [self.sum([term.form for term in group], scalar) for group in groups.values()]
            flat = tuple([term for part in sums for term in _flat(part)])
            if len(flat) < len(terms):
                found.append(Sum(flat))
        shortest = min(found, key=self._length, default=None)
        if shortest is None or len(shortest.terms) < 3:
            return list(found)
        return [*found, self.sum(shortest.terms, scalar)]

    def _scalars_out(self, terms: list[Term], scalar: bool) -> Form | None:
        """`c*a + c*b = c*(a + b)` for numbers, sizes and scalars."""
        values = {abs(term.value) for term in terms}
        sign = -1.0 if all(term.value < 0 for term in terms) else 1.0
        value = sign * (values.pop() if len(values) == 1 else 1.0)
        sizes = terms[0].sizes if len({term.sizes for term in terms}) == 1 else ()
        factors = _common([term.factors for term in terms])
        divisors = _common([term.divisors for term in terms])
        if value == 1 and not sizes and not factors and not divisors:
            return None
        rest = [
            Term(
                term.value / value,
                term.sizes[len(sizes) :],
                _less(term.factors, factors),
                _less(term.divisors, divisors),
                term.body,
            )
            for term in terms
        ]
        inner = content(term_of(self.sum([term.form for term in rest], scalar), scalar))
        outer = Term(value, sizes, factors, divisors, inner.body)
        outer.multiply(inner)
        return outer.form

    def _sums_joined(self, terms: list[Term]) -> Form | None:
        """`sum[p](a[p]*x[p]) + sum[q](b[q]*x[q]) = sum[p]((a[p] + b[p])*x[p])`."""
        inside: list[Term] = []
        first: Over | None = None
        for term in terms:
            sums = [factor for factor in term.factors if isinstance(factor, Over)]
            if len(sums) != 1 or term.factors[sums[0]] != 1:
                return None
            outer = Term(term.value, term.sizes, _less(term.factors, {sums[0]: 1}), dict(term.divisors))
            first = sums[0] if first is None else first
            options = [term_of(other.body, scalar=True) for other in bound_alike(first, sums[0])]
            if not options:
                return None
            known = {factor for each in inside for factor in each.factors}
            best = max(options, key=lambda option: len(known & option.factors.keys()))
            outer.multiply(best)
            inside.append(outer)
        assert first is not None
        body = self.sum([term.form for term in inside], True)
        inner = term_of(body, scalar=True)
        if len(inner.factors) < 2:
            return None  # nothing to gain: the sum of sums is a sum of a sum
        return replace(first, body=body)

    def _left_out(self, terms: list[Term]) -> Form | None:
        """`A*B + A*C = A*(B + C)`."""
        chains = [chain_factors(term.body) for term in terms]
        count = 0
        while all(len(chain) > count + 1 and chain[count] == chains[0][count] for chain in chains):
            count += 1
        if not count:
            return None
        return self._around(chains[0][:count], terms, [chain[count:] for chain in chains], ())

    def _right_out(self, terms: list[Term]) -> Form | None:
        """`B*A + C*A = (B + C)*A`."""
        chains = [chain_factors(term.body) for term in terms]
        count = 0
        while all(len(chain) > count + 1 and chain[-1 - count] == chains[0][-1 - count] for chain in chains):
            count += 1
        if not count:
            return None
        rests = [chain[: len(chain) - count] for chain in chains]
        return self._around((), terms, rests, chains[0][len(chains[0]) - count :])

    def _around(
        self,
        left: Sequence[Form],
        terms: Sequence[Term],
        rests: Sequence[Sequence[Form]],
        right: Sequence[Form],
    ) -> Form | None:
        inside = [
            Term(term.value, term.sizes, term.factors, term.divisors, chained(rest)).form
            for term, rest in zip(terms, rests, strict=True)
        ]
        inner = term_of(self.sum(inside, False), scalar=False)
        if inner.body is None:
            return None
        inner.body = congruence(chained([*left, inner.body, *right]))
        return inner.form

    def _elements_out(self, terms: list[Term]) -> Form | None:
        """`x.*y + x.*z = x.*(y + z)`."""
        if not any(isinstance(term.body, Elementwise) for term in terms):
            return None
        if any(term.body is None or isinstance(term.body, Chain) for term in terms):
            return None
        pairs = [element_factors(term.body) for term in terms]
        above, below = _common([pair[0] for pair in pairs]), _common([pair[1] for pair in pairs])
        if not above and not below:
            return None
        inside = []
        for term, (factors, divisors) in zip(terms, pairs, strict=True):
            rest = _less(factors, above), _less(divisors, below)
            body = element_product(*rest) if any(rest) else None
            inside.append(Term(term.value, term.sizes, term.factors, term.divisors, body).form)
        inner = term_of(self.sum(inside, False), scalar=False)
        if inner.body is None:
            inner.body = element_product(above, below)
            return inner.form
        factors, divisors = element_factors(inner.body)
        for form, count in above.items():
            factors[form] = factors.get(form, 0) + count
        for form, count in below.items():
            divisors[form] = divisors.get(form, 0) + count
        ordered = {form: factors[form] for form in sorted(factors, key=lambda form: isinstance(form, Sum))}
        inner.body = element_product(ordered, divisors)
        return inner.form


def _flat(form: Form) -> list[Form]:
    return [inner for term in form.terms for inner in _flat(term)] if isinstance(form, Sum) else [form]


def _merged(terms: Sequence[Term]) -> list[Term]:
    """Equal terms added up."""
    found: dict[object, Term] = {}
    for term in terms:
        key = (frozenset(term.factors.items()), frozenset(term.divisors.items()), term.sizes, term.body)
        if key in found:
            found[key].value += term.value
        else:
            found[key] = Term(term.value, term.sizes, term.factors, term.divisors, term.body)
    return [term for term in found.values() if term.value]


def _sum(terms: Sequence[Term]) -> Form:
    if len(terms) == 1:
        return terms[0].form
    return Sum(tuple(part for term in terms for part in _flat(term.form)))


def _nesting(form: Form) -> int:
    term = term_of(form, scalar=False)
    if not term.divisors:
        return 0
    inner = set().union(*(_all_divisors(part) for part in (term.body, *term.factors) if part is not None))
    return NESTED_FRACTION * len(inner & term.divisors.keys())


def _all_divisors(form: Form) -> set[Form]:
    own = {part for part, _ in form.divisors} if isinstance(form, Elementwise) and form.scalar else set()
    return own.union(*map(_all_divisors, parts(form)))


def _is_collected(form: Form) -> bool:
    """Whether a form is read rather than an equally long sum: `(A + A')*x + y`, `(A - B)/c`."""
    if isinstance(form, Sum):
        return any(map(_holds_sum, form.terms))
    return _holds_sum(form) or (isinstance(form, Scaled) and bool(term_of(form, scalar=False).divisors))


def _holds_sum(form: Form) -> bool:
    """Whether a form is a matrix product with a sum in it."""
    factors = form.factors if isinstance(form, Chain) else ()
    inner = (factor.body if isinstance(factor, Transposed) else factor for factor in factors)
    return any(isinstance(factor, Sum) for factor in inner)


def _divisors(term: Term) -> object:
    return frozenset(term.divisors.items()), abs(term.value), term.value < 0


def _factors(term: Term) -> object:
    return frozenset(term.factors.items())


def _first(term: Term) -> object:
    return chain_factors(term.body)[:1]


def _last(term: Term) -> object:
    return chain_factors(term.body)[-1:]


def _common(tables: Sequence[Powers]) -> Powers:
    first, *others = tables
    lowest = {form: min([count, *(t.get(form, 0) for t in others)]) for form, count in first.items()}
    return {form: count for form, count in lowest.items() if count}


def _less(table: Powers, common: Powers) -> Powers:
    rest = {form: count - common.get(form, 0) for form, count in table.items()}
    return {form: count for form, count in rest.items() if count}


def congruence(product: Form) -> Form:
    """`B'*(B + C*B) = B'*(eye + C)*B`, and `B'*D*(B + C*B) = B'*D*(eye + C)*B`: it shows the symmetry."""
    factors = chain_factors(product)
    for place, factor in enumerate(factors):
        if not isinstance(factor, Sum):
            continue
        for other in (*range(place), *range(place + 1, len(factors))):
            side = transposed(factors[other])
            middle = _divided(factor, side, last=other < place)
            if middle is not None:
                both = (middle, side) if other < place else (side, middle)
                return chained([*factors[:place], *both, *factors[place + 1 :]])
    return product


def _divided(form: Sum, side: Form, last: bool) -> Form | None:
    """A sum without the matrix that all of its terms end (or begin) with, one of them being nothing else."""
    inside = side.body if isinstance(side, Transposed) else side
    if isinstance(inside, Leaf) and inside.node.rank < 2:
        return None
    rests: list[Term] = []
    for part in form.terms:
        term = term_of(part, scalar=False)
        factors = chain_factors(term.body)
        if not factors or factors[-1 if last else 0] != side:
            return None
        rest = factors[:-1] if last else factors[1:]
        term.body = chained(rest) if rest else Call("eye", ())
        rests.append(term)
    alone = sum(term.body == Call("eye", ()) for term in rests)
    return _sum(rests) if alone == 1 else None


def negated(form: Form) -> Form | None:
    """A sum with a negative term, or a product or diagonal matrix of such a sum, with its sign changed."""
    match form:
        case Sum():
            terms = [term_of(term, scalar=False) for term in form.terms]
            if all(term.value > 0 for term in terms):
                return None
            for term in terms:
                term.value = -term.value
            return _sum(terms)
        case Elementwise(scalar=False):
            places = sorted(range(len(form.factors)), key=lambda k: not ends_negative(form.factors[k][0]))
            for place in places:
                factor, power = form.factors[place]
                other = negated(factor) if power % 2 else None
                if other is not None:
                    changed = (*form.factors[:place], (other, power), *form.factors[place + 1 :])
                    return Elementwise(changed, form.divisors)
        case Call(name="diag", arguments=(inside,), table="builtin"):
            other = negated(inside)
            return None if other is None else Call("diag", (other,))
    return None


def ends_negative(form: Form) -> bool:
    """Whether a form is `2*c - 1`: its negative begins with the number."""
    return isinstance(form, Sum) and any(isinstance(term, Number) and term.value < 0 for term in form.terms)


def content(term: Term) -> Term:
    """A sum as a factor, with what all its terms are multiples of before it: `2*(A + B)`, `-(A + B)`."""
    if isinstance(term.body, Sum):
        value, body = _primitive(term.body, scalar=False)
        return Term(term.value * value, term.sizes, term.factors, term.divisors, body)
    found = Term(term.value, term.sizes, {}, term.divisors, term.body)
    for factor, power in term.factors.items():
        value, rest = _primitive(factor, scalar=True) if isinstance(factor, Sum) else (1.0, factor)
        found.value *= value**power
        found.factors[rest] = found.factors.get(rest, 0) + power
    return found


def _primitive(form: Sum, scalar: bool) -> tuple[float, Form]:
    """A sum as a number times a sum."""
    terms = [term_of(part, scalar) for part in form.terms]
    sign = -1.0 if all(term.value < 0 for term in terms) else 1.0
    value = sign * _common_number({abs(term.value) for term in terms})
    if value == 1:
        return value, form
    for term in terms:
        term.value /= value
    return value, _sum(terms)


def _common_number(values: set[float]) -> float:
    """The number that all of some positive numbers are, or the greatest of which they are whole multiples."""
    if len(values) == 1:
        return next(iter(values))
    return float(math.gcd(*map(int, values))) if all(float(value).is_integer() for value in values) else 1.0
