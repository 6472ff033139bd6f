"""One array for diagonal blocks: terms that lie in the same blocks are kept as one.

The Jacobian of a function of many points, each by its own parameters, has small blocks, but many terms: one
for each way in which an entry of a block comes about. JAX takes longer to hand over an array than to fill it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hesse.ir import Axis, Product, add, einsum_of, label_axis, number, plain_axes
from hesse.structured.union import Kept

Diagonal = tuple[tuple[tuple[int, int], ...], int]
"""Axes that share a label, each with its offset, and the range of the label."""


class _Piece(NamedTuple):
    """A term inside of diagonal blocks, and where it begins and ends along each of the other axes."""

    kept: Kept
    label: int
    begins: tuple[int, ...]
    ends: tuple[int, ...]


def joined_blocks(terms: Sequence[Kept], largest: int) -> list[Kept]:
    """The terms, those in the same diagonal blocks as one, unless that has more entries, or too many."""
    groups: dict[Diagonal, list[_Piece]] = {}
    alone: list[Kept] = []
    for term in terms:
        found = _piece(term)
        if found is None:
            alone.append(term)
        else:
            groups.setdefault(found[0], []).append(found[1])
    for diagonal, group in groups.items():
        entries = math.prod(_sizes(diagonal, group))
        is_joined = len(group) > 1 and entries <= min(largest, _entries(group))
        alone += [_joined(diagonal, group)] if is_joined else [piece.kept for piece in group]
    return alone


def _piece(kept: Kept) -> tuple[Diagonal, _Piece] | None:
    """The longest diagonal along which a term lies, and where it is in the blocks there."""
    pattern = kept.pattern
    if any(len(axis.terms) > 1 or any(step != 1 for _, step in axis.terms) for axis in pattern.output):
        return None
    places: dict[int, list[int]] = {}
    for position, axis in enumerate(pattern.output):
        for label, _ in axis.terms:
            places.setdefault(label, []).append(position)
    repeated = [label for label, positions in places.items() if len(positions) > 1]
    if not repeated:
        return None
    chosen = max(repeated, key=lambda label: number(pattern.ranges[label]))
    others = [axis for k, axis in enumerate(pattern.output) if k not in places[chosen]]
    sizes = [math.prod(number(pattern.ranges[label]) for label, _ in axis.terms) for axis in others]
    axes = tuple((position, pattern.output[position].offset) for position in places[chosen])
    begins = tuple(axis.offset for axis in others)
    ends = tuple(begin + size for begin, size in zip(begins, sizes, strict=True))
    return (axes, number(pattern.ranges[chosen])), _Piece(kept, chosen, begins, ends)


def _box(group: Sequence[_Piece]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the blocks begin along the axes other than the diagonal, and their sizes."""
    begins = tuple(map(min, zip(*(piece.begins for piece in group), strict=True)))
    ends = tuple(map(max, zip(*(piece.ends for piece in group), strict=True)))
    return begins, tuple(end - begin for begin, end in zip(begins, ends, strict=True))


def _sizes(diagonal: Diagonal, group: Sequence[_Piece]) -> tuple[int, ...]:
    return (diagonal[1], *_box(group)[1])


def _entries(group: Sequence[_Piece]) -> int:
    """Entries of the terms; a core that several of them have counts once."""
    return sum(math.prod(map(number, core.shape)) for core in {piece.kept.core for piece in group})


def _joined(diagonal: Diagonal, group: Sequence[_Piece]) -> Kept:
    axes, _ = diagonal
    begins, shape = _box(group)[0], _sizes(diagonal, group)
    positions = [position for position, _ in axes]
    placed = []
    for piece in group:
        pattern = piece.kept.pattern
        others = [axis for k, axis in enumerate(pattern.output) if k not in positions]
        inside = [Axis(axis.terms, axis.offset - begin) for axis, begin in zip(others, begins, strict=True)]
        output = (label_axis(piece.label), *inside)
        placed.append(einsum_of(pattern._replace(output=output), shape))
    own = iter(Axis(((k, 1),), begin) for k, begin in enumerate(begins, 1))
    offsets = dict(axes)
    rank = len(begins) + len(axes)
    places = tuple(Axis(((0, 1),), offsets[k]) if k in offsets else next(own) for k in range(rank))
    core = add(placed, shape)
    return Kept(core, Product((core,), (plain_axes(len(shape)),), places, shape, 1.0))
