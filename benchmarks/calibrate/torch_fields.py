"""The record of the PyTorch back end, on CUDA where that is, else on the processor; in double precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import hesse
from benchmarks.calibrate.measuring import (
    NEVER,
    Call,
    Function,
    Measured,
    Prepared,
    Program,
    Target,
    contest,
    named,
    powers,
    random,
    relative,
    seconds,
    smallest,
)
from hesse.backends.torch import TorchTarget
from hesse.backends.torch.fused import Fused
from hesse.backends.torch.graphs import Graphed
from hesse.backends.torch.machine import TORCH_MACHINE, TorchMachine
from hesse.backends.torch.writer import TorchWriter

HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")
CHOICES = {
    "smallest_halved": "PyTorch computes all of a symmetric product",
    "halved_share": "PyTorch computes all of a symmetric product",
    "largest_joined": "0: results take no longer the more there are",
    "call_cost": "0: calls are not counted",
    "larger_first": "what the library does",
    "lanes": "more hold more memory for little time",
    "lane_bytes": "memory that a graph may hold",
    "kernel_bytes": "rough: it orders instructions",
    "product_kernels": "rough: it orders instructions",
}
ON_CUDA = ("fused_stack", "fused_product", "launch_bytes", "replay_launches")


def waiting(function: Function, *arrays: Tensor) -> Call:
    """A call of a function, up to its end."""

    def call() -> None:
        function(*arrays)
        if HAS_CUDA:
            torch.cuda.synchronize()

    return call


def given(*arrays: np.ndarray) -> list[Tensor]:
    """Arrays on the device that is measured."""
    return [torch.as_tensor(array, device=DEVICE) for array in arrays]


def prepared(program: Program, machine: TorchMachine, fuse: bool = False) -> Prepared:
    """A call of a program as PyTorch runs it, be it so small that NumPy would, and its source."""
    function, arrays = program
    found = hesse.compile(function, backend=TorchTarget(machine=machine)).explain(*arrays).executable
    writer = TorchWriter(found.program, found.dtype, machine, (), DEVICE, is_fused=fuse)
    made = writer.compiled(found.inputs)
    run = Fused(made.function) if fuse else made.function
    return Prepared(waiting(run, *given(*arrays)), made.source)


versus = partial(contest, prepared)


def entry_cost(machine: TorchMachine) -> Measured:
    """Time of an entry that is moved, in operations of a large matrix product."""
    entries, rows = (2**25, 4000) if HAS_CUDA else (2**21, 1000)
    a, b, matrix = given(random(entries), random(entries), random(rows, rows))
    moved, multiplied = seconds(waiting(torch.add, a, b), waiting(torch.matmul, matrix, matrix))
    return (moved / (3 * entries)) / (multiplied / (2 * rows**3))


def large_sum(machine: TorchMachine) -> Measured:
    """Entries from which it pays to add each term as soon as it is known."""

    def total(*arrays: Any) -> Any:
        return sum(map(np.abs, arrays[1:]), np.abs(arrays[0]))

    def program(entries: int) -> Program:
        return total, [random(entries)] * 6

    return versus(program, machine, 0.95, large_sum=(1, NEVER)).begins(powers(8, 22, 2))


def _stack(count: int, n: int, summed: int) -> Program:
    return (
        lambda a, b: np.tanh(np.einsum("nij,njk->nik", a, b)),
        [random(count, n, summed), random(count, summed, n)],
    )


def small_matrix(machine: TorchMachine) -> Measured:
    """Entries of the largest matrices that are quicker multiplied and summed, many at a time."""
    ways = versus(lambda n: _stack(2**12, n, 4), machine, small_matrix=(NEVER, 0))
    return ways.ends([1, 2, 3, 4, 6, 8, 12], lambda n: n**2)


def fused_stack(machine: TorchMachine) -> Measured:
    """Multiplications of the largest stack that a fused program multiplies and sums more quickly."""
    fused = partial(prepared, fuse=True)
    ways = contest(fused, lambda count: _stack(count, 8, 8), machine, fused_stack=(NEVER, 0))
    return ways.ends(powers(8, 16, 2), lambda count: count * 8**3)


def fused_product(machine: TorchMachine) -> Measured:
    """The same for one product of matrices."""

    def program(n: int) -> Program:
        return lambda a, b: np.tanh(a @ b), [random(n, n), random(n, n)]

    ways = contest(partial(prepared, fuse=True), program, machine, fused_product=(NEVER, 0))
    return ways.ends(powers(3, 9), lambda n: n**3)


def _operations(count: int) -> Function:
    """So many operations that do hardly anything."""

    def run(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(count):
            x = torch.abs(x)
        return (x,)

    return run


def launch_bytes(machine: TorchMachine) -> Measured:
    """Bytes that are read and written by a copy in the time that an operation takes to start."""
    (small, large) = given(random(8), random(2**26))
    few, many, copied = seconds(
        waiting(_operations(10), small),
        waiting(_operations(200), small),
        waiting(torch.clone, large),
    )
    return (many - few) / 190 * 2 * large.nbytes / copied


def replay_launches(machine: TorchMachine) -> Measured:
    """Operations from which it is quicker to replay a graph of them, besides the two copies."""
    (x,) = given(random(8))

    def pays(count: int) -> bool:
        run = _operations(count)
        graph = waiting(Graphed(run, copies=True), x)
        graph()  # it is captured at the second call
        return relative(graph, waiting(run, x)) < 1

    found = smallest([3, 4, 6, 8, 10, 12, 16, 24, 32], pays)
    return None if found is None else found - 2


TARGET = Target(
    TORCH_MACHINE,
    named(
        entry_cost,
        large_sum,
        small_matrix,
        fused_stack,
        fused_product,
        launch_bytes,
        replay_launches,
    ),
    CHOICES,
    {} if HAS_CUDA else dict.fromkeys(ON_CUDA, "CUDA"),
)
