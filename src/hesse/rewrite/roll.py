"""Loops rolled up: terms of a long sum that differ only in the entries they read become one term.

`f(x[0]) + f(x[1]) + … + f(x[n-1])` is the sum of `f(x)`, and the same terms side by side, as `np.stack` puts
them, are `f(x)`. What a program of thousands of lines would compute number by number is a few lines over
arrays then, and so are its derivatives.

Terms are alike if they are equal up to the offsets of axes. Where the offsets of such terms are arithmetic
progressions, all with one number k, the axes get one more label k: they stay affine. What somebody else uses
is not taken apart; it must be the same in all terms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hesse.cost import concrete
from hesse.ir import (
    Add,
    Axis,
    Einsum,
    Map,
    Node,
    Product,
    add,
    broadcast,
    einsum_of,
    label_axis,
    map_,
    substitute,
    topological,
    total,
)

LONG_SUM = 24
"""Sums of no more terms are left as they are written."""
FEWEST_TERMS = 16
"""So many terms that are alike become one."""
MOST_NODES = 32
"""Terms of more nodes of their own are not compared."""
MOST_OFFSETS = 256
"""Nor are parts of terms that are read at more places than this."""
MOST_ENTRIES = 1_000_000
"""Terms are not joined where a tensor would have more entries than this."""

Offsets = tuple[int, ...]


def is_long(node: Node) -> bool:
    """Whether a node is a sum that is searched for terms that are alike."""
    return isinstance(node, Add) and len(node.operands) > LONG_SUM


def rolled(roots: Sequence[Node]) -> list[Node]:
    """The roots with terms of long sums that are alike joined."""
    order = topological(roots)
    uses: dict[Node, int] = {}
    for node in itertools.chain(roots, *[node.operands for node in order]):
        uses[node] = uses.get(node, 0) + 1
    sums = {node: _rolled_sum(node, uses) for node in order if is_long(node)}
    changed = {node: new for node, new in sums.items() if new is not node}
    return substitute(roots, changed) if changed else list(roots)


def _rolled_sum(node: Node, uses: Mapping[Node, int]) -> Node:
    forms: dict[Hashable, int] = {}
    alike: dict[int, list[_Reading]] = {}
    for term in node.operands:
        reading = _reading(term, _own(term, uses), forms)
        alike.setdefault(reading.form, []).append(reading)
    if len(alike) == len(node.operands):
        return node
    return add([term for group in alike.values() for term in _joined(group)], node.shape)


def _own(term: Node, uses: Mapping[Node, int]) -> list[Node]:
    """The nodes that only this term uses, users before operands, and parts that it reads of others.

    None if they are many.
    """
    own: list[Node] = []
    read: dict[Node, None] = {}
    seen: dict[Node, int] = {term: 1}
    todo = [term] if uses[term] == 1 and isinstance(term, Einsum | Map | Add) else []
    while todo:
        node = todo.pop()
        own.append(node)
        if len(own) > MOST_NODES:
            return []
        for operand in node.operands:
            seen[operand] = seen.get(operand, 0) + 1
            if seen[operand] == uses[operand]:
                if isinstance(operand, Einsum | Map | Add):
                    todo.append(operand)
            elif isinstance(operand, Einsum) and len(operand.operands) == 1 and not operand.summed:
                read[operand] = None  # reading it again takes no time
    return [*own, *[node for node in read if node not in own]]


class _Reading(NamedTuple):
    """A node as a form, which terms may share, and the offsets that fill it.

    `offsets` are those of its own axes, then those of its `parts`: its operands, in an `order` that does not
    depend on where they are read. `entries` are those of the largest tensor in it.
    """

    node: Node
    form: int
    offsets: Offsets = ()
    order: Sequence[int] = ()
    parts: Sequence[_Reading] = ()
    entries: int = 0


def _reading(term: Node, own: Sequence[Node], forms: dict[Hashable, int]) -> _Reading:
    """A term, of which some nodes may be read elsewhere in other terms; forms are numbered as they come."""
    known: dict[Node, _Reading] = {}

    def known_or_whole(node: Node) -> _Reading:
        return known.get(node) or _Reading(node, forms.setdefault(node, len(forms)))

    for node in reversed(own):
        parts = [known_or_whole(operand) for operand in node.operands]
        order: Sequence[int] = range(len(parts))
        if not isinstance(node, Map):
            order = sorted(order, key=[(part.form, part.offsets) for part in parts].__getitem__)
            parts = [parts[k] for k in order]
        form, offsets = _without_offsets(node, order)
        offsets += tuple(itertools.chain.from_iterable([part.offsets for part in parts]))
        if len(offsets) > MOST_OFFSETS:
            continue
        form = (type(node).__name__, node.shape, form, *[part.form for part in parts])
        entries = max([math.prod(map(concrete, node.shape)), *[part.entries for part in parts]])
        known[node] = _Reading(node, forms.setdefault(form, len(forms)), offsets, order, parts, entries)
    return known_or_whole(term)


def _without_offsets(node: Node, order: Sequence[int]) -> tuple[Hashable, Offsets]:
    """What a node is beside its operands and the offsets of its axes, and these."""
    if not isinstance(node, Einsum):
        return (node.name if isinstance(node, Map) else None), ()
    rows = [*[node.axes[k] for k in order], node.output]
    number: dict[int, int] = {}  # labels as they come in this order
    strides = [
        tuple([(number.setdefault(label, len(number)), stride) for label, stride in terms])
        for row in rows
        for terms, _ in row
    ]
    for label in range(len(node.ranges)):
        number.setdefault(label, len(number))
    offsets = tuple([offset for row in rows for _, offset in row])
    return (tuple(strides), node.sizes(number), node.scale), offsets


def _joined(group: Sequence[_Reading]) -> Iterator[Node]:
    """The terms of one form, with those joined whose offsets are arithmetic progressions."""
    group = sorted(group, key=lambda reading: reading.offsets)
    most = MOST_ENTRIES // max(group[0].entries, 1) if group[0].parts else 1
    start = 0
    while start < len(group):
        end, steps = _run(group, start, most)
        if end - start >= FEWEST_TERMS:
            yield _sum_of(group[start], steps, end - start)
        else:  # the last term may begin another progression
            end = max(end - 1, start + 1)
            yield from [reading.node for reading in group[start:end]]
        start = end


def _run(group: Sequence[_Reading], start: int, most: int) -> tuple[int, Offsets]:
    """Where the progression of at most so many terms ends that begins with two terms, and its steps."""
    steps: Offsets = ()
    last = min(len(group), start + most)
    for end in range(start + 1, last):
        pairs = zip(group[end].offsets, group[end - 1].offsets, strict=True)
        difference = tuple([one - other for one, other in pairs])
        if end > start + 1 and difference != steps:
            return end, steps
        steps = difference
    return last, steps


def _sum_of(first: _Reading, steps: Offsets, count: int) -> Node:
    """The sum of so many terms, the first of which is given."""
    if isinstance(first.node, Einsum):
        return einsum_of(_product(first, steps, count), first.node.shape)
    return total(_side_by_side(first, steps, count), [0])


def _side_by_side(first: _Reading, steps: Offsets, count: int) -> Node:
    """A node of each of the terms, along a new first axis; the node itself if it is the same in all."""
    node, shape = first.node, (count, *first.node.shape)
    if not any(steps):
        return node
    if isinstance(node, Einsum):
        product = _product(first, steps, count)
        return einsum_of(product._replace(output=(label_axis(len(node.ranges)), *product.output)), shape)
    parts = [
        broadcast(part, shape, range(1, len(shape))) if part.rank < len(shape) else part
        for part in _parts(first, iter(steps), count)
    ]
    return map_(node.name, *parts) if isinstance(node, Map) else add(parts, shape)


def _parts(first: _Reading, steps: Iterator[int], count: int) -> Iterator[Node]:
    for part in first.parts:
        yield _side_by_side(part, tuple(itertools.islice(steps, len(part.offsets))), count)


def _product(first: _Reading, steps: Offsets, count: int) -> Product:
    """A product whose axes have one more label, the number of the term."""
    node = first.node
    assert isinstance(node, Einsum)
    label, step = len(node.ranges), iter(steps)

    def moved(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple([Axis((*terms, (label, s)) if (s := next(step)) else terms, at) for terms, at in axes])

    rows = [moved(node.axes[k]) for k in first.order]
    output = moved(node.output)
    parts = tuple(_parts(first, step, count))
    for k, (part, row) in enumerate(zip(parts, rows, strict=True)):
        if part.rank > len(row):
            rows[k] = (label_axis(label), *row)
    return Product(parts, tuple(rows), output, (*node.ranges, count), node.scale)
