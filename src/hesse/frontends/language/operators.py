"""The operators `+ - * / ^ .* ./ .^ '` on scalars, columns, rows, matrices and terms in index notation."""

from __future__ import annotations

import operator
from dataclasses import replace

import hesse.ops.elementwise as table
from hesse.frontends.language import indices
from hesse.frontends.language.context import Context
from hesse.frontends.language.source import Span
from hesse.frontends.language.syntax import Binary, Negative, Number, Term
from hesse.frontends.language.values import Value
from hesse.ir import Node, reciprocal
from hesse.ops import linalg

LARGEST_MATRIX_POWER = 100


def binary(context: Context, term: Binary, left: Value, right: Value) -> Value:
    """The value of `left operator right`."""
    if left.is_indexed or right.is_indexed:
        return indices.binary(context, term, left, right)
    match term.operator:
        case "+" | "-" | ".*" | "./" | ".^":
            return _entry_by_entry(context, term, left, right)
        case "*":
            return _product(context, term.span, left, right)
        case "/":
            if right.rank:
                context.refuse(
                    f"division is by a scalar, but {context.words(right)} is {right.kind}; "
                    "write ./ for entries, inv(X) for matrices",
                    right.span,
                )
            return scaled(context, term.span, left, _reciprocal(context, right))
        case _:
            return _power(context, term, left, right)


def negative(context: Context, span: Span, value: Value) -> Value:
    """`-value`."""
    if value.is_indexed:
        return indices.product(context, span, value, context.constant(-1.0, span))
    return replace(value, span=span, combine=lambda node: -node, operands=(value,))


def transpose(context: Context, span: Span, value: Value) -> Value:
    """`value'`: rows and columns exchanged."""
    if value.is_indexed:
        context.misread(
            f"{context.words(value)} is {value.kind}: an entry, which has no transpose; exchange the indices",
            span,
        )
    if value.rank > 2:
        context.refuse(
            f"{context.words(value)} is {value.kind}; only vectors and matrices have a transpose", span
        )
    if value.rank == 2:
        return context.contract(span, [(value, "ij")], "ji")
    return replace(
        value, span=span, combine=_same, operands=(value,), is_row=value.rank == 1 and not value.is_row
    )


def scaled(context: Context, span: Span, value: Value, scalar: Value) -> Value:
    """A scalar times a value of any kind."""
    labels = [str(k) for k in range(value.rank)]
    product = context.contract(span, [(scalar, ()), (value, labels)], labels)
    return replace(product, is_row=value.is_row)


def aligned(context: Context, name: str, values: list[Value]) -> list[Value]:
    """Values of one shape: scalars are repeated into the shape of the others."""
    if any(value.is_indexed for value in values):
        return indices.together(context, values)
    like = next((value for value in values if value.rank), values[0])
    for value in values:
        if not value.rank:
            continue
        if value.rank != like.rank or value.is_row != like.is_row:
            context.refuse(
                f"{name} needs operands of one shape, but {context.words(like)} is {like.kind} "
                f"and {context.words(value)} is {value.kind}",
                like.span,
                value.span,
            )
        for first, second in zip(like.cells, value.cells, strict=True):
            context.equate(first, second, (like, value), f"{name} needs operands of one shape")
    return [value if value.rank or not like.rank else context.spread(value, like) for value in values]


def _entry_by_entry(context: Context, term: Binary, left: Value, right: Value) -> Value:
    if not left.rank and term.operator == ".*":
        return scaled(context, term.span, right, left)
    if not right.rank and term.operator in (".*", "./"):
        return scaled(
            context, term.span, left, right if term.operator == ".*" else _reciprocal(context, right)
        )
    if term.operator == "./":
        right = context.divisor(right)
    first, second = aligned(context, term.operator, [left, right])
    combine = {
        "+": operator.add,
        "-": operator.sub,
        ".*": operator.mul,
        "./": operator.truediv,
        ".^": table.power,
    }[term.operator]
    return replace(first, span=term.span, combine=combine, operands=(first, second))


def _product(context: Context, span: Span, left: Value, right: Value) -> Value:
    if not left.rank or not right.rank:
        value, scalar = (left, right) if left.rank else (right, left)
        return scaled(context, span, value, scalar)
    forms = {
        (False, 2, False, 2): ("ij", "jk", "ik"),
        (False, 2, False, 1): ("ij", "j", "i"),
        (True, 1, False, 2): ("i", "ij", "j"),
        (True, 1, False, 1): ("i", "i", ""),
        (False, 1, True, 1): ("i", "j", "ij"),
    }
    form = forms.get((left.is_row, left.rank, right.is_row, right.rank))
    if form is None:
        context.refuse(
            f"{context.words(left)} is {left.kind} and {context.words(right)} is {right.kind}: they have no "
            f"product; {_product_hint(left, right)}",
            left.span,
            right.span,
        )
    reason = "a product needs as many columns on its left as rows on its right"
    product = context.contract(span, [(left, form[0]), (right, form[1])], form[2], reason)
    return replace(product, is_row=left.is_row and right.rank == 2)


def _product_hint(left: Value, right: Value) -> str:
    if max(left.rank, right.rank) > 2:
        return "write products of tensors with indices, such as T *[ijk,k,ij] x"
    if left.rank == right.rank == 1:
        return "write x.*y for entries, x'*y for the inner and x*y' for the outer product"
    return "is a transpose missing?"


def _power(context: Context, term: Binary, left: Value, right: Value) -> Value:
    if right.rank:
        context.refuse(
            f"the exponent {context.words(right)} is {right.kind}; ^ needs a scalar, .^ works entry by entry",
            right.span,
        )
    if not left.rank:
        return Value(term.span, (), table.power, (left, right))
    exponent = literal_integer(term.right)
    if left.rank != 2 or exponent is None or abs(exponent) > LARGEST_MATRIX_POWER:
        context.refuse(
            f"{context.words(left)} is {left.kind}; ^ takes a scalar to any power and a square matrix to an "
            f"integer of at most {LARGEST_MATRIX_POWER}; write .^ for powers of the entries",
            left.span,
            right.span,
        )
    square(context, left, f"{context.source.words(term.span)} needs a square matrix")
    return Value(term.span, left.cells, lambda node: linalg.matrix_power(node, exponent), (left,))


def square(context: Context, value: Value, reason: str) -> None:
    """Make the two sizes of a matrix equal."""
    context.equate(value.cells[0], value.cells[1], (value, value), reason)


def literal_integer(term: Term) -> int | None:
    """The integer that a term is, written out, with signs."""
    sign = 1
    while isinstance(term, Negative):
        sign, term = -sign, term.operand
    if isinstance(term, Number) and term.value == int(term.value):
        return sign * int(term.value)
    return None


def _reciprocal(context: Context, value: Value) -> Value:
    return replace(value, combine=reciprocal, operands=(context.divisor(value),))


def _same(node: Node) -> Node:
    return node
