"""Environments of a form at a point: what is left or right of a position, contracted once.

Left environments need only the frames U and right ones only V, so no rank is doubled. A derivative by one
occurrence has that slot open at a position; all others hold the centre `S = U C`, whose C is applied to the
right environment, so that what is contracted on the left is shared with the next left environment.

Single precision overflows soon: entries of size one of a tensor with 20^40 entries are enough. There the
train is of norm one in all slots, each position is divided by the size of its right environment, and the
numbers of a form are multiplied by these in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hesse.tt.arrays import Array
from hesse.tt.chain import Chain
from hesse.tt.forms import Form, batch_of
from hesse.tt.labelled import Labelled, Labels, Step, best_order, multiplied, product
from hesse.tt.nets import Occurrence
from hesse.tt.point import Point
from hesse.tt.scales import exponential, logarithm, measured

SAMPLE, RIGHT, POSITION, NEW = -1, 64, 128, 1024
"""Labels of the batch, of bonds (left ones are the numbers of leaves) and of the axes of positions."""

Chains = Callable[[int], Chain]


class Environments:
    """The contractions of one form at one point, position by position."""

    def __init__(self, form: Form, point: Point) -> None:
        self.form, self.point, self.library = form, point, point.library
        self.count = len(point.left)
        leaves = form.leaves
        self.labels: list[Labels] = [
            (
                *((SAMPLE,) if batch_of(leaf, point.train.batch) else ()),
                k,
                *(POSITION + label for label in leaf.labels),
                RIGHT + k,
            )
            for k, leaf in enumerate(leaves)
        ]
        self.left_labels = frozenset(range(len(leaves)))
        self.right_labels = frozenset(RIGHT + k for k in range(len(leaves)))
        self._to_left = {RIGHT + k: k for k in range(len(leaves))}
        self._to_right = {k: RIGHT + k for k in range(len(leaves))}
        self.factors: dict[int, Any] = {}
        """By what the contraction of a position is divided, so that short types hold what follows."""
        self._orders: dict[Any, tuple[Step, ...]] = {}
        self._sizes = self._typical_sizes()

    def _typical_sizes(self) -> Mapping[int, int]:
        """The largest size of each label."""
        sizes = {SAMPLE: self.form.batch or 1}
        for k, labels in enumerate(self.labels):
            chain = self.right_chain(k)
            for core in chain.cores:
                for label, size in zip(labels, core.shape, strict=True):
                    sizes[label] = max(size, sizes.get(label, 1))
        return sizes

    def left_chain(self, leaf: int) -> Chain:
        """The cores of a leaf before an open position."""
        source = self.form.leaves[leaf].source
        if isinstance(source, Chain):
            return source
        return self.point.left if source is Occurrence.VARIABLE else self.point.unit

    def right_chain(self, leaf: int) -> Chain:
        """The cores of a leaf behind an open position."""
        source = self.form.leaves[leaf].source
        return source if isinstance(source, Chain) else self.point.unit

    def order(
        self, leaves: Sequence[int], from_left: bool, open_leaf: int | None = None, after: int | None = None
    ) -> tuple[Step, ...]:
        """The best order to multiply leaves to an environment, `after` another leaf; one may stay open."""
        key = tuple(leaves), from_left, open_leaf, after
        found = self._orders.get(key)
        if found is None:
            start = self.left_labels if from_left else self.right_labels
            if self.form.batch is not None:
                start |= {SAMPLE}
            if after is not None:
                start = (start | set(self.labels[after])) - {after if from_left else RIGHT + after}
            needed = self.needed(open_leaf)
            found = self._orders[key] = best_order(leaves, self.labels, start, needed, self._sizes)
        return found

    def needed(self, open_leaf: int | None) -> frozenset[int]:
        """Labels that stay, whatever is multiplied."""
        return frozenset({SAMPLE, *(() if open_leaf is None else self.labels[open_leaf])})

    def others(self, *leaves: int) -> tuple[int, ...]:
        """All leaves but these."""
        return tuple(k for k in range(len(self.labels)) if k not in leaves)

    def slots_but(self, *leaves: int) -> list[int]:
        """The occurrences of the train but some."""
        return [k for k in self.others(*leaves) if self.form.leaves[k].source is Occurrence.VARIABLE]

    # Steps.

    def start(self, weights: Array | None = None) -> Labelled:
        """The environment at an end; with weights for the trains of a batch."""
        ones = (1,) * len(self.labels)
        labels = tuple(range(len(self.labels)))
        if weights is None and self.form.batch is not None:
            weights = self.library.zeros((self.form.batch,), self.point.left.cores[0]) + 1.0
        if weights is not None:
            return Labelled(weights.reshape((-1, *ones)), (SAMPLE, *labels))
        like = self.point.left.cores[0]
        return Labelled(self.library.zeros(ones, like) + 1.0, labels)

    def right_start(self) -> Labelled:
        """The environment behind the last position."""
        return self.start().relabelled(self._to_right)

    def absorb(self, environment: Labelled, steps: Sequence[Step], chains: Chains, k: int) -> Labelled:
        """An environment times the cores of leaves at a position."""
        for leaf, later in steps:
            environment = multiplied(self.library, environment, chains(leaf), k, self.labels[leaf], later)
        return environment

    def absorb_one(
        self, environment: Labelled, leaf: int, chain: Chain, k: int, rest: Sequence[int] = ()
    ) -> Labelled:
        """An environment times one core, before those of the leaves that are left."""
        later = frozenset({SAMPLE}).union(*(self.labels[other] for other in rest))
        return multiplied(self.library, environment, chain, k, self.labels[leaf], later)

    def absorb_moving(
        self, here: Labelled, tangent: Chain, moved: Labelled | None, chain: Chain, leaf: int, k: int
    ) -> Labelled:
        """An environment times the core of a tangent vector, plus one that has it already times another core.

        It is one product, of both environments and both cores side by side.
        """
        rest = self.others(leaf)
        if moved is None:
            return self.absorb_one(here, leaf, tangent, k, rest)
        labels = self.labels[leaf]
        (bond,) = {leaf, RIGHT + leaf} & set(here.labels)
        arrays = here.array, moved.ordered(self.library, here.labels)
        environment = self.library.concatenate(arrays, here.labels.index(bond))
        core = self.library.concatenate((tangent.cores[k], chain.cores[k]), labels.index(bond))
        later = frozenset({SAMPLE}).union(*(self.labels[other] for other in rest))
        return product(self.library, Labelled(environment, here.labels), Labelled(core, labels), later)

    def added(self, first: Labelled, second: Labelled) -> Labelled:
        """The sum of two environments."""
        return Labelled(first.array + second.ordered(self.library, first.labels), first.labels)

    def opened(self, rest: Labelled, leaf: int) -> Labelled:
        """What is left of a leaf and beside it, with the axes that the leaf shares with it in front: products
        with what is right of it, and with its core, need no other order.
        """
        front = tuple(label for label in self.labels[leaf] if label in rest.labels)
        labels = front + tuple(label for label in rest.labels if label not in front)
        return Labelled(self.library.contiguous(rest.ordered(self.library, labels)), labels)

    def next_left(self, environment: Labelled, k: int) -> Labelled:
        """What was multiplied up to the right bonds of a position, seen from the next one."""
        return Labelled(self._divided(environment.array, k), environment.labels).relabelled(self._to_left)

    def next_right(self, environment: Labelled, k: int) -> Labelled:
        """What was multiplied up to the left bonds of a position, seen from the one before it."""
        return Labelled(self._divided(environment.array, k), environment.labels).relabelled(self._to_right)

    def set_factor(self, k: int, contracted: Labelled) -> None:
        """Divide what is contracted at a position, so that this becomes of size one, if the type is short."""
        if self.point.is_short:
            self.factors[k] = measured(self.library, abs(contracted.array).max())

    def _divided(self, array: Array, k: int) -> Array:
        return array / self.factors[k] if k in self.factors else array

    def scale(self, others: int) -> Any:
        """What was divided out of a form, for so many occurrences that hold something else than the train."""
        count = sum(isinstance(leaf.source, Occurrence) for leaf in self.form.leaves) - others
        logs = sum(logarithm(factor) for factor in self.factors.values())
        return exponential(logs + count * self.point.log_scale)

    def linked(self, environment: Labelled, k: int, leaves: Sequence[int]) -> Labelled:
        """A right environment with the link behind a position applied to bonds of some leaves."""
        for leaf in leaves:
            environment = self.bent(environment, leaf, self.point.unit_links[k])
        return environment

    def bent(self, environment: Labelled, leaf: int, matrix: Array) -> Labelled:
        """A right environment with a matrix applied to the bond of a leaf."""
        bond = RIGHT + leaf
        batch = (SAMPLE,) if self.point.train.batch is not None else ()
        made = product(self.library, environment, Labelled(matrix, (*batch, NEW, bond)), frozenset({SAMPLE}))
        return made.relabelled({NEW: bond})

    def closed(self, rest: Labelled, right: Labelled, leaf: int, k: int) -> Array:
        """The derivative by the core of a leaf: what is left of it and beside it, times what is right."""
        is_batch = self.point.train.batch is not None
        made = product(self.library, rest, right, frozenset({SAMPLE}) if is_batch else frozenset())
        return self._divided(made.ordered(self.library, self.labels[leaf]), k)
