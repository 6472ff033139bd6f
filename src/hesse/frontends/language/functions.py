"""The functions of the language: every row of the element-wise table, and functions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import hesse.ops.elementwise as table
from hesse.frontends.language.context import Context
from hesse.frontends.language.operators import aligned, literal_integer, square
from hesse.frontends.language.sizes import Cell, size_of
from hesse.frontends.language.syntax import Call
from hesse.frontends.language.types import RANKS, counted
from hesse.frontends.language.values import Value
from hesse.ir import (
    Node,
    Size,
    einsum,
    multiply,
    plain_axes,
    reciprocal,
    reshape,
    size_product,
    total,
    transpose,
)
from hesse.ops import linalg, normalization, reshaping, spectra
from hesse.ops.registry import ELEMENTWISE

Rule = Callable[[Context, Call, list[Value]], Value]
RULES: dict[str, Rule] = {}
"""Functions of whole tensors, by name."""
ARGUMENTS: dict[str, tuple[int, int]] = {}
"""Their fewest and most arguments."""
LONGEST_CHAIN = 8
"""The largest second argument of `expm_chain`: its tensor has twice as many axes."""
SUGGESTIONS = {
    "norm": "norm2({0})",
    "mean": "sum({0})/n with the name of its size, declared by vector x(n)",
    "average": "sum({0})/n with the name of its size, declared by vector x(n)",
    "dot": "{first}'*{second}",
    "inner": "{first}'*{second}",
    "outer": "{first}*{second}'",
    "transpose": "{first}'",
    "inverse": "inv({0})",
    "ln": "log({0})",
    "ones": "vector(1, n) or matrix(1, m, n)",
    "zeros": "vector(0, n) or matrix(0, m, n)",
    "identity": "eye or eye(n)",
}
"""What to write for functions that go by another name, or need none."""
ELEMENTWISE_NAMES = {"max": "maximum", "min": "minimum"}
"""What they are called between two tensors, entry by entry."""


def _function(*names: str, arguments: tuple[int, int] = (1, 1)) -> Callable[[Rule], Rule]:
    """Enter a rule into the table of functions of whole tensors."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
            ARGUMENTS[name] = arguments
        return rule

    return enter


def is_function(name: str) -> bool:
    """Whether the language has a function of this name."""
    return name in RULES or name in ELEMENTWISE or name in table.BUILDERS


def call(context: Context, term: Call, values: list[Value]) -> Value:
    """The value of a function call."""
    name = term.function
    if not is_function(name):
        context.misread(f"there is no function {name}; write {_suggestion(context, name, values)}", term.span)
    if name not in RULES or (name in ELEMENTWISE_NAMES and len(values) == 2):
        return _elementwise(context, term, ELEMENTWISE_NAMES.get(name, name), values)
    _check_count(context, term, *ARGUMENTS[name])
    for value in values:
        if value.is_indexed:
            context.misread(
                f"{name} is a function of whole tensors, but {context.words(value)} is {value.kind}; "
                "sums over indices are written sum[i](...)",
                value.span,
            )
    return RULES[name](context, term, values)


def _suggestion(context: Context, name: str, values: list[Value]) -> str:
    """What to write for a function that the language does not have."""
    given = [*map(context.words, values), *"xy"[len(values) :]]
    first, second = (text if text.isalnum() else f"({text})" for text in given[:2])
    return SUGGESTIONS.get(name, "* for a product").format(*given, first=first, second=second)


def _check_count(context: Context, term: Call, fewest: int, most: int) -> None:
    count = len(term.arguments)
    if not fewest <= count <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} or {most}"
        noun = "argument" if wanted == "1" else "arguments"
        context.misread(f"{term.function} takes {wanted} {noun}, not {count}", term.span)


def _elementwise(context: Context, term: Call, name: str, values: list[Value]) -> Value:
    """A function of each entry; several operands have one shape or the same indices."""
    arity = ELEMENTWISE[name].arity if name in ELEMENTWISE else 1
    _check_count(context, term, arity, arity)
    operands = aligned(context, term.function, values)
    return replace(
        operands[0], span=term.span, combine=table.function(name), operands=tuple(operands), factors=()
    )


def _scalar(term: Call, value: Value, combine: Callable[[Node], Node]) -> Value:
    """A scalar computed from one value."""
    return Value(term.span, (), combine, (value,))


def _matrix(context: Context, term: Call, value: Value) -> None:
    if value.rank != 2:
        context.refuse(
            f"{term.function} needs a matrix, but {context.words(value)} is {value.kind}", value.span
        )


def _axis(context: Context, term: Call, value: Value) -> int | None:
    """The axis in the second argument, counted from 0; None if there is none."""
    if len(term.arguments) == 1:
        return None
    axis = literal_integer(term.arguments[1])
    if axis is None or not 0 <= axis < value.rank:
        axes = ", ".join(map(str, range(value.rank))) or "none"
        context.refuse(
            f"the second argument of {term.function} is an axis: {context.words(value)} is {value.kind} "
            f"with the axes {axes}",
            term.arguments[1].span,
        )
    return axis


@_function("sum", arguments=(1, 2))
def _sum(context: Context, term: Call, values: list[Value]) -> Value:
    """`sum(X)` over all entries, `sum(X, 0)` over the rows, `sum(X, 1)` over the columns."""
    value = values[0]
    axis = _axis(context, term, value)
    labels = [str(k) for k in range(value.rank)]
    kept = [label for k, label in enumerate(labels) if axis is not None and k != axis]
    return context.contract(term.span, [(value, labels)], kept)


@_function("tr", "trace")
def _trace(context: Context, term: Call, values: list[Value]) -> Value:
    if not values[0].rank:
        return _scalar(term, values[0], lambda node: node)
    _matrix(context, term, values[0])
    return context.contract(term.span, [(values[0], "ii")], "", f"{term.function} needs a square matrix")


@_function("norm1")
def _norm1(context: Context, term: Call, values: list[Value]) -> Value:
    return _scalar(term, values[0], lambda node: total(table.abs(node), range(node.rank)))


@_function("norm2")
def _norm2(context: Context, term: Call, values: list[Value]) -> Value:
    return _scalar(term, values[0], lambda node: table.sqrt(total(multiply(node, node), range(node.rank))))


@_function("max", "min", arguments=(1, 2))
def _extremum(context: Context, term: Call, values: list[Value]) -> Value:
    """The largest or smallest entry; with two arguments they are functions of each entry."""
    if term.function == "max":
        return _scalar(term, values[0], reshaping.maximum_entry)
    return _scalar(term, values[0], lambda node: -reshaping.maximum_entry(-node))


def _of_square(
    name: str, make: Callable[[Node], Node], of_scalar: Callable[[Node], Node], keeps_axes: bool
) -> None:
    """A function of square matrices; a scalar is a matrix with one entry."""

    @_function(name)
    def rule(context: Context, term: Call, values: list[Value]) -> Value:
        (value,) = values
        if not value.rank:
            return _scalar(term, value, of_scalar)
        _matrix(context, term, value)
        square(context, value, f"{term.function} needs a square matrix")
        return Value(term.span, value.cells if keeps_axes else (), make, (value,))


_of_square("inv", linalg.inverse, reciprocal, True)
_of_square("expm", spectra.expm, table.exp, True)
_of_square("det", linalg.determinant, lambda node: node, False)
_of_square("logdet", linalg.log_determinant, lambda node: table.log(table.abs(node)), False)


@_function("expm_chain", arguments=(2, 2))
def _expm_chain(context: Context, term: Call, values: list[Value]) -> Value:
    """What derivatives of `expm` are made of: the integral of a product of k exponentials."""
    value = values[0]
    _matrix(context, term, value)
    square(context, value, "expm_chain needs a square matrix")
    count = literal_integer(term.arguments[1])
    if count is None or not 1 <= count <= LONGEST_CHAIN:
        context.refuse(
            f"the second argument of expm_chain is the number of exponentials, from 1 to {LONGEST_CHAIN}",
            term.arguments[1].span,
        )
    return Value(term.span, value.cells * count, lambda node: spectra.expm_chain(node, count), (value,))


@_function("pinv")
def _pseudo_inverse(context: Context, term: Call, values: list[Value]) -> Value:
    _matrix(context, term, values[0])
    return Value(term.span, values[0].cells[::-1], linalg.pseudo_inverse, (values[0],))


@_function("vector", "matrix", "tensor")
def _filled(context: Context, term: Call, values: list[Value]) -> Value:
    """A scalar repeated: `vector(c)` of the size that fits, `matrix(c, m, n)` of given sizes."""
    (value,) = values
    if value.rank:
        context.refuse(
            f"{term.function} repeats a scalar, but {context.words(value)} is {value.kind}", value.span
        )
    if term.function == "tensor" and not term.sizes:
        context.misread("tensor needs the sizes of its axes: tensor(c, n, n, n)", term.span)
    labels = [str(k) for k in range(RANKS[term.function] or len(term.sizes))]
    return context.contract(term.span, [(value, ())], labels, new=_new_sizes(context, term, labels))


@_function("eye", arguments=(0, 0))
def _eye(context: Context, term: Call, values: list[Value]) -> Value:
    return context.contract(term.span, [], "ii", new=_new_sizes(context, term, ["i"]))


def _new_sizes(context: Context, term: Call, labels: list[str]) -> dict[str, Cell]:
    """The sizes that a call gives, or open ones."""
    if term.sizes and len(term.sizes) != len(labels):
        context.misread(
            f"{term.function} takes {counted(len(labels), 'size')}, not {len(term.sizes)}", term.span
        )
    given = term.sizes or (None,) * len(labels)
    cells = [
        context.sizes.fresh(term.span) if size is None else _given_size(context, term, size) for size in given
    ]
    return dict(zip(labels, cells, strict=True))


def _given_size(context: Context, term: Call, size: Size) -> Cell:
    """A size as it was written: a number, a name or a product."""
    if isinstance(size, int) or "*" not in size:
        return context.sizes.fixed(size, term.span)
    factors: list[Size] = [int(part) if part.isdigit() else part for part in size.split("*")]
    return context.product([context.sizes.fixed(factor, term.span) for factor in factors], term.span)


@_function("diag")
def _diag(context: Context, term: Call, values: list[Value]) -> Value:
    """The diagonal matrix of a vector, the diagonal of a matrix."""
    (value,) = values
    if value.rank == 1:
        return context.contract(term.span, [(value, "i")], "ii")
    if value.rank != 2:
        context.refuse(
            f"diag needs a vector or a matrix, but {context.words(value)} is {value.kind}", value.span
        )
    return context.contract(term.span, [(value, "ii")], "i", "diag needs a square matrix")


@_function("vec")
def _vec(context: Context, term: Call, values: list[Value]) -> Value:
    """The columns of a matrix, one below the other; further axes are kept."""
    (value,) = values
    if value.rank == 1:
        return Value(term.span, value.cells, lambda node: node, (value,))
    if value.rank < 2:
        _matrix(context, term, value)
    size = context.product(value.cells[1::-1], term.span)
    return Value(term.span, (size, *value.cells[2:]), reshaping.vec, (value,))


@_function("reshape")
def _reshape(context: Context, term: Call, values: list[Value]) -> Value:
    """The entries in another shape, the last index running fastest."""
    (value,) = values
    cells = tuple(_given_size(context, term, size) for size in term.sizes)
    result = Value(term.span, cells, lambda node: reshape(node, [size_of(cell) for cell in cells]), (value,))
    if value.rank == 1:
        entries = context.product(cells, term.span)
        context.equate(value.cells[0], entries, (value, result), "a reshape keeps the number of entries")
    context.reshapes.append((value, result))
    return result


@_function("kron", arguments=(2, 2))
def _kron(context: Context, term: Call, values: list[Value]) -> Value:
    """The Kronecker product; beside a matrix a vector is one with a single column, or a single row."""
    left, right = values
    ranks = (left.rank, right.rank)
    if not {1, 2}.issuperset(ranks) or (ranks == (1, 1) and left.is_row != right.is_row):
        context.refuse(
            f"kron needs two matrices, two columns, two rows, or a vector and a matrix, but "
            f"{context.words(left)} is {left.kind} and "
            f"{context.words(right)} is {right.kind}",
            left.span,
            right.span,
        )
    if left.rank != right.rank:
        return _kron_with_vector(context, term, left, right)
    sizes = [context.product(pair, term.span) for pair in zip(left.cells, right.cells, strict=True)]
    return Value(term.span, tuple(sizes), reshaping.kron, (left, right), is_row=left.is_row)


def _kron_with_vector(context: Context, term: Call, left: Value, right: Value) -> Value:
    vector, matrix = (left, right) if left.rank == 1 else (right, left)
    cells = list(matrix.cells)
    along = 1 if vector.is_row else 0
    pair = (vector.cells[0], cells[along])
    cells[along] = context.product(pair if vector is left else pair[::-1], term.span)

    def combine(*nodes: Node) -> Node:
        return reshaping.kron(*(_as_matrix(node, along) if node.rank == 1 else node for node in nodes))

    return Value(term.span, tuple(cells), combine, (left, right))


def _as_matrix(node: Node, along: int) -> Node:
    """A vector as the only column (along axis 0) or row of a matrix."""
    return reshape(node, (*node.shape, 1) if along == 0 else (1, *node.shape))


@_function("commutation", arguments=(0, 0))
def _commutation(context: Context, term: Call, values: list[Value]) -> Value:
    """`commutation(m, n)`: the matrix K with K*vec(X) = vec(X') for X with m rows and n columns."""
    if not term.sizes:
        context.misread("commutation needs the sizes of a matrix: commutation(m, n)", term.span)
    rows, columns = _new_sizes(context, term, ["i", "j"]).values()
    cells = context.product((rows, columns), term.span), context.product((columns, rows), term.span)

    def combine() -> Node:
        m, n = size_of(rows), size_of(columns)
        i, j = plain_axes(2)
        exchanged = einsum([], [], [i, j, j, i], [m, n, n, m], [m, n])
        return reshape(exchanged, [size_product([m, n])] * 2)

    return Value(term.span, cells, combine)


def _along_axis(make: Callable[[Node], Node], keeps_axis: bool, name: str) -> None:
    """A function along one axis: the last one (each row of a matrix), or the second argument."""

    @_function(name, arguments=(1, 2))
    def rule(context: Context, term: Call, values: list[Value]) -> Value:
        value = values[0]
        if not value.rank:
            context.refuse(
                f"{name} needs a vector or a matrix, but {context.words(value)} is a scalar", value.span
            )
        given = _axis(context, term, value)
        axis = value.rank - 1 if given is None else given
        order = [*(k for k in range(value.rank) if k != axis), axis]
        back = [order.index(k) for k in range(value.rank)]

        def combine(node: Node) -> Node:
            result = make(transpose(node, order))
            return transpose(result, back) if keeps_axis else result

        cells = value.cells if keeps_axis else tuple(value.cells[k] for k in order[:-1])
        return Value(term.span, cells, combine, (value,), is_row=value.is_row and keeps_axis)


_along_axis(normalization.softmax, True, "softmax")
_along_axis(normalization.log_softmax, True, "log_softmax")
_along_axis(normalization.logsumexp, False, "logsumexp")
