"""From a program to terms: the instructions read as products, sums and placements that can be written down.

Programs scale where that costs least and multiply in pairs. A reader wants numbers and scalars in front and
products of entries in one piece, so a value is kept as the factors it consists of until something needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, assert_never, cast

from hesse.cost import first_labels
from hesse.errors import ArgumentError, MissingKernelError
from hesse.export import terms as t
from hesse.export.pairs import multiplied_pair
from hesse.export.terms import Placement, Term, Terms
from hesse.ir import Shape, constant_axis
from hesse.plan import Program
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Count,
    Instruction,
    Literal,
    Load,
    Placed,
    Reduce,
    Ref,
    Scale,
    Sizes,
    View,
    sources,
)

LARGEST_LITERAL = 1000
"""Constant arrays with more entries than this are not written into code."""
Positions = tuple[int, ...]


class Factor(NamedTuple):
    """A power of a term; axis k of the term is axis `positions[k]` of the value it is a factor of."""

    term: Term
    positions: Positions
    power: int = 1


class Value(NamedTuple):
    """A number times a product of factors; it repeats along the axes that no factor has."""

    number: float
    factors: tuple[Factor, ...]

    def times(self, number: float) -> Value:
        """The value times a number."""
        return Value(number * self.number, self.factors)

    def moved(self, places: Sequence[int] | Mapping[int, int]) -> Value:
        """The value inside another one, whose axis `places[k]` is axis k of this one."""
        return Value(
            self.number,
            tuple(f._replace(positions=tuple(places[k] for k in f.positions)) for f in self.factors),
        )

    def by(self, other: Value) -> Value:
        """The product, entry by entry; equal factors become powers (but x / x stays)."""
        powers: dict[tuple[Term, Positions, bool], int] = {}
        for term, positions, power in self.factors + other.factors:
            key = (term, positions, power > 0)
            powers[key] = powers.get(key, 0) + power
        factors = tuple(Factor(term, positions, power) for (term, positions, _), power in powers.items())
        return Value(self.number * other.number, factors)

    @property
    def positions(self) -> Positions:
        """The axes that some factor has."""
        return tuple(sorted({position for factor in self.factors for position in factor.positions}))


def build(program: Program, kinds: Mapping[str, str]) -> Term:
    """The term of the first result of a program; `kinds` are those of its inputs."""
    return _Builder(program, kinds).run()


class _Builder:
    def __init__(self, program: Program, kinds: Mapping[str, str]) -> None:
        self.program, self.kinds = program, kinds
        self.terms = Terms()
        self.uses = _uses(program)
        self.shared: set[Term] = set()
        self.values: list[Value] = []

    def run(self) -> Term:
        for k, item in enumerate(self.program.instructions):
            value = self._value(item, self._shape(k))
            if self.uses[k] > 1 and len(value.factors) > 1:
                value = _single(*self._joined(value))  # computed once
            self._note_uses(k, value)
            self.values.append(value)
        return self._whole(self.program.results[0])

    def _note_uses(self, k: Ref, value: Value) -> None:
        """Remember whether the terms of a value may be taken apart."""
        terms = {factor.term for factor in value.factors}
        if self.uses[k] > 1:
            self.shared |= terms
            self.terms.alone -= terms
        else:
            self.terms.alone |= terms - self.shared

    def _shape(self, k: Ref) -> Shape:
        return self.program.shapes[k]

    def _value(self, item: Instruction, shape: Shape) -> Value:
        match item:
            case Load():
                return _full(self.terms.make(t.Argument, shape, item.name, self.kinds[item.name]))
            case Literal():
                return self._literal(item, shape)
            case Count():
                return _full(self.terms.make(t.Count, (), item.size))
            case Scale():
                return self.values[item.source].times(item.factor)
            case View():
                return self._view(item, shape)
            case Reduce():
                apart, term = self._apart(item.source)
                return apart.by(_full(self.terms.make(t.Reduce, shape, term, item.positions)))
            case Contract():
                return self._contract(item)
            case Combine():
                return self._combine(item, shape)
            case CallMap():
                return self._function(item)
            case CallApply(name="foreign"):
                raise MissingKernelError(
                    f"the function {item.params[0].name} is no formula and cannot be written in another "
                    "language; write it with operations that hesse knows, or export what is around it"
                )
            case CallApply():
                operands = tuple(map(self._whole, item.sources))
                return _full(self.terms.make(t.Call, shape, item.name, item.params, operands))
        assert_never(item)

    def _literal(self, item: Literal, shape: Shape) -> Value:
        if item.value.size > LARGEST_LITERAL:
            raise ArgumentError(
                f"the expression holds a constant array of {item.value.size} entries, and at most "
                f"{LARGEST_LITERAL} are written into code; make it a variable, so that it becomes an argument"
            )
        is_real = item.value.dtype.kind == "f"
        if not shape and is_real:
            return Value(float(item.value), ())
        return _full(self.terms.make(t.Literal, shape, item.value, "real" if is_real else "integer"))

    # Values as terms.

    def _joined(self, value: Value) -> tuple[Term, Positions]:
        """A value as one term, and the axes that the term has."""
        positions = value.positions
        arrays = sorted((f for f in value.factors if f.positions), key=lambda f: min(f.positions))
        scalars = sorted((f for f in value.factors if not f.positions), key=lambda f: bool(f.term.operands))
        if [(len(f.positions), f.power) for f in arrays] == [(1, 1)] * 2 and len(positions) == 2:
            left, right = arrays
            outer = self.terms.make(t.Outer, left.term.shape + right.term.shape, left.term, right.term)
            arrays = [Factor(outer, positions)]
        powers = [
            (self.terms.aligned(factor.term, factor.positions, positions), factor.power)
            for factor in (*scalars, *arrays)
        ]
        above = [term for term, power in powers for _ in range(power)]
        below = [term for term, power in powers for _ in range(-power)]
        term = self.terms.product(value.number, above, below)
        if (len(powers) > 1 or value.number != 1) and term not in self.shared:
            self.terms.alone.add(term)  # it was made for one use
        return term, positions

    def _whole(self, k: Ref) -> Term:
        """The array of a value, repeated where it repeats."""
        return self._repeated(self.values[k], self._shape(k))

    def _repeated(self, value: Value, shape: Shape) -> Term:
        term, positions = self._joined(value)
        if len(positions) == len(shape):
            return term
        return self.terms.make(t.Broadcast, shape, self.terms.expanded(term, positions, len(shape)))

    def _apart(self, k: Ref) -> tuple[Value, Term]:
        """A value as a number and scalars, which any linear operation leaves in front, and an array."""
        value = self.values[k]
        rest = Value(1.0, tuple(factor for factor in value.factors if factor.positions))
        if len(rest.positions) < len(self._shape(k)):
            rest = Value(1.0, value.factors)
        front = Value(value.number, tuple(factor for factor in value.factors if factor not in rest.factors))
        return front, self._repeated(rest, self._shape(k))

    # Instructions.

    def _function(self, item: CallMap) -> Value:
        values = [self.values[source] for source in item.sources]
        if item.name == "reciprocal":
            (value,) = values
            if value.number == 1 and len(value.factors) == 1 and value.factors[0].power > 0:
                (factor,) = value.factors
                return Value(1.0, (factor._replace(power=-factor.power),))
            return Value(1.0, (Factor(*self._joined(value), -1),))
        positions, operands = self._aligned(values)
        shape = t.broadcast_shape(operands)
        return _single(self.terms.make(t.Function, shape, item.name, tuple(operands)), positions)

    def _aligned(self, values: Sequence[Value]) -> tuple[Positions, list[Term]]:
        """Values of one shape as operands of an element-wise operation, on the axes that not all repeat."""
        joined = list(map(self._joined, values))
        positions = tuple(sorted({position for _, own in joined for position in own}))
        return positions, [self.terms.aligned(term, own, positions) for term, own in joined]

    def _view(self, item: View, shape: Shape) -> Value:
        value, old = self.values[item.source], self._shape(item.source)
        read = {position: item.axes[position] for position in value.positions}
        labels = {position: axis.label for position, axis in read.items() if axis.is_label}
        if len(set(labels.values())) == len(read) and all(old[p] == shape[k] for p, k in labels.items()):
            return value.moved(labels)  # its axes in another order; what repeats repeats
        apart, term = self._apart(item.source)
        return apart.by(_full(self.terms.make(t.View, shape, term, item.axes)))

    def _contract(self, item: Contract) -> Value:
        a, b, labels = item.left_labels, item.right_labels, item.labels
        if not item.is_sum:
            left = self.values[item.left].moved(list(map(labels.index, a)))
            right = self.values[item.right].moved(list(map(labels.index, b)))
            return self._grouped(left, right).by(self._grouped(right, left))
        if set(a) == set(b) and (labels or len(a) > 1):  # entries are multiplied and summed
            product = self.values[item.left].by(self.values[item.right].moved(list(map(a.index, b))))
            front = Value(product.number, tuple(f for f in product.factors if not f.positions))
            rest = Value(1.0, tuple(f for f in product.factors if f.positions))
            whole = self._repeated(rest, self._shape(item.left))
            axes = tuple(k for k, label in enumerate(a) if label not in labels)
            kept = [label for label in a if label in labels]
            shape = [size for k, size in enumerate(whole.shape) if k not in axes]
            total = self.terms.make(t.Reduce, shape, whole, axes)
            return front.by(_single(total, tuple(map(labels.index, kept))))
        front, left_term = self._apart(item.left)
        more, right_term = self._apart(item.right)
        term, found = multiplied_pair(self.terms, (left_term, a), (right_term, b), labels)
        return front.by(more).by(_single(term, tuple(map(labels.index, found))))

    def _grouped(self, value: Value, other: Value) -> Value:
        """A factor of a product; what it consists of is multiplied first if the product has more axes."""
        arrays = tuple(factor for factor in value.factors if factor.positions)
        if len(arrays) < 2 or set(value.positions) >= set(other.positions):
            return value
        scalars = tuple(factor for factor in value.factors if not factor.positions)
        return Value(value.number, scalars).by(_single(*self._joined(Value(1.0, arrays))))

    def _combine(self, item: Combine, shape: Shape) -> Value:
        dense: list[Value] = []
        placed: list[Term] = []
        placements: list[Placement] = []
        for part in item.terms:
            value = self.values[part.source].times(part.factor)
            if part.is_dense(cast(Sizes, shape)):
                places = [axis.label for axis in part.output]
                dense.append(value.moved([places.index(label) for label in part.labels]))
            elif _is_diagonal(part, shape):
                dense.append(self._diagonal(value, part, shape))
            else:
                placed.append(self._repeated(value, self._shape(part.source)))
                placements.append(_placement(part))
        base = self._added(dense)
        if not placed:
            return base
        whole = self._repeated(base, shape) if dense else None
        return _full(self.terms.make(t.Place, shape, whole, tuple(placed), tuple(placements)))

    def _diagonal(self, value: Value, part: Placed, shape: Shape) -> Value:
        if not part.labels:
            return value.by(_full(self.terms.make(t.Identity, shape)))
        body = self._repeated(value, self._shape(part.source))
        return _full(self.terms.make(t.Diagonal, shape, body))

    def _added(self, values: Sequence[Value]) -> Value:
        if len(values) < 2:
            return values[0] if values else Value(0.0, ())
        positions, operands = self._aligned(values)
        return _single(self.terms.make(t.Sum, t.broadcast_shape(operands), tuple(operands)), positions)


def _uses(program: Program) -> list[int]:
    """How often each value is used; what is only scaled or viewed is used by those who use that."""
    uses = [program.results.count(k) for k in range(len(program.instructions))]
    for k in reversed(range(len(uses))):
        item = program.instructions[k]
        is_same = isinstance(item, Scale | View) or (isinstance(item, Combine) and len(item.terms) == 1)
        for source in sources(item):
            uses[source] += uses[k] if is_same else 1
    return uses


def _full(term: Term) -> Value:
    return _single(term, tuple(range(term.rank)))


def _single(term: Term, positions: Positions) -> Value:
    return Value(1.0, (Factor(term, positions),))


def _is_diagonal(part: Placed, shape: Shape) -> bool:
    if len(shape) != 2 or part.output[0] != part.output[1] or not part.output[0].is_label:
        return False
    return shape[0] == shape[1] == part.ranges[part.output[0].label]


def _placement(part: Placed) -> Placement:
    """Where a term goes; labels of range one, which only say that an axis has one entry, are left out."""
    output = [
        constant_axis(0) if a.is_label and part.ranges[a.label] == 1 and a.label not in part.labels else a
        for a in part.output
    ]
    numbers = {label: k for k, label in enumerate(first_labels(output))}
    return Placement(
        tuple(numbers[label] for label in part.labels),
        tuple(axis.rename(numbers.__getitem__) for axis in output),
        tuple(part.ranges[label] for label in numbers),
    )
