"""NumPy: programs with large intermediates sliced, as straight-line source that saves memory traffic."""

from collections.abc import Sequence

from hesse import plan
from hesse.backends.numpy.slices import sliced
from hesse.backends.numpy.writer import Compiled, compile_program
from hesse.ir import Node
from hesse.plan import Program

__all__ = ["Compiled", "compile_program", "make_plan", "sliced"]


def make_plan(roots: Sequence[Node]) -> Program:
    """The program for some nodes, large intermediates sliced."""
    return sliced(plan.make_plan(roots))
