"""Diagonal plus low rank: Woodbury's formula.

The Hessian of a generalised linear model with fewer examples than parameters, `X[m,i] d[m] X[m,j] -> [i,j]`
plus a ridge, or that of a softmax, `s[i] -> [i,i]` minus `s[i] s[j] -> [i,j]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hesse.ir import Axis, Node, Product, Shape, add, einsum_of, label_axis, labels_of, remembered
from hesse.structured.base import Patterns
from hesse.structured.formulas import diagonal as diagonal_of
from hesse.structured.patterns import count, products
from hesse.structured.solvers.systems import Solver, check, probe, singular, solve_matrices

REFINEMENTS = 4
"""Woodbury's formula can lose digits where the diagonal is small; residuals give them back."""

RESIDUAL = 100.0
"""A solution is accepted when its residual is this many roundings of its terms."""

DENSE_INSTEAD = 5000
"""Up to this many unknowns the dense system is solved where Woodbury's formula loses too many digits."""


class LowRank(NamedTuple):
    """`diagonal + left·right'`; the nodes of `left` and `right` have axes `[variable…, joint…]`."""

    diagonal: Node
    left: tuple[Node, ...]
    right: tuple[Node, ...]


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
    return LowRank(line, tuple(left for left, _ in found), tuple(right for _, right in found))


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
    rank = tensor.groups[-1]
    found = diagonal_and_low_rank(tensor.node, rank)
    if found is None:
        return None
    size = count(tensor.node.shape[:rank])
    diagonal, *sides = (part.reshape(size, -1) for part in tensor.run_all(_parts, rank))
    diagonal = diagonal + tensor.dtype.type(damping)
    if not diagonal.all():
        return None
    left = np.concatenate(sides[: len(found.left)], axis=1)
    right = np.concatenate(sides[len(found.left) :], axis=1)

    def solve(given: np.ndarray) -> np.ndarray:
        line, rows, columns = (part.astype(given.dtype, copy=False) for part in (diagonal, left, right))
        return _solve(line, rows, columns, given.reshape(size, -1)).reshape(given.shape)

    return Solver("low rank", solve)


def _solve(diagonal: np.ndarray, left: np.ndarray, right: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Woodbury's formula with a few refinements, or the dense system where they do not converge."""
    norm = (np.abs(diagonal) + np.abs(left) @ np.abs(right).sum(0)[:, None]).max()
    both = np.concatenate([given, probe(len(given), given.dtype)], 1)
    try:
        with np.errstate(all="ignore"):
            solution = _woodbury(diagonal, left, right, both)
            for _ in range(REFINEMENTS):
                residual = both - diagonal * solution - left @ (right.T @ solution)
                limit = RESIDUAL * np.finfo(given.dtype).eps * norm * np.abs(solution).max()
                if np.abs(residual).max() <= limit:
                    return check(solution[:, :-1], norm * np.abs(solution[:, -1]).max())
                solution = solution + _woodbury(diagonal, left, right, residual)
    except np.linalg.LinAlgError:
        pass
    if len(given) > DENSE_INSTEAD:
        raise singular(len(given))
    return solve_matrices(np.diag(diagonal[:, 0]) + left @ right.T, given)


def _woodbury(diagonal: np.ndarray, left: np.ndarray, right: np.ndarray, given: np.ndarray) -> np.ndarray:
    """`(D + L R')⁻¹ g = D⁻¹ g - D⁻¹ L (1 + R' D⁻¹ L)⁻¹ R' D⁻¹ g`."""
    scaled, direct = left / diagonal, given / diagonal
    middle = np.eye(left.shape[1], dtype=left.dtype) + right.T @ scaled
    return np.asarray(direct - scaled @ solve_matrices(middle, right.T @ direct))
