"""In which order instructions are run: what ends the need for large values comes first.

Instructions come in the order of the expression, where the gradient by a weight may stand last though both
of its factors were there long before. Until then they take memory, and the cache holds what is not read.
"""

from __future__ import annotations

import heapq
import math
from typing import TypeVar

from hesse.plan.program import Literal, Load, Program, Ref, reordered, sources
from hesse.plan.sliced import SlicedProgram

P = TypeVar("P", bound=SlicedProgram)

LEAST_GAIN = 1 / 8
"""The order is changed where the memory that is needed at once shrinks by more than this share."""


def with_early_ends(program: P, cache: int, kind: type[P]) -> P:
    """The program in an order that needs less memory, if it needs more than the cache and has no slices."""
    peak = program.peak_elements()
    if program.slices is not None or peak < cache:
        return program
    found = kind.of(reordered(program, _order(program)))
    return found if found.peak_elements() < peak * (1 - LEAST_GAIN) else program


def _order(program: Program) -> list[Ref]:
    """Of the instructions that can be run, always the one that takes the least memory or frees the most."""
    items, count = program.instructions, range(len(program.instructions))
    owners = [program.owner(k) for k in count]
    sizes = [0 if isinstance(items[k], Load | Literal) else math.prod(program.shapes[k]) for k in count]
    kept = {owners[k] for k in program.results}
    memory = [{owners[s] for s in sources(item)} for item in items]
    """The values whose memory an instruction reads, be it through a view."""
    readers: dict[Ref, set[Ref]] = {k: set() for k in count}
    users: dict[Ref, list[Ref]] = {k: [] for k in count}
    for k in count:
        for value in memory[k]:
            readers[value].add(k)
        for source in set(sources(items[k])):
            users[source].append(k)
    missing = [len(set(sources(item))) for item in items]

    def growth(k: Ref) -> int:
        made = sizes[k] if owners[k] == k else 0
        return made - sum(sizes[value] for value in memory[k] - kept if len(readers[value]) == 1)

    ready = [(growth(k), k) for k in count if not missing[k]]
    heapq.heapify(ready)
    order: list[Ref] = []
    done: set[Ref] = set()
    while ready:
        _, k = heapq.heappop(ready)
        if k in done:  # it was entered again when it began to free more
            continue
        done.add(k)
        order.append(k)
        for value in memory[k]:
            readers[value].discard(k)
            if len(readers[value]) == 1 and not missing[last := next(iter(readers[value]))]:
                heapq.heappush(ready, (growth(last), last))
        for user in users[k]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (growth(user), user))
    return order
