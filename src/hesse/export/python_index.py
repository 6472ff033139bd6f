"""Affine axes as Python index expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from hesse.backends.text import position_text
from hesse.ir import Axis, Shape, Size
from hesse.plan.program import Sizes

LETTERS = "ijklmnopqrstuvwxyzabcdefgh"


def is_slice(axis: Axis, backwards: bool) -> bool:
    """Whether an axis is a position or a slice; `backwards` says whether slices may have negative steps."""
    return not axis.terms or (len(axis.terms) == 1 and (backwards or axis.terms[0][1] > 0))


def slice_text(axis: Axis, ranges: Shape, size: Size) -> str:
    """The position or slice of an axis."""
    if axis.is_label and ranges[axis.label] == size:
        return ":"  # the sizes may be names
    return position_text(axis, cast(Sizes, ranges), cast(int, size))


def letters(labels: Iterable[int]) -> str:
    """The labels of one tensor in the notation of einsum."""
    return "".join(LETTERS[label] for label in labels)


def sliced_labels(axes: tuple[Axis, ...], ranges: Shape, shape: Shape) -> set[int]:
    """The labels that run along one whole axis and occur in no other."""
    labels = [label for axis in axes for label in axis.labels()]
    return {
        axis.label
        for axis, size in zip(axes, shape, strict=True)
        if axis.is_label and labels.count(axis.label) == 1 and ranges[axis.label] == size
    }


def axes_of_index(axes: tuple[Axis, ...], sliced: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The labels of the index arrays, and those of all axes of the indexed part, in their order.

    The axes of the index arrays stand where the arrays are, but first if there is a slice between two arrays.
    """
    labels = tuple(dict.fromkeys(label for axis in axes for label in axis.labels()))
    arrays = tuple(label for label in labels if label not in sliced)
    where = [k for k, axis in enumerate(axes) if not (axis.is_label and axis.label in sliced)]
    before = tuple(axis.label for axis in axes[: where[0]])
    if where != list(range(where[0], where[0] + len(where))):
        before = ()
    after = tuple(label for label in labels if label in sliced and label not in before)
    return arrays, (*before, *arrays, *after)
