"""Products and sums for XLA by its primitives: functions of `jax.numpy` take many times as long to trace."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from hesse.backends.jax.processor import is_processor

Labels = Sequence[int]

MANY_COLUMNS = 32
"""Columns of the second factor of a product for which it pays to copy the first one."""


class Side(NamedTuple):
    """An operand, its labels, and those that the other one lacks."""

    array: Array
    labels: Labels
    own: Labels


def contracted(left: Array, left_labels: Labels, right: Array, right_labels: Labels, labels: Labels) -> Array:
    """The product of two arrays by the labels of their axes, summed over labels that the result lacks."""
    both = [label for label in left_labels if label in right_labels]
    summed = sorted(label for label in both if label not in labels)
    batch = [label for label in labels if label in both]
    own = [[label for label in side if label not in both] for side in (left_labels, right_labels)]
    is_plain = left.dtype == right.dtype and len(labels) == len(batch) + len(own[0]) + len(own[1])
    if not is_plain:
        return jnp.einsum(left, left_labels, right, right_labels, labels)
    sides = [Side(left, left_labels, own[0]), Side(right, right_labels, own[1])]
    ways = [sides, sides[::-1]]
    if [*batch, *own[0], *own[1]] != [*labels]:
        ways.reverse()
    first, second = min(ways, key=lambda way: _copied(way[0], way[1], batch, summed, labels))
    if not batch and _entries(second, second.own) >= MANY_COLUMNS:
        first = _read_along_rows(first, summed)
    numbers = [
        [[side.labels.index(n) for n in group] for side in (first, second)] for group in (summed, batch)
    ]
    product = lax.dot_general(first.array, second.array, tuple(numbers), preferred_element_type=left.dtype)
    made = [*batch, *first.own, *second.own]
    return lax.transpose(product, [made.index(label) for label in labels])


def _read_along_rows(side: Side, summed: Labels) -> Side:
    """The first factor of a product in double precision as a processor multiplies it fastest.

    That is with the axes that are summed over as the last ones, which takes half of the time. XLA would read
    a transposed factor where it lies, so a barrier has it written: that is fused with what computes it.
    """
    order = [*side.own, *summed]
    if [*side.labels] == order or side.array.dtype != jnp.float64 or not is_processor():
        return side
    turned = lax.transpose(side.array, [side.labels.index(label) for label in order])
    return Side(lax.optimization_barrier(turned), order, side.own)


def summed(array: Array, axes: int | tuple[int, ...]) -> Array:
    """The sum over axes; `jax.numpy` sums short floating-point types in a longer one."""
    if array.dtype not in (jnp.float32, jnp.float64):
        return jnp.sum(array, axes)
    return lax.reduce_sum(array, (axes,) if isinstance(axes, int) else axes)


def _copied(first: Side, second: Side, batch: Labels, summed: Labels, labels: Labels) -> float:
    """The entries that XLA copies on a processor for one operand times the other.

    It multiplies `[batch, own, summed]` by `[batch, summed, own]`, which gives `[batch, own, own]`; a matrix
    may be the second one as it is or transposed. To read the result in another order is often a part of what
    is computed from it.
    """
    start, count = len(batch), len(summed)
    last, middle = first.labels[start + len(first.own) :], second.labels[start : start + count]
    in_order = [*first.labels[:start]] == [*batch], [*second.labels[:start]] == [*batch]
    found = 0.0 if in_order[0] and {*last} == {*summed} else first.array.size
    is_free = len(first.labels) == len(second.labels) == 2 and count == 1 and not batch
    found += 0.0 if is_free or (in_order[1] and {*middle} == {*summed}) else second.array.size
    if [*batch, *first.own, *second.own] == [*labels]:
        return found
    return found + _entries(first, [*batch, *first.own]) * _entries(second, second.own) / 2


def _entries(side: Side, labels: Labels) -> int:
    return math.prod(side.array.shape[side.labels.index(label)] for label in labels)


def positions(labels: Labels, sizes: dict[int, int]) -> Iterator[dict[int, int]]:
    """The values of some labels, the last one first."""
    for position in itertools.product(*(range(sizes[label]) for label in labels)):
        yield dict(zip(labels, position, strict=True))


def part(array: Array, own: Labels, labels: Labels, at: dict[int, int]) -> Array:
    """The entries of an array at the values of some of its labels, with axes for others in their order."""
    found = array[tuple(at.get(label, slice(None)) for label in own)]
    kept = [label for label in own if label not in at]
    found = found.transpose([kept.index(label) for label in labels if label in kept])
    return jnp.expand_dims(found, [k for k, label in enumerate(labels) if label not in kept])


def added_products(
    left: Array, right: Array, left_labels: Labels, right_labels: Labels, labels: Labels
) -> Array:
    """A product of matrices as a sum of outer products: labels that only operands have are in both."""
    sizes = dict(zip(left_labels, left.shape, strict=True))
    summed = [label for label in sizes if label not in labels]

    total = None
    for at in positions(summed, sizes):
        product = part(left, left_labels, labels, at) * part(right, right_labels, labels, at)
        total = product if total is None else total + product
    assert total is not None
    return total
