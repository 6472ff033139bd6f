"""Which axis of an input an axis of a result runs along: rows of data stay rows, wherever they go."""

from __future__ import annotations

from hesse.ir import Axis
from hesse.plan.program import CallMap, Combine, Contract, Load, Program, Reduce, Ref, Scale, View

Origin = tuple[str, int]
"""An input and one of its axes."""
Origins = tuple[Origin | None, ...]
"""For each axis of a value."""


def origins(program: Program) -> list[Origins]:
    """The origins of the axes of all values, where they have one."""
    found: list[Origins] = []
    for ref in range(len(program.instructions)):
        found.append(_of(program, ref, found))
    return found


def _of(program: Program, ref: Ref, found: list[Origins]) -> Origins:
    item, shape = program.instructions[ref], program.shapes[ref]
    match item:
        case Load():
            return tuple((item.name, k) for k in range(len(shape)))
        case View():
            by_label = _by_label(item.axes, found[item.source], program.shapes[item.source], item.ranges)
            return tuple(by_label.get(label) for label in item.labels)
        case Reduce():
            return tuple(one for k, one in enumerate(found[item.source]) if k not in item.positions)
        case Contract():
            labelled = dict(zip(item.right_labels, found[item.right], strict=True))
            labelled |= {
                label: one
                for label, one in zip(item.left_labels, found[item.left], strict=True)
                if one is not None
            }
            return tuple(labelled.get(label) for label in item.labels)
        case Combine():
            whole: list[Origin | None] = [None] * len(shape)
            for term in item.terms:
                labelled = dict(zip(term.labels, found[term.source], strict=True))
                for k, axis in enumerate(term.output):
                    if axis.is_label and term.ranges[axis.label] == shape[k]:
                        whole[k] = whole[k] or labelled.get(axis.label)
            return tuple(whole)
        case Scale():
            return found[item.source]
        case CallMap():
            alike = [found[source] for source in item.sources if program.shapes[source] == shape]
            return tuple(next((one for one in column if one), None) for column in zip(*alike, strict=True))
        case _:
            return (None,) * len(shape)


def _by_label(
    axes: tuple[Axis, ...], found: Origins, shape: tuple[int, ...], ranges: tuple[int, ...]
) -> dict[int, Origin | None]:
    """The origins of labels that run along a whole axis."""
    return {
        axis.label: one
        for axis, one, size in zip(axes, found, shape, strict=True)
        if axis.is_label and ranges[axis.label] == size
    }
