"""Factorizations and triangular systems, on the last two axes. Those without a handler are JAX's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.foreign import called
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.table import primitive, traced
from hesse.frontends.jaxpr.walk import Walk, walked
from hesse.frontends.operands import as_node
from hesse.frontends.special import stop_gradient
from hesse.ir import Einsum, Node, is_zero, variable
from hesse.ops import linalg, matrices
from hesse.ops.registry import operation


@primitive("cholesky")
def cholesky(a: Any, **_: Any) -> Any:
    """The lower triangular factor of positive definite matrices, of which the lower triangle is read."""
    return Expression(operation("cholesky", as_node(a)))


@primitive("eigh")
def eigh(a: Any, lower: bool, sort_eigenvalues: bool = True, subset_by_index: Any = None, **_: Any) -> Any:
    """Eigenvectors and eigenvalues of symmetric matrices; derivatives are those by symmetric changes."""
    if subset_by_index not in (None, (0, np.shape(a)[-1])):
        return NotImplemented
    part, read = matrices.symmetric_part(as_node(a)), matrices.symmetric(as_node(a), lower)
    matrix = part if read is part else part + stop_gradient(Expression(read - part)).node
    return Expression(operation("eigenvectors", matrix)), Expression(operation("eigvalsh", matrix))


@primitive("triangular_solve")
def triangular_solve(
    a: Any, b: Any, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Any:
    """The solution of `a x = b`, or of `x a = b`, reading one triangle of `a`."""
    a, b = traced(a), traced(b)
    if unit_diagonal:
        a = np.add(np.tril(a, -1) if lower else np.triu(a, 1), np.eye(a.shape[-1]))
    if transpose_a:
        a, lower = a.mT, not lower
    if not left_side:
        return triangular_solve(a.mT, b.mT, True, not lower, False, conjugate_a, False).mT
    return Expression(linalg.triangular_solve(as_node(a), as_node(b), lower=lower))


@walked("lu")
def lu(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Triangular factors, the pivots and their order, by JAX."""
    return called(walk, "lu", equation, operands)


@walked("lu_pivots_to_permutation")
def order_of_rows(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The order of rows that were swapped one after the other, by JAX."""
    return called(walk, "lu_pivots_to_permutation", equation, operands)


@walked("custom_linear_solve")
def linear_solve(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The solution of a system that is given by a product: with matrices, or whatever JAX solves it by."""
    matvec, fixed, right = internals.linear_system(equation, operands)
    if all(is_zero(as_node(traced(one))) for one in right):  # as for values by which a solution is not moved
        return [traced(np.zeros(out.aval.shape)) for out in equation.outvars]
    if len(fixed) == len(right) == 1:
        matrix, unknown = (
            variable(name, np.shape(value), [name])
            for name, value in (("matrix", fixed[0]), ("solution", right[0]))
        )
        (product,) = walk.closed(matvec, [Expression(matrix), Expression(unknown)])
        spec = _product(as_node(traced(product)), matrix, unknown)
        if spec is not None:
            return [_solved(*spec, traced(fixed[0]), traced(right[0]))]
    return called(walk, "custom_linear_solve", equation, operands)


def _product(product: Node, matrix: Node, unknown: Node) -> tuple[list[int], list[int], list[int]] | None:
    """The labels of the matrix, the unknown and the result, if it is the product of the two; else None."""
    if not isinstance(product, Einsum) or product.scale != 1 or set(product.operands) != {matrix, unknown}:
        return None
    of_matrix, of_unknown = (product.axes[product.operands.index(operand)] for operand in (matrix, unknown))
    if len(product.operands) != 2 or not all(
        axis.is_label for axis in (*of_matrix, *of_unknown, *product.output)
    ):
        return None
    labels = [[axis.label for axis in axes] for axes in (of_matrix, of_unknown, product.output)]
    inside, outside = set(labels[1]) - set(labels[2]), set(labels[2]) - set(labels[1])
    is_square = len(inside) == len(outside) == 1 and set(labels[0]) >= inside | outside
    return (
        (labels[0], labels[1], labels[2])
        if is_square and set(labels[0]) <= set(labels[1]) | outside
        else None
    )


def _solved(
    of_matrix: list[int], of_unknown: list[int], of_result: list[int], matrix: Any, right: Any
) -> Any:
    """The unknown in a product with matrices; further axes of it number right-hand sides."""
    (column,) = set(of_unknown) - set(of_result)
    (row,) = set(of_result) - set(of_unknown)
    batch = [label for label in of_matrix if label not in (row, column)]
    free = [label for label in of_unknown if label not in of_matrix]
    a = np.transpose(matrix, [of_matrix.index(label) for label in (*batch, row, column)])
    b = np.transpose(right, [of_result.index(label) for label in (*batch, row, *free)])
    flat = np.reshape(b, (*a.shape[:-1], -1)) if free else b
    found = np.reshape(Expression(linalg.solve(as_node(a), as_node(flat))), b.shape)
    order = [*batch, column, *free]
    return np.transpose(found, [order.index(label) for label in of_unknown])
