"""Forms joined with those of their operands: `A*(B*x)` is written `A*B*x`, `A'*A*x - A'*y` as `A'*(A*x - y)`.

How a product is grouped is for the plan to say, not for the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hesse.printing.collect import Collecting, congruence, content, ends_negative, negated
from hesse.printing.forms import (
    Call,
    Chain,
    Elementwise,
    Entry,
    Form,
    Label,
    Leaf,
    Literal,
    Number,
    Over,
    Scaled,
    Sum,
    Symbol,
    Transposed,
    labels_in,
    mapped,
)
from hesse.printing.index_forms import renamed
from hesse.printing.products import chained, is_matrix_power, matrix_powers, transposed
from hesse.printing.terms import Term, chain_factors, element_factors, element_product, is_scalar, term_of

JOIN_LIMIT = 16
"""Products are joined up to this many factors."""


class Joining:
    """Joins forms: `own` are those of the operands that are written in place, `length` measures a form."""

    def __init__(self, own: Mapping[Leaf, Form], length: Callable[[Form], int]) -> None:
        self._own, self._length = own, length
        self._bound = 1_000_000

    def join(self, form: Form, scalar: bool) -> Form:
        """The form with its operands joined into it."""
        match form:
            case Leaf():
                found = self._own.get(form)
                return self._fresh(found) if found is not None and form.indexed else form
            case Chain():
                return self._chain(form).form
            case Elementwise():
                return self._elementwise(form).form
            case Scaled():
                return self._scaled(form, scalar).form
            case Sum():
                return self._sum(form, scalar)
            case Transposed():
                inner = self._term(form.body, scalar=False)
                inner.body = transposed(form.body) if inner.body is None else self._turned(inner.body)
                return inner.form
            case Call(name="diag" | "diagonal" | "tr" | "sum", table="builtin"):
                return self._linear(form)
            case Entry():
                return self._entry(form).form
            case Over():
                return self._over(form).form
        return mapped(form, lambda part: signed(self.join(part, is_scalar(part))))

    def _term(self, form: Form, scalar: bool) -> Term:
        """The form, or that of the operand it is, taken apart."""
        match form:
            case Leaf() if form in self._own and form.indexed:
                return term_of(self._fresh(self._own[form]), scalar)
            case Leaf() if form in self._own:
                inner = term_of(self._own[form], scalar)
                if scalar:
                    return inner if not isinstance(self._own[form], Symbol) else Term(factors={form: 1})
                changed = inner.value != 1 or inner.factors or inner.divisors or inner.sizes
                return content(inner) if changed or _is_product(inner.body) else Term(body=form)
        return term_of(self.join(form, scalar), scalar)

    def _chain(self, form: Chain) -> Term:
        result = Term()
        factors: list[Form] = []
        for factor in form.factors:
            turned = isinstance(factor, Transposed)
            inner = self._term(factor.body if isinstance(factor, Transposed) else factor, scalar=False)
            if inner.body is None:
                inner = Term(body=factor.body if isinstance(factor, Transposed) else factor)
            result.multiply(inner)
            assert inner.body is not None
            body = self._turned(inner.body) if turned else inner.body
            factors += body.factors if isinstance(body, Chain) else [body]
        result.body = congruence(chained(factors))
        if len(factors) > JOIN_LIMIT:
            result.body = matrix_powers(Chain(tuple(factors)))
        return result if len(chain_factors(result.body)) <= JOIN_LIMIT else Term(body=form)

    def _turned(self, body: Form) -> Form:
        """The transpose, of the terms of a sum where that is shorter."""
        outside = Transposed(body) if isinstance(body, Sum | Elementwise) else transposed(body)
        if not isinstance(body, Sum):
            return outside
        terms = []
        for form in body.terms:
            term = term_of(form, scalar=False)
            if term.body is not None:
                term.body = transposed(term.body)
            terms.append(term.form)
        if set(terms) == set(body.terms):
            return body  # A + A' is symmetric
        inside = Sum(tuple(terms))
        parentheses = 2
        return inside if self._length(inside) + parentheses < self._length(outside) else outside

    def _elementwise(self, form: Elementwise) -> Term:
        result = Term()
        tables: tuple[dict[Form, int], dict[Form, int]] = {}, {}
        for way, parts in enumerate((form.factors, form.divisors)):
            for part, power in parts:
                inner = self._term(part, form.scalar)
                times = power if way == 0 else -power
                if (not form.scalar and inner.body is None) or (inner.sizes and way == 1):
                    inner = Term(factors={part: 1}) if form.scalar else Term(body=part)
                _raise(result, inner, times)
                if inner.body is None:
                    continue
                above, below = element_factors(inner.body)
                for table, inside in ((tables[way], above), (tables[1 - way], below)):
                    for factor, count in inside.items():
                        table[factor] = table.get(factor, 0) + count * power
        if not form.scalar:
            result.body = element_product(*tables)
        return result

    def _scaled(self, form: Scaled, scalar: bool) -> Term:
        result = Term(form.value, form.sizes)
        if form.scalars is not None:
            result.multiply(self._elementwise(form.scalars))
        if form.body is not None:
            inner = self._term(form.body, scalar)
            result.multiply(inner)
            result.body = inner.body
        return result

    def _sum(self, form: Sum, scalar: bool) -> Form:
        terms = []
        for term in form.terms:
            own = self._own.get(term) if isinstance(term, Leaf) and not term.indexed else None
            known = own is not None and not isinstance(own, Symbol | Literal)
            terms.append(own if known and own is not None else self.join(term, scalar))
        return Collecting(self._length).sum(terms, scalar)

    def _linear(self, form: Call) -> Form:
        """`diag(2*x) = 2*diag(x)`."""
        inner = self._term(form.arguments[0], scalar=False)
        if inner.body is None:
            return form
        call = replace(form, arguments=(inner.body,))
        if form.scalar:
            inner.body = None
            inner.factors = {**inner.factors, call: 1}
        else:
            inner.body = call
        return inner.form

    def _entry(self, form: Entry) -> Term:
        leaf = form.body
        if isinstance(leaf, Leaf) and leaf.indexed and leaf in self._own:
            names: dict[Label, Label] = dict(enumerate(form.labels))
            return term_of(self._fresh(self._own[leaf], names), scalar=True)
        inner = self._term(leaf, scalar=False)
        if inner.body is None:
            return Term(factors={form: 1})
        other = transposed(inner.body) if len(form.labels) == 2 else inner.body
        turned = self._length(other) < self._length(inner.body)
        inner.factors[Entry(other, form.labels[::-1]) if turned else Entry(inner.body, form.labels)] = 1
        inner.body = None
        return inner

    def _over(self, form: Over) -> Term:
        """A sum, with the factors that do not depend on it before it."""
        inner = self._term(form.body, scalar=True)
        labels = set(form.labels)
        result = Term(inner.value, inner.sizes)
        kept: tuple[dict[Form, int], dict[Form, int]] = {}, {}
        for inside, own, outside in (
            (inner.factors, kept[0], result.factors),
            (inner.divisors, kept[1], result.divisors),
        ):
            for factor, power in inside.items():
                (own if labels_in(factor) & labels else outside)[factor] = power
        body = Term(factors=kept[0], divisors=kept[1]).form
        result.factors[replace(form, body=body)] = 1
        return result

    def _fresh(self, form: Form, names: Mapping[Label, Label] | None = None) -> Form:
        """A form in index notation with new labels in its sums."""
        names = dict(names or {})
        for label in sorted(labels_in(form), key=str):
            if label not in names:
                self._bound += 1
                names[label] = self._bound
        return renamed(form, names)


def _is_product(body: Form | None) -> bool:
    """Whether a form may be joined with the factors around it."""
    return isinstance(body, Chain | Elementwise | Sum | Transposed) or (
        body is not None and is_matrix_power(body)
    )


def signed(form: Form) -> Form:
    """-(A - B)*C = (B - A)*C, unless the sum is there twice."""
    term = term_of(form, scalar=False)
    if term.value >= 0:
        return form
    if term.body is None:
        return _signed_scalars(term)
    factors = list(chain_factors(term.body))
    plain = [factor.body if isinstance(factor, Transposed) else factor for factor in factors]
    for place, factor in enumerate(plain):
        other = negated(factor) if plain.count(factor) == 1 else None
        if other is not None:
            factors[place] = Transposed(other) if isinstance(factors[place], Transposed) else other
            term.value, term.body = -term.value, chained(factors)
            return term.form
    return _signed_scalars(term)


def _signed_scalars(term: Term) -> Form:
    """-(2*c - 1)*x = (1 - 2*c)*x: a sum begins with its number; and -(2 - c) = c - 2."""
    alone = term.body is None and term.value == -1 and len(term.factors) == 1
    for factor, power in term.factors.items():
        turned = (ends_negative(factor) or alone) and power % 2
        other = negated(factor) if turned else _negated_sum(factor, power)
        if other is not None:
            factors = {other if part is factor else part: count for part, count in term.factors.items()}
            return Term(-term.value, term.sizes, factors, term.divisors, term.body).form
    return term.form


def _negated_sum(form: Form, power: int) -> Form | None:
    """-sum[p](x[p]*(2*y[p] - 1)) = sum[p](x[p]*(1 - 2*y[p]))."""
    if not isinstance(form, Over) or power != 1:
        return None
    inner = term_of(form.body, scalar=True)
    inner.value = -inner.value
    body = _signed_scalars(inner)
    return replace(form, body=body) if inner.value < 0 < term_of(body, scalar=True).value else None


def _raise(result: Term, inner: Term, times: int) -> None:
    """Multiply by a power, which may be negative, of the scalars of a term."""
    if times < 0 and not inner.value:
        inner = Term(divisors={Number(0.0): 1})
    elif times < 0:
        inner = Term(1 / inner.value, (), inner.divisors, inner.factors)
    result.multiply(inner, abs(times))
