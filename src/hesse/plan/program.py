"""Instructions: what a plan consists of, before any array library is chosen.

A program is a list of instructions in the order of execution; an instruction refers to earlier ones by
their index. Every value has axes; inside a product each axis is one label.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hesse.ir import PATTERNS, Axis, Size

Ref = int
Sizes = tuple[int, ...]
"""Numbers; some may be names in a program that is written down, not run (`require_numbers` refuses those)."""


@dataclass(frozen=True)
class Load:
    """An input array."""

    name: str


@dataclass(frozen=True)
class Literal:
    """An array known now."""

    value: np.ndarray


@dataclass(frozen=True)
class Count:
    """A size as a number, in programs whose sizes are names."""

    size: Size


@dataclass(frozen=True)
class View:
    """Read `source` through affine axes; the result has one axis for each of `labels`."""

    source: Ref
    axes: tuple[Axis, ...]
    labels: tuple[int, ...]
    ranges: Sizes


@dataclass(frozen=True)
class Reduce:
    """Sum over axes."""

    source: Ref
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Contract:
    """The product of two values, summed over the labels that `labels` does not name.

    `is_symmetric` says that the result is a symmetric matrix of which half need not be computed, and so large
    that this pays.
    """

    left: Ref
    right: Ref
    left_labels: tuple[int, ...]
    right_labels: tuple[int, ...]
    labels: tuple[int, ...]
    is_symmetric: bool = False

    @property
    def is_sum(self) -> bool:
        """Whether some labels are summed over."""
        return {*self.left_labels, *self.right_labels} != {*self.labels}


@dataclass(frozen=True)
class Scale:
    """A value times a number."""

    source: Ref
    factor: float


@dataclass(frozen=True)
class Placed:
    """A term of a sum: `factor * source` put where `output` says; `labels` name the axes of the source."""

    source: Ref
    factor: float
    labels: tuple[int, ...]
    output: tuple[Axis, ...]
    ranges: Sizes

    def is_dense(self, shape: Sizes) -> bool:
        """Whether it covers the result with distinct plain axes (perhaps repeating along some)."""
        return _is_dense(self.output, self.ranges, shape)


@functools.lru_cache(PATTERNS)
def _is_dense(output: tuple[Axis, ...], ranges: Sizes, shape: Sizes) -> bool:
    plain = [axis.label for axis in output if axis.is_label]
    whole = all(ranges[label] == size for label, size in zip(plain, shape, strict=False))
    return whole and len(set(plain)) == len(plain) == len(output)


@dataclass(frozen=True)
class Combine:
    """The sum of placed terms."""

    terms: tuple[Placed, ...]
    is_sum: bool

    def missing(self, shape: tuple[int, ...]) -> list[int]:
        """The axes of the result that none of the dense terms has."""
        dense = [term for term in self.terms if term.is_dense(shape)]
        varying = {k for term in dense for k, axis in enumerate(term.output) if axis.label in term.labels}
        return [k for k in range(len(shape)) if k not in varying] if dense else []

    def repeats(self, shape: tuple[int, ...]) -> bool:
        """Whether the dense terms together leave entries of the result to broadcasting."""
        return any(shape[k] != 1 for k in self.missing(shape))


@dataclass(frozen=True)
class CallMap:
    """An element-wise function."""

    name: str
    sources: tuple[Ref, ...]


@dataclass(frozen=True)
class CallApply:
    """An operation of the record table."""

    name: str
    params: tuple[Any, ...]
    sources: tuple[Ref, ...]


Instruction = Load | Literal | Count | View | Reduce | Contract | Scale | Combine | CallMap | CallApply


def sources(instruction: Instruction) -> tuple[Ref, ...]:
    """The values an instruction reads."""
    match instruction:
        case Contract():  # the most frequent ones first
            return (instruction.left, instruction.right)
        case Combine():
            return tuple([term.source for term in instruction.terms])
        case CallMap() | CallApply():
            return instruction.sources
        case View() | Reduce() | Scale():
            return (instruction.source,)
        case Load() | Literal() | Count():
            return ()


def with_sources(instruction: Instruction, refs: Sequence[Ref]) -> Instruction:
    """The instruction reading other values, in the order of `sources`."""
    match instruction:
        case Load() | Literal() | Count():
            return instruction
        case Contract():
            return replace(instruction, left=refs[0], right=refs[1])
        case Combine():
            terms = (replace(term, source=ref) for term, ref in zip(instruction.terms, refs, strict=True))
            return replace(instruction, terms=tuple(terms))
        case CallMap() | CallApply():
            return replace(instruction, sources=tuple(refs))
        case View() | Reduce() | Scale():
            return replace(instruction, source=refs[0])


@dataclass(frozen=True)
class Program:
    """A straight-line program: instructions, the shape of each value, which values are the results."""

    instructions: tuple[Instruction, ...]
    shapes: tuple[Sizes, ...]
    flops: tuple[float, ...]
    results: tuple[Ref, ...]
    node_count: int

    @property
    def total_flops(self) -> float:
        """Floating-point operations of one run."""
        return sum(self.flops)

    @property
    def moved_entries(self) -> int:
        """Array entries read and written in one run."""
        sizes = [math.prod(shape) for shape in self.shapes]
        total = 0
        for k, item in enumerate(self.instructions):
            if sources(item) and not isinstance(item, View):
                total += sizes[k] + sum(sizes[source] for source in sources(item))
        return total

    def ranges(self, item: Contract) -> dict[int, int]:
        """The ranges of the labels of a product."""
        ranges = dict(zip(item.left_labels, self.shapes[item.left], strict=True))
        ranges.update(zip(item.right_labels, self.shapes[item.right], strict=True))
        return ranges

    def last_uses(self) -> dict[Ref, int]:
        """For each value the last instruction that reads it (results live to the end)."""
        last: dict[Ref, int] = {}
        for k, instruction in enumerate(self.instructions):
            for source in sources(instruction):
                last[source] = k
        last.update({result: len(self.instructions) for result in self.results})
        return last

    # A value *shares memory* if it may be a view of another one. It is *fresh* if it has memory of its own
    # that nobody else sees: it may be given away, or changed once it has been read for the last time.

    def shares_memory(self, ref: Ref) -> bool:
        """Whether a value may be a view of the one value that its instruction reads."""
        instruction = self.instructions[ref]
        match instruction:
            case View():
                return True
            case Combine():
                return len(instruction.terms) == 1
            case CallMap():
                return instruction.name == "stop_gradient"
            case _:
                return False

    def last_reads(self) -> dict[Ref, int]:
        """For each value the last instruction that reads its memory, be it through a view."""
        last = self.last_uses()
        for k in reversed(range(len(self.instructions))):
            if self.shares_memory(k):
                (source,) = sources(self.instructions[k])
                last[source] = max(last[source], last.get(k, k))
        return last

    def owner(self, ref: Ref) -> Ref:
        """The value whose memory a value may be a view of (itself if of none)."""
        while self.shares_memory(ref):
            (ref,) = sources(self.instructions[ref])
        return ref

    def is_fresh(self, ref: Ref) -> bool:
        """Whether a value has memory of its own."""
        item = self.instructions[ref]
        if isinstance(item, Combine):
            shape = self.shapes[ref]
            placed = [term for term in item.terms if not term.is_dense(shape)]
            return bool(placed) or (len(item.terms) > 1 and not item.repeats(shape))
        return isinstance(item, Contract | Reduce | Scale | CallApply) or (
            isinstance(item, CallMap) and item.name != "stop_gradient"
        )

    def peak_elements(self) -> int:
        """Largest number of array entries alive at once, inputs and literals not counted."""
        return self._peak

    @cached_property
    def _peak(self) -> int:
        alive, peak = 0, 0
        last = self.last_reads()
        freed_after: dict[int, int] = {}
        for k, instruction in enumerate(self.instructions):
            if not isinstance(instruction, Load | Literal | View):
                alive += math.prod(self.shapes[k])
                end = last.get(k, k)
                freed_after[end] = freed_after.get(end, 0) + math.prod(self.shapes[k])
            peak = max(peak, alive)
            alive -= freed_after.pop(k, 0)
        return peak


class Draft:
    """A program that is being written: each instruction reads values that are there already."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.shapes: list[Sizes] = []
        self.flops: list[float] = []

    def add(self, item: Instruction, shape: Sizes, flops: float = 0.0) -> Ref:
        """Write an instruction; the reference to its value."""
        self.instructions.append(item)
        self.shapes.append(shape)
        self.flops.append(flops)
        return len(self.instructions) - 1

    def program(self, results: Sequence[Ref], node_count: int) -> Program:
        """The program that has been written."""
        parts = tuple(self.instructions), tuple(self.shapes), tuple(self.flops)
        return Program(*parts, tuple(results), node_count)


def reordered(program: Program, order: Sequence[Ref]) -> Program:
    """The program with its instructions in another order."""
    number = {old: new for new, old in enumerate(order)}
    instructions = [program.instructions[k] for k in order]
    return Program(
        tuple(with_sources(item, [number[k] for k in sources(item)]) for item in instructions),
        tuple(program.shapes[k] for k in order),
        tuple(program.flops[k] for k in order),
        tuple(number[k] for k in program.results),
        program.node_count,
    )
