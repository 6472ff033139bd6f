"""Formulas as one line of text, and the decision which subexpressions get a name.

The notation is that of matrix languages: `A*x` is a matrix product, `x.*y`, `x./y` and `x.^2` work element by
element, `A'` is the transpose, a vector is a column. What has no matrix notation is written with indices:
`2*(V[l,j] V[l,k] -> [i,j,i,k])` adds `2*V[l,j]*V[l,k]`, for all values of the labels, to entry `i,j,i,k` of a
tensor of zeros. Labels run as far as the axes they index let them, unless it says otherwise (`i<3`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, assert_never

from hesse.ir import Node, topological, use_counts
from hesse.printing.chains import chained, transposed
from hesse.printing.describe import describe, is_large
from hesse.printing.forms import (
    Call,
    Chain,
    Elementwise,
    Form,
    Indexed,
    Leaf,
    Literal,
    Number,
    Scaled,
    Sum,
    Symbol,
    Transposed,
    leaves,
)
from hesse.printing.notation import axes_text, fresh_names, letter, number_text

SHARED_LENGTH = 10
"""A subexpression that is used more than once gets a name if its text is longer than this."""
TEXT_LIMIT = 2000
"""Subexpressions get names before a piece of text grows longer than this …"""
LONG_LENGTH = 40
"""… if they are longer than this."""
CHAIN_LIMIT = 12
"""Chains of matrices are joined up to this many factors."""
DEPTH_LIMIT = 40
"""Subexpressions get names before this many nodes are nested in each other (TeX gives up at 255 groups)."""

SHORT_NAMES = {
    "inverse": "inv",
    "determinant": "det",
    "log_determinant": "logdet",
    "pseudo_inverse": "pinv",
    "cumulative_sum": "cumsum",
    "cumulative_product": "cumprod",
}
"""Operations that are printed by another name than that of their record."""


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


def text(node: Node) -> str:
    """The formula of a node on one line, shared and long parts named: `t1*t1' where t1 = softmax(A*x)`."""
    arrangement = arrange(node)
    definitions = [f"{name} = {piece.text}" for name, piece in arrangement.definitions.values()]
    result = arrangement.pieces[node].text
    return f"{result} where {'; '.join(definitions)}" if definitions else result


@dataclass
class Arrangement:
    """How the formula of a node is laid out: the same for text and LaTeX.

    `forms` are those of the nodes that are printed, operands first, with the terms of sums in printing
    order; `definitions` are the names and texts of the named ones.
    """

    forms: dict[Node, Form] = field(default_factory=dict)
    definitions: dict[Node, tuple[str, Piece]] = field(default_factory=dict)
    pieces: dict[Node, Piece] = field(default_factory=dict)
    depths: dict[Node, int] = field(default_factory=dict)

    def enter(self, node: Node, form: Form) -> bool:
        """Print a node; the answer is whether its text is neither too long nor too deeply nested."""
        form = in_order(form, self.pieces)
        piece = render(form, self.pieces)
        depth = 1 + max((self.depths[leaf] for leaf in leaves(form)), default=-1)
        self.forms[node], self.pieces[node], self.depths[node] = form, piece, depth
        return len(piece.body) <= TEXT_LIMIT and depth <= DEPTH_LIMIT

    def name(self, node: Node, names: Iterator[str]) -> None:
        """Print a node by a name from now on."""
        name = next(names)
        self.definitions[node] = (name, self.pieces[node])
        self.pieces[node] = Piece(name)
        self.depths[node] = 0


def arrange(root: Node) -> Arrangement:
    """Choose the subexpressions that get names, and print all pieces."""
    order = topological([root])
    temporaries, constants = fresh_names("t", order), fresh_names("c", order)
    shared = {node for node, count in use_counts(order, [root]).items() if count > 1}
    forms, uses = _uses(root, shared)
    result = Arrangement()
    for node, form in forms.items():
        for operand in _unreadable(form, result.pieces):
            result.name(operand, temporaries)
        spliced = _spliced(form, result, uses)
        if not result.enter(node, spliced):
            _name_longest(form, len(result.pieces[node].body), result, temporaries)
            result.enter(node, form)
        if is_large(node):
            result.name(node, constants)
        elif uses[node] > 1 and len(result.pieces[node].body) > SHARED_LENGTH and node.operands:
            result.name(node, temporaries)
    return result


def _unreadable(form: Form, pieces: Mapping[Node, Piece]) -> list[Node]:
    """The operands of a product with indices that would be long expressions in parentheses."""
    body = form.body if isinstance(form, Scaled) else form
    if not isinstance(body, Indexed):
        return []
    found = {node: pieces[node] for node in leaves(body)}
    return [
        node for node, piece in found.items() if piece.level < Level.ATOM and len(piece.body) > SHARED_LENGTH
    ]


def _spliced(form: Form, result: Arrangement, uses: Mapping[Node, int]) -> Form:
    """Chains with the chains used only in them: `A*(B*x)` is `A*B*x`, the plan will group it."""

    def inner(factor: Form) -> Form:
        leaf = factor.body if isinstance(factor, Transposed) else factor
        if not isinstance(leaf, Leaf) or uses[leaf.node] > 1 or leaf.node in result.definitions:
            return factor
        found = result.forms[leaf.node]
        if not isinstance(found, Chain):
            return factor
        return found if leaf is factor else transposed(found)

    match form:
        case Chain():
            whole = chained([inner(factor) for factor in form.factors])
            return whole if isinstance(whole, Chain) and len(whole.factors) <= CHAIN_LIMIT else form
        case Scaled() if form.body is not None:
            return replace(form, body=_spliced(form.body, result, uses))
    return form


def _uses(root: Node, shared: Container[Node]) -> tuple[dict[Node, Form], dict[Node, int]]:
    """The forms of the nodes that are printed, operands first, and how often each would be written."""
    forms: dict[Node, Form] = {}
    order: dict[Node, Form] = {}
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order[node] = forms[node]
        elif node not in order:
            forms[node] = describe(node, shared)
            stack.append((node, True))
            stack += [(leaf, False) for leaf in reversed(list(leaves(forms[node]))) if leaf not in order]
    uses = {root: 1}
    for form in order.values():
        for leaf in leaves(form):
            uses[leaf] = uses.get(leaf, 0) + 1
    return order, uses


def _name_longest(form: Form, length: int, result: Arrangement, names: Iterator[str]) -> None:
    """Name operands until the text is short and no operand is deeply nested."""
    for node in sorted(dict.fromkeys(leaves(form)), key=lambda node: -len(result.pieces[node].body)):
        size = len(result.pieces[node].body)
        too_deep = result.depths[node] >= DEPTH_LIMIT
        if too_deep or (length > TEXT_LIMIT and size > LONG_LENGTH):
            result.name(node, names)
            length -= size - len(result.pieces[node].body)


def in_order(form: Form, pieces: Mapping[Node, Piece]) -> Form:
    """Terms in reading order: positive before negative, numbers last, `A` before `A'`, t2 before t10."""
    if not isinstance(form, Sum):
        return form

    def key(term: Form) -> tuple[bool, bool, str]:
        piece = render(term, pieces)
        body = re.sub(r"\d+", lambda digits: digits[0].zfill(9), piece.body.replace("'", "~"))
        return piece.negative, isinstance(term, Number), body

    return Sum(tuple(sorted(form.terms, key=key)))


def render(form: Form, pieces: Mapping[Node, Piece]) -> Piece:
    """Print a form whose leaves are printed."""
    match form:
        case Leaf():
            return pieces[form.node]
        case Number():
            return _number(form.value)
        case Symbol():
            return Piece(form.name)
        case Literal():
            return Piece(_literal(form.value))
        case Call():
            return _call(form, pieces)
        case Sum():
            terms = [render(term, pieces) for term in form.terms]
            unsigned = [term._replace(negative=False).at(Level.ELEMENTWISE) for term in terms]
            return Piece(signed_sum(unsigned, [term.negative for term in terms]), Level.SUM)
        case Transposed():
            return Piece(render(form.body, pieces).at(Level.ATOM) + "'", Level.POWER)
        case Chain():
            first, *others = (render(factor, pieces) for factor in form.factors)
            factors = [first.at(Level.PRODUCT), *(factor.at(Level.POWER) for factor in others)]
            return Piece("*".join(factors), Level.PRODUCT)
        case Elementwise():
            return _elementwise(form, pieces)
        case Scaled():
            return _scaled(form, pieces)
        case Indexed():
            return Piece(_indexed(form, pieces), Level.ARROW)
    assert_never(form)


def signed_sum(terms: Sequence[str], negative: Sequence[bool]) -> str:
    """Terms joined by their signs: `a - b`, `-a + b`."""
    joined = "".join((" - " if minus else " + ") + term for term, minus in zip(terms, negative, strict=True))
    return ("-" if negative[0] else "") + joined[3:]


def _number(value: float) -> Piece:
    body = number_text(abs(value))
    return Piece(body, Level.PRODUCT if "/" in body else Level.ATOM, value < 0)


def _literal(value: float | tuple[object, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"  # type: ignore[arg-type]
    return number_text(value)


def _call(form: Call, pieces: Mapping[Node, Piece]) -> Piece:
    arguments = [render(argument, pieces) for argument in form.arguments]
    dot = "" if form.scalar else "."
    match form.name:
        case "reciprocal":
            level = Level.PRODUCT if form.scalar else Level.ELEMENTWISE
            return Piece(f"1{dot}/{arguments[0].at(Level.POWER)}", level)
        case "power":
            return Piece(f"{arguments[0].at(Level.ATOM)}{dot}^{arguments[1].at(Level.ATOM)}", Level.POWER)
        case "square":
            return Piece(f"{arguments[0].at(Level.ATOM)}{dot}^2", Level.POWER)
        case "expm_chain" if form.params == (1,):
            return Piece(f"expm({arguments[0].text})")
    given = ", ".join([argument.text for argument in arguments] + [str(param) for param in form.params])
    return Piece(f"{SHORT_NAMES.get(form.name, form.name)}({given})")


def _power(form: Form, power: int, dot: str, pieces: Mapping[Node, Piece]) -> Piece:
    piece = render(form, pieces)
    return piece if power == 1 else Piece(f"{piece.at(Level.ATOM)}{dot}^{power}", Level.POWER)


def _elementwise(form: Elementwise, pieces: Mapping[Node, Piece]) -> Piece:
    dot = "" if form.scalar else "."
    own = Level.PRODUCT if form.scalar else Level.ELEMENTWISE
    factors = [_power(part, power, dot, pieces) for part, power in form.factors]
    divisors = [_power(part, power, dot, pieces).at(Level.POWER) for part, power in form.divisors]
    if len(factors) == 1 and not divisors:
        return factors[0]
    joined = ["1"] if not factors else [factor.at(Level.POWER) for factor in factors]
    if factors and factors[0].level == own and not factors[0].negative:
        joined[0] = factors[0].body
    return Piece(f"{dot}/".join([f"{dot}*".join(joined), *divisors]), own)


def _scaled(form: Scaled, pieces: Mapping[Node, Piece]) -> Piece:
    """`2*n*s*A*x/t`: numbers, sizes and scalars before the tensor, divisors after it."""
    scalars = form.scalars or Elementwise(())
    factors = [] if abs(form.value) == 1 else [number_text(abs(form.value))]
    factors += form.sizes
    factors += [_power(part, power, "", pieces).at(Level.POWER) for part, power in scalars.factors]
    level = Level.PRODUCT
    if form.body is not None:
        body = render(form.body, pieces)
        level = Level.ELEMENTWISE if body.level == Level.ELEMENTWISE else level
        factors.append(body.at(Level.ELEMENTWISE))
    divisors = [_power(part, power, "", pieces).at(Level.POWER) for part, power in scalars.divisors]
    return Piece("/".join(["*".join(factors) or "1", *divisors]), level, form.value < 0)


def _indexed(form: Indexed, pieces: Mapping[Node, Piece]) -> str:
    factors = [
        render(part, pieces).at(Level.ATOM) + (axes_text(axes) if axes else "") for part, axes in form.factors
    ]
    notes = [f", {letter(label)}<{size}" for label, size in form.notes]
    return " ".join([*factors, "->", axes_text(form.output)]) + "".join(notes)
