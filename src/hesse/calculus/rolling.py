"""Loops rolled up: what is computed number by number, alike for all of them, is computed over arrays.

`f(x[0]) + f(x[1]) + … + f(x[n-1])` is the sum of `f(x)`, and the same terms side by side, as `np.stack` puts
them, are `f(x)`. Terms of a long sum that are members of one family (`families.py`) are added at once: the
families that they are computed from become stacks, with one more axis, the first, for the members. Entries
that are read in arithmetic progressions are axes with further labels, all others are gathered
(`progressions.py`). What is used elsewhere is read from the stacks. Programs without long sums stay as they
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hesse.calculus.batching import stacked
from hesse.calculus.families import FEWEST, Families, Family
from hesse.calculus.progressions import Read, box_of, joined_einsum, matrix, whole
from hesse.ir import (
    Add,
    Axis,
    Constant,
    Einsum,
    Node,
    add,
    constant,
    plain_axes,
    rebuild,
    select,
    topological,
)

FEW_TERMS = 4
"""So many terms of one family in each of many sums are added at once."""


def rolled(roots: Sequence[Node]) -> list[Node]:
    """The roots with terms of long sums that are alike joined."""
    order = topological(roots)
    terms = flat_sums(order, roots)
    if not any(len(found) >= FEWEST for found in terms.values()):
        return list(roots)
    return _Rolling(_levels(order, terms), terms).of(roots)


def flat_sums(order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, Sequence[Node]]:
    """The terms of each sum, those of sums inside that nobody else uses included; these have none."""
    uses: dict[Node, int] = dict.fromkeys(roots, 2)  # a result is used outside
    in_sum: set[Node] = set()
    for node in order:
        for operand in node.operands:
            uses[operand] = uses.get(operand, 0) + 1
        if isinstance(node, Add):
            in_sum.update(node.operands)
    inner = {node for node in in_sum if isinstance(node, Add) and uses[node] == 1}
    found: dict[Node, Sequence[Node]] = {}
    for node in order:
        if not isinstance(node, Add):
            continue
        if node in inner:
            found[node] = ()
            continue
        terms: list[Node] = []
        stack = list(reversed(node.operands))
        while stack:
            term = stack.pop()
            if term in inner:
                stack += reversed(term.operands)
            else:
                terms.append(term)
        found[node] = terms
    return found


def _levels(order: Sequence[Node], terms: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """The nodes by levels: each is above all of its operands."""
    height: dict[Node, int] = {}
    levels: list[list[Node]] = []
    for node in order:
        operands = terms.get(node, node.operands)
        if not operands and node.operands:
            continue  # a sum inside of a sum
        level = height[node] = max([height[operand] + 1 for operand in operands], default=0)
        if level == len(levels):
            levels.append([])
        levels[level].append(node)
    return levels


class _Rolling:
    """An expression that is built anew, its families as stacks where sums ask for them."""

    def __init__(self, levels: Sequence[Sequence[Node]], terms: Mapping[Node, Sequence[Node]]) -> None:
        self.levels = levels
        self.terms = terms
        self.families = Families(levels, terms)
        self.needed: set[Node] = set()
        """Nodes that are needed one by one."""
        self.used: set[int] = set()
        """Families whose members are computed together."""
        self.stacked: set[int] = set()
        """Those of them of which a stack is made."""
        self.joined: dict[Node, list[tuple[Family, np.ndarray]]] = {}
        """For each sum which members of which families are added at once."""
        self.rest: dict[Node, list[Node]] = {}
        """And which terms are not."""
        self.stacks: dict[int, Node] = {}
        self.new: dict[Node, Node] = {}

    def of(self, roots: Sequence[Node]) -> list[Node]:
        """The roots, rolled up."""
        self.needed.update(roots)
        by_level: list[list[Family]] = [[] for _ in self.levels]
        place = {node: k for k, level in enumerate(self.levels) for node in level}
        for family in self.families.of_number.values():
            by_level[place[family.first]].append(family)
        for nodes, families in zip(reversed(self.levels), reversed(by_level), strict=True):
            for node in nodes:
                if node in self.needed and not self._is_taken_from_stack(node):
                    self._ask_for_operands(node)
            for family in families:
                if family.number in self.used:
                    self._ask_for_families(family.operands)
        if not self.joined:
            return list(roots)
        for nodes, families in zip(self.levels, by_level, strict=True):
            for family in families:
                if family.number in self.stacked:
                    self.stacks[family.number] = self._stack(family)
            for node in nodes:
                if node in self.needed:
                    self.new[node] = self._built(node)
        return [self.new[root] for root in roots]

    # What is needed, from the roots down

    def _is_taken_from_stack(self, node: Node) -> bool:
        return self.families.addresses[node].number in self.stacked

    def _ask_for_families(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            family = self.families.of_number.get(number)
            if family is None:
                self.needed.add(self.families.single[number])
            else:
                self.used.add(number)
                if not family.is_read:
                    self.stacked.add(number)

    def _ask_for_operands(self, node: Node) -> None:
        terms = self.terms.get(node)
        if terms is None or len(terms) < FEWEST:
            self.needed.update(node.operands if terms is None else terms)
            return
        groups: dict[int, list[int]] = {}
        rest: list[Node] = []
        for term in terms:
            number, position = self.families.addresses[term]
            if number in self.families.of_number:
                groups.setdefault(number, []).append(position)
            else:
                rest.append(term)
        joined = []
        for number, positions in groups.items():
            family = self.families.of_number[number]
            found, left = _runs(family, np.sort(positions))
            rest += [family.members[k] for k in left]
            joined += [(family, rows) for rows in found]
            if found:
                self.used.add(number)
                if not isinstance(family.first, Einsum | Constant):
                    self.stacked.add(number)
        if joined:
            self.joined[node], self.rest[node] = joined, rest
        self.needed.update(rest)

    # What is built, from the leaves up

    def _built(self, node: Node) -> Node:
        number, position = self.families.addresses[node]
        if number in self.stacks:
            return select(self.stacks[number], [position] + [slice(None)] * node.rank)
        if node in self.joined:
            sums = [self._sum(family, rows) for family, rows in self.joined[node]]
            return add([*sums, *[self.new[term] for term in self.rest[node]]], node.shape)
        operands = tuple([self.new[operand] for operand in self.terms.get(node, node.operands)])
        return node if operands == node.operands else rebuild(node, operands)

    def _sum(self, family: Family, rows: np.ndarray) -> Node:
        """The sum of some members."""
        if isinstance(family.first, Constant):
            return constant(sum(family.members[k].value for k in rows))
        if isinstance(family.first, Einsum) and family.number not in self.stacks:
            return self._product(family, rows, is_stacked=False)
        shape = family.first.shape
        read = self._read_stack(self.stacks[family.number], rows)
        return joined_einsum([read], whole(shape, len(rows)), shape, shape, np.ones(len(rows)), False)

    def _stack(self, family: Family) -> Node:
        """All members, along a new first axis."""
        first, count = family.first, len(family.members)
        if isinstance(first, Einsum):
            return self._product(family, np.arange(count), is_stacked=True)
        columns = iter(family.rows.T)
        operands, is_stacked = [], []
        several: dict[int, list[np.ndarray]] = {}
        for number in family.operands:
            below = self.families.of_number.get(number)
            if below is not None and isinstance(first, Add) and family.operands.count(number) >= FEW_TERMS:
                several.setdefault(number, []).append(next(columns))
                continue
            is_stacked.append(below is not None)
            operands.append(
                self.new[self.families.single[number]]
                if below is None
                else self._picked(below, next(columns))
            )
        for number, rows in several.items():
            is_stacked.append(True)
            operands.append(self._sums(self.families.of_number[number], np.stack(rows, 1)))
        found = stacked(first, tuple(operands), is_stacked, count)
        assert found is not None, "families are of nodes that have stacks"
        return found

    def _sums(self, family: Family, rows: np.ndarray) -> Node:
        """For each row of positions the sum of the members there."""
        (count, length), shape = rows.shape, family.first.shape
        if family.number in self.stacks:
            read = self._read_stack(self.stacks[family.number], rows.ravel())
        else:
            read = self._read_stack(self._picked(family, rows.ravel()), np.arange(rows.size))
        places = np.zeros((rows.size, 1 + len(shape)), np.int64)
        places[:, 0] = np.repeat(np.arange(count), length)
        output = Read(family.first, (Axis((), 0), *plain_axes(len(shape))), places)
        return joined_einsum([read], output, (count, *shape), shape, np.ones(rows.size), False)

    def _picked(self, family: Family, rows: np.ndarray) -> Node:
        """Some members along a new first axis."""
        if isinstance(family.first, Constant):
            return constant(np.stack([family.members[k].value for k in rows]))
        if family.number not in self.stacks:
            return self._product(family, rows, is_stacked=True)
        if np.array_equal(rows, np.arange(len(family.members))):
            return self.stacks[family.number]
        shape = family.first.shape
        read = self._read_stack(self.stacks[family.number], rows)
        return joined_einsum([read], whole(shape, len(rows)), shape, shape, np.ones(len(rows)), True)

    def _read_stack(self, stack: Node, rows: np.ndarray) -> Read:
        offsets = np.zeros((len(rows), stack.rank), np.int64)
        offsets[:, 0] = rows
        return Read(stack, (Axis((), 0), *plain_axes(stack.rank - 1)), offsets)

    def _product(self, family: Family, rows: np.ndarray, is_stacked: bool) -> Node:
        """The sum of some members that are products, or their stack."""
        node, columns = family.first, iter(family.rows[rows].T)
        assert isinstance(node, Einsum)
        positions = {k: next(columns) for k, n in enumerate(family.operands) if n in self.families.of_number}
        reads = []
        for k, number in enumerate(family.operands):
            axes = list(node.axes[family.order[k]])
            offsets = [next(columns) for _ in axes]
            if k not in positions:
                tensor = self.new[self.families.single[number]]
            elif number in self.stacks:
                tensor = self.stacks[number]
                axes, offsets = [Axis((), 0), *axes], [positions[k], *offsets]
            else:
                tensor = self._picked(self.families.of_number[number], positions[k])
                axes, offsets = [Axis((), 0), *axes], [np.arange(len(rows)), *offsets]
            reads.append(Read(tensor, axes, matrix(offsets, len(rows))))
        places = Read(node, node.output, matrix([next(columns) for _ in node.output], len(rows)))
        return joined_einsum(reads, places, node.shape, node.ranges, family.scales[rows], is_stacked)


def _runs(family: Family, rows: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Members in parts that can be added at once: their places are progressions; and the others."""
    if not family.is_placed:
        return ([rows], rows[:0]) if len(rows) >= FEWEST else ([], rows)
    rank = family.first.rank
    places = family.rows[rows, -rank:]
    order = np.lexsort(places.T[::-1])
    rows, places = rows[order], places[order]
    if len(rows) >= FEWEST and box_of(places) is not None:
        return [rows], rows[:0]
    found, left, start = [], [], 0
    for end in _ends(places):
        if end <= start:
            continue
        if end - start >= FEWEST:
            found.append(rows[start:end])
        else:
            left.append(rows[start:end])
        start = end
    return found, np.concatenate([rows[:0], *left])


def _ends(places: np.ndarray) -> Iterator[int]:
    """Where progressions end."""
    steps = np.diff(places, axis=0)
    changes = np.flatnonzero((steps[1:] != steps[:-1]).any(axis=1)) + 2
    yield from changes.tolist()
    yield len(places)
