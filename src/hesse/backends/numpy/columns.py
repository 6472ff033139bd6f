"""Which inputs are read column by column: many rows of few entries, such as points and their coordinates.

NumPy's element-wise loops run along the last axis in memory, and each row takes as long as some ten entries.
What is computed entry by entry lies in memory as its operands do. So it is enough to copy the inputs at the
beginning, where enough is computed from them: an operation on 100 points with two coordinates takes half the
time then.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from hesse.backends.numpy.machine import NumpyMachine
from hesse.plan.program import (
    CallMap,
    Combine,
    Contract,
    Instruction,
    Load,
    Program,
    Ref,
    Scale,
    View,
    sources,
)

FEWEST_ROWS = 64
"""Arrays of fewer rows are done at once."""
FEWEST_LINES = 8
"""Programs that compute less with such arrays stay as they are: results are copied once more, too."""
ROW, CALL = 8, 500
"""The entries that are copied in the time that a row, or a call of NumPy, takes."""


def read_by_columns(program: Program, machine: NumpyMachine) -> set[str]:
    """The names of the inputs that are copied so that their first axis is the innermost one in memory."""
    below: dict[Ref, set[Ref]] = {}
    lines, saved, found = 0, 0, set[Ref]()
    for k, item in enumerate(program.instructions):
        if isinstance(item, Load):
            below[k] = {k} if _has_rows(program.shapes[k]) and k not in program.results else set()
        elif isinstance(item, View) or _is_by_entry(item):
            below[k] = set().union(*[below.get(source, ()) for source in sources(item)])
        if below.get(k) and _is_by_entry(item) and is_narrow(program.shapes[k], machine):
            lines += 1
            saved += ROW * math.prod(program.shapes[k][:-1])
            found |= below[k]
    spent = sum(CALL + math.prod(program.shapes[k]) for k in found)
    if lines < FEWEST_LINES or saved < 2 * spent:
        return set()
    return {item.name for k in found if isinstance(item := program.instructions[k], Load)}


def is_narrow(shape: tuple[int, ...], machine: NumpyMachine) -> bool:
    """Whether an array has many rows, with few entries each."""
    return _has_rows(shape) and 1 < shape[-1] < machine.short_axis


def computed_from(program: Program, names: Collection[str]) -> set[Ref]:
    """Some inputs, and all that is computed from them and has several axes."""
    found: set[Ref] = set()
    for k, item in enumerate(program.instructions):
        is_input = isinstance(item, Load) and item.name in names
        if is_input or (len(program.shapes[k]) > 1 and any(source in found for source in sources(item))):
            found.add(k)
    return found


def _has_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and shape[0] >= FEWEST_ROWS


def _is_by_entry(item: Instruction) -> bool:
    if isinstance(item, Contract):
        return not item.is_sum
    return isinstance(item, Scale | CallMap | Combine)
