"""From text to syntax tree: the grammar through lark, and errors that say what was expected where."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from typing import Any

from lark import Token, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput

from hesse.errors import NotationError
from hesse.frontends.language.parser import parser
from hesse.frontends.language.source import DEEPEST_NESTING, LONGEST_TEXT, MOST_TERMS, Source, Span
from hesse.frontends.language.syntax import (
    Binary,
    Call,
    Contraction,
    Declaration,
    Definition,
    Document,
    Entries,
    Name,
    Negative,
    Number,
    SumOver,
    Term,
    Transpose,
    parts,
    postorder,
)
from hesse.frontends.language.types import KEYWORDS

CLOSING = {"COMMA": ",", "RPAR": ")", "RSQB": "]", "SEMICOLON": ";", "LSQB": "["}
LARGEST_SIZE = 10**9
FIRST_SIZE = {"eye": 0, "commutation": 0, "vector": 1, "matrix": 1, "tensor": 1, "reshape": 1}
"""Functions whose arguments from this one on are sizes."""
OPERATORS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "divide": "/",
    "dot_times": ".*",
    "dot_divide": "./",
    "power": "^",
    "dot_power": ".^",
}


KEPT_TREES = 32
"""Several questions are asked about the same text, one after the other."""


@functools.lru_cache(maxsize=KEPT_TREES)
def read(source: Source) -> Document:
    """The syntax tree of a text."""
    text = source.text
    if len(text) > LONGEST_TEXT:
        raise source.error(
            NotationError,
            f"a formula has at most {LONGEST_TEXT} characters, not {len(text)}; split it or shorten it",
            Span(LONGEST_TEXT, LONGEST_TEXT + 1),
        )
    try:
        tree = parser().parse(text)
    except UnexpectedInput as problem:
        raise _syntax_error(source, problem) from None
    document: Document = _Builder(source).document(tree)
    _check_size(source, document)
    return document


def _check_size(source: Source, document: Document) -> None:
    depths: dict[int, int] = {}
    terms = postorder([definition.term for definition in (document.result, *document.definitions)])
    if len(terms) > MOST_TERMS:
        raise source.error(
            NotationError,
            f"a formula has at most {MOST_TERMS} terms, not {len(terms)}; split it or shorten it",
            document.result.span,
        )
    for term in terms:
        # a chain a + b + c is no deeper than one operator, though its tree leans to the left
        levels = [depths[id(part)] + (not _is_chain(term, part)) for part in parts(term)]
        depths[id(term)] = max(levels, default=1)
        if depths[id(term)] > DEEPEST_NESTING:
            raise source.error(
                NotationError,
                f"terms are nested at most {DEEPEST_NESTING} deep; name parts of the formula "
                "in a where clause",
                term.span,
            )


def _is_chain(term: Term, part: Term) -> bool:
    return isinstance(term, Binary) and isinstance(part, Binary) and part is term.left


def _syntax_error(source: Source, problem: UnexpectedInput) -> NotationError:
    if isinstance(problem, UnexpectedCharacters):
        offset = problem.pos_in_stream or 0
        place = Span(offset, offset + 1)
        found = f"the character {source.text[place.start]!r}"
        return source.error(
            NotationError, f"{found} has no meaning here; {_wish(problem.allowed or set())}", place
        )
    expected = set(getattr(problem, "accepts", None) or getattr(problem, "expected", None) or ())
    token: Any = getattr(problem, "token", None)
    ended = isinstance(problem, UnexpectedEOF) or token is None or token.type == "$END"
    missing = _missing_operator(source, len(source.text) if ended else _place(token).start)
    if missing is not None:
        return missing
    if ended:
        end = len(source.text.rstrip())
        return source.error(
            NotationError, f"the formula ends too early: {_wish(expected)}", Span(end, end + 1)
        )
    place = _place(token)
    if token.type == "STRING":
        return source.error(NotationError, "a text in quotes can only be the first argument of einsum", place)
    return source.error(NotationError, f"{token.value!r} cannot stand here: {_wish(expected)}", place)


def _missing_operator(source: Source, offset: int) -> NotationError | None:
    """The error for two names with nothing between them, before or at an offset, outside declarations."""
    begins = [found.end() for found in re.finditer(r";|\bwhere\b", source.text) if found.end() <= offset]
    start = begins[-1] if begins else 0
    statement = source.text[start:].split(";")[0]
    if KEYWORDS.intersection(re.findall(r"\w+", statement)):
        return None
    found = re.search(r"\b([A-Za-z]\w*)\s+([A-Za-z]\w*)", statement)
    if found is None or start + found.start(2) > offset:
        return None
    first, second = found.groups()
    return source.error(
        NotationError,
        f"an operator is missing between {first} and {second}: a product is {first}*{second}, a function "
        f"{first}({second})",
        Span(start + found.start(), start + found.end()),
    )


def _wish(expected: set[str]) -> str:
    """What would have been right."""
    if "NUMBER" in expected and "LPAR" in expected:
        return "expected an operand (a number, a name, a function or a parenthesis)"
    if expected & {"PLUS", "STAR"}:
        closing = [symbol for name, symbol in CLOSING.items() if name in expected and symbol in "),"]
        return "expected an operator" + "".join(f" or {symbol!r}" for symbol in closing)
    if "NAME" in expected:
        return "expected a name"
    closing = [symbol for name, symbol in CLOSING.items() if name in expected]
    return f"expected {' or '.join(map(repr, closing))}" if closing else "remove it"


def _place(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


class _Builder:
    """Builds the syntax tree from lark's, bottom up and without recursion."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def document(self, tree: Tree[Token]) -> Document:
        built: dict[int, Any] = {}
        for subtree in tree.iter_subtrees():  # inner ones first
            children: list[Any] = [
                built[id(child)] if isinstance(child, Tree) else child for child in subtree.children
            ]
            rule, meta = str(subtree.data), subtree.meta
            span = Span(0, 0) if meta.empty else Span(meta.start_pos, meta.end_pos)
            if rule in OPERATORS:
                built[id(subtree)] = self._binary(span, OPERATORS[rule], *children)
            else:
                built[id(subtree)] = getattr(self, f"_{rule}")(span, *children)
        document: Document = built[id(tree)]
        return document

    def _start(self, span: Span, *parts: Any) -> Document:
        *declarations, (result, *definitions) = parts
        flat = tuple(one for several in declarations for one in several)
        return Document(flat, result, tuple(definitions))

    def _words(self, span: Span, *words: Any) -> list[Token]:
        return [*words[0], words[1]] if isinstance(words[0], list) else list(words)

    def _declaration(self, span: Span, words: list[Token], *declared: Declaration) -> list[Declaration]:
        place = Span(_place(words[0]).start, _place(words[-1]).end)
        return [replace(one, words=tuple(map(str, words)), words_span=place) for one in declared]

    def _declared(self, span: Span, name: Token, *sizes: int | str) -> Declaration:
        has_sizes = self._source.text[span.start : span.end].endswith(")")
        return Declaration(span, (), span, str(name), sizes if has_sizes else None)

    def _size(self, span: Span, token: Token) -> int | str:
        if token.type == "NAME":
            return str(token)
        if not token.isdigit() or not 1 <= int(token) <= LARGEST_SIZE:
            raise self._source.error(
                NotationError,
                f"a size is a name or a whole number from 1 to {LARGEST_SIZE}, not {token}",
                span,
            )
        return int(token)

    def _formula(self, span: Span, *definitions: Definition) -> list[Definition]:
        unnamed = [definition for definition in definitions[1:] if definition.name is None]
        if unnamed:
            raise self._source.error(
                NotationError, "a where clause consists of definitions, name = formula", unnamed[0].span
            )
        return list(definitions)

    def _definition(self, span: Span, *terms: Term) -> Definition:
        if len(terms) == 1:
            return Definition(span, None, None, terms[0])
        left, right = terms
        match left:
            case Name():
                return Definition(left.span, left.name, None, right)
            case Entries(operand=Name(name=name), labels=labels):
                if len(set(labels)) == len(labels):
                    return Definition(left.span, name, labels, right)
        raise self._source.error(
            NotationError, "the left side of = is a name, or a name with distinct labels: H[i,j]", left.span
        )

    def _binary(self, span: Span, operator: str, left: Term, right: Term) -> Term:
        if operator in ("^", ".^") and isinstance(left, Binary) and left.operator in ("^", ".^"):
            between = self._source.text[left.span.end : right.span.start]
            if ")" not in between:
                raise self._source.error(
                    NotationError, "powers of powers need parentheses: (a^b)^c or a^(b^c)", span
                )
        return Binary(span, operator, left, right)

    def _contraction(self, span: Span, left: Term, *rest: Any) -> Term:
        first, second, output, right = rest
        return Contraction(span, (first, second), output, (left, right))

    def _letters(self, span: Span, *names: Token) -> str:
        return str(names[0]) if names else ""

    def _labels(self, span: Span, *names: Token) -> tuple[str, ...]:
        return tuple(map(str, names))

    def _negative(self, span: Span, operand: Term) -> Term:
        return Negative(span, operand)

    def _positive(self, span: Span, operand: Term) -> Term:
        return operand

    def _transpose(self, span: Span, operand: Term) -> Term:
        return Transpose(span, operand)

    def _entries(self, span: Span, operand: Term, labels: tuple[str, ...]) -> Term:
        return Entries(span, operand, labels)

    def _name(self, span: Span, name: Token) -> Term:
        return Name(span, str(name))

    def _number(self, span: Span, token: Token) -> Term:
        value = float(token)
        if not math.isfinite(value):
            raise self._source.error(NotationError, "the number is too large for double precision", span)
        return Number(span, value)

    def _call(self, span: Span, name: Token, *arguments: Any) -> Term:
        if arguments and isinstance(arguments[0], Token):
            if name != "einsum":
                raise self._source.error(
                    NotationError,
                    f"{name} takes no text in quotes; only einsum does",
                    _place(arguments[0]),
                )
            return self._einsum(span, arguments[0], arguments[1:])
        first_size = FIRST_SIZE.get(str(name), len(arguments))
        sizes = tuple(self._given_size(argument) for argument in arguments[first_size:])
        return Call(span, str(name), arguments[:first_size], sizes)

    def _given_size(self, term: Term) -> int | str:
        match term:
            case Name():
                return term.name
            case Number() if term.value.is_integer() and 1 <= term.value <= LARGEST_SIZE:
                return int(term.value)
            case Binary(operator="*"):
                return f"{self._given_size(term.left)}*{self._given_size(term.right)}"
        raise self._source.error(
            NotationError,
            f"a size is a name, a whole number from 1 to {LARGEST_SIZE} or a product of such",
            term.span,
        )

    def _einsum(self, span: Span, notation: Token, operands: tuple[Term, ...]) -> Term:
        place = _place(notation)
        inputs, arrow, output = notation[1:-1].replace(" ", "").partition("->")
        terms = inputs.split(",")
        letters = "".join(terms) + output
        if not all(letter.isascii() and letter.isalpha() for letter in letters):
            raise self._source.error(NotationError, 'the notation of einsum is letters: "ij,jk->ik"', place)
        if len(terms) != len(operands):
            raise self._source.error(
                NotationError,
                f"einsum has {len(terms)} terms in its notation but {len(operands)} operands",
                place,
            )
        if not arrow:
            output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        return Contraction(span, tuple(terms), output, operands)

    def _sum_over(self, span: Span, keyword: Token, labels: tuple[str, ...], body: Term) -> Term:
        return SumOver(span, labels, body)
