"""In which order matrices lie in memory: rows one after the other, or columns.

A product of matrices can be computed as it is or transposed, at no cost. What is computed from it entry by
entry lies in memory as it does, and reading one operand by rows and the other by columns takes two to four
times as long. So for each product it is decided which of the two it is: operands and results of element-wise
operations are linked, the largest first, and a link that contradicts larger ones is given up. What is made
entry by entry gets the axes of the products that it is linked with, so that no compiler is led to write it in
another order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hesse.ir import plain_axes
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Program,
    Reduce,
    Ref,
    Scale,
    Sizes,
    View,
    sources,
)
from hesse.plan.reading import permuted

SMALLEST = 2**10
"""Matrices with fewer entries than this are read in any order at once."""
ROWS: Ref = -1
"""What stands for a matrix that lies in memory row by row."""
SWAPPED = tuple(reversed(plain_axes(2)))


class Link(NamedTuple):
    """Two values that should lie in memory alike, or one as the other transposed; how much it matters."""

    first: Ref
    second: Ref
    is_turned: bool
    weight: float


def aligned(program: Program) -> Program:
    """The program with its products of matrices turned so that they are read as they lie in memory."""
    free = {k for k in range(len(program.shapes)) if _is_free(program, k)}
    if not free:
        return program
    links = sorted(_links(program, free), key=lambda link: -link.weight)
    turned = _turned(links, {ref: program.shapes[ref] for ref in sorted(free)}, _followers(program, free))
    return permuted(program, dict.fromkeys(turned, (1, 0)))


def is_large(program: Program, ref: Ref) -> bool:
    """Whether a value is a matrix whose order in memory matters."""
    shape = program.shapes[ref]
    return len(shape) == 2 and min(shape) > 1 and math.prod(shape) >= SMALLEST


def _is_free(program: Program, ref: Ref) -> bool:
    """Whether a value is a product of two matrices, or of two vectors."""
    item = program.instructions[ref]
    if not isinstance(item, Contract) or item.is_symmetric or not is_large(program, ref):
        return False
    left, right = set(item.left_labels), set(item.right_labels)
    return left != right if len(left) == len(right) == 1 else summed_label(item) is not None


def summed_label(item: Contract) -> int | None:
    """The label that a product of two matrices is summed over; None: it is another product."""
    left, right, kept = set(item.left_labels), set(item.right_labels), set(item.labels)
    summed = (left | right) - kept
    if len(left) == len(right) == len(kept) == 2 and len(summed) == 1 and summed <= left & right:
        return next(iter(summed))
    return None


def _links(program: Program, free: set[Ref]) -> Iterator[Link]:
    for ref, item in enumerate(program.instructions):
        if not is_large(program, ref):
            if isinstance(item, Contract):
                yield from _operands_of_sum(program, item)
                yield from _operands_of_stack(program, item)
            continue
        entries = float(math.prod(program.shapes[ref]))
        match item:
            case View() if item.axes == SWAPPED and item.labels == (0, 1):
                yield Link(ref, item.source, True, math.inf)
            case View():
                yield Link(ref, ROWS, False, entries)
            case Contract() if ref in free:
                pass
            case Contract():
                yield from _alike(program, ref, element_orders(item), entries)
            case Combine():
                yield from _alike(program, ref, term_orders(item), entries)
            case Scale() | CallMap():
                yield from _alike(program, ref, ((k, False) for k in sources(item)), entries)
            case CallApply():
                yield Link(ref, ROWS, False, math.inf)
            case _:
                yield Link(ref, ROWS, False, math.inf)
        if isinstance(item, CallApply | Reduce):
            yield from (Link(k, ROWS, False, entries) for k in sources(item) if is_large(program, k))
    for ref in program.results:  # after what cannot be otherwise, before all that is only read
        if is_large(program, ref):
            yield Link(ref, ROWS, False, math.inf)


def _alike(program: Program, ref: Ref, found: Iterable[tuple[Ref, bool]], entries: float) -> Iterator[Link]:
    return (Link(ref, other, turned, entries) for other, turned in found if is_large(program, other))


def element_orders(item: Contract) -> Iterator[tuple[Ref, bool]]:
    """The operands of an element-wise product, and whether their axes are exchanged in the result."""
    for source, labels in ((item.left, item.left_labels), (item.right, item.right_labels)):
        if sorted(labels) == sorted(item.labels):
            yield source, labels != item.labels


def term_orders(item: Combine) -> Iterator[tuple[Ref, bool]]:
    """The matrices of a sum, and whether their axes are exchanged in the result."""
    for term in item.terms:
        labels = tuple(label for axis in term.output for label in axis.labels())
        if sorted(term.labels) == sorted(labels):
            yield term.source, term.labels != labels


def _operands_of_sum(program: Program, item: Contract) -> Iterator[Link]:
    """Two matrices that are multiplied entry by entry and added up."""
    if is_large(program, item.left) and is_large(program, item.right):
        left, right = item.left_labels, item.right_labels
        if sorted(left) == sorted(right):
            yield Link(item.left, item.right, left != right, float(math.prod(program.shapes[item.left])))


def _operands_of_stack(program: Program, item: Contract) -> Iterator[Link]:
    """Matrices whose entries are multiplied into a stack, which lies in memory as they do: by rows, if that
    contradicts nothing else.
    """
    for source, labels in ((item.left, item.left_labels), (item.right, item.right_labels)):
        kept = tuple([label for label in item.labels if label in labels])
        if len(item.labels) > 2 == len(kept) and is_large(program, source):
            yield Link(source, ROWS, kept != labels, 0.0)


class _Groups:
    """Values that are linked, each with whether it is turned against the one that stands for its group."""

    def __init__(self) -> None:
        self._above: dict[Ref, tuple[Ref, bool]] = {}

    def find(self, ref: Ref) -> tuple[Ref, bool]:
        path: list[tuple[Ref, bool]] = []
        turned = False
        while ref in self._above:
            above, is_turned = self._above[ref]
            path.append((ref, is_turned))
            ref, turned = above, turned ^ is_turned
        total = turned
        for below, is_turned in path:
            self._above[below] = ref, total
            total ^= is_turned
        return ref, turned

    def link(self, link: Link) -> None:
        (first, a), (second, b) = self.find(link.first), self.find(link.second)
        if first != second:
            first, second = (second, first) if first == ROWS else (first, second)
            self._above[first] = second, a ^ b ^ link.is_turned


def _turned(links: Iterable[Link], free: dict[Ref, Sizes], followers: Iterable[Ref]) -> set[Ref]:
    """The products, which have these shapes, that are computed transposed, and all that follows them."""
    groups = _Groups()
    for link in links:
        groups.link(link)
    members: dict[Ref, list[tuple[Ref, bool]]] = {}
    for ref in free:
        above, turned = groups.find(ref)
        members.setdefault(above, []).append((ref, turned))
    first = {
        above: above != ROWS and _is_better_turned([(free[k], turned) for k, turned in group])
        for above, group in members.items()
    }
    found = {ref for above, group in members.items() for ref, turned in group if turned != first[above]}
    for ref in followers:
        above, turned = groups.find(ref)
        if turned != first.get(above, turned):
            found.add(ref)
    return found


def _followers(program: Program, free: set[Ref]) -> Iterator[Ref]:
    """Matrices that are computed entry by entry, and whose axes may change places."""
    for ref, item in enumerate(program.instructions):
        if ref in free or ref in program.results or not is_large(program, ref):
            continue
        if isinstance(item, Scale | CallMap | Combine) or (isinstance(item, Contract) and not item.is_sum):
            yield ref


def _is_better_turned(shapes: Iterable[tuple[Sizes, bool]]) -> bool:
    """Whether matrices of a group have their longer axis last if those that are not turned are transposed.

    Loops run along the last axis, and where a row or a column is repeated, each of them is a loop.
    """
    gains = [(shape[0] - shape[1]) * (-1 if turned else 1) for shape, turned in shapes]
    return sum(gains) > 0
