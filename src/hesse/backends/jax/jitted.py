"""Jitted functions, long programs among them: for those XLA's default way to compile takes too long.

XLA makes a kernel of each group of operations that it fuses. On a processor it has two ways to write kernels.
The default one takes two to three times as long for each. Loops over large arrays are up to a third faster
for it; a program of hundreds of kernels that do little (the Hessian of a small net by its weights) is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

Function = Callable[..., Any]

QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
"""What XLA is told about long programs."""


def jitted(function: Function, is_long: bool) -> Function:
    """The function, jitted; a long one is compiled quickly where no trace is around it.

    Inside of a trace it is part of another program, for which only its user can set options.
    """
    inside: Function = jax.jit(function)
    if not is_long or not _has_options():
        return inside
    alone = jax.jit(function, compiler_options=QUICK)

    @functools.wraps(inside)
    def run(*arrays: Any) -> Any:
        if any(isinstance(array, jax.core.Tracer) for array in arrays):
            return inside(*arrays)
        with jax.core.eval_context():  # arrays may be known though something else is traced
            return alone(*arrays)

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
