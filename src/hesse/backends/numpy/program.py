"""A program as NumPy runs it: some instructions in slices, arrays that are done with written over.

An instruction works *in place* if it can write to a fresh value of its shape that it reads last.
"""

from __future__ import annotations

from dataclasses import dataclass

from hesse.plan.program import CallApply, CallMap, Combine, Contract, Literal, Load, Ref, Scale, View, sources
from hesse.plan.sliced import SlicedProgram

IN_PLACE = frozenset({"softmax"})
"""Operations of the record table that can write over what they read."""


@dataclass(frozen=True)
class NumpyProgram(SlicedProgram):
    """A program in slices whose instructions work in place where they can."""

    def writes_over(self, k: Ref, last: dict[Ref, int]) -> bool:
        item = self.instructions[k]
        if isinstance(item, Contract):
            in_place = not item.is_sum
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
