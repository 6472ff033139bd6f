"""Products of many members at once: places that are affine in nested loops become labels, others indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hesse.ir import (
    Axis,
    Node,
    Size,
    affine_axis,
    combine,
    constant,
    einsum,
    first_labels,
    label_axis,
    number,
    plain_axes,
    reshape,
    transpose,
)
from hesse.ops.structural import gather

MOST_NESTED = 3
"""Loops in loops whose indices become labels of their own."""


class Read(NamedTuple):
    """A tensor, the axes that it is read by, and for each member the offsets of these axes."""

    tensor: Node
    axes: Sequence[Axis]
    offsets: np.ndarray


def matrix(columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    return np.stack(columns, 1) if columns else np.zeros((count, 0), np.int64)


def whole(shape: Sequence[Size], count: int) -> Read:
    """An output that is written whole by each member."""
    return Read(constant(0.0), plain_axes(len(shape)), np.zeros((count, len(shape)), np.int64))


def box_of(rows: np.ndarray) -> tuple[int, ...] | None:
    """The sizes of nested loops over which all columns are affine, or None."""
    count = len(rows)
    if count == 1:
        return ()
    steps = np.diff(rows, axis=0)
    changes = np.flatnonzero((steps != steps[0]).any(axis=1))
    length = int(changes[0]) + 1 if len(changes) else count
    if length == count:
        return (count,)
    if count % length or length == 1:
        return None
    heads = rows[::length]
    if not np.array_equal(
        rows.reshape(-1, length, rows.shape[1]) - heads[:, None],
        np.broadcast_to(rows[:length] - rows[0], (len(heads), length, rows.shape[1])),
    ):
        return None
    outer = box_of(heads)
    return None if outer is None or len(outer) == MOST_NESTED else (*outer, length)


def joined_einsum(
    reads: Sequence[Read],
    places: Read,
    shape: Sequence[Size],
    ranges: Sequence[Size],
    scales: np.ndarray,
    is_stacked: bool,
) -> Node:
    """The sum over all members of products of what they read, or their stack."""
    count = len(scales)
    box = box_of(np.concatenate([places.offsets, *[read.offsets for read in reads]], axis=1))
    box = box or box_of(places.offsets) or (count,)
    labels = plain_axes(len(box), len(ranges))
    steps = [math.prod(box[k + 1 :]) for k in range(len(box))]
    member = combine(list(zip(steps, labels, strict=True)))
    tensors, axes = [], []
    for read in reads:
        tensor, row = _moved(read, box, labels, member, ranges)
        tensors.append(tensor)
        axes.append(row)
    scale = float(scales[0])
    if (scales != scale).any():
        tensors.append(constant(scales))
        axes.append((member,))
        scale = 1.0
    output = [
        _shifted(axis, column, box, labels)
        for axis, column in zip(places.axes, places.offsets.T, strict=True)
    ]
    assert None not in output, "members are added only where they stand in progressions"
    if is_stacked:
        output, shape = [member, *output], (count, *shape)
    return einsum(tensors, axes, output, shape, (*ranges, *box), scale)  # type: ignore[arg-type]


def _shifted(axis: Axis, offsets: np.ndarray, box: Sequence[int], labels: Sequence[Axis]) -> Axis | None:
    """An axis with the offsets of all members, if these are affine."""
    found = affine_axis(offsets.reshape(box))
    if found is None:
        return None
    return combine([(1, Axis(axis.terms, 0)), (1, found.at(dict(enumerate(labels))))])


def _moved(
    read: Read, box: Sequence[int], labels: Sequence[Axis], member: Axis, ranges: Sequence[Size]
) -> tuple[Node, tuple[Axis, ...]]:
    """A tensor and the axes by which all members read it; what is not affine is gathered."""
    tensor, columns = read.tensor, read.offsets.T
    shifted = [_shifted(axis, column, box, labels) for axis, column in zip(read.axes, columns, strict=True)]
    own = [k for k, axis in enumerate(shifted) if axis is None]
    rest = [k for k, axis in enumerate(shifted) if axis is not None]
    axes = [axis for axis in shifted if axis is not None]
    if not own:
        return tensor, tuple(axes)
    inside = first_labels(read.axes[k] for k in own)
    grid = dict(zip(inside, np.ogrid[tuple(slice(ranges[label]) for label in inside)], strict=True))
    index = np.zeros((len(read.offsets), *[1] * len(inside)), np.int64)
    for k in own:
        offsets = columns[k].reshape(-1, *[1] * len(inside))
        places = offsets + sum(stride * grid[label] for label, stride in read.axes[k].terms)
        index = index * number(tensor.shape[k]) + places
    sizes = [number(tensor.shape[k]) for k in (*own, *rest)]
    flat = reshape(transpose(tensor, own + rest), (math.prod(sizes[: len(own)]), *sizes[len(own) :]))
    return gather(flat, constant(index)), (member, *map(label_axis, inside), *axes)
