"""A softmax and a logsumexp of one array, as a value and its gradient have them, share their exponentials."""

from __future__ import annotations

import math
from dataclasses import replace

from hesse.backends.numpy.records import FEW
from hesse.plan.program import CallApply, Program, Ref, reordered

GIVEN = frozenset({"log_softmax", "logsumexp"})
"""Operations that need no exponential where the softmax of their operand is given."""


def beside_softmax(program: Program) -> Program:
    """The program in which these operations read the softmax, which is computed first."""
    softmax = {
        item.sources: k
        for k, item in enumerate(program.instructions)
        if isinstance(item, CallApply) and item.name == "softmax" and math.prod(program.shapes[k]) > FEW
    }
    order: list[Ref] = []
    readers: list[Ref] = []
    for k, item in enumerate(program.instructions):
        soft = softmax.get(item.sources) if isinstance(item, CallApply) and item.name in GIVEN else None
        if soft is not None:
            readers.append(k)
        order += [ref for ref in (soft, k) if ref is not None]
    if not readers:
        return program
    order = list(dict.fromkeys(order))
    instructions = list(program.instructions)
    for k in readers:
        item = instructions[k]
        assert isinstance(item, CallApply)
        instructions[k] = replace(item, sources=(*item.sources, softmax[item.sources]))
    return reordered(replace(program, instructions=tuple(instructions)), order)
