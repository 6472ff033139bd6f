"""Nodes made of entries of other nodes, which are known by their positions: read, and put side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from hesse.ir import (
    Node,
    affine_axis,
    constant,
    number,
    place,
    plain_axes,
    reshape,
    view,
    zero,
)
from hesse.ops import integers
from hesse.ops.structural import gather, scatter

MOST_BOXES = 16
"""Entries that stand in more boxes than this are scattered one by one."""


def groups(owners: np.ndarray, places: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """By owner: the flat targets that belong to it, and the places in it where their entries stand."""
    flat, order = owners.ravel(), np.argsort(owners, axis=None, kind="stable")
    cuts = np.flatnonzero(np.diff(flat[order])) + 1
    return [
        (int(flat[targets[0]]), targets, places.ravel()[targets])
        for targets in np.split(order, cuts)
        if targets.size
    ] or [(0, order, places.ravel())]


def entries(node: Node, places: np.ndarray) -> Node:
    """Entries of the flattened node, in the shape of the places."""
    if places.size == 0:
        return zero(places.shape)
    if node.kind == "integer":
        return integers.entries(node, integers.integers(places))
    sizes = tuple(map(number, node.shape))
    coordinates = np.unravel_index(places, sizes) if sizes else ()
    axes = [affine_axis(np.asarray(entry)) for entry in coordinates]
    if all(axis is not None for axis in axes):
        return view(node, axes, plain_axes(places.ndim), places.shape, places.shape)  # type: ignore[arg-type]
    return gather(reshape(node, (math.prod(sizes),)), constant(places))


def placed(node: Node, targets: np.ndarray, places: np.ndarray, shape: tuple[int, ...]) -> Iterator[Node]:
    """Terms with the entries of a node at flat targets, and zeros elsewhere."""
    mask, whole = np.zeros(shape, bool), np.zeros(shape, np.intp)
    mask.flat[targets], whole.flat[targets] = True, places
    boxes = _boxes(mask)
    if boxes is None:
        flat = scatter(entries(node, places), constant(targets), math.prod(shape))
        yield reshape(flat, shape)
        return
    for box in boxes:
        piece = entries(node, whole[tuple(slice(r.start, r.stop, r.step) for r in box)])
        yield place(piece, shape, [r.start for r in box], [r.step for r in box])


def _boxes(mask: np.ndarray) -> list[tuple[range, ...]] | None:
    """Boxes of entries that make up a mask, one if steps allow it; None if they are too many."""
    lines = [_progression(np.unique(positions)) for positions in mask.nonzero()]
    if None not in lines and math.prod(map(len, lines)) == np.count_nonzero(mask):  # type: ignore[arg-type]
        return [tuple(lines)]  # type: ignore[arg-type]
    boxes: list[tuple[range, ...]] = []
    changes = (mask[1:] != mask[:-1]).any(axis=tuple(range(1, mask.ndim)))
    ends = [0, *(np.flatnonzero(changes) + 1), len(mask)]
    for start, stop in itertools.pairwise(ends):
        if not mask[start].any():
            continue
        inner = _boxes(mask[start]) if mask.ndim > 1 else [()]
        if inner is None or len(boxes) + len(inner) > MOST_BOXES:
            return None
        boxes += [(range(int(start), int(stop)), *rest) for rest in inner]
    return boxes


def _progression(values: np.ndarray) -> range | None:
    """Ascending integers as a range, or None."""
    step = int(values[1] - values[0]) if len(values) > 1 else 1
    found = range(int(values[0]), int(values[-1]) + 1, step)
    return found if np.array_equal(found, values) else None
