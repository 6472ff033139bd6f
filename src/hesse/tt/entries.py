"""Entries of a train at many positions: a functional whose memory does not grow with their number.

Neighbouring axes are merged where that saves work. A matrix of low rank goes through a compiled kernel, if
there is a compiler, and so do many samples of longer trains; else they go through them in chunks, by products
of matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hesse.tt import entries_kernel, runs
from hesse.tt.arrays import Array, Library
from hesse.tt.chunks import Along, Chunk, End
from hesse.tt.functional import Deltas, Functional, MovingFrames, joined_blocks
from hesse.tt.merged import (
    best_groups,
    merged,
    merged_core,
    merged_tangent,
    parts,
    singles,
    taken_apart,
)
from hesse.tt.point import Point
from hesse.tt.positions import GroupedPositions, Positions
from hesse.tt.threads import on_threads, shares
from hesse.tt.train import TensorTrain
from hesse.tt.workspace import Workspace

KEPT = 2**24
"""So many numbers of rows at a point are kept for its second and further Hessian products."""

Part = Callable[[Workspace, Chunk, Array], Deltas]
"""The derivatives of the weighted sum of the samples of a chunk."""


class EntriesFunctional(Functional):
    """The entries of a train at some positions: linear in the train."""

    def __init__(self, point: Point, positions: Positions, most: int = KEPT) -> None:
        self.point = point
        self.positions = positions
        self._most = most
        """So many numbers may be kept."""
        self._groups = best_groups(point.right.shape, point.ranks, positions.count)
        self._places = positions.grouped(self._groups)
        self._right = merged(point.right, self._groups)
        self._samples = self._places.samples if entries_kernel.serves(self._right) else None
        self._runs = self._places.runs if runs.serves(self._right, positions.count) else None
        self._pushed = 0
        self._kept: dict[int, Sides] = {}
        """By the first sample of a chunk."""

    @cached_property
    def _left(self) -> TensorTrain:
        """U, with the last core of V: nobody needs that of U, behind which there is nothing."""
        *inside, _ = parts(self._groups)
        return TensorTrain([*(merged_core(self.point.left, part) for part in inside), self._right.cores[-1]])

    @cached_property
    def _back(self) -> Tables:
        return _from_right(self._right)

    @cached_property
    def value(self) -> Array:
        right = self._right
        if self._samples is not None:
            return entries_kernel.value(right.cores, self._samples)
        tables = self._back
        if self._runs is not None:
            return runs.value(runs.matrices(*tables), right.ranks[1:-1], self._runs)

        def entries(work: Workspace, chunk: Chunk) -> Array:
            rows = work.take(tables.first, chunk.first.at)
            found = _dot(work, rows, _behind(work, tables, chunk).end)
            return _in_order(work, chunk.middle[0], found) if chunk.middle else found

        return self._joined(entries)

    def pull(self, weights: Array) -> Deltas:
        left, right = self._left, self._right
        if self._samples is not None:
            deltas: Deltas = entries_kernel.pull(left.cores, right.cores, weights, self._samples)
            return taken_apart(self.point, deltas, self._groups)
        ahead, back = _from_left(left), self._back
        if self._runs is not None:
            both = runs.matrices(*ahead), runs.matrices(*back)
            first, *middle, last = runs.pull(*both, right.ranks[1:-1], weights, self._runs)
            inside = (delta.transpose(1, 0, 2) for delta in middle)
            deltas = [first[None], *inside, last.T[:, :, None]]
        else:

            def part(work: Workspace, chunk: Chunk, weights: Array) -> Deltas:
                known = self._kept.get(chunk.part.start)
                if known is None:
                    before, behind = _before(work, ahead, chunk, weights), _behind(work, back, chunk)
                else:
                    before, behind = _weighted(work, known.before, chunk, weights), known.behind
                return _spread(work, right, chunk, weights, before, behind)

            deltas = self._summed(right, self._places, weights, part)
        return taken_apart(self.point, deltas, self._groups)

    def push(self, tangent: TensorTrain) -> Array:
        left, right = self._left, self._right
        moving = merged_tangent(self.point, tangent, self._groups)
        if self._samples is not None:
            return entries_kernel.push(left.cores, right.cores, moving.cores, self._samples)
        if self._runs is not None:
            doubled = joined_blocks(left, right, moving.cores)
            return runs.value(runs.matrices(*_from_right(doubled)), doubled.ranks[1:-1], self._runs)
        u, v, z = _from_left(left), self._back, _from_left(moving)
        self._pushed += 1

        def entries(work: Workspace, chunk: Chunk) -> Array:
            before, behind = self._sides(work, chunk, u, v)
            at_ends = [work.take(z.first, chunk.first.at), work.take(z.last, chunk.last.at)]
            first, last = _dot(work, at_ends[0], behind.end), _dot(work, before.end, at_ends[1])
            parts = [
                _dot(work, _times(work, rows, matrices, along), others)
                for rows, matrices, along, others in zip(
                    before.inside, z.middle, chunk.middle, behind.inside, strict=True
                )
            ]
            if not parts:
                return first + last
            parts[0] = parts[0] + first
            parts[-1] = parts[-1] + last  # it may be the same one
            return sum(_in_order(work, along, p) for along, p in zip(chunk.middle, parts, strict=True))

        return self._joined(entries)

    def _sides(self, work: Workspace, chunk: Chunk, left: Tables, right: Tables) -> Sides:
        """What is before and behind each axis; kept from the second tangent vector on."""
        found = self._kept.get(chunk.part.start)
        if found is None:
            found = Sides(_before(work, left, chunk), _behind(work, right, chunk))
            if self._pushed > 1 and self._fits:
                found = self._kept[chunk.part.start] = Sides(*map(_copied, found))
        return found

    @cached_property
    def _fits(self) -> bool:
        """Whether rows may be kept: other libraries may still be to compute them."""
        numbers = 2 * (len(self._right) - 1) * self.positions.count * max(self._right.ranks)
        return self.point.library.name == "numpy" and numbers <= self._most

    def second(self, weights: Array, tangent: TensorTrain) -> None:
        return None

    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        point = self.point
        u, moved = _from_left(point.left), _from_left(frames.left)
        u_back, v_back, z_back = map(_from_right, (point.left, point.right, frames.tangent))

        def bent(k: int, tails: Array, rows: Array) -> Array:
            """How what is behind an axis moves."""
            return (tails - rows @ frames.overlaps[k].mT) @ frames.inverse_links[k].mT

        def part(work: Workspace, chunk: Chunk, weights: Array) -> Deltas:
            before, behind = _before(work, u, chunk, weights), _behind(work, v_back, chunk)
            tails = _tails(work, u_back, z_back, chunk, behind)
            both = zip(tails.inside, behind.inside, strict=True)
            moving = [bent(k, *rows) for k, rows in enumerate(both, start=1)]
            pairs = (
                (
                    _moved_before(work, u, moved, chunk, weights, before),
                    Rows(behind.inside, behind.end * 0.0),
                ),
                (Rows(before.inside, before.end * 0.0), Rows(moving, bent(0, tails.end, behind.end))),
            )
            found = [_spread(work, point.right, chunk, weights, *pair) for pair in pairs]
            return [a + b for a, b in zip(*found, strict=True)]

        return self._summed(point.right, self.positions.grouped(singles(len(point.left))), weights, part)

    def squares(self, weights: Array) -> Deltas:
        groups = singles(len(self.point.left))  # squares do not come apart
        left, right = merged(self.point.left, groups), merged(self.point.right, groups)
        if entries_kernel.serves(right):
            places = self.positions.grouped(groups).samples
            u2, v2 = ([core * core for core in chain.cores] for chain in (left, right))
            return entries_kernel.pull(u2, v2, weights, places)[: len(self.point.left)]
        u, v = _from_left(left), _from_right(right)

        def part(work: Workspace, chunk: Chunk, weights: Array) -> Deltas:
            before, behind = _before(work, u, chunk, weights**0.5), _behind(work, v, chunk)
            return _spread(work, right, chunk, weights, _squared(before), _squared(behind))

        return self._summed(right, self.positions.grouped(groups), weights, part)[: len(self.point.left)]

    def _joined(self, entries: Callable[[Workspace, Chunk], Array]) -> Array:
        """The entries of all chunks, in the order of the samples."""
        library, prepared = self.point.library, self._places.prepared(self._right)

        def share_of(share: slice) -> list[Array]:
            with prepared.workspace(library) as work:
                return [entries(work.cleared(), chunk) for chunk in prepared.chunks[share]]

        parts = [*itertools.chain.from_iterable(on_threads(share_of, _shares(library, prepared.chunks)))]
        found = library.concatenate(parts, 0) if parts else library.zeros((0,), self._right.cores[0])
        return found if prepared.inverse is None else library.take(found, prepared.inverse)

    def _summed(self, train: TensorTrain, places: GroupedPositions, weights: Array, part: Part) -> Deltas:
        """The derivatives of all chunks, by the matrices at each place of an axis, as those by cores."""
        library, prepared = self.point.library, places.prepared(train)
        if prepared.order is not None:
            weights = library.take(weights, prepared.order)

        def share_of(share: slice) -> Deltas:
            total = [
                library.zeros((core.shape[1], core.shape[0], core.shape[2]), core) for core in train.cores
            ]
            with prepared.workspace(library) as work:
                for chunk in prepared.chunks[share]:
                    _add(
                        library,
                        total,
                        part(work.cleared(), chunk, _in_first_order(library, weights[chunk.part], chunk)),
                        chunk,
                    )
            return total

        first, *others = on_threads(share_of, _shares(library, prepared.chunks))
        for deltas in others:
            first = [a + b for a, b in zip(first, deltas, strict=True)]
        return [library.transpose(delta, (1, 0, 2)) for delta in first]


def _add(library: Library, total: Deltas, deltas: Deltas, chunk: Chunk) -> None:
    """The derivatives of a chunk, added where its places are."""
    if library.name == "numpy":
        places = [slice(None), *(along.places for along in chunk.middle), slice(None)]
        for mine, at, delta in zip(total, places, deltas, strict=True):
            mine[at] += delta
    else:
        total[:] = [a + b for a, b in zip(total, deltas, strict=True)]


def _shares(library: Library, chunks: Sequence[Chunk]) -> list[slice]:
    """Chunks for threads; other libraries than NumPy have their own."""
    return shares(len(chunks)) if library.name == "numpy" else [slice(None)]


class Tables(NamedTuple):
    """The matrices of a train at the places of each axis; of its ends only rows."""

    first: Array
    middle: list[Array]
    last: Array


class Rows(NamedTuple):
    """What is before or behind the axes, a row for each sample: of all axes but the ends, and of an end."""

    inside: list[Array]
    end: Array


class Sides(NamedTuple):
    """What is before and behind the axes, without weights."""

    before: Rows
    behind: Rows


def _copied(rows: Rows) -> Rows:
    return Rows([inside.copy() for inside in rows.inside], rows.end.copy())


def _from_left(train: TensorTrain) -> Tables:
    """For products with rows from the left."""
    return _tables(train, (1, 0, 2))


def _from_right(train: TensorTrain) -> Tables:
    """For products with rows from the right, as transposed matrices."""
    return _tables(train, (1, 2, 0))


def _tables(train: TensorTrain, order: tuple[int, ...]) -> Tables:
    library, cores = train.library, train.cores
    return Tables(
        cores[0][0],
        [library.contiguous(library.transpose(core, order)) for core in cores[1:-1]],
        library.contiguous(cores[-1][:, :, 0].mT),
    )


def _squared(rows: Rows) -> Rows:
    return Rows([inside * inside for inside in rows.inside], rows.end * rows.end)


def _before(work: Workspace, tables: Tables, chunk: Chunk, weights: Array | None = None) -> Rows:
    """The products of what is before each axis, perhaps weighted."""
    start = work.take(tables.first, chunk.first.at)
    if weights is not None:
        start = work.times(start, weights[:, None])
    return _swept(work, start, tables.middle, chunk.middle, chunk.ahead)


def _weighted(work: Workspace, before: Rows, chunk: Chunk, weights: Array) -> Rows:
    """The same, weighted afterwards."""
    inside = []
    for k, rows in enumerate(before.inside):
        move = chunk.ahead[k - 1] if k else None
        weights = weights if move is None else work.take(weights, move)
        inside.append(work.times(rows, weights[:, None]))
    return Rows(inside, work.times(before.end, weights[:, None]))


def _moved_before(
    work: Workspace, tables: Tables, moving: Tables, chunk: Chunk, weights: Array, before: Rows
) -> Rows:
    """The same with one core replaced by how it moves."""
    start = work.times(work.take(moving.first, chunk.first.at), weights[:, None])
    also = before.inside, moving.middle
    return _swept(work, start, tables.middle, chunk.middle, chunk.ahead, also)


def _behind(work: Workspace, tables: Tables, chunk: Chunk) -> Rows:
    """The products of what is behind each axis."""
    start = work.take(tables.last, chunk.last.at)
    found = _swept(work, start, tables.middle[::-1], chunk.middle[::-1], chunk.back[::-1])
    return Rows(found.inside[::-1], found.end)


def _tails(work: Workspace, tables: Tables, tangent: Tables, chunk: Chunk, behind: Rows) -> Rows:
    """The same with one core replaced by that of a tangent vector."""
    start = work.take(tangent.last, chunk.last.at)
    also = behind.inside[::-1], tangent.middle[::-1]
    found = _swept(work, start, tables.middle[::-1], chunk.middle[::-1], chunk.back[::-1], also)
    return Rows(found.inside[::-1], found.end)


def _swept(
    work: Workspace,
    rows: Array,
    matrices: Sequence[Array],
    axes: Sequence[Along],
    moves: Sequence[Array | None],
    also: tuple[Sequence[Array], Sequence[Array]] | None = None,
) -> Rows:
    """Rows times the matrices of one axis after the other; other rows times other ones are added."""
    inside = []
    for k, along in enumerate(axes):
        inside.append(rows)
        rows = _times(work, rows, matrices[k], along)
        if also is not None:
            rows = rows + _times(work, also[0][k], also[1][k], along)
        move = moves[k] if k < len(moves) else None
        rows = rows if move is None else work.take(rows, move)
    return Rows(inside, rows)


def _times(work: Workspace, rows: Array, matrices: Array, along: Along) -> Array:
    """Each row times the matrix at its place."""
    matrices = matrices[along.places]
    if along.order is None:
        return work.library.einsum("sa,sab->sb", rows, work.take(matrices, along.at))
    places, a, b = matrices.shape
    return work.product(rows.reshape((places, -1, a)), matrices).reshape((-1, b))


def _dot(work: Workspace, left: Array, right: Array) -> Array:
    """The products of rows."""
    return work.library.einsum("sa,sa->s", left, right)


def _in_order(work: Workspace, along: Along, values: Array) -> Array:
    """Values in the order of the samples of a chunk, from that of an axis."""
    return values if along.inverse is None else work.library.take(values, along.inverse)


def _in_first_order(library: Library, weights: Array, chunk: Chunk) -> Array:
    """The other way round; weights are zero for what is only filled in."""
    along = chunk.middle[0] if chunk.middle else None
    if along is None or along.order is None:
        return weights
    return library.take(weights, along.order) * along.filled


def _spread(
    work: Workspace, train: TensorTrain, chunk: Chunk, weights: Array, before: Rows, behind: Rows
) -> Deltas:
    """The derivatives of the weighted sum of the samples of a chunk, by the matrices at each place.

    What is before an axis is weighted.
    """
    rows = zip(chunk.middle, before.inside, behind.inside, strict=True)
    inside = [_outer(work, along, left, right) for along, left, right in rows]
    first = _sums(work, train.shape[0], chunk.first, work.times(behind.end, weights[:, None]))
    last = _sums(work, train.shape[-1], chunk.last, before.end)
    return [first[:, None, :], *inside, last[:, :, None]]


def _outer(work: Workspace, along: Along, left: Array, right: Array) -> Array:
    """For each place the sum of the products of rows there."""
    size, a, b = along.places.stop - along.places.start, left.shape[-1], right.shape[-1]
    if along.order is not None:
        return work.product(left.reshape((size, -1, a)).mT, right.reshape((size, -1, b)))
    products = (left[:, :, None] * right[:, None, :]).reshape((-1, a * b))
    return _sums(work, size, End(along.at, None), products).reshape((size, a, b))


def _sums(work: Workspace, size: int, end: End, rows: Array) -> Array:
    """For each place the sum of the rows there."""
    if end.sums is not None:
        return end.sums @ rows
    total = work.library.zeros((size, rows.shape[-1]), rows)
    match work.library.name:
        case "numpy":
            np.add.at(total, end.at, rows)
            return total
        case "torch":
            return total.index_add(0, end.at, rows)
        case _:
            return total.at[end.at].add(rows)
