"""Laws for inverses and determinants; the table is applied with that of `rules`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hesse.ir import (
    Apply,
    Axis,
    Einsum,
    Node,
    einsum_of,
    labels_of,
    opened,
    plain_axes,
    reciprocal,
    scale,
    symmetries,
    transpose,
    unscaled,
)
from hesse.ops.linalg import determinant, inverse, log_determinant
from hesse.rewrite.rules import Head, Rule


def _argument(node: Node, name: str) -> Node | None:
    """`X` if the node is `name(X)`."""
    return node.operands[0] if isinstance(node, Apply) and node.name == name else None


def _transposed(node: Node | None) -> Node | None:
    """`X` if the node is `X'`."""
    if not isinstance(node, Einsum) or len(node.operands) != 1 or node.rank != 2 or node.scale != 1:
        return None
    plain = plain_axes(2)
    return node.operands[0] if (node.axes[0], node.output) == (plain[::-1], plain) else None


def inverse_of_inverse(node: Node) -> Node | None:
    """inv(inv(X)) = X."""
    inside = _argument(node, "inverse")
    return None if inside is None else _argument(inside, "inverse")


def inverse_of_transpose(node: Node) -> Node | None:
    """inv(X') = inv(X)'."""
    matrix = _transposed(_argument(node, "inverse"))
    return None if matrix is None else transpose(inverse(matrix), (1, 0))


def determinant_of_inverse(node: Node) -> Node | None:
    """det(inv(X)) = 1/det(X)."""
    inside = _argument(node, "determinant")
    matrix = None if inside is None else _argument(inside, "inverse")
    return None if matrix is None else reciprocal(determinant(matrix))


def determinant_of_transpose(node: Node) -> Node | None:
    """det(X') = det(X)."""
    matrix = _transposed(_argument(node, "determinant"))
    return None if matrix is None else determinant(matrix)


def log_determinant_of_inverse(node: Node) -> Node | None:
    """logdet(inv(X)) = -logdet(X)."""
    inside = _argument(node, "log_determinant")
    matrix = None if inside is None else _argument(inside, "inverse")
    return None if matrix is None else scale(log_determinant(matrix), -1.0)


def log_determinant_of_transpose(node: Node) -> Node | None:
    """logdet(X') = logdet(X)."""
    matrix = _transposed(_argument(node, "log_determinant"))
    return None if matrix is None else log_determinant(matrix)


def inverse_times_matrix(node: Node) -> Node | None:
    """inv(X)*X = eye and X*inv(X) = eye, also where another factor comes first: X*(inv(X)*A) = A."""
    if not isinstance(node, Einsum) or not _holds_inverse(node, MOST_LEVELS):
        return None
    for _ in range(MOST_LEVELS):
        found = next((found for k in range(len(node.operands)) if (found := _without_pair(node, k))), None)
        if found is not None:
            return found
        inner = [k for k, part in enumerate(node.operands) if isinstance(part, Einsum)]
        multiplied = opened(node, inner) if inner else node
        if multiplied is node or not isinstance(multiplied, Einsum):
            return None
        node = multiplied
    return None


MOST_LEVELS = 3
"""How deep in products of products an inverse is looked for."""
MOST_CHOICES = 24
"""How many ways to find the factors of a matrix in a product are tried."""


def _holds_inverse(node: Einsum, levels: int) -> bool:
    return any(
        _argument(part, "inverse") is not None
        or (levels > 1 and isinstance(part, Einsum) and _holds_inverse(part, levels - 1))
        for part in node.operands
    )


class _Occurrence(NamedTuple):
    """A matrix in a product: the operands that make it up, its axes, and those summed inside it."""

    operands: tuple[int, ...]
    axes: tuple[Axis, ...]
    summed: frozenset[Axis]


def _occurrences(node: Einsum, matrix: Node, first: int) -> Iterator[_Occurrence]:
    """Where a matrix is a factor of a product, by itself or, if it is a product, by its factors."""
    places = [k for k in range(len(node.operands)) if k != first]
    yield from (_Occurrence((k,), node.axes[k], frozenset()) for k in places if node.operands[k] is matrix)
    if not isinstance(matrix, Einsum) or not all(map(_is_plain, (*matrix.axes, matrix.output))):
        return
    choices = [[k for k in places if node.operands[k] is part] for part in matrix.operands]
    if math.prod(map(len, choices)) > MOST_CHOICES:
        return
    for chosen in itertools.product(*choices):
        names: dict[int, Axis] = {}
        pairs = [
            (axis.label, outer)
            for own, k in zip(matrix.axes, chosen, strict=True)
            for axis, outer in zip(own, node.axes[k], strict=True)
        ]
        fits = len(set(chosen)) == len(chosen) and all(
            names.setdefault(label, outer) == outer
            and outer.is_label
            and node.ranges[outer.label] == matrix.ranges[label]
            for label, outer in pairs
        )
        if fits and len(set(names.values())) == len(names) == len(matrix.ranges):
            inside = names.keys() - {axis.label for axis in matrix.output}
            summed = frozenset(names[name] for name in inside)
            yield _Occurrence(chosen, tuple(names[axis.label] for axis in matrix.output), summed)


def _is_plain(axes: Sequence[Axis]) -> bool:
    return all(axis.is_label for axis in axes) and len(set(axes)) == len(axes)


def _without_pair(node: Einsum, first: int) -> Node | None:
    """The product without the inverse of a matrix at `first` and the matrix itself."""
    matrix = _argument(node.operands[first], "inverse")
    if matrix is None or matrix.rank != 2:
        return None
    base, factor = unscaled(matrix)
    turned = next((sign for axes, sign in symmetries(base) if len(axes) == 2), 0)
    for found in _occurrences(node, base, first):
        for mine, theirs, sign in ((1, 0, 1), (0, 1, 1), (0, 0, turned), (1, 1, turned)):
            joined, end = node.axes[first][mine], node.axes[first][1 - mine]
            other = found.axes[1 - theirs]
            if not sign or joined != found.axes[theirs] or joined in (end, other) or end in found.summed:
                continue
            if all(
                axis.is_label and node.ranges[axis.label] == base.shape[0] for axis in (joined, end, other)
            ):
                result = _joined_ends(node, (first, *found.operands), found.summed | {joined}, (end, other))
                if result is not None:
                    return scale(result, sign / factor)
    return None


def _joined_ends(
    node: Einsum, dropped: tuple[int, ...], summed: frozenset[Axis], ends: tuple[Axis, Axis]
) -> Node | None:
    """The product without some operands and the labels summed between them, the labels at their ends one.

    None if something else uses the labels that are summed.
    """
    kept, gone = ends[0].label, ends[1].label
    rest = node.product.only([k for k in range(len(node.operands)) if k not in dropped])
    merged = [axis for row in (*rest.axes, rest.output) for axis in row if len(axis.terms) > 1]
    inner = labels_of(summed)
    if inner & rest.used or gone in labels_of(merged):
        return None
    joined = rest.renamed(lambda label: kept if label == gone else label)
    return einsum_of(joined.without((inner | {gone}) - {kept}), node.shape)


MATRIX_RULES: dict[Rule, Head] = {
    inverse_of_inverse: "inverse",
    inverse_of_transpose: "inverse",
    determinant_of_inverse: "determinant",
    determinant_of_transpose: "determinant",
    log_determinant_of_inverse: "log_determinant",
    log_determinant_of_transpose: "log_determinant",
    inverse_times_matrix: Einsum,
}
