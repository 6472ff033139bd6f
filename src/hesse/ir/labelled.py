"""Products as values: operands that are read through axes over labels, before or after they are a node.

What a product does with a label (place it in the output, read an operand by it, sum over it) is asked here,
and here a product is taken over other labels or over some of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hesse.ir.axis import Axis, Size, first_labels, labels_of, renamed

if TYPE_CHECKING:
    from hesse.ir.node import Node


class Labelled:
    """Anything that reads operands through `axes` and adds into `output`, over a box of labels."""

    __slots__ = ()
    if TYPE_CHECKING:  # fields of a product, slots of a node

        @property
        def axes(self) -> tuple[tuple[Axis, ...], ...]: ...
        @property
        def output(self) -> tuple[Axis, ...]: ...
        @property
        def ranges(self) -> tuple[Size, ...]: ...

    @property
    def placed(self) -> set[int]:
        """The labels that the output has."""
        return labels_of(self.output)

    @property
    def inside(self) -> set[int]:
        """The labels that some operand has."""
        return labels_of(chain.from_iterable(self.axes))

    @property
    def used(self) -> set[int]:
        """The labels that some axis has."""
        return labels_of(chain(self.output, *self.axes))

    @property
    def core_labels(self) -> tuple[int, ...]:
        """The labels that the output and some operand have, in the order of the output."""
        inside = self.inside
        return tuple([label for label in first_labels(self.output) if label in inside])

    @property
    def has_delta(self) -> bool:
        """Whether a label is used in two axes of the output."""
        return sum([len(axis.terms) for axis in self.output]) > len(self.placed)

    @property
    def summed(self) -> list[int]:
        """The labels that the output does not have."""
        placed = self.placed
        return [label for label in range(len(self.ranges)) if label not in placed]

    @property
    def counted(self) -> list[int]:
        """The labels that no axis has: the sum over each of them is a factor, its size."""
        used = self.used
        return [label for label in range(len(self.ranges)) if label not in used]

    def sizes(self, labels: Iterable[int]) -> tuple[Size, ...]:
        """The ranges of some labels."""
        return tuple([self.ranges[label] for label in labels])


class _Fields(NamedTuple):
    operands: tuple[Node, ...]
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    ranges: tuple[Size, ...]
    scale: float


class Product(_Fields, Labelled):
    """The fields of an einsum, in any form; `einsum_of` makes the node.

    >>> from hesse.ir import label_axis, variable
    >>> i, j, k = map(label_axis, range(3))
    >>> factors = variable("A", (2, 3)), variable("x", (3,))
    >>> product = Product(factors, ((i, j), (j,)), (i, k), (2, 3, 4), 1.0)
    >>> product.placed, product.inside, product.summed
    ({0, 2}, {0, 1}, [1])
    """

    __slots__ = ()

    def renamed(self, names: Callable[[int], int]) -> Product:
        """The product with other labels on its axes; the ranges stay those of the old ones."""
        axes = tuple([renamed(row, names) for row in self.axes])
        return self._replace(axes=axes, output=renamed(self.output, names))

    def over(self, labels: Iterable[int]) -> Product:
        """The product over some of its labels, numbered in this order (no axis may have any other).

        >>> Product((), (), (Axis(((4, 2),), 1),), (9, 9, 9, 9, 5), 1.0).over([4])
        Product(operands=(), axes=(), output=(Axis(terms=((0, 2),), offset=1),), ranges=(5,), scale=1.0)
        """
        numbers = {label: k for k, label in enumerate(labels)}
        return self.renamed(numbers.__getitem__)._replace(ranges=self.sizes(numbers))

    def without(self, labels: Collection[int]) -> Product:
        """The product without some labels, which no axis may have."""
        if not labels:
            return self
        return self.over([label for label in range(len(self.ranges)) if label not in labels])

    def compact(self) -> Product:
        """The product over the labels that it uses."""
        return self.over(sorted(self.used))

    def within(self, label: int, first: int, end: int) -> Product:
        """The product over some of the values of a label.

        >>> Product((), (), (Axis(((0, 2),), 1),), (9,), 1.0).within(0, 3, 5)
        Product(operands=(), axes=(), output=(Axis(terms=((0, 2),), offset=7),), ranges=(2,), scale=1.0)
        """

        def moved(axes: Iterable[Axis]) -> tuple[Axis, ...]:
            return tuple([Axis(a.terms, a.offset + first * dict(a.terms).get(label, 0)) for a in axes])

        ranges = (*self.ranges[:label], end - first, *self.ranges[label + 1 :])
        return self._replace(axes=tuple(map(moved, self.axes)), output=moved(self.output), ranges=ranges)

    def only(self, positions: Collection[int]) -> Product:
        """The product of some of the operands, with the same output.

        >>> from hesse.ir import plain_axes, variable
        >>> i, j, k = plain_axes(3)
        >>> factors = variable("x", (2,)), variable("y", (3,)), variable("z", (4,))
        >>> product = Product(factors, ((i,), (j,), (k,)), (k,), (2, 3, 4), 1.0)
        >>> product.only([2]).inside, product.only([2]).compact().ranges
        ({2}, (4,))
        """
        operands = tuple([self.operands[k] for k in positions])
        return self._replace(operands=operands, axes=tuple([self.axes[k] for k in positions]))

    def times(self, operand: Node, axes: tuple[Axis, ...]) -> Product:
        """The product with one more operand."""
        return self._replace(operands=(*self.operands, operand), axes=(*self.axes, axes))

    def with_operand(self, position: int, operand: Node) -> Product:
        """The product with one operand replaced by another, which is read in the same way."""
        return self._replace(operands=(*self.operands[:position], operand, *self.operands[position + 1 :]))
