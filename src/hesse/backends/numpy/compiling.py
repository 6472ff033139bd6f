"""Programs for NumPy as functions: called once, or in a loop for one row after the other."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hesse.backends.numpy.columns import read_by_columns
from hesse.backends.numpy.machine import NUMPY_MACHINE, NumpyMachine
from hesse.backends.numpy.program import NumpyProgram
from hesse.backends.numpy.runtime import with_short_buffers
from hesse.backends.numpy.writer import NumpyWriter
from hesse.backends.writer import Compiled
from hesse.plan.program import CallApply, Combine, Contract, Program, Ref


def compile_program(
    program: NumpyProgram,
    inputs: Sequence[str],
    dtype: np.dtype[Any],
    results_in_order: bool = True,
    shared: Collection[str] = (),
    machine: NumpyMachine = NUMPY_MACHINE,
) -> Compiled:
    """Python source over NumPy for the program, compiled into a function of the inputs in the given order.

    Sums and products that are results are made in the order of their axes in memory, unless that is said not
    to matter. Results are no inputs but those named by `shared`.
    """
    columns = read_by_columns(program, machine)
    writer = NumpyWriter(program, dtype, machine, results_in_order, shared, columns, has_spaces=True)
    return _buffered(writer.compiled(inputs), program, machine)


def compile_loop(
    program: NumpyProgram, inputs: Sequence[str], count: int, dtype: np.dtype[Any], machine: NumpyMachine
) -> Compiled:
    """A function that runs the program for one row after the other.

    The first input is the result of the row before, of the `count` following ones stacks are given, and the
    others stay as they are. The first argument are the rows for the results. To call a function for each
    step would take a fifth of the time of small steps.
    """
    writer = NumpyWriter(program, dtype, machine, results_in_order=False, shared=inputs)
    arguments = {label: f"x{k}" for k, label in enumerate(inputs)}
    (result,) = writer.written(arguments)
    names = list(arguments.values())
    items, shared = names[1 : count + 1], names[count + 1 :]
    stacks = [f"{name}_stack" for name in items]
    lines = [
        f"def loop({', '.join(['rows', names[0], *stacks, *shared])}):",
        f"    for {', '.join(['row', *items])}, in zip({', '.join(['rows', *stacks])}):",
        *(f"        {line}" for line in writer.lines),
        f"        row[...] = {names[0]} = {result}",
    ]
    return _buffered(writer.defined(inputs, "loop", lines), program, machine)


def _buffered(compiled: Compiled, program: NumpyProgram, machine: NumpyMachine) -> Compiled:
    if not any(_broadcasts(program, k, machine.large_broadcast) for k in range(len(program.instructions))):
        return compiled
    return replace(compiled, function=with_short_buffers(compiled.function, machine.buffer_entries))


def _broadcasts(program: Program, k: Ref, large: int) -> bool:
    """Whether an instruction makes a large array of rows, some of which may be repeated."""
    item, shape = program.instructions[k], program.shapes[k]
    if isinstance(item, Contract) and item.is_sum:
        return False  # matrix products know better
    is_large = len(shape) > 1 and math.prod(shape) >= large
    return is_large and isinstance(item, Contract | Combine | CallApply)
