"""In which order the axes of stacks of matrices lie in memory: the one that is summed over comes last.

A tensor of three or more axes times a matrix is one product of matrices if the axis that is summed over is
the last one of the tensor; the new axis is then the last one of the result, where the next product sums. With
any other order the tensor is copied first. The planner orders axes by structure, so that equal products are
computed once; this pass orders them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hesse.ir import label_axis
from hesse.plan.program import (
    CallMap,
    Combine,
    Contract,
    Instruction,
    Placed,
    Program,
    Ref,
    Scale,
    Sizes,
    View,
    sources,
    with_sources,
)

Order = tuple[int, ...]
"""For each axis of a value, as it is now, the axis that it was."""


def stacked(program: Program) -> Program:
    """The program with the axes of its stacks of matrices in an order in which products need no copies."""
    wanted = _wanted(program)
    if not wanted:
        return program
    orders = _orders(program, wanted)
    return _Rewriting(program, orders).run() if orders else program


def _is_stack(program: Program, ref: Ref) -> bool:
    return len(program.shapes[ref]) > 2


class _Want(NamedTuple):
    """Axes of a stack that should be its last ones, or its first ones; how much it matters."""

    weight: float = 0.0
    axes: frozenset[int] = frozenset()
    is_first: bool = False

    def of(self, axes: Iterable[int]) -> _Want:
        return self._replace(axes=frozenset(axes))


def _wanted(program: Program) -> dict[Ref, _Want]:
    """The axes of stacks that the most expensive product with a matrix sums over, there or further on."""
    found: dict[Ref, _Want] = {}

    def want(ref: Ref, wish: _Want) -> None:
        if _is_stack(program, ref) and wish.axes and wish.weight > found.get(ref, _Want()).weight:
            found[ref] = wish

    for ref in reversed(range(len(program.instructions))):
        item = program.instructions[ref]
        wish = found.get(ref, _Want())
        if isinstance(item, Contract):
            labels = {item.labels[axis] for axis in wish.axes}
            both = set(item.left_labels) & set(item.right_labels)
            is_product = bool(both) and both.isdisjoint(item.labels)
            for source, own in ((item.left, item.left_labels), (item.right, item.right_labels)):
                if is_product:  # if an axis of the stack is to be the last one, the matrix comes before it
                    is_first = bool(labels) and labels <= set(own)
                    want(source, _Want(program.flops[ref], frozenset(map(own.index, both)), is_first))
                else:
                    want(source, wish.of(map(own.index, labels.intersection(own))))
        elif isinstance(item, Scale | CallMap):
            for source in sources(item):
                want(source, wish)
        elif isinstance(item, Combine):
            for term in item.terms:
                places = {term.output[axis].label for axis in wish.axes if term.output[axis].is_label}
                want(term.source, wish.of(map(term.labels.index, places.intersection(term.labels))))
    return found


def _orders(program: Program, wanted: dict[Ref, _Want]) -> dict[Ref, Order]:
    """New orders of values, of those that get one."""
    found: dict[Ref, Order] = {}
    for ref, item in enumerate(program.instructions):
        if not _is_stack(program, ref):
            continue
        rank, wish = len(program.shapes[ref]), wanted.get(ref, _Want())
        match item:
            case Contract():
                order = _order_of_product(program, item, found, wish)
            case Scale():
                order = found.get(item.source, tuple(range(rank)))
            case CallMap():
                order = next((found[k] for k in item.sources if k in found), tuple(range(rank)))
            case Combine() if all(term.is_dense(program.shapes[ref]) for term in item.terms):
                order = _order_of_sum(item, rank, found)
            case _:
                continue
        if isinstance(item, Contract | Combine):
            order = tuple(sorted(order, key=lambda k: (k in wish.axes) != wish.is_first))
        if order != tuple(range(rank)):
            found[ref] = order
    return found


def _order_of_product(program: Program, item: Contract, orders: dict[Ref, Order], wish: _Want) -> Order:
    """Axes of the larger operand as they lie, those of the other one behind or, if need be, before them."""
    sides = [(item.left, item.left_labels), (item.right, item.right_labels)]
    source, labels = max(sides, key=lambda side: len(side[1]))
    if not _is_stack(program, source):
        return tuple(range(len(item.labels)))
    lying = [labels[k] for k in orders.get(source, range(len(labels)))]
    kept = [label for label in lying if label in item.labels]
    others = [label for label in item.labels if label not in kept]
    is_last = bool(wish.axes) and wish.axes.isdisjoint(map(item.labels.index, others)) and not wish.is_first
    joined = (*others, *kept) if is_last else (*kept, *others)
    return tuple(map(item.labels.index, joined))


def _order_of_sum(item: Combine, rank: int, orders: dict[Ref, Order]) -> Order:
    """The axes as they lie in the first term that has them all."""
    for term in item.terms:
        if len(term.labels) == rank:
            lying = [term.labels[k] for k in orders.get(term.source, range(rank))]
            places = [axis.label for axis in term.output]
            return tuple([places.index(label) for label in lying])
    return tuple(range(rank))


class _Rewriting:
    """The program made anew, with values whose axes have other orders."""

    def __init__(self, program: Program, orders: dict[Ref, Order]) -> None:
        self.program, self.orders = program, orders
        self.instructions: list[Instruction] = []
        self.shapes: list[Sizes] = []
        self.flops: list[float] = []
        self.new: dict[Ref, Ref] = {}
        self.views: dict[tuple[Ref, Order], Ref] = {}

    def run(self) -> Program:
        for ref, item in enumerate(self.program.instructions):
            order = self._order(ref)
            shape = tuple([self.program.shapes[ref][k] for k in order])
            self.new[ref] = self._emit(self._made(ref, item, order), shape, self.program.flops[ref])
        results = tuple([self._in_order(ref, self._straight(ref)) for ref in self.program.results])
        made = tuple(self.instructions), tuple(self.shapes), tuple(self.flops)
        return Program(*made, results, self.program.node_count)

    def _made(self, ref: Ref, item: Instruction, order: Order) -> Instruction:
        match item:
            case Contract():
                return replace(
                    item,
                    left=self.new[item.left],
                    right=self.new[item.right],
                    left_labels=_taken(item.left_labels, self._order(item.left)),
                    right_labels=_taken(item.right_labels, self._order(item.right)),
                    labels=_taken(item.labels, order),
                )
            case Combine():
                return replace(item, terms=tuple([self._term(term, order) for term in item.terms]))
            case Scale() | CallMap():
                return with_sources(item, [self._in_order(source, order) for source in sources(item)])
            case _:
                straight = [self._in_order(source, self._straight(source)) for source in sources(item)]
                return with_sources(item, straight)

    def _term(self, term: Placed, order: Order) -> Placed:
        labels = _taken(term.labels, self._order(term.source))
        output = tuple([term.output[k] for k in order])
        return replace(term, source=self.new[term.source], labels=labels, output=output)

    def _in_order(self, ref: Ref, order: Order) -> Ref:
        """A value with its axes in an order."""
        lying = self._order(ref)
        if lying == order:
            return self.new[ref]
        if (ref, order) not in self.views:
            shape = tuple([self.program.shapes[ref][k] for k in order])
            axes = tuple([label_axis(order.index(k)) for k in lying])
            view = View(self.new[ref], axes, tuple(range(len(order))), shape)
            self.views[ref, order] = self._emit(view, shape, 0.0)
        return self.views[ref, order]

    def _order(self, ref: Ref) -> Order:
        return self.orders.get(ref, self._straight(ref))

    def _straight(self, ref: Ref) -> Order:
        return tuple(range(len(self.program.shapes[ref])))

    def _emit(self, item: Instruction, shape: Sizes, flops: float) -> Ref:
        self.instructions.append(item)
        self.shapes.append(shape)
        self.flops.append(flops)
        return len(self.instructions) - 1


def _taken(items: Sequence[int], order: Order) -> tuple[int, ...]:
    return tuple([items[k] for k in order])
