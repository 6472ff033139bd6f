"""What the writers of all languages share: names, pieces of text, and which terms get lines of their own."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from hesse.errors import ArgumentError
from hesse.export.terms import (
    Argument,
    Count,
    Expand,
    Function,
    Identity,
    Literal,
    Number,
    Permute,
    Place,
    Product,
    Sum,
    Term,
    topological,
)
from hesse.ir import Axis, Node, Shape, Size, Variable, size_names
from hesse.ir import topological as nodes_below

LONGEST_INLINE = 60
"""Terms whose text is longer than this get a line of their own."""
LONGEST_LINE = 90
"""Operands of terms whose text is longer than this get names …"""
WORTH_A_NAME = 20
"""… if their text is at least this long."""
LINE_LENGTH = 100
"""Comments are wrapped at this many characters."""


SIGNS: Mapping[str, str] = {
    **{"greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "=="},
    **{"not_equal": "!=", "logical_and": "&", "logical_or": "|", "logical_not": "~"},
}
"""Comparison and logic in most languages."""

NOTATION: Mapping[str, str] = dict.fromkeys((*SIGNS, "power", "reciprocal", "stop_gradient", "where"), "")
"""Rows that have a notation of their own in every language; they have no template."""


class Level(IntEnum):
    """How tightly a piece of text holds together."""

    SUM = 1
    PRODUCT = 2
    NEGATION = 3
    POWER = 4
    ATOM = 5


@dataclass(frozen=True)
class Piece:
    """The text of a term; `negative` says that it is a minus sign and a product."""

    text: str
    level: Level = Level.ATOM
    negative: bool = False

    def at(self, level: Level) -> str:
        """The text, in parentheses where it holds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True)
class Signature:
    """The arguments of an exported function: its variables by name, then sizes that no variable has."""

    name: str
    variables: tuple[Variable, ...]
    sizes: tuple[str, ...]
    shape: Shape


def signature(node: Node, name: str) -> Signature:
    """The arguments that a node needs."""
    order = nodes_below([node])
    variables = sorted((n for n in order if isinstance(n, Variable)), key=lambda variable: variable.name)
    for first, second in itertools.pairwise(variables):
        if first.name == second.name:
            raise ArgumentError(
                f"two variables are called {first.name}, of shapes {first.shape} and {second.shape}; "
                "give one of them another name"
            )
    given = {size for variable in variables for size in variable.shape}
    needed = {name for n in order for size in n.shape for name in size_names(size)}
    return Signature(name, tuple(variables), tuple(sorted(needed - given)), node.shape)


class Names:
    """Identifiers: those of arguments and sizes are kept where they can be, others are made up."""

    def __init__(self, given: Signature, reserved: Collection[str]) -> None:
        self._taken = set(reserved)
        self.function = self.fresh(given.name)
        self.arguments = {variable.name: self.fresh(variable.name) for variable in given.variables}
        sizes = {name for variable in given.variables for size in variable.shape for name in size_names(size)}
        self.sizes = {size: self.fresh(size) for size in sorted(sizes.union(given.sizes))}

    def size(self, size: Size) -> str:
        """The text of a size."""
        return " * ".join(self.sizes.get(part, part) for part in str(size).split("*"))

    def fresh(self, wanted: str) -> str:
        """An identifier that is not taken, as close to the wanted name as can be."""
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII).lstrip("_") or "value"
        name = f"v{name}" if name[0].isdigit() else name
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def numbered(self, letter: str) -> str:
        """A new name: the letter and the first free number."""
        number = next(k for k in range(1, len(self._taken) + 2) if f"{letter}{k}" not in self._taken)
        return self.fresh(f"{letter}{number}")

    def indices(self, count: int) -> list[str]:
        """Names for loop indices; they are free again after the loop."""
        letters = [c for c in "ijklmnpqrstuvwabcdefgh" if c not in self._taken]
        letters += [f"i{k}" for k in range(1, count + 1)]
        return letters[:count]


class Writer:
    """Writes a term as lines of code; languages derive from it."""

    reserved: Collection[str] = ()
    indent = "    "
    signs: Mapping[str, str] = SIGNS
    """Comparison and logic."""

    def __init__(self, root: Term, given: Signature) -> None:
        self.root, self.given = root, given
        self.names = Names(given, self.reserved)
        self.pieces: dict[Term, Piece] = {}
        self.lines: list[str] = []
        self.used_sizes: set[str] = set()
        self.helpers: dict[str, None] = {}
        self.named: dict[Term, str] = {}
        self.order = topological(root)
        self.uses = _uses(self.order)
        self.lone = {part for term in self.order if isinstance(term, Place) for part in term.operands}

    def run(self) -> Piece:
        """Write the lines before the last; the answer is the text of the result."""
        for term in self.order:
            self.pieces[term] = self.render(term)
            if term in self.named:
                continue
            self._shorten(term)
            shared = self.uses[term] > 1 and not is_transparent(term)
            if term is not self.root and (shared or self.is_long(term)):
                self.name(term)
        return self.pieces[self.root]

    def _shorten(self, term: Term) -> None:
        """Give names to operands until the text of a term fits on a line."""
        if len(self.pieces[term].text) <= LONGEST_LINE:
            return
        inline = [operand.operand if isinstance(operand, Expand) else operand for operand in term.operands]
        for operand in sorted(dict.fromkeys(inline), key=lambda part: -len(self.pieces[part].text)):
            if len(self.pieces[term].text) <= LONGEST_LINE or len(self.pieces[operand].text) < WORTH_A_NAME:
                return
            if operand not in self.named and not is_transparent(operand):
                self.name(operand)
                for outer in term.operands:
                    if isinstance(outer, Expand):
                        self.pieces[outer] = self.render(outer)
                self.pieces[term] = self.render(term)

    def is_long(self, term: Term) -> bool:
        """Whether the text of a term is too long to be part of a line; what is placed has a line anyway."""
        return len(self.pieces[term].text) > LONGEST_INLINE and term not in self.lone

    def name(self, term: Term) -> str:
        """The name of a term; it gets one, and a line, if it has none."""
        if term in self.named:
            return self.named[term]
        if isinstance(term, Argument):
            return self.names.arguments[term.name]
        name = self.names.numbered("c" if isinstance(term, Literal) else "t")
        self.assign(name, term)
        self.named[term] = name
        self.pieces[term] = self.named_piece(name, term)
        return name

    def target(self, term: Term) -> str:
        """A name for a term that is made by several statements."""
        return self.names.fresh("result") if term is self.root else self.names.numbered("t")

    def named_piece(self, name: str, term: Term) -> Piece:
        """The text of a term that has a name."""
        return Piece(name)

    def assign(self, name: str, term: Term) -> None:
        """Write the line that computes a term."""
        raise NotImplementedError

    def render(self, term: Term) -> Piece:
        """The text of a term whose operands have been rendered."""
        raise NotImplementedError

    def text(self, term: Term, level: Level = Level.SUM) -> str:
        """The text of an operand."""
        return self.pieces[term].at(level)

    def size(self, size: Size) -> str:
        """The text of a size, which may be a product of names."""
        self.used_sizes.update(size_names(size))
        return self.names.size(size)

    def count(self, size: str) -> Piece:
        """A size as a number."""
        text = self.size(size)
        return Piece(text, Level.PRODUCT if "*" in text else Level.ATOM)

    def number(self, value: float) -> str:
        """The text of a number."""
        if not math.isfinite(value):
            return self.infinite(value)
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)

    def infinite(self, value: float) -> str:
        """The text of an infinite number or of nan."""
        raise NotImplementedError

    def condition(self, term: Term, read: Callable[[Term], str] | None = None) -> str:
        """A term that is 0 or 1 as a condition; `read` gives the text of an operand."""
        if not isinstance(term, Function) or term in self.named or term.name not in self.signs:
            return f"{(read or self.operand)(term)} {self.dotted(term)}{self.signs['not_equal']} 0"
        sign = self.dotted(term) + self.signs[term.name]
        if term.name == "logical_not":
            return f"{sign}({self.condition(term.arguments[0], read)})"
        left, right = term.arguments
        if term.name in ("logical_and", "logical_or"):
            return f"({self.condition(left, read)}) {sign} ({self.condition(right, read)})"
        text = read or self.text
        return f"{text(left)} {sign} {text(right)}"

    def dotted(self, term: Term) -> str:
        """What marks an operator as element-wise."""
        return ""

    def operand(self, term: Term) -> str:
        """An operand of a function."""
        return self.text(term)

    def unturned(self, term: Term, turn: tuple[int, ...]) -> tuple[Term, tuple[int, ...]]:
        """What to permute, and how, so that the axes of a term are in another order."""
        if isinstance(term, Permute) and term not in self.named:
            return term.operand, tuple(term.order[k] for k in turn)
        return term, turn

    def affine(self, axis: Axis, indices: list[str], first: int) -> str:
        """A position as a formula of loop indices; both count from `first`."""
        parts = [
            (
                "+" if stride > 0 else "-",
                indices[label] if abs(stride) == 1 else f"{abs(stride)}*{indices[label]}",
            )
            for label, stride in axis.terms
        ]
        offset = axis.offset + first - first * sum(stride for _, stride in axis.terms)
        if offset or not parts:
            parts.append(("+" if offset >= 0 else "-", str(abs(offset))))
        parts.sort(key=lambda part: part[0] == "-")
        text = " ".join(f"{sign} {part}" for sign, part in parts)
        return (
            text.removeprefix("+ ").replace("- ", "-", 1)
            if text.startswith("- ")
            else text.removeprefix("+ ")
        )

    def summed(self, terms: Iterable[Term], plus: str = "+", minus: str = "-") -> Piece:
        """A sum of terms."""
        return self.joined([self.pieces[term] for term in terms], plus, minus)

    def joined(self, pieces: list[Piece], plus: str = "+", minus: str = "-") -> Piece:
        """A sum, beginning with a positive term."""
        text = ""
        for piece in sorted(pieces, key=lambda piece: piece.negative):
            if not text:
                text = piece.text
            elif piece.negative:
                text += f" {minus} {piece.text.removeprefix('-')}"
            else:
                text += f" {plus} {piece.at(Level.PRODUCT)}"
        return Piece(text, Level.SUM)

    def signed(self, factor: float, text: str, level: Level = Level.PRODUCT) -> Piece:
        """A product with the sign of its factor."""
        return Piece(f"-{text}", Level.SUM, negative=True) if factor < 0 else Piece(text, level)

    def literal_number(self, value: float) -> Piece:
        """The piece of a number."""
        return self.signed(value, self.number(abs(value)), Level.ATOM)


TRANSPARENT = (Argument, Number, Count, Expand, Permute, Identity)


def is_transparent(term: Term) -> bool:
    """Whether a term is cheap enough to be written more than once."""
    return isinstance(term, TRANSPARENT)


def is_plain_number(term: Term) -> bool:
    """Whether a term is made of numbers and sizes alone, so that it is no array in any language."""
    below = topological(term) if isinstance(term, Number | Count | Product | Sum) else [term]
    return term.rank == 0 and all(isinstance(part, Number | Count | Product | Sum) for part in below)


def _uses(order: list[Term]) -> dict[Term, int]:
    """How often each term is written, if shared ones get names."""
    uses = dict.fromkeys(order, 0)
    uses[order[-1]] = 1
    for term in reversed(order):
        times = uses[term] if is_transparent(term) else 1
        for operand in term.operands:
            uses[operand] += times
    return uses


def as_divisor(factor: float) -> int | None:
    """The whole number whose reciprocal the factor is, where that is shorter to write."""
    if factor == 0 or not math.isfinite(factor) or len(repr(abs(factor))) < 6:
        return None
    whole = round(1 / factor)
    return abs(whole) if whole and 1 / whole == factor else None
