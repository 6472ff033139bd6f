"""Loops whose carry has several leaves.

Leaves that do not wait for each other are loops of their own, one after the other: what the later one reads
of the earlier is an item then, and all that follows from items is computed for all steps at once. Leaves that
wait for each other are parts of one vector, unless a step computes all of them from one node that is smaller
than they are together: then that node is carried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hesse.api.loops import Part, Steps, loop
from hesse.calculus.rolling import rolled
from hesse.ir import (
    Node,
    Variable,
    concatenate,
    dependents,
    reshape,
    select,
    substitute,
    topological,
    variable,
)
from hesse.rewrite import simplify

WHOLE = slice(None)


class Leaf(NamedTuple):
    """A leaf of a carry: the variable that a step reads it by, and its values at first and after a step."""

    name: Variable
    first: Node
    after: Node


def scanned(
    steps: Steps, names: Sequence[Variable], first: Sequence[Node], after: Sequence[Node], ys: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """The stacks of all leaves of the carry after each step, and of what else a step computes.

    `after` and `ys` are what a step computes from the leaves, `names`.
    """
    nodes = simplify(rolled([*after, *ys]))
    after, ys = nodes[: len(after)], nodes[len(after) :]
    leaves = list(map(Leaf, names, first, after))
    found: dict[Node, Node] = {}
    for group in _groups(steps, leaves):
        for leaf, carries in zip(group, _carries(steps, group), strict=True):
            found[leaf.name] = steps.after(carries)
            steps = steps.further({leaf.name: steps.before(carries), leaf.after: steps.after(carries)}, {})
    return [found[name] for name in names], steps.batched(*ys)


def _groups(steps: Steps, leaves: Sequence[Leaf]) -> list[list[Leaf]]:
    """The leaves that wait for each other, those first that others read."""
    below: dict[Node, int] = {leaf.name: 1 << k for k, leaf in enumerate(leaves)}
    for node in topological([leaf.after for leaf in leaves], steps.known):
        for operand in node.operands:
            below[node] = below.get(node, 0) | below.get(operand, 0)
    reads = [below.get(leaf.after, 0) for leaf in leaves]
    for k in range(len(leaves)):
        reads = [own | reads[k] if own >> k & 1 else own for own in reads]
    groups: dict[int, list[Leaf]] = {}
    counts: dict[int, int] = {}
    for k, leaf in enumerate(leaves):
        both_ways = sum(1 << j for j, own in enumerate(reads) if own >> k & 1 and reads[k] >> j & 1)
        group = both_ways | 1 << k
        groups.setdefault(group, []).append(leaf)
        counts[group] = (reads[k] | 1 << k).bit_count()
    return [groups[group] for group in sorted(groups, key=counts.__getitem__)]


def _carries(steps: Steps, leaves: Sequence[Leaf]) -> list[Node]:
    """All carries of leaves that wait for each other."""
    narrow = _narrowest(steps, leaves) if steps.length > 2 else None
    if narrow is not None:
        rows = _Rotated(steps, leaves, narrow).after_each_step()
        return [steps.joined(leaf.first, row) for leaf, row in zip(leaves, rows, strict=True)]
    if len(leaves) == 1 and leaves[0].name.rank:
        return [loop(steps, *leaves[0])]
    shapes = [tuple(map(int, leaf.name.shape)) for leaf in leaves]
    pieces = list(_pieces(shapes))
    carry = variable("the carry", (pieces[-1][1],), ["loop"])
    parts_of_carry = [
        reshape(select(carry, [slice(*piece)]), shape) for piece, shape in zip(pieces, shapes, strict=True)
    ]
    table: dict[Node, Node] = dict(zip([leaf.name for leaf in leaves], parts_of_carry, strict=True))
    after = substitute([leaf.after for leaf in leaves], table)
    parts = [Part(node, begin) for node, (begin, _) in zip(after, pieces, strict=True)]
    carries = loop(steps, carry, _vector([leaf.first for leaf in leaves]), _vector(after), parts)
    return [
        reshape(select(carries, [WHOLE, slice(*piece)]), (steps.length + 1, *shape))
        for piece, shape in zip(pieces, shapes, strict=True)
    ]


def _entries(node: Node) -> int:
    return math.prod(map(int, node.shape))


def _narrowest(steps: Steps, leaves: Sequence[Leaf]) -> Node | None:
    """The smallest node through which all leaves pass in a step, if it is smaller than they are."""
    names, after = [leaf.name for leaf in leaves], [leaf.after for leaf in leaves]
    order = topological(after, steps.known)
    live = dependents(order, names)
    order = [node for node in order if node in live and node not in names]
    last_read: dict[Node, int] = {}
    for k, node in enumerate(order):
        last_read.update(dict.fromkeys(node.operands, k))
    last_read.update(dict.fromkeys(after, len(order)))
    best, fewest = None, sum(map(_entries, names))
    open_until = max(last_read.get(name, 0) for name in names)
    for k, node in enumerate(order):
        if open_until <= k and _entries(node) < fewest:
            best, fewest = node, _entries(node)
        open_until = max(open_until, last_read[node])
    return best


class _Rotated:
    """A loop that begins and ends at a node in the middle of a step, `c = P(u, x)` with `u = Q(c, x)`.

    It is `u[k] = Q(P(u[k-1], x[k-1]), x[k])`, and begins after the first half step, `u[0] = Q(c, x[0])`.
    """

    def __init__(self, steps: Steps, leaves: Sequence[Leaf], narrow: Node) -> None:
        self.steps, self.leaves, self.narrow = steps, leaves, narrow
        self.names: list[Node] = [leaf.name for leaf in leaves]
        order = topological([leaf.after for leaf in leaves], steps.known)
        live, by_step = dependents(order, self.names), dependents(order, steps.stacks)
        read = dict.fromkeys(o for node in order if node in live for o in node.operands)
        self.items = [node for node in read if node in by_step and node not in live]
        self.stacks = steps.batched(*self.items)

    def after_each_step(self) -> list[Node]:
        """The stacks of the leaves."""
        steps, narrow = self.steps, self.narrow
        carried = variable("the narrowest", narrow.shape, ["loop"])
        now, before = self._variables("now"), self._variables("before")
        after = [leaf.after for leaf in self.leaves]
        halfway = substitute(after, {narrow: carried, **dict(zip(self.items, before, strict=True))})
        inside = dict(zip(self.names, halfway, strict=True)) | dict(zip(self.items, now, strict=True))
        (after_whole,) = substitute([narrow], inside)
        earlier, later = slice(0, -1), slice(1, None)
        if steps.is_reversed:
            earlier, later = later, earlier
        shifted = {name: _rows(stack, later) for name, stack in zip(now, self.stacks, strict=True)}
        shifted |= {name: _rows(stack, earlier) for name, stack in zip(before, self.stacks, strict=True)}
        rotated = Steps(steps.length - 1, steps.is_reversed, shifted, steps.fixed)
        carries = loop(rotated, carried, self._first(), simplify([after_whole])[0])
        return steps.further({narrow: carries}, {}).batched(*after)

    def _variables(self, when: str) -> list[Node]:
        return [
            variable(f"item {k} {when}", node.shape, ["loop"], node.kind) for k, node in enumerate(self.items)
        ]

    def _first(self) -> Node:
        """The node in the first step."""
        row = self.steps.length - 1 if self.steps.is_reversed else 0
        table = dict(zip(self.names, [leaf.first for leaf in self.leaves], strict=True))
        table |= {item: _rows(stack, row) for item, stack in zip(self.items, self.stacks, strict=True)}
        return substitute([self.narrow], {**self.steps.fixed, **table})[0]


def _rows(stack: Node, rows: slice | int) -> Node:
    return select(stack, [rows] + [WHOLE] * (stack.rank - 1))


def _pieces(shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Where each leaf lies in the vector of all."""
    begin = 0
    for shape in shapes:
        yield begin, begin + math.prod(shape)
        begin += math.prod(shape)


def _vector(nodes: Sequence[Node]) -> Node:
    return concatenate([reshape(node, (_entries(node),)) for node in nodes], 0)
