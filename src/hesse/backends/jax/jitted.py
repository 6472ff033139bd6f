"""Jitted functions, and how XLA is told to compile them: its default way often takes too long.

XLA makes a kernel of each group of operations that it fuses. On a processor it has two ways to write kernels.
The default one takes up to twice as long for each. Loops over large arrays, and those of softmax and its
relatives at any size, are up to a third faster for it; others are as fast, or slower. So programs that loop
over few entries are compiled the older way. Programs of hundreds of kernels that do little (the Hessian of a
small net by its weights) are in addition optimised less.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax

from hesse.backends.jax.machine import JaxMachine
from hesse.plan.program import CallApply, CallMap, Contract, Instruction, Program

Function = Callable[..., Any]
Options = Mapping[str, Any]

PLAIN = {"xla_cpu_use_fusion_emitters": False}
"""What XLA is told about programs that loop over few entries."""
QUICK = PLAIN | {"xla_backend_optimization_level": 1}
"""What XLA is told about long programs."""
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


def compiler_options(program: Program, machine: JaxMachine) -> Options:
    """How a program is compiled where it is called outside of a trace."""
    count = len(program.instructions)
    if count >= machine.long_program and program.total_flops <= count * machine.little_work:
        return QUICK
    return PLAIN if _looped_entries(program) <= machine.few_entries else {}


def _looped_entries(program: Program) -> float:
    """The entries that are computed one by one; products of matrices and what is only moved do not count."""
    return sum(_looped(program, k, item) for k, item in enumerate(program.instructions))


def _looped(program: Program, k: int, item: Instruction) -> float:
    match item:
        case CallMap():
            return math.prod(program.shapes[k])
        case CallApply():
            return 0 if item.name in ALGEBRA else math.inf
        case Contract() if not item.is_sum:
            return math.prod(program.shapes[k])
        case _:
            return 0


def jitted(function: Function, options: Options) -> Function:
    """The function, jitted, with options where no trace is around it.

    Inside of a trace it is part of another program, for which only its user can set options. `alone` of what
    comes back is the function for arrays outside of any trace, which raises ValueError inside of one.
    """
    inside: Function = jax.jit(function)
    if not options or not _has_options():
        return inside
    alone = jax.jit(function, compiler_options=dict(options))

    @functools.wraps(inside)
    def run(*arrays: Any) -> Any:
        if any(isinstance(array, jax.core.Tracer) for array in arrays):
            return inside(*arrays)
        with jax.core.eval_context():  # arrays may be known though something else is traced
            return alone(*arrays)

    vars(run)["alone"] = alone
    return run


def is_processor() -> bool:
    """Whether programs run on one processor: loops over slices of arrays would be run by each of several."""
    return bool(jax.default_backend() == "cpu" and jax.device_count() == 1)


@functools.cache
def _has_options() -> bool:
    """Whether programs run on a processor, by an XLA that has the options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        with jax.core.eval_context():  # it may be a trace that asks
            jax.jit(lambda: 0, compiler_options=QUICK)()
    except jax.errors.JaxRuntimeError:
        return False
    return True
