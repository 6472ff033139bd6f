"""Products before and after they are nodes: absorbing patterns, canonical form, cores.

`build` absorbs the *patterns* of its operands (units, repeats, shifts, broadcasts, views of a single
tensor) by unifying labels, and keeps products of several tensors (*cores*) as nodes of their own,
shared by everyone who needs them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence

from hesse.ir.axis import (
    PATTERNS,
    Axis,
    Size,
    connected,
    constant_axis,
    first_labels,
    label_axis,
    labels_of,
    number,
    plain_axes,
    shifted,
)
from hesse.ir.canonical import canonical, operand_order
from hesse.ir.labelled import Product
from hesse.ir.node import Add, Einsum, Node, Shape, intern, remembered
from hesse.ir.unify import EmptyBox, Unifier


def zero(shape: Shape) -> Node:
    """The exact zero of a shape: a sum without terms."""
    return intern(Add, tuple(shape), ())


def is_zero(node: Node) -> bool:
    """Whether the node is the exact zero."""
    return isinstance(node, Add) and not node.operands


def build(product: Product, shape: Shape, expand: Collection[int] = ()) -> Node:
    """The node of a product; operands whose position is in `expand` are multiplied out, cores included."""
    try:
        product = absorb(product, expand)
    except EmptyBox:
        return zero(shape)
    return make(product, shape)


def make(product: Product, shape: Shape) -> Node:
    """The node of a product whose operands need no absorbing."""
    product = canonical(product)
    if product.scale == 0:
        return zero(shape)
    if _is_whole(product, shape):
        return product.operands[0]
    if _places_whole(product):
        return build(product, shape, expand=(0,))
    return _interned(product, shape)


def _interned(product: Product, shape: Shape) -> Einsum:
    operands, axes, output, ranges, scale = product
    return intern(Einsum, shape, operands, axes=axes, output=output, ranges=ranges, scale=scale)


def rescaled(node: Einsum, scale: float) -> Node:
    """The product with another scale; canonical as it is."""
    if scale == node.scale:
        return node
    if scale == 0:
        return zero(node.shape)
    product = node.product._replace(scale=scale)
    return node.operands[0] if _is_whole(product, node.shape) else _interned(product, node.shape)


def _is_whole(product: Product, shape: Shape) -> bool:
    """Whether a product is its only operand."""
    if len(product.operands) != 1 or product.scale != 1:
        return False
    (operand,), (axes,), output = product.operands, product.axes, product.output
    if operand.shape != shape or output != axes:
        return False
    if 1 not in shape:
        return product.ranges == shape and output == plain_axes(len(output))
    long = [k for k, size in enumerate(shape) if size != 1]  # axes of size one have no label
    if product.ranges != tuple(shape[k] for k in long):
        return False
    labels = dict(zip(long, plain_axes(len(long)), strict=True))
    return output == tuple(labels.get(k, constant_axis(0)) for k in range(len(shape)))


def _places_whole(product: Product) -> bool:
    """Whether every entry of a product of several tensors is put somewhere in the output, none summed."""
    if len(product.operands) != 1:
        return False
    (operand,), (axes,) = product.operands, product.axes
    if not isinstance(operand, Einsum) or len(operand.operands) < 2:
        return False
    labels = [axis.label for axis in axes if axis.is_label]
    is_plain = len(labels) == len(axes) == len(set(labels))
    return is_plain and product.placed.issuperset(labels) and product.sizes(labels) == operand.shape


def absorb(product: Product, expand: Collection[int]) -> Product:
    """The product with the patterns of its operands unified into it."""
    patterns = [pattern_of(node, k in expand) for k, node in enumerate(product.operands)]
    if any(patterns):
        product = _substituted(product, patterns) or _unified(product, expand)
    return product if _is_tidy(product.axes, product.output, product.ranges) else _fused(_trimmed(product))


@functools.lru_cache(PATTERNS)
def _is_tidy(axes: tuple[tuple[Axis, ...], ...], output: tuple[Axis, ...], ranges: tuple[Size, ...]) -> bool:
    """Whether there is nothing to trim or to fuse, as in most products."""
    every = [axis for row in (output, *axes) for axis in row]
    are_long = 1 not in ranges and 0 not in ranges
    return are_long and len(labels_of(every)) == len(ranges) and all([len(terms) < 2 for terms, _ in every])


def _substituted(product: Product, patterns: Sequence[Product | None]) -> Product | None:
    """The patterns absorbed by replacing labels, if each covers its operand with labels of its own.

    There is nothing to solve then: each of these labels is the axis through which the product reads it.
    """
    ranges, scale = list(product.ranges), product.scale
    todo = [*zip(product.operands, product.axes, patterns, strict=True)][::-1]
    operands: list[Node] = []
    tables: list[tuple[Axis, ...]] = []
    while todo:
        node, axes, inner = todo.pop()
        if inner is None:
            operands.append(node)
            tables.append(axes)
            continue
        values = _values(inner, node.shape, axes)
        if values is None:
            return None
        for label, size in enumerate(inner.ranges):
            if label not in values:
                values[label] = label_axis(len(ranges))
                ranges.append(size)
        scale *= inner.scale
        for operand, row in zip(reversed(inner.operands), reversed(inner.axes), strict=True):
            todo.append((operand, tuple([axis.at(values) for axis in row]), pattern_of(operand)))
    return Product(tuple(operands), tuple(tables), product.output, tuple(ranges), scale)


def _values(inner: Product, shape: Shape, axes: tuple[Axis, ...]) -> dict[int, Axis] | None:
    """What the labels of an output are when it is read through axes; None if they do not cover it so."""
    values: dict[int, Axis] = {}
    for (terms, offset), axis, size in zip(inner.output, axes, shape, strict=True):
        if not terms and size == 1:
            continue
        if offset or len(terms) != 1:
            return None
        ((label, stride),) = terms
        if stride != 1 or label in values or inner.ranges[label] != size:
            return None
        values[label] = axis
    return values


def _unified(product: Product, expand: Collection[int]) -> Product:
    """The patterns absorbed by solving equations; those without a box of solutions stay operands."""
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
        inner = pattern_of(node, full)
        if inner is None:
            done.append((node, axes))
        elif (trial := _equated(unifier, inner, axes)) is None:
            stuck.append((node, axes, full))
        else:
            unifier, first = trial
            scale *= inner.scale
            todo += [
                (operand, shifted(inner_axes, first), False)
                for operand, inner_axes in zip(reversed(inner.operands), reversed(inner.axes), strict=True)
            ]
            todo, stuck = [*stuck, *todo], []  # a new equation may have made an old one solvable
    done += [(node, axes) for node, axes, _ in stuck]
    return _solved(unifier, done, product.output, scale)


def _equated(unifier: Unifier, inner: Product, axes: tuple[Axis, ...]) -> tuple[Unifier, int] | None:
    trial = unifier.copy()
    first = trial.fresh(inner.ranges)
    inside = shifted(inner.output, first)
    return None if trial.equate_all(zip(inside, axes, strict=True)) else (trial, first)


def _solved(
    unifier: Unifier, operands: list[tuple[Node, tuple[Axis, ...]]], output: tuple[Axis, ...], scale: float
) -> Product:
    """Read the solved axes off the unifier: every label starts at zero."""
    solutions: dict[int, Axis] = {}
    ranges: list[Size] = []
    for label, (first, end) in unifier.bounds.items():
        if label not in unifier.solved:
            solutions[label] = Axis(((len(ranges), 1),), first) if first else label_axis(len(ranges))
            ranges.append(end if isinstance(end, str) else end - first)

    def read(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple([unifier.resolve(axis).at(solutions) for axis in axes])

    nodes, tables = tuple([node for node, _ in operands]), tuple([read(axes) for _, axes in operands])
    return Product(nodes, tables, read(output), tuple(ranges), scale)


def _trimmed(product: Product) -> Product:
    """The product over the labels that it uses and that have more than one value; others are factors."""
    used = product.used
    if len(used) == len(product.ranges) and 1 not in product.ranges and 0 not in product.ranges:
        return product
    solutions: dict[int, Axis] = {}
    ranges: list[Size] = []
    scale = product.scale
    for label, size in enumerate(product.ranges):
        if size == 0:
            raise EmptyBox
        if isinstance(size, int) and label not in used:
            scale *= size
        elif size == 1:
            solutions[label] = constant_axis(0)
        else:
            solutions[label] = label_axis(len(ranges))
            ranges.append(size)
    axes = tuple([tuple([axis.at(solutions) for axis in row]) for row in product.axes])
    output = tuple([axis.at(solutions) for axis in product.output])
    return Product(product.operands, axes, output, tuple(ranges), scale)


def _fused(product: Product) -> Product:
    """Digits that always occur together, `n*i + j` with `j < n`, become one label."""
    tensors = [*product.axes, product.output]
    if all([len(terms) < 2 for axes in tensors for terms, _ in axes]):
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


def pattern_of(node: Node, full: bool = False) -> Product | None:
    """What of an operand is absorbed: all of a view, the pattern around the core of a product."""
    if not isinstance(node, Einsum):
        return None
    if len(node.operands) <= 1 or full:
        return node.product
    if len(_components(node)) > 1:
        return _of_components(node)
    found = _other_core_and_pattern(node)
    return None if found is None else found[1]


def _components(node: Einsum) -> list[list[int]]:
    """The operands in groups that share no label with each other; all scalar factors are one group.

    An outer product need not be formed to be multiplied with something else.
    """
    return _connected_operands(node.axes, node.output)


@functools.lru_cache(PATTERNS)
def _connected_operands(axes: tuple[tuple[Axis, ...], ...], output: tuple[Axis, ...]) -> list[list[int]]:
    placed = labels_of(output)
    groups = connected([labels_of(row) for row in axes])
    tensors = [members for members, labels in groups if labels & placed]
    scalars = sorted(k for members, labels in groups if not labels & placed for k in members)
    return [*tensors, scalars] if scalars else tensors


def _component_cores(node: Einsum) -> list[tuple[Node, list[int]]]:
    """Each component as a tensor, with the labels of its axes in the node."""
    placed, product = node.placed, node.product._replace(scale=1.0)
    cores = []
    for members in _components(node):
        part = product.only(members)
        kept = [label for label in first_labels(itertools.chain(*part.axes)) if label in placed]
        part = part._replace(output=tuple(map(label_axis, kept))).compact()
        whole = make(part, product.sizes(kept))
        if isinstance(whole, Einsum) and len(whole.operands) > 1:  # transposes of a core share it
            inside, pattern = core_and_pattern(whole)
            if inside is not whole and pattern.scale == 1 and len(pattern.output) == len(pattern.axes[0]):
                order = [axis.label for axis in pattern.output]
                kept = [kept[order.index(k)] for k in range(len(kept))]
                whole = inside
        cores.append((whole, kept))
    return cores


@remembered
def _of_components(node: Einsum) -> Product:
    """The node as a product of its components."""
    cores = _component_cores(node)
    operands = tuple(part for part, _ in cores)
    whole = node.product._replace(
        operands=operands, axes=tuple(tuple(map(label_axis, labels)) for _, labels in cores)
    )
    return whole.without(node.inside - whole.inside)


def core_and_pattern(node: Einsum) -> tuple[Node, Product]:
    """A product as (its core, the view of the core that it is).

    The core has distinct plain labels in an order that depends on the operands only, so all
    transposes, diagonals and placements of one product share it.
    """
    found = _other_core_and_pattern(node)
    if found is None:
        axes = plain_axes(node.rank)
        return node, Product((node,), (axes,), axes, node.shape, 1.0)
    return found


def core(node: Einsum) -> Node:
    """The core of a product."""
    found = _other_core_and_pattern(node)
    return node if found is None else found[0]


@remembered
def _other_core_and_pattern(node: Einsum) -> tuple[Node, Product] | None:
    """The core and the pattern around it, or None if the product is its own core."""
    placed, product = node.placed, node.product
    order = operand_order(node.operands, node.axes, node.ranges, dict.fromkeys(placed, "kept"))
    appearing = first_labels([axis for k in order for axis in node.axes[k]])
    kept = [label for label in appearing if label in placed]
    axes, shape = tuple(map(label_axis, kept)), product.sizes(kept)
    if axes == node.output and shape == node.shape and len(appearing) == len(node.ranges):
        if node.scale == 1:
            return None
        return rescaled(node, 1.0), Product((rescaled(node, 1.0),), (axes,), axes, shape, node.scale)
    unused = [label for label in range(len(node.ranges)) if label not in appearing]
    plain = product._replace(output=axes, scale=1.0).without(unused)
    inside, factor = _without_scale(make(plain, shape))
    pattern = Product((inside,), (axes,), node.output, node.ranges, node.scale * factor)
    return None if inside is node else (inside, pattern.over(kept + unused))


def _without_scale(node: Node) -> tuple[Node, float]:
    """A core as one of scale one, and its scale: reading an antisymmetric operand the other way brings -1."""
    return (rescaled(node, 1.0), node.scale) if isinstance(node, Einsum) else (node, 1.0)


def disjoint_outputs(one: Node, two: Node) -> bool:
    """Whether two products are certain to touch no common entry of the result."""
    if not isinstance(one, Einsum) or not isinstance(two, Einsum):
        return False
    unifier = Unifier()
    first, second = unifier.fresh(one.ranges), unifier.fresh(two.ranges)
    left, right = shifted(one.output, first), shifted(two.output, second)
    try:
        unifier.equate_all(zip(left, right, strict=True))
    except EmptyBox:
        return True
    return False
