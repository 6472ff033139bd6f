"""Factors that several small products repeat along an axis are repeated once.

NumPy multiplies small arrays that have the same shape, and the same order in memory, in less than half of the
time that it takes where one of them has an axis less: a simple loop is enough then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hesse.backends.numpy.orders import Order
from hesse.backends.numpy.source import NUMPY
from hesse.backends.text import Labels
from hesse.plan.program import Contract, Ref, Sizes
from hesse.plan.sliced import SlicedProgram

MOST_ENTRIES = 1024
"""Larger arrays are not repeated: what that saves does not depend on their entries, what it takes does."""


class Use(NamedTuple):
    """A factor, which axes of a product its own are, and the shape of the product."""

    factor: Ref
    places: tuple[int, ...]
    shape: Sizes


class Repeated:
    """The factors of a program that are repeated, each where its first product is written."""

    def __init__(self, program: SlicedProgram) -> None:
        self._uses: Counter[Use] = Counter()
        for k, item in enumerate(program.instructions):
            if isinstance(item, Contract) and not program.is_sliced(k):
                found = _use(item, program.shapes[k])
                self._uses.update([] if found is None else [found])
        self._names: dict[tuple[Use, Order], str] = {}

    def factors(
        self, item: Contract, shape: Sizes, orders: Sequence[Order], names: Sequence[str]
    ) -> tuple[Contract, str, str, list[str]]:
        """A product, the names of its factors, and a line for one that is repeated here for the first time.

        It is repeated in the order of the other factor.
        """
        left, right, use = names[item.left], names[item.right], _use(item, shape)
        if use is None or self._uses[use] < 2:
            return item, left, right, []
        is_left = len(item.left_labels) < len(item.labels)
        key, lines = (use, orders[is_left]), list[str]()
        if key not in self._names:
            self._names[key] = f"r{len(self._names)}"
            lines = [f"{self._names[key]} = {_text(*key, names[use.factor])}"]
        if is_left:
            return replace(item, left_labels=item.labels), self._names[key], right, lines
        return replace(item, right_labels=item.labels), left, self._names[key], lines


def _use(item: Contract, shape: Sizes) -> Use | None:
    """The factor that a small product repeats along one axis."""
    for factor, labels, others in (
        (item.left, item.left_labels, item.right_labels),
        (item.right, item.right_labels, item.left_labels),
    ):
        is_repeated = 0 < len(labels) == len(item.labels) - 1 and {*labels} < {*others} == {*item.labels}
        if is_repeated and math.prod(shape) <= MOST_ENTRIES:
            return Use(factor, tuple([item.labels.index(label) for label in labels]), shape)
    return None


def _text(use: Use, order: Order, name: str) -> str:
    """A factor repeated, in an order in memory."""
    own: Labels = tuple([use.places.index(axis) for axis in order if axis in use.places])
    (at,) = (k for k, axis in enumerate(order) if axis not in use.places)
    index = ", ".join([*":" * at, "None"])
    repeated = f"{NUMPY.permuted(name, own)}[{index}].repeat({use.shape[order[at]]}, {at})"
    return NUMPY.permuted(repeated, tuple([order.index(axis) for axis in range(len(order))]))
