"""Walking and rebuilding expression DAGs, each node once and never recursively."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import assert_never, cast

from hesse.ir.axis import Size, bound_size
from hesse.ir.build import apply_, map_, reshape, variable
from hesse.ir.einsum import einsum_of
from hesse.ir.node import Add, Apply, Constant, Einsum, Map, Node, Shape, Variable
from hesse.ir.product import core
from hesse.ir.sum import add


def topological(roots: Iterable[Node], above: Collection[Node] = ()) -> list[Node]:
    """All nodes below the roots, operands before their users, but those `above` which it is to stay."""
    order: list[Node] = []
    seen: set[Node] = set()
    ends = above if isinstance(above, Mapping | Set) else frozenset(above)  # large ones are not copied
    path: list[Node] = []
    stack: list[Node | None] = [*reversed([*roots])]
    while stack:
        node = stack.pop()
        if node is None:  # all operands of the last node on the path are done
            order.append(path.pop())
        elif node not in seen and node not in ends:
            seen.add(node)
            if node.operands:
                path.append(node)
                stack.append(None)
                stack += reversed(node.operands)
            else:
                order.append(node)
    return order


def use_counts(order: Iterable[Node], roots: Iterable[Node]) -> dict[Node, int]:
    """How many nodes (and roots) use each node; an operand used twice by one node counts twice.

    A product with a pattern uses its core.
    """
    counts: dict[Node, int] = {}
    for node in order:
        for operand in node.operands:
            counts[operand] = counts.get(operand, 0) + 1
        if isinstance(node, Einsum) and (inside := core(node)) is not node:
            counts[inside] = counts.get(inside, 0) + 1
    for root in roots:
        counts[root] = counts.get(root, 0) + 1
    return counts


def dependents(order: Iterable[Node], variables: Iterable[Node]) -> set[Node]:
    """The nodes of a topological order that depend on one of the variables (themselves included)."""
    found = set(variables)
    for node in order:
        if any(operand in found for operand in node.operands):
            found.add(node)
    return found


def rebuild(node: Node, operands: tuple[Node, ...], size: Callable[[Size], Size] = lambda size: size) -> Node:
    """The node with other operands (and sizes), through its constructor."""
    shape: Shape = tuple(map(size, node.shape))
    node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
    match node:
        case Variable():
            return variable(node.name, shape, node.attributes, node.kind)
        case Constant():
            return node
        case Einsum():
            ranges = tuple(map(size, node.ranges))
            return einsum_of(node.product._replace(operands=operands, ranges=ranges), shape)
        case Add():
            return add(operands, shape)
        case Map():
            return map_(node.name, *operands)
        case Apply(name="reshape"):  # an einsum as soon as its sizes are numbers
            return reshape(operands[0], shape)
        case Apply():
            return apply_(node.name, operands, shape, node.params, node.kind)
    assert_never(node)


def substitute(roots: Iterable[Node], replacement: Mapping[Node, Node]) -> list[Node]:
    """The roots with nodes replaced, everything above them rebuilt."""
    roots = list(roots)
    new: dict[Node, Node] = {}
    for node in topological(roots):
        operands = tuple(new[operand] for operand in node.operands)
        if node in replacement:
            new[node] = replacement[node]
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]


def bind_sizes(roots: Iterable[Node], sizes: Mapping[str, int]) -> list[Node]:
    """The roots with symbolic sizes replaced by numbers."""
    roots = list(roots)
    new: dict[Node, Node] = {}

    def size(old: Size) -> Size:
        return bound_size(old, sizes)

    for node in topological(roots):
        new[node] = rebuild(node, tuple(new[operand] for operand in node.operands), size)
    return [new[root] for root in roots]
