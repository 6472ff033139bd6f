"""Values with their axes in another order, read accordingly by everything that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from hesse.ir import Axis, plain_axes
from hesse.plan.program import (
    CallMap,
    Combine,
    Contract,
    Draft,
    Instruction,
    Literal,
    Load,
    Program,
    Ref,
    Scale,
    View,
    sources,
    with_sources,
)

Item = TypeVar("Item")
Order = tuple[int, ...]
"""For each axis of a value which of its axes it was before."""


def permuted(program: Program, orders: Mapping[Ref, Order]) -> Program:
    """The program with the axes of some values, computed entry by entry or products, in other orders."""
    return _Permuting(program, orders).run() if orders else program


class _Permuting(Draft):
    def __init__(self, program: Program, orders: Mapping[Ref, Order]) -> None:
        super().__init__()
        self.old, self.orders = program, orders
        self.new: dict[Ref, Ref] = {}
        self.straight: dict[Ref, Ref] = {}
        """For a value whose axes are in another order: the view with those it had."""

    def run(self) -> Program:
        for ref, item in enumerate(self.old.instructions):
            self.new[ref] = self._read(ref, item)
        results = [self._as_it_was(ref) for ref in self.old.results]
        return self.program(results, self.old.node_count)

    def _read(self, ref: Ref, item: Instruction) -> Ref:
        shape, work = self.old.shapes[ref], self.old.flops[ref]
        match item:
            case Contract():
                product = replace(
                    item,
                    left_labels=self._ordered(item.left, item.left_labels),
                    right_labels=self._ordered(item.right, item.right_labels),
                    labels=self._ordered(ref, item.labels),
                    left=self.new[item.left],
                    right=self.new[item.right],
                )
                return self.add(product, self._ordered(ref, shape), work)
            case View():
                return self._viewed(item, shape)
            case Combine():
                terms = [
                    replace(
                        term,
                        source=self.new[term.source],
                        labels=self._ordered(term.source, term.labels),
                        output=self._ordered(ref, term.output),
                    )
                    for term in item.terms
                ]
                return self.add(replace(item, terms=tuple(terms)), self._ordered(ref, shape), work)
            case Scale() | CallMap() if ref in self.orders:
                read = [self._in_order(k, self.orders[ref], shape) for k in sources(item)]
                return self.add(with_sources(item, read), self._ordered(ref, shape), work)
            case Load() | Literal():
                return self.add(item, shape, work)
            case _:
                return self.add(with_sources(item, [self._as_it_was(k) for k in sources(item)]), shape, work)

    def _viewed(self, item: View, shape: tuple[int, ...]) -> Ref:
        source, axes = self.new[item.source], self._ordered(item.source, item.axes)
        is_whole = item.labels == tuple(range(len(shape))) and axes == plain_axes(len(shape))
        if is_whole and self.shapes[source] == shape:
            return source
        return self.add(replace(item, source=source, axes=axes), shape, 0.0)

    def _ordered(self, ref: Ref, items: tuple[Item, ...]) -> tuple[Item, ...]:
        order = self.orders.get(ref)
        return items if order is None else tuple([items[k] for k in order])

    def _in_order(self, ref: Ref, order: Order, shape: tuple[int, ...]) -> Ref:
        """A value with its axes in an order; as it is, if it has another shape than the result."""
        if self.orders.get(ref) == order or self.old.shapes[ref] != shape:
            return self.new[ref]
        labels = tuple(range(len(shape)))
        view = View(self._as_it_was(ref), plain_axes(len(shape)), tuple([labels[k] for k in order]), shape)
        return self.add(view, tuple([shape[k] for k in order]), 0.0)

    def _as_it_was(self, ref: Ref) -> Ref:
        if ref not in self.orders:
            return self.new[ref]
        if ref not in self.straight:
            shape = self.old.shapes[ref]
            axes: tuple[Axis, ...] = self._ordered(ref, plain_axes(len(shape)))
            view = View(self.new[ref], axes, tuple(range(len(shape))), shape)
            self.straight[ref] = self.add(view, shape, 0.0)
        return self.straight[ref]
