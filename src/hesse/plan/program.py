"""Instructions: what a plan consists of, before any array library is chosen.

A program is a list of instructions in the order of execution; an instruction refers to earlier ones by
their index. Every value has axes; inside a product each axis is one label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hesse.ir import Axis

Ref = int

IN_PLACE = frozenset({"softmax"})
"""Operations of the record table that can write over what they read."""


@dataclass(frozen=True)
class Load:
    """An input array."""

    name: str


@dataclass(frozen=True)
class Literal:
    """An array known now."""

    value: np.ndarray


@dataclass(frozen=True)
class View:
    """Read `source` through affine axes; the result has one axis for each of `labels`."""

    source: Ref
    axes: tuple[Axis, ...]
    labels: tuple[int, ...]
    ranges: tuple[int, ...]


@dataclass(frozen=True)
class Reduce:
    """Sum over axes."""

    source: Ref
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Contract:
    """The product of two values, summed over the labels that `labels` does not name.

    `is_symmetric` says that the result is a symmetric matrix: half of it need not be computed.
    """

    left: Ref
    right: Ref
    left_labels: tuple[int, ...]
    right_labels: tuple[int, ...]
    labels: tuple[int, ...]
    is_symmetric: bool = False


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
    ranges: tuple[int, ...]

    def is_dense(self, shape: tuple[int, ...]) -> bool:
        """Whether it covers the result with distinct plain axes (perhaps repeating along some)."""
        plain = [axis.label for axis in self.output if axis.is_label]
        whole = all(self.ranges[label] == size for label, size in zip(plain, shape, strict=False))
        return whole and len(set(plain)) == len(plain) == len(self.output)


@dataclass(frozen=True)
class Combine:
    """The sum of placed terms."""

    terms: tuple[Placed, ...]
    is_sum: bool


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


Instruction = Load | Literal | View | Reduce | Contract | Scale | Combine | CallMap | CallApply


def sources(instruction: Instruction) -> tuple[Ref, ...]:
    """The values an instruction reads."""
    match instruction:
        case Load() | Literal():
            return ()
        case View() | Reduce() | Scale():
            return (instruction.source,)
        case Contract():
            return (instruction.left, instruction.right)
        case Combine():
            return tuple(term.source for term in instruction.terms)
        case CallMap() | CallApply():
            return instruction.sources


def with_sources(instruction: Instruction, refs: Sequence[Ref]) -> Instruction:
    """The instruction reading other values, in the order of `sources`."""
    match instruction:
        case Load() | Literal():
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


def shares_memory(instruction: Instruction) -> bool:
    """Whether the value may be a view of the one value that the instruction reads."""
    match instruction:
        case View():
            return True
        case Combine():
            return len(instruction.terms) == 1
        case CallMap():
            return instruction.name == "stop_gradient"
        case _:
            return False


class Slices(NamedTuple):
    """Instructions `start` to `stop` are run for `rows` entries of one axis at a time.

    `body` is the program of a slice and `last` that of the remaining rows, if any. Its inputs are `reads`,
    its results `outputs`: values with the axis along which they are cut (None: a value that is read whole,
    a sum over all slices).
    """

    start: int
    stop: int
    length: int
    rows: int
    reads: tuple[tuple[Ref, int | None], ...]
    outputs: tuple[tuple[Ref, int | None], ...]
    body: Program
    last: Program | None


@dataclass(frozen=True)
class Program:
    """A straight-line program: instructions, the shape of each value, which values are the results.

    `slices` says which instructions are not run one after the other, but together for parts of an axis.
    """

    instructions: tuple[Instruction, ...]
    shapes: tuple[tuple[int, ...], ...]
    flops: tuple[float, ...]
    results: tuple[Ref, ...]
    node_count: int
    slices: Slices | None = None

    @property
    def total_flops(self) -> float:
        """Floating-point operations of one run."""
        return sum(self.flops)

    def is_sliced(self, k: Ref) -> bool:
        """Whether an instruction is run for some rows at a time."""
        return self.slices is not None and self.slices.start <= k < self.slices.stop

    def last_uses(self) -> dict[Ref, int]:
        """For each value the last instruction that reads it (results live to the end)."""
        last: dict[Ref, int] = {}
        for k, instruction in enumerate(self.instructions):
            for source in sources(instruction):
                last[source] = k
        last.update({result: len(self.instructions) for result in self.results})
        return last

    def last_reads(self) -> dict[Ref, int]:
        """For each value the last instruction that reads its memory, be it through a view."""
        last = self.last_uses()
        for k in reversed(range(len(self.instructions))):
            if shares_memory(self.instructions[k]):
                (source,) = sources(self.instructions[k])
                last[source] = max(last[source], last.get(k, k))
        return last

    def owner(self, ref: Ref) -> Ref:
        """The value whose memory a value may be a view of (itself if of none)."""
        while shares_memory(self.instructions[ref]):
            (ref,) = sources(self.instructions[ref])
        return ref

    def peak_elements(self) -> int:
        """Largest number of array entries alive at once, inputs and literals not counted."""
        return self._peak

    @cached_property
    def _peak(self) -> int:
        alive, peak = 0, 0
        start, stop, inside, whole = self._sliced()
        last = {k: stop - 1 if start <= at < stop else at for k, at in self.last_reads().items()}
        freed_after: dict[int, int] = {}
        for k, instruction in enumerate(self.instructions):
            is_sliced = start <= k < stop
            if k in whole if is_sliced else not isinstance(instruction, Load | Literal | View):
                size = math.prod(self.shapes[k])
                if not is_sliced and self._written_over(k, last):  # that array lives on under another name
                    freed_after[k] -= size
                else:
                    alive += size
                freed_after[last.get(k, k)] = freed_after.get(last.get(k, k), 0) + size
            peak = max(peak, alive + (inside if is_sliced else 0))
            alive -= freed_after.pop(k, 0)
        return peak

    def _sliced(self) -> tuple[int, int, int, set[Ref]]:
        """Where slices start and stop, the entries they need, and the values they make."""
        if self.slices is None:
            return 0, 0, 0, set()
        outputs = {ref for ref, _ in self.slices.outputs}
        return self.slices.start, self.slices.stop, self.slices.body.peak_elements(), outputs

    def _written_over(self, k: Ref, last: dict[Ref, int]) -> bool:
        """Whether an instruction can write to an array of its shape that it reads last."""
        item = self.instructions[k]
        if isinstance(item, Contract):
            in_place = set(item.left_labels) | set(item.right_labels) == set(item.labels)
        elif isinstance(item, CallApply):
            in_place = item.name in IN_PLACE
        else:
            in_place = isinstance(item, Scale | CallMap | Combine)
        return in_place and any(
            last[source] == k
            and self.shapes[source] == self.shapes[k]
            and not isinstance(self.instructions[source], Load | Literal | View)
            for source in sources(item)
        )


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
