"""Whether NumPy or XLA is likely to be quicker, on a processor.

NumPy reads and writes an array for every line, and every line is a call; in a loop, so is every line of every
step. XLA fuses element-wise lines and sums into one loop, which touches only what goes in and what comes out,
but computes again what several such loops need, or one loop in several places (a stencil). Its products of
matrices are slower than those of BLAS, and handing arrays over takes as long as some lines of NumPy.

All constants are nanoseconds, measured on two cores. They need not be exact: most programs are much quicker
one way or the other.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from hesse.backends.executable import Executable
from hesse.ops.foreign import FOREIGN, Rule
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Instruction,
    Literal,
    Load,
    Program,
    Ref,
    View,
    sources,
)

Place = tuple[object, ...]

PRODUCT, SLOWER_PRODUCTS = 1 / 60, 1.4
"""An operation of a product of matrices, and how much longer it takes in XLA."""
SUMMED = 0.06
"""The same of a sum of products that is none: that takes as long as reading it."""
OPERATIONS = 8
"""So many for each entry that is read or written make a product of matrices."""
LINE = 700.0
"""A call of NumPy."""
ENTRY, MOVED, LARGE = 0.22, 0.3, 2**17
"""An entry that NumPy computes in a cache, one that lies outside, and the size of arrays that do."""
FUNCTION, FUSED_FUNCTION = 0.2, 0.1
"""An operation of an element-wise function, in NumPy and in XLA."""
CALL, RESULT, KERNEL = 50_000.0, 1_000.0, 500.0
"""A call of XLA, one of its results, and a loop, product or step of a recurrence."""
COMPUTED, COMPUTED_IN_ROWS = 0.4, 0.05
"""An entry that a loop of XLA computes: one by one, or many at a time along a long axis."""
LONG_AXIS = 16
"""The length from which the last axis is long."""
MOST_PLACES = 16
"""Places beyond these are not told apart."""
MARGIN = 1.5
"""XLA is preferred where it is quicker by this factor: it must be compiled first."""


def preferred(executable: Executable) -> str:
    """The name of the back end that the estimate prefers for a program of NumPy arrays."""
    return "jax" if _by_numpy(executable) > MARGIN * _by_xla(executable.straight) else "numpy"


def _by_numpy(executable: Executable) -> float:
    program = executable.straight
    calls = [k for k, item in enumerate(program.instructions) if not isinstance(item, Load | Literal)]
    lines = len(calls) + sum(rule.lines for rule in _rules(program))
    entries = sum(_entries(program, k) for k in calls if _is_fused(program.instructions[k]))
    time = LINE * lines + ENTRY * entries + MOVED * _moved(executable.program)
    return time + sum(_work(program, k, SUMMED, FUNCTION) for k in calls)


def _by_xla(program: Program) -> float:
    items = [*enumerate(program.instructions)]
    fused = {k for k, item in items if _is_fused(item)}
    written = _written(program, fused)
    loaded = {k for k, item in items if isinstance(item, Load)}
    calls = [k for k, item in items if k not in fused | loaded and not isinstance(item, Literal)]
    kernels = len(written) + len(calls) + sum(rule.steps for rule in _rules(program))
    time = CALL + RESULT * len(program.results) + KERNEL * kernels
    read = [k for k in calls if not fused & {*sources(program.instructions[k])}]  # else it is part of a loop
    time += SLOWER_PRODUCTS * sum(_work(program, k, SUMMED * (k in read)) for k in calls)
    time += MOVED * sum(_entries(program, k) for k in loaded | {*program.results})
    return time + sum(_looped(program, ref, fused - written) for ref in written)


def _rules(program: Program) -> list[Rule]:
    """What is known of functions that have no formula, and of loops."""
    calls = [item for item in program.instructions if isinstance(item, CallApply)]
    return [item.params[0] for item in calls if item.name == FOREIGN]


def _entries(program: Program, k: Ref) -> int:
    return math.prod(program.shapes[k])


def _is_fused(item: Instruction) -> bool:
    """Whether XLA computes an instruction in the loop of what reads it."""
    if isinstance(item, Contract):
        return not item.is_sum
    return not isinstance(item, CallApply | Load | Literal)


def _work(program: Program, k: Ref, summed: float = 0.0, function: float = FUSED_FUNCTION) -> float:
    """The time of the operations of an instruction; `summed` is that of one in a sum of products."""
    item, flops = program.instructions[k], program.flops[k]
    if isinstance(item, CallMap):
        return function * flops
    if not isinstance(item, Contract):
        return 0.0 if _is_fused(item) else PRODUCT * flops
    touched = sum(_entries(program, ref) for ref in (k, item.left, item.right))
    return (PRODUCT if flops > OPERATIONS * touched else summed) * flops if item.is_sum else 0.0


def _written(program: Program, fused: set[Ref]) -> set[Ref]:
    """What comes out of fused loops."""
    read = {ref for k, item in enumerate(program.instructions) if k not in fused for ref in sources(item)}
    return fused & {*program.results, *read}


def _looped(program: Program, result: Ref, inside: set[Ref]) -> float:
    """The time of a loop of XLA, which computes all that it needs in each place where it is needed."""
    places: dict[Ref, set[Place]] = {result: {()}}
    waiting, time = [-result], 0.0
    while waiting:
        k = -heapq.heappop(waiting)
        item = program.instructions[k]
        if not isinstance(item, View):
            is_long = program.shapes[k][-1:] >= (LONG_AXIS,)
            entries = max(_entries(program, ref) for ref in (k, *sources(item)))
            once = entries * (COMPUTED_IN_ROWS if is_long else COMPUTED) + _work(program, k)
            time += len(places[k]) * once
        for source, moves in _reads(item):
            if source in inside:
                if source not in places:
                    heapq.heappush(waiting, -source)
                known = places.setdefault(source, set())
                known |= {(*place, *moves) for place in places[k]} if len(known) < MOST_PLACES else set()
    return time


def _reads(item: Instruction) -> Iterator[tuple[Ref, Place]]:
    """What an instruction reads, and by how much it moves it."""
    if isinstance(item, Combine):
        for term in item.terms:
            yield term.source, tuple([(k, axis.offset) for k, axis in enumerate(term.output) if axis.offset])
    elif isinstance(item, View):
        yield item.source, tuple([(k, -axis.offset) for k, axis in enumerate(item.axes) if axis.offset])
    else:
        for source in sources(item):
            yield source, ()


def _moved(program: Program) -> float:
    """Entries of large arrays that are read and written."""
    stays = getattr(program, "is_sliced", lambda k: False)  # slices do not leave the cache
    total = 0
    for k, item in enumerate(program.instructions):
        if not (isinstance(item, Load | Literal | View) or stays(k)):
            sizes = [_entries(program, ref) for ref in (k, *sources(item))]
            total += sum(size for size in sizes if size >= LARGE)
    return total
