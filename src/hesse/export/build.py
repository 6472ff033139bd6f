"""From nodes to terms: cores computed once, broadcasts left to operations, patterns placed last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from hesse.cost import first_labels
from hesse.errors import ArgumentError
from hesse.export.contract import Contraction, Labels
from hesse.export.terms import (
    Argument,
    Broadcast,
    Call,
    Count,
    Diagonal,
    Function,
    Identity,
    Literal,
    Place,
    Placement,
    Sum,
    Term,
    Terms,
    View,
    broadcast_shape,
)
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
    core_and_pattern,
    label_axis,
    topological,
    use_counts,
)

LARGEST_LITERAL = 1000
"""Constant arrays with more entries than this are not written into code."""


class Value(NamedTuple):
    """A node as a term: axis k of the term is axis `positions[k]` of the node, which repeats along others."""

    term: Term
    positions: tuple[int, ...]


def build(root: Node) -> Term:
    """The term that computes a node."""
    return _Builder(root).run()


class _Builder:
    def __init__(self, root: Node) -> None:
        self.terms = Terms()
        self.root = root
        self.order = topological([root])
        self.uses = use_counts(self.order, [root])
        self.values: dict[Node, Value] = {}
        self.cores: dict[Node, Term] = {}

    def run(self) -> Term:
        for node in self.order:
            self.values[node] = self._value(node)
            self._count_uses(node, self.values[node].term)
        return self._whole(self.root)

    def _count_uses(self, node: Node, term: Term) -> None:
        """Remember whether the term of a node may be taken apart."""
        if self.uses[node] == 1:
            self.terms.alone.add(term)
        else:
            self.terms.alone.discard(term)

    def _value(self, node: Node) -> Value:
        node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
        match node:
            case Variable():
                return _full(self.terms.make(Argument, node.shape, node.name, node.kind))
            case Constant():
                return _full(self._literal(node))
            case Map():
                return self._function(node)
            case Apply():
                operands = tuple(map(self._whole, node.operands))
                return _full(self.terms.make(Call, node.shape, node.name, node.params, operands))
            case Einsum():
                return self._sum([node], node.shape)
            case Add():
                return self._sum(node.operands, node.shape)

    def _literal(self, node: Constant) -> Term:
        if node.value.size > LARGEST_LITERAL:
            raise ArgumentError(
                f"the expression holds a constant array of {node.value.size} entries, and at most "
                f"{LARGEST_LITERAL} are written into code; make it a variable, so that it becomes an argument"
            )
        if not node.shape and node.kind == "real":
            return self.terms.number(float(node.value))
        return self.terms.make(Literal, node.shape, node.value, node.kind)

    def _whole(self, node: Node) -> Term:
        """The array of a node, repeated where it repeats."""
        return self._broadcast(self.values[node], node.shape)

    def _broadcast(self, value: Value, shape: Shape) -> Term:
        if len(value.positions) == len(shape):
            return value.term
        return self.terms.make(Broadcast, shape, self.terms.expanded(*value, len(shape)))

    def _function(self, node: Map) -> Value:
        values = [self.values[operand] for operand in node.operands]
        positions, operands = self._aligned(values)
        if node.name == "reciprocal":
            return Value(self.terms.product(1.0, [], operands), positions)
        return Value(
            self.terms.make(Function, broadcast_shape(operands), node.name, tuple(operands)), positions
        )

    def _aligned(self, values: Sequence[Value]) -> tuple[tuple[int, ...], list[Term]]:
        """Values of one shape as operands of an element-wise operation, on the axes that not all repeat."""
        positions = tuple(sorted({position for value in values for position in value.positions}))
        return positions, [self.terms.aligned(value.term, value.positions, positions) for value in values]

    def _sum(self, nodes: Sequence[Node], shape: Shape) -> Value:
        dense: list[Value] = []
        sources: list[Term] = []
        placements: list[Placement] = []
        for node in nodes:
            found = self._term(node) if isinstance(node, Einsum) else self.values[node]
            if isinstance(found, Value):
                dense.append(found)
            else:
                sources.append(found[0])
                placements.append(found[1])
        base = self._added(dense) if dense else None
        if sources:
            whole = None if base is None else self._broadcast(base, shape)
            return _full(self.terms.make(Place, shape, whole, tuple(sources), tuple(placements)))
        if base is None:
            return Value(self.terms.number(0.0), ())
        return base

    def _added(self, values: list[Value]) -> Value:
        if len(values) == 1:
            return values[0]
        positions, operands = self._aligned(values)
        return Value(self.terms.make(Sum, broadcast_shape(operands), tuple(operands)), positions)

    def _term(self, node: Einsum) -> Value | tuple[Term, Placement]:
        """A product as a value, or as the term to be placed and where."""
        core, pattern = core_and_pattern(node)
        inner = range(core.rank)
        counts = [
            self.terms.make(Count, (), size)
            for label, size in enumerate(pattern.ranges)
            if label not in inner and label not in first_labels(pattern.output) and isinstance(size, str)
        ]
        output = _without_units(pattern.output, node.shape)
        labels = tuple(label for label in first_labels(pattern.output) if label in inner)
        body = self.terms.product(1.0, [*counts, self._core(core, labels, pattern.scale)])
        plain = [axis for axis in output if axis is not None]
        if _is_dense(plain, pattern.ranges, node.shape, output):
            positions = tuple(k for k, axis in enumerate(output) if axis is not None and axis.label in inner)
            return Value(body, positions)
        if node.rank == 2 and len(plain) == 2 and _is_diagonal(plain, pattern.ranges, node.shape):
            return _full(self._diagonal(body, node.shape))
        numbers = {label: k for k, label in enumerate(first_labels(pattern.output))}
        placement = Placement(
            tuple(numbers[label] for label in labels),
            tuple(axis.rename(numbers.__getitem__) for axis in pattern.output),
            tuple(pattern.ranges[label] for label in numbers),
        )
        return body, placement

    def _diagonal(self, body: Term, shape: Shape) -> Term:
        if body.rank == 0:
            return self.terms.product(1.0, [body, self.terms.make(Identity, shape)])
        return self.terms.make(Diagonal, shape, body)

    def _core(self, core: Node, order: Labels, scale: float) -> Term:
        """The core of a product with its axes in an order, times a number."""
        if isinstance(core, Einsum) and self.uses.get(core, 0) <= 1:  # free to choose its layout
            return self.terms.scaled(
                scale, self._contracted(core, tuple(core.output[k].label for k in order))
            )
        if not isinstance(core, Einsum):
            whole = self._whole(core)
        else:
            if core not in self.cores:
                self.cores[core] = self._contracted(core, tuple(axis.label for axis in core.output))
                self._count_uses(core, self.cores[core])
            whole = self.cores[core]
        return self.terms.product(scale, [self.terms.permuted(whole, order)])

    def _contracted(self, core: Einsum, output: Labels) -> Term:
        values = []
        for operand, axes in zip(core.operands, core.axes, strict=True):
            labels = first_labels(axes)
            values.append((self._view(self._whole(operand), axes, labels, core.ranges), labels))
        return Contraction(self.terms, core.ranges).product(values, output)

    def _view(self, term: Term, axes: tuple[Axis, ...], labels: Labels, ranges: Sequence[Size]) -> Term:
        shape = tuple(ranges[label] for label in labels)
        if axes == tuple(map(label_axis, labels)) and shape == term.shape:
            return term
        numbers = {label: k for k, label in enumerate(labels)}
        return self.terms.make(View, shape, term, tuple(axis.rename(numbers.__getitem__) for axis in axes))


def _full(term: Term) -> Value:
    return Value(term, tuple(range(term.rank)))


def _without_units(output: Sequence[Axis], shape: Shape) -> list[Axis | None]:
    """The axes of a result; None for those of size 1, along which everything repeats."""
    return [None if size == 1 and not axis.terms else axis for axis, size in zip(output, shape, strict=True)]


def _is_dense(plain: list[Axis], ranges: Sequence[Size], shape: Shape, output: Sequence[Axis | None]) -> bool:
    """Whether the axes are distinct labels that cover the result."""
    covered = all(
        axis is None or (axis.is_label and ranges[axis.label] == size)
        for axis, size in zip(output, shape, strict=True)
    )
    return covered and len({axis.label for axis in plain}) == len(plain)


def _is_diagonal(axes: list[Axis], ranges: Sequence[Size], shape: Shape) -> bool:
    first, second = axes
    return first == second and first.is_label and shape[0] == shape[1] == ranges[first.label]
