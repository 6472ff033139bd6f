"""`python -m benchmarks.build.worker PROGRAM LIBRARY FILE`: a first call, timed; results go to the file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.build.programs import PROGRAMS, Program

Derivative = Callable[..., Any]


def warming_up(xp: Any) -> Callable[[Any], Any]:
    """A function whose first call imports what the others need: that is not counted."""
    return lambda x: xp.sum(xp.tanh(xp.log1p(xp.exp(x))))


def by_hesse(program: Program) -> Derivative:
    """The derivative as hesse computes it."""
    import hesse  # noqa: PLC0415 -- a process imports one library only

    hesse.grad(warming_up(np))(np.ones(2))
    make: Callable[..., Any] = hesse.grad if program.derivative == "gradient" else hesse.hessian
    derivative: Derivative = make(program.function(np), argnums=program.argnums)
    return derivative


def by_jax(program: Program) -> Derivative:
    """The derivative as jitted JAX computes it."""
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    jax.jit(jax.grad(warming_up(jax.numpy)))(np.ones(2)).block_until_ready()
    make = jax.grad if program.derivative == "gradient" else jax.hessian
    derivative = jax.jit(make(program.function(jax.numpy), argnums=program.argnums))
    return lambda *arguments: jax.block_until_ready(derivative(*arguments))


LIBRARIES = {"hesse": by_hesse, "JAX": by_jax}


def leaves(result: Any) -> list[np.ndarray]:
    """The arrays of nested tuples."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


def main(title: str, library: str, file: str) -> None:
    """Time the first call, then keep its results."""
    (program,) = (program for program in PROGRAMS if program.title == title)
    arguments = program.arguments()
    derivative = LIBRARIES[library](program)
    start = time.perf_counter()
    result = derivative(*arguments)
    seconds = time.perf_counter() - start
    np.savez(file, seconds=seconds, values=np.concatenate([leaf.ravel() for leaf in leaves(result)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
