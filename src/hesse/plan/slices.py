"""Slice a program: a chain of large intermediates is computed a few rows at a time.

`exp(-|x_i - x_j|²)` and its sums over `j` need the differences of all pairs; some rows at a time they never
leave the cache and take no memory. What is cut follows from the instructions: along an axis of a value
each of them can be cut too, sums over it, or has to see the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from hesse.ops import OPERATIONS, General
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Instruction,
    Load,
    Program,
    Reduce,
    Ref,
    Scale,
    Sizes,
    View,
    reordered,
    sources,
    with_sources,
)
from hesse.plan.sliced import SlicedProgram, SliceMachine, Slices

P = TypeVar("P", bound=SlicedProgram)
SUM_READS = 4
"""The entries of a slice for each of the largest sum over all slices, which is added to once a slice."""
Cut = int | None
"""The axis along which a value is cut; None: it is read whole, or it is a sum over all slices."""


class Way(NamedTuple):
    """How an instruction can be cut: the axis of its value, and of each value that it reads.

    `arranged` are the entries of the matrix that a product reads for each slice, or its result: BLAS
    arranges a matrix anew for each slice of the other one, and calls its threads.
    """

    axis: Cut
    reads: tuple[Cut, ...]
    arranged: int = 0


def sliced(program: Program, machine: SliceMachine, kind: type[P]) -> P:
    """The program with its largest chain of intermediates cut, if that is worth it."""
    sizes = [math.prod(shape) for shape in program.shapes]
    stored = _stored(program, machine)
    large = [k for k in stored if sizes[k] > machine.small_instruction]
    if sum(sizes[k] for k in large) < machine.least_saved:
        return kind.of(program)
    graph = _Graph(program, sizes, frozenset(stored), machine)
    seeds = sorted(large, key=lambda k: -sizes[k])[: machine.most_seeds]
    best = _best(graph, seeds, has_records=False)
    if graph.records:
        longer = _best(graph, seeds, has_records=True)
        if longer is not None and longer.saved > machine.least_saved + (0 if best is None else best.saved):
            best = longer
    if best is None or best.saved < machine.least_saved:
        return kind.of(program)
    return best.cut(kind)


def _best(graph: _Graph, seeds: Sequence[Ref], has_records: bool) -> _Chain | None:
    """The chain that saves most, from one of the seeds."""
    machine = graph.machine
    has_large = any(way.arranged > machine.largest_whole for ways in graph.ways for way in ways)
    chains = [
        _Chain(graph, seed, axis, largest, has_records)
        for seed in seeds
        for axis in range(len(graph.program.shapes[seed]))
        for largest in (
            (machine.largest_whole, machine.largest_read) if has_large else (machine.largest_whole,)
        )
    ]
    return max(chains, key=lambda chain: chain.saved, default=None)


def _stored(program: Program, machine: SliceMachine) -> list[Ref]:
    """The values that are computed and put into memory."""
    summed: set[Ref] = set()
    for item in program.instructions:
        if isinstance(item, Reduce) or (isinstance(item, Contract) and item.is_sum):
            summed.update(sources(item))
    return [
        k
        for k, item in enumerate(program.instructions)
        if (isinstance(item, Reduce | Contract | Scale | Combine | CallMap) or _is_gather(item))
        and (k in summed or not machine.fuses)
    ]


class _Graph:
    """A program with what reads each value, and the ways in which each instruction can be cut."""

    def __init__(
        self, program: Program, sizes: Sequence[int], stored: frozenset[Ref], machine: SliceMachine
    ) -> None:
        self.program = program
        self.sizes = sizes
        self.stored = stored
        self.machine = machine
        self.sources = [sources(item) for item in program.instructions]
        self.ways = [list(_ways(program, k, machine)) for k in range(len(sizes))]
        self.records = {
            k
            for k, item in enumerate(program.instructions)
            if isinstance(item, CallApply) and not _is_gather(item) and self.ways[k]
        }
        self.readers: list[list[Ref]] = [[] for _ in sizes]
        for k, read in enumerate(self.sources):
            for source in set(read):
                self.readers[source].append(k)


def _ways(program: Program, k: Ref, machine: SliceMachine) -> Iterator[Way]:
    item, shapes = program.instructions[k], program.shapes
    rank = len(shapes[k])
    match item:
        case Reduce():
            kept = [axis for axis in range(len(shapes[item.source])) if axis not in item.positions]
            yield from (Way(at, (axis,)) for at, axis in enumerate(kept))
            yield from (Way(None, (axis,)) for axis in item.positions)
        case Contract() if not item.is_symmetric:
            parts = (item.left_labels, item.right_labels, item.labels)
            for label in dict.fromkeys(item.left_labels + item.right_labels):
                left, right, output = (_place(label, part) for part in parts)
                whole = [item.left] * (left is None) + [item.right] * (right is None) + [k] * (output is None)
                arranged = max((math.prod(shapes[ref]) for ref in whole), default=0)
                if not _is_matrix_product(item):
                    yield Way(output, (left, right))
                elif arranged <= (machine.largest_sum if output is None else machine.largest_read):
                    yield Way(output, (left, right), arranged)
        case Scale():
            yield from (Way(axis, (axis,)) for axis in range(rank))
        case CallMap() if all(shapes[source] in ((), shapes[k]) for source in item.sources):
            for axis in range(rank):
                yield Way(axis, tuple(axis if shapes[source] else None for source in item.sources))
        case CallApply() if not machine.fuses:  # those that fuse need not be cut
            if _is_gather(item):
                yield from (Way(axis, (None, axis)) for axis in range(len(shapes[item.sources[1]])))
            elif len(item.sources) == 1:
                yield from (Way(axis, (axis,)) for axis in range(_batch_axes(item, shapes)))
        case View():
            for axis, label in enumerate(item.labels):
                at = [n for n, part in enumerate(item.axes) if label in part.labels()]
                is_plain = len(at) == 1 and item.axes[at[0]].is_label
                if is_plain and shapes[item.source][at[0]] == item.ranges[label]:
                    yield Way(axis, (at[0],))
        case Combine() if all(term.is_dense(shapes[k]) for term in item.terms):
            for axis in range(rank):
                yield Way(axis, tuple(_place(term.output[axis].label, term.labels) for term in item.terms))


def _is_gather(item: Instruction) -> bool:
    """Whether rows of an array are read by an index array, the axes of which come first in the result."""
    return isinstance(item, CallApply) and item.name == "gather"


def _batch_axes(item: CallApply, shapes: Sequence[Sizes]) -> int:
    """How many first axes of its operand an operation repeats itself over."""
    record = OPERATIONS.get(item.name)
    if not isinstance(record, General) or not record.last_axes:
        return 0
    return len(shapes[item.sources[0]]) - record.last_axes


def _place(label: int, labels: Sequence[int]) -> Cut:
    return labels.index(label) if label in labels else None


def _is_matrix_product(item: Contract) -> bool:
    left, right, output = set(item.left_labels), set(item.right_labels), set(item.labels)
    return bool(output - left and output - right and left & right - output)


class _Chain:
    """The instructions that are cut when a value is cut along an axis, each with its way.

    Products read matrices of at most `largest` entries for each slice. Only with `has_records` it goes
    through softmax and the like: that is another call for each slice of what may fit the cache anyway.
    """

    def __init__(self, graph: _Graph, seed: Ref, axis: int, largest: int, has_records: bool) -> None:
        self.graph = graph
        self.machine = graph.machine
        self.largest = largest
        self.left_out = set() if has_records else graph.records
        self.length = graph.program.shapes[seed][axis]
        self.ways = self._without(self._consistent(self._reached(seed, axis)), self.machine.small_instruction)
        self.arranged = max((way.arranged for way in self.ways.values()), default=0)
        self.largest_sum = max(
            (graph.sizes[k] for k, way in self.ways.items() if way.axis is None), default=0
        )
        self.has_large = max(self.arranged, self.largest_sum) > self.machine.largest_whole
        self.rows = self._rows() if self.ways else self.length
        if self.rows < self.length:
            self.ways = self._without(self.ways, self._short() * self.length // self.rows)
        self.outputs = [
            k
            for k in sorted(self.ways)
            if k in graph.program.results or any(reader not in self.ways for reader in graph.readers[k])
        ]
        self.saved = self._saved() if self.rows < self.length else 0

    def _reached(self, seed: Ref, axis: int) -> dict[Ref, Way]:
        """All that can be cut along with the seed, from value to value."""
        ways: dict[Ref, Way] = {}
        waiting = [(seed, way) for way in self.graph.ways[seed] if way.axis == axis]
        while waiting:
            k, way = waiting.pop()
            if k in ways or k in self.left_out or way.arranged > self.largest:
                continue
            ways[k] = way
            # small values lead back to other chains, and need not be cut
            large = [
                (source, cut)
                for source, cut in zip(self.graph.sources[k], way.reads, strict=True)
                if self.graph.sizes[source] > self.machine.small_instruction
            ]
            for source, cut in large:
                waiting += [
                    (source, other)
                    for other in self.graph.ways[source]
                    if cut is not None and other.axis == cut
                ]
            if way.axis is not None:
                waiting += [(r, other) for r in self.graph.readers[k] for other in self._through(r, k, way)]
        return ways

    def _through(self, reader: Ref, source: Ref, way: Way) -> list[Way]:
        """The ways in which a reader of a value can be cut if the value is."""
        read = self.graph.sources[reader]
        return [
            other
            for other in self.graph.ways[reader]
            if all(cut == way.axis for ref, cut in zip(read, other.reads, strict=True) if ref == source)
        ]

    def _consistent(self, ways: Mapping[Ref, Way]) -> dict[Ref, Way]:
        """Without what reads a value of the chain in another way, or what is known only after it."""
        kept: dict[Ref, Way] = {}
        after: set[Ref] = set()
        for k, read in enumerate(self.graph.sources):
            at_hand = k in ways and all(
                cut is not None and kept[source].axis == cut if source in kept else source not in after
                for source, cut in zip(read, ways[k].reads, strict=True)
            )
            if at_hand:
                kept[k] = ways[k]
            elif any(source in kept or source in after for source in read):
                after.add(k)
        return kept

    def _without(self, ways: dict[Ref, Way], small_size: int) -> dict[Ref, Way]:
        """Without instructions of so few entries at the beginning and at the end of the chain."""
        graph = self.graph
        small = {
            k
            for k in ways
            if isinstance(graph.program.instructions[k], View)
            or max(graph.sizes[ref] for ref in (k, *graph.sources[k])) <= small_size
        }
        for k in sorted(small):
            if not any(source in ways for source in graph.sources[k]):
                del ways[k]
        for k in sorted(small & ways.keys(), reverse=True):
            if not any(reader in ways for reader in graph.readers[k]):
                del ways[k]
        return ways

    def _short(self) -> int:
        """Entries of slices that take longer to call than to compute."""
        return self.machine.smallest_slice // 2

    def _rows(self) -> int:
        """How many rows a slice has; all of them if it is not worth it."""
        machine = self.machine
        row = max(self.graph.sizes[k] for k in self.ways) / self.length
        large = max(2 * self.arranged, SUM_READS * self.largest_sum) if self.has_large else 0
        entries = max(machine.slice_entries, large)
        most = math.ceil(self.length / machine.fewest_slices)
        rows = max(machine.fewest_rows, int(min(entries / row, most)))
        if self.has_large:
            rows = -(-rows // machine.product_rows) * machine.product_rows
        return rows if rows * row >= machine.smallest_slice else self.length

    def _saved(self) -> int:
        """The number of entries that are never in memory together."""
        sizes = self.graph.sizes
        if self.largest_sum > self.machine.largest_sum:
            return 0  # it would be read and written for each of the slices
        saved = sum(sizes[k] for k in self.ways if k not in self.outputs and k in self.graph.stored)
        made = sum(sizes[k] for k in self.outputs)  # slices of those are copied
        if self.has_large:
            pays = saved > 4 * made and self.length >= self.machine.many_slices * self.rows
        else:
            pays = saved > made
        return saved if pays else 0

    def cut(self, kind: type[P]) -> P:
        """The program with the chain in one piece, and the programs of its slices."""
        inside = sorted(self.ways)
        needed = self._needed()
        before = [k for k in range(len(self.graph.sizes)) if k in needed and k not in self.ways]
        rest = [k for k in range(len(self.graph.sizes)) if k not in needed]
        order = [*before, *inside, *rest]
        number = {old: new for new, old in enumerate(order)}
        program = reordered(self.graph.program, order)
        ways = {number[k]: way for k, way in self.ways.items()}
        outputs = [number[k] for k in self.outputs]
        reads = dict.fromkeys(
            (source, cut)
            for k, way in ways.items()
            for source, cut in zip(sources(program.instructions[k]), way.reads, strict=True)
            if source not in ways
        )
        body, last = (
            _slice(program, ways, list(reads), outputs, count, kind) if count else None
            for count in (self.rows, self.length % self.rows)
        )
        assert body is not None
        start, stop = len(before), len(before) + len(inside)
        ends = tuple((k, ways[k].axis) for k in outputs)
        slices = Slices(start, stop, self.length, self.rows, tuple(reads), ends, body, last)
        return kind.of(program, slices)

    def _needed(self) -> set[Ref]:
        """The chain and all it depends on."""
        needed = set(self.ways)
        for k in reversed(range(len(self.graph.sizes))):
            if k in needed:
                needed.update(self.graph.sources[k])
        return needed


def _slice(
    program: Program,
    ways: Mapping[Ref, Way],
    reads: Sequence[tuple[Ref, Cut]],
    outputs: Sequence[Ref],
    count: int,
    kind: type[P],
) -> P:
    """The program of a slice of `count` rows; its inputs are called by their position in `reads`."""
    instructions: list[Instruction] = [Load(str(n)) for n in range(len(reads))]
    shapes = [_shape(program.shapes[ref], cut, count) for ref, cut in reads]
    number: dict[tuple[Ref, Cut], Ref] = {read: n for n, read in enumerate(reads)}
    for k, way in ways.items():
        item = program.instructions[k]
        refs = [number[read] for read in zip(sources(item), way.reads, strict=True)]
        number[k, way.axis] = len(instructions)
        instructions.append(with_sources(_cut(item, way.axis, count), refs))
        shapes.append(_shape(program.shapes[k], way.axis, count))
    results = tuple(number[k, ways[k].axis] for k in outputs)
    return kind(tuple(instructions), tuple(shapes), (0.0,) * len(shapes), results, len(shapes))


def _shape(shape: tuple[int, ...], cut: Cut, count: int) -> tuple[int, ...]:
    return tuple(count if axis == cut else size for axis, size in enumerate(shape))


def _cut(item: Instruction, axis: Cut, count: int) -> Instruction:
    """The instruction for `count` entries along an axis of its value."""
    if axis is None:
        return item
    if isinstance(item, View):
        return replace(item, ranges=_shape(item.ranges, item.labels[axis], count))
    if isinstance(item, Combine):
        terms = (
            replace(term, ranges=_shape(term.ranges, term.output[axis].label, count)) for term in item.terms
        )
        return replace(item, terms=tuple(terms))
    return item
