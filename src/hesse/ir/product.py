"""Products before and after they are nodes: absorbing patterns, canonical form, cores.

`build` absorbs the *patterns* of its operands (units, repeats, shifts, broadcasts, views of a single
tensor) by unifying labels, and keeps products of several tensors (*cores*) as nodes of their own,
shared by everyone who needs them.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Collection
from typing import NamedTuple

from hesse.ir.axis import Axis, Size, combine, constant_axis, label_axis, number, plain_axes
from hesse.ir.canonical import canonical, operand_order
from hesse.ir.node import Add, Einsum, Node, Shape, intern, remembered
from hesse.ir.unify import EmptyBox, NotABox, Unifier


class Product(NamedTuple):
    """The fields of an einsum before it is a node."""

    operands: tuple[Node, ...]
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    ranges: tuple[Size, ...]
    scale: float


def zero(shape: Shape) -> Node:
    """The exact zero of a shape: a sum without terms."""
    return intern(Add, tuple(shape), ())


def is_zero(node: Node) -> bool:
    """Whether the node is the exact zero."""
    return isinstance(node, Add) and not node.operands


def build(product: Product, shape: Shape, expand: Collection[int] = ()) -> Node:
    """The node of a product; operands whose position is in `expand` are multiplied out, cores included."""
    try:
        product = _absorb(product, expand)
    except EmptyBox:
        return zero(shape)
    return make(product, shape)


def make(product: Product, shape: Shape) -> Node:
    """The node of a product whose operands need no absorbing."""
    operands, axes, output, ranges, scale = canonical(*product)
    if scale == 0:
        return zero(shape)
    if len(operands) == 1:
        (operand,) = operands
        if scale == 1 and _is_whole(operand, axes[0], output, ranges, shape):
            return operand
        if (
            isinstance(operand, Einsum)
            and len(operand.operands) > 1
            and _places_whole(operand, axes[0], output, ranges)
        ):
            return build(Product(operands, axes, output, ranges, scale), shape, expand=(0,))
    return intern(Einsum, shape, operands, axes=axes, output=output, ranges=ranges, scale=scale)


def rescaled(node: Einsum, scale: float) -> Node:
    """The product with another scale; canonical as it is."""
    if scale == node.scale:
        return node
    if scale == 0:
        return zero(node.shape)
    axes, output, ranges = node.axes, node.output, node.ranges
    if scale == 1 and len(node.operands) == 1:
        (operand,) = node.operands
        if _is_whole(operand, axes[0], output, ranges, node.shape):
            return operand
    return intern(Einsum, node.shape, node.operands, axes=axes, output=output, ranges=ranges, scale=scale)


def _is_whole(
    operand: Node, axes: tuple[Axis, ...], output: tuple[Axis, ...], ranges: tuple[Size, ...], shape: Shape
) -> bool:
    """Whether a view of one operand is the operand itself."""
    return operand.shape == shape == ranges and output == axes == plain_axes(len(output))


def _places_whole(
    operand: Node, axes: tuple[Axis, ...], output: tuple[Axis, ...], ranges: tuple[Size, ...]
) -> bool:
    """Whether every entry of the operand is put somewhere in the output, none summed."""
    labels = [axis.label for axis in axes if axis.is_label]
    placed = {label for axis in output for label in axis.labels()}
    if len(labels) != len(axes) or len(set(labels)) != len(labels) or not placed.issuperset(labels):
        return False
    return all(ranges[label] == size for label, size in zip(labels, operand.shape, strict=True))


def _absorb(product: Product, expand: Collection[int]) -> Product:
    """The product with the patterns of its operands unified into it."""
    if _has_no_patterns(product, expand):
        return _fused(product)
    unifier = Unifier()
    unifier.fresh(product.ranges)
    scale = product.scale
    todo = [
        (node, axes, k in expand)
        for k, (node, axes) in reversed(list(enumerate(zip(product.operands, product.axes, strict=True))))
    ]
    done: list[tuple[Node, tuple[Axis, ...]]] = []
    stuck: list[tuple[Node, tuple[Axis, ...], bool]] = []
    while todo:
        node, axes, full = todo.pop()
        inner = _pattern(node, full)
        if inner is None:
            done.append((node, axes))
        elif (trial := _unified(unifier, inner, axes)) is None:
            stuck.append((node, axes, full))
        else:
            unifier, first = trial
            scale *= inner.scale
            shift = functools.partial(operator.add, first)
            todo += [
                (operand, tuple(axis.rename(shift) for axis in inner_axes), False)
                for operand, inner_axes in zip(reversed(inner.operands), reversed(inner.axes), strict=True)
            ]
            todo, stuck = [*stuck, *todo], []  # a new equation may have made an old one solvable
    done += [(node, axes) for node, axes, _ in stuck]
    return _shifted(unifier, done, product.output, scale)


def _has_no_patterns(product: Product, expand: Collection[int]) -> bool:
    """Whether there is nothing to absorb, and every label is used and has more than one value."""
    if any([_pattern(node, k in expand) is not None for k, node in enumerate(product.operands)]):
        return False
    used = {label for row in (*product.axes, product.output) for terms, _ in row for label, _ in terms}
    return len(used) == len(product.ranges) and not any([size in (0, 1) for size in product.ranges])


def _unified(unifier: Unifier, inner: Product, axes: tuple[Axis, ...]) -> tuple[Unifier, int] | None:
    trial = unifier.copy()
    first = trial.fresh(inner.ranges)
    try:
        for inside, outside in zip(inner.output, axes, strict=True):
            trial.equate(inside.rename(lambda label: label + first), outside)
    except NotABox:
        return None
    return trial, first


def _shifted(
    unifier: Unifier, operands: list[tuple[Node, tuple[Axis, ...]]], output: tuple[Axis, ...], scale: float
) -> Product:
    """Read the solved axes off the unifier: every label starts at zero and has more than one value."""
    tables = [tuple(map(unifier.resolve, axes)) for _, axes in operands]
    output = tuple(map(unifier.resolve, output))
    used = {label for axes in [*tables, output] for axis in axes for label in axis.labels()}
    renamed: dict[int, Axis] = {}
    ranges: list[Size] = []
    for label, (first, end) in unifier.bounds.items():
        if label in unifier.solved:
            continue
        if isinstance(end, int):
            if label not in used:
                scale *= end - first
                continue
            if end == first + 1:
                renamed[label] = constant_axis(first)
                continue
        renamed[label] = Axis(((len(ranges), 1),), first) if first else label_axis(len(ranges))
        ranges.append(end if isinstance(end, str) else end - first)

    def rename(axis: Axis) -> Axis:
        if axis.is_label:
            return renamed[axis.label]
        return combine([(stride, renamed[label]) for label, stride in axis.terms], axis.offset)

    return _fused(
        Product(
            tuple(node for node, _ in operands),
            tuple(tuple(map(rename, axes)) for axes in tables),
            tuple(map(rename, output)),
            tuple(ranges),
            scale,
        )
    )


def _fused(product: Product) -> Product:
    """Digits that always occur together, `n*i + j` with `j < n`, become one label."""
    tensors = [*product.axes, product.output]
    if all(len(axis.terms) < 2 for axes in tensors for axis in axes):
        return product
    uses: list[dict[tuple[int, int], int]] = [{} for _ in product.ranges]
    for tensor, axes in enumerate(tensors):
        for position, axis in enumerate(axes):
            for label, stride in axis.terms:
                uses[label][tensor, position] = stride
    for high, low in itertools.permutations(range(len(product.ranges)), 2):
        span = product.ranges[low]
        if (
            isinstance(span, int)
            and uses[low]
            and uses[high] == {at: span * s for at, s in uses[low].items()}
        ):
            return _fused(_merge_labels(product, high, low))
    return product


def _merge_labels(product: Product, high: int, low: int) -> Product:
    def merge(axis: Axis) -> Axis:
        kept = tuple((label - (label > high), stride) for label, stride in axis.terms if label != high)
        return Axis(kept, axis.offset)

    ranges = list(product.ranges)
    ranges[low] = number(ranges[low]) * number(ranges[high])
    del ranges[high]
    return product._replace(
        axes=tuple(tuple(map(merge, axes)) for axes in product.axes),
        output=tuple(map(merge, product.output)),
        ranges=tuple(ranges),
    )


def _pattern(node: Node, full: bool) -> Product | None:
    """What of an operand is absorbed: all of a view, the pattern around the core of a product."""
    if not isinstance(node, Einsum):
        return None
    if len(node.operands) <= 1 or full:
        return Product(node.operands, node.axes, node.output, node.ranges, node.scale)
    if len(_components(node)) > 1:
        return _of_components(node)
    core, pattern = core_and_pattern(node)
    return None if core is node else pattern


@remembered
def _components(node: Einsum) -> list[list[int]]:
    """The operands in groups that share no label with each other; all scalar factors are one group.

    An outer product need not be formed to be multiplied with something else.
    """
    groups: list[tuple[set[int], list[int]]] = []
    for k, axes in enumerate(node.axes):
        labels = {label for axis in axes for label in axis.labels()}
        joined = [group for group in groups if group[0] & labels]
        groups = [group for group in groups if not group[0] & labels]
        groups.append(
            (labels.union(*(g[0] for g in joined)), sorted([k, *(i for g in joined for i in g[1])]))
        )
    placed = {label for axis in node.output for label in axis.labels()}
    tensors = [members for labels, members in groups if labels & placed]
    scalars = sorted(k for labels, members in groups if not labels & placed for k in members)
    return [*tensors, scalars] if scalars else tensors


def _component_cores(node: Einsum) -> list[tuple[Node, list[int]]]:
    """Each component as a tensor, with the labels of its axes in the node."""
    placed = {label for axis in node.output for label in axis.labels()}
    cores = []
    for members in _components(node):
        axes = [node.axes[k] for k in members]
        inside = list(dict.fromkeys(label for row in axes for axis in row for label in axis.labels()))
        kept = [label for label in inside if label in placed]
        numbers = {label: k for k, label in enumerate(inside)}
        part = Product(
            tuple(node.operands[k] for k in members),
            tuple(tuple(axis.rename(numbers.__getitem__) for axis in row) for row in axes),
            tuple(label_axis(numbers[label]) for label in kept),
            tuple(node.ranges[label] for label in inside),
            1.0,
        )
        whole = make(part, tuple(node.ranges[label] for label in kept))
        if isinstance(whole, Einsum) and len(whole.operands) > 1:  # transposes of a core share it
            core, pattern = core_and_pattern(whole)
            if core is not whole and pattern.scale == 1 and len(pattern.output) == len(pattern.axes[0]):
                order = [axis.label for axis in pattern.output]
                kept = [kept[order.index(k)] for k in range(len(kept))]
                whole = core
        cores.append((whole, kept))
    return cores


@remembered
def _of_components(node: Einsum) -> Product:
    """The node as a product of its components."""
    cores = _component_cores(node)
    kept = {label for _, labels in cores for label in labels}
    summed = {label for axes in node.axes for axis in axes for label in axis.labels()} - kept
    whole = Product(
        tuple(core for core, _ in cores),
        tuple(tuple(map(label_axis, labels)) for _, labels in cores),
        node.output,
        node.ranges,
        node.scale,
    )
    return _without(whole, sorted(summed))


@remembered
def core_and_pattern(node: Einsum) -> tuple[Node, Product]:
    """A product as (its core, the view of the core that it is).

    The core has distinct plain labels in an order that depends on the operands only, so all
    transposes, diagonals and placements of one product share it.
    """
    inside = {label for axes in node.axes for axis in axes for label in axis.labels()}
    placed = {label for axis in node.output for label in axis.labels()}
    order = operand_order(node.operands, node.axes, node.ranges, {label: "kept" for label in placed})
    kept = list(
        dict.fromkeys(
            label for k in order for axis in node.axes[k] for label in axis.labels() if label in placed
        )
    )
    plain = Product(node.operands, node.axes, tuple(map(label_axis, kept)), node.ranges, 1.0)
    unused = [label for label in range(len(node.ranges)) if label not in inside]
    outer = kept + unused
    core_ranges = tuple(node.ranges[label] for label in kept)
    core, factor = _without_scale(make(_without(plain, unused), core_ranges))
    numbers = {label: k for k, label in enumerate(outer)}
    pattern = Product(
        (core,),
        (plain_axes(len(kept)),),
        tuple(axis.rename(numbers.__getitem__) for axis in node.output),
        tuple(node.ranges[label] for label in outer),
        node.scale * factor,
    )
    return core, pattern


def _without_scale(core: Node) -> tuple[Node, float]:
    """A core as one of scale one, and its scale: reading an antisymmetric operand the other way brings -1."""
    return (rescaled(core, 1.0), core.scale) if isinstance(core, Einsum) else (core, 1.0)


def _without(product: Product, unused: list[int]) -> Product:
    """The product with labels that nothing uses taken out."""
    if not unused:
        return product
    numbers = {label: k for k, label in enumerate(k for k in range(len(product.ranges)) if k not in unused)}
    return product._replace(
        axes=tuple(tuple(axis.rename(numbers.__getitem__) for axis in axes) for axes in product.axes),
        output=tuple(axis.rename(numbers.__getitem__) for axis in product.output),
        ranges=tuple(size for label, size in enumerate(product.ranges) if label in numbers),
    )


def disjoint_outputs(one: Node, two: Node) -> bool:
    """Whether two products are certain to touch no common entry of the result."""
    if not isinstance(one, Einsum) or not isinstance(two, Einsum):
        return False
    unifier = Unifier()
    first, second = unifier.fresh(one.ranges), unifier.fresh(two.ranges)
    try:
        for left, right in zip(one.output, two.output, strict=True):
            unifier.equate(left.rename(lambda k: k + first), right.rename(lambda k: k + second))
    except EmptyBox:
        return True
    except NotABox:
        return False
    return False
