"""Families: nodes of an expression that are equal up to the entries that they read and the numbers in them.

`sin(x[0])*2`, `sin(x[1])*3`, … are members of one family: a form, and for each member a row of integers
(which members of other families it is computed from, and at which offsets it reads them) and a scale. Members
are sorted by these, so that a loop over entries is an arithmetic progression, in whatever order it was
written.

Forms are found bottom-up, level by level: what stands on one level is computed from lower ones alone, whose
families are complete. So each node is looked at once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hesse.calculus.batching import has_stack
from hesse.ir import Add, Apply, Axis, Constant, Einsum, Map, Node, Size, Variable

FEWEST = 16
"""So many nodes that are alike are a family."""
MOST_ENTRIES = 4_000_000
"""A family whose members have more entries than this together is several ones."""
FEW_PLACES = 16
"""Parts of tensors of so few entries belong to one family only if they stand at the same place."""


class Address(NamedTuple):
    """Where a node is found: the number of its family, or its own, and its position in the family."""

    number: int
    position: int


class Form(NamedTuple):
    """What members of a family have in common, and what a node has of its own."""

    node: Node
    key: Hashable
    operands: tuple[int, ...]
    order: Sequence[int]
    row: tuple[int, ...]
    scale: float = 1.0


class Family(NamedTuple):
    """Nodes that are alike.

    `operands` are the numbers of what members are computed from, in an order that is `order` in the first.
    A row of `rows` has a position for each operand that is a family, and of a product the offsets of axes.
    """

    number: int
    members: Sequence[Node]
    order: Sequence[int]
    operands: Sequence[int]
    rows: np.ndarray
    scales: np.ndarray
    is_known: bool

    @property
    def first(self) -> Node:
        """The first member."""
        return self.members[0]

    @property
    def is_read(self) -> bool:
        """Whether members are constants or parts of other tensors: reading them again costs nothing."""
        if isinstance(self.first, Einsum):
            return len(self.first.operands) <= 1 and not self.first.summed
        return isinstance(self.first, Constant)

    @property
    def is_placed(self) -> bool:
        """Whether members stand at different places of a tensor of zeros: they can be added, not stacked."""
        if not isinstance(self.first, Einsum) or not self.first.rank:
            return False
        places = self.rows[:, -self.first.rank :]
        return bool((places != places[0]).any())


class Families:
    """The families of an expression, given by levels, and the operands of nodes as they are to be seen."""

    def __init__(self, levels: Iterable[Sequence[Node]], operands: Mapping[Node, Sequence[Node]]) -> None:
        self.of_number: dict[int, Family] = {}
        self.single: dict[int, Node] = {}
        """Nodes that are in no family."""
        self.addresses: dict[Node, Address] = {}
        self._operands = operands
        self._known: set[int] = set()
        self._placed: set[int] = set()
        for level in levels:
            groups: dict[Hashable, list[Form]] = {}
            for node in level:
                form = self._form(node)
                if form is None:
                    self._enter_single(node)
                else:
                    groups.setdefault(form.key, []).append(form)
            for group in groups.values():
                self._enter(group)

    def _next(self) -> int:
        return len(self.of_number) + len(self.single)

    def _enter_single(self, node: Node) -> None:
        number = self._next()
        self.single[number] = node
        self.addresses[node] = Address(number, 0)

    def _enter(self, group: Sequence[Form]) -> None:
        """Nodes with one key are a family, if there are several."""
        if len(group) == 1:
            self._enter_single(group[0].node)
        else:
            self._enter_families(group)

    def _enter_families(self, forms: Sequence[Form]) -> None:
        first, numbers = forms[0].node, forms[0].operands
        rows = np.array([form.row for form in forms], np.int64).reshape(len(forms), -1)
        scales = np.array([form.scale for form in forms])
        kept = [number in self._known for number in numbers if number in self.of_number]
        last = [k for k, is_known in enumerate(kept) if is_known]  # the order of numbers is of no interest
        columns = [k for k in range(rows.shape[1]) if k not in last] + last
        order = np.lexsort([scales, *[rows[:, k] for k in reversed(columns)]])
        is_known = all(number in self._known for number in numbers)
        for part in np.array_split(order, _piece_count(first, len(forms))):
            number = self._next()
            members = [forms[k].node for k in part]
            own = forms[part[0]]
            family = Family(number, members, own.order, numbers, rows[part], scales[part], is_known)
            self.of_number[number] = family
            if is_known:
                self._known.add(number)
            if family.is_placed:
                self._placed.add(number)
            for position, member in enumerate(members):
                self.addresses[member] = Address(number, position)

    def _form(self, node: Node) -> Form | None:
        """The form of a node; None if nothing is alike by definition."""
        if isinstance(node, Constant):
            key: Hashable = (Constant, node.shape, node.value.dtype.str)
            return Form(node, key, (), (), ())
        if isinstance(node, Variable) or not _are_numbers(node.shape):
            return None
        if isinstance(node, Einsum):
            return self._product_form(node)
        operands = self._operands.get(node, node.operands)
        addresses = [self.addresses[operand] for operand in operands]
        order: Sequence[int] = range(len(operands))
        if isinstance(node, Add):
            order = sorted(order, key=addresses.__getitem__)
            addresses = [addresses[k] for k in order]
        if any([address.number in self._placed for address in addresses]):
            return None
        is_stacked = [address.number in self.of_number for address in addresses]
        if not any(is_stacked) or not has_stack(node, is_stacked):
            return None
        row = [address.position for address, s in zip(addresses, is_stacked, strict=True) if s]
        numbers = tuple([address.number for address in addresses])
        name = node.name if isinstance(node, Map | Apply) else ""
        params = (node.params, node.kind) if isinstance(node, Apply) else ()
        return Form(node, (type(node), name, params, node.shape, numbers), numbers, order, tuple(row))

    def _product_form(self, node: Einsum) -> Form | None:
        addresses = [self.addresses[operand] for operand in node.operands]
        if any([address.number in self._placed for address in addresses]) or not _are_numbers(node.ranges):
            return None
        order: Sequence[int] = range(len(addresses))
        if len(addresses) > 1:
            order = sorted(order, key=lambda k: _rank(node, k, addresses[k]))
        axes = [*[node.axes[k] for k in order], node.output]
        strides, sizes = structure(node, axes)
        row = [addresses[k].position for k in order if addresses[k].number in self.of_number]
        row += [offset for tensor in axes for _, offset in tensor]
        places: tuple[int, ...] = ()
        if _entries(node.shape) <= FEW_PLACES:
            places = tuple([offset for _, offset in node.output])
        numbers = tuple([addresses[k].number for k in order])
        key = (Einsum, node.shape, strides, sizes, places, numbers)
        return Form(node, key, numbers, order, tuple(row), node.scale)


def structure(node: Einsum, axes: Sequence[Sequence[Axis]]) -> tuple[Hashable, Hashable]:
    """What is to be said of axes but their offsets; labels are numbered as they come."""
    names: dict[int, int] = {}
    strides = [
        tuple([(names.setdefault(label, len(names)), stride) for label, stride in terms])
        for tensor in axes
        for terms, _ in tensor
    ]
    for label in range(len(node.ranges)):
        names.setdefault(label, len(names))
    return tuple(strides), node.sizes(names)


def _are_numbers(sizes: Iterable[Size]) -> bool:
    return not any([isinstance(size, str) for size in sizes])


def _rank(node: Einsum, operand: int, address: Address) -> tuple[object, ...]:
    """What factors are sorted by: families first, places last; labels have no names here."""
    strides = tuple([tuple([stride for _, stride in terms]) for terms, _ in node.axes[operand]])
    offsets = tuple([offset for _, offset in node.axes[operand]])
    return address.number, strides, address.position, offsets


def _piece_count(node: Node, count: int) -> int:
    sizes = node.shape if not isinstance(node, Einsum) else min(node.shape, node.ranges, key=_entries)
    return math.ceil(count * _entries(sizes) / MOST_ENTRIES) or 1


def _entries(sizes: Sequence[object]) -> int:
    return math.prod(sizes)  # type: ignore[arg-type]  # they are numbers
