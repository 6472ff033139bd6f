"""What generated JAX code calls besides `jax.numpy`: affine views and placements.

Everything about them is known when the program is traced, so they leave nothing but slices, pads, reshapes
and selections, which XLA fuses and shards; gathers and scatters are the last resort.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hesse.backends.jax.lookups import Form, Positions, linear, looked_up, may_be_looked_up
from hesse.plan.program import Placed

Coefficients = tuple[tuple[int, ...], ...]


class Digit(NamedTuple):
    """An axis with at most one label: `offset + stride * label`."""

    size: int
    offset: int
    label: int | None
    stride: int = 1


class Diagonals(NamedTuple):
    """Where entries lie: the sizes of axes, and by further axes of labels linear forms that are 0 there."""

    sizes: tuple[int, ...]
    gaps: tuple[tuple[int, tuple[tuple[int | None, int], ...]], ...]


def affine_view(
    array: Array,
    offsets: tuple[int, ...],
    strides: Coefficients,
    shape: tuple[int, ...],
    most_pieces: int,
) -> Array:
    """One axis for each label: entry `l` is `array[offsets + strides @ l]`.

    Overlapping windows of at most `most_pieces` positions are read one position at a time.
    """
    axes = _axes(strides, len(offsets))
    loop = list(dict.fromkeys(label for terms in axes for label in _all_but_longest(terms, shape)))
    if math.prod(shape[label] for label in loop) > most_pieces:
        return array[_positions(offsets, strides, shape)]
    kept = [label for label in range(len(shape)) if label not in loop]
    single = [[(label, stride) for label, stride in terms if label not in loop] for terms in axes]
    starts = [start for start, _ in starting_points(offsets, strides, shape, loop)]
    pieces = [_single(array, start, single, kept, shape) for start in starts]
    if not loop:
        return pieces[0]
    stacked = jnp.stack(pieces).reshape(*(shape[label] for label in loop), *(shape[label] for label in kept))
    order = [*loop, *kept]
    return stacked.transpose([order.index(label) for label in range(len(shape))])


def _axes(strides: Coefficients, rank: int) -> list[list[tuple[int, int]]]:
    """For each axis its labels and their strides."""
    return [[(label, row[axis]) for label, row in enumerate(strides) if row[axis]] for axis in range(rank)]


def _all_but_longest(terms: Sequence[tuple[int, int]], shape: tuple[int, ...]) -> list[int]:
    labels = sorted((label for label, _ in terms), key=lambda label: shape[label])
    return labels[:-1]


def starting_points(
    offsets: tuple[int, ...], strides: Coefficients, shape: tuple[int, ...], loop: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Where each combination of looped labels begins, and the combination."""
    for position in np.ndindex(*(shape[label] for label in loop)):
        start = np.array(offsets, int)
        for label, at in zip(loop, position, strict=True):
            start = start + at * np.array(strides[label], int)
        yield tuple(map(int, start)), position


def _positions(
    offsets: tuple[int, ...], strides: Coefficients, shape: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """The index arrays of all entries, for a gather or a scatter."""
    grids = np.indices(shape, sparse=True)

    def along(axis: int, offset: int) -> np.ndarray:
        parts = [row[axis] * grid for row, grid in zip(strides, grids, strict=True)]
        return np.broadcast_to(sum(parts, np.asarray(offset)), shape)

    return tuple(along(axis, offset) for axis, offset in enumerate(offsets))


def _single(
    array: Array,
    offsets: tuple[int, ...],
    axes: Sequence[Sequence[tuple[int, int]]],
    kept: Sequence[int],
    shape: tuple[int, ...],
) -> Array:
    """A view with at most one label in each axis: slices, flips and diagonals."""
    index: list[int | slice] = []
    flips: list[int] = []
    labels: list[int] = []
    for offset, terms in zip(offsets, axes, strict=True):
        if not terms:
            index.append(offset)
            continue
        ((label, stride),) = terms
        last = offset + stride * (shape[label] - 1)
        if stride < 0:
            flips.append(len(labels))
        index.append(slice(min(offset, last), max(offset, last) + 1, abs(stride)))
        labels.append(label)
    result = array[tuple(index)]
    if flips:
        result = jnp.flip(result, flips)
    for label in kept:
        while labels.count(label) > 1:
            first, second = [k for k, other in enumerate(labels) if other == label][:2]
            result = _diagonal(result, first, second)
            labels = [other for k, other in enumerate(labels) if k not in (first, second)] + [label]
    return result.transpose([labels.index(label) for label in kept])


def _diagonal(array: Array, first: int, second: int) -> Array:
    """The diagonal of two axes as the last axis: a slice of the flattened pair."""
    moved = jnp.moveaxis(array, (first, second), (-2, -1))
    size = moved.shape[-1]
    return moved.reshape(*moved.shape[:-2], size * size)[..., :: size + 1]


def place(
    value: Array | float,
    offsets: tuple[int, ...],
    strides: Coefficients,
    ranges: tuple[int, ...],
    shape: tuple[int, ...],
    most_pieces: int,
) -> Array:
    """Zeros of a shape with a value (one axis for each label) added at `offsets + strides @ label`.

    Overlapping windows of at most `most_pieces` positions are added up one position at a time.
    """
    value = jnp.broadcast_to(value, ranges)
    axes = _axes(strides, len(shape))
    parts = list(zip(axes, offsets, shape, strict=True))
    digits = [_digits(terms, offset, size, ranges) for terms, offset, size in parts]
    if all(found is not None for found in digits):
        flat = [digit for found in digits for digit in found or ()]
        return _placed(value, flat, ranges).reshape(shape)
    found = looked_up(value, axes, offsets, ranges, shape)
    if found is not None:
        return found
    overlapping = [terms for terms, found in zip(axes, digits, strict=True) if found is None]
    loop = sorted({label for terms in overlapping for label in _all_but_longest(terms, ranges)})
    if math.prod(ranges[label] for label in loop) > most_pieces:
        return jnp.zeros(shape, value.dtype).at[_positions(offsets, strides, ranges)].add(value)
    kept = [label for label in range(len(ranges)) if label not in loop]
    total = None
    for start, position in starting_points(offsets, strides, ranges, loop):
        index = [slice(None)] * len(ranges)
        for label, at in zip(loop, position, strict=True):
            index[label] = at  # type: ignore[call-overload]
        rows, sizes = tuple(strides[k] for k in kept), tuple(ranges[k] for k in kept)
        piece = place(value[tuple(index)], start, rows, sizes, shape, most_pieces)
        total = piece if total is None else total + piece
    assert total is not None
    return total


def is_looked_up(term: Placed, shape: tuple[int, ...]) -> bool:
    """Whether a term is placed entry by entry: it may hang over the edges of the result then."""
    parts = zip(term.output, shape, strict=True)
    digits = [_digits(axis.terms, axis.offset, size, term.ranges) for axis, size in parts]
    return None in digits and may_be_looked_up([axis.terms for axis in term.output], len(term.ranges))


class Term(NamedTuple):
    """The arguments of `place` that say what goes where."""

    value: Array | float
    offsets: tuple[int, ...]
    strides: Coefficients
    ranges: tuple[int, ...]


def place_all(shape: tuple[int, ...], *terms: Term, most_pieces: int) -> Array:
    """The sum of several terms: those on the same diagonals are added up before they are put there.

    On a processor what is put on a diagonal is stored: XLA would compute it again for each entry beside it.
    """
    parts = []
    groups: dict[Diagonals, Array] = {}
    for term in map(Term._make, terms):
        axes = zip(_axes(term.strides, len(shape)), term.offsets, shape, strict=True)
        split = [_digits(labels, offset, size, term.ranges) for labels, offset, size in axes]
        digits = [digit for found in split for digit in found or ()]
        value, twins = jnp.broadcast_to(term.value, term.ranges), list[tuple[int, int]]()
        if None not in split:
            value, twins = _padded(value, digits, term.ranges)
        if not twins:
            parts.append(place(*term, shape, most_pieces))
            continue
        where = _diagonals(digits, twins)
        groups[where] = groups[where] + value if where in groups else value
    _merge(groups)
    stored = _stored_together(list(groups.values()))
    parts += [_selected(value, where).reshape(shape) for value, where in zip(stored, groups, strict=True)]
    return sum(parts[1:], parts[0])


def _merge(groups: dict[Diagonals, Array]) -> None:
    """Diagonals inside of blocks that lie on a diagonal are added to these."""
    for where in sorted(groups, key=lambda where: -len(where.gaps)):
        around = [other for other in groups if other.sizes == where.sizes and {*other.gaps} < {*where.gaps}]
        if around:
            inside = where._replace(gaps=tuple([gap for gap in where.gaps if gap not in around[0].gaps]))
            groups[around[0]] += _selected(groups.pop(where), inside)


@jax.custom_jvp  # type: ignore[untyped-decorator]
def _stored(value: Array) -> Array:
    """The same: XLA stores what a reduction gives before it is repeated, except for sums and maxima."""
    if jax.default_backend() != "cpu":
        return value
    layers = lax.pad(value[None], jnp.ones((), value.dtype), [(0, 1, 0), *[(0, 0, 0)] * value.ndim])
    return lax.reduce_prod(layers, (0,))


@_stored.defjvp  # type: ignore[untyped-decorator]
def _stored_jvp(values: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The tangent as it is: that of a product would be no number where a value is infinite."""
    return _stored(*values), tangents[0]


def _stored_together(values: Sequence[Array]) -> list[Array]:
    """The same, stored one after the other: XLA takes long to compile a loop for each.

    They are rows of one array if they are alike: to find entries of several shapes takes longer.
    """
    if len(values) < 2 or len({value.dtype for value in values}) > 1 or jax.default_backend() != "cpu":
        return list(map(_stored, values))
    are_alike = len({value.shape[1:] for value in values}) == 1
    rows = values if are_alike else [lax.reshape(value, (value.size,)) for value in values]
    whole = _stored(lax.concatenate(rows, 0))
    ends = list(itertools.accumulate([len(row) for row in rows], initial=0))
    parts = [lax.slice_in_dim(whole, start, stop) for start, stop in itertools.pairwise(ends)]
    return [lax.reshape(part, value.shape) for part, value in zip(parts, values, strict=True)]


def box(term: Term) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the box of a result that holds a term begins along each axis, and the ends behind it."""
    first, stop = list(term.offsets), [offset + 1 for offset in term.offsets]
    for row, size in zip(term.strides, term.ranges, strict=True):
        for axis, stride in enumerate(row):
            first[axis] += min(stride * (size - 1), 0)
            stop[axis] += max(stride * (size - 1), 0)
    return tuple(first), tuple(stop)


def place_into(
    total: Array,
    value: Array | float,
    offsets: tuple[int, ...],
    strides: Coefficients,
    ranges: tuple[int, ...],
    most_pieces: int,
) -> Array:
    """A sum with a value added at `offsets + strides @ label`; only the box that holds these is computed."""
    first, last = box(Term(value, offsets, strides, ranges))
    inside = tuple(offset - start for offset, start in zip(offsets, first, strict=True))
    shape = tuple(stop - start for start, stop in zip(first, last, strict=True))
    piece = place(value, inside, strides, ranges, shape, most_pieces)
    return lax.dynamic_update_slice(total, lax.slice(total, first, last) + piece, first)


def _digits(
    terms: Sequence[tuple[int, int]], offset: int, size: int, ranges: tuple[int, ...]
) -> list[Digit] | None:
    """An axis as digits with one label each, `n*i + j` as i and j, or None where labels overlap."""
    if len(terms) <= 1:
        label, stride = terms[0] if terms else (None, 1)
        return [Digit(size, offset, label, stride)]
    found = []
    rest, place_value = offset, size
    for label, stride in sorted(terms, key=lambda term: -term[1]):
        if stride <= 0 or place_value % stride:
            return None
        start, rest = divmod(rest, stride)
        if start + ranges[label] > place_value // stride:
            return None
        found.append(Digit(place_value // stride, start, label))
        place_value = stride
    return [*found, Digit(place_value, rest, None)] if place_value > 1 or rest else found


def _placed(value: Array, digits: Sequence[Digit], ranges: tuple[int, ...]) -> Array:
    """The value padded along one axis for each label, and selected where further axes of it agree."""
    padded, twins = _padded(value, digits, ranges)
    return _selected(padded, _diagonals(digits, twins))


def _padded(
    value: Array, digits: Sequence[Digit], ranges: tuple[int, ...]
) -> tuple[Array, list[tuple[int, int]]]:
    """The value padded along one axis for each label, and further axes of a label, each with the first."""
    first: dict[int, int] = {}
    for axis, digit in sorted(enumerate(digits), key=lambda pair: abs(pair[1].stride)):
        if digit.label is not None:
            first.setdefault(digit.label, axis)
    for label, axis in first.items():
        if digits[axis].stride < 0:
            value = lax.rev(value, [label])
    order = sorted(first, key=first.__getitem__)
    value = value.transpose(order)
    value = jnp.expand_dims(value, [axis for axis in range(len(digits)) if axis not in first.values()])
    padding = [_padding(digit, axis in first.values(), ranges) for axis, digit in enumerate(digits)]
    if any(any(config) for config in padding):
        value = lax.pad(value, jnp.zeros((), value.dtype), padding)
    labels = [(axis, digit.label) for axis, digit in enumerate(digits) if digit.label is not None]
    return value, [(axis, first[label]) for axis, label in labels if axis != first[label]]


def _selected(value: Array, where: Diagonals) -> Array:
    """The value repeated along further axes of its labels, and zeros where these do not agree."""
    gaps = {axis: dict(form) for axis, form in where.gaps}
    shape = [where.sizes[axis] if axis in gaps else size for axis, size in enumerate(value.shape)]
    positions = Positions(tuple(shape))
    return positions.chosen([positions.are_equal(form, {}) for form in gaps.values()], value)


def _diagonals(digits: Sequence[Digit], twins: Sequence[tuple[int, int]]) -> Diagonals:
    gaps = [(axis, tuple(_gap(digits[axis], axis, digits[there], there).items())) for axis, there in twins]
    return Diagonals(tuple([digit.size for digit in digits]), tuple(gaps))


def _gap(digit: Digit, axis: int, other: Digit, there: int) -> Form:
    """What is 0 where two axes have the same label."""
    scales = (other.stride, -digit.stride) if other.stride != digit.stride else (1, -1)
    sides = [({axis: 1, None: -digit.offset}, scales[0]), ({there: 1, None: -other.offset}, scales[1])]
    return linear(sides, 0)


def _padding(digit: Digit, holds_label: bool, ranges: tuple[int, ...]) -> tuple[int, int, int]:
    """Low, high and interior padding of an axis."""
    if digit.label is None:
        return digit.offset, digit.size - digit.offset - 1, 0
    if not holds_label:
        return 0, 0, 0
    last = digit.offset + digit.stride * (ranges[digit.label] - 1)
    return min(digit.offset, last), digit.size - max(digit.offset, last) - 1, abs(digit.stride) - 1
