"""What a node looks like to a reader, before it is text or LaTeX.

`describe` turns one node into a small tree, a *form*, whose leaves are the operands of the node. Forms say
"matrix product" or "diagonal matrix" where the node says "einsum"; printers only write them down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never, cast

import numpy as np

from hesse.ir import (
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Map,
    Node,
    Shape,
    Size,
    Variable,
    is_zero,
)

LITERAL_LIMIT = 6
"""Constants with at most this many entries are written out."""


@dataclass(frozen=True)
class Leaf:
    """An operand, written as its own form or by its name."""

    node: Node


@dataclass(frozen=True)
class Number:
    """A number, also where it stands for a tensor of equal entries."""

    value: float


@dataclass(frozen=True)
class Symbol:
    """A variable or a size."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A small constant array, written out."""

    value: Any
    """The entries as nested tuples."""


@dataclass(frozen=True)
class Call:
    """A function of whole tensors: `table` is "map" or "apply" for a record, "builtin" for a notation."""

    name: str
    arguments: tuple[Form, ...]
    table: str = "builtin"
    scalar: bool = False
    params: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Sum:
    """A sum of tensors of one shape, in which a number stands for a tensor of equal entries."""

    terms: tuple[Form, ...]


@dataclass(frozen=True)
class Transposed:
    """A matrix read with its axes exchanged, or a vector as a row."""

    body: Form


@dataclass(frozen=True)
class Chain:
    """A product of matrices and vectors (columns, or transposed: rows)."""

    factors: tuple[Form, ...]


@dataclass(frozen=True)
class Elementwise:
    """A product of powers of tensors of one shape over another such product."""

    factors: tuple[tuple[Form, int], ...]
    divisors: tuple[tuple[Form, int], ...] = ()
    scalar: bool = False


@dataclass(frozen=True)
class Scaled:
    """A number, symbolic sizes and scalar factors times a tensor (None: times nothing)."""

    value: float
    sizes: tuple[str, ...]
    scalars: Elementwise | None
    body: Form | None


@dataclass(frozen=True)
class Indexed:
    """A product in index notation; `notes` are ranges that the axes do not imply."""

    factors: tuple[tuple[Form, tuple[Axis, ...]], ...]
    output: tuple[Axis, ...]
    notes: tuple[tuple[int, Size], ...]
    count: int
    """The number of labels."""


Form = Leaf | Number | Symbol | Literal | Call | Sum | Transposed | Chain | Elementwise | Scaled | Indexed


def parts(form: Form) -> tuple[Form, ...]:
    """The forms directly inside a form."""
    match form:
        case Leaf() | Number() | Symbol() | Literal():
            return ()
        case Call():
            return form.arguments
        case Sum():
            return form.terms
        case Transposed():
            return (form.body,)
        case Chain():
            return form.factors
        case Elementwise():
            return tuple(part for part, _ in form.factors + form.divisors)
        case Scaled():
            return tuple(part for part in (form.scalars, form.body) if part is not None)
        case Indexed():
            return tuple(part for part, _ in form.factors)
    assert_never(form)


def leaves(form: Form) -> Iterator[Node]:
    """The operands in a form, as often as they will be written."""
    if isinstance(form, Leaf):
        yield form.node
    for part in parts(form):
        yield from leaves(part)


def sizes_call(name: str, shape: Shape) -> Call:
    """`ones(n, 3)` and the like."""
    return Call(name, tuple(Symbol(str(size)) for size in shape))


def is_large(node: Node) -> bool:
    """Whether the node is a constant too large to be written out."""
    return isinstance(node, Constant) and node.value.size > LITERAL_LIMIT


def describe(node: Node) -> Form:
    """The form of a node."""
    node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
    match node:
        case Variable():
            return Symbol(node.name)
        case Constant():
            return _constant(node)
        case Einsum():
            return describe_einsum(node)
        case Add():
            if not node.operands:
                return sizes_call("zeros", node.shape) if node.shape else Number(0.0)
            return Sum(tuple(map(_broadcasting, node.operands)))
        case Map():
            return Call(node.name, tuple(map(_broadcasting, node.operands)), "map", scalar=node.rank == 0)
        case Apply():
            arguments = tuple(map(Leaf, node.operands))
            return Call(node.name, arguments, "apply", scalar=node.rank == 0, params=node.params)
    assert_never(node)


def _constant(node: Constant) -> Form:
    if node.rank == 0:
        return Number(float(node.value))
    if is_large(node):
        return sizes_call("constant", node.shape)
    return Literal(_nested(node.value))


def _nested(array: np.ndarray) -> Any:
    return tuple(map(_nested, array)) if array.ndim else float(array)


def _broadcasting(node: Node) -> Form:
    """An operand beside others of its shape, where a scalar may stand for a tensor of equal entries."""
    if is_zero(node):
        return Number(0.0)
    if isinstance(node, Einsum) and not any(operand.rank for operand in node.operands) and _is_whole(node):
        return scalar_form(node)
    return Leaf(node)
