"""Laws for inverses and determinants; the table is applied with that of `rules`."""

from __future__ import annotations

from hesse.ir import Apply, Einsum, Node, plain_axes, reciprocal, scale, transpose
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


MATRIX_RULES: tuple[Rule, ...] = (
    inverse_of_inverse,
    inverse_of_transpose,
    determinant_of_inverse,
    determinant_of_transpose,
    log_determinant_of_inverse,
    log_determinant_of_transpose,
)
