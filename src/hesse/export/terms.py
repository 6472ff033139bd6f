"""What exported code computes, before a language is chosen: a DAG of terms with symbolic sizes.

A term is a whole array. Element-wise terms take operands that broadcast against each other as in NumPy:
`Expand` inserts axes of size 1, scalars have no axes. Products of matrices and vectors are terms of their
own, so that writers can write `A @ x`. Terms are interned, so that equal ones are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

import numpy as np

from hesse.ir import Axis, Shape, Size, label_axis


@dataclass(frozen=True, eq=False)
class Term:
    """An array of the given shape."""

    shape: Shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def operands(self) -> tuple[Term, ...]:
        """The terms it is computed from."""
        return ()


@dataclass(frozen=True, eq=False)
class Argument(Term):
    """An argument of the exported function."""

    name: str
    kind: str


@dataclass(frozen=True, eq=False)
class Number(Term):
    """A number."""

    value: float


@dataclass(frozen=True, eq=False)
class Count(Term):
    """A symbolic size as a number."""

    size: str


@dataclass(frozen=True, eq=False)
class Literal(Term):
    """An array known now."""

    value: np.ndarray
    kind: str


@dataclass(frozen=True, eq=False)
class Function(Term):
    """An element-wise function, by its name in the table of `ops`."""

    name: str
    arguments: tuple[Term, ...]

    @property
    def operands(self) -> tuple[Term, ...]:
        return self.arguments


@dataclass(frozen=True, eq=False)
class Sum(Term):
    """The sum of terms that broadcast."""

    summands: tuple[Term, ...]

    @property
    def operands(self) -> tuple[Term, ...]:
        return self.summands


@dataclass(frozen=True, eq=False)
class Product(Term):
    """A number times a product of powers over a product of powers, element by element."""

    factor: float
    factors: tuple[tuple[Term, int], ...]
    divisors: tuple[tuple[Term, int], ...]

    @property
    def operands(self) -> tuple[Term, ...]:
        return tuple(term for term, _ in self.factors + self.divisors)


@dataclass(frozen=True, eq=False)
class Unary(Term):
    """A term with one operand."""

    operand: Term

    @property
    def operands(self) -> tuple[Term, ...]:
        return (self.operand,)


@dataclass(frozen=True, eq=False)
class Expand(Unary):
    """Axis k of the operand becomes axis `positions[k]` (ascending), the others have size 1."""

    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Permute(Unary):
    """Axis k of the result is axis `order[k]` of the operand."""

    order: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Broadcast(Unary):
    """The operand repeated along its axes of size 1 (all axes, for a scalar)."""


@dataclass(frozen=True, eq=False)
class View(Unary):
    """The operand read through affine axes; the result has one axis for each label 0, 1, …"""

    axes: tuple[Axis, ...]

    @property
    def is_diagonal(self) -> bool:
        """Whether this is the whole diagonal of a square matrix."""
        return self.axes == (label_axis(0),) * 2 and self.operand.shape == self.shape * 2


@dataclass(frozen=True, eq=False)
class Reduce(Unary):
    """The sum over some axes."""

    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Diagonal(Unary):
    """The diagonal matrix of a vector."""


@dataclass(frozen=True, eq=False)
class Identity(Term):
    """The unit matrix."""


@dataclass(frozen=True, eq=False)
class Binary(Term):
    """A product of two terms that is not element-wise."""

    left: Term
    right: Term

    @property
    def operands(self) -> tuple[Term, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class MatrixProduct(Binary):
    """A matrix times a matrix or a vector."""


@dataclass(frozen=True, eq=False)
class Dot(Binary):
    """The inner product of two vectors."""


@dataclass(frozen=True, eq=False)
class Outer(Binary):
    """The outer product of two vectors."""


@dataclass(frozen=True, eq=False)
class Contract(Binary):
    """Any other product of two tensors, summed over the labels that `labels` does not name.

    The labels of the result are those of both operands (a batch), those of the left, those of the right.
    """

    left_labels: tuple[int, ...]
    right_labels: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """Where the entries of a source, with axes named by labels, are added: at `output`, for all labels.

    `ranges` are the sizes of the labels 0, 1, …; the source has the axes `labels`, and repeats along the
    others.
    """

    labels: tuple[int, ...]
    output: tuple[Axis, ...]
    ranges: tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class Place(Term):
    """A tensor (zeros, if there is no base) with sources added where their placements say."""

    base: Term | None
    sources: tuple[Term, ...]
    placements: tuple[Placement, ...]

    @property
    def operands(self) -> tuple[Term, ...]:
        return self.sources if self.base is None else (self.base, *self.sources)


@dataclass(frozen=True, eq=False)
class Call(Term):
    """An operation, by the name of its record in `ops`."""

    name: str
    params: tuple[Any, ...]
    arguments: tuple[Term, ...]

    @property
    def operands(self) -> tuple[Term, ...]:
        return self.arguments


TermType = TypeVar("TermType", bound=Term)


class Terms:
    """Makes terms, equal ones once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Term] = {}
        self.alone: set[Term] = set()
        """Terms that are used once, and so may be taken apart."""

    def make(self, cls: type[TermType], shape: Iterable[Size], *fields: Any) -> TermType:
        """The one term of this class with these fields."""
        shape = tuple(shape)
        key = (cls, shape, *(id(field) if isinstance(field, np.ndarray) else field for field in fields))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = cls(shape, *fields)
        assert isinstance(found, cls)
        return found

    def number(self, value: float) -> Term:
        """A number."""
        return self.make(Number, (), float(value))

    def permuted(self, term: Term, order: tuple[int, ...]) -> Term:
        """The term with its axes in another order."""
        if order == tuple(range(term.rank)):
            return term
        if isinstance(term, Permute):
            return self.permuted(term.operand, tuple(term.order[k] for k in order))
        if is_multiple(term):
            return self._inside(term, lambda part: self.permuted(part, order))
        if order == (1, 0) and (turned := self._transposed(term)) is not None:
            return turned
        return self.make(Permute, [term.shape[k] for k in order], term, order)

    def _transposed(self, term: Term) -> Term | None:
        """The transpose of a matrix, where it costs nothing: (A'B)' = B'A, (xy')' = yx', and sums of such."""
        match term:
            case Permute():
                return term.operand
            case Identity() | Diagonal():
                return term
            case Outer():
                return self.make(Outer, term.shape[::-1], term.right, term.left)
            case MatrixProduct() if term in self.alone:
                parts = [self._transposed(part) for part in (term.right, term.left)]
                if parts == [None, None]:
                    return None
                left = parts[0] or self.permuted(term.right, (1, 0))
                right = parts[1] or self.permuted(term.left, (1, 0))
                return self.make(MatrixProduct, term.shape[::-1], left, right)
            case Product() if len([part for part in term.operands if part.rank]) == 1:
                ((array, _),) = [pair for pair in term.factors + term.divisors if pair[0].rank]
                turned = self._transposed(array) if term in self.alone else None
                if turned is None:
                    return None
                swap = {array: turned}
                factors = tuple((swap.get(part, part), power) for part, power in term.factors)
                divisors = tuple((swap.get(part, part), power) for part, power in term.divisors)
                return self.make(Product, term.shape[::-1], term.factor, factors, divisors)
            case Sum() if term in self.alone and all(part.shape == term.shape for part in term.summands):
                summands = [self._transposed(part) for part in term.summands]
                return None if None in summands else self.make(Sum, term.shape[::-1], tuple(summands))
        return None

    def expanded(self, term: Term, positions: tuple[int, ...], rank: int) -> Term:
        """The term with axes of size 1 between and around its axes; scalars stay scalars."""
        if term.rank in (0, rank):
            return term
        if is_multiple(term):
            return self._inside(term, lambda part: self.expanded(part, positions, rank))
        shape: list[Size] = [1] * rank
        for position, size in zip(positions, term.shape, strict=True):
            shape[position] = size
        return self.make(Expand, shape, term, positions)

    def aligned(self, term: Term, labels: tuple[int, ...], output: tuple[int, ...]) -> Term:
        """A term whose axes are `labels`, as a factor of a product whose axes are `output`."""
        present = tuple(label for label in output if label in labels)
        turned = self.permuted(term, tuple(labels.index(label) for label in present))
        return self.expanded(turned, tuple(output.index(label) for label in present), len(output))

    def product(self, factor: float, factors: Iterable[Term], divisors: Iterable[Term] = ()) -> Term:
        """An element-wise product; numbers, multiples and reciprocals among the factors become part of it."""
        above: dict[Term, int] = {}
        below: dict[Term, int] = {}
        for term in factors:
            inner = self._simple(term)
            factor *= inner.factor
            for powers, parts in ((above, inner.factors), (below, inner.divisors)):
                for part, power in parts:
                    powers[part] = powers.get(part, 0) + power
        for term in divisors:
            below[term] = below.get(term, 0) + 1
        if not above and not below:
            return self.number(factor)
        if factor == 1 and not below and list(above.values()) == [1]:
            return next(iter(above))
        shape = broadcast_shape([*above, *below])
        return self.make(Product, shape, factor, tuple(above.items()), tuple(below.items()))

    def _simple(self, term: Term) -> Product:
        """A term as a product; products of several terms stay whole, they may be needed elsewhere."""
        if isinstance(term, Number):
            return Product((), term.value, (), ())
        return term if is_multiple(term) else Product(term.shape, 1.0, ((term, 1),), ())

    def _inside(self, term: Product, change: Callable[[Term], Term]) -> Term:
        """A multiple of a power of one term, with that term changed."""
        factors = tuple((change(part), power) for part, power in term.factors)
        divisors = tuple((change(part), power) for part, power in term.divisors)
        shape = (factors + divisors)[0][0].shape
        return self.make(Product, shape, term.factor, factors, divisors)


def is_multiple(term: Term) -> TypeGuard[Product]:
    """Whether a term is a number times a power of one term."""
    return isinstance(term, Product) and len(term.operands) == 1


def broadcast_shape(terms: Iterable[Term]) -> Shape:
    """The shape of an element-wise combination."""
    terms = list(terms)
    rank = max(term.rank for term in terms)
    shape: list[Size] = [1] * rank
    for term in terms:
        for position, size in enumerate(term.shape if term.rank else ()):
            if size != 1:
                shape[position] = size
    return tuple(shape)


def topological(root: Term) -> list[Term]:
    """All terms below the root, operands before their users."""
    order: list[Term] = []
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(root, False)]
    while stack:
        term, done = stack.pop()
        if done:
            order.append(term)
        elif term not in seen:
            seen.add(term)
            stack.append((term, True))
            stack += [(operand, False) for operand in reversed(term.operands) if operand not in seen]
    return order
