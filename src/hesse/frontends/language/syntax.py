"""The syntax tree of a formula. Every term knows its place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hesse.frontends.language.source import Span


@dataclass(frozen=True, eq=False, slots=True)
class Number:
    """A number."""

    span: Span
    value: float


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    """A variable, a defined name, a size or `eye`."""

    span: Span
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A function of whole tensors or of entries; `sizes` are those of `eye(n)` and `vector(c, n)`."""

    span: Span
    function: str
    arguments: tuple[Term, ...]
    sizes: tuple[int | str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Negative:
    """`-operand`."""

    span: Span
    operand: Term


@dataclass(frozen=True, eq=False, slots=True)
class Transpose:
    """`operand'`."""

    span: Span
    operand: Term


@dataclass(frozen=True, eq=False, slots=True)
class Binary:
    """An operator between two operands: `+ - * / ^ .* ./ .^`."""

    span: Span
    operator: str
    left: Term
    right: Term


@dataclass(frozen=True, eq=False, slots=True)
class Entries:
    """`operand[i,j]`: the entries of a tensor, named by labels."""

    span: Span
    operand: Term
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class SumOver:
    """`sum[i,j](body)`."""

    span: Span
    labels: tuple[str, ...]
    body: Term


@dataclass(frozen=True, eq=False, slots=True)
class Contraction:
    """`A *[ij,jk,ik] B` or `einsum("ij,jk->ik", A, B)`."""

    span: Span
    inputs: tuple[str, ...]
    output: str
    operands: tuple[Term, ...]


Term = Number | Name | Call | Negative | Transpose | Binary | Entries | SumOver | Contraction


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A named formula: `p = softmax(A*x)`, `H[i,j] = x[i]*x[j]`; the result itself may have no name."""

    span: Span
    name: str | None
    labels: tuple[str, ...] | None
    term: Term


@dataclass(frozen=True, eq=False, slots=True)
class Declaration:
    """`symmetric matrix A(n,n)`."""

    span: Span
    words: tuple[str, ...]
    words_span: Span
    name: str
    sizes: tuple[int | str, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class Document:
    """Everything a text says."""

    declarations: tuple[Declaration, ...]
    result: Definition
    definitions: tuple[Definition, ...]


def parts(term: Term) -> tuple[Term, ...]:
    """The terms directly inside a term."""
    match term:
        case Number() | Name():
            return ()
        case Call():
            return term.arguments
        case Negative() | Transpose() | Entries():
            return (term.operand,)
        case Binary():
            return (term.left, term.right)
        case SumOver():
            return (term.body,)
        case Contraction():
            return term.operands


def postorder(roots: Sequence[Term]) -> list[Term]:
    """All terms, inner ones before those around them (without recursion: texts may be deep)."""
    order: list[Term] = []
    stack = list(roots)
    while stack:
        term = stack.pop()
        order.append(term)
        stack.extend(parts(term))
    return order[::-1]
