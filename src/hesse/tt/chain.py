"""What trains of vectors and of matrices have in common: a row of cores, linked by bonds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.tt.arrays import Array, Library, common_library


class Chain:
    """A row of cores with axes (left bond, axes of the position, right bond), perhaps after a batch axis.

    Cores never change: those of NumPy are copied if somebody could write to them, and made read-only.
    """

    inner: ClassVar[int]
    """Axes of a position."""
    kind: ClassVar[str]

    __slots__ = ("__weakref__", "_layouts", "_memo", "batch", "cores", "library")
    __array_ufunc__ = None  # a number of NumPy times a train is the train's business

    def __init__(self, cores: Sequence[Array]) -> None:
        given = tuple(cores)
        if not given:
            raise ArgumentError(f"a {self.kind} needs at least one core")
        self.library: Library = common_library(f"the {self.kind}", given)
        self.cores: tuple[Array, ...] = tuple(map(_kept, given))
        self.batch: int | None = self._checked()
        self._layouts: dict[Any, Array] = {}
        self._memo: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """What is made from the cores is not copied with them."""
        return type(self), (self.cores,)

    def _checked(self) -> int | None:
        rank = self.inner + 2
        for k, core in enumerate(self.cores):
            if len(core.shape) not in (rank, rank + 1):
                raise ShapeError(
                    f"core {k} of a {self.kind} has {len(core.shape)} axes; it needs {rank} "
                    f"(left bond, {self.inner} of the position, right bond), or one more for a batch"
                )
        batches = {tuple(core.shape[:-rank]) for core in self.cores}
        if len(batches) > 1:
            raise ShapeError(f"the cores have different batch axes: {sorted(batches)}")
        ranks = [(core.shape[-rank], core.shape[-1]) for core in self.cores]
        for k, ((_, right), (left, _)) in enumerate(itertools.pairwise(ranks)):
            if right != left:
                raise ShapeError(f"core {k} ends with rank {right}, but core {k + 1} begins with rank {left}")
        if ranks[0][0] != 1 or ranks[-1][1] != 1:
            raise ShapeError(
                f"the outer ranks must be 1, not {ranks[0][0]} and {ranks[-1][1]}: the first axis of the "
                "first core and the last axis of the last one"
            )
        dtypes = {str(core.dtype) for core in self.cores if hasattr(core, "dtype")}
        if len(dtypes) > 1:
            raise ArgumentError(f"the cores have different dtypes: {', '.join(sorted(dtypes))}; cast them")
        if any("float" not in name for name in dtypes):
            raise ArgumentError(f"cores must hold floating-point numbers, not {dtypes.pop()}")
        batch = batches.pop()
        return batch[0] if batch else None

    def __len__(self) -> int:
        return len(self.cores)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The sizes of the bonds, both outer ones of size 1 included."""
        return (1, *(core.shape[-1] for core in self.cores))

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.cores[0].dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """For each position its size; of operators the numbers of rows and columns."""
        return self.sizes

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """For each position the sizes of its axes."""
        return tuple(tuple(core.shape[-1 - self.inner : -1]) for core in self.cores)

    @property
    def version(self) -> tuple[tuple[int, bool], ...]:
        """Changes if somebody writes to a core, or if what is made of it is to be followed from now on."""
        return tuple(map(self._version_of, self.cores))

    def _version_of(self, core: Array) -> tuple[int, bool]:
        """PyTorch counts how often an array was written to, others do not allow it."""
        return getattr(core, "_version", 0), self.library.is_watched(core)

    def layout(self, k: int, order: Sequence[int], shape: tuple[int, ...]) -> Array:
        """A core with its axes in another order, reshaped: kept, since products ask again and again."""
        core = self.cores[k]
        key = k, tuple(order), shape, self._version_of(core)
        found = self._layouts.get(key)
        if found is None:
            found = self.library.transpose(core, order).reshape(shape)
            self._layouts[key] = found
        return found

    def memo(self, name: str, make: Callable[[], Any]) -> Any:
        """Something that is computed from the cores once."""
        found = self._memo.get(name)
        if found is None or found[0] != self.version:
            found = self._memo[name] = self.version, make()
        return found[1]


def _kept(core: Array) -> Array:
    """A core that nobody writes to."""
    if isinstance(core, np.ndarray) and core.flags.writeable:
        core = core.copy()
        core.flags.writeable = False
    return core


def sealed(core: Array) -> Array:
    """A core that was just made, and need not be copied."""
    if isinstance(core, np.ndarray):
        core.flags.writeable = False
    return core


def same_place(what: str, left: Chain, right: Chain) -> None:
    """Check that two chains are of one library and dtype, and of batches that go together."""
    common_library(what, (left.cores[0], right.cores[0]))
    if len(left) != len(right):
        raise ShapeError(f"{what}: one has {len(left)} positions, the other {len(right)}")
    if left.batch is not None and right.batch is not None and left.batch != right.batch:
        raise ShapeError(f"{what}: batches of {left.batch} and {right.batch} trains")
    dtypes = {str(core.dtype) for core in (left.cores[0], right.cores[0]) if hasattr(core, "dtype")}
    if len(dtypes) > 1:
        raise ArgumentError(f"{what}: dtypes {' and '.join(sorted(dtypes))}; cast one of them")
