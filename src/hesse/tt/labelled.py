"""Products of two arrays whose axes have labels, and the orders in which cores are multiplied to others."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hesse.tt.arrays import Array, Library
from hesse.tt.chain import Chain

Labels = tuple[int, ...]


class Labelled(NamedTuple):
    """An array and the labels of its axes."""

    array: Array
    labels: Labels

    def relabelled(self, names: Mapping[int, int]) -> Labelled:
        """With other labels."""
        return Labelled(self.array, tuple(names.get(label, label) for label in self.labels))

    def ordered(self, library: Library, labels: Labels) -> Array:
        """The array with its axes in an order."""
        if labels == self.labels:
            return self.array
        return library.transpose(self.array, [self.labels.index(label) for label in labels])


class Plan(NamedTuple):
    """A product as one of matrices: how both arrays are laid out for it.

    The axes of the first are (kept and shared, own, summed), after a transposition if `order` says so, or
    (kept and shared, summed, own) if it is `flipped`; those of the second (kept and shared, summed, own), or
    (kept and shared, own, summed) if that is the order in which it has them and it is `second_flipped`.
    """

    order: tuple[int, ...] | None
    flipped: bool
    second_order: tuple[int, ...]
    second_flipped: bool
    kept: int
    own: int
    summed: int
    labels: Labels


@functools.lru_cache(maxsize=4096)
def plan(first: Labels, second: Labels, later: frozenset[int]) -> Plan:
    """The product of arrays with these labels; what both have and nobody needs `later` is summed over."""
    kept = tuple(label for label in first if label in second and label in later)
    summed = tuple(label for label in first if label in second and label not in later)
    own = tuple(label for label in first if label not in second)
    second_own = tuple(label for label in second if label not in first)
    flipped = first == kept + summed + own and bool(own) and bool(summed)
    fits = flipped or first == kept + own + summed
    second_flipped = second == kept + second_own + summed
    second_order = second if second_flipped else kept + summed + second_own
    return Plan(
        None if fits else tuple(first.index(label) for label in kept + own + summed),
        flipped,
        tuple(second.index(label) for label in second_order),
        second_flipped,
        len(kept),
        len(own),
        len(summed),
        kept + own + second_own,
    )


def multiplied(
    library: Library, first: Labelled, chain: Chain, k: int, labels: Labels, later: frozenset[int]
) -> Labelled:
    """An array times a core of a chain."""
    if library.name == "jax":  # it lays out by itself
        return product(library, first, Labelled(chain.cores[k], labels), later)
    made = plan(first.labels, labels, later)
    array, kept, own, width = _first_matrix(library, first.array, made)
    shape, rest = _second_shape(made, chain.cores[k].shape, kept, width)
    second = chain.layout(k, made.second_order, shape)
    result = _matrix_product(array, second.mT if made.second_flipped else second, width)
    return Labelled(result.reshape((*kept, *own, *rest)), made.labels)


def _second_shape(
    made: Plan, shape: Sequence[int], kept: tuple[int, ...], width: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the second array as matrices, and the sizes of its own axes."""
    sizes = tuple(shape[axis] for axis in made.second_order)
    rest = (
        sizes[made.kept : len(sizes) - made.summed]
        if made.second_flipped
        else sizes[made.kept + made.summed :]
    )
    matrix = (math.prod(rest), width) if made.second_flipped else (width, math.prod(rest))
    return (*_merged(kept), *matrix), rest


def _matrix_product(left: Array, right: Array, width: int) -> Array:
    """A product of matrices; with one column on the left it is one of entries, in half of the time."""
    return left * right if width == 1 else left @ right


def product(library: Library, first: Labelled, second: Labelled, later: frozenset[int]) -> Labelled:
    """An array times an array."""
    made = plan(first.labels, second.labels, later)
    return Labelled(library.compiled(_multiply)(library, made, first.array, second.array), made.labels)


def _multiply(library: Library, made: Plan, first: Array, second: Array) -> Array:
    turned = library.transpose(second, made.second_order)
    array, kept, own, width = _first_matrix(library, first, made)
    shape, rest = _second_shape(made, second.shape, kept, width)
    matrix = turned.reshape(shape)
    result = _matrix_product(array, matrix.mT if made.second_flipped else matrix, width)
    return result.reshape((*kept, *own, *rest))


def _merged(sizes: Sequence[int]) -> tuple[int, ...]:
    return (math.prod(sizes),) if sizes else ()


def _first_matrix(
    library: Library, array: Array, made: Plan
) -> tuple[Array, tuple[int, ...], tuple[int, ...], int]:
    """The first array as matrices; the sizes of its kept and own axes, and the number of columns."""
    if made.order is not None:
        array = library.transpose(array, made.order)
    shape = tuple(array.shape)
    kept = shape[: made.kept]
    if made.flipped:
        middle = len(shape) - made.own
        width, own = math.prod(shape[made.kept : middle]), shape[middle:]
        return array.reshape((*_merged(kept), width, math.prod(own))).mT, kept, own, width
    middle = made.kept + made.own
    own, width = shape[made.kept : middle], math.prod(shape[middle:])
    return array.reshape((*_merged(kept), math.prod(own), width)), kept, own, width


class Step(NamedTuple):
    """A leaf to be multiplied to an environment, and the labels that are needed after it."""

    leaf: int
    later: frozenset[int]


def best_order(
    leaves: Sequence[int],
    labels: Sequence[Labels],
    environment: frozenset[int],
    needed: frozenset[int],
    sizes: Mapping[int, int],
) -> tuple[Step, ...]:
    """The cheapest order to multiply leaves to an environment, one by one: found by subsets.

    Multiplications where nothing is summed count twice: they write as much as they compute.
    """
    full = (1 << len(leaves)) - 1
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for done in range(full + 1):
        cost, order = best[done]
        have = _labels_after(order, labels, environment, needed, leaves)
        for k, leaf in enumerate(leaves):
            if done & 1 << k:
                continue
            made = math.prod(sizes[label] for label in have | set(labels[leaf]))
            left = _labels_after((*order, leaf), labels, environment, needed, leaves)
            price = cost + made * (2 if made == math.prod(sizes[label] for label in left) else 1)
            after = done | 1 << k
            if after not in best or price < best[after][0]:
                best[after] = price, (*order, leaf)
    order = best[full][1]
    return tuple(
        Step(leaf, needed.union(*(labels[other] for other in order[k + 1 :]))) for k, leaf in enumerate(order)
    )


def _labels_after(
    order: tuple[int, ...],
    labels: Sequence[Labels],
    environment: frozenset[int],
    needed: frozenset[int],
    leaves: Sequence[int],
) -> set[int]:
    """The labels of an environment to which some leaves were multiplied."""
    have = set(environment)
    rest = [leaf for leaf in leaves if leaf not in order]
    for k, leaf in enumerate(order):
        later = needed.union(*(labels[other] for other in [*order[k + 1 :], *rest]))
        both = have & set(labels[leaf])
        have = (have | set(labels[leaf])) - {label for label in both if label not in later}
    return have
