"""Axes of one entry are left out where nobody needs them.

`np.sqrt(np.sum(x**2, 1, keepdims=True))` has such an axis only to be broadcast. Without it, what is computed
from it entry by entry are vectors: a small array takes half the time, and no views are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hesse.ir import constant_axis, label_axis
from hesse.plan.program import (
    CallMap,
    Combine,
    Draft,
    Instruction,
    Placed,
    Program,
    Ref,
    Scale,
    Sizes,
    View,
    sources,
    with_sources,
)

Value = TypeVar("Value")


def without_unit_axes(program: Program) -> Program:
    """The program with element-wise functions, sums and multiples of values without such axes."""
    chosen = _chosen(program)
    if not chosen:
        return program
    writer = _Writer(program, chosen)
    for k, item in enumerate(program.instructions):
        writer.write(k, item)
    return writer.program([writer.numbers[k] for k in program.results], program.node_count)


def _chosen(program: Program) -> set[Ref]:
    """The values that lose their axes of one entry: those that are read without them."""
    chosen = {
        k
        for k, item in enumerate(program.instructions)
        if isinstance(item, CallMap | Combine | Scale)
        and 1 in program.shapes[k]
        and set(program.shapes[k]) != {1}
    }
    chosen -= set(program.results)
    for k in reversed(range(len(program.instructions))):  # all that reads a value comes after it
        item = program.instructions[k]
        for source in chosen.intersection(sources(item)):
            if not _may_read(item, program.shapes[source], k in chosen):
                chosen.discard(source)
    return chosen


def _may_read(item: Instruction, shape: Sizes, is_chosen: bool) -> bool:
    """Whether an instruction can read a value without its axes of one entry."""
    match item:
        case View():
            return all(not axis.terms for axis, size in zip(item.axes, shape, strict=True) if size == 1)
        case Combine():
            return True
        case CallMap() | Scale():
            return is_chosen
        case _:
            return False


class _Writer(Draft):
    """The instructions written so far, and which of them computes which value."""

    def __init__(self, program: Program, chosen: set[Ref]) -> None:
        super().__init__()
        self._old, self._chosen = program, chosen
        self.numbers: dict[Ref, Ref] = {}
        self._known: dict[Instruction, Ref] = {}
        """Functions and views: two that differed in such an axis may be one now."""

    def write(self, k: Ref, item: Instruction) -> None:
        """Write an instruction, for a value without axes of one entry if it is chosen."""
        shape, is_chosen = self._old.shapes[k], k in self._chosen
        if isinstance(item, View) and item.source in self._chosen:
            item = replace(item, axes=self._long(item.source, item.axes))
            if item.axes == tuple(map(label_axis, item.labels)) and shape == self._own_shape(item.source):
                self.numbers[k] = self.numbers[item.source]  # all of it as it is
                return
        read = [self._narrow(source) if is_chosen else self.numbers[source] for source in sources(item)]
        if isinstance(item, Combine):
            item = replace(item, terms=tuple([self._placed(term, shape, is_chosen) for term in item.terms]))
        own = self._own_shape(k)
        if is_chosen and isinstance(item, Combine) and self._is_whole(item, read, own):
            self.numbers[k] = read[0]
        else:
            self.numbers[k] = self._once(with_sources(item, read), own, self._old.flops[k])

    def _own_shape(self, k: Ref) -> Sizes:
        """The shape of a value, without axes of one entry if it is chosen."""
        shape = self._old.shapes[k]
        return _long(shape) if k in self._chosen else shape

    def _long(self, source: Ref, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """What belongs to the axes of a value that have more entries than one."""
        pairs = zip(values, self._old.shapes[source], strict=True)
        return tuple([value for value, size in pairs if size != 1])

    def _placed(self, term: Placed, shape: Sizes, is_chosen: bool) -> Placed:
        labels, output = term.labels, term.output
        if is_chosen or term.source in self._chosen:
            labels = self._long(term.source, labels)
        if is_chosen:
            output = tuple([axis for axis, size in zip(output, shape, strict=True) if size != 1])
        return replace(term, labels=labels, output=output)

    def _is_whole(self, item: Combine, read: Sequence[Ref], shape: Sizes) -> bool:
        """Whether a sum is its only term as it is."""
        if len(item.terms) != 1 or self.shapes[read[0]] != shape:
            return False
        (term,) = item.terms
        return term.output == tuple(map(label_axis, term.labels)) and term.factor == 1

    def _narrow(self, source: Ref) -> Ref:
        """A value without axes of one entry."""
        shape, number = self._old.shapes[source], self.numbers[source]
        if source in self._chosen or 1 not in shape:
            return number
        long = _long(shape)
        labels = iter(range(len(long)))
        axes = tuple([constant_axis(0) if size == 1 else label_axis(next(labels)) for size in shape])
        return self._once(View(number, axes, tuple(range(len(long))), long), long, 0.0)

    def _once(self, item: Instruction, shape: Sizes, flops: float) -> Ref:
        if isinstance(item, CallMap | View):
            if item not in self._known:
                self._known[item] = self.add(item, shape, flops)
            return self._known[item]
        return self.add(item, shape, flops)


def _long(shape: Sizes) -> Sizes:
    return tuple([size for size in shape if size != 1])
