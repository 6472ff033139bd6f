"""The constructor of sums.

Equal terms merge by their scales; terms with the same pattern (a band, a block, a broadcast) become one
term over the sum of their cores, so a sum holds at most one term for each pattern besides its dense ones.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from hesse.errors import ShapeError
from hesse.ir.axis import PATTERNS, Axis, Size, label_axis, labels_of, number
from hesse.ir.labelled import Product
from hesse.ir.node import Add, Einsum, Node, Shape, intern, remembered
from hesse.ir.product import build, disjoint_outputs, is_zero, make, rescaled

FEW_PATTERNS, MOST_PATTERNS = 16, 64
"""Sums of so few sparse terms may always be taken apart, sums of more than so many never."""
FEW_FACTORS = 5
"""In products they may if there are so few of them: each one is a product of its own then."""
ENTRIES_PER_PATTERN = 1024
"""What lies between may be taken apart if it has so many entries for each term: else it is quicker whole."""


def add(terms: Iterable[Node], shape: Shape, flatten: Collection[Node] = ()) -> Node:
    """The sum of terms of one shape.

    Terms that are sums are merged into this one when `flatten` names them (the caller knows that nobody
    else uses them), or when they hold sparse patterns that must stay visible to the terms around them.
    """
    scales: dict[Node, float] = {}
    for base, scale in _flat(terms, flatten):
        if base.shape != shape:
            raise ShapeError(f"cannot add a term of shape {base.shape} to a sum of shape {shape}")
        scales[base] = scales.get(base, 0.0) + scale
    merged = _merge_patterns([scaled(base, scale) for base, scale in scales.items() if scale], shape)
    if len(merged) == 1:
        return merged[0]
    return intern(Add, shape, tuple(sorted(merged, key=lambda node: node.key)))


def _flat(terms: Iterable[Node], flatten: Collection[Node]) -> Iterable[tuple[Node, float]]:
    """The terms with scale one, and their scales."""
    for term in terms:
        inner, scale = unscaled(term)
        if not isinstance(inner, Add):
            yield inner, scale
            continue
        is_merged = term in flatten or not inner.operands
        visible = inner.operands if is_merged else _sparse_and_dense(inner)
        if visible or is_merged:
            for operand in visible:
                base, factor = unscaled(operand)
                yield base, scale * factor
        else:
            yield inner, scale


@remembered
def _sparse_and_dense(node: Node) -> list[Node]:
    """The sparse terms of a sum and the sum of its dense ones, which stays whole: it is shared.

    Empty if there are no sparse terms, or if it does not pay to tell them apart.
    """
    sparse = [term for term in node.operands if is_sparse(term)]
    if not sparse or not _are_told_apart(sparse, node.shape, FEW_PATTERNS):
        return []
    dense = [term for term in node.operands if not is_sparse(term)]
    return [*sparse, add(dense, node.shape)] if dense else sparse


@remembered
def negated(node: Node) -> Node:
    """The negative of a sum as a sum: of `a - b` it is `b - a`."""
    terms = [scaled(base, -factor) for base, factor in map(unscaled, node.operands)]
    return intern(Add, node.shape, tuple(sorted(terms, key=lambda term: term.key)))


def without_sign(node: Node) -> tuple[Node, float]:
    """The node, or, of a sum and its negative always the same one, with the sign that it needs."""
    if not isinstance(node, Add) or not node.operands:
        return node, 1.0
    _, scale = min(map(unscaled, node.operands), key=lambda term: term[0].key)
    return (negated(node), -1.0) if scale < 0 else (node, 1.0)


def unscaled(node: Node) -> tuple[Node, float]:
    """The node as (node with scale one, scale)."""
    if not isinstance(node, Einsum) or node.scale == 1:
        return node, 1.0
    return _with_scale_one(node), node.scale


@remembered
def _with_scale_one(node: Einsum) -> Node:
    return rescaled(node, 1.0)


def scaled(node: Node, scale: float) -> Node:
    """`scale * node`."""
    if scale == 1 or is_zero(node):
        return node
    if isinstance(node, Einsum):
        return rescaled(node, node.scale * scale)
    return make(node.product._replace(scale=scale), node.shape)


def _merge_patterns(terms: list[Node], shape: Shape) -> list[Node]:
    groups: dict[object, list[Node]] = {}
    for term in terms:
        groups.setdefault(_pattern_key(term), []).append(term)
    merged: list[Node] = []
    for key, group in groups.items():
        if key is None or len(group) == 1:
            merged += group
        else:
            merged += [term for term in _over_one_pattern(group, shape) if not is_zero(term)]
    return merged


@remembered
def _pattern_key(node: Node) -> object:
    """What two terms must share to be summed before they are placed; None for dense terms."""
    if not isinstance(node, Einsum):
        return None
    placed, inside = node.placed, node.inside
    if is_sparse(node):
        return node.output, node.ranges[: len(placed)]
    if inside.issuperset(placed):
        return None
    return node.output, node.ranges[: len(placed)], frozenset(inside & placed)


def _over_one_pattern(group: Sequence[Node], shape: Shape) -> list[Node]:
    first = group[0]
    assert isinstance(first, Einsum)
    placed = first.placed
    labels = sorted(placed if is_sparse(first) else placed & first.inside)
    ranges = first.ranges[: len(placed)]
    core_shape = tuple(ranges[label] for label in labels)
    place = tuple(map(label_axis, labels))
    cores = []
    for term in group:
        assert isinstance(term, Einsum)
        broadcast = term.placed.difference(labels)
        cores.append(make(term.product._replace(output=place).without(broadcast), core_shape))
    return [
        build(Product((piece,), (place,), first.output, ranges, sign), shape)
        for piece, sign in map(without_sign, sum_pieces(add(cores, core_shape)))
    ]


@remembered
def is_sparse(node: Node) -> bool:
    """Whether the pattern of the node leaves entries of the result untouched."""
    return isinstance(node, Einsum) and not _covers(node.output, node.ranges, node.shape)


@functools.lru_cache(PATTERNS)
def _covers(output: tuple[Axis, ...], ranges: tuple[Size, ...], shape: Shape) -> bool:
    """Whether an output reaches every entry of a shape."""
    count = 0
    for axis, size in zip(output, shape, strict=True):
        reach: Size = 1
        if axis.offset:
            return False
        for label, stride in sorted(axis.terms, key=lambda term: term[1]):
            span = ranges[label]
            if stride == 1 and span == size:
                reach = size
            elif stride != reach or isinstance(span, str):
                return False
            else:
                reach = stride * span
            count += 1
        if reach != size:
            return False
    return count == len(labels_of(output))


def has_delta(node: Node) -> bool:
    """Whether a label is used in two axes of the output."""
    return isinstance(node, Einsum) and node.has_delta


def sum_pieces(node: Node) -> list[Node]:
    """The parts of a sum that a product distributes over.

    Distributing pays where a delta disappears or blocks are disjoint. Anything else stays whole: a
    residual that was computed once is shared, and squaring it does not lose digits to cancellation.
    """
    pieces = _pieces(node) if isinstance(node, Add) else None
    return [node] if pieces is None else pieces


@remembered
def _pieces(node: Add) -> list[Node] | None:
    """The parts of a sum that is taken apart, or None if it stays whole."""
    sparse = [term for term in node.operands if is_sparse(term)]
    full = [term for term in node.operands if not is_sparse(term)]
    if not _are_told_apart(sparse, node.shape, FEW_FACTORS):
        return None
    if any(map(has_delta, sparse)) or (not full and not any(meeting(sparse))):
        return sparse + ([add(full, node.shape)] if full else [])
    return None


def _are_told_apart(sparse: Sequence[Node], shape: Shape, few: int) -> bool:
    """Whether sparse terms are worth being multiplied and added one by one, not as one tensor."""
    if len(sparse) <= few or len(sparse) > MOST_PATTERNS:
        return len(sparse) <= few
    entries = math.prod(size for size in shape if isinstance(size, int))
    return entries >= ENTRIES_PER_PATTERN * len(sparse) or any(map(has_delta, sparse))


def meeting(terms: Iterable[Node]) -> Iterator[tuple[Einsum, Einsum]]:
    """The pairs of products that may touch a common entry; those that interleave (merged axes) do not."""
    boxes = {term: _bounding_box(term) for term in terms if isinstance(term, Einsum)}
    for a, b in itertools.combinations(boxes, 2):
        is_beside = any(
            one[1] < two[0] or two[1] < one[0] for one, two in zip(boxes[a], boxes[b], strict=True)
        )
        if not is_beside and not disjoint_outputs(a, b):
            yield a, b


def _bounding_box(node: Einsum) -> list[tuple[int, int]]:
    box = []
    for axis, size in zip(node.output, node.shape, strict=True):
        if isinstance(size, str):
            box.append((0, 1))  # a symbolic axis is always covered whole
            continue
        ends = [stride * (number(node.ranges[label]) - 1) for label, stride in axis.terms]
        box.append((axis.offset + sum(min(0, e) for e in ends), axis.offset + sum(max(0, e) for e in ends)))
    return box
