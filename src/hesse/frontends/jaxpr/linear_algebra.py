"""Factorizations and triangular systems, on the last two axes. Those without a handler are JAX's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.table import primitive, traced
from hesse.frontends.operands import as_node
from hesse.frontends.special import stop_gradient
from hesse.ops import linalg
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
    part, read = linalg.symmetric_part(as_node(a)), linalg.symmetric(as_node(a), lower)
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
