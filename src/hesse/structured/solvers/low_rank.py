"""Diagonal plus low rank: Woodbury's formula.

The Hessian of a generalised linear model with fewer examples than parameters, `X[m,i] d[m] X[m,j] -> [i,j]`
plus a ridge, or that of a softmax, `s[i] -> [i,i]` minus `s[i] s[j] -> [i,j]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.target import Array
from hesse.ir import Axis, Node, Product, Shape, add, einsum_of, label_axis, labels_of, remembered
from hesse.structured.base import Patterns
from hesse.structured.formulas import diagonal as diagonal_of
from hesse.structured.patterns import count, products, written
from hesse.structured.solvers.dense import DENSE_INSTEAD, else_dense
from hesse.structured.solvers.systems import Solver, check, singular, solve_matrices, with_probe

REFINEMENTS = 4
"""Woodbury's formula can lose digits where the diagonal is small; residuals give them back."""

RESIDUAL = 100.0
"""A solution is accepted when its residual is this many roundings of its terms."""

PASSES = 3
"""The solution and its refinements where nobody looks whether they are needed."""


class LowRank(NamedTuple):
    """`diagonal + left·right'`; the nodes of `left` and `right` have axes `[variable…, joint…]`.

    `is_covered` says that the terms of the diagonal write as many entries as it has.
    """

    diagonal: Node
    left: tuple[Node, ...]
    right: tuple[Node, ...]
    is_covered: bool


@remembered
def diagonal_and_low_rank(node: Node, rank: int) -> LowRank | None:
    """The parts of a tensor that is a diagonal plus few outer products, at most half as many as rows."""
    diagonal = [term for term in products(node) if term.output[:rank] == term.output[rank:]]
    others = [term for term in products(node) if term.output[:rank] != term.output[rank:]]
    sides = [_sides(term, node, rank) for term in others]
    found = [pair for pair in sides if pair is not None]
    if len(found) < len(sides):
        return None
    if 2 * sum(count(left.shape[rank:]) for left, _ in found) >= count(node.shape[:rank]):
        return None
    placed = [einsum_of(term, node.shape) for term in diagonal]
    line = diagonal_of(add(placed, node.shape), rank)
    is_covered = sum(map(written, diagonal)) >= count(node.shape[:rank])
    return LowRank(line, tuple(left for left, _ in found), tuple(right for _, right in found), is_covered)


def _sides(term: Product, node: Node, rank: int) -> tuple[Node, Node] | None:
    """The factors of rows and those of columns, joined by summed labels."""
    rows, columns = labels_of(term.output[:rank]), labels_of(term.output[rank:])
    owned = [labels_of(axes) for axes in term.axes]
    if rows & columns or any(labels & rows and labels & columns for labels in owned):
        return None
    right = [k for k, labels in enumerate(owned) if labels & columns]
    left = [k for k in range(len(owned)) if k not in right]
    joint = sorted(set().union(*(owned[k] for k in left)) & set().union(*(owned[k] for k in right)))
    return (
        _side(term.only(left), term.output[:rank], joint, node.shape[:rank]),
        _side(term.only(right)._replace(scale=1.0), term.output[rank:], joint, node.shape[rank:]),
    )


def _side(factors: Product, placed: tuple[Axis, ...], joint: Sequence[int], sizes: Shape) -> Node:
    """One side with axes `[variable…, joint…]`."""
    product = factors._replace(output=(*placed, *map(label_axis, joint)))
    return einsum_of(product.compact(), sizes + factors.sizes(joint))


def _parts(node: Node, rank: int) -> list[Node]:
    found = diagonal_and_low_rank(node, rank)
    assert found is not None
    return [found.diagonal, *found.left, *found.right]


def low_rank(tensor: Patterns, damping: float) -> Solver | None:
    """Diagonal plus low rank, if no entry of the diagonal is zero."""
    rank, target = tensor.groups[-1], tensor.target
    found = diagonal_and_low_rank(tensor.node, rank)
    if found is None or not (damping or found.is_covered):
        return None
    size, xp = count(tensor.node.shape[:rank]), target.algebra
    diagonal, *sides = (part.reshape(size, -1) for part in tensor.run_all(_parts, rank))
    diagonal = diagonal + damping
    if not xp.is_hidden(diagonal) and not diagonal.all():
        return None
    left = xp.concatenate(sides[: len(found.left)], axis=1)
    right = xp.concatenate(sides[len(found.left) :], axis=1)

    def solve(given: Array) -> Array:
        typed = target.converted([diagonal, left, right], [given.dtype] * 3)
        method = xp.compiled(_refined_or_dense if xp.raises else _refined)
        return method(*typed, given.reshape(size, -1)).reshape(given.shape)

    return else_dense(Solver("low rank", solve), tensor, damping)


def _refined_or_dense(xp: Any, diagonal: Array, left: Array, right: Array, given: Array) -> Array:
    """Woodbury's formula with as many refinements as needed, or the dense system where they do not help."""
    norm, both = _norm(xp, diagonal, left, right), with_probe(xp, given)
    try:
        with xp.quiet():
            solution = _woodbury(xp, diagonal, left, right, both)
            for _ in range(REFINEMENTS):
                residual = _residual(diagonal, left, right, both, solution)
                if _is_exact(xp, residual, norm, solution):
                    return check(xp, solution[:, :-1], norm * xp.amax(xp.abs(solution[:, -1])))
                solution = solution + _woodbury(xp, diagonal, left, right, residual)
    except np.linalg.LinAlgError:
        pass
    if len(given) > DENSE_INSTEAD:
        raise singular(len(given))
    return solve_matrices(xp, xp.diag(diagonal[:, 0]) + left @ right.T, given)


def _refined(xp: Any, diagonal: Array, left: Array, right: Array, given: Array) -> Array:
    """The same without a look at the values: always refined, nan where that was not enough."""
    norm, both = _norm(xp, diagonal, left, right), with_probe(xp, given)

    def corrected(solution: Array) -> Array:
        residual = _residual(diagonal, left, right, both, solution)
        return solution + _woodbury(xp, diagonal, left, right, residual)

    solution = xp.iterated(corrected, PASSES, xp.zeros_like(both))
    is_exact = _is_exact(xp, _residual(diagonal, left, right, both, solution), norm, solution)
    bound = norm * xp.amax(xp.abs(solution[:, -1]))
    return check(xp, solution[:, :-1], xp.where(is_exact, bound, float("inf")))


def _norm(xp: Any, diagonal: Array, left: Array, right: Array) -> Array:
    return xp.amax(xp.abs(diagonal) + xp.abs(left) @ xp.abs(right).sum(0)[:, None])


def _residual(diagonal: Array, left: Array, right: Array, given: Array, solution: Array) -> Array:
    return given - diagonal * solution - left @ (right.T @ solution)


def _is_exact(xp: Any, residual: Array, norm: Array, solution: Array) -> Array:
    limit = RESIDUAL * float(xp.finfo(solution.dtype).eps) * norm * xp.amax(xp.abs(solution))
    return xp.amax(xp.abs(residual)) <= limit


def _woodbury(xp: Any, diagonal: Array, left: Array, right: Array, given: Array) -> Array:
    """`(D + L R')⁻¹ g = D⁻¹ g - D⁻¹ L (1 + R' D⁻¹ L)⁻¹ R' D⁻¹ g`."""
    scaled, direct = left / diagonal, given / diagonal
    middle = xp.eye(left.shape[1], left) + right.T @ scaled
    return direct - scaled @ solve_matrices(xp, middle, right.T @ direct)
