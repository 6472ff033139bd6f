"""Whether NumPy or XLA is likely to be quicker, on a processor: by what moves through memory.

NumPy reads and writes an array for every line. XLA fuses element-wise lines and sums into one loop, which
touches only what goes in and what comes out; its products of matrices are slower than those of BLAS.
"""

from __future__ import annotations

import math

from hesse.backends.executable import Executable
from hesse.plan.program import CallApply, Contract, Instruction, Literal, Load, Program, Ref, View, sources

SLOWER_PRODUCTS = 1.4
"""How much longer XLA takes for a product."""
SHORTEST = 1e6
"""Programs of fewer operations are done before it matters."""
MARGIN = 1.5
"""XLA is preferred where it is quicker by this factor: it must be compiled first."""


def preferred(executable: Executable) -> str:
    """The name of the back end that the estimate prefers for a program of NumPy arrays."""
    program = executable.straight
    work = sum(flops for k, flops in enumerate(program.flops) if not _is_fused(program.instructions[k]))
    entry_cost = executable.target.machine.entry_cost
    by_numpy = work + entry_cost * _moved(executable.program, fused=False)
    by_xla = SLOWER_PRODUCTS * work + entry_cost * _moved(program, fused=True)
    return "jax" if by_numpy > SHORTEST and by_numpy > MARGIN * by_xla else "numpy"


def _is_fused(item: Instruction) -> bool:
    """Whether XLA computes an instruction in the loop of what reads it."""
    if isinstance(item, Contract):
        return set(item.left_labels) | set(item.right_labels) == set(item.labels)
    return not isinstance(item, CallApply | Load | Literal)


def _moved(program: Program, fused: bool) -> float:
    """Entries that are read and written, with loops fused or without."""
    sizes = [math.prod(shape) for shape in program.shapes]
    inner = {k for k, item in enumerate(program.instructions) if _is_fused(item)} if fused else set[Ref]()
    stays = getattr(program, "is_sliced", lambda k: False)  # slices do not leave the cache
    total = 0.0
    written: set[Ref] = set(program.results) & inner
    for k, item in enumerate(program.instructions):
        if isinstance(item, Load | Literal | View) or stays(k):
            continue
        for source in sources(item):
            if k not in inner and source in inner:
                written.add(source)
            if k not in inner or source not in inner:
                total += sizes[source]
        total += 0 if k in inner else sizes[k]
    return total + sum(sizes[k] for k in written)
