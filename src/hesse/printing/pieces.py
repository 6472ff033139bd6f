"""Forms written down as text, with the parentheses they need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple, assert_never

from hesse.ops.registry import printed_name
from hesse.printing.forms import (
    Call,
    Chain,
    Delta,
    Elementwise,
    Entry,
    Form,
    Indexed,
    Label,
    Leaf,
    Literal,
    Number,
    Over,
    Scaled,
    Sum,
    Symbol,
    Transposed,
    mapped,
    mixes_notations,
)
from hesse.printing.notation import LOGARITHMS, axes_text, letter, number_text, rounded
from hesse.printing.products import matrix_powers


class Level(IntEnum):
    """How tightly a piece of text holds together."""

    ARROW = 0
    SUM = 1
    ELEMENTWISE = 2
    PRODUCT = 3
    POWER = 4
    ATOM = 5


class Piece(NamedTuple):
    """A printed form without its sign."""

    body: str
    level: Level = Level.ATOM
    negative: bool = False

    @property
    def text(self) -> str:
        """The form with its sign."""
        return f"-{self.body}" if self.negative else self.body

    def holds(self, least: Level) -> bool:
        """Whether the piece needs no parentheses where this level is asked for."""
        return not self.negative and self.level >= least

    def at(self, least: Level) -> str:
        """The piece for a place that asks for a level, in parentheses where it is below it."""
        return self.body if self.holds(least) else f"({self.text})"


def in_order(form: Form, pieces: Mapping[Leaf, Piece]) -> Form:
    """Terms in reading order: positive before negative, numbers last, `A` before `A'`, t2 before t10.

    Scalars that are divided by are ordered too: `x/(c*d)`.
    """
    form = mapped(form, lambda part: in_order(part, pieces))

    def key(term: Form) -> tuple[bool, bool, str]:
        piece = render(term, pieces)
        body = re.sub(r"\d+", lambda digits: digits[0].zfill(9), piece.body.replace("'", "~"))
        return piece.negative, isinstance(term, Number), body

    def divided(scalars: Elementwise) -> Elementwise:
        return replace(scalars, divisors=tuple(sorted(scalars.divisors, key=lambda part: key(part[0]))))

    match form:
        case Sum():
            return Sum(tuple(sorted(form.terms, key=key)))
        case Scaled() if form.scalars is not None and len(form.scalars.divisors) > 1:
            return replace(form, scalars=divided(form.scalars))
        case Elementwise(scalar=True) if len(form.divisors) > 1:
            return divided(form)
    return form


class Draft(dict[Form, Piece]):
    """Pieces of forms that are tried out: what they share is written once, and all labels as one letter."""

    def __init__(self, pieces: Mapping[Leaf, Piece]) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, form: Form) -> Piece:
        found = self[form] = self._pieces[form] if isinstance(form, Leaf) else _rendered(form, self)
        return found

    def length(self, form: Form) -> int:
        """The length of the text of a form."""
        return len(self[form].text)


def render(form: Form, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    """Print a form whose leaves are printed."""
    return pieces[form] if isinstance(pieces, Draft) else _rendered(form, pieces)


def _rendered(form: Form, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    match form:
        case Leaf():
            return pieces[form]
        case Number():
            return _number(form.value)
        case Symbol():
            return Piece(form.name)
        case Literal():
            return Piece(_literal(form.value))
        case Call():
            return _call(form, pieces)
        case Sum():
            terms = sorted((render(term, pieces) for term in form.terms), key=lambda term: term.negative)
            unsigned = [term._replace(negative=False).at(Level.ELEMENTWISE) for term in terms]
            return Piece(signed_sum(unsigned, [term.negative for term in terms]), Level.SUM)
        case Transposed():
            return Piece(render(form.body, pieces).at(Level.ATOM) + "'", Level.POWER)
        case Chain():
            return _chain(form, pieces)
        case Elementwise():
            return _elementwise(form, pieces)
        case Scaled():
            return _scaled(form, pieces)
        case Indexed():
            return Piece(_indexed(form, pieces), Level.ARROW)
        case Entry():
            return Piece(render(form.body, pieces).at(Level.ATOM) + _labels(form.labels))
        case Delta():
            return Piece("delta" + _labels((form.first, form.second)))
        case Over():
            return Piece(f"sum{_labels(form.labels)}({render(form.body, pieces).text})")
    assert_never(form)


def _chain(form: Chain, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    powers = matrix_powers(form)
    if not isinstance(powers, Chain):
        return render(powers, pieces)
    first, *others = (render(factor, pieces) for factor in powers.factors)
    factors = [first.at(Level.PRODUCT), *(factor.at(Level.POWER) for factor in others)]
    return Piece("*".join(factors), Level.PRODUCT)


def _labels(labels: Sequence[Label]) -> str:
    return f"[{','.join([label if isinstance(label, str) else 'i' for label in labels])}]"


def signed_sum(terms: Sequence[str], negative: Sequence[bool]) -> str:
    """Terms joined by their signs: `a - b`, `-a + b`."""
    joined = "".join((" - " if minus else " + ") + term for term, minus in zip(terms, negative, strict=True))
    return ("-" if negative[0] else "") + joined[3:]


def _number(value: float) -> Piece:
    if abs(value) in LOGARITHMS:
        base, power = LOGARITHMS[abs(value)]
        if power > 1:
            return Piece(f"log({base})^{power}", Level.POWER, value < 0)
        return Piece(f"log({base})", negative=value < 0)
    body = number_text(rounded(abs(value)))
    return Piece(body, Level.PRODUCT if "/" in body else Level.ATOM, value < 0)


def _literal(value: float | tuple[object, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"  # type: ignore[arg-type]
    return number_text(value)


def _call(form: Call, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    arguments = [render(argument, pieces) for argument in form.arguments]
    if form.table == "foreign":
        return Piece(f"{form.name}({', '.join(argument.text for argument in arguments)})")
    dot = "" if form.scalar else "."
    match form.name:
        case "reciprocal":
            level = Level.PRODUCT if form.scalar else Level.ELEMENTWISE
            return Piece(f"1{dot}/{arguments[0].at(Level.POWER)}", level)
        case "power":
            return Piece(f"{arguments[0].at(Level.ATOM)}{dot}^{arguments[1].at(Level.ATOM)}", Level.POWER)
        case "eye" if not arguments:
            return Piece("eye")
        case "matrix_power" if form.table == "builtin":
            return Piece(f"{arguments[0].at(Level.ATOM)}^{form.params[0]}", Level.POWER)
        case "expm_chain" if form.params == (1,):
            return Piece(f"expm({arguments[0].text})")
    given = ", ".join([argument.text for argument in arguments] + [str(param) for param in form.params])
    name = "diag" if form.name == "diagonal" else printed_name(form.name)
    return Piece(f"{name}({given})")


def _power(form: Form, power: int, dot: str, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    piece = render(form, pieces)
    return piece if power == 1 else Piece(f"{piece.at(Level.ATOM)}{dot}^{power}", Level.POWER)


def _elementwise(form: Elementwise, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    dot = "" if form.scalar else "."
    own = Level.PRODUCT if form.scalar else Level.ELEMENTWISE
    factors = [_power(part, power, dot, pieces) for part, power in form.factors]
    divisors = [_power(part, power, dot, pieces).at(Level.POWER) for part, power in form.divisors]
    if len(factors) == 1 and not divisors:
        return factors[0]
    joined = ["1"] if not factors else [factor.at(Level.POWER) for factor in factors]
    for place in (0, -1) if form.scalar else (0,):  # s*x'*y is read as it is meant
        bare = factors and factors[place].level == own and not factors[place].negative
        if bare and not mixes_notations(form, place):
            joined[place] = factors[place].body
    return Piece(f"{dot}*".join(joined) + _divided(divisors, dot), own)


def _scaled(form: Scaled, pieces: Mapping[Leaf, Piece] | Draft) -> Piece:
    """`2*n*s*A*x/t`: numbers, sizes and scalars before the tensor, divisors after it."""
    scalars = form.scalars or Elementwise(())
    factors = [] if abs(rounded(form.value)) == 1 else [_number(abs(form.value)).body]
    factors += form.sizes
    parts = [_power(part, power, "", pieces) for part, power in scalars.factors]
    factors += [part.at(Level.POWER) for part in parts]
    last_bare = form.body is None and parts and parts[-1].level == Level.PRODUCT
    if last_bare and not mixes_notations(scalars, -1):
        factors[-1] = parts[-1].at(Level.PRODUCT)  # 2*x'*y is read as it is meant
    level = Level.PRODUCT
    if form.body is not None:
        body = render(form.body, pieces)
        level = Level.ELEMENTWISE if body.level == Level.ELEMENTWISE else level
        factors.append(body.at(Level.ELEMENTWISE))
    divisors = [_power(part, power, "", pieces).at(Level.POWER) for part, power in scalars.divisors]
    return Piece(("*".join(factors) or "1") + _divided(divisors), level, form.value < 0)


def _divided(divisors: Sequence[str], dot: str = "") -> str:
    """`/x`, `/(x*y)`."""
    below = f"{dot}*".join(divisors)
    return f"{dot}/({below})" if len(divisors) > 1 else f"{dot}/{below}" if divisors else ""


def _indexed(form: Indexed, pieces: Mapping[Leaf, Piece] | Draft) -> str:
    factors = [
        render(part, pieces).at(Level.ATOM) + (axes_text(axes) if axes else "") for part, axes in form.factors
    ]
    notes = [f", {letter(label)}<{size}" for label, size in form.notes]
    return " ".join([*factors, "->", axes_text(form.output)]) + "".join(notes)
