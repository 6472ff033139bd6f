"""Jitted functions, compiled in the way that suits their work.

XLA makes a kernel of each group of operations that it fuses. On a processor it has two ways to write kernels.
The default one takes two to three times as long for each. Loops over many entries are up to a third faster
for it, those over functions like tanh above all; programs that do little are not. Sums of a matrix and its
transpose take up to forty times as long (with 1,000 rows).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

Function = Callable[..., Any]
Options = Mapping[str, bool | int]

PLAIN: Options = {"xla_cpu_use_fusion_emitters": False}
"""What XLA is told about programs that do little."""
QUICK: Options = {**PLAIN, "xla_backend_optimization_level": 1}
"""The same for long ones: hundreds of kernels, as in the Hessian of a small net by its weights."""


def jitted(function: Function, options: Options | None) -> Function:
    """The function, jitted; compiled with options where no trace is around it.

    Inside of a trace it is part of another program, for which only its user can set options.
    """
    inside: Function = jax.jit(function)
    if options is None or not _has_options():
        return inside
    alone = jax.jit(function, compiler_options=dict(options))
    known = _known()

    @functools.wraps(inside)
    def run(*arrays: Any) -> Any:
        if not known.issuperset(map(type, arrays)):
            return inside(*arrays)
        try:
            return alone(*arrays)
        except ValueError:  # arrays may be known though something else is traced
            return inside(*arrays)

    return run


def is_processor() -> bool:
    """Whether programs run on one processor: loops over slices of arrays would be run by each of several."""
    return bool(jax.default_backend() == "cpu" and jax.device_count() == 1)


@functools.cache
def _known() -> frozenset[type]:
    """The types of arrays whose entries are known: no traces."""
    with jax.core.eval_context():  # it may be a trace that asks
        return frozenset([type(jax.device_put(0.0)), np.ndarray])


@functools.cache
def _has_options() -> bool:
    """Whether programs run on a processor, by an XLA that has the options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        with jax.core.eval_context():  # it may be a trace that asks
            jax.jit(lambda: 0, compiler_options=dict(QUICK))()
    except jax.errors.JaxRuntimeError:
        return False
    return True
