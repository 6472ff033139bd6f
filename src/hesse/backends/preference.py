"""Whether NumPy or XLA is likely to be quicker, on a processor.

NumPy reads and writes an array for every line, and every line is a call; in a loop, so is every line of every
step. XLA fuses element-wise lines and sums into one loop, which touches only what goes in and what comes out,
but computes again what several such loops need. Its products of matrices are slower than those of BLAS, and
each of its results is one more array to hand over.
"""

from __future__ import annotations

import math

from hesse.backends.executable import Executable
from hesse.ops.foreign import FOREIGN
from hesse.plan.program import CallApply, Contract, Instruction, Literal, Load, Program, Ref, View, sources

SLOWER_PRODUCTS = 1.4
"""How much longer XLA takes for a product."""
LINE = 60_000.0
"""The operations in the time of a call of NumPy: a microsecond."""
KERNEL = 30_000.0
"""The same for a loop or product of XLA, and for a step of a recurrence."""
RESULT = 250_000.0
"""The same for a result of XLA."""
COMPUTED, COMPUTED_IN_ROWS = 16.0, 2.0
"""The same for an entry that a loop of XLA computes: one by one, or many at a time along a long axis."""
LONG_AXIS = 16
"""The length from which the last axis is long."""
SHORTEST = 1e6
"""Programs of fewer operations are done before it matters."""
MARGIN = 1.5
"""XLA is preferred where it is quicker by this factor: it must be compiled first."""


def preferred(executable: Executable) -> str:
    """The name of the back end that the estimate prefers for a program of NumPy arrays."""
    program, entry_cost = executable.straight, executable.target.machine.entry_cost
    fused = {k for k, item in enumerate(program.instructions) if _is_fused(item)}
    others = [item for k, item in enumerate(program.instructions) if k not in fused]
    work = sum(flops for k, flops in enumerate(program.flops) if k not in fused)
    calls = [item for item in others if not isinstance(item, Load | Literal)]
    rules = [item.params[0] for item in calls if isinstance(item, CallApply) and item.name == FOREIGN]
    lines = len(fused) + len(calls) + sum(rule.lines for rule in rules)
    by_numpy = work + entry_cost * _moved(executable.program, set()) + LINE * lines
    if by_numpy <= SHORTEST:
        return "numpy"
    written = _written(program, fused)
    kernels = len(written) + len(calls) + sum(rule.steps for rule in rules)
    by_xla = SLOWER_PRODUCTS * work + KERNEL * kernels + RESULT * len(program.results)
    by_xla += entry_cost * _moved(program, fused) + _computed(program, fused, written)
    return "jax" if by_numpy > MARGIN * by_xla else "numpy"


def _is_fused(item: Instruction) -> bool:
    """Whether XLA computes an instruction in the loop of what reads it."""
    if isinstance(item, Contract):
        return not item.is_sum
    return not isinstance(item, CallApply | Load | Literal)


def _written(program: Program, fused: set[Ref]) -> set[Ref]:
    """What comes out of fused loops."""
    read = {ref for k, item in enumerate(program.instructions) if k not in fused for ref in sources(item)}
    return fused & {*program.results, *read}


def _computed(program: Program, fused: set[Ref], written: set[Ref]) -> float:
    """What fused loops compute: each loop all that it needs and no other one has written."""
    sizes = [math.prod(shape) for shape in program.shapes]
    total = 0.0
    for ref in written:
        seen, waiting = {ref}, [ref]
        while waiting:
            item = program.instructions[k := waiting.pop()]
            if not isinstance(item, View):
                is_long = program.shapes[k][-1:] >= (LONG_AXIS,)
                entries = max(sizes[each] for each in (k, *sources(item)))
                total += entries * (COMPUTED_IN_ROWS if is_long else COMPUTED)
            inside = {source for source in sources(item) if source in fused} - written - seen
            seen |= inside
            waiting += inside
    return total


def _moved(program: Program, fused: set[Ref]) -> float:
    """Entries that are read and written, with loops fused."""
    sizes = [math.prod(shape) for shape in program.shapes]
    stays = getattr(program, "is_sliced", lambda k: False)  # slices do not leave the cache
    total = 0.0
    for k, item in enumerate(program.instructions):
        if isinstance(item, Load | Literal | View) or stays(k):
            continue
        total += sum(sizes[source] for source in sources(item) if k not in fused or source not in fused)
        total += 0 if k in fused else sizes[k]
    return total + sum(sizes[k] for k in _written(program, fused))
