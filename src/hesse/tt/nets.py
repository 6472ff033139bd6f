"""Nets: products of trains and operators that are not multiplied out.

A function of a train is called with a `Net` in its place. Sums, multiples, products of entries and products
with operators only put together lists of leaves; inner products, entries and dense tensors are handed to a
recorder, which gives back numbers (or what stands for them).
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.tt.arrays import library
from hesse.tt.chain import Chain
from hesse.tt.summands import Summand, summands
from hesse.tt.train import TensorTrain, TTMatrix, gather, is_scalar

MOST = 8
"""Terms that a net may have when operators are written as sums: inner products have those of both nets."""


class Occurrence(Enum):
    """The train that a function is differentiated by, where it occurs; or where it counts as a constant."""

    VARIABLE = "variable"
    STOPPED = "stopped"


Source = Occurrence | Chain


class Leaf(NamedTuple):
    """A train or an operator in a net, and the labels of the axes that its cores have at each position."""

    source: Source
    labels: tuple[int, ...]


class Term(NamedTuple):
    """A multiple of a product of leaves with one free axis at each position."""

    coefficient: Any
    leaves: tuple[Leaf, ...]
    free: int


class ReadsCores(BaseException):
    """A function asked a net for what only cores can tell; it is called again with cores."""


class Recorder(Protocol):
    """What takes note of the numbers that a function computes from its train."""

    def form(self, leaves: tuple[Leaf, ...], batch: int | None) -> Any:
        """The value of a closed net."""

    def entries(self, indices: Any) -> Any:
        """The entries of the train at some positions, as a user gives them."""

    def whole(self) -> Any:
        """The train as a dense tensor."""

    def stopped(self, value: Any) -> Any:
        """A number without derivatives."""

    def root(self, square: Any) -> Any:
        """The square root, with the derivative zero at zero."""


class Net:
    """A tensor that is a sum of products of leaves; it behaves like a `TensorTrain`."""

    __array_ufunc__ = None
    __slots__ = ("recorder", "shape", "terms", "train")

    def __init__(self, recorder: Recorder, train: TensorTrain, shape: Any, terms: Sequence[Term]) -> None:
        self.recorder = recorder
        self.train = train
        """The train whose derivatives are wanted: leaves are checked against it."""
        self.shape: tuple[int, ...] = tuple(shape)
        self.terms = tuple(terms)

    def __repr__(self) -> str:
        return f"Net(shape={self.shape}, terms={len(self.terms)})"

    def __len__(self) -> int:
        return len(self.shape)

    @property
    def batch(self) -> int | None:
        """The number of tensors in a batch."""
        sources = [leaf.source for term in self.terms for leaf in term.leaves]
        sizes = [self.train.batch if isinstance(source, Occurrence) else source.batch for source in sources]
        found = sorted({size for size in sizes if size is not None})
        if len(found) > 1:
            raise ShapeError(f"batches of {' and '.join(map(str, found))} trains")
        return found[0] if found else None

    def __getattr__(self, name: str) -> Any:
        if name in ("cores", "left", "right", "T", "ranks", "orthogonalize"):
            raise ReadsCores
        raise AttributeError(
            f"a train inside of a function has no attribute {name!r}; it has the operations of tt.TensorTrain"
        )

    # Sums and products.

    def _net(self, terms: Sequence[Term], shape: Any = None) -> Net:
        return Net(self.recorder, self.train, self.shape if shape is None else shape, terms)

    def _other(self, value: Any, what: str) -> Net | None:
        """An operand as a net of the same shape."""
        if isinstance(value, TensorTrain):
            self._check_place(value, what)
            value = Net(self.recorder, self.train, value.shape, [Term(1.0, (Leaf(value, (0,)),), 0)])
        if not isinstance(value, Net):
            return None
        if value.shape != self.shape:
            raise ShapeError(f"{what} of trains of the shapes {self.shape} and {value.shape}")
        return value

    def _check_place(self, value: Chain, what: str) -> None:
        if value.library.name != self.train.library.name:
            raise ArgumentError(
                f"{what}: the point is of {self.train.library.name}, a constant train of "
                f"{value.library.name}; convert one of them"
            )
        if str(value.dtype) != str(self.train.dtype):
            raise ArgumentError(f"{what}: dtypes {self.train.dtype} and {value.dtype}; cast one of them")

    def __add__(self, other: Any) -> Any:
        found = self._other(other, "a sum")
        return NotImplemented if found is None else self._net([*self.terms, *found.terms])

    __radd__ = __add__

    def __neg__(self) -> Net:
        return self._net([term._replace(coefficient=_times(term.coefficient, -1.0)) for term in self.terms])

    def __sub__(self, other: Any) -> Any:
        found = self._other(other, "a difference")
        return NotImplemented if found is None else self + -found

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if is_scalar(other):
            return self._net(
                [term._replace(coefficient=_times(term.coefficient, other)) for term in self.terms]
            )
        found = self._other(other, "a product of entries")
        if found is None:
            return NotImplemented
        products = [(a, b, _joined(a, b)) for a in self.terms for b in found.terms]
        return self._net(
            [Term(_times(a.coefficient, b.coefficient), leaves, a.free) for a, b, leaves in products]
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self * (1.0 / other) if is_scalar(other) else NotImplemented

    def __rmatmul__(self, operator: Any) -> Any:
        if not isinstance(operator, TTMatrix):
            raise ReadsCores
        self._check_place(operator, "a product A @ X")
        columns = tuple(size[1] for size in operator.sizes)
        if columns != self.shape:
            raise ShapeError(f"A @ X: A has columns {columns}, but X has the shape {self.shape}")
        parts = summands(operator, max(self.train.ranks), MOST // len(self.terms))
        terms = [_applied(part, term) for part in parts for term in self.terms]
        return self._net(terms, [size[0] for size in operator.sizes])

    def __matmul__(self, other: Any) -> Any:
        raise ReadsCores

    def round(self, tol: float = 0.0, rank: Any = None) -> Net:
        """The net itself: it is not multiplied out, so that its ranks do not grow."""
        if rank is not None:
            raise TracingError(
                "X.round(rank=...) inside of a function projects to another manifold and has no derivative "
                "here; leave it out (ranks do not grow inside of f) or give tol="
            )
        return self

    def stop_gradient(self) -> Net:
        """The same net, as a constant."""
        stopped = [
            Term(
                self.recorder.stopped(term.coefficient),
                tuple(
                    leaf._replace(source=Occurrence.STOPPED) if leaf.source is Occurrence.VARIABLE else leaf
                    for leaf in term.leaves
                ),
                term.free,
            )
            for term in self.terms
        ]
        return self._net(stopped)

    # Numbers.

    def dot(self, left: Any, right: Any) -> Any:
        """The sum of the products of entries of two trains, of which this net is one."""
        pair = [self._other(value, "tt.dot") for value in (left, right)]
        for name, value, net in zip(("first", "second"), (left, right), pair, strict=True):
            if net is None:
                raise ArgumentError(
                    f"the {name} argument of tt.dot must be a train, not a {type(value).__name__}"
                )
        a, b = pair
        assert a is not None and b is not None
        batch = self._net([*a.terms, *b.terms]).batch
        return _total(
            _times(_times(x.coefficient, y.coefficient), self.recorder.form(_joined(x, y), batch))
            for x in a.terms
            for y in b.terms
        )

    def norm(self) -> Any:
        """The root of the sum of the squares of all entries."""
        return self.recorder.root(self.dot(self, self))

    def gather(self, *indices: Any) -> Any:
        """Entries at positions, as of a train."""
        where = indices[0] if len(indices) == 1 else indices
        values = [[self._entries(leaf, where) for leaf in term.leaves] for term in self.terms]
        return _total(_product(term, own) for term, own in zip(self.terms, values, strict=True))

    def _entries(self, leaf: Leaf, indices: Any) -> Any:
        if isinstance(leaf.source, TTMatrix):
            raise TracingError(
                "entries of A @ X need whole rows of A at each position; write tt.dot(W, A @ X) with the "
                "entries' unit vectors in W = tt.rank_one(...)"
            )
        if isinstance(leaf.source, Chain):
            return gather(leaf.source, indices)
        values = self.recorder.entries(indices)
        return values if leaf.source is Occurrence.VARIABLE else self.recorder.stopped(values)

    def dense(self) -> Any:
        """The tensor with all of its entries."""
        if self.batch is not None:
            raise ArgumentError("dense() of a batch of trains inside of a function: use tt.dot")
        return _total(self._dense(term) for term in self.terms)

    def _dense(self, term: Term) -> Any:
        tensors = [self._dense_leaf(leaf) for leaf in term.leaves]
        if len(tensors) == 1:
            return _times(term.coefficient, tensors[0])
        count = len(self.shape)
        if (1 + max(label for leaf in term.leaves for label in leaf.labels)) * count > 52:
            raise TracingError(f"dense() of a product of trains with {count} axes; use tt.dot")
        letters = [
            "".join(string.ascii_letters[label * count + k] for label in leaf.labels for k in range(count))
            for leaf in term.leaves
        ]
        out = "".join(string.ascii_letters[term.free * count + k] for k in range(count))
        pattern = f"{','.join(letters)}->{out}"
        if any(hasattr(t, "node") or isinstance(t, np.ndarray) for t in tensors):
            tensors = [t if hasattr(t, "node") else library(t).host(t) for t in tensors]
            return _times(term.coefficient, np.einsum(pattern, *tensors))
        return _times(term.coefficient, self.train.library.einsum(pattern, *tensors))

    def _dense_leaf(self, leaf: Leaf) -> Any:
        match leaf.source:
            case Occurrence.VARIABLE:
                return self.recorder.whole()
            case Occurrence.STOPPED:
                return self.recorder.stopped(self.recorder.whole())
            case TTMatrix():
                sizes = leaf.source.sizes
                return leaf.source.dense().reshape([size[k] for k in (0, 1) for size in sizes])
            case _:
                return leaf.source.dense()  # type: ignore[attr-defined]


def variable(recorder: Recorder, train: TensorTrain) -> Net:
    """The net that stands for a train."""
    return Net(recorder, train, train.shape, [Term(1.0, (Leaf(Occurrence.VARIABLE, (0,)),), 0)])


def _times(left: Any, right: Any) -> Any:
    """A product, without a factor that is plainly one."""
    if isinstance(left, float) and left == 1.0:
        return right
    return left if isinstance(right, float) and right == 1.0 else left * right


def _total(values: Any) -> Any:
    first, *others = values
    for value in others:
        first = first + value
    return first


def _product(term: Term, values: Any) -> Any:
    result = term.coefficient
    for value in values:
        result = _times(result, value)
    return result


def _joined(left: Term, right: Term) -> tuple[Leaf, ...]:
    """The leaves of both, with the same free axes and other labels for everything else."""
    shift = 1 + max(label for leaf in left.leaves for label in leaf.labels)
    names = {right.free: left.free}
    moved = [
        leaf._replace(labels=tuple(names.get(label, label + shift) for label in leaf.labels))
        for leaf in right.leaves
    ]
    return (*left.leaves, *moved)


def _applied(part: Summand, term: Term) -> Term:
    """A part of an operator times a term; a transpose has its labels exchanged."""
    free = 1 + max(label for leaf in term.leaves for label in leaf.labels)
    labels = (term.free, free) if part.is_turned else (free, term.free)
    return Term(term.coefficient, (*term.leaves, Leaf(part.operator, labels)), free)
