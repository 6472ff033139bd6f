"""Products that a gather picks rows of: XLA computes what a gather reads again for each row that is picked.

The results of dots are stored. So a short sum of products, which would be written as additions and fused, is
a dot where rows are picked more than once.
"""

from __future__ import annotations

import math

from hesse.plan.program import CallApply, CallMap, Combine, Contract, Program, Ref, Scale, View, sources


def picked_products(program: Program) -> set[Contract]:
    """The products that are read by a gather of more rows than there are, by way of what XLA fuses."""
    todo = [ref for item in program.instructions for ref in _picked(program, item)]
    seen: set[Ref] = set()
    found: set[Contract] = set()
    while todo:
        ref = todo.pop()
        if ref in seen:
            continue
        seen.add(ref)
        item = program.instructions[ref]
        if isinstance(item, Contract) and item.is_sum:
            found.add(item)
        elif isinstance(item, CallMap | Combine | Contract | Scale | View):
            todo += sources(item)
    return found


def _picked(program: Program, item: object) -> list[Ref]:
    if not isinstance(item, CallApply) or item.name != "gather":
        return []
    source, index = item.sources
    return [source] if math.prod(program.shapes[index]) > program.shapes[source][0] else []
