"""Derivatives by all entries at once: one axis more, along which the columns of the identity are pushed.

The patterns of partials are not used, so there are more operations, but far fewer instructions: as many as
for one direction. That pays where arrays are so small that it takes longer to start an instruction than to
run it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from hesse.calculus.modes import all_pushed
from hesse.cost import estimate
from hesse.ir import Node, delta, map_, number, reshape, select
from hesse.rewrite import simplify


class Columns(NamedTuple):
    """What is differentiated once more, by these variables, and which derivatives are wanted, in their order.

    `wanted` has pairs of an output and a variable, by their numbers.
    """

    outputs: list[Node]
    variables: Sequence[Node]
    wanted: list[tuple[int, int]]

    @property
    def least_cost(self) -> float:
        """Operations that are needed at least: those of the outputs, for each column."""
        return sum(self._sizes) * estimate(self.outputs)

    @property
    def _sizes(self) -> list[int]:
        return [math.prod(map(number, variable.shape)) for variable in self.variables]

    def derivatives(self) -> list[Node]:
        """The derivatives, axes of the output first."""
        starts = [0, *itertools.accumulate(self._sizes)]
        # identities that no rule sees through: patterns would be followed, one term for each
        identity = map_("stop_gradient", delta((starts[-1],)))
        tangents: dict[Node, Node] = {
            variable: reshape(
                select(identity, [slice(start, stop), slice(None)]), (*variable.shape, starts[-1])
            )
            for variable, (start, stop) in zip(self.variables, itertools.pairwise(starts), strict=True)
        }
        pushed = all_pushed(self.outputs, tangents, (starts[-1],))
        return simplify([self._block(pushed[k], k, j, starts) for k, j in self.wanted])

    def _block(self, pushed: Node, output: int, variable: int, starts: Sequence[int]) -> Node:
        """The columns of one variable."""
        rank = self.outputs[output].rank
        columns = select(pushed, [slice(None)] * rank + [slice(starts[variable], starts[variable + 1])])
        return reshape(columns, self.outputs[output].shape + self.variables[variable].shape)
