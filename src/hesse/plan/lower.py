"""From nodes to instructions: contraction orders, cores computed once, patterns placed last."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from hesse.cost import Machine, concrete, contraction_path, first_labels
from hesse.errors import ShapeError
from hesse.ir import (
    PATTERNS,
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Map,
    Node,
    Product,
    Size,
    Variable,
    core,
    core_and_pattern,
    is_sparse,
    label_axis,
    plain_axes,
    topological,
    unscaled,
)
from hesse.ops.foreign import FOREIGN, PICK
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, General
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Count,
    Draft,
    Instruction,
    Literal,
    Load,
    Placed,
    Program,
    Reduce,
    Ref,
    Scale,
    Sizes,
    View,
)
from hesse.plan.swaps import as_written, swappable

Labels = tuple[int, ...]
MOST_TERMS = 256
"""Longer sums are computed in several steps: some thousand terms in one expression end Python's compiler."""


def lower(roots: Sequence[Node], machine: Machine) -> Program:
    """The straight-line program that computes the roots.

    Sizes may be names: such a program can be written down, but not run.
    """
    return _Lowering(roots, machine).run()


def require_numbers(roots: Sequence[Node]) -> None:
    """Refuse sizes that are names: arrays have numbers."""
    symbolic = sorted({size for node in topological(roots) for size in node.shape if isinstance(size, str)})
    if symbolic:
        raise ShapeError(
            f"the sizes {', '.join(symbolic)} have no value; give them, or arrays that have them"
        )


class _Lowering(Draft):
    def __init__(self, roots: Sequence[Node], machine: Machine) -> None:
        super().__init__()
        self.roots = roots
        self.machine = machine
        self.order = topological(roots)
        self.wanted = _wanted(self.order, roots)
        self.core_uses = _core_uses(self.order, self.wanted)
        self.known: dict[tuple[Instruction, Sizes], Ref] = {}
        self.refs: dict[Node, Ref] = {}
        self.sums: dict[tuple[Sizes, frozenset[tuple[Node, float]]], Ref] = {}
        """Sums by their shapes, terms and factors: the negative of one is not computed again."""

    def run(self) -> Program:
        for node in self.order:
            if node in self.wanted:
                self.refs[node] = self._node(node)
        return self.program([self.refs[root] for root in self.roots], len(self.order))

    def _emit(self, instruction: Instruction, shape: Sequence[int], flops: float = 0.0) -> Ref:
        # arrays do not hash; constants are interned already
        key = None if isinstance(instruction, Literal) else (instruction, tuple(shape))
        known = None if key is None else self.known.get(key)
        if known is None:
            known = self.add(instruction, tuple(shape), flops)
            if key is not None:
                self.known[key] = known
        return known

    def _node(self, node: Node) -> Ref:
        shape = cast(Sizes, node.shape)
        node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
        match node:
            case Variable():
                return self._emit(Load(node.name), shape)
            case Constant():
                return self._emit(Literal(node.value), shape)
            case Map():
                flops = ELEMENTWISE[node.name].flops * _entries(shape)
                return self._emit(CallMap(node.name, self._sources(node)), shape, flops)
            case Apply(name="foreign"):
                rule, number = node.params  # one call for all results: equal instructions are one
                call = self._emit(CallApply(FOREIGN, (rule,), self._sources(node)), (), _entries(shape))
                return self._emit(CallApply(PICK, (number,), (call,)), shape)
            case Apply():
                record = OPERATIONS[node.name]
                shapes = tuple(tuple(map(concrete, operand.shape)) for operand in node.operands)
                counts = record.flops if isinstance(record, General) else None
                work = counts(shapes) if counts else float(_entries(shape))
                return self._emit(CallApply(node.name, node.params, self._sources(node)), shape, work)
            case Einsum():
                return self._combine([self._placed(node, with_sign=True)], shape, is_sum=False)
            case Add():
                terms = [unscaled(term) for term in node.operands]
                negative = self.sums.get((shape, frozenset([(base, -factor) for base, factor in terms])))
                if negative is not None:
                    return self._scaled(negative, -1.0)
                total = self.sums[shape, frozenset(terms)] = self._sum(node, shape)
                return total

    def _sum(self, node: Add, shape: Sizes) -> Ref:
        """A sum; of many large terms each is added as soon as it is known, and done with."""
        sparse = [term for term in node.operands if is_sparse(term)]
        whole = [term for term in node.operands if not is_sparse(term)]
        # a sum subtracts what is negative, but must begin with something
        begins = [term for term in whole if not _is_negative(term)]
        signed = whole[:1] if whole and not begins else []
        count, is_small = len(node.operands), _entries(shape) < self.machine.large_sum
        if count <= 2 or (is_small and count <= MOST_TERMS):
            placed = [self._placed(term, with_sign=term in signed) for term in node.operands]
            return self._combine(placed, shape, is_sum=True)
        rest = [term for term in whole if _is_negative(term) and term not in signed]
        terms: list[Placed] = []
        cores: set[Node] = set()
        total = None
        for term in [*signed, *begins, *rest, *sparse]:
            inside = core(term) if isinstance(term, Einsum) else term
            takes_memory = (
                not is_small and inside not in cores and self._takes_memory(terms[total is not None :])
            )
            if len(terms) == MOST_TERMS or (len(terms) > 1 and takes_memory):
                total = self._combine(terms, shape, is_sum=True, is_begun=total is not None)
                labels = tuple(range(len(shape)))
                terms = [Placed(total, 1.0, labels, plain_axes(len(shape)), shape)]
                cores.clear()
            terms.append(self._placed(term, with_sign=term in signed))
            cores.add(inside)
        return self._combine(terms, shape, is_sum=True, is_begun=total is not None)

    def _takes_memory(self, terms: list[Placed]) -> bool:
        return any(_entries(self.shapes[term.source]) >= self.machine.large_sum for term in terms)

    def _sources(self, node: Node) -> tuple[Ref, ...]:
        return tuple(self.refs[operand] for operand in node.operands)

    def _combine(self, terms: list[Placed], shape: Sizes, is_sum: bool, is_begun: bool = False) -> Ref:
        """Terms put where they belong; the first one of a sum that `is_begun` costs nothing."""
        if len(terms) == 1 and not is_sum and terms[0].is_dense(shape):
            (term,) = terms
            order = tuple(axis.label for axis in term.output)
            if set(order) == set(term.labels):  # nothing repeats: a transposed view
                return self._scaled(
                    self._view(term.source, tuple(map(label_axis, term.labels)), order, term.ranges),
                    term.factor,
                )
        counts = Counter([(term.source, abs(term.factor)) for term in terms if abs(term.factor) != 1])
        terms = [
            self._scaled_first(term)
            if abs(term.factor) != 1
            and (
                counts[term.source, abs(term.factor)] > 1
                or isinstance(self.instructions[term.source], Literal)
            )
            else term
            for term in terms
        ]
        flops = sum(
            _entries(self.shapes[term.source]) * (is_sum + (abs(term.factor) != 1))
            for term in terms[is_begun:]
        )
        return self._emit(Combine(tuple(terms), is_sum), shape, flops)

    def _scaled_first(self, term: Placed) -> Placed:
        size = abs(term.factor)
        return replace(term, source=self._scaled(term.source, size), factor=math.copysign(1.0, term.factor))

    def _scaled(self, source: Ref, factor: float) -> Ref:
        if factor == 1:
            return source
        item = self.instructions[source]
        if isinstance(item, Literal):
            return self._emit(Literal(np.multiply(item.value, factor)), self.shapes[source])
        return self._emit(Scale(source, factor), self.shapes[source], _entries(self.shapes[source]))

    def _placed(self, node: Node, with_sign: bool) -> Placed:
        """A term of a sum as a core and where it goes; a term nobody else uses is not made whole first."""
        if not isinstance(node, Einsum):
            labels = tuple(range(node.rank))
            return Placed(self.refs[node], 1.0, labels, plain_axes(node.rank), cast(Sizes, node.shape))
        inside, pattern = core_and_pattern(node)
        labels = tuple(axis.label for axis in pattern.axes[0]) if pattern.axes else ()
        factor = pattern.scale
        if inside in self.refs:
            source = self.refs[inside]
        elif isinstance(inside, Einsum) and self.core_uses[inside] == 1:  # its layout and scale are free
            order = tuple([label for label in first_labels(pattern.output) if label in labels])
            within = factor if with_sign else abs(factor)
            source, factor = self._product(inside, tuple(map(labels.index, order)), within), factor / within
            labels = order
        else:
            assert isinstance(inside, Einsum)
            source = self.refs[inside] = self._product(inside, tuple(range(inside.rank)), 1.0)
        source = self._counted(source, labels, pattern)
        output, ranges = _with_unit_labels(pattern.output, cast(Sizes, pattern.ranges), node.shape)
        return Placed(source, factor, labels, output, ranges)

    def _counted(self, source: Ref, labels: Labels, pattern: Product) -> Ref:
        """A core times the sizes of the labels that it is summed over without having them (sizes by name)."""
        for label in sorted(set(range(len(pattern.ranges))).difference(labels, first_labels(pattern.output))):
            shape = self.shapes[source]
            axes = tuple(range(len(shape)))
            count = self._emit(Count(pattern.ranges[label]), ())
            source = self._emit(Contract(count, source, (), axes, axes), shape, _entries(shape))
        return source

    def _product(self, node: Einsum, order: Labels, factor: float) -> Ref:
        """A core with its axes in an order, times a factor applied where it costs least."""
        ranges = cast(Sizes, node.ranges)
        output = tuple(node.output[k].label for k in order)
        values: list[tuple[Ref, Labels]] = []
        for operand, axes in zip(node.operands, node.axes, strict=True):
            labels = first_labels(axes)
            values.append((self._view(self.refs[operand], axes, labels, ranges), labels))
        if not values:
            return self._scaled(self._emit(Literal(np.ones(())), ()), factor)
        smallest = min(range(len(values)), key=lambda k: _entries(self.shapes[values[k][0]]))
        before = _entries(self.shapes[values[smallest][0]]) < _entries(
            tuple([ranges[label] for label in output])
        )
        if factor != 1 and before:
            values[smallest] = (self._scaled(values[smallest][0], factor), values[smallest][1])
        groups = swappable(node) if node.rank == 2 or self.machine.larger_first else []
        source = self._contract_all(values, output, ranges, groups)
        return source if before else self._scaled(source, factor)

    def _contract_all(
        self,
        values: list[tuple[Ref, Labels]],
        output: Labels,
        ranges: Sizes,
        groups: Sequence[Labels],
    ) -> Ref:
        """The product of values, with labels of the output in `groups` that may be swapped."""
        inputs = tuple(labels for _, labels in values)
        for positions in contraction_path(inputs, output, tuple(map(concrete, ranges))):
            chosen = [values[k] for k in sorted(positions)]
            values = [value for k, value in enumerate(values) if k not in positions]
            needed = set(output).union(*[labels for _, labels in values])
            is_last = not values
            if is_last and len(output) > 2:
                output = as_written(output, groups, *[labels for _, labels in chosen])
            is_symmetric = is_last and len(output) == 2 and bool(groups)
            values.append(self._contract(chosen, needed, output, ranges, is_last, is_symmetric))
        ((source, labels),) = values
        source, labels = self._sum_out(source, labels, set(output))
        return self._view(source, tuple(map(label_axis, labels)), output, ranges)

    def _contract(
        self,
        chosen: list[tuple[Ref, Labels]],
        needed: set[int],
        output: Labels,
        ranges: Sizes,
        is_last: bool,
        is_symmetric: bool,
    ) -> tuple[Ref, Labels]:
        if len(chosen) == 1:
            return self._sum_out(*chosen[0], needed)
        (left, left_labels), (right, right_labels) = chosen
        left, left_labels = self._sum_out(left, left_labels, needed | set(right_labels))
        right, right_labels = self._sum_out(right, right_labels, needed | set(left_labels))
        kept = output if is_last else frozenset(needed)
        present, labels, a, b, c = _pair(left_labels, right_labels, kept, output)
        shape = [ranges[label] for label in labels]
        factor = 2.0 if len(present) > len(labels) else 1.0
        work = _entries(tuple([ranges[label] for label in present])) * factor
        # two matrices, one axis summed: the blocks below the diagonal are those above it
        halved = is_symmetric and len(present) == 3 == len(left_labels) + len(right_labels) - 1
        halved = halved and self.machine.halves(concrete(ranges[label]) for label in present)
        work = work * self.machine.halved_share if halved else work
        return self._emit(Contract(left, right, a, b, c, halved), shape, work), labels

    def _sum_out(self, source: Ref, labels: Labels, needed: set[int]) -> tuple[Ref, Labels]:
        if needed.issuperset(labels):
            return source, labels
        positions = tuple(k for k, label in enumerate(labels) if label not in needed)
        kept = tuple(label for label in labels if label in needed)
        shape = [size for k, size in enumerate(self.shapes[source]) if k not in positions]
        return self._emit(Reduce(source, positions), shape, _entries(self.shapes[source])), kept

    def _view(self, source: Ref, axes: tuple[Axis, ...], labels: Labels, ranges: Sizes) -> Ref:
        shape = tuple([ranges[label] for label in labels])
        if shape == self.shapes[source] and axes == tuple(map(label_axis, labels)):
            return source
        names = {label: k for k, label in enumerate(labels)}  # equal views must look equal
        renamed = tuple(axis.rename(names.__getitem__) for axis in axes)
        return self._emit(View(source, renamed, tuple(range(len(labels))), shape), shape)


def _wanted(order: Sequence[Node], roots: Sequence[Node]) -> set[Node]:
    """Nodes that are needed as arrays: a product inside a sum is added where it belongs instead."""
    wanted = set(roots)
    for node in order:
        if isinstance(node, Add):
            wanted.update([operand for operand in node.operands if not isinstance(operand, Einsum)])
        else:
            wanted.update(node.operands)
    return wanted


def _core_uses(order: Sequence[Node], wanted: set[Node]) -> dict[Node, int]:
    """How often each core is asked for, by products and by nodes that use it itself."""
    counts: dict[Node, int] = {}
    for node in order:
        if isinstance(node, Einsum):
            inside = core(node)
            again = node in wanted and inside is not node and inside in wanted
            counts[inside] = counts.get(inside, 0) + 1 + again
    return counts


def _with_unit_labels(
    output: tuple[Axis, ...], ranges: Sizes, shape: Sequence[Size]
) -> tuple[tuple[Axis, ...], Sizes]:
    """Axes of size one as labels of range one, so that a term that covers the result is seen to."""
    axes = list(output)
    for k, (axis, size) in enumerate(zip(output, shape, strict=True)):
        if size == 1 and not axis.terms:
            axes[k] = label_axis(len(ranges))
            ranges = (*ranges, 1)
    return tuple(axes), ranges


class _Pair(NamedTuple):
    """The labels of two values and of their product; then of each as they are in the instruction."""

    present: Labels
    labels: Labels
    left: Labels
    right: Labels
    product: Labels


@functools.lru_cache(PATTERNS)
def _pair(left: Labels, right: Labels, kept: Labels | frozenset[int], output: Labels) -> _Pair:
    """The labels of a product of which some are kept: in an order, or in that of the output and behind it."""
    present = dict.fromkeys(left + right)
    # axes of the result in its order, then those that a later product sums: matrices without copying
    places = {label: k for k, label in enumerate(output)}
    if isinstance(kept, frozenset):
        kept = tuple(sorted([k for k in present if k in kept], key=lambda k: places.get(k, len(places))))
    names = {label: k for k, label in enumerate(present)}  # equal contractions must look equal
    named = [tuple([names[label] for label in part]) for part in (left, right, kept)]
    return _Pair(tuple(present), kept, *named)


def _is_negative(term: Node) -> bool:
    return isinstance(term, Einsum) and term.scale < 0


@functools.lru_cache(PATTERNS)
def _entries(shape: tuple[Size, ...]) -> int:
    return math.prod(map(concrete, shape))
