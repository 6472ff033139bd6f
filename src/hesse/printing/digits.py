"""Merged axes taken apart for reading: vec, kron and reshape disappear from products they are contracted in.

An axis of a Kronecker product, a vec or a reshape has *digits*, the axes it was merged from:
`kron(A,B)[p,q]` is `A[a,c]*B[b,d]` with the digits (a,b) of p and (c,d) of q. A product over p and q is one
over all digits, in which a vector of that size is read as a matrix: the gradient of `y'*kron(A,B)*x` by A is
`reshape(y, m, k)*B*reshape(x, n, p)'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hesse.ir import (
    Add,
    Apply,
    Axis,
    Einsum,
    Map,
    Node,
    Shape,
    Size,
    add,
    einsum,
    label_axis,
    map_,
    plain_axes,
    reshape,
    select,
    size_product,
    topological,
    transpose,
    uniform,
    uniform_value,
)

Group = tuple[Size, ...]
"""The sizes of the digits of one axis; none for an axis of size one."""
MERGING = ("vec", "kron", "reshape")


class Digits(NamedTuple):
    """A tensor whose axes are the digits of those of another tensor, in order."""

    node: Node
    groups: tuple[Group, ...]


def taken_apart(root: Node) -> Node | None:
    """The node without merged axes in its products; None if there are none.

    A tensor whose own axes are merged is one reshape; matrices of this kind have other forms, and get None.
    """
    node, groups = divided(root)
    if groups != _undivided(root).groups or node.shape != root.shape:
        node = reshape(node, root.shape) if root.rank > 2 else root
    return None if node is root else node


def is_reshape(node: Node) -> bool:
    """Whether a node is nothing but another one with other axes."""
    return isinstance(node, Apply) and node.name == "reshape"


def divided(root: Node) -> Digits:
    """The digits of a node whose axes may be merged from others."""
    order = topological([root])
    if not any(isinstance(node, Apply) and node.name in MERGING for node in order):
        return _undivided(root)
    found: dict[Node, Digits] = {}
    readable: set[Node] = set()
    for node in order:
        whole, digits = _undivided(node), _digits(node, found)
        of_tensor = isinstance(node, Apply) and node.name == "vec" and node.rank > 1
        if readable.issuperset(node.operands) and not is_reshape(node) and not of_tensor:
            readable.add(node)
        # A*vec(X) is best left alone, unless its own axis is divided
        keep = digits is None or (node in readable and digits.groups == whole.groups)
        found[node] = whole if keep or digits is None else digits
    return found[root]


def _undivided(node: Node) -> Digits:
    groups: tuple[Group, ...] = tuple(() if size == 1 else (size,) for size in node.shape)
    kept = [0 if size == 1 else slice(None) for size in node.shape]
    return Digits(select(node, kept) if 1 in node.shape else node, groups)


def _digits(node: Node, found: Mapping[Node, Digits]) -> Digits | None:
    match node:
        case Apply(name="vec"):
            return _vec(found[node.operands[0]])
        case Apply(name="kron"):
            return _kron(found[node.operands[0]], found[node.operands[1]])
        case Apply(name="reshape"):
            return _reshaped(node, found)
        case Einsum():
            return _product(node, found, ())
        case Add() | Map():
            return _entry_by_entry(node, found, ())
    return None


def _vec(inner: Digits) -> Digits:
    rows, columns, *others = inner.groups
    first, second = len(rows), len(rows) + len(columns)
    order = [*range(first, second), *range(first), *range(second, inner.node.rank)]
    return Digits(transpose(inner.node, order), (columns + rows, *others))


def _kron(left: Digits, right: Digits) -> Digits:
    """kron(A,B)[(a,b),(c,d)] = A[a,c]*B[b,d]."""
    axes = plain_axes(left.node.rank), plain_axes(right.node.rank, left.node.rank)
    ranges = left.node.shape + right.node.shape
    places = [iter(axes[0]), iter(axes[1])]
    output = [
        next(place)
        for pair in zip(left.groups, right.groups, strict=True)
        for place, group in zip(places, pair, strict=True)
        for _ in group
    ]
    shape = [ranges[axis.label] for axis in output]
    groups = tuple(first + second for first, second in zip(left.groups, right.groups, strict=True))
    return Digits(einsum([left.node, right.node], axes, output, shape, ranges), groups)


def _reshaped(node: Apply, found: Mapping[Node, Digits]) -> Digits | None:
    """The digits of the operand in other groups; where one has to be divided, those of its operands."""
    operand = node.operands[0]
    inner: Digits | None = found[operand]
    groups = None if inner is None else regrouped(inner.node.shape, node.shape)
    if groups is None:
        wanted = regrouped([size for size in node.shape if size != 1], operand.shape)
        if wanted is None:
            return None
        match operand:
            case Einsum():
                inner = _product(operand, found, wanted)
            case Add() | Map():
                inner = _entry_by_entry(operand, found, wanted)
            case _:
                return None
        groups = None if inner is None else regrouped(inner.node.shape, node.shape)
    return None if inner is None or groups is None else Digits(inner.node, groups)


def regrouped(sizes: Sequence[Size], shape: Sequence[Size]) -> tuple[Group, ...] | None:
    """Digits in groups whose products are the sizes of a shape; None if a digit would have to be divided."""
    rest = list(sizes)
    groups: list[Group] = []
    for size in shape:
        group: Group = ()
        while size_product(group) != size and rest:
            group += (rest.pop(0),)
        if size_product(group) != size:
            return None
        groups.append(group)
    return None if rest else tuple(groups)


def _refined(node: Node, found: Mapping[Node, Digits], groups: tuple[Group, ...]) -> Node:
    """A tensor with given digits."""
    own = found[node]
    sizes = [size for group in groups for size in group]
    value = uniform_value(node)
    return (
        own.node
        if own.groups == groups
        else reshape(own.node, sizes)
        if value is None
        else uniform(value, sizes)
    )


def _finest(groups: Sequence[Group]) -> Group | None:
    """The digits of an axis that several tensors have; None if two of them have different ones."""
    several = {group for group in groups if len(group) > 1}
    return groups[0] if not several else several.pop() if len(several) == 1 else None


def _entry_by_entry(
    node: Add | Map, found: Mapping[Node, Digits], wanted: tuple[Group, ...]
) -> Digits | None:
    """A sum or a function of each entry; `wanted` are digits that its axes shall have, if there are any."""
    if not node.operands:
        return None
    offers = [found[part].groups for part in node.operands] + ([wanted] if wanted else [])
    groups = [_finest(several) for several in zip(*offers, strict=True)]
    known = tuple(group for group in groups if group is not None)
    if len(known) < len(groups):
        return None
    operands = [_refined(part, found, known) for part in node.operands]
    shape = [size for group in known for size in group]
    return Digits(add(operands, tuple(shape)) if isinstance(node, Add) else map_(node.name, *operands), known)


def _are_whole(axes: Sequence[Axis], shape: Shape, ranges: Sequence[Size]) -> bool:
    """Whether each axis is one label that runs over all of it, or the only entry of an axis of size one."""
    return all(
        ranges[axis.label] == size if axis.is_label else size == 1
        for axis, size in zip(axes, shape, strict=True)
    )


def _product(node: Einsum, found: Mapping[Node, Digits], wanted: tuple[Group, ...]) -> Digits | None:
    """A product over the digits of its labels; `wanted` are digits that its axes shall have, if any."""
    offers: dict[int, list[Group]] = {}
    for part, axes in zip(node.operands, node.axes, strict=True):
        for axis, group in zip(axes, found[part].groups, strict=True):
            if axis.is_label:
                offers.setdefault(axis.label, []).append(group)
    for axis, group in zip(node.output, wanted, strict=False):
        if axis.is_label:
            offers.setdefault(axis.label, []).append(group)
    groups = {label: _finest(offers.get(label, [(size,)])) for label, size in enumerate(node.ranges)}
    rows = [*node.axes, node.output]
    shapes = [*(part.shape for part in node.operands), node.shape]
    if None in groups.values() or not all(map(_are_whole, rows, shapes, [node.ranges] * len(rows))):
        return None
    known = {label: group for label, group in groups.items() if group is not None}
    ranges: list[Size] = []
    labels: dict[int, list[int]] = {}
    for label, group in known.items():
        labels[label] = list(range(len(ranges), len(ranges) + len(group)))
        ranges += group
    groups_of = [tuple(known[axis.label] if axis.is_label else () for axis in row) for row in rows]
    places = [[label_axis(k) for axis in row if axis.is_label for k in labels[axis.label]] for row in rows]
    operands = [_refined(part, found, own) for part, own in zip(node.operands, groups_of, strict=False)]
    shape = [size for group in groups_of[-1] for size in group]
    return Digits(einsum(operands, places[:-1], places[-1], shape, ranges, node.scale), groups_of[-1])
