"""Arrays that begin where a line of the cache begins, for the intermediate values of a program.

NumPy's own arrays begin anywhere. A result that is no operand is then written across two lines at a time,
which takes twice as long for arrays that fit the second cache and not the first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.backends.numpy.machine import NumpyMachine
from hesse.backends.text import tuple_text
from hesse.plan.program import CallApply, CallMap, Combine, Contract, Program, Ref, Scale, sources

LINE = 64
"""Bytes of a line of the cache, and of the longest registers."""
MOST_ENTRIES = 2**21
"""Entries of all such arrays of a program: they are given back together, when it ends."""


MANY = 64
"""Values of the right size from which it pays: allocating takes as long as writing two or three of them."""


class Spaces:
    """The aligned arrays of a program, which are allocated when it begins, and the values that they hold.

    Results have arrays of their own. Without a machine there are no aligned arrays.
    """

    def __init__(self, program: Program, machine: NumpyMachine | None) -> None:
        if machine is not None and sum(_is_suitable(shape, machine) for shape in program.shapes) < MANY:
            machine = None
        self._machine = machine
        self._counts: dict[tuple[int, ...], int] = {}
        self._held: set[Ref] = set()
        self._ends = set() if machine is None else _ends(program)

    def new(self, k: Ref, sizes: tuple[int, ...]) -> str | None:
        """The name of one more array, with axes of these sizes, for value k; None: it gets one of NumPy's."""
        if self._machine is None or k in self._ends or not _is_suitable(sizes, self._machine):
            return None
        if (
            math.prod(sizes) + sum(count * math.prod(shape) for shape, count in self._counts.items())
            > MOST_ENTRIES
        ):
            return None
        count = self._counts.setdefault(sizes, 0)
        self._counts[sizes] += 1
        self._held.add(k)
        return f"{_name(sizes)}[{count}]"

    def may_pass(self, ref: Ref, k: Ref) -> bool:
        """Whether value k may have the memory of another one."""
        return ref not in self._held or k not in self._ends

    def passed(self, ref: Ref, k: Ref) -> None:
        """Value k has the memory of another one from now on."""
        if ref in self._held:
            self._held.add(k)

    def lines(self) -> list[str]:
        """The lines that allocate the arrays."""
        return [
            f"{_name(sizes)} = aligned_arrays({count}, {tuple_text(sizes)}, dtype)"
            for sizes, count in self._counts.items()
        ]


def _is_suitable(sizes: tuple[int, ...], machine: NumpyMachine) -> bool:
    """Whether an array of these sizes gains; with a short last axis it may be better off in another order."""
    is_medium = machine.large_array < math.prod(sizes) <= machine.largest_aligned
    return is_medium and sizes[-1] >= machine.short_axis


def _name(sizes: tuple[int, ...]) -> str:
    return "_".join(map(str, ("spaces", *sizes)))


def _ends(program: Program) -> set[Ref]:
    """The values whose memory a result may have: they become one by being written over."""
    found = {program.owner(ref) for ref in program.results}
    for k in reversed(range(len(program.instructions))):
        item = program.instructions[k]
        works_in_place = isinstance(item, Scale | CallMap | Combine | CallApply) or (
            isinstance(item, Contract) and not item.is_sum
        )
        if k in found and works_in_place:
            entries = math.prod(program.shapes[k])
            found.update(s for s in sources(item) if math.prod(program.shapes[s]) == entries)
    return found


def aligned_arrays(count: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """So many arrays of a shape, one behind the other; each of them begins with a line."""
    entries, per_line = math.prod(shape), LINE // dtype.itemsize
    step = -(-entries // per_line) * per_line
    memory = np.empty(count * step + per_line, dtype)
    start = -memory.ctypes.data % LINE // dtype.itemsize
    arrays = memory[start : start + count * step].reshape(count, step)
    return arrays[:, :entries].reshape(count, *shape)
