"""Diagonals that a product of matrices has anyway.

`A·x + s∘x` is `(A + diag(s))·x`: where `x` are many vectors, they are read and written once instead of three
times. And `Σₙ gₙ[i] xₙ[i]`, the derivative by `s`, is the diagonal of `Σₙ gₙ[i] xₙ[j]`, that by `A`.

Constructors multiply such a sum out again, for the sake of derivatives; so this is the last thing that
happens to nodes before a program is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hesse.cost import concrete
from hesse.ir import (
    Add,
    Axis,
    Einsum,
    Node,
    Product,
    add,
    einsum_of,
    plain_axes,
    rebuild,
    topological,
    undistributed,
)

MANY = 8
"""Vectors have so many times the entries of the matrix at least, which is copied for its new diagonal."""


def with_diagonals(roots: Sequence[Node]) -> list[Node]:
    """The roots with diagonals added to matrices, and read off products that are there."""
    order = topological(roots)
    products = _plain_products(order)
    new: dict[Node, Node] = {}

    def made(node: Node) -> Node:
        operands = tuple([new[operand] for operand in node.operands])
        return node if operands == node.operands else rebuild(node, operands)

    for node in order:
        match node:
            case Einsum() if node in products.get(node.operands, ()):
                read = _read_off(node, products[node.operands])
                if read is None:
                    new[node] = made(node)
                else:
                    new[node] = einsum_of(read.with_operand(0, made(read.operands[0])), node.shape)
            case Add():
                new[node] = _joined(made(node))
            case _:
                new[node] = made(node)
    return [new[root] for root in roots]


def _plain_products(order: Sequence[Node]) -> dict[tuple[Node, ...], list[Einsum]]:
    """Sums of products of two tensors whose axes are labels, by these tensors."""
    found: dict[tuple[Node, ...], list[Einsum]] = {}
    for node in order:
        if isinstance(node, Einsum) and len(node.operands) == 2 and _is_plain(node) and node.summed:
            found.setdefault(node.operands, []).append(node)
    return found


def _is_plain(node: Einsum) -> bool:
    """Whether all axes are labels, those of the output distinct, and nothing is left out."""
    sizes = [*zip(node.output, node.shape, strict=True)]
    for axes, operand in zip(node.axes, node.operands, strict=True):
        sizes += zip(axes, operand.shape, strict=True)
    is_whole = all([axis.is_label and node.ranges[axis.label] == size for axis, size in sizes])
    return is_whole and node.output == plain_axes(node.rank)


def _read_off(node: Einsum, others: Sequence[Einsum]) -> Product | None:
    """A product as a diagonal of another one of the same tensors."""
    for whole in others:
        if whole.rank > node.rank:
            names = _unified(whole, node)
            if names is not None:
                axes = tuple([names[axis] for axis in whole.output])
                product = Product((whole,), (axes,), node.output, node.ranges, node.scale / whole.scale)
                return product.compact()
    return None


def _unified(whole: Einsum, node: Einsum) -> dict[Axis, Axis] | None:
    """For each label of a product the label that it is in another one; sums are over the same labels."""
    names: dict[Axis, Axis] = {}
    for wide, narrow in zip(whole.axes, node.axes, strict=True):
        for one, two in zip(wide, narrow, strict=True):
            if names.setdefault(one, two) != two:
                return None
    summed = [names[axis] for axis in names if axis.label >= whole.rank]
    is_same = len(summed) == len(set(summed)) and {axis.label for axis in summed} == set(node.summed)
    placed = {names.get(axis) for axis in whole.output}
    return names if is_same and placed == set(node.output) else None


def _joined(node: Node) -> Node:
    """Law: A·x + s∘x = (A + diag(s))·x."""
    while isinstance(node, Add):
        found = next(_sums(node.operands), None)
        if found is None:
            return node
        wide, narrow, both = found
        rest = [term for term in node.operands if term is not wide and term is not narrow]
        node = add([both, *rest], node.shape)
    return node


def _sums(terms: Sequence[Node]) -> Iterator[tuple[Einsum, Einsum, Node]]:
    """Products with a matrix, and entry by entry, of the same vectors, with the product that is their sum."""
    products = [term for term in terms if isinstance(term, Einsum) and len(term.operands) == 2]
    plain = [*filter(_is_plain, products)]
    by_vectors: dict[Node, list[tuple[Einsum, int]]] = {}
    for narrow in plain:
        for m, vectors in enumerate(narrow.operands if not narrow.summed else ()):
            by_vectors.setdefault(vectors, []).append((narrow, m))
    for wide in plain:
        for k, vectors in enumerate(wide.operands if len(wide.summed) == 1 else ()):
            for narrow, m in by_vectors.get(vectors, ()):
                both = _both(wide, k, narrow, m)
                if both is not None:
                    yield wide, narrow, both


def _both(wide: Einsum, k: int, narrow: Einsum, m: int) -> Node | None:
    """The sum of two products of the same vectors, if the second one has a diagonal of such a matrix."""
    matrix, diagonal = wide.operands[1 - k], narrow.operands[1 - m]
    row, entries = _row(wide.axes[k], narrow.axes[m], wide.rank), wide.axes[1 - k]
    if row is None or row in wide.axes[k] or not {row, *narrow.axes[1 - m]} <= set(entries):
        return None
    if all(axis.label != wide.rank for axis in entries):
        return None  # what is summed are the vectors alone
    if MANY * _entries(matrix) > _entries(wide):
        return None
    output = tuple([row if axis.label == wide.rank else axis for axis in entries])
    placed = Product((diagonal,), (narrow.axes[1 - m],), output, narrow.ranges, narrow.scale / wide.scale)
    whole = add([matrix, einsum_of(placed.compact(), matrix.shape)], matrix.shape)
    return undistributed(wide.product.with_operand(1 - k, whole), wide.shape)


def _row(wide: Sequence[Axis], narrow: Sequence[Axis], summed: int) -> Axis | None:
    """The label that is read instead of the one that is summed over; all others must be the same."""
    different = [(one, two) for one, two in zip(wide, narrow, strict=True) if one != two]
    return different[0][1] if len(different) == 1 and different[0][0].label == summed else None


def _entries(node: Node) -> int:
    return math.prod(map(concrete, node.shape))
