"""The record of the JAX back end: programs that differ in what one field decides, in double precision."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.calibrate import measuring
from benchmarks.calibrate.jax_programs import executable, prepared, versus, waiting
from benchmarks.calibrate.jax_slices import (
    largest_read,
    largest_sum,
    largest_whole,
    least_saved,
    product_rows,
    slice_entries,
    small_instruction,
    smallest_slice,
)
from benchmarks.calibrate.measuring import (
    NEVER,
    Call,
    Measured,
    Program,
    Target,
    named,
    powers,
    random,
    seconds,
    smallest,
)
from hesse.backends.jax.jitted import compiler_options
from hesse.backends.jax.machine import JAX_MACHINE, JaxMachine

AS_GOOD = 1.1
"""What takes at most so much longer takes no longer."""
CHOICES = {
    "smallest_halved": "XLA computes all of a symmetric product",
    "halved_share": "XLA computes all of a symmetric product",
    "large_sum": "XLA adds up as it likes",
    "largest_joined": "a bound",
    "larger_first": "what the library does",
    "many_slices": "how much must be won",
    "fewest_rows": "a bound",
    "fewest_slices": "a bound",
    "most_seeds": "a bound of a search",
    "fuses": "what the library does",
    "placed_in_time": "some hundredths of a call for a fifth of its compilation",
}
WORTH_SAVING = 0.1
"""Seconds by which a program must be compiled more quickly."""


# products


def _square(size: int) -> float:
    return size**2


def _multiplied() -> Call:
    matrix = random(1000, 1000)
    return waiting(jnp.matmul, matrix, matrix)


def entry_cost(machine: JaxMachine) -> Measured:
    """Time of an entry that is moved, in operations of a large matrix product."""
    a, b = random(2**21), random(2**21)
    moved, multiplied = seconds(waiting(jnp.add, a, b), _multiplied())
    return (moved / (3 * a.size)) / (multiplied / (2 * 1000**3))


def _steps(count: int, size: int) -> Program:
    """Small products, with a function between each two."""

    def run(x: Any, *matrices: Any) -> Any:
        for matrix in matrices:
            x = np.cos(matrix @ x)
        return x

    return run, [random(size), *(random(size, size) / size for _ in range(count))]


def call_cost(machine: JaxMachine) -> Measured:
    """Time of a small instruction inside of a program, in operations of a large matrix product."""
    few, many = (_steps(count, 8) for count in (10, 200))
    counts = [len(executable(each, machine).program.instructions) - len(each[1]) for each in (few, many)]
    short, long, multiplied = seconds(*(prepared(each, machine).call for each in (few, many)), _multiplied())
    return max(long - short, 0.0) / (counts[1] - counts[0]) / (multiplied / (2 * 1000**3))


def short_sum(machine: JaxMachine) -> Measured:
    """Products that are summed, up to which they are quicker as a part of what is around them."""
    return _short_sum(machine, "short_sum")


def short_device_sum(machine: JaxMachine) -> Measured:
    """The same on a GPU."""
    return _short_sum(machine, "short_device_sum")


def _short_sum(machine: JaxMachine, field: str) -> Measured:
    def program(count: int) -> Program:
        return lambda a, x: np.cos(a @ x), [random(2048, count), random(count)]

    return versus(program, machine, **{field: (NEVER, 0)}).ends([2, 3, 4, 6, 8, 12, 16, 24, 32])


def long_result(machine: JaxMachine) -> Measured:
    """Entries from which short sums are quicker as additions."""

    def program(n: int) -> Program:
        return lambda a, b: np.tanh(a @ b), [random(n, 3), random(3, n)]

    return versus(program, machine, long_result=(0, NEVER)).begins(powers(3, 9), _square)


def small_matrix(machine: JaxMachine) -> Measured:
    """Entries of the largest matrices that are quicker multiplied and summed, many at a time."""

    def program(n: int) -> Program:
        return partial(np.einsum, "nij,njk->nik"), [random(256, n, 8), random(256, 8, n)]

    return versus(program, machine, small_matrix=(NEVER, 0)).ends([1, 2, 3, 4, 6, 8, 12], _square)


def long_loop(machine: JaxMachine) -> Measured:
    """Products from which all entries of small matrices are quicker summed in one loop."""

    def program(count: int) -> Program:
        return partial(np.einsum, "nik,njk->nij"), [random(count, 3, 64), random(count, 3, 64)]

    return versus(program, machine, long_loop=(0, NEVER)).begins(powers(2, 10), lambda n: 9 * 64 * n)


# windows


def most_pieces(machine: JaxMachine) -> Measured:
    """Positions of windows up to which they are quicker read one position at a time."""

    def read(x: Any, weights: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, weights.shape)
        return np.sum(np.tanh(windows * weights), axis=1)

    def program(count: int) -> Program:
        return read, [random(4096), random(count)]

    return versus(program, machine, most_pieces=(NEVER, 0)).ends(powers(3, 8))


def few_features(machine: JaxMachine) -> Measured:
    """Features of kernels up to which convolutions are quicker than products of windows."""

    def convolved(x: Any, *kernels: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
        return [np.einsum("cab,xyab->cxy", kernel, windows) for kernel in kernels]

    def program(features: int) -> Program:
        return convolved, [random(34, 34), random(features, 3, 3), random(features, 3, 3)]

    return versus(program, machine, few_features=(NEVER, 0)).ends([1, 2, 4, 8, 16, 32, 64])


# sums of terms in their places

SIDES = [16, 24, 32, 48, 64, 96, 128, 192, 256, 512]
"""Sizes of square matrices."""


def _borders(size: int, count: int, length: int) -> Program:
    """A matrix with a few terms that lie in a part of it, each in another one."""

    def total(x: Any, *terms: Any) -> Any:
        x = x * x
        for k, term in enumerate(terms):
            x = x + np.pad(term, [(k, size - k - length)] * 2)
        return x

    return total, [random(size, size), *(random(length, length) for _ in range(count))]


def local_share(machine: JaxMachine) -> Measured:
    """The share of a sum from which on terms are no longer quicker added where they are."""
    parts = [256, 192, 128, 96, 64, 48, 32, 24, 16]
    ways = versus(lambda length: _borders(264, 6, length), machine, local_share=(1.0, 0.0))
    return ways.ends(parts, lambda length: (length / 264) ** 2)


def many_local(machine: JaxMachine) -> Measured:
    """Terms from which it is quicker to add them where they are."""
    ways = versus(lambda count: _borders(256, count, 32), machine, many_local=(1, NEVER))
    return ways.begins([1, 2, 3, 4, 6, 8, 12, 16])


def few_looks(machine: JaxMachine) -> Measured:
    """Terms times entries of a sum up to which that is slower."""
    ways = versus(lambda size: _borders(size, 6, size // 4), machine, few_looks=(NEVER, 0))
    return ways.ends([8, 12, 16, 24, 32, 48, 64, 96, 128, 256], lambda size: 6 * size**2)


def _columns(width: int, count: int) -> Program:
    """A matrix to the first columns of which others are added."""

    def total(x: Any, *columns: Any) -> Any:
        x = x * x
        for k, column in enumerate(columns):
            x = x + np.pad(column[:, None], [(0, 0), (k, width - 1 - k)])
        return x

    return total, [random(3_000, width), *(random(3_000) for _ in range(count))]


def layered_share(machine: JaxMachine) -> Measured:
    """The share of a sum from which on such terms are quicker added in one loop."""
    ways = versus(lambda count: _columns(8, count), machine, layered_share=(0.0, NEVER))
    return ways.begins([4, 5, 6, 7], lambda count: count / 8)


def most_layers(machine: JaxMachine) -> Measured:
    """The layers up to which they are."""
    ways = versus(lambda count: _columns(count + 1, count), machine, most_layers=(NEVER, 0))
    return ways.ends([6, 8, 10, 12, 16, 24, 32])


def _diagonals(n: int) -> Program:
    """A matrix with terms on diagonals."""

    def total(x: Any, y: Any) -> Any:
        return np.outer(x, y) + np.diag(x) + np.diag(y[1:], 1) + np.diag(x[1:], -1) + np.diag(x * y)

    return total, [random(n), random(n)]


def large_result(machine: JaxMachine) -> Measured:
    """Entries of results from which terms are quicker put there together."""
    return versus(_diagonals, machine, large_result=(0, NEVER)).begins(powers(4, 10), _square)


# how programs are compiled


def few_placed(machine: JaxMachine) -> Measured:
    """Entries of sums of terms up to which programs are as quick where XLA optimises less."""
    light = replace(machine, little_work=NEVER)
    return versus(_diagonals, light, AS_GOOD, few_placed=(NEVER, 0)).ends(SIDES, _square)


def few_entries(machine: JaxMachine) -> Measured:
    """Entries up to which loops are as quick where they are written the older way."""

    def program(n: int) -> Program:
        return lambda x, y: np.outer(x, y) * x, [random(n), random(n)]

    ways = versus(program, machine, AS_GOOD, few_entries=(NEVER, 0))
    return ways.ends(powers(4, 11), lambda n: 2 * n**2)


def few_exponentials(machine: JaxMachine) -> Measured:
    """The same for exponentials."""

    def program(entries: int) -> Program:
        return np.exp, [random(entries)]

    return versus(program, machine, AS_GOOD, few_exponentials=(NEVER, 0)).ends(powers(6, 18))


def little_work(machine: JaxMachine) -> Measured:
    """Operations for each instruction up to which long programs are as quick where XLA optimises less."""
    long = replace(machine, long_program=0)

    def work(size: int) -> float:
        program = executable(_steps(40, size), long).program
        return program.total_flops / len(program.instructions)

    return versus(partial(_steps, 40), long, AS_GOOD, little_work=(NEVER, 0)).ends(powers(3, 9), work)


def _compiling(program: Program, machine: JaxMachine) -> float:
    """The time to compile, without that to trace."""
    made, arrays = executable(program, machine), list(map(jnp.asarray, program[1]))
    options = compiler_options(made.program, machine, np.dtype(float))
    times = []
    for _ in range(min(3, measuring.FEWEST)):
        # a function of its own: what was compiled of another one is kept
        lowered = jax.jit(functools.partial(made.compiled.function)).lower(*arrays)
        start = time.perf_counter()
        lowered.compile(compiler_options=options)
        times.append(time.perf_counter() - start)
    return min(times)


def _loops(count: int) -> Program:
    """So many loops, no two of the same sizes: one that is there would not be compiled again."""

    def run(x: Any, *matrices: Any) -> Any:
        for matrix in matrices:
            x = np.sum(np.cos(matrix * x), axis=1)
        return x

    return run, [random(16), *(random(17 + k, 16 + k) for k in range(count))]


def long_program(machine: JaxMachine) -> Measured:
    """Instructions from which much time is saved where XLA compiles a program the quick way."""
    quick, slow = (replace(machine, long_program=n, few_entries=-1, few_placed=-1) for n in (0, NEVER))

    def pays(count: int) -> bool:
        program = _loops(count // 4)  # a load, a product, a function and a sum
        return _compiling(program, slow) - _compiling(program, quick) > WORTH_SAVING

    return smallest([12, 24, 48, 100, 200, 400], pays)


def much_work(machine: JaxMachine) -> Measured:
    """Operations for each entry of loops from which they may as well be written the older way."""

    def program(count: int) -> Program:
        return lambda a, b, c: (a @ b) * c, [random(512, count), random(count, 512), random(512, 512)]

    alone = replace(machine, few_entries=-1)
    return versus(program, alone, AS_GOOD, much_work=(1e-9, NEVER)).begins(
        powers(3, 10), lambda count: 2 * count + 1
    )


TARGET = Target(
    JAX_MACHINE,
    named(
        entry_cost,
        call_cost,
        short_sum,
        short_device_sum,
        long_result,
        small_matrix,
        long_loop,
        most_pieces,
        few_features,
        local_share,
        many_local,
        few_looks,
        layered_share,
        most_layers,
        large_result,
        few_placed,
        few_entries,
        few_exponentials,
        little_work,
        long_program,
        much_work,
        least_saved,
        slice_entries,
        smallest_slice,
        small_instruction,
        largest_whole,
        largest_read,
        largest_sum,
        product_rows,
    ),
    CHOICES,
    {"short_device_sum": "a GPU"} if jax.default_backend() == "cpu" else {"short_sum": "a processor"},
)
