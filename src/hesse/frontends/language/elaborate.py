"""From syntax tree to node: types, sizes and meaning of every term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hesse.errors import ArgumentError
from hesse.frontends.language import functions, indices, operators
from hesse.frontends.language.context import Context
from hesse.frontends.language.reader import read
from hesse.frontends.language.sizes import Cell, size_of
from hesse.frontends.language.source import Source, Span
from hesse.frontends.language.syntax import (
    Binary,
    Call,
    Contraction,
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
from hesse.frontends.language.types import KEYWORDS, Type, declared_type, default_rank, type_from_text
from hesse.frontends.language.values import Value, build
from hesse.ir import Node, Variable, size_names, variable
from hesse.ir.attributes import STRUCTURES

UNITS = ("eye", "delta")


class Reading(NamedTuple):
    """What a text means.

    `plain` is the node with variables that have no structure (symmetric, diagonal, …), in which `X'` and `X`
    are two things: the derivative by a matrix with a structure starts from it. A variable that the text names
    may be missing in the node: `x - x` is zero.
    """

    node: Node
    plain: Node
    variables: tuple[Variable, ...]


def elaborate(text: str, types: Mapping[str, str]) -> Reading:
    """What a formula means; `types` are types of variables by name, in words."""
    for what, value in [("a formula", text), *((f"the type of {name}", t) for name, t in types.items())]:
        if not isinstance(value, str):
            raise ArgumentError(f"{what} is a text, not {value!r}")
    source = Source(text)
    given = {name: type_from_text(name, words) for name, words in types.items()}
    return _Elaborator(source, read(source), given).reading()


class _Elaborator:
    def __init__(self, source: Source, document: Document, types: Mapping[str, Type]) -> None:
        self._context = Context(source)
        self._document = document
        self._definitions = self._defined_names()
        self._hidden: frozenset[str] = frozenset()
        self._given = types
        self._types = self._declared_types(types)
        self._values: dict[int, Value] = {}
        self._named: dict[str, Value] = {}
        self._variables: dict[str, Value] = {}

    def reading(self) -> Reading:
        """The result, and the variables by name."""
        self._find_variables()
        for definition in self._in_order():
            for term in postorder([definition.term]):
                self._values[id(term)] = self._value(term)
            value = self._values[id(definition.term)]
            if value.is_indexed or definition.labels is not None:
                value = indices.ordered(self._context, definition.span, value, definition.labels)
            self._named[definition.name or ""] = value
            result = value
        self._check_types_are_used()
        self._context.settle()
        self._context.sizes.give_names({*self._variables, *self._definitions})
        found = [build(value) for _, value in sorted(self._variables.items())]
        variables = tuple(node for node in found if isinstance(node, Variable))
        node = build(result)
        if not any(variable.attributes & STRUCTURES for variable in variables):
            return Reading(node, node, variables)
        self._hidden = STRUCTURES
        return Reading(node, build(result), variables)

    def _defined_names(self) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        for definition in self._document.definitions:
            name = definition.name
            assert name is not None
            self._check_name(name, definition.span)
            if name in found:
                self._context.misread(f"{name} is defined twice", found[name].span, definition.span)
            found[name] = definition
        return found

    def _declared_types(self, given: Mapping[str, Type]) -> dict[str, Type]:
        context, types = self._context, dict(given)
        places: dict[str, Span] = {}
        for declaration in self._document.declarations:
            name, span = declaration.name, declaration.span
            self._check_name(name, span)
            if name in places:
                context.misread(f"{name} is declared twice", places[name], span)
            if name in given:
                context.misread(f"{name} is declared in the text and by keyword; keep one of them", span)
            places[name] = span
            types[name] = declared_type(
                context.source, (span, declaration.words_span), declaration.words, name, declaration.sizes
            )
        for name in types:
            if name in self._definitions:
                context.misread(
                    f"{name} has a type and a definition; keep one of them", self._definitions[name].span
                )
        self._places = places
        return types

    def _check_name(self, name: str, span: Span) -> None:
        if functions.is_function(name) or name in UNITS or name in KEYWORDS:
            self._context.misread(
                f"{name} is a word of the language and cannot name a variable; choose another name", span
            )

    def _find_variables(self) -> None:
        """Give every variable its axes, in the order of the text: sizes are named in that order."""
        terms = postorder([d.term for d in (self._document.result, *self._document.definitions)])
        indexed = _index_counts(terms)
        names = sorted((term for term in terms if isinstance(term, Name)), key=lambda term: term.span)
        ranks: dict[str, int] = {}
        for term in names:
            if id(term) in indexed:
                ranks.setdefault(term.name, indexed[id(term)])
        given = [type_.sizes or () for type_ in self._types.values()]
        given += [term.sizes for term in terms if isinstance(term, Call)]
        sizes = {name for several in given for size in several for name in size_names(size)}
        for term in names:
            name = term.name
            if name in self._variables or name in self._definitions or name in UNITS:
                continue
            if name in sizes and name not in self._types:
                continue
            self._check_name(name, term.span)
            if name in sizes:
                self._context.misread(f"{name} is the name of a size and cannot be a variable", term.span)
            type_ = self._types.get(name) or Type(ranks.get(name, default_rank(name)))
            self._variables[name] = self._variable(name, type_, self._places.get(name, term.span))

    def _check_types_are_used(self) -> None:
        unused = [name for name in self._given if name not in self._variables]
        if unused:
            known = ", ".join(sorted(self._variables)) or "none"
            raise ArgumentError(f"there is no variable {unused[0]} in the formula; it has {known}")

    def _variable(self, name: str, type_: Type, span: Span) -> Value:
        context = self._context
        given = type_.sizes or (None,) * (type_.rank or 0)
        cells = tuple(
            context.sizes.fresh(span) if size is None else context.sizes.fixed(size, span) for size in given
        )
        value = Value(
            span,
            cells,
            lambda: variable(name, [size_of(cell) for cell in cells], type_.attributes - self._hidden),
        )
        if type_.attributes - {"positive"}:
            operators.square(context, value, f"{name} is {', '.join(sorted(type_.attributes))}")
        return value

    def _in_order(self) -> list[Definition]:
        """Definitions before those that use them, the result last."""
        order: list[Definition] = []
        done: set[str] = set()
        for root in (*self._document.definitions, self._document.result):
            stack: list[tuple[Definition, bool]] = [(root, False)]
            open_: list[str] = []
            while stack:
                definition, left = stack.pop()
                name = "" if definition is self._document.result else definition.name or ""
                if left:
                    open_.remove(name)
                    done.add(name)
                    order.append(definition)
                    continue
                if name in done:
                    continue
                if name in open_:
                    self._context.misread(f"{name} is defined by itself", definition.span)
                open_.append(name)
                stack.append((definition, True))
                used = [t.name for t in postorder([definition.term]) if isinstance(t, Name)]
                stack += [
                    (self._definitions[n], False) for n in dict.fromkeys(used) if n in self._definitions
                ]
        return order

    def _value(self, term: Term) -> Value:
        context = self._context
        inner = [self._values[id(part)] for part in parts(term)]
        match term:
            case Number():
                return context.constant(term.value, term.span)
            case Name():
                return self._lookup(term)
            case Call(function="log", arguments=(Call(function="det", arguments=(argument,)),)):
                return functions.call(
                    context, Call(term.span, "logdet", (argument,)), [self._values[id(argument)]]
                )
            case Call():
                return functions.call(context, term, inner)
            case Negative():
                return operators.negative(context, term.span, inner[0])
            case Transpose():
                return operators.transpose(context, term.span, inner[0])
            case Binary():
                return operators.binary(context, term, inner[0], inner[1])
            case Entries():
                return indices.entries(context, term, inner[0])
            case SumOver():
                return indices.sum_over(context, term, inner[0])
            case Contraction():
                return indices.contraction(context, term, inner)

    def _lookup(self, term: Name) -> Value:
        name, context = term.name, self._context
        if name in UNITS:
            return indices.unit_matrix(context, term.span)
        found = self._named.get(name) or self._variables.get(name)
        if found is None:  # the name of a size is its number of entries
            cell: Cell = context.sizes.fixed(name, term.span)
            return context.contract(term.span, [], (), new={"i": cell})
        return Value(term.span, found.cells, _same, (found,), is_row=found.is_row)


def _same(node: Node) -> Node:
    return node


def _index_counts(terms: list[Term]) -> dict[int, int]:
    """How many indices a name has where it stands with indices: `T[i,j,k]`, `T *[ijk,k,ij] x`."""
    counts: dict[int, int] = {}
    for term in terms:
        if isinstance(term, Entries):
            counts[id(term.operand)] = len(term.labels)
        elif isinstance(term, Contraction):
            counts |= {
                id(part): len(letters) for part, letters in zip(term.operands, term.inputs, strict=True)
            }
    return counts
