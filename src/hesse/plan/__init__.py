"""From nodes to straight-line programs."""

import math
from collections.abc import Sequence

from hesse.calculus.repeated_loops import without_repeated_loops
from hesse.cost import Cost, Machine
from hesse.ir import Apply, Map, Node, topological
from hesse.plan.adjugates import joined
from hesse.plan.contracted import with_open_contractions
from hesse.plan.diagonals import with_diagonals
from hesse.plan.flatten import flatten
from hesse.plan.lower import lower, require_numbers
from hesse.plan.memory import (
    allowed_bytes,
    bytes_text,
    check_memory,
    fits_memory,
    is_always_allowed,
    set_memory_limit,
)
from hesse.plan.powers import multiplied_out
from hesse.plan.program import Program
from hesse.plan.shared import with_shared_factors
from hesse.plan.split import split

__all__ = [
    "Program",
    "allowed_bytes",
    "bytes_text",
    "called_cost",
    "check_memory",
    "fits_memory",
    "flatten",
    "is_always_allowed",
    "lower",
    "make_plan",
    "planned_cost",
    "set_memory_limit",
    "split",
]


def make_plan(roots: Sequence[Node], machine: Machine) -> Program:
    """The program for some nodes: products flattened where it pays, then lowered; sizes must be numbers."""
    require_numbers(roots)
    flat = flatten(without_repeated_loops(roots), machine)
    forms = [flat, with_shared_factors(flat, machine)]
    if (opened := with_open_contractions(flat, machine)) != flat:
        forms.append(with_shared_factors(opened, machine))
    # intermediates that coincide by themselves are not foreseen: programs are compared, not forms
    programs = [_lowered(form, machine) for k, form in enumerate(forms) if form not in forms[:k]]
    return min(programs, key=lambda program: called_cost(program, machine)) if programs[1:] else programs[0]


def _lowered(flat: Sequence[Node], machine: Machine) -> Program:
    names = {node.name for node in topological(flat) if isinstance(node, Map | Apply)}
    if "power" in names:
        flat = multiplied_out(flat)
    if "determinant" in names:
        flat = joined(flat)
    return lower(with_diagonals(flat), machine)


def called_cost(program: Program, machine: Machine) -> float:
    """The cost of a call of a program, in operations: its instructions take time however little they do."""
    cost = Cost(program.total_flops, program.moved_entries).time(machine)
    return cost + machine.call_cost * len(program.instructions)


def planned_cost(roots: Sequence[Node], machine: Machine) -> float:
    """The cost of the program for some nodes, in operations, without writing the results.

    Those are the same for all programs that compute them, and where they are sparse their cores are made.
    """
    program = make_plan(roots, machine)
    written = sum(math.prod(program.shapes[result]) for result in program.results)
    cost = _cost(program)
    return cost._replace(entries=cost.entries - written).time(machine)


def _cost(program: Program) -> Cost:
    return Cost(program.total_flops, program.moved_entries)
