"""Laws for inverses and determinants; the table is applied with that of `rules`."""

from __future__ import annotations

from hesse.ir import (
    Apply,
    Axis,
    Einsum,
    Node,
    einsum,
    plain_axes,
    reciprocal,
    scale,
    symmetries,
    transpose,
    unscaled,
)
from hesse.ops.linalg import determinant, inverse, log_determinant
from hesse.rewrite.rules import Rule


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
        for first in range(len(node.operands)):
            for second in range(len(node.operands)):
                found = _without_pair(node, first, second)
                if found is not None:
                    return found
        inner = [k for k, part in enumerate(node.operands) if isinstance(part, Einsum)]
        fields = (node.axes, node.output, node.shape, node.ranges, node.scale)
        opened = einsum(node.operands, *fields, expand=inner) if inner else node
        if opened is node or not isinstance(opened, Einsum):
            return None
        node = opened
    return None


MOST_LEVELS = 3
"""How deep in products of products an inverse is looked for."""


def _holds_inverse(node: Einsum, levels: int) -> bool:
    return any(
        _argument(part, "inverse") is not None
        or (levels > 1 and isinstance(part, Einsum) and _holds_inverse(part, levels - 1))
        for part in node.operands
    )


def _without_pair(node: Einsum, first: int, second: int) -> Node | None:
    """The product without the inverse of a matrix at `first` and the matrix itself at `second`."""
    matrix = _argument(node.operands[first], "inverse")
    if matrix is None or matrix.rank != 2:
        return None
    base, factor = unscaled(matrix)
    if node.operands[second] is not base:
        return None
    turned = next((sign for axes, sign in symmetries(base) if len(axes) == 2), 0)
    for mine, theirs, sign in ((1, 0, 1), (0, 1, 1), (0, 0, turned), (1, 1, turned)):
        joined = node.axes[first][mine]
        rest = node.axes[first][1 - mine], node.axes[second][1 - theirs]
        axes = [joined, *rest]
        whole = all(axis.is_label and node.ranges[axis.label] == base.shape[0] for axis in axes)
        if sign and whole and joined == node.axes[second][theirs] and _uses(node, joined.label) == 2:
            return _identified(node, (first, second), joined.label, rest, sign * node.scale / factor)
    return None


def _uses(node: Einsum, label: int) -> int:
    """How often a label is used; an axis of several labels counts as more than a matrix product has."""
    axes = [axis for row in (*node.axes, node.output) for axis in row if label in axis.labels()]
    return sum(1 if axis.is_label else 3 for axis in axes)


def _identified(
    node: Einsum, dropped: tuple[int, int], summed: int, ends: tuple[Axis, Axis], scale: float
) -> Node | None:
    """The product without two operands and the label between them, their other two labels being one."""
    kept, gone = ends[0].label, ends[1].label
    rest = [k for k in range(len(node.operands)) if k not in dropped]
    rows = [*(node.axes[k] for k in rest), node.output]
    if any(len(axis.terms) > 1 and gone in axis.labels() for row in rows for axis in row):
        return None
    others = [label for label in range(len(node.ranges)) if label not in {summed, gone} - {kept}]
    numbers = {label: k for k, label in enumerate(others)}
    numbers[gone] = numbers[kept]
    tables = [tuple(axis.rename(numbers.__getitem__) for axis in row) for row in rows]
    ranges = [node.ranges[label] for label in others]
    return einsum([node.operands[k] for k in rest], tables[:-1], tables[-1], node.shape, ranges, scale)


MATRIX_PRODUCT_RULES: tuple[Rule, ...] = (inverse_times_matrix,)

MATRIX_RULES: tuple[Rule, ...] = (
    inverse_of_inverse,
    inverse_of_transpose,
    determinant_of_inverse,
    determinant_of_transpose,
    log_determinant_of_inverse,
    log_determinant_of_transpose,
)
