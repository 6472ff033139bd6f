"""A train with orthogonal frames: what tangent vectors and derivatives at it are built from."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.memory import keep_freed_memory
from hesse.tt import gram_frames, rows_kernel
from hesse.tt.arrays import ALONE, Array, Library
from hesse.tt.chain import sealed
from hesse.tt.gram_frames import Frames
from hesse.tt.orthogonal import (
    Factored,
    Turn,
    centred,
    left_factored,
    left_orthogonal,
    right_factored,
    times_left,
    times_right,
)
from hesse.tt.scales import exponential, is_short, of_size_one, widely
from hesse.tt.sweep_kernel import left_sweep, right_sweep
from hesse.tt.threads import MANY, each, in_turns
from hesse.tt.train import TensorTrain


class Point:
    """A train X, written with frames: for each position k, `X = U1 … Uk · Ck · Vk+1 … Vd`.

    The cores of `left` (U) are orthogonal from the left, those of `right` (V) from the right, but the first:
    it is the centre, so that both `right` and the product of `left` and the last link are X. Nothing is
    inverted, so singular values may be tiny or zero.
    """

    needs_frames = False
    """Whether more than values is going to be asked for."""

    def __init__(self, train: TensorTrain) -> None:
        library = train.library
        self._cores = train.cores
        self._version = train.version
        self._train: Callable[[], TensorTrain | None] = weakref.ref(train)
        self.library = library
        if library.name == "numpy":
            keep_freed_memory()
        self.is_short = is_short(library, train.cores)
        with self.widely():
            given = of_size_one(library, train.cores) if self.is_short else (train.cores, 0.0)
        self.given: Sequence[Array] = given[0]
        """The cores of the train; in single precision divided by their sizes."""
        self.log_scale: Any = given[1]
        self.is_large = _are_large(library, self.given)
        """Whether frames cost much. They are made when they are asked for: values need not have them."""
        if not self.is_large:
            left, links, unit = _gram_frames(train) or _swept_frames(library, self.given)
            self.factors = Factors(*([Factored(core) for core in chain] for chain in (left, unit)))
            self.unit_links = links

    def __getstate__(self) -> dict[str, Any]:
        """Without the train: a copy of the point has one of its own, not the one that was copied.

        Versions of arrays begin anew when these are stored; what counts is whether cores are still the same.
        """
        is_current = TensorTrain(self._cores).version == self._version
        return {**self.__dict__, "_train": _nothing, "library": None, "_version": is_current}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = TensorTrain(state["_cores"])
        self.__dict__ |= {**state, "library": own.library}
        self._version = own.version if state["_version"] else ()

    @property
    def train(self) -> TensorTrain:
        """X. It keeps this point, so the point does not keep it: a cycle would stay until it is searched for,
        and all arrays of the next point would have to take fresh memory.
        """
        found = self._train()
        if found is None:
            found = TensorTrain(self._cores)
            if found.version == self._version:  # else somebody has written to the cores since
                found.memo("point", lambda: self)
            self._train = weakref.ref(found)
        return found

    def trains(self) -> list[Point]:
        """Of a batch: each train with its part of the frames, so that deltas at it are parts of theirs."""
        batch = self.train.batch
        assert batch is not None, "there is only one train"
        return [self._of_train(k) for k in range(batch)]

    def _of_train(self, k: int) -> Point:
        made = Point.__new__(Point)
        train = self.train.train(k)
        made._cores, made._version, made._train = train.cores, train.version, _nothing
        made.library, made.is_short, made.log_scale = self.library, False, 0.0
        made.given, made.is_large = train.cores, False
        made.factors = Factors(
            *([Factored(core) for core in x.train(k).cores] for x in (self.left, self.unit))
        )
        made.unit_links = [link[k] for link in self.unit_links]
        return made

    @cached_property
    def factors(self) -> Factors:
        """The frames, which need not be multiplied out yet."""
        found, self.unit_links, self.turns = _met_frames(self.given)
        return found

    def read(self, task: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """The results of a task for each row of some columns, one of which are the cores.

        Frames of large cores that will be needed are made at the same time: their sweeps do not take equally
        long, and threads would wait for the longer one.
        """
        if self.needs_frames and "factors" not in vars(self) and self.is_large and _pays(self.given):
            sweeps = [partial(_from_left, self.given), partial(_from_right, self.given)]
            rows = [partial(task, *row) for row in zip(*columns, strict=True)]
            left, right, *found = in_turns([*sweeps, *rows])
            factors, self.unit_links, self.turns = _met(left, right)
            self.factors = factors  # last: who finds it looks for the others
            return found
        return each(task, *columns, numbers=sum(core.size for core in self.given))

    @cached_property
    def unit_links(self) -> list[Array]:
        """Like `links`; in single precision those of the train divided by about its norm."""
        found: list[Array] = self._beside_factors("unit_links")
        return found

    @cached_property
    def turns(self) -> Turns:
        """Of large cores: what turns those of the train to those of the frames."""
        found: Turns = self._beside_factors("turns")
        return found

    def _beside_factors(self, name: str) -> Any:
        """Something that is found together with the frames."""
        _ = self.factors
        return vars(self)[name]

    @cached_property
    def left(self) -> TensorTrain:
        """U."""
        made = _multiplied(self.factors.left)
        self.factors = self.factors._replace(left=[Factored(core) for core in made.cores])
        return made

    @cached_property
    def unit(self) -> TensorTrain:
        """Like `right`; in single precision that of the train divided by about its norm."""
        made = _multiplied(self.factors.unit)
        self.factors = self.factors._replace(unit=[Factored(core) for core in made.cores])
        return made

    @cached_property
    def right(self) -> TensorTrain:
        """V, and the centre at the first position."""
        if not self.is_short:
            return self.unit
        return TensorTrain([sealed(self._scaled(self.unit.cores[0])), *self.unit.cores[1:]])

    @cached_property
    def links(self) -> list[Array]:
        """The matrices C."""
        return [*map(self._scaled, self.unit_links)] if self.is_short else self.unit_links

    def _scaled(self, array: Array) -> Array:
        """What is of the train divided by about its norm, made that of the train."""
        with self.widely():
            return self.library.like(array * exponential(self.log_scale), array)

    def widely(self) -> AbstractContextManager[Any]:
        """Where double precision can be used, for the numbers that a short type does not hold."""
        return widely(self.library, self._cores)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the frames: those of the train, where it does not have more than its shape allows."""
        return (1, *(factored.core.shape[-1] for factored in self.factors.unit))

    def centre(self, k: int) -> Array:
        """The core at a position such that all other cores are those of the frames."""
        return times_right(self.left.cores[k], self.links[k])

    def gauged(self, deltas: Sequence[Array]) -> list[Array]:
        """The deltas of the projection: all but the last are made orthogonal to the frame at their place."""
        frames = self.left.cores[:-1]
        if self.library.name != "numpy":
            return [*map(without_frame, frames, deltas), deltas[-1]]
        numbers = sum(core.size for core in frames)
        return [*each(without_frame, frames, deltas[:-1], numbers=numbers), deltas[-1]]


class Factors(NamedTuple):
    """The cores of frames. They may be multiplied by their matrices later: for some functions, never."""

    left: list[Factored]
    unit: list[Factored]


class Turns(NamedTuple):
    """For each bond between two cores, that of the frame on its left, and of the one on its right."""

    left: list[Turn]
    right: list[Turn]


Sweep = tuple[list[Factored], list[Turn]]
"""The cores of a frame, and what is left of the train at each bond."""


def _multiplied(factors: Sequence[Factored]) -> TensorTrain:
    """The cores of a frame, on threads where all of them are large."""
    waiting = sum(factored.core.size for factored in factors if factored.waits)
    return TensorTrain(each(lambda factored: sealed(factored.multiplied()), factors, numbers=waiting))


def _swept_frames(library: Library, cores: Sequence[Array]) -> Frames:
    """By QR decompositions, position by position."""
    if any(core.shape[-1] > math.prod(core.shape[-3:-1]) for core in cores):
        cores = centred(library, cores, len(cores) - 1)  # ranks that no left half can have
    right = centred(library, cores, 0)
    left, links, centre = [], [], right[0]
    for k in range(len(right)):
        u, link = left_orthogonal(library, centre)
        left.append(u)
        links.append(link)
        centre = times_left(link, right[k + 1]) if k + 1 < len(right) else centre
    return Frames(left, links, right)


def _are_large(library: Library, cores: Sequence[Array]) -> bool:
    """Whether cores are large, and of ranks that both halves can have."""
    is_plain = library.name == "numpy" and all(isinstance(core, np.ndarray) for core in cores)
    if not is_plain or cores[0].ndim != 3 or sum(core.size for core in cores) < MANY * len(cores):
        return False
    return all(left <= size * right and right <= left * size for left, size, right in map(np.shape, cores))


def _met_frames(cores: Sequence[Array]) -> tuple[Factors, list[Array], Turns]:
    """Both sweeps, each from its end on, at once where that pays."""
    sweeps = [_from_left, _from_right]
    return _met(*each(lambda sweep: sweep(cores), sweeps, numbers=2 * MANY if _pays(cores) else 0))


def _pays(cores: Sequence[Array]) -> bool:
    """Whether products are so large that threads do not wait for each other longer than they save."""
    work = sum(core.size * core.shape[-1] for core in cores) // len(cores)
    return work >= ALONE or rows_kernel.serves(cores[0].dtype, 1, work)


def _met(left: Sweep, right: Sweep) -> tuple[Factors, list[Array], Turns]:
    """What both sweeps leave at a bond makes its link."""
    ahead, back = left[1], right[1]
    links = [*(a.matrix @ b.matrix for a, b in zip(ahead, back, strict=False)), ahead[-1].matrix]
    return Factors(left[0], right[0]), links, Turns(ahead[:-1], back)


def _from_left(cores: Sequence[Array]) -> Sweep:
    """The frame U, and what is left of the train at each bond."""
    frame, turn = left_factored(cores[0])
    frames, turns = [frame], [turn]
    while len(frames) < len(cores):
        waiting = cores[len(frames) :]
        found = left_sweep(waiting, turns[-1].matrix)
        for (lower, inverse), core in zip(found.factors, found.products, strict=False):
            frames.append(Factored(core, None, inverse.T))
            turns.append(Turn(lower.T, inverse.T))
        if found.gram is not None:
            core = found.products[len(found.factors)]
        elif found.factors:
            continue
        else:
            core = times_left(turns[-1].matrix, waiting[0])
        frame, turn = left_factored(core, found.gram)
        frames.append(frame)
        turns.append(turn)
    return frames, turns


def _from_right(cores: Sequence[Array]) -> Sweep:
    """The frame V, and what is left of the train at each bond; the first core is the centre."""
    if len(cores) == 1:
        return [Factored(cores[0])], []
    turn, frame = right_factored(cores[-1])
    frames, turns = [frame], [turn]
    while len(frames) < len(cores) - 1:
        waiting = cores[-1 - len(frames) : 0 : -1]
        found = right_sweep(waiting, turns[-1].matrix)
        for (lower, inverse), core in zip(found.factors, waiting, strict=False):
            frames.append(Factored(core, inverse, turns[-1].matrix))
            turns.append(Turn(lower, inverse))
        if found.factors and found.gram is None:
            continue
        turn, frame = right_factored(times_right(waiting[len(found.factors)], turns[-1].matrix), found.gram)
        frames.append(frame)
        turns.append(turn)
    frames.append(Factored(cores[0], None, turns[-1].matrix))
    return frames[::-1], turns[::-1]


def _gram_frames(train: TensorTrain) -> Frames | None:
    """By Gram matrices; None: that is not faster, or singular values are too small for it.

    Where nothing can be decided, the frames are NaN then.
    """
    if train.batch is not None or not gram_frames.serves(train.library, train.cores):
        return None
    found, fits = gram_frames.frames(train.library, train.cores)
    decided = train.library.decided(fits)
    if decided is None:
        left, right = ([chain[0].where(fits, math.nan), *chain[1:]] for chain in (found.left, found.right))
        return Frames(left, found.links, right)
    return found if decided else None


def point_of(train: Any) -> Point:
    """The point of a train, computed once."""
    found: Point = train.memo("point", lambda: Point(train))
    return found


def _nothing() -> None:
    """What a reference to a train says that is gone."""


def without_frame(frame: Array, delta: Array) -> Array:
    """The part of a delta that is orthogonal to the frame at its place."""
    u, flat = _columns(frame), _columns(delta)
    is_plain = isinstance(u, np.ndarray) and u.ndim == 2  # `@` would keep the lock of the interpreter
    inside = u @ (np.dot(u.T, flat) if is_plain else u.mT @ flat)
    outside = np.subtract(flat, inside, out=inside) if isinstance(inside, np.ndarray) else flat - inside
    return outside.reshape(delta.shape)


def _columns(core: Array) -> Array:
    *batch, left, size, right = core.shape
    return core.reshape((*batch, left * size, right))
