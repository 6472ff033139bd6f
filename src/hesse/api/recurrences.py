"""Recurrences that are found: a long chain of equal steps, as a loop in Python leaves it, is a loop node.

The longest path through an expression goes once through each step. Where what stands on it repeats, it is cut
once in each period, and what depends on one cut and not on the next one is a step. Steps are written down
from their results to what they read, in an order that does not depend on where in the chain they are; a run
of steps that are written alike is a loop. They may differ in the entries that they read and in numbers: these
are items of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from hesse.api.carries import scanned
from hesse.api.chain_steps import Body, Item, Row, Step, items_inside, offsets_of
from hesse.api.loops import Steps
from hesse.calculus.families import structure
from hesse.calculus.rolling import flat_sums
from hesse.ir import Apply, Einsum, Map, Node, Variable, first_labels, rebuild, select, topological, variable
from hesse.ops.foreign import FOREIGN

FEWEST_STEPS = 64
"""Chains of fewer steps stay as they are written."""
FEWEST_OF_NUMBERS = 4096
"""If they compute nothing but numbers: a line of a program takes less time than a step of a loop."""
LONGEST_PERIOD = 256
"""Operations one after the other in a step."""
MOST_ENTRIES = 1_000_000
"""Tensors of several steps that have more entries together are not put side by side."""
MOST_LOOPS = 8
"""So many chains are looked for, one after the other."""

Terms = Mapping[Node, Sequence[Node]]


def with_loops(roots: Sequence[Node]) -> list[Node]:
    """The roots with long chains of equal steps as loops."""
    roots = list(roots)
    for _ in range(MOST_LOOPS):
        found = _with_loop(roots)
        if found is None:
            return roots
        roots = found
    return roots


def _with_loop(roots: list[Node]) -> list[Node] | None:
    order = topological(roots)
    if len(order) < 2 * FEWEST_STEPS:
        return None
    terms = flat_sums(order, roots)
    order = [node for node in order if not node.operands or terms.get(node, node.operands)]
    cuts = _cuts(_longest_path(order, terms))
    return _Chain(order, terms, cuts).as_loop(roots) if cuts else None


def _longest_path(order: Sequence[Node], terms: Terms) -> list[Node]:
    """From a leaf up to the node that is farthest from all leaves."""
    heights: dict[Node, int] = {}
    below: dict[Node, Node] = {}
    kinds: dict[Hashable, int] = {}
    for node in order:
        operands = terms.get(node, node.operands)
        height = heights[node] = max([heights[operand] + 1 for operand in operands], default=0)
        ways = [operand for operand in operands if heights[operand] == height - 1]
        if len(ways) > 1:  # the same way in every step
            ways.sort(key=lambda way: kinds.setdefault(_kind(way), len(kinds)))
        if ways:
            below[node] = ways[0]
    path = [max(heights, key=heights.__getitem__)]
    while path[-1] in below:
        path.append(below[path[-1]])
    return path[::-1]


def _cuts(path: Sequence[Node]) -> list[Node]:
    """One node of each period of a path, if what stands on it repeats often enough."""
    kinds: dict[Hashable, int] = {}
    codes = np.array([kinds.setdefault(_kind(node), len(kinds)) for node in path])
    for period in range(1, min(LONGEST_PERIOD, len(path) // FEWEST_STEPS) + 1):
        differs = np.flatnonzero(codes[period:] != codes[:-period])
        ends = np.concatenate([[-1], differs, [len(codes) - period]])
        longest = int(np.argmax(np.diff(ends)))
        start, end = int(ends[longest]) + 1, int(ends[longest + 1]) + period
        if end - start >= period * (FEWEST_STEPS + 1):
            return list(path[start:end])[::-1][::period][::-1]
    return []


def _kind(node: Node) -> Hashable:
    """What can be said of a node alone."""
    if isinstance(node, Einsum):
        return Einsum, node.shape, len(node.operands), tuple(sorted(map(str, node.ranges)))
    name = node.name if isinstance(node, Map | Apply) else ""
    more = node.params if isinstance(node, Apply) else node if isinstance(node, Variable) else ()
    return type(node), name, node.shape, len(node.operands), more


class _Chain:
    """An expression that is cut into steps."""

    def __init__(self, order: Sequence[Node], terms: Terms, cuts: Sequence[Node]) -> None:
        self.order, self.terms, self.cuts = order, terms, cuts
        number = {node: k for k, node in enumerate(cuts)}
        self.stage: dict[Node, int] = {}
        """How many cuts are below a node."""
        self.is_live = set(cuts)
        self.colours: dict[Hashable, int] = {}
        self.colour: dict[Node, int] = {}
        for node in order:
            operands = self.operands(node)
            stages = [number[o] + 1 if o in number else self.stage[o] for o in operands]
            stage = self.stage[node] = max(stages, default=0)
            if stage:
                self.is_live.add(node)
            seen = sorted([self._seen(operand, stage) for operand in operands])
            self.colour[node] = self._number((_kind(node), *seen))

    def operands(self, node: Node) -> Sequence[Node]:
        """The operands, or the terms of a sum with sums inside."""
        return self.terms.get(node, node.operands)

    def _number(self, key: Hashable) -> int:
        return self.colours.setdefault(key, len(self.colours))

    def _seen(self, operand: Node, stage: int) -> int:
        """How an operand looks from a step: of the step before nothing but results can be seen."""
        if operand not in self.is_live or self.stage[operand] == stage:
            return self.colour[operand]
        return self._number(("carry", _kind(operand)))

    def as_loop(self, roots: list[Node]) -> list[Node] | None:
        """The roots with the longest run of equal steps as a loop; None if there is none."""
        steps: list[Step | None] = [None] * len(self.cuts)
        results = [self.cuts[-1]]
        for stage in reversed(range(1, len(self.cuts))):
            step = steps[stage] = self._step(results, stage)
            # Where the path leaves one chain for another, the other one is followed from its own end.
            results = [self.cuts[stage - 1]] if step is None else step.carries
        first, end = _longest_run(steps)
        step = steps[first]
        if step is None or end - first < FEWEST_STEPS:
            return None
        if end - first < FEWEST_OF_NUMBERS and not any(row.node.rank for row in step.rows):
            return None
        return self._looped([step for step in steps[first:end] if step is not None], roots)

    def _step(self, results: Sequence[Node], stage: int) -> Step | None:
        """What is computed on a stage to get some results; None if more than the step before is needed."""
        rows: list[Row] = []
        keys: list[Hashable] = []
        numbers: dict[Node, int] = {}
        carries: dict[Node, int] = {}
        items: dict[Item, int] = {}
        if any(self.stage[result] != stage for result in results):
            return None
        stack: list[tuple[Node, bool]] = [(result, False) for result in reversed(results)]
        while stack:
            node, is_done = stack.pop()
            if node in numbers:
                continue
            operands = self.operands(node)
            order = sorted(range(len(operands)), key=lambda k: self._rank(node, operands, k, stage))
            if not isinstance(node, Einsum) and not _is_sum(node):
                order = sorted(order)
            if not is_done:
                stack.append((node, True))
                inside = [operands[k] for k in order]
                stack += [
                    (o, False) for o in reversed(inside) if o in self.is_live and self.stage[o] == stage
                ]
                continue
            found: list[tuple[str, int]] = []
            for k in order:
                operand = operands[k]
                if operand not in self.is_live:
                    item = _read(node, k) if isinstance(node, Einsum) else Item(operand)
                    found.append(("item", items.setdefault(item, len(items))))
                elif self.stage[operand] == stage:
                    found.append(("row", numbers[operand]))
                elif self.stage[operand] == stage - 1:
                    found.append(("carry", carries.setdefault(operand, len(carries))))
                else:
                    return None
            scale = -1
            if isinstance(node, Einsum):
                scale = items.setdefault(Item(None, (), node.scale), len(items))
            numbers[node] = len(rows)
            rows.append(Row(node, order, tuple(found), scale))
            keys.append((_row_key(node, order, found), tuple(found), scale))
        left = [numbers[result] for result in results]
        key = (tuple(keys), tuple(left), len(carries), len(items))
        return Step(key, rows, list(carries), list(items), left)

    def _rank(self, node: Node, operands: Sequence[Node], k: int, stage: int) -> tuple[object, ...]:
        operand = operands[k]
        own = offsets_of(node.axes[k]) if isinstance(node, Einsum) else ()
        inside = (
            tuple(offsets_of(axes) for axes in (*operand.axes, operand.output))
            if isinstance(operand, Einsum)
            else ()
        )
        return self._seen(operand, stage), own, inside

    def _looped(self, steps: Sequence[Step], roots: list[Node]) -> list[Node] | None:
        first = steps[0]
        if not all(_is_plain(node) for node in (*first.carries, *[row.node for row in first.rows])):
            return None
        if not _have_items_alike(steps):
            return None
        carry = [variable(f"carry {k} of a chain", n.shape, ["loop"]) for k, n in enumerate(first.carries)]
        stacks: dict[Node, Node] = {}
        body = Body(first, carry, items_inside(steps, stacks))
        covered = {
            row.node: (row_number, k)
            for k, step in enumerate(steps)
            for row_number, row in enumerate(step.rows)
        }
        used: set[Node] = {root for root in roots if root in covered}
        for node in self.order:
            if node not in covered:
                used.update([o for o in self.operands(node) if o in covered])
        wanted = sorted({covered[node][0] for node in used} - set(first.results))
        loop = Steps(len(steps), False, stacks, {})
        carries, ys = scanned(
            loop,
            carry,
            first.carries,
            [body.nodes[k] for k in first.results],
            [body.nodes[k] for k in wanted],
        )
        of_row = {**dict(zip(wanted, ys, strict=True)), **dict(zip(first.results, carries, strict=True))}
        new: dict[Node, Node] = {}
        for node in used:
            number, k = covered[node]
            new[node] = select(of_row[number], [k] + [slice(None)] * node.rank)
        for node in topological(roots, new):
            operands = tuple([new[operand] for operand in node.operands])
            new[node] = node if operands == node.operands else rebuild(node, operands)
        return [new[root] for root in roots]


def _read(node: Einsum, k: int) -> Item:
    """What a product reads of an operand."""
    labels = first_labels(node.axes[k])
    terms = [[(labels.index(label), stride) for label, stride in terms] for terms, _ in node.axes[k]]
    form = (node.sizes(labels), tuple(map(tuple, terms)))
    return Item(node.operands[k], offsets_of(node.axes[k]), axes=form)


def _is_sum(node: Node) -> bool:
    return not isinstance(node, Map | Apply | Einsum)


def _is_plain(node: Node) -> bool:
    """Whether a node may be in the body of a loop that nobody wrote."""
    is_foreign = isinstance(node, Apply) and node.name == FOREIGN
    return node.kind == "real" and not is_foreign and not any(isinstance(size, str) for size in node.shape)


def _have_items_alike(steps: Sequence[Step]) -> bool:
    """Whether items are no tensors of their own: layers with weights of their own are no loop."""
    entries = 0
    for number, item in enumerate(steps[0].items):
        nodes = {node for step in steps if (node := step.items[number].node) is not None}
        if item.node is not None and len(nodes) > 1:
            if not all(map(_is_plain, nodes)) or any(isinstance(node, Variable) for node in nodes):
                return False
            entries += math.prod(map(int, item.node.shape))
    return entries * len(steps) <= MOST_ENTRIES


def _row_key(node: Node, order: Sequence[int], found: Sequence[tuple[str, int]]) -> Hashable:
    if not isinstance(node, Einsum):
        return _kind(node)
    axes = [*[node.axes[k] for k in order], node.output]
    fixed = [offsets_of(node.axes[k]) for k, (kind, _) in zip(order, found, strict=True) if kind != "item"]
    return Einsum, node.shape, *structure(node, axes), tuple(fixed), offsets_of(node.output)


def _longest_run(steps: Sequence[Step | None]) -> tuple[int, int]:
    """The longest run of steps that are written alike, and leave as much as they take."""
    best = start = 0, 0
    for k, step in enumerate(steps):
        is_fit = step is not None and len(step.results) == len(step.carries)
        before = steps[k - 1] if k else None
        if not is_fit:
            start = k + 1, k + 1
        elif before is None or step is None or before.key != step.key or start[1] != k:
            start = k, k + 1
        else:
            start = start[0], k + 1
        best = max(best, start, key=lambda run: run[1] - run[0])
    return best
