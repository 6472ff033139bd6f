"""In which order the axes of matrices and stacks of them lie in memory: as products read and write them.

A product is fast if the axes that are summed over come last in its first factor; its result has the axes of
the first factor, then those of the second one. A factor in any other order is copied first, or read across
its rows (up to three times as slow on a processor). The planner orders axes by structure, so that equal
products are computed once; this pass orders them anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hesse.ir import label_axis
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Draft,
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

ENTRY_COST = 16.0
"""Operations of a product in the time of reading an entry of a matrix across its rows."""
Order = tuple[int, ...]
"""For each axis of a value, as it is now, the axis that it was."""


def stacked(program: Program) -> Program:
    """The program with the axes of its matrices in an order in which products need no copies."""
    orders = _orders(program, _wanted(program))
    return _Rewriting(program, orders).run() if orders else program


def _is_matrix(program: Program, ref: Ref) -> bool:
    return len(program.shapes[ref]) > 1


class _Want(NamedTuple):
    """Axes of a value that should be its last ones and its first ones; how much it matters."""

    weight: float = 0.0
    last: frozenset[int] = frozenset()
    first: frozenset[int] = frozenset()

    def mapped(self, places: Mapping[int, int]) -> _Want:
        """The same of a value some of whose axes these are."""
        moved = (frozenset([places[k] for k in axes if k in places]) for axes in (self.last, self.first))
        return _Want(self.weight, *moved)

    def sorted(self, order: Order) -> Order:
        """An order of axes, changed as little as possible."""
        return tuple(sorted(order, key=lambda k: (k in self.last) - (k in self.first)))


def _wanted(program: Program) -> dict[Ref, _Want]:
    """The axes of stacks that the most expensive product with a matrix sums over, there or further on."""
    read = [ref for item in program.instructions if isinstance(item, CallApply) for ref in item.sources]
    found = {  # a result, or a matrix that a record reads, should be made as it lies
        ref: _Want(ENTRY_COST * math.prod(program.shapes[ref]), frozenset(range(1, len(program.shapes[ref]))))
        for ref in (*program.results, *[ref for ref in read if len(program.shapes[ref]) == 2])
        if _is_matrix(program, ref)
    }

    def want(ref: Ref, wish: _Want) -> None:
        has_any = bool(wish.last or wish.first)
        if _is_matrix(program, ref) and has_any and wish.weight > found.get(ref, _Want()).weight:
            found[ref] = wish

    for ref in reversed(range(len(program.instructions))):
        item = program.instructions[ref]
        wish = found.get(ref, _Want())
        if isinstance(item, Contract):
            summed = _summed(item)
            sides = [(item.left, item.left_labels), (item.right, item.right_labels)]
            for (source, own), (_, other) in (sides, sides[::-1]):
                kept = wish.mapped(
                    {k: own.index(label) for k, label in enumerate(item.labels) if label in own}
                )
                if not summed:
                    want(source, _with_longer_sum(item, own, program.shapes[source], kept))
                    continue
                inner = frozenset(map(own.index, summed))
                is_second = bool(kept.last) and len(kept.last) == len(wish.last) and other[-1] in summed
                first, last = (inner, kept.last) if is_second else (kept.first, inner)
                want(source, _Want(program.flops[ref], last, first))
        elif isinstance(item, Scale | CallMap):
            for source in sources(item):
                want(source, wish)
        elif isinstance(item, Combine):
            for term in item.terms:
                if term.is_dense(program.shapes[ref]):
                    labels = [axis.label for axis in term.output]
                    places = {
                        k: term.labels.index(label) for k, label in enumerate(labels) if label in term.labels
                    }
                    want(term.source, wish.mapped(places))
    return found


def _summed(item: Contract) -> set[int]:
    """The labels that a product of matrices sums over; none if it is a product of another kind."""
    both = set(item.left_labels) & set(item.right_labels)
    return both if both.isdisjoint(item.labels) else set()


def _with_longer_sum(item: Contract, own: tuple[int, ...], shape: Sizes, wish: _Want) -> _Want:
    """What a factor of many products should be like: sums that are longer than its last axes come last."""
    inner = frozenset([k for k, label in enumerate(own) if label not in item.labels])
    lengths = [math.prod(shape[k] for k in axes) for axes in (inner, wish.last)]
    return _Want(wish.weight, inner) if inner and lengths[0] > lengths[1] else wish


def _orders(program: Program, wanted: dict[Ref, _Want]) -> dict[Ref, Order]:
    """New orders of values, of those that get one."""
    found: dict[Ref, Order] = {}
    for ref, item in enumerate(program.instructions):
        rank, wish = len(program.shapes[ref]), wanted.get(ref, _Want())
        is_product = isinstance(item, Contract) and bool(_summed(item))
        if not _is_matrix(program, ref) or ref in program.results:
            continue
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
        if isinstance(item, Combine) or (isinstance(item, Contract) and not (rank == 2 and is_product)):
            order = wish.sorted(order)
        if order != tuple(range(rank)):
            found[ref] = order
    return found


def _order_of_product(program: Program, item: Contract, orders: dict[Ref, Order], wish: _Want) -> Order:
    """Axes of the first factor as they lie, then those of the second one; the larger one is the first.

    A smaller matrix is, if it alone has the axis last that is summed over, or if that brings axes where they
    should be.
    """
    sides = (item.left, item.left_labels), (item.right, item.right_labels)
    by_size = sorted(sides, key=lambda side: (len(side[1]), math.prod(program.shapes[side[0]])), reverse=True)
    first, second = ([own[k] for k in orders.get(source, range(len(own)))] for source, own in by_size)
    summed, wanted = _summed(item), {item.labels[k] for k in wish.last}
    is_outer = not summed and len(item.labels) > len(first)  # written once, as its reader wants it
    if len(first) < 2 or is_outer:
        return tuple(range(len(item.labels)))
    if summed and len(second) > 1 and second[-1] in summed:
        is_read_across = first[-1] not in summed
        if is_read_across or (wanted and wanted <= set(first)):
            first, second = second, first
    joined = dict.fromkeys([label for label in (*first, *second) if label in item.labels])
    return tuple(map(item.labels.index, joined))


def _order_of_sum(item: Combine, rank: int, orders: dict[Ref, Order]) -> Order:
    """The axes as they lie in the first term that has them all."""
    for term in item.terms:
        if len(term.labels) == rank:
            lying = [term.labels[k] for k in orders.get(term.source, range(rank))]
            places = [axis.label for axis in term.output]
            return tuple([places.index(label) for label in lying])
    return tuple(range(rank))


class _Rewriting(Draft):
    """The program made anew, with values whose axes have other orders."""

    def __init__(self, program: Program, orders: dict[Ref, Order]) -> None:
        super().__init__()
        self.old, self.orders = program, orders
        self.new: dict[Ref, Ref] = {}
        self.views: dict[tuple[Ref, Order], Ref] = {}

    def run(self) -> Program:
        for ref, item in enumerate(self.old.instructions):
            order = self._order(ref)
            shape = tuple([self.old.shapes[ref][k] for k in order])
            self.new[ref] = self.add(self._made(item, order), shape, self.old.flops[ref])
        results = [self._in_order(ref, self._straight(ref)) for ref in self.old.results]
        return self.program(results, self.old.node_count)

    def _made(self, item: Instruction, order: Order) -> Instruction:
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
            shape = tuple([self.old.shapes[ref][k] for k in order])
            axes = tuple([label_axis(order.index(k)) for k in lying])
            view = View(self.new[ref], axes, tuple(range(len(order))), shape)
            self.views[ref, order] = self.add(view, shape, 0.0)
        return self.views[ref, order]

    def _order(self, ref: Ref) -> Order:
        return self.orders.get(ref, self._straight(ref))

    def _straight(self, ref: Ref) -> Order:
        return tuple(range(len(self.old.shapes[ref])))


def _taken(items: Sequence[int], order: Order) -> tuple[int, ...]:
    return tuple([items[k] for k in order])
