"""One array for each band: terms that lie along the same diagonal, one behind the other, are kept as one.

The second derivative of `sum((x[1:] - x[:-1])^4)` has a diagonal from `x[1:]` and one from `x[:-1]`; whoever
uses it wants their sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hesse.ir import Axis, Node, Product, add, einsum_of, first_labels, number, plain_axes

MORE_ENTRIES = 1.5
"""Terms are joined if the joint array has at most this many times their entries."""


class Kept(NamedTuple):
    """A term as the tensor to keep and where it goes."""

    core: Node
    pattern: Product


class _Band(NamedTuple):
    """A term whose output axes are labels plus numbers.

    `direction` is the output with every label beginning at zero, `first` where each label begins and
    `ends` where it ends.
    """

    kept: Kept
    direction: tuple[tuple[int, int], ...]
    first: tuple[int, ...]
    ends: tuple[int, ...]


def joined_bands(terms: Sequence[Kept]) -> list[Kept]:
    """The terms, those along one diagonal as one."""
    bands = [_band(term) for term in terms]
    groups: dict[tuple[tuple[int, int], ...], list[_Band]] = {}
    for band in bands:
        if band is not None:
            groups.setdefault(band.direction, []).append(band)
    result = [term for term, band in zip(terms, bands, strict=True) if band is None]
    for group in groups.values():
        result += [_joined(group)] if _is_worth_joining(group) else [band.kept for band in group]
    return result


def is_band(kept: Kept) -> bool:
    """Whether a term lies along a diagonal, so that others may continue it."""
    return kept.pattern.has_delta and _band(kept) is not None


def _band(kept: Kept) -> _Band | None:
    pattern = kept.pattern
    if any(len(axis.terms) != 1 or axis.terms[0][1] != 1 for axis in pattern.output):
        return None
    labels = first_labels(pattern.output)
    if any(axis.label not in labels for axis in pattern.axes[0]):
        return None
    first = {
        label: min(axis.offset for axis in pattern.output if axis.terms[0][0] == label) for label in labels
    }
    direction = tuple(
        (labels.index(axis.terms[0][0]), axis.offset - first[axis.terms[0][0]]) for axis in pattern.output
    )
    begins = tuple(first[label] for label in labels)
    ends = tuple(first[label] + number(pattern.ranges[label]) for label in labels)
    return _Band(kept, direction, begins, ends)


def _box(group: Sequence[_Band]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first entries and the sizes of the joint array."""
    begins = tuple(map(min, zip(*(band.first for band in group), strict=True)))
    ends = tuple(map(max, zip(*(band.ends for band in group), strict=True)))
    return begins, tuple(end - begin for begin, end in zip(begins, ends, strict=True))


def _is_worth_joining(group: Sequence[_Band]) -> bool:
    entries = [math.prod(map(number, band.kept.core.shape)) for band in group]
    return len(group) > 1 and math.prod(_box(group)[1]) <= MORE_ENTRIES * sum(entries)


def _joined(group: Sequence[_Band]) -> Kept:
    begins, shape = _box(group)
    placed = []
    for band in group:
        pattern, labels = band.kept.pattern, first_labels(band.kept.pattern.output)
        offsets = [first - begin for first, begin in zip(band.first, begins, strict=True)]
        output = tuple(Axis(((label, 1),), offset) for label, offset in zip(labels, offsets, strict=True))
        placed.append(einsum_of(pattern._replace(output=output), shape))
    core = add(placed, shape)
    direction = tuple(Axis(((label, 1),), offset + begins[label]) for label, offset in group[0].direction)
    return Kept(core, Product((core,), (plain_axes(len(shape)),), direction, shape, 1.0))
