"""Programs of the JAX back end that are timed, in double precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hesse
from benchmarks.calibrate.measuring import Call, Prepared, Program, contest
from hesse.backends.executable import Executable
from hesse.backends.jax import JaxTarget
from hesse.backends.jax.jitted import compiler_options
from hesse.backends.jax.machine import JaxMachine

jax.config.update("jax_enable_x64", True)


def executable(program: Program, machine: JaxMachine) -> Executable:
    """A program, compiled by a record."""
    function, arrays = program
    return hesse.compile(function, backend=JaxTarget(machine=machine)).explain(*arrays).executable


def prepared(program: Program, machine: JaxMachine) -> Prepared:
    """A call of a program, without what it takes to compile, and the operations that XLA is given."""
    made, arrays = executable(program, machine), list(map(jnp.asarray, program[1]))
    function = made.compiled.function
    options = compiler_options(made.program, machine, np.dtype(float))
    text = f"{jax.make_jaxpr(function)(*arrays)} {sorted(options.items())}"
    return Prepared(lambda: jax.block_until_ready(function(*arrays)), text)


versus = partial(contest, prepared)


def waiting(function: Any, *arrays: Any) -> Call:
    """A call of a function, jitted, up to its end."""
    compiled = jax.jit(function)
    given = list(map(jnp.asarray, arrays))
    return lambda: jax.block_until_ready(compiled(*given))
