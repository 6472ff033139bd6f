"""Forms as a number times scalars times a tensor, so that they can be multiplied, merged and factored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hesse.ir import Einsum
from hesse.printing.forms import Call, Chain, Elementwise, Form, Leaf, Number, Scaled, Sum

Powers = dict[Form, int]


@dataclass
class Term:
    """`value * sizes * factors / divisors * body`; without a body the term is a scalar."""

    value: float = 1.0
    sizes: tuple[str, ...] = ()
    factors: Powers = field(default_factory=dict)
    divisors: Powers = field(default_factory=dict)
    body: Form | None = None

    def multiply(self, other: Term, power: int = 1) -> None:
        """Multiply by the number and the scalars of another term."""
        self.value *= other.value**power
        self.sizes += other.sizes * power
        for own, theirs in ((self.factors, other.factors), (self.divisors, other.divisors)):
            for form, count in theirs.items():
                own[form] = own.get(form, 0) + count * power
        for form in [form for form in self.divisors if _size(form) in self.sizes]:
            self._cancel(form)

    def _cancel(self, below: Form) -> None:
        """n/n = 1."""
        sizes, count = list(self.sizes), self.divisors.pop(below)
        while count and _size(below) in sizes:
            sizes.remove(_size(below))
            count -= 1
        self.sizes = tuple(sizes)
        if count:
            self.divisors[below] = count

    @property
    def form(self) -> Form:
        """The term as a form."""
        scalars = None
        if self.factors or self.divisors:
            scalars = Elementwise(tuple(self.factors.items()), tuple(self.divisors.items()), scalar=True)
        if self.value == 1 and not self.sizes:
            if scalars is None:
                return Number(1.0) if self.body is None else self.body
            if self.body is None:
                single = len(self.factors) == 1 and not self.divisors and 1 in self.factors.values()
                return next(iter(self.factors)) if single else scalars
        if scalars is None and self.body is None and not self.sizes:
            return Number(self.value)
        return Scaled(self.value, self.sizes, scalars, self.body)


def _size(form: Form) -> str:
    """The name of a size that is used as a number; empty for all other forms."""
    if not isinstance(form, Leaf) or not isinstance(form.node, Einsum) or form.node.rank:
        return ""
    node = form.node
    alone = not node.operands and node.scale == 1 and len(node.ranges) == 1
    return str(node.ranges[0]) if alone else ""


def term_of(form: Form, scalar: bool) -> Term:
    """A form taken apart; `scalar` says whether it is a scalar (then it has no body)."""
    match form:
        case Number():
            return Term(form.value)
        case Scaled():
            found = Term(form.value, form.sizes)
            if form.scalars is not None:
                found.multiply(term_of(form.scalars, scalar=True))
            if form.body is not None:
                inner = term_of(form.body, scalar)
                found.multiply(inner)
                found.body = inner.body
            return found
        case Elementwise(scalar=True):
            return Term(factors=dict(form.factors), divisors=dict(form.divisors))
        case Elementwise(factors=((part, 1),), divisors=()):
            return term_of(part, scalar)
    return Term(factors={form: 1}) if scalar else Term(body=form)


def is_scalar(form: Form) -> bool:
    """Whether a form is known to be a scalar."""
    match form:
        case Number():
            return True
        case Leaf():
            return form.node.rank == 0
        case Call() | Elementwise():
            return form.scalar
        case Scaled():
            return form.body is None or is_scalar(form.body)
        case Sum():
            return all(map(is_scalar, form.terms))
    return False


def chain_factors(body: Form | None) -> tuple[Form, ...]:
    """The factors of a matrix product."""
    if body is None:
        return ()
    return body.factors if isinstance(body, Chain) else (body,)


def element_factors(body: Form | None) -> tuple[Powers, Powers]:
    """The factors and divisors of an element-wise product."""
    if isinstance(body, Elementwise) and not body.scalar:
        return dict(body.factors), dict(body.divisors)
    return ({} if body is None else {body: 1}), {}


def element_product(factors: Mapping[Form, int], divisors: Mapping[Form, int]) -> Form:
    """The element-wise product of powers."""
    if not divisors and list(factors.values()) == [1]:
        return next(iter(factors))
    return Elementwise(tuple(factors.items()), tuple(divisors.items()))
