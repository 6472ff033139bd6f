"""Derivatives of determinants at singular matrices: there they are made again, without inverses.

The second derivative of a determinant, `det(A)*(inv(A)*inv(A) - inv(A)*inv(A))`, exists for all matrices, but
this formula needs an inverse. It is short and fast; so it is kept for regular matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hesse.api.entries import Built, Request
from hesse.backends.executable import Escape
from hesse.ir import Apply, Node, pairwise, topological
from hesse.ops.linalg import inverse
from hesse.ops.minors import singular_matrices
from hesse.plan.adjugates import joined


def escape(build: Callable[[Request], Built], request: Request, roots: Sequence[Node]) -> Escape | None:
    """What is computed where matrices are nearly singular; None: nothing divides by a determinant."""
    output = request.output

    def again() -> list[Node]:
        return build(request._replace(output=output._replace(nodes=joined(output.nodes)))).roots

    return escape_to(again, roots)


def escape_to(again: Callable[[], list[Node]] | None, roots: Sequence[Node]) -> Escape | None:
    """The same, where the derivatives are made again in this way; None: they cannot be."""
    doubts = tuple(map(_doubt, _inverted(roots)))
    if not doubts:
        return None
    if again is None:
        return Escape(doubts, None)

    def others() -> list[Node]:
        with singular_matrices():
            return again()

    return Escape(doubts, others)


def _inverted(roots: Sequence[Node]) -> list[Node]:
    """The matrices whose determinants and inverses are needed, and not just the products of both."""
    if not _operands(roots, "determinant"):
        return []
    determinants = _operands(roots, "determinant")
    return [matrix for matrix in _operands(joined(roots), "inverse") if matrix in determinants]


def _operands(roots: Sequence[Node], name: str) -> list[Node]:
    nodes = topological(roots)
    return [node.operands[0] for node in nodes if isinstance(node, Apply) and node.name == name]


def _doubt(matrix: Node) -> Node:
    """The square of a condition number."""
    squares = [pairwise("...ij,...ij->...", node, node) for node in (matrix, inverse(matrix))]
    return pairwise("...,...->...", *squares)
