"""Programs some of whose instructions are run for a few rows of an axis at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from hesse.cost import Machine
from hesse.plan.program import Literal, Load, Program, Ref, View


@dataclass(frozen=True)
class SliceMachine(Machine):
    """What decides about slices; sizes are in array entries."""

    least_saved: int = 2**17
    """Entries of intermediates that slices must save: fewer than this fit the cache anyway."""
    slice_entries: int = 2**15
    """Entries of the largest intermediate of a slice, if that makes enough slices."""
    smallest_slice: int = 2**13
    """Slices of fewer entries would take longer to call than to compute."""
    small_instruction: int = 2**13
    """Instructions that touch no more entries than this are not worth being cut."""
    largest_whole: int = 2**13
    """Entries of a matrix that a product reads for each slice."""
    largest_read: int = 2**16
    """The same for a product in a chain of many slices that saves much more than its results have."""
    largest_sum: int = 2**15
    """Entries of a sum over all slices."""
    product_rows: int = 16
    """Slices that are multiplied with such a matrix have a multiple of this many rows."""
    many_slices: int = 8
    """How many of those there must be."""
    fewest_rows: int = 8
    """Rows of a slice, however long they are."""
    fewest_slices: int = 4
    """Slices of fewer rows are made where there would be fewer slices than this."""
    most_seeds: int = 6
    """How many of the largest values are tried as the beginning of what is cut."""
    fuses: bool = False
    """Whether values that no sum reads are never in memory, so that slices save nothing of them."""


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
    body: SlicedProgram
    last: SlicedProgram | None


@dataclass(frozen=True)
class SlicedProgram(Program):
    """A program, and which of its instructions run together for parts of an axis."""

    slices: Slices | None = None

    @classmethod
    def of(cls, program: Program, slices: Slices | None = None) -> Self:
        """The program with these slices."""
        return cls(
            program.instructions, program.shapes, program.flops, program.results, program.node_count, slices
        )

    def is_sliced(self, k: Ref) -> bool:
        """Whether an instruction is run for some rows at a time."""
        return self.slices is not None and self.slices.start <= k < self.slices.stop

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
                if not is_sliced and self.writes_over(k, last):  # that array lives on under another name
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

    def writes_over(self, k: Ref, last: dict[Ref, int]) -> bool:
        """Whether an instruction works in the memory of a value that it reads last, if `last` tells when."""
        return False
