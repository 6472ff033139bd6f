"""The functions of the language: every row of the element-wise table, and functions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import hesse.ops.elementwise as table
from hesse.frontends.language.context import Context
from hesse.frontends.language.operators import aligned, literal_integer, square
from hesse.frontends.language.syntax import Call
from hesse.frontends.language.values import Value
from hesse.ir import Node, multiply, total, transpose
from hesse.ops import linalg, normalization
from hesse.ops.registry import ELEMENTWISE

Rule = Callable[[Context, Call, list[Value]], Value]
RULES: dict[str, Rule] = {}
FEWEST_AND_MOST: dict[str, tuple[int, int]] = {}


def _function(*names: str, arguments: tuple[int, int] = (1, 1)) -> Callable[[Rule], Rule]:
    """Enter a rule into the table of functions of whole tensors."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
            FEWEST_AND_MOST[name] = arguments
        return rule

    return enter


def is_function(name: str) -> bool:
    """Whether the language has a function of this name."""
    return name in RULES or name in ELEMENTWISE or name in table.BUILDERS


def call(context: Context, term: Call, values: list[Value]) -> Value:
    """The value of a function call."""
    name = term.function
    if name in RULES:
        _check_count(context, term, *FEWEST_AND_MOST[name])
        for value in values:
            if value.is_indexed:
                context.misread(
                    f"{name} is a function of whole tensors, but {context.words(value)} is {value.kind}; "
                    f"write sum[i](...) for sums over indices",
                    value.span,
                )
        return RULES[name](context, term, values)
    if not is_function(name):
        context.misread(f"there is no function {name}; write * for a product", term.span)
    return _elementwise(context, term, values)


def _check_count(context: Context, term: Call, fewest: int, most: int) -> None:
    count = len(term.arguments)
    if not fewest <= count <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        noun = "argument" if wanted == "1" else "arguments"
        context.misread(f"{term.function} takes {wanted} {noun}, not {count}", term.span)


def _elementwise(context: Context, term: Call, values: list[Value]) -> Value:
    name = term.function
    arity = ELEMENTWISE[name].arity if name in ELEMENTWISE else 1
    _check_count(context, term, arity, arity)
    if arity > 1 and any(value.is_indexed for value in values):
        context.misread(
            f"{name} of several terms with indices has no notation; name the terms first", term.span
        )
    operands = aligned(context, name, values) if arity > 1 else values
    first = operands[0]
    return replace(first, span=term.span, combine=table.function(name), operands=tuple(operands), factors=())


def _scalar(term: Call, value: Value, combine: Callable[[Node], Node]) -> Value:
    """A scalar computed from one value."""
    return Value(term.span, (), combine, (value,))


def _axis(context: Context, term: Call, value: Value) -> int | None:
    """The axis in the second argument, counted from 0; None if there is none."""
    if len(term.arguments) == 1:
        return None
    axis = literal_integer(term.arguments[1])
    if axis is None or not 0 <= axis < value.rank:
        context.refuse(
            f"the second argument of {term.function} is an axis of {context.words(value)}: a number from 0 "
            f"to {value.rank - 1}, rows first"
            if value.rank
            else f"{context.words(value)} is a scalar: it has no axes",
            term.arguments[1].span,
        )
    return axis


@_function("sum", arguments=(1, 2))
def _sum(context: Context, term: Call, values: list[Value]) -> Value:
    value = values[0]
    axis = _axis(context, term, value)
    labels = [str(k) for k in range(value.rank)]
    kept = [label for k, label in enumerate(labels) if axis is not None and k != axis]
    return context.contract(term.span, [(value, labels)], kept)


@_function("tr", "trace")
def _trace(context: Context, term: Call, values: list[Value]) -> Value:
    _matrix(context, term, values[0])
    return context.contract(term.span, [(values[0], "ii")], "", f"{term.function} needs a square matrix")


@_function("norm1")
def _norm1(context: Context, term: Call, values: list[Value]) -> Value:
    return _scalar(term, values[0], lambda node: total(table.abs(node), range(node.rank)))


@_function("norm2")
def _norm2(context: Context, term: Call, values: list[Value]) -> Value:
    return _scalar(term, values[0], lambda node: table.sqrt(total(multiply(node, node), range(node.rank))))


def _matrix(context: Context, term: Call, value: Value) -> None:
    if value.rank != 2:
        context.refuse(
            f"{term.function} needs a matrix, but {context.words(value)} is {value.kind}", value.span
        )


def _of_square(make: Callable[[Node], Node], keeps_axes: bool, *names: str) -> None:
    @_function(*names)
    def rule(context: Context, term: Call, values: list[Value]) -> Value:
        (value,) = values
        _matrix(context, term, value)
        square(context, value, f"{term.function} needs a square matrix")
        return Value(term.span, value.cells if keeps_axes else (), make, (value,))


_of_square(linalg.inverse, True, "inv")
_of_square(linalg.expm, True, "expm")
_of_square(linalg.determinant, False, "det")
_of_square(linalg.log_determinant, False, "logdet")


def _filled(rank: int, name: str) -> None:
    @_function(name)
    def rule(context: Context, term: Call, values: list[Value]) -> Value:
        (value,) = values
        if value.rank:
            context.refuse(f"{name} repeats a scalar, but {context.words(value)} is {value.kind}", value.span)
        labels = "ij"[:rank]
        new = {label: context.sizes.fresh(term.span) for label in labels}
        return context.contract(term.span, [(value, ())], labels, new=new)


_filled(1, "vector")
_filled(2, "matrix")


@_function("diag")
def _diag(context: Context, term: Call, values: list[Value]) -> Value:
    (value,) = values
    if value.rank == 1:
        return context.contract(term.span, [(value, "i")], "ii")
    _matrix(context, term, value)
    return context.contract(term.span, [(value, "ii")], "i", "diag needs a square matrix")


def _along_last(make: Callable[[Node], Node], keeps_axis: bool, name: str) -> None:
    """A function along one axis, the last one unless the call names another."""

    @_function(name, arguments=(1, 2))
    def rule(context: Context, term: Call, values: list[Value]) -> Value:
        value = values[0]
        if not value.rank:
            context.refuse(
                f"{name} needs a vector or a matrix, but {context.words(value)} is a scalar", value.span
            )
        axis = _axis(context, term, value)
        last = value.rank - 1
        axis = last if axis is None else axis
        order = [*(k for k in range(value.rank) if k != axis), axis]
        back = [order.index(k) for k in range(value.rank)]

        def combine(node: Node, *ignored: Node) -> Node:
            result = make(transpose(node, order))
            return transpose(result, back) if keeps_axis else result

        cells = value.cells if keeps_axis else tuple(value.cells[k] for k in order[:-1])
        return Value(term.span, cells, combine, (value,), is_row=value.is_row and keeps_axis)


_along_last(normalization.softmax, True, "softmax")
_along_last(normalization.log_softmax, True, "log_softmax")
_along_last(normalization.logsumexp, False, "logsumexp")
