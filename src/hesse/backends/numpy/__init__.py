"""NumPy: programs with large intermediates sliced, as straight-line source that saves memory traffic."""

from collections.abc import Sequence

from hesse.backends.numpy.compiling import compile_program
from hesse.backends.numpy.machine import NUMPY_MACHINE, NumpyMachine
from hesse.backends.numpy.program import NumpyProgram
from hesse.backends.numpy.target import TARGET, NumpyTarget
from hesse.ir import Node

__all__ = [
    "NUMPY_MACHINE",
    "TARGET",
    "NumpyMachine",
    "NumpyProgram",
    "NumpyTarget",
    "compile_program",
    "make_plan",
]


def make_plan(roots: Sequence[Node], machine: NumpyMachine = NUMPY_MACHINE) -> NumpyProgram:
    """The program for some nodes, as NumPy runs it."""
    target = NumpyTarget(machine)
    return target.passes(target.planned(roots))
