"""Factors of products move to what the products are made of, where a compiler fuses them with that.

A product of matrices is a call of a library. What is done with its result takes another pass, and on small
arrays starting that takes as long as the product. Factors of rows that are picked move to what they are
picked from, if that is smaller.
"""

from __future__ import annotations

import math
from collections import Counter

from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Draft,
    Instruction,
    Program,
    Ref,
    Scale,
    sources,
    with_sources,
)


def scaled_before(program: Program, most: float) -> Program:
    """The program in which multiples of products are products of multiples.

    That is done where one of the two values that are multiplied is computed entry by entry, for this alone,
    and where factors and their reciprocals are at most `most`: others might leave the range of the type.
    """
    uses = _uses(program)
    factors: dict[Ref, tuple[Ref, float]] = {}
    for item in program.instructions:
        if isinstance(item, Scale) and uses[item.source] == 1 and 1 / most <= abs(item.factor) <= most:
            product = program.instructions[item.source]
            sides = [
                ref for ref in sources(product) if uses[ref] == 1 and _is_entrywise(program.instructions[ref])
            ]
            if isinstance(product, Contract) and sides and _is_of_matrices(product):
                factors[item.source] = sides[0], item.factor
    return _moved(program, factors) if factors else program


def scaled_before_picking(program: Program) -> Program:
    """The program in which multiples of rows are rows of multiples, where there are more rows than that."""
    uses, entries = _uses(program), [math.prod(shape) for shape in program.shapes]
    factors: dict[Ref, tuple[Ref, float]] = {}
    for item in program.instructions:
        if isinstance(item, Scale) and uses[item.source] == 1:
            picked = program.instructions[item.source]
            if isinstance(picked, CallApply) and picked.name == "gather":
                whole = picked.sources[0]
                if entries[whole] < entries[item.source]:
                    factors[item.source] = whole, item.factor
    return _moved(program, factors) if factors else program


def _uses(program: Program) -> Counter[Ref]:
    uses = Counter([ref for item in program.instructions for ref in sources(item)])
    uses.update(program.results)
    return uses


def _is_of_matrices(item: Contract) -> bool:
    """Whether it is one product of matrices: of many, their results may be far smaller than the factors."""
    return item.is_sum and {*item.left_labels}.isdisjoint({*item.right_labels}.intersection(item.labels))


def _is_entrywise(item: Instruction) -> bool:
    return not item.is_sum if isinstance(item, Contract) else isinstance(item, Combine | CallMap)


def _moved(program: Program, factors: dict[Ref, tuple[Ref, float]]) -> Program:
    draft, shapes = Draft(), program.shapes
    new: dict[Ref, Ref] = {}
    for ref, item in enumerate(program.instructions):
        if isinstance(item, Scale) and item.source in factors:
            new[ref] = new[item.source]
            continue
        read = {source: new[source] for source in sources(item)}
        if ref in factors:
            side, factor = factors[ref]
            read[side] = draft.add(Scale(read[side], factor), shapes[side], float(math.prod(shapes[side])))
        moved = with_sources(item, [read[source] for source in sources(item)])
        new[ref] = draft.add(moved, shapes[ref], program.flops[ref])
    return draft.program([new[ref] for ref in program.results], program.node_count)
