"""Factors of values travel with them, and are multiplied in where that costs least.

In derivatives of high order most terms of sums have factors. As a library computes line by line, each of them
is a pass over memory. A factor may as well wait: products collect the factors of their operands, and a sum
whose terms have the same one leaves it to whoever reads the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hesse.backends.numpy.factors import CALL, LARGEST, common_factors
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Draft,
    Instruction,
    Literal,
    Placed,
    Program,
    Reduce,
    Ref,
    Scale,
    Sizes,
    View,
    sources,
    with_sources,
)

ROUNDING = 1e-14
"""Factors that are one but for rounding are one."""
SMALL_SHARE = 64
"""Where multiplications by numbers are a smaller part of the work than one in so many, nothing is tried."""
MORE_MEMORY = 1 / 16
"""By how much the memory that is needed at once may grow."""


def with_few_scales(program: Program) -> Program:
    """The program with its factors multiplied in where that costs least, if that is less than before."""
    before = _scaling(program)
    if before * SMALL_SHARE < program.moved_entries + CALL * len(program.instructions):
        return program
    most = program.peak_elements() * (1 + MORE_MEMORY)
    found = [_Waiting(program, factors).run() for factors in common_factors(program)]
    smaller = [p for p in found if p.total_flops <= program.total_flops and p.peak_elements() <= most]
    return min([program, *smaller], key=_scaling)


def _scaling(program: Program) -> int:
    """What multiplications by numbers cost, in entries."""
    scaled = [k for k, item in enumerate(program.instructions) if isinstance(item, Scale)]
    for item in program.instructions:
        if isinstance(item, Combine):
            scaled += [term.source for term in item.terms if abs(term.factor) != 1]
    return sum(math.prod(program.shapes[k]) + CALL for k in scaled)


class _Waiting(Draft):
    """The instructions of a new program, and for each value of the old one where it is, but for a factor."""

    def __init__(self, program: Program, common: Mapping[Ref, float]) -> None:
        super().__init__()
        self.old = program
        self.common = common
        """For each sum the factor that is taken out of it."""
        self.known: list[tuple[Ref, float]] = []
        self.emitted: dict[tuple[Instruction, Sizes] | None, Ref] = {}
        self.scaled: dict[tuple[Ref, float], Ref] = {}

    def run(self) -> Program:
        for k, item in enumerate(self.old.instructions):
            self.known.append(self._value(k, item))
        results = [self._whole(k) for k in self.old.results]
        return self.program(results, self.old.node_count)

    def _emit(self, item: Instruction, shape: Sizes, flops: float) -> Ref:
        """An instruction, unless it is there already: multiples of one value are no different any more."""
        key = None if isinstance(item, Literal) else (item, shape)  # arrays do not hash
        if key in self.emitted:
            return self.emitted[key]
        if key is not None:
            self.emitted[key] = len(self.instructions)
        return self.add(item, shape, flops)

    def _scaled(self, ref: Ref, factor: float) -> Ref:
        """A new value times a number."""
        if abs(factor - 1) < ROUNDING:
            return ref
        if (ref, factor) not in self.scaled:
            item, shape = self.instructions[ref], self.shapes[ref]
            if isinstance(item, Literal):
                made = self._emit(Literal(np.multiply(item.value, factor)), shape, 0.0)
            else:
                made = self._emit(Scale(ref, factor), shape, float(math.prod(shape)))
            self.scaled[ref, factor] = made
        return self.scaled[ref, factor]

    def _whole(self, k: Ref) -> Ref:
        """Where an old value is, with its factor."""
        return self._scaled(*self.known[k])

    def _value(self, k: Ref, item: Instruction) -> tuple[Ref, float]:
        shape, flops = self.old.shapes[k], self.old.flops[k]
        match item:
            case Scale():
                ref, factor = self.known[item.source]
                return self._waiting(ref, factor * item.factor)
            case View() | Reduce():
                ref, factor = self._before(item.source)
                return self._emit(with_sources(item, [ref]), shape, flops), factor
            case Contract():
                (left, first), (right, second) = (self._before(ref) for ref in sources(item))
                made = self._emit(replace(item, left=left, right=right), shape, flops)
                return self._waiting(made, first * second)
            case Combine():
                return self._sum(k, item)
            case CallMap() | CallApply():
                return self._emit(
                    with_sources(item, [self._whole(s) for s in item.sources]), shape, flops
                ), 1.0
            case _:
                return self._emit(item, shape, flops), 1.0

    def _waiting(self, ref: Ref, factor: float) -> tuple[Ref, float]:
        """A value whose factor waits, unless it is too large or too small."""
        if 1 / LARGEST <= abs(factor) <= LARGEST:
            return ref, factor
        return self._scaled(ref, factor), 1.0

    def _before(self, k: Ref) -> tuple[Ref, float]:
        """An operand; its factor waits unless it has been multiplied in."""
        ref, factor = self.known[k]
        if (ref, factor) in self.scaled:
            return self._scaled(ref, factor), 1.0
        return ref, factor

    def _sum(self, k: Ref, item: Combine) -> tuple[Ref, float]:
        """The terms with what is left of their factors, once one that waits is taken out of them."""
        shape = self.old.shapes[k]
        sizes = [math.prod(self.old.shapes[term.source]) for term in item.terms]
        factors = [term.factor * self.known[term.source][1] for term in item.terms]
        common = self.common[k] * (-1.0 if factors and max(factors) < 0 else 1.0)
        terms: list[Placed] = []
        for term, factor in zip(item.terms, factors, strict=True):
            ref = self._scaled(self.known[term.source][0], abs(factor / common))
            terms.append(replace(term, source=ref, factor=math.copysign(1.0, factor / common)))
        before = sum(size for term, size in zip(item.terms, sizes, strict=True) if abs(term.factor) != 1)
        made = self._emit(replace(item, terms=tuple(terms)), shape, self.old.flops[k] - before)
        return self._waiting(made, common)
