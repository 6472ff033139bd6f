"""Positions at which entries of trains are read, prepared once for all trains of a shape.

Neighbouring axes may be read as one. Samples are taken in chunks of such that are near each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hesse.tt import entries_kernel
from hesse.tt.arrays import Array, Library
from hesse.tt.chunks import MANY, Chunk, chunk
from hesse.tt.indices import checked_indices
from hesse.tt.merged import Groups, parts
from hesse.tt.runs import Runs, runs
from hesse.tt.train import CHUNK, TensorTrain
from hesse.tt.workspace import Workspace

WIDE = 2**27
"""Numbers that a chunk may take where operations are expensive to start."""
LARGEST = 2**18
"""Samples of a chunk elsewhere, if an axis has many places."""
NEAR = 4096
"""Samples that are sorted into a tile of places, so that caches hold what they read."""

Columns = tuple[np.ndarray, ...]


class Positions:
    """Positions in tensors of a shape."""

    def __init__(self, given: Columns, shape: Sequence[int]) -> None:
        self._given = tuple(column.copy() for column in given)  # the user may write to his own
        self.columns = checked_indices(self._given, shape)
        self.shape = tuple(shape)
        self._grouped: dict[Groups, GroupedPositions] = {}

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.columns[0])

    def are(self, given: Columns, shape: Sequence[int]) -> bool:
        """Whether they are these, as they are given."""
        return self.shape == tuple(shape) and all(map(np.array_equal, self._given, given))

    def grouped(self, groups: Groups) -> GroupedPositions:
        """In tensors whose axes are merged."""
        if groups not in self._grouped:
            merged = [self._merged(part) for part in parts(groups)]
            sizes = [int(np.prod(self.shape[part], dtype=np.int64)) for part in parts(groups)]
            self._grouped[groups] = GroupedPositions(merged, sizes)
        return self._grouped[groups]

    def _merged(self, part: slice) -> np.ndarray:
        columns, sizes = self.columns[part], self.shape[part]
        result = np.zeros(self.count, np.intp)
        for column, size in zip(columns, sizes, strict=True):
            result = result * size + column
        return result


class Prepared(NamedTuple):
    """Samples in chunks, as arrays of a library."""

    chunks: list[Chunk]
    order: Array | None
    """For each sample of the chunks which one it is; None: they are in order."""
    inverse: Array | None
    """Where each sample is among those of the chunks."""
    idle: list[Workspace]
    """Workspaces that nobody uses."""

    @contextmanager
    def workspace(self, library: Library) -> Iterator[Workspace]:
        """A workspace for one thread; the next one gets it again."""
        try:
            work = self.idle.pop()
        except IndexError:  # asked for before, there might be one that another thread takes first
            work = Workspace(library)
        yield work
        self.idle.append(work)


class GroupedPositions:
    """Positions along axes that may be merged ones, as kernels and chunks want them."""

    def __init__(self, columns: Sequence[np.ndarray], shape: Sequence[int]) -> None:
        self._columns, self._shape = columns, shape
        self._prepared: dict[Any, Prepared] = {}

    @cached_property
    def samples(self) -> entries_kernel.Samples:
        """In the layout of compiled kernels."""
        return entries_kernel.Samples(self._columns, self._shape)

    @cached_property
    def runs(self) -> Runs:
        """In the layout of compiled kernels for longer trains."""
        order, edges = self._tiles()
        return runs(self._columns, self._shape, order, _cut(edges, len(self._columns[0]), self._chunk))

    @property
    def _chunk(self) -> int:
        """Samples of a chunk on a processor."""
        return max(CHUNK, min(LARGEST, MANY * max(self._shape[1:-1], default=0)))

    def prepared(self, train: TensorTrain) -> Prepared:
        """In chunks, as arrays of the library and on the device of a train."""
        core, library, size = train.cores[0], train.library, self._chunk
        if library.is_wide(core):
            size = max(size, WIDE // (2 * len(train) * max(train.ranks)))
        key = library.name, size, str(core.device) if library.name == "torch" else ""
        if key not in self._prepared:
            order, edges = self._tiles() if library.name == "numpy" else (None, [])
            self._prepared[key] = self._new(library, core, order, _cut(edges, len(self._columns[0]), size))
        return self._prepared[key]

    def _new(self, library: Library, like: Array, order: np.ndarray | None, edges: Sequence[int]) -> Prepared:
        columns = self._columns if order is None else [column[order] for column in self._columns]
        slices = [slice(start, end) for start, end in itertools.pairwise(edges)]
        chunks = [chunk(library, like, part, columns, self._shape) for part in slices]
        return Prepared(chunks, order, None if order is None else np.argsort(order), [])

    def _tiles(self) -> tuple[np.ndarray | None, list[int]]:
        """An order by tiles of places along all axes but the ends, and where the tiles end."""
        columns, shape, count = self._columns[1:-1], self._shape[1:-1], len(self._columns[0])
        tiles = _tiles_along(shape, count)
        if tiles < 2:
            return None, []
        key = np.zeros(count, np.intp)
        for column, size in zip(columns, shape, strict=True):
            key = key * tiles + column * tiles // size
        counts = np.bincount(key)
        return np.argsort(key, kind="stable"), np.cumsum(counts[counts > 0]).tolist()


def _tiles_along(shape: Sequence[int], count: int) -> int:
    """Into how many parts to cut each axis: so that tiles have few samples, but many for each place."""
    if not shape:
        return 1
    few = (count / NEAR) ** (1.0 / len(shape))
    many = (count / (2.0 * MANY * max(shape))) ** (1.0 / (len(shape) - 1)) if len(shape) > 1 else few
    return int(min(few, many, *shape))


def _cut(edges: Sequence[int], count: int, size: int) -> list[int]:
    """All of some samples in parts of at most a size, which end at the edges."""
    made = [0]
    for end in edges or [count]:
        made += [*range(made[-1] + size, end, size), end]
    return made if count else [0]
