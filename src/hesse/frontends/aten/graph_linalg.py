"""Nodes of autograd of decompositions and of linear equations: what they do not keep follows from results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from hesse.frontends.aten.graph_nodes import ROWS, node_name
from hesse.frontends.aten.graph_parts import Call, edges_of, saved_values

if TYPE_CHECKING:
    from hesse.frontends.aten.graph import Walk


def _decomposed(walk: Walk, node: Any) -> Call:
    """Eigenvalues and eigenvectors of a symmetric matrix; the triangle that was read is the one they fit."""
    saved, (edge,) = saved_values(node), edges_of(node)
    values, vectors = saved["eigenvalues"].detach(), saved["eigenvectors"].detach()
    whole = (vectors * values.unsqueeze(-2)) @ vectors.mT
    operand = walk.operand(node, whole, edge)
    matrix = walk.number(operand)
    gaps = {triangle: (part(matrix) - part(whole)).abs().sum() for triangle, part in TRIANGLES.items()}
    triangle = "U" if gaps["U"] < gaps["L"] else "L"
    return Call(torch.ops.aten.linalg_eigh.default, [operand, triangle], {}, False)


TRIANGLES = {"L": torch.tril, "U": torch.triu}


def _triangular_factors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    _, lower, upper = torch.linalg.lu(matrix)
    return lower, upper


def _factored(walk: Walk, node: Any) -> Call:
    """The factors of a matrix without the permutation, which is no result of the node."""
    saved, (edge,) = saved_values(node), edges_of(node)
    matrix = saved["P"] @ saved["L"] @ saved["U"]
    return Call(functools.partial(_triangular_factors), [walk.operand(node, matrix, edge)], {}, False)


def _least_squares(matrix: Tensor, right: Tensor) -> Tensor:
    solution: Tensor = torch.linalg.lstsq(matrix, right).solution
    return solution


def _fitted(walk: Walk, node: Any) -> Call:
    """The solution of a least-squares problem."""
    saved, (left, right) = saved_values(node), edges_of(node)
    operands = [walk.operand(node, saved["self"], left), walk.operand(node, saved["b"], right)]
    return Call(functools.partial(_least_squares), operands, {}, False)


def _packed_factors(matrix: Tensor) -> Tensor:
    lower, upper = _triangular_factors(matrix)
    rows, columns = matrix.shape[-2:]
    below = pad(lower.tril(-1), (0, columns - lower.shape[-1]))
    return below + pad(upper, (0, 0, 0, rows - upper.shape[-2]))


def _packed(walk: Walk, node: Any) -> Call:
    """Both factors of a matrix in one; the pivots are no results of the node."""
    saved, (edge,) = saved_values(node), edges_of(node)
    permutation, lower, upper = torch.lu_unpack(saved["LU"], saved["pivots"])
    operand = walk.operand(node, permutation @ lower @ upper, edge)
    return Call(functools.partial(_packed_factors), [operand], {}, False)


def _unpacked_factors(factors: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = factors.shape[-2:]
    count = min(rows, columns)
    diagonal = torch.eye(rows, count, dtype=factors.dtype, device=factors.device)
    return factors[..., :count].tril(-1) + diagonal, factors[..., :count, :].triu()


def _unpacked(walk: Walk, node: Any) -> Call:
    """The factors one by one; so is the permutation no result."""
    (edge,) = edges_of(node)
    operand = walk.operand(node, None, edge)
    return Call(functools.partial(_unpacked_factors), [operand], {}, walk.is_shifted(operand))


def _solution_by_factors(
    permutation: Tensor, is_left: bool, is_transposed: bool, factors: Tensor, right: Tensor
) -> Tensor:
    lower, upper = _unpacked_factors(factors)
    solve = torch.linalg.solve_triangular
    if not is_left:
        turned = _solution_by_factors(permutation, True, not is_transposed, factors, right.mT)
        return turned.mT
    if is_transposed:
        inner = solve(lower.mT, solve(upper.mT, right, upper=False), upper=True)
        return permutation @ inner
    return solve(upper, solve(lower, permutation.mT @ right, upper=False), upper=True)


def _solved_by_factors(walk: Walk, node: Any) -> Call:
    """The solution of linear equations whose matrix is given by its factors."""
    saved, (factors, edge) = saved_values(node), edges_of(node)
    permutation, lower, upper = torch.lu_unpack(saved["LU"].detach(), saved["pivots"])
    matrix = permutation @ lower @ upper
    matrix = matrix.mT if saved["adjoint"] else matrix
    solution = saved["result"].detach()
    right = matrix @ solution if saved["left"] else solution @ matrix
    operands = [walk.operand(node, saved["LU"], factors), walk.operand(node, right, edge)]
    solve = functools.partial(_solution_by_factors, permutation, saved["left"], saved["adjoint"])
    return Call(solve, operands, {}, False)


def _solved(walk: Walk, node: Any) -> Call:
    """The solution of linear equations; a constant right-hand side follows from the solution."""
    saved, (_, edge) = saved_values(node), edges_of(node)
    matrix, solution, is_left = saved["A"].detach(), saved["result"].detach(), saved["left"]
    if solution.dim() < matrix.dim() and solution.shape == matrix.shape[: solution.dim()]:
        right = (matrix @ solution.unsqueeze(-1)).squeeze(-1)
    else:
        right = matrix @ solution if is_left else solution @ matrix
    return walk.called(node, ROWS[node_name(node)], B=walk.operand(node, right, edge))


def _solved_triangular(walk: Walk, node: Any) -> Call:
    """The same for a triangular matrix."""
    saved, (_, edge) = saved_values(node), edges_of(node)
    matrix, solution = saved["self"].detach(), saved["result"].detach()
    matrix = matrix.triu() if saved["upper"] else matrix.tril()
    if saved["unitriangular"]:
        matrix = matrix - torch.diag_embed(matrix.diagonal(0, -2, -1) - 1)
    right = matrix @ solution if saved["left"] else solution @ matrix
    return walk.called(node, ROWS[node_name(node)], B=walk.operand(node, right, edge))


def _solved_by_factor(walk: Walk, node: Any) -> Call:
    """The same for a matrix whose Cholesky factor is given."""
    saved, (edge, _) = saved_values(node), edges_of(node)
    factor = saved["input2"].detach()
    product = factor.mT @ factor if saved["upper"] else factor @ factor.mT
    right = product @ saved["result"].detach()
    return walk.called(node, ROWS[node_name(node)], self=walk.operand(node, right, edge))


LINALG: dict[str, Callable[[Walk, Any], Call]] = {
    "CholeskySolveBackward0": _solved_by_factor,
    "LinalgEighBackward0": _decomposed,
    "LinalgLstsqBackward0": _fitted,
    "LinalgLuBackward0": _factored,
    "LinalgLuFactorExBackward0": _packed,
    "LinalgLuSolveBackward0": _solved_by_factors,
    "LinalgSolveExBackward0": _solved,
    "LinalgSolveTriangularBackward0": _solved_triangular,
    "LuUnpackBackward0": _unpacked,
}
"""By the kind of a node."""
