"""What the record of the JAX back end knows about slices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.calibrate.jax_programs import prepared, versus, waiting
from benchmarks.calibrate.measuring import (
    NEVER,
    Call,
    Measured,
    Program,
    powers,
    random,
    relative,
    seconds,
    smallest,
    tried,
)
from hesse.backends.jax.machine import JaxMachine


def _attention(queries: Any, keys: Any, values: Any) -> Any:
    weights = np.exp(np.tanh(queries @ keys.T))
    return (weights @ values) / np.sum(weights, axis=1)[:, None]


def _weighted(entries: int) -> Program:
    """Weights of so many entries, which several sums read."""
    return _attention, [random(entries // 64, 4), random(64, 4), random(64, 4)]


def least_saved(machine: JaxMachine) -> Measured:
    """Entries of intermediates from which slices are quicker than all at once."""
    ways = versus(_weighted, machine, least_saved=(1, NEVER))
    return ways.begins(powers(15, 23), lambda entries: 2 * entries)


def _in_slices(total: int, entries: int, machine: JaxMachine) -> Call:
    cut = replace(machine, slice_entries=entries, least_saved=1, smallest_slice=1, fewest_rows=1)
    return prepared(_weighted(total), cut).call


def slice_entries(machine: JaxMachine) -> Measured:
    """Entries of the slices that are quickest."""
    sizes = tried(powers(12, 20))
    times = seconds(*(_in_slices(2**22, entries, machine) for entries in sizes))
    return sizes[times.index(min(times))]


def smallest_slice(machine: JaxMachine) -> Measured:
    """Entries of the smallest slices that take at most twice as long as the best."""
    best = _in_slices(2**20, machine.slice_entries, machine)
    return smallest(powers(9, 17), lambda entries: relative(_in_slices(2**20, entries, machine), best) < 2)


def small_instruction(machine: JaxMachine) -> Measured:
    """Entries of results from which it is quicker to cut also what is computed of sums that slices give."""
    smoothed = replace(machine, least_saved=1)

    def average(x: Any, y: Any, values: Any) -> Any:
        weights = np.exp(-((x[:, None] - y) ** 2))
        return np.tanh((weights @ values) / np.sum(weights, axis=1))

    def pays(rows: int) -> bool:
        program = average, [random(rows), random(128), random(128)]
        ways = [prepared(program, replace(smoothed, small_instruction=most)) for most in (0, 2 * rows)]
        return ways[0].text != ways[1].text and relative(ways[0].call, ways[1].call) < 1

    return smallest(powers(8, 15), pays)


def _then_multiplied(rows: int, width: int, columns: int) -> Program:
    """Intermediates that are multiplied by a matrix."""
    return (
        lambda x, y, matrix: np.exp(-((x[:, None] - y) ** 2)) @ matrix,
        [random(rows), random(width), random(width, columns)],
    )


def largest_whole(machine: JaxMachine) -> Measured:
    """Entries of the largest matrix with which slices are quicker multiplied than all at once."""
    ways = versus(
        lambda n: _then_multiplied(2**21 // n, n, n // 2),
        machine,
        largest_whole=(NEVER, 0),
        largest_read=(NEVER, 0),
    )
    return ways.ends(powers(3, 9), lambda n: n**2 / 2)


def largest_read(machine: JaxMachine) -> Measured:
    """The same for results that are much smaller than the intermediates."""
    ways = versus(lambda n: _then_multiplied(2**22 // n, n, 8), machine, largest_read=(NEVER, 0))
    return ways.ends(powers(6, 13), lambda n: 8 * n)


def largest_sum(machine: JaxMachine) -> Measured:
    """Entries of the largest sum to which slices are quicker added than all at once."""

    def program(columns: int) -> Program:
        rows = 2**22 // (64 * columns)
        return (
            lambda x, y: np.sum(np.exp(-((x[:, None, None] - y) ** 2)), axis=0),
            [random(rows), random(64, columns)],
        )

    ways = versus(program, machine, largest_sum=(NEVER, 0))
    return ways.ends(powers(0, 8), lambda columns: 64 * columns)


def product_rows(machine: JaxMachine) -> Measured:
    """Rows of a slice from which a product takes no more time for each of them."""
    matrix, many = random(512, 512), random(512, 512)
    whole = waiting(jnp.matmul, many, matrix)

    def is_enough(rows: int) -> bool:
        return relative(waiting(jnp.matmul, many[:rows], matrix), whole) / rows < 1.5 / len(many)

    return smallest(powers(0, 8), is_enough)
