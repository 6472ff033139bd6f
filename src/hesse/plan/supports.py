"""Zeros around values are not computed with: a sum of terms that lie in one box is made as that box.

A derivative by all parameters has an axis for them, along which most intermediates are zero outside of a few
positions. A product of such a value is zero there, too, and whoever adds it somewhere puts the box where it
belongs. Values that somebody needs whole (functions, records, results) are made whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hesse.ir import Axis, label_axis
from hesse.plan.program import (
    Combine,
    Contract,
    Draft,
    Instruction,
    Placed,
    Program,
    Reduce,
    Ref,
    Scale,
    Sizes,
    View,
    sources,
    with_sources,
)

WORTH_IT = 0.8
"""The share of an axis up to which its zeros are left out: to read a part of another factor may be a copy."""
FEWEST = 4
"""So many zeros are left out at least: it takes an instruction to read a part of another factor."""
Box = tuple[tuple[int, int], ...]
"""For each axis the first position of a value that may not be zero, and the one behind the last."""


def trimmed(program: Program) -> Program:
    """The program with sums as the boxes that hold their terms."""
    accepted = _accepted(program)
    trimming = _Trimming(program, accepted)
    return trimming.run() if any(map(trimming.is_begun, accepted)) else program


def _accepted(program: Program) -> set[Ref]:
    """Values of which everybody who reads them, or what is made of them, can read a box."""
    found = set(range(len(program.instructions))).difference(program.results)
    for ref in reversed(range(len(program.instructions))):
        item = program.instructions[ref]
        if isinstance(item, Combine) or (ref in found and _passes_boxes(item)):
            continue
        found.difference_update(sources(item))
    return found


def _passes_boxes(item: Instruction) -> bool:
    """Whether what is made of a box is a box."""
    if not isinstance(item, View):
        return isinstance(item, Contract | Reduce | Scale)
    labels = [label for axis in item.axes for label in axis.labels()]
    strides = {stride for axis in item.axes for _, stride in axis.terms}
    return len(set(labels)) == len(labels) and strides <= {1} and all(len(a.terms) < 2 for a in item.axes)


class _Trimming(Draft):
    """The program made anew, with boxes of values."""

    def __init__(self, program: Program, accepted: set[Ref]) -> None:
        super().__init__()
        self.old, self.accepted = program, accepted
        self.new: dict[Ref, Ref] = {}
        self.boxes: dict[Ref, Box] = {}
        """The boxes of values that are not made whole."""
        self.whole: dict[Ref, Ref] = {}

    def is_begun(self, ref: Ref) -> bool:
        """Whether a sum of whole values is a box."""
        item = self.old.instructions[ref]
        return isinstance(item, Combine) and self._hull(ref, item.terms) != self._all(ref)

    def run(self) -> Program:
        for ref, item in enumerate(self.old.instructions):
            found = self._made(ref, item)
            made, box = found or (self._reading_whole(item), self._all(ref))
            if box != self._all(ref):
                self.boxes[ref] = box
            shape = tuple([stop - start for start, stop in box])
            share = math.prod(shape) / max(math.prod(self.old.shapes[ref]), 1)
            self.new[ref] = self.add(made, shape, self.old.flops[ref] * share)
        return self.program([self.new[ref] for ref in self.old.results], self.old.node_count)

    def _made(self, ref: Ref, item: Instruction) -> tuple[Instruction, Box] | None:
        """The instruction for boxes and the box of its value; None if it must read whole values."""
        if isinstance(item, Combine):
            return self._sum(ref, item)
        if not any(source in self.boxes for source in sources(item)):
            return with_sources(item, [self.new[source] for source in sources(item)]), self._all(ref)
        match item:
            case Contract():
                return self._product(item)
            case View():
                return self._view(item)
            case Scale():
                return replace(item, source=self.new[item.source]), self._box(item.source)
            case Reduce():
                kept = [b for k, b in enumerate(self._box(item.source)) if k not in item.positions]
                return replace(item, source=self.new[item.source]), tuple(kept)
            case _:
                return None

    def _sum(self, ref: Ref, item: Combine) -> tuple[Instruction, Box]:
        terms = [self._term(term) for term in item.terms]
        box = self._hull(ref, terms) if ref in self.accepted else self._all(ref)
        back = [-start for start, _ in box]
        placed = [replace(term, output=_moved(term.output, back)) for term in terms]
        return replace(item, terms=tuple(placed)), box

    def _term(self, term: Placed) -> Placed:
        """A term with the box of its source."""
        box = dict(zip(term.labels, self._box(term.source), strict=True))
        starts = {label: start for label, (start, _) in box.items()}
        ahead = [sum(stride * starts.get(k, 0) for k, stride in axis.terms) for axis in term.output]
        ranges = list(term.ranges)
        for label, (start, stop) in box.items():
            ranges[label] = stop - start
        output = _moved(term.output, ahead)
        return replace(term, source=self.new[term.source], output=output, ranges=tuple(ranges))

    def _hull(self, ref: Ref, terms: Sequence[Placed]) -> Box:
        """The box around all terms, along axes of which it is a part that is worth it."""
        shape = self.old.shapes[ref]
        box = []
        for k, size in enumerate(shape):
            ends = [_ends(term.output[k], term.ranges) for term in terms]
            start, stop = min([a for a, _ in ends], default=0), max([b for _, b in ends], default=size)
            is_part = stop - start <= min(WORTH_IT * size, size - FEWEST)
            box.append((start, stop) if is_part else (0, size))
        return tuple(box)

    def _product(self, item: Contract) -> tuple[Instruction, Box] | None:
        common: dict[int, tuple[int, int]] = {}
        for source, labels in ((item.left, item.left_labels), (item.right, item.right_labels)):
            for label, (start, stop) in zip(labels, self._box(source), strict=True):
                other = common.get(label, (start, stop))
                common[label] = max(start, other[0]), min(stop, other[1])
        if any(start >= stop for start, stop in common.values()):
            return None  # it is zero
        left = self._part(item.left, [common[label] for label in item.left_labels])
        right = self._part(item.right, [common[label] for label in item.right_labels])
        made = replace(item, left=left, right=right, is_symmetric=False)
        return made, tuple([common[label] for label in item.labels])

    def _part(self, ref: Ref, box: Sequence[tuple[int, int]]) -> Ref:
        """A part of a value."""
        own = self._box(ref)
        if own == tuple(box):
            return self.new[ref]
        inside = zip(box, own, strict=True)
        axes = tuple([Axis(((k, 1),), at[0] - start) for k, (at, (start, _)) in enumerate(inside)])
        shape = tuple([stop - start for start, stop in box])
        return self.add(View(self.new[ref], axes, tuple(range(len(shape))), shape), shape, 0.0)

    def _view(self, item: View) -> tuple[Instruction, Box] | None:
        seen = {label: (0, item.ranges[label]) for label in item.labels}
        axes = []
        for axis, (start, stop) in zip(item.axes, self._box(item.source), strict=True):
            first, last = 0, 1
            for label in axis.labels():
                size = item.ranges[label]
                first, last = max(start - axis.offset, 0), min(stop - axis.offset, size)
                seen[label] = first, last
            at = axis.offset + first - start
            if first >= last or not 0 <= at < stop - start:
                return None  # it is zero
            axes.append(Axis(axis.terms, at))
        box = tuple([seen[label] for label in item.labels])
        ranges = tuple([stop - start for start, stop in box])
        return View(self.new[item.source], tuple(axes), item.labels, ranges), box

    def _reading_whole(self, item: Instruction) -> Instruction:
        return with_sources(item, [self._whole(source) for source in sources(item)])

    def _whole(self, ref: Ref) -> Ref:
        """A value with the zeros around it."""
        if ref not in self.boxes:
            return self.new[ref]
        if ref not in self.whole:
            shape, labels = self.old.shapes[ref], tuple(range(len(self.boxes[ref])))
            output = _moved([label_axis(k) for k in labels], [start for start, _ in self.boxes[ref]])
            ranges = tuple([stop - start for start, stop in self.boxes[ref]])
            placed = Combine((Placed(self.new[ref], 1.0, labels, output, ranges),), is_sum=False)
            self.whole[ref] = self.add(placed, shape, 0.0)
        return self.whole[ref]

    def _box(self, ref: Ref) -> Box:
        return self.boxes.get(ref, self._all(ref))

    def _all(self, ref: Ref) -> Box:
        return tuple([(0, size) for size in self.old.shapes[ref]])


def _moved(axes: Sequence[Axis], steps: Sequence[int]) -> tuple[Axis, ...]:
    return tuple([Axis(axis.terms, axis.offset + step) for axis, step in zip(axes, steps, strict=True)])


def _ends(axis: Axis, ranges: Sizes) -> tuple[int, int]:
    """The first position that an axis reaches, and the one behind the last."""
    steps = [stride * (ranges[label] - 1) for label, stride in axis.terms]
    first, last = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return axis.offset + first, axis.offset + last + 1
