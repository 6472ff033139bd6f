"""Products of a determinant and an inverse of the same matrix, which exist where the inverse does not.

The derivative of det(A) is `det(A) inv(A)'`, the matrix of cofactors. It is computed as one operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.ir import Apply, Einsum, Node, einsum_of, opened, rebuild, topological
from hesse.ops.linalg import adjugate


def joined(roots: Sequence[Node]) -> list[Node]:
    """Law: det(A) inv(A) = adjugate(A)."""
    new: dict[Node, Node] = {}
    for node in topological(roots):
        operands = tuple(new[operand] for operand in node.operands)
        rebuilt = node if operands == node.operands else rebuild(node, operands)
        new[node] = _joined(rebuilt) if isinstance(rebuilt, Einsum) else rebuilt
    return [new[root] for root in roots]


def _is(node: Node, name: str) -> bool:
    return isinstance(node, Apply) and node.name == name


def _joined(node: Einsum) -> Node:
    """The product with one pair joined; a product that holds the determinant is multiplied out for it."""
    inverted = [operand.operands[0] for operand in node.operands if _is(operand, "inverse")]
    for k, operand in enumerate(node.operands if inverted else ()):
        if isinstance(operand, Einsum) and any(_determinant_of(part, inverted) for part in operand.operands):
            wider = opened(node, (k,))
            if isinstance(wider, Einsum) and len(wider.operands) > len(node.operands):
                return _joined(wider)
        elif _determinant_of(operand, inverted):
            return _without(node, k)
    return node


def _determinant_of(node: Node, matrices: list[Node]) -> bool:
    return _is(node, "determinant") and node.operands[0] in matrices


def _without(node: Einsum, k: int) -> Node:
    """The product without its determinant k, the first inverse that goes with it being the adjugate."""
    product = node.product
    (matrix,) = product.operands[k].operands
    operands, axes = list(product.operands), list(product.axes)
    for m, operand in enumerate(operands):
        if _is(operand, "inverse") and operand.operands[0] is matrix and axes[m][:-2] == axes[k]:
            operands[m] = adjugate(matrix)
            del operands[k], axes[k]
            return einsum_of(product._replace(operands=tuple(operands), axes=tuple(axes)), node.shape)
    return node
