"""Linear algebra of ATen, on the last two axes; any axes before them are a batch.

PyTorch's operations give factors and error codes besides what is asked for. The codes say that all is well,
since a program that meets a singular matrix raises an error. The factors are foreign functions, which are
computed only if somebody reads them. Decompositions without a handler (svd, qr) are foreign as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hesse.frontends.aten.foreign import called
from hesse.frontends.aten.reductions import vector_norm
from hesse.frontends.aten.table import aten, enter
from hesse.frontends.aten.tensor import TracedTensor, fresh, known
from hesse.frontends.expression import Expression
from hesse.frontends.linear_algebra import system
from hesse.frontends.operands import as_node
from hesse.frontends.special import expm, stop_gradient
from hesse.ir import Apply, Node
from hesse.ops import linalg, matrices
from hesse.ops.foreign import FOREIGN, foreign, rule_of
from hesse.ops.registry import operation

LU_FACTOR = "linalg_lu_factor_ex"
SVD = "_linalg_svd"

for _names, _function in {
    ("linalg_inv", "inverse"): np.linalg.inv,
    ("linalg_det", "det"): np.linalg.det,
    ("linalg_matrix_power", "matrix_power"): np.linalg.matrix_power,
    ("linalg_matrix_exp", "matrix_exp"): expm,
    ("linalg_multi_dot",): np.linalg.multi_dot,
}.items():
    enter(_names, lambda *values, _function=_function: _function(*values))


def _fine(a: Any) -> TracedTensor:
    """The error codes of a batch: none."""
    return known(torch.zeros(a.shape[:-2], dtype=torch.int32))


def _called(name: str, function: Any, a: Any, *options: Any) -> tuple[Any, ...]:
    """A decomposition as a foreign function of a matrix."""
    matrix = fresh(a, torch.float64, torch.device("cpu"))
    results: tuple[Any, ...] = called(name, function, (matrix, *options), {})
    return results


def _factored(a: Any) -> tuple[Any, Any]:
    """The triangular factors in one matrix, and the pivots."""
    factors, pivots, _ = _called(LU_FACTOR, torch.ops.aten.linalg_lu_factor_ex.default, a)
    return factors, pivots


def _singular_values(a: Any) -> Any:
    """In descending order."""
    return _called(SVD, torch.ops.aten._linalg_svd.default, a, False, True)[1]


@aten(LU_FACTOR)
def lu_factor(a: Any, pivot: bool = True, check_errors: bool = False) -> Any:
    """The factors, the pivots and the error codes."""
    return (*_factored(a), _fine(a)) if pivot else NotImplemented


@aten("_linalg_check_errors")
def check_errors(*_: Any, **__: Any) -> None:
    """Nothing: programs raise errors themselves."""


@aten("linalg_inv_ex")
def inverse(a: Any, check_errors: bool = False) -> Any:
    """The inverse and the error codes."""
    return np.linalg.inv(a), _fine(a)


@aten("_linalg_det")
def determinant(a: Any) -> Any:
    """The determinant, the factors and the pivots."""
    return (np.linalg.det(a), *_factored(a))


@aten("linalg_slogdet", "slogdet")
def sign_and_logarithm(a: Any) -> Any:
    """The sign of the determinant and the logarithm of its absolute value."""
    return tuple(np.linalg.slogdet(a))


@aten("_linalg_slogdet")
def sign_and_logarithm_factored(a: Any) -> Any:
    """The same, the factors and the pivots."""
    return (*sign_and_logarithm(a), *_factored(a))


@aten("logdet")
def logdet(a: Any) -> Any:
    """The logarithm of the determinant: not a number where that is negative."""
    sign, logarithm = np.linalg.slogdet(a)
    return np.where(np.less(sign, 0.0), math.nan, logarithm)


def _is_vector(a: Any, b: Any) -> bool:
    """Whether a right-hand side holds vectors and not matrices."""
    return bool(b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]))


@aten("linalg_solve")
def solve(a: Any, b: Any, left: bool = True) -> Any:
    """The solution of `a x = b`, or of `x a = b`."""
    if _is_vector(a, b):
        matrix = a if left else a.mT
        right = np.broadcast_to(b, matrix.shape[:-1])
        return Expression(linalg.solve(as_node(matrix), as_node(right)))
    return np.linalg.solve(a, b) if left else np.linalg.solve(a.mT, b.mT).mT


@aten("linalg_solve_ex")
def solve_ex(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Any:
    """The solution and the error codes."""
    return solve(a, b, left), _fine(a)


@aten("_linalg_solve_ex")
def solve_factored(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Any:
    """The solution, the factors, the pivots and the error codes."""
    return (solve(a, b, left), *_factored(a), _fine(a))


@aten("linalg_lu_solve")
def lu_solve(factors: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    """The solution of `a x = b` for the factors of `a`."""
    matrix = _factored_matrix(factors, pivots)
    return NotImplemented if matrix is None else solve(matrix.mT if adjoint else matrix, b, left)


@aten("lu_unpack")
def lu_unpack(factors: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The permutation and the triangular factors of a matrix."""
    matrix = _factored_matrix(factors, pivots)
    if matrix is None:
        return NotImplemented
    permutation = _called("linalg_lu", torch.ops.aten.linalg_lu.default, matrix)[0]
    rows, columns = matrix.shape[-2:]
    count = min(rows, columns)
    lower = np.add(np.tril(factors[..., :count], -1), np.eye(rows, count))
    return permutation, lower, np.triu(factors[..., :count, :])


def _factored_matrix(factors: Any, pivots: Any) -> Any:
    """The matrix that was factored, if these are its factors and pivots, else None."""
    node = factors.node
    if not isinstance(node, Apply) or node.name != FOREIGN or rule_of(node).name != LU_FACTOR:
        return None
    index = None if pivots.index is None else pivots.index.as_node()
    if index is not foreign(rule_of(node), *node.operands)[1]:
        return None
    return Expression(node.operands[0])


@aten("linalg_solve_triangular")
def triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """The solution of `a x = b`, or of `x a = b`, reading one triangle of `a`."""
    if not left:
        return triangular(a.mT, b.mT, not upper, True, unitriangular).mT
    if unitriangular:
        inside = np.triu(a, 1) if upper else np.tril(a, -1)
        a = np.add(inside, np.eye(a.shape[-1]))
    return Expression(linalg.triangular_solve(*system("solve_triangular", a, b), lower=not upper))


@aten("triangular_solve")
def triangular_old(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The same, and the matrix."""
    matrix = a.mT if transpose else a
    return triangular(matrix, b, upper != transpose, True, unitriangular), a


def _symmetric(a: Any, lower: bool) -> Node:
    """The symmetric matrices of which one triangle is read; derivatives are those by symmetric changes.

    So does PyTorch: the gradient by a symmetric matrix is symmetric, too.
    """
    read, part = matrices.symmetric(as_node(a), lower), matrices.symmetric_part(as_node(a))
    return part if read is part else part + stop_gradient(Expression(read - part)).node


@aten("linalg_cholesky", "cholesky")
def cholesky(a: Any, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices."""
    factor = Expression(operation("cholesky", _symmetric(a, not upper)))
    return factor.mT if upper else factor


@aten("linalg_cholesky_ex")
def cholesky_ex(a: Any, upper: bool = False, check_errors: bool = False) -> Any:
    """The factor and the error codes."""
    return cholesky(a, upper), _fine(a)


@aten("cholesky_solve")
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """The solution of `l l' x = b`, or of `u' u x = b`."""
    lower = factor.mT if upper else factor
    return triangular(lower.mT, triangular(lower, b, upper=False), upper=True)


@aten("cholesky_inverse")
def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    """The inverse of `l l'`, or of `u' u`."""
    return cholesky_solve(Expression(as_node(np.eye(factor.shape[-1]))), factor, upper)


@aten("_linalg_eigh", "linalg_eigh")
def eigh(a: Any, triangle: str = "L", compute_v: bool = True) -> Any:
    """Eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read."""
    matrix = _symmetric(a, triangle != "U")
    return Expression(operation("eigvalsh", matrix)), Expression(operation("eigenvectors", matrix))


@aten("linalg_eigvalsh")
def eigvalsh(a: Any, triangle: str = "L") -> Any:
    """Eigenvalues of symmetric matrices."""
    return eigh(a, triangle)[0]


@aten("linalg_pinv", "pinverse")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, atol: Any = None, rtol: Any = None) -> Any:
    """The pseudo-inverse of matrices of full rank; where singular values are cut off, PyTorch's own."""
    negligible = max(a.shape[-2:]) * float(np.finfo(float).eps)
    if any(
        isinstance(tolerance, Expression) or (tolerance is not None and tolerance > negligible)
        for tolerance in (rcond, atol, rtol)
    ):
        return NotImplemented
    return np.linalg.pinv(a)


@aten("linalg_lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None, driver: str | None = None) -> Any:
    """The shortest solution of least squares, its residuals, the rank and the singular values."""
    if driver in ("gelss", "gelsd"):
        return NotImplemented
    right = np.expand_dims(b, -1) if _is_vector(a, b) else b
    solution = np.matmul(np.linalg.pinv(a), right)
    rank = known(torch.full(a.shape[:-2], min(a.shape[-2:])))
    residuals: Any = known(torch.empty(0))
    if driver == "gels" and a.shape[-2] > a.shape[-1]:
        residual = np.subtract(np.matmul(a, solution), right)
        residuals = np.sum(np.multiply(residual, residual), -2)
    solution = np.squeeze(solution, -1) if _is_vector(a, b) else solution
    return solution, residuals, rank, known(torch.empty(0))


@aten("linalg_cross", "cross")
def cross(a: Any, b: Any, dim: int | None = -1) -> Any:
    """The vector product of three components."""
    if dim is None:
        dim = next(k for k, size in enumerate(a.shape) if size == 3)
    first, second = np.broadcast_arrays(a, b)
    return np.cross(first, second, axis=dim)


def _axes(x: Any, dim: Any) -> tuple[int, ...]:
    chosen = range(x.ndim) if dim is None or dim == [] else (dim,) if isinstance(dim, int) else dim
    return tuple(k % x.ndim for k in chosen) if x.ndim else ()


def _kept(value: Any, axes: Sequence[int], keepdim: bool) -> Any:
    return np.expand_dims(value, tuple(axes)) if keepdim and axes else value


@aten("frobenius_norm")
def frobenius_norm(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The root of the sum of all squares."""
    return vector_norm(x, 2, dim, keepdim)


@aten("linalg_matrix_norm")
def matrix_norm(
    x: Any, order: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, dtype: Any = None
) -> Any:
    """The norm of the matrices of two axes."""
    axes = _axes(x, dim)
    if order == "fro":
        return vector_norm(x, 2, axes, keepdim)
    matrices = np.moveaxis(x, axes, (-2, -1))
    if order in (1, -1, math.inf, -math.inf):
        lengths = vector_norm(matrices, 1, -2 if abs(order) == 1 else -1)
        value = vector_norm(lengths, math.copysign(math.inf, order), -1)
    else:
        values = _singular_values(matrices)
        value = np.sum(values, -1) if order == "nuc" else values[..., 0 if order == 2 else -1]
    return _kept(value, sorted(axes), keepdim)


@aten("nuclear_norm")
def nuclear_norm(x: Any, dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Any:
    """The sum of the singular values."""
    return matrix_norm(x, "nuc", dim or (-2, -1), keepdim)
