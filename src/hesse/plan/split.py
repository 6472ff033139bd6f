"""Splitting a program: what depends only on bound inputs is computed once."""

from __future__ import annotations

from collections.abc import Collection

from hesse.plan.program import Literal, Load, Program, Ref, sources, with_sources


def split(program: Program, bound: Collection[str]) -> tuple[Program, Program, tuple[str, ...]]:
    """A program for the values that depend on bound inputs only, one for the rest, and the names of
    the inputs by which the second reads the results of the first."""
    early = _early(program, bound)
    frontier = [k for k in sorted(early) if _is_read_later(program, k, early)]
    names = tuple(f"bound_{k}" for k in frontier)
    first = _extract(program, sorted(early), {}, frontier)
    loads = dict(zip(frontier, names, strict=True))
    late = [k for k in range(len(program.instructions)) if k not in early or k in loads]
    return first, _extract(program, late, loads, list(program.results)), names


def _early(program: Program, bound: Collection[str]) -> set[Ref]:
    early: set[Ref] = set()
    for k, item in enumerate(program.instructions):
        known = (
            item.name in bound if isinstance(item, Load) else all(source in early for source in sources(item))
        )
        if (known and not isinstance(item, Literal)) or isinstance(item, Literal):
            early.add(k)
    return early


def _is_read_later(program: Program, ref: Ref, early: set[Ref]) -> bool:
    if isinstance(program.instructions[ref], Literal):
        return False
    later = any(ref in sources(item) for k, item in enumerate(program.instructions) if k not in early)
    return later or ref in program.results


def _extract(program: Program, chosen: list[Ref], loads: dict[Ref, str], results: list[Ref]) -> Program:
    literals = [k for k, item in enumerate(program.instructions) if isinstance(item, Literal)]
    order = sorted({*chosen, *literals})
    number = {old: new for new, old in enumerate(order)}
    instructions = [
        Load(loads[k])
        if k in loads
        else with_sources(program.instructions[k], [number[s] for s in sources(program.instructions[k])])
        for k in order
    ]
    return Program(
        tuple(instructions),
        tuple(program.shapes[k] for k in order),
        tuple(0.0 if k in loads else program.flops[k] for k in order),
        tuple(number[k] for k in results),
        program.node_count,
    )
