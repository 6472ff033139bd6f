"""Neighbouring axes of a train read as one, where that saves more work at the entries than it costs.

The core of some axes is the product of their cores, with an entry for each combination of positions. Entries
of the merged train take fewer and equally large products. What is derived by a merged core is a sum over
its own axes, from which the derivatives by the cores follow.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from hesse.tt.arrays import Array, product
from hesse.tt.chunks import MANY
from hesse.tt.point import Point
from hesse.tt.threads import each
from hesse.tt.train import TensorTrain

TABLE = 2**18
"""Numbers that a merged core may have, so that it stays near the processor."""

Groups = tuple[int, ...]
"""The first axis of each group, and where the last one ends; an empty group is an axis of size one."""


def singles(count: int) -> Groups:
    """Each axis by itself; there are always two ends."""
    return (0, 1, 1) if count == 1 else tuple(range(count + 1))


def parts(groups: Groups) -> list[slice]:
    """The axes of each group."""
    return [slice(start, end) for start, end in itertools.pairwise(groups)]


@functools.lru_cache(maxsize=256)
def best_groups(shape: tuple[int, ...], ranks: tuple[int, ...], entries: int) -> Groups:
    """Groups of axes by which so many entries are read with the least work, found from the left."""
    count = len(shape)
    if count < 3:
        return singles(count)
    best: list[tuple[float, Groups]] = [(0.0, (0,))]
    for end in range(1, count + 1):
        found: list[tuple[float, Groups]] = []
        for start in range(end - 1, -1, -1):
            if end - start > 1 and math.prod(shape[start:end]) > TABLE:
                break  # and so are all longer ones
            cost = _cost(shape, ranks, entries, start, end)
            found.append((best[start][0] + cost, (*best[start][1], end)))
        best.append(min(found, key=lambda pair: pair[0]))
    return best[count][1]


def _cost(shape: tuple[int, ...], ranks: tuple[int, ...], entries: int, start: int, end: int) -> float:
    """Multiplications for each derivative: those for all entries, and those that merge some axes."""
    table = math.prod(shape[start:end]) * ranks[start] * ranks[end]
    work = float(entries * ranks[start] * ranks[end])
    if end - start == 1:
        return work
    is_inside = start > 0 and end < len(shape)
    is_sparse = is_inside and math.prod(shape[start:end]) * MANY > entries
    if table > TABLE or is_sparse or end - start == len(shape):
        return math.inf
    return work + table * max(ranks[start : end + 1])


def merged(train: TensorTrain, groups: Groups) -> TensorTrain:
    """The train whose cores are those of groups of axes."""
    return TensorTrain([merged_core(train, part) for part in parts(groups)])


def merged_core(train: TensorTrain, part: slice) -> Array:
    """The core of some axes."""
    cores = train.cores[part]
    if not cores:
        return train.library.zeros((1, 1, 1), train.cores[0]) + 1.0
    return functools.reduce(_joined, cores)


def _joined(left: Array, right: Array) -> Array:
    """The product of two cores, with the axes of both positions merged."""
    a, size, bond = left.shape
    _, more, b = right.shape
    made = product(left.reshape((a * size, bond)), right.reshape((bond, more * b)))
    return made.reshape((a, size * more, b))


def merged_tangent(point: Point, tangent: TensorTrain, groups: Groups) -> TensorTrain:
    """The deltas of a tangent vector in the frames of merged axes."""
    made = []
    for part in parts(groups):
        left, right, deltas = (chain.cores[part] for chain in (point.left, point.right, tangent))
        if not deltas:
            made.append(merged_core(tangent, part) * 0.0)
            continue
        before, total = left[0], deltas[0]
        for u, v, delta in zip(left[1:], right[1:], deltas[1:], strict=True):
            before, total = _joined(before, u), _joined(total, v) + _joined(before, delta)
        made.append(total)
    return TensorTrain(made)


def taken_apart(point: Point, deltas: Sequence[Array], groups: Groups) -> list[Array]:
    """The derivatives by all cores, from those by the cores of merged axes."""
    left, right = ([chain.cores[part] for part in parts(groups)] for chain in (point.left, point.right))
    is_numpy = point.library.name == "numpy"
    numbers = sum(delta.size for delta in deltas) if is_numpy else 0  # others have threads of their own
    return [*itertools.chain.from_iterable(each(_inside, deltas, left, right, numbers=numbers))]


def _inside(delta: Array, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """The derivatives by the cores of one group: U before the core, V behind it."""
    if len(left) < 2:
        return [delta] * len(left)
    before = [left[0]]
    for core in left[1:-1]:
        before.append(_joined(before[-1], core))
    made = []
    for k in range(len(left) - 1, 0, -1):
        a, size, bond = before[k - 1].shape
        _, own, behind = right[k].shape
        table = delta.reshape((a * size, own * behind))
        own_delta = product(before[k - 1].reshape((a * size, bond)).mT, table)
        made.append(own_delta.reshape((bond, own, behind)))
        delta = product(table, right[k].reshape((-1, own * behind)).mT).reshape((a, size, -1))
    return [delta, *made[::-1]]
