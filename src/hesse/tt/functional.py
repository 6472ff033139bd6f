"""Functionals of a train at a point: forms, entries and dense tensors, with what derivatives need of them.

Each gives numbers c and can do four things: `pull` weights of the numbers to deltas (the first derivative),
`push` a tangent vector to numbers, `second` for the second derivative along a tangent vector, and `bend` for
the first derivative tested with moving frames (the curvature of the manifold).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hesse.tt.arrays import Array
from hesse.tt.chain import Chain, sealed
from hesse.tt.environments import Environments
from hesse.tt.forms import Form
from hesse.tt.labelled import Labelled
from hesse.tt.orthogonal import times_right
from hesse.tt.point import Point
from hesse.tt.scales import measured
from hesse.tt.train import TensorTrain

KEPT = 2**26
"""Rests of a sweep with at most so many entries are kept for Hessian products."""

Deltas = list[Array]


class Functional(ABC):
    """Numbers computed from a train, at a point."""

    point: Point

    @property
    @abstractmethod
    def value(self) -> Array:
        """The numbers."""

    @abstractmethod
    def pull(self, weights: Array) -> Deltas:
        """The derivative of the weighted sum of the numbers, by each core."""

    def projected(self, weights: Array) -> Deltas:
        """The same as deltas of a tangent vector."""
        return self.point.gauged(self.pull(weights))

    @abstractmethod
    def push(self, tangent: TensorTrain) -> Array:
        """The derivative of the numbers along a tangent vector."""

    @abstractmethod
    def second(self, weights: Array, tangent: TensorTrain) -> Deltas | None:
        """The derivative of `pull` along a tangent vector, with frames that stay; None: zero."""

    @abstractmethod
    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        """The derivative of `pull` with frames that move."""

    def squares(self, weights: Array) -> Deltas | None:
        """The weighted sum of the squared derivatives of the numbers, by each core; None: not known."""
        return None


class MovingFrames(NamedTuple):
    """How frames move along a tangent vector Z: `Z C⁻¹` on the left, on the right what N leaves of Z."""

    tangent: TensorTrain
    left: TensorTrain
    inverse_links: list[Array]
    overlaps: list[Array]
    """N: for each bond, the part of Z behind it that lies in the frame V."""

    def of_train(self, k: int) -> MovingFrames:
        """Those of one train of a batch."""
        links, overlaps = ([array[k] for array in both] for both in (self.inverse_links, self.overlaps))
        return MovingFrames(self.tangent.train(k), self.left.train(k), links, overlaps)


def moving_frames(point: Point, tangent: TensorTrain, inverse_links: list[Array]) -> MovingFrames:
    """The derivatives of the frames along a tangent vector."""
    left = [times_right(z, inverse) for z, inverse in zip(tangent.cores, inverse_links, strict=False)]
    overlaps: list[Array] = []
    overlap = None
    for k in range(len(tangent) - 1, 0, -1):
        part = tangent.cores[k]
        if overlap is not None:
            part = part + times_right(point.left.cores[k], overlap)
        overlap = _rows(part) @ _rows(point.right.cores[k]).mT
        overlaps.append(overlap)
    return MovingFrames(tangent, TensorTrain([*left, tangent.cores[-1]]), inverse_links, overlaps[::-1])


def _rows(core: Array) -> Array:
    *batch, left, size, right = core.shape
    return core.reshape((*batch, left, size * right))


class _Swept(NamedTuple):
    """A sweep from the left: environments, rests by slot (None: too large to keep) and deltas."""

    weights: Array | None
    lefts: list[Labelled]
    rests: list[dict[int, Labelled]] | None
    deltas: Deltas


class FormFunctional(Functional):
    """A multilinear form at a point."""

    def __init__(self, form: Form, point: Point) -> None:
        self.form, self.point = form, point
        self._versions = self._present_versions()
        self._swept: _Swept | None = None
        self._pushed: tuple[TensorTrain, dict[int, list[Labelled | None]]] | None = None

    @cached_property
    def environments(self) -> Environments:
        """What is left and right of positions."""
        return Environments(self.form, self.point)

    def _present_versions(self) -> list[tuple[tuple[int, bool], ...]]:
        return [leaf.source.version for leaf in self.form.leaves if isinstance(leaf.source, Chain)]

    @property
    def is_current(self) -> bool:
        """Whether nobody has written to a constant since this was made."""
        return self._versions == self._present_versions()

    @cached_property
    def rights(self) -> list[Labelled]:
        """The right environments, with V in all slots: for each bond, both ends included."""
        e = self.environments
        steps = e.order(e.others(), from_left=False)
        found = [e.right_start()]
        for k in range(e.count - 1, -1, -1):
            contracted = e.absorb(found[-1], steps, e.right_chain, k)
            e.set_factor(k, contracted)
            found.append(e.next_right(contracted, k))
        return found[::-1]

    @property
    def value(self) -> Array:
        return self._numbers(self.rights[0], others=0)

    def _numbers(self, environment: Labelled, others: int) -> Array:
        """Those of an environment, `others` of whose slots hold something else than the train."""
        numbers = environment.array.reshape(() if self.form.batch is None else (self.form.batch,))
        if not self.point.is_short:
            return numbers
        return self.point.library.wide(numbers) * self.environments.scale(others)

    def pull(self, weights: Array) -> Deltas:
        if not self.form.slots:
            return [core * 0.0 for core in self.point.left.cores]
        start, factor = self._start(weights, others=1)
        return self._multiplied(self._sweep(start).deltas, factor)

    def _start(self, weights: Array, others: int) -> tuple[Array | None, Array | None]:
        """Weights as those with which a sweep starts, and the number by which its result is multiplied."""
        if self.point.is_short:
            self.rights  # noqa: B018  (they say by what is divided)
            weights = self.point.library.wide(weights) * self.environments.scale(others)
        if self.form.batch is None:
            return None, weights
        if not self.point.is_short:
            return weights, None
        size = measured(self.point.library, abs(weights).max())
        return self.point.library.like(weights / size, self.point.left.cores[0]), size

    def _multiplied(self, deltas: Sequence[Array], factor: Array | None) -> Deltas:
        """Deltas times a number, which a short type need not hold by itself."""
        if factor is None:
            return list(deltas)
        if not self.point.is_short:
            return [delta * factor for delta in deltas]
        library = self.point.library
        return [library.like(library.wide(delta) * factor, delta) for delta in deltas]

    @property
    def _counted_slots(self) -> list[tuple[int, int]]:
        return [(slot.leaf, len(slot.alike)) for slot in self.form.slots]

    def _sweep(self, weights: Array | None) -> _Swept:
        """From the left; the last sweep is kept."""
        if self._swept is None or not _equal(self._swept.weights, weights):
            self._swept = self._new_sweep(weights)
        return self._swept

    def _new_sweep(self, weights: Array | None) -> _Swept:
        e = self.environments
        lefts, rests, deltas = [e.start(weights)], [], []
        for k in range(e.count):
            found = self._rests(lefts[k], k)
            parts = [
                e.closed(found[o], e.linked(self.rights[k + 1], k, e.slots_but(o)), o, k) * float(count)
                for o, count in self._counted_slots
            ]
            deltas.append(_total(parts))
            first = self.form.slots[0].leaf
            lefts.append(e.next_left(e.absorb_one(found[first], first, e.left_chain(first), k), k))
            rests.append(found)
        size = sum(_entries(rest.array) for found in rests for rest in found.values())
        return _Swept(weights, lefts, rests if size <= KEPT else None, deltas)

    def _rests(self, left: Labelled, k: int) -> dict[int, Labelled]:
        """For each slot: what is left of it and beside it."""
        e = self.environments
        return {
            o: e.opened(e.absorb(left, e.order(e.others(o), True, open_leaf=o), e.left_chain, k), o)
            for o, _ in self._counted_slots
        }

    def _rest(self, swept: _Swept, k: int, leaf: int) -> Labelled:
        return (self._rests(swept.lefts[k], k) if swept.rests is None else swept.rests[k])[leaf]

    def push(self, tangent: TensorTrain) -> Array:
        if not self.form.slots:
            return self.value * 0.0
        pushed = self._push(tangent)
        parts = []
        for slot in self.form.slots:
            leaf = next(leaf for leaf in slot.alike if leaf in pushed)
            parts.append(self._numbers(_known(pushed[leaf][0]), others=1) * float(len(slot.alike)))
        return _total(parts)

    def _push(self, tangent: TensorTrain) -> dict[int, list[Labelled | None]]:
        """For slots: the right environments with a tangent vector in the slot; kept for the last one."""
        if self._pushed is None or self._pushed[0] is not tangent:
            moved = {pair.moved for pair in self.form.pairs}
            moved |= {slot.leaf for slot in self.form.slots if not moved & set(slot.alike)}
            self._pushed = tangent, {leaf: self._pushed_right(tangent, leaf) for leaf in sorted(moved)}
        return self._pushed[1]

    def _pushed_right(self, tangent: TensorTrain, leaf: int) -> list[Labelled | None]:
        """Position by position: the vector's own core here and V behind, or U here and the vector behind."""
        e = self.environments
        steps = e.order(e.others(leaf), from_left=False, after=leaf)
        found: list[Labelled | None] = [None]
        for k in range(e.count - 1, -1, -1):
            both = e.absorb_moving(self.rights[k + 1], tangent, found[-1], e.left_chain(leaf), leaf, k)
            found.append(e.next_right(e.absorb(both, steps, e.right_chain, k), k))
        return found[::-1]

    def second(self, weights: Array, tangent: TensorTrain) -> Deltas | None:
        if not self.form.pairs:
            return None
        start, factor = self._start(weights, others=2)
        swept = self._sweep(start)
        parts = [self._second_of_pair(swept, tangent, *pair) for pair in self.form.pairs]
        return self._multiplied([_total(same) for same in zip(*parts, strict=True)], factor)

    def _second_of_pair(self, swept: _Swept, tangent: TensorTrain, o: int, p: int, count: int) -> Deltas:
        """Slot `o` is open, slot `p` holds the tangent vector: before, at and behind the open position."""
        e = self.environments
        pushed = self._push(tangent)[p]
        others = e.slots_but(o, p)
        steps = e.order(e.others(o, p), True, open_leaf=o, after=p)
        moved: Labelled | None = None
        deltas = []
        for k in range(e.count):
            both = e.absorb_moving(swept.lefts[k], tangent, moved, e.right_chain(p), p, k)
            beside = e.opened(e.absorb(both, steps, e.left_chain, k), o)
            delta = e.closed(beside, e.linked(self.rights[k + 1], k, others), o, k)
            behind = pushed[k + 1]
            if behind is not None:
                delta = delta + e.closed(self._rest(swept, k, o), e.linked(behind, k, others), o, k)
            deltas.append(delta * float(count))
            moved = e.next_left(e.absorb_one(beside, o, e.left_chain(o), k), k)
        return deltas

    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        if not self.form.slots:
            return [core * 0.0 for core in self.point.left.cores]
        start, factor = self._start(weights, others=1)
        swept = self._sweep(start)
        parts = [self._bent_slot(swept, frames, *slot) for slot in self._counted_slots]
        return self._multiplied([_total(same) for same in zip(*parts, strict=True)], factor)

    def _bent_slot(self, swept: _Swept, frames: MovingFrames, o: int, count: int) -> Deltas:
        e = self.environments
        known = self._push(frames.tangent)
        pushed = known[o] if o in known else self._pushed_right(frames.tangent, o)
        others = e.slots_but(o)
        steps = e.order(e.others(o), True, open_leaf=o)
        moved: Labelled | None = None
        deltas = []
        for k in range(e.count):
            rest = self._rest(swept, k, o)
            parts = []
            beside = None if moved is None else e.opened(e.absorb(moved, steps, e.left_chain, k), o)
            if beside is not None:
                parts.append(e.closed(beside, e.linked(self.rights[k + 1], k, others), o, k))
            if k + 1 < e.count:
                inverse = frames.inverse_links[k]
                inside = e.bent(self.rights[k + 1], o, inverse @ frames.overlaps[k] * -1.0)
                moving = e.added(e.bent(_known(pushed[k + 1]), o, inverse), inside)
                parts.append(e.closed(rest, e.linked(moving, k, others), o, k))
                moved = e.absorb_one(rest, o, frames.left, k)
                if beside is not None:
                    moved = e.added(moved, e.absorb_one(beside, o, e.left_chain(o), k))
                moved = e.next_left(moved, k)
            deltas.append(_total(parts) * float(count))
        return deltas


class DenseFunctional(Functional):
    """The tensor with all of its entries."""

    def __init__(self, point: Point) -> None:
        self.point = point

    @cached_property
    def value(self) -> Array:
        return self.point.train.dense()

    def pull(self, weights: Array) -> Deltas:
        point, count = self.point, len(self.point.left)
        deltas = []
        for k in range(count):
            deltas.append(self._tested(weights, list(point.left.cores[:k]), list(point.right.cores[k + 1 :])))
        return deltas

    def _tested(self, weights: Array, left: Sequence[Array], right: Sequence[Array]) -> Array:
        """A tensor contracted with frames on both sides of a position."""
        einsum = self.point.library.einsum
        middle = weights.shape[len(left)]
        flat = weights.reshape((1, -1))
        for core in left:
            a, size, _ = core.shape
            flat = einsum("aix,aib->bx", flat.reshape((a, size, -1)), core)
        rank = flat.shape[0]
        flat = flat.reshape((-1, 1))
        for core in reversed(right):
            _, size, b = core.shape
            flat = einsum("xib,aib->xa", flat.reshape((-1, size, b)), core)
        return flat.reshape((rank, middle, -1))

    def push(self, tangent: TensorTrain) -> Array:
        return blocks(self.point, tangent).dense()

    def second(self, weights: Array, tangent: TensorTrain) -> None:
        return None

    def bend(self, weights: Array, frames: MovingFrames) -> Deltas:
        left, right = self.point.left.cores, self.point.right.cores
        count = len(left)
        deltas = [core * 0.0 for core in left]
        for k in range(count):
            for j in range(k):
                moved = [frames.left.cores[i] if i == j else left[i] for i in range(k)]
                deltas[k] = deltas[k] + self._tested(weights, moved, right[k + 1 :])
            if k + 1 == count:
                break
            bent = self._tested(weights, left[:k], right[k + 1 :])
            tails = times_right(bent, frames.overlaps[k].mT) * -1.0
            for j in range(k + 1, count):
                cores = [
                    left[i] if i < j else frames.tangent.cores[i] if i == j else right[i]
                    for i in range(k + 1, count)
                ]
                tails = tails + self._tested(weights, left[:k], cores)
            deltas[k] = deltas[k] + times_right(tails, frames.inverse_links[k].mT)
        return deltas


def blocks(point: Point, tangent: TensorTrain, with_point: bool = False) -> TensorTrain:
    """A tangent vector as a train of doubled ranks, `[[U, D], [0, V]]`; perhaps with the point added."""
    deltas = list(tangent.cores)
    if with_point:
        deltas[-1] = deltas[-1] + point.centre(len(deltas) - 1)
    return joined_blocks(point.left, point.right, deltas)


def joined_blocks(left: TensorTrain, right: TensorTrain, deltas: Sequence[Array]) -> TensorTrain:
    """The same for frames that may be those of merged axes."""
    library, last = left.library, len(deltas) - 1
    cores = []
    for k, (u, v, own) in enumerate(zip(left.cores, right.cores, deltas, strict=True)):
        if last == 0:
            cores.append(own)
        elif k == 0:
            cores.append(library.concatenate([u, own], -1))
        elif k == last:
            cores.append(library.concatenate([own, v], -3))
        else:
            empty = library.zeros((*v.shape[:-1], u.shape[-1]), v)
            upper = library.concatenate([u, own], -1)
            cores.append(library.concatenate([upper, library.concatenate([empty, v], -1)], -3))
    return TensorTrain([*map(sealed, cores)])


def _total(parts: Sequence[Any]) -> Any:
    first, *others = parts
    for part in others:
        first = first + part
    return first


def _known(environment: Labelled | None) -> Labelled:
    assert environment is not None, "only behind the last position there is none"
    return environment


def _equal(first: Array | None, second: Array | None) -> bool:
    """Whether weights are the same: those of other libraries may not be known yet, or be on a device."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.array_equal(first, second)
    return first is second


def _entries(array: Array) -> int:
    size = 1
    for length in array.shape:
        size *= length
    return size
