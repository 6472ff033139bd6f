"""Terms of a sum in layers of an axis that lie side by side: XLA computes all of them in one loop.

Added one after the other, each would be a loop of its own, which takes XLA longer to compile. The derivative
of what is measured at points by a few parameters of each is like that: every parameter has a column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce

import jax.numpy as jnp
from jax import Array, lax

from hesse.backends.jax.runtime import Term, box, place

Interval = tuple[int, int]


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals from the first number to the one before the last; those that overlap are one.

    >>> joined([(4, 6), (0, 1), (5, 7), (1, 3)])
    [(0, 1), (1, 3), (4, 7)]
    """
    found: list[Interval] = []
    for first, stop in sorted(intervals):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((first, stop))
    return found


def axis_of_layers(terms: Sequence[Term], shape: Sequence[int], share: float, most: int) -> int | None:
    """The axis along which terms fall into a few layers, if there is one and they fill a share of the sum.

    The loop is over all entries. Each looks at all layers, and is computed from the terms of its own.
    """
    boxes = [[*zip(*box(term), strict=True)] for term in terms]
    filled = sum(math.prod(stop - first for first, stop in sides) for sides in boxes)
    along = [_terms_of_entries([sides[axis] for sides in boxes]) / size for axis, size in enumerate(shape)]
    axis = min(range(len(shape)), key=along.__getitem__)
    are_few = len(joined(sides[axis] for sides in boxes)) <= most
    is_apart = 2 * along[axis] <= len(terms)
    return axis if are_few and is_apart and filled >= share * math.prod(shape) else None


def _terms_of_entries(intervals: Sequence[Interval]) -> int:
    """How many terms the layers have, added up over the positions along an axis."""
    counts = {at: sum(at[0] <= first < at[1] for first, _ in intervals) for at in joined(intervals)}
    return sum(count * (stop - first) for (first, stop), count in counts.items())


def place_in_layers(total: Array, axis: int, *terms: Term, most_pieces: int) -> Array:
    """A sum with terms added, which are arguments of `place`: those of each layer, and then the layers."""
    known = [(Term._make(term), box(Term._make(term))) for term in terms]
    for first, stop in joined((begin[axis], end[axis]) for _, (begin, end) in known):
        inside = [_moved(term, axis, first) for term, (begin, _) in known if first <= begin[axis] < stop]
        shape = (*total.shape[:axis], stop - first, *total.shape[axis + 1 :])
        layer = reduce(lax.add, [place(*term, shape, most_pieces) for term in inside])
        padding = [(0, 0, 0)] * total.ndim
        padding[axis] = first, total.shape[axis] - stop, 0
        total = total + lax.pad(layer, jnp.zeros((), total.dtype), padding)
    return total


def _moved(term: Term, axis: int, first: int) -> Term:
    """The term in a layer that begins there."""
    offsets = (*term.offsets[:axis], term.offsets[axis] - first, *term.offsets[axis + 1 :])
    return term._replace(offsets=offsets)
