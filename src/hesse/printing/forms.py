"""What a node looks like to a reader, before it is text or LaTeX.

`describe` (in the module of that name) turns one node into a small tree, a *form*, whose leaves are the
operands of the node. Forms say "matrix product" or "diagonal matrix" where the node says "einsum"; printers
only write them down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from hesse.ir import Axis, Node, Size


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
