"""A program as NumPy runs it: some instructions in slices, arrays that are done with written over.

An instruction works *in place* if it can write to a fresh value of its shape that it reads last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Literal,
    Load,
    Program,
    Ref,
    Scale,
    View,
    sources,
)

IN_PLACE = frozenset({"softmax"})
"""Operations of the record table that can write over what they read."""


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
    body: NumpyProgram
    last: NumpyProgram | None


@dataclass(frozen=True)
class NumpyProgram(Program):
    """A program, and which of its instructions run together for parts of an axis."""

    slices: Slices | None = None

    @classmethod
    def of(cls, program: Program, slices: Slices | None = None) -> NumpyProgram:
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
        """Whether an instruction works in place."""
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
