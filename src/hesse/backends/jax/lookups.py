"""Placements entry by entry: which entry of a value goes where, as arithmetic of positions.

What is linear of that arithmetic is done here, so that XLA has little of it to fuse and compile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from jax import Array, lax

Axes = Sequence[Sequence[tuple[int, int]]]
Form = dict[int | None, int]
"""A sum of known arrays, by their numbers, times whole numbers; None stands for 1."""


class Positions:
    """Whole numbers for each entry of a shape: the positions along its axes, and what is computed from them.

    Arrays have one entry along axes that they do not depend on.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._quotients: list[tuple[Array, set[int]]] = []

    def array(self, form: Form, axes: set[int] | None = None) -> Array:
        """The values of a form, for all positions along some axes, those that it depends on among them."""
        axes = self._axes(form) if axes is None else axes
        constant = np.int32(form.get(None, 0))
        shape = tuple(size if axis in axes else 1 for axis, size in enumerate(self.shape))
        terms = [self._term(number, shape, factor) for number, factor in form.items() if number is not None]
        if not terms:
            return lax.full(shape, constant)
        total = reduce(lax.add, terms)
        return lax.add(total, constant) if constant else total

    def divided(self, form: Form, divisor: int) -> Form:
        """The form of its values divided by a number, rounded towards 0."""
        if abs(divisor) == 1:
            return {number: factor * divisor for number, factor in form.items()}
        self._quotients.append((lax.div(self.array(form), np.int32(divisor)), self._axes(form)))
        return {len(self.shape) + len(self._quotients) - 1: 1}

    def are_equal(self, left: Form, right: Form) -> Array:
        """Where two forms have the same value."""
        gap = linear([(left, 1), (right, -1)], 0)
        added = {number: factor for number, factor in gap.items() if factor > 0}
        taken = {number: -factor for number, factor in gap.items() if factor < 0}
        axes = self._axes(gap)
        return lax.eq(self.array(added, axes), self.array(taken, axes))

    def chosen(self, conditions: Sequence[Array], value: Array) -> Array:
        """A value of the shape where all conditions hold, and 0 elsewhere."""
        if not conditions:
            return value
        everywhere = [lax.broadcast_in_dim(each, self.shape, range(each.ndim)) for each in conditions]
        value = lax.broadcast_in_dim(value, self.shape, range(value.ndim))
        return lax.select(reduce(lax.bitwise_and, everywhere), value, lax.full_like(value, 0))

    def _axes(self, form: Form) -> set[int]:
        rank = len(self.shape)
        own = ({k} if k < rank else self._quotients[k - rank][1] for k in form if k is not None)
        return set().union(*own)

    def _term(self, number: int, shape: tuple[int, ...], factor: int) -> Array:
        if number < len(shape):
            array = lax.broadcasted_iota(np.int32, shape, number)
        else:
            quotient, _ = self._quotients[number - len(shape)]
            array = lax.broadcast_in_dim(quotient, shape, range(len(shape)))
        return array if factor == 1 else lax.mul(array, np.int32(factor))


def linear(parts: Iterable[tuple[Form, int]], constant: int) -> Form:
    """A sum of forms times numbers."""
    total: Form = {None: constant}
    for form, times in parts:
        for number, factor in form.items():
            total[number] = total.get(number, 0) + times * factor
    return {number: factor for number, factor in total.items() if factor}


def looked_up(
    value: Array, axes: Axes, offsets: tuple[int, ...], ranges: tuple[int, ...], shape: tuple[int, ...]
) -> Array | None:
    """The result entry by entry, where the position decides which entry of the value goes there, else None.

    The Jacobian of a convolution is such a case: `i` is known by the row and then `k` by the column `i + k`.
    """
    order = _order(axes, len(ranges))
    if order is None:
        return None
    positions = Positions(shape)
    labels: dict[int, Form] = {}
    conditions = []
    for axis, (label, stride) in order.items():
        known = [(labels[other], -step) for other, step in axes[axis] if other != label]
        left = linear([({axis: 1}, 1), *known], -offsets[axis])
        if abs(stride) != 1:
            conditions.append(lax.eq(lax.rem(positions.array(left), np.int32(stride)), np.int32(0)))
        labels[label] = positions.divided(left, stride)
        if known or (offsets[axis], stride, shape[axis]) != (0, 1, ranges[label]):
            here = positions.array(labels[label])
            inside = lax.bitwise_and(lax.ge(here, np.int32(0)), lax.lt(here, np.int32(ranges[label])))
            conditions.append(inside)
    for axis in range(len(shape)):
        if axis not in order:
            reached = linear([(labels[label], step) for label, step in axes[axis]], offsets[axis])
            conditions.append(positions.are_equal({axis: 1}, reached))
    found = _taken(value, [positions.array(labels[label]) for label in range(len(ranges))], shape)
    return positions.chosen(conditions, found)


def may_be_looked_up(axes: Axes, count: int) -> bool:
    """Whether the position decides which entry goes there."""
    return _order(axes, count) is not None


def _order(axes: Axes, count: int) -> dict[int, tuple[int, int]] | None:
    """By which axes labels are found, one after the other, each with its stride there, or None."""
    found: dict[int, tuple[int, int]] = {}
    known: set[int] = set()
    while len(known) < count:
        for axis, terms in enumerate(axes):
            unknown = [term for term in terms if term[0] not in known]
            if len(unknown) == 1:
                found[axis] = unknown[0]
                known.add(unknown[0][0])
                break
        else:
            return None
    return found


def _taken(value: Array, index: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Entries of a value by their positions in it; for those outside any.

    The limits are told even where they hold anyway: the loop is a fifth faster for it.
    """
    everything = range(len(shape))
    limited = [
        lax.clamp(np.int32(0), at, np.int32(size - 1)) for at, size in zip(index, value.shape, strict=True)
    ]
    numbers = [lax.broadcast_in_dim(at, (*shape, 1), everything) for at in limited]
    axes = tuple(range(value.ndim))
    picked = lax.GatherDimensionNumbers((), axes, axes)
    indices = lax.concatenate(numbers, len(shape))
    return lax.gather(value, indices, picked, (1,) * value.ndim, mode="promise_in_bounds")
