"""Jitted functions, and how XLA is told to compile them: its default way often takes too long.

XLA makes a kernel of each group of operations that it fuses. On a processor it has two ways to write kernels.
The default one takes up to twice as long for each. Loops over large arrays, and those of exponentials
(softmax and its relatives) over a few thousand entries, are up to a third faster for it; others are as fast,
or slower. So programs that loop over few entries are compiled the older way, and so are those that do much
besides, in products of matrices and the like: their loops take little of the time. Sums of small matrices in
one loop (`small.py`) are up to three times as fast in the older way.

Programs that do little for each instruction are optimised less, if they are long (the Hessian of a small net
by its weights) or place nothing in large results: loops that place are up to three times as slow so.

XLA takes sums apart: what is summed is stored, then summed in windows of 32, then the sums of these. A sum of
2,000 squares is four kernels so, where one is as fast and takes a third of the time to compile. Sums of more
than about 5,000 entries are computed by a library either way. In half precision the windows keep digits, so
there they stay.

Kernels are compiled in 32 parts, side by side. With fewer cores each part only repeats what all of them need,
up to a quarter of the time. So there are as many parts as cores.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from hesse.backends.jax.machine import JaxMachine
from hesse.backends.jax.rows import SOFTENED, has_rows
from hesse.backends.jax.small import summed_in_one_loop
from hesse.backends.processors import processors
from hesse.ops.foreign import FOREIGN, PICK, Rule
from hesse.plan.program import CallApply, CallMap, Combine, Contract, Instruction, Program

Function = Callable[..., Any]
Options = dict[str, Any]

PLAIN = {"xla_cpu_use_fusion_emitters": False}
"""What XLA is told about programs that loop over few entries."""
LESS = {"xla_backend_optimization_level": 1}
"""What XLA is told about programs that do little."""
WITHOUT = "xla_disable_hlo_passes"
"""The option that names the passes that XLA leaves out."""
TAKES_SUMS_APART = "tree_reduction_rewriter"
"""A pass that is left out in programs in single or double precision."""
MOVES_RESHAPES = "reshape-mover"
"""A pass that is left out where kernels are written the older way, if it would undo what `rows.py` does."""
PARTS = {"xla_cpu_parallel_codegen_split_count": min(processors(), 32)}
"""What XLA is told about all programs."""
ALGEBRA = {
    "cholesky",
    "determinant",
    "inverse",
    "log_determinant",
    "sign_determinant",
    "solve",
    "triangular_solve",
}
"""Records whose time is that of library calls, however loops are written."""
EXPONENTIALS = {"exp", "tanh"}
"""Functions that take twice as long in kernels that are written the older way."""


def compiler_options(program: Program, machine: JaxMachine, dtype: np.dtype[Any]) -> Options:
    """How a program is compiled where it is called outside of a trace."""
    found = _kernel_options(program, machine) | PARTS
    passes = [TAKES_SUMS_APART] if dtype.itemsize >= 4 else []
    passes += [MOVES_RESHAPES] if found.keys() >= PLAIN.keys() and has_rows(program) else []
    return found | {WITHOUT: ",".join(passes)} if passes else found


def _kernel_options(program: Program, machine: JaxMachine) -> Options:
    """How kernels are written."""
    count, items = len(program.instructions), [*enumerate(program.instructions)]
    is_long, is_light = count >= machine.long_program, program.total_flops <= count * machine.little_work
    if is_long and is_light:
        return PLAIN | LESS
    looped = sum(_looped(program, k, item) for k, item in items)
    if sum(_in_one_loop(program, item, machine) for _, item in items) > looped:
        return PLAIN
    placed = sum(_placed(program, k, item) for k, item in items)
    exponentials = sum(_softened(program, item) for _, item in items)
    if not is_long and placed <= machine.few_placed:  # else other loops take most of the time
        exponentials += sum(_looped(program, k, item) for k, item in items if _is_exponential(item))
    few = max(machine.few_entries, program.total_flops / machine.much_work)
    few_exponentials = max(machine.few_exponentials, placed // machine.placed_in_time)
    is_few = looped <= few and exponentials <= few_exponentials
    return (PLAIN if is_few else {}) | (LESS if is_light and placed <= machine.few_placed else {})


def _looped(program: Program, k: int, item: Instruction) -> int:
    """The entries that are computed one by one; products of matrices and what is only moved do not count."""
    is_loop = isinstance(item, CallMap) or (isinstance(item, Contract) and not item.is_sum)
    return math.prod(program.shapes[k]) if is_loop else 0


def _in_one_loop(program: Program, item: Instruction, machine: JaxMachine) -> int:
    """The products that are summed in loops for all entries of small matrices."""
    return summed_in_one_loop(item, program.ranges(item), machine) if isinstance(item, Contract) else 0


def _softened(program: Program, item: Instruction) -> float:
    """The entries that softmax and its relatives read; of other records it is not known what they do."""
    if not isinstance(item, CallApply) or item.name in ALGEBRA or item.name == PICK:
        return 0
    if item.name == FOREIGN:
        rule: Rule = item.params[0]
        return rule.exponentials
    is_known = item.name in SOFTENED
    return max(math.prod(program.shapes[source]) for source in item.sources) if is_known else math.inf


def _is_exponential(item: Instruction) -> bool:
    return isinstance(item, CallMap) and item.name in EXPONENTIALS


def _placed(program: Program, k: int, item: Instruction) -> int:
    """The entries of a sum of terms that do not all fill it."""
    shape = program.shapes[k]
    is_placed = isinstance(item, Combine) and not all(term.is_dense(shape) for term in item.terms)
    return math.prod(shape) if is_placed else 0


def jitted(function: Function, options: Options) -> Function:
    """The function, jitted, with options where no trace is around it.

    Inside of a trace it is part of another program, for which only its user can set options. `alone` of what
    comes back is the function for arrays outside of any trace, which raises ValueError inside of one.
    """
    inside: Function = jax.jit(function)
    if not options or not _has_options():
        return inside
    alone = jax.jit(function, compiler_options=options)

    @functools.wraps(inside)
    def run(*arrays: Any) -> Any:
        if any(isinstance(array, jax.core.Tracer) for array in arrays):
            return inside(*arrays)
        with jax.core.eval_context():  # arrays may be known though something else is traced
            return alone(*arrays)

    vars(run)["alone"] = alone
    return run


@functools.cache
def _has_options() -> bool:
    """Whether programs run on a processor, by an XLA that has the options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        with jax.core.eval_context():  # it may be a trace that asks
            jax.jit(lambda: 0, compiler_options=PLAIN | LESS | PARTS | {WITHOUT: TAKES_SUMS_APART})()
    except jax.errors.JaxRuntimeError:
        return False
    return True
