"""Index notation: entries `T[i,j]`, sums `sum[i](...)`, and operators between terms that have indices.

Nothing is summed unless `sum[...]` says so. A product keeps its factors until it is summed, so that
`sum[i,j](A[i,j]*x[i]*x[j])` is one einsum.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import hesse.ops.elementwise as table
from hesse.frontends.language.context import Context
from hesse.frontends.language.sizes import Cell
from hesse.frontends.language.source import Span
from hesse.frontends.language.syntax import Binary, Contraction, Entries, SumOver
from hesse.frontends.language.types import MOST_AXES
from hesse.frontends.language.values import Value
from hesse.ir import Node, reciprocal

MOST_INDICES = 50
"""Einsums with letters for indices have no more."""


def entries(context: Context, term: Entries, value: Value) -> Value:
    """`value[i,j]`."""
    if value.is_indexed:
        context.misread(f"{context.words(value)} already has indices", term.span)
    if value.rank != len(term.labels):
        context.refuse(
            f"{context.words(value)} is {value.kind} and has {value.rank} indices, not {len(term.labels)}",
            term.span,
        )
    labels = tuple(dict.fromkeys(term.labels))
    factor = context.contract(term.span, [(value, term.labels)], labels, "they have the same index")
    return replace(factor, labels=labels)


def unit_matrix(context: Context, span: Span) -> Value:
    """The unit matrix, of a size still open."""
    return context.contract(span, [], "ii", new={"i": context.sizes.fresh(span)})


def sum_over(context: Context, term: SumOver, body: Value) -> Value:
    """`sum[i,j](body)`."""
    missing = [label for label in term.labels if label not in body.labels]
    if missing or len(set(term.labels)) < len(term.labels):
        problem = (
            f"{missing[0]} is no index of {context.words(body)}" if missing else "an index is named twice"
        )
        context.misread(f"cannot sum over {', '.join(term.labels)}: {problem}", term.span)
    kept = tuple(label for label in body.labels if label not in term.labels)
    return _multiplied(context, term.span, body.factors or (body,), kept)


def contraction(context: Context, term: Contraction, operands: Sequence[Value]) -> Value:
    """`A *[ij,jk,ik] B` and `einsum`: tensors by their letters."""
    for value, letters in zip(operands, term.inputs, strict=True):
        if value.is_indexed or value.rank != len(letters):
            context.refuse(
                f"{context.words(value)} is {value.kind}, but its axes are named {letters or 'by no letter'}",
                value.span,
            )
    unknown = [letter for letter in term.output if letter not in "".join(term.inputs)]
    if unknown:
        context.misread(f"the result has the index {unknown[0]}, which no operand has", term.span)
    return context.contract(
        term.span,
        list(zip(operands, term.inputs, strict=True)),
        term.output,
        "their axes have the same letter",
    )


def ordered(context: Context, span: Span, value: Value, labels: Sequence[str] | None) -> Value:
    """The tensor with these indices as axes, in this order (in alphabetical order if none is given).

    The term is repeated along an index that only the left side has.
    """
    if value.rank and not value.is_indexed:
        context.misread(
            f"the left side has indices, but {context.words(value)} is {value.kind} without any; "
            "give both sides indices or none",
            span,
            value.span,
        )
    if labels is None:
        labels = sorted(value.labels)
    elif not set(labels).issuperset(value.labels):
        context.misread(
            f"the left side has the indices {', '.join(labels)}, the right side has "
            f"{', '.join(sorted(value.labels))}; the left side must have them all",
            span,
            value.span,
        )
    if len(labels) > MOST_AXES:
        context.misread(f"a tensor has at most {MOST_AXES} axes, not {len(labels)}", span)
    factors = [(factor, factor.labels) for factor in value.factors or (value,)]
    new = {label: context.sizes.fresh(span) for label in labels if label not in value.labels}
    return context.contract(value.span, factors, tuple(labels), "they have the same index", new=new)


def binary(context: Context, term: Binary, left: Value, right: Value) -> Value:
    """An operator between terms of which at least one has indices."""
    _refuse_mixture(context, left, right)
    symbol = term.operator.removeprefix(".")
    if symbol == "*":
        return product(context, term.span, left, right)
    if symbol == "/":
        return product(context, term.span, left, replace_by(context.divisor(right), reciprocal))
    combine = {"+": operator.add, "-": operator.sub, "^": table.power}[symbol]
    operands = together(context, [left, right])
    return replace(operands[0], span=term.span, combine=combine, operands=tuple(operands))


def together(context: Context, values: Sequence[Value]) -> list[Value]:
    """Terms repeated along each other's indices, so that all have the same ones."""
    _refuse_mixture(context, *values)
    cells: dict[str, Cell] = {}
    owners: dict[str, Value] = {}
    for value in values:
        for label, cell in zip(value.labels, value.cells, strict=True):
            context.equate(
                cells.setdefault(label, cell),
                cell,
                (owners.setdefault(label, value), value),
                f"they have the same index {label}",
            )
    labels = _checked(context, values, cells)
    return [
        replace(
            context.contract(value.span, [(value, value.labels)], labels, new=cells),
            labels=labels,
        )
        for value in values
    ]


def product(context: Context, span: Span, left: Value, right: Value) -> Value:
    """The product of two terms, its factors kept."""
    _refuse_mixture(context, left, right)
    factors = (left.factors or (left,)) + (right.factors or (right,))
    labels = _checked(context, (left, right), left.labels + right.labels)
    return replace(_multiplied(context, span, factors, labels), factors=factors)


def replace_by(value: Value, function: Callable[[Node], Node]) -> Value:
    """An element-wise function of a term."""
    return replace(value, combine=function, operands=(value,), factors=())


def _multiplied(context: Context, span: Span, factors: Sequence[Value], labels: tuple[str, ...]) -> Value:
    operands = [(factor, factor.labels) for factor in factors]
    return replace(context.contract(span, operands, labels, "they have the same index"), labels=labels)


def _checked(context: Context, values: Sequence[Value], labels: Iterable[str]) -> tuple[str, ...]:
    """Distinct labels, of which a term has room for."""
    distinct = tuple(dict.fromkeys(labels))
    if len(distinct) > MOST_INDICES:
        context.misread(
            f"a term has at most {MOST_INDICES} indices, not {len(distinct)}",
            *(value.span for value in values),
        )
    return distinct


def _refuse_mixture(context: Context, *values: Value) -> None:
    for value in values:
        if not value.is_indexed and value.rank:
            indexed = next(other for other in values if other.is_indexed)
            context.misread(
                f"{context.words(indexed)} has indices and {context.words(value)} is {value.kind}: index and "
                f"matrix notation cannot be mixed in one term; give {context.words(value)} indices",
                indexed.span,
                value.span,
            )
