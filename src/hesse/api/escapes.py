"""Derivatives of determinants at singular matrices: there they are made again, without inverses.

The second derivative of a determinant, `det(A)*(inv(A)*inv(A) - inv(A)*inv(A))`, exists for all matrices, but
this formula needs an inverse. It is short and fast; so it is kept for regular matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from hesse.api.entries import Built, Request
from hesse.backends.executable import Escape
from hesse.ir import Add, Apply, Einsum, Node, pairwise, topological
from hesse.ops.linalg import inverse
from hesse.ops.minors import singular_matrices
from hesse.plan.adjugates import joined

COUNTS = {"inverse": 1, "determinant": -1}
"""How many inverses a factor is: with a determinant one of them is an adjugate."""
MOST_INVERSES = 8
"""Products of more inverses are not told apart."""


def escape(build: Callable[[Request], Built], request: Request, roots: Sequence[Node]) -> Escape | None:
    """What is computed where matrices are nearly singular; None: nothing divides by a determinant."""
    output = request.output

    def again() -> list[Node]:
        return build(request._replace(output=output._replace(nodes=joined(output.nodes)))).roots

    return escape_to(again, roots)


def escape_to(again: Callable[[], list[Node]] | None, roots: Sequence[Node]) -> Escape | None:
    """The same, where the derivatives are made again in this way; None: they cannot be."""
    doubts = tuple([_doubt(matrix, excess) for matrix, excess in _inverted(roots)])
    if not doubts:
        return None
    if again is None:
        return Escape(doubts, None)

    def others() -> list[Node]:
        with singular_matrices():
            return again()

    return Escape(doubts, others)


def _inverted(roots: Sequence[Node]) -> list[tuple[Node, int]]:
    """The matrices whose determinants and inverses are needed, and not just the products of both.

    With each of them stands how large products are that cancel, as a power of the condition number.
    """
    determinants = _operands(roots, "determinant")
    if not determinants:
        return []
    without = joined(roots)
    matrices = [matrix for matrix in _operands(without, "inverse") if matrix in determinants]
    return [(matrix, _excess(without, matrix)) for matrix in matrices]


def _excess(roots: Sequence[Node], matrix: Node) -> int:
    """How many inverses of a matrix a product has beyond its determinants, at most; or `MOST_INVERSES`."""
    counts: dict[Node, int] = {}
    for node in topological(roots):
        within = [counts[operand] for operand in node.operands]
        if isinstance(node, Apply) and node.operands[0] is matrix and node.name in COUNTS:
            counts[node] = COUNTS[node.name]
        elif isinstance(node, Einsum):
            counts[node] = min(sum(within), MOST_INVERSES)
        else:
            counts[node] = max(within if within and isinstance(node, Add) else [*within, 0])
    return max(1, *(counts[root] for root in roots))


def _operands(roots: Sequence[Node], name: str) -> list[Node]:
    nodes = topological(roots)
    return [node.operands[0] for node in nodes if isinstance(node, Apply) and node.name == name]


def _doubt(matrix: Node, excess: int) -> Node:
    """The square of a condition number, to the power of the excess.

    Where one singular value is small, derivatives of the determinant are not large, but products of inverses
    are: with each further one that many more digits cancel.
    """
    squares = [pairwise("...ij,...ij->...", node, node) for node in (matrix, inverse(matrix))]
    square = pairwise("...,...->...", *squares)
    return functools.reduce(functools.partial(pairwise, "...,...->..."), [square] * excess)
