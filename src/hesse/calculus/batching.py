"""Expressions for many values of their variables at once: each node gets one more axis, the first.

What the steps of a loop compute apart from each other is computed for all of them so: sums, products and
element-wise functions take another label, and most records have room for axes before or behind their own.
For what has no such form a loop is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from hesse.errors import TracingError
from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Map,
    Node,
    add,
    broadcast,
    dependents,
    einsum,
    label_axis,
    map_,
    rebuild,
    reshape,
    size_product,
    topological,
    transpose,
)
from hesse.ops.registry import Foreign, General, Linear, operation, record_of
from hesse.ops.structural import shared_maximum

Looped = Callable[[Node, Mapping[Node, Node], Mapping[Node, Node]], Node]
"""Makes the stack of a node from stacks of some nodes below it and from the others, by a loop."""


def batched(
    roots: Sequence[Node],
    stacks: Mapping[Node, Node],
    fixed: Mapping[Node, Node],
    count: int,
    looped: Looped,
) -> list[Node]:
    """The roots for `count` values at once: `[count, root…]`.

    `stacks` says for some nodes what their values are, one after the other, `fixed` what others are always.
    """
    order = topological(roots, {**stacks, **fixed})
    live = dependents(order, stacks)
    values = {**fixed, **stacks}
    stuck: set[Node] = set()
    for node in order:
        if node not in live:
            operands = tuple(values[operand] for operand in node.operands)
            values[node] = node if operands == node.operands else rebuild(node, operands)
            continue
        found = None
        if not any(operand in stuck for operand in node.operands):
            operands = tuple(values[operand] for operand in node.operands)
            found = stacked(node, operands, [operand in live for operand in node.operands], count)
        if found is None and node.kind == "integer":
            stuck.add(node)  # a loop gives real numbers: it will have to contain this
            continue
        values[node] = looped(node, *_below(node, values, live)) if found is None else found
    missing = [root for root in roots if root not in values]
    if missing:
        raise TracingError(
            "a step of scan returns integers that depend on the step; return real numbers, or compute the "
            "integers outside of the loop"
        )
    return [values[root] if root in live else _repeated(values[root], count, root.rank) for root in roots]


def _below(
    node: Node, values: Mapping[Node, Node], live: Collection[Node]
) -> tuple[dict[Node, Node], dict[Node, Node]]:
    """The nodes next below one whose values are known: those with stacks, and the others."""
    order = topological([node], {known: None for known in values if known is not node})
    known = dict.fromkeys(o for inner in order for o in inner.operands if o in values)
    return {n: values[n] for n in known if n in live}, {n: values[n] for n in known if n not in live}


def _repeated(value: Node, count: int, rank: int) -> Node:
    return broadcast(value, (count, *value.shape), range(1, rank + 1))


def has_stack(node: Node, is_stacked: Sequence[bool]) -> bool:
    """Whether there is a form for many values of some operands at once."""
    if not isinstance(node, Apply):
        return True
    record = record_of(node)
    if _has_batch(record) or node.name == "max" or (node.name == "gather" and not is_stacked[0]):
        return True
    is_first = isinstance(record, Linear) or (isinstance(record, General) and record.acts_on_first)
    return is_first and list(is_stacked) == [True] + [False] * (len(is_stacked) - 1)


def _has_batch(record: General | Linear | Foreign) -> bool:
    """Whether axes before those of an operand are a batch."""
    return isinstance(record, General) and record.last_axes > 0


def stacked(node: Node, operands: tuple[Node, ...], is_stacked: Sequence[bool], count: int) -> Node | None:
    """The stack of a node whose operands are stacks, some of them; None where there is no such form."""
    if not has_stack(node, is_stacked):
        return None
    if isinstance(node, Einsum):
        first = label_axis(len(node.ranges))
        axes = [(first, *own) if s else own for own, s in zip(node.axes, is_stacked, strict=True)]
        return einsum(
            operands,
            axes,
            (first, *node.output),
            (count, *node.shape),
            (*node.ranges, count),
            node.scale,
        )
    whole = [
        operand if s else _repeated(operand, count, operand.rank)
        for operand, s in zip(operands, is_stacked, strict=True)
    ]
    if isinstance(node, Add):
        return add(whole, (count, *node.shape))
    if isinstance(node, Map):
        return map_(node.name, *whole)
    assert isinstance(node, Apply)
    if _has_batch(record_of(node)):
        return operation(node.name, *whole, params=node.params)
    if node.name == "gather" and not is_stacked[0]:
        return operation("gather", *operands)
    if node.name == "max":  # of all entries
        return shared_maximum(reshape(operands[0], (count, size_product(node.operands[0].shape))))
    moved = transpose(operands[0], [*range(1, operands[0].rank), 0])
    found = operation(node.name, moved, *operands[1:], params=node.params)
    return transpose(found, [found.rank - 1, *range(found.rank - 1)])
