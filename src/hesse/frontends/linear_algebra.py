"""`np.linalg` on the last two axes, any axes before them being a batch."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node, expand, known_sizes
from hesse.ir import Node, common_shape
from hesse.ops import linalg, spectra


class SignAndLogarithm(NamedTuple):
    """The result of `np.linalg.slogdet`."""

    sign: Expression
    logabsdet: Expression


class Eigensystem(NamedTuple):
    """The result of `np.linalg.eigh`."""

    eigenvalues: Expression
    eigenvectors: Expression


def _square(name: str, value: Any) -> Node:
    node = as_node(value)
    if node.rank < 2 or node.shape[-1] != node.shape[-2]:
        raise ShapeError(f"{name} needs square matrices, not the shape {node.shape}")
    return node


@implements(np.linalg.inv)
def inv(a: Any) -> Expression:
    """The inverse."""
    return Expression(linalg.inverse(_square("inv", a)))


@implements(np.linalg.det)
def det(a: Any) -> Expression:
    """The determinant."""
    return Expression(linalg.determinant(_square("det", a)))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> SignAndLogarithm:
    """The sign of the determinant and the logarithm of its absolute value."""
    node = _square("slogdet", a)
    return SignAndLogarithm(
        Expression(linalg.sign_determinant(node)), Expression(linalg.log_determinant(node))
    )


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Expression:
    """The solution of `a @ x = b`; `b` is a vector if it has one axis, else matrices."""
    return Expression(linalg.solve(*system("solve", a, b)))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The x of which `np.tensordot(a, x, x.ndim)` is b."""
    matrix, right = Expression(as_node(a)), Expression(as_node(b))
    if axes is not None:
        others = [k for k in range(matrix.ndim) if k not in axes]
        matrix = matrix.transpose(*others, *axes)
    sizes = known_sizes("tensorsolve", right.shape)
    shape = known_sizes("tensorsolve", matrix.shape[right.ndim :])
    if matrix.shape[: right.ndim] != right.shape or math.prod(shape) != math.prod(sizes):
        raise ShapeError(f"tensorsolve: the shapes {matrix.shape} and {right.shape} do not fit together")
    count = math.prod(sizes)
    return solve(matrix.reshape(count, count), right.reshape(count)).reshape(shape)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of a tensor whose first axes are rows and whose others are columns."""
    tensor = Expression(as_node(a))
    sizes = known_sizes("tensorinv", tensor.shape)
    rows, columns = sizes[:ind], sizes[ind:]
    if ind < 1 or math.prod(rows) != math.prod(columns):
        raise ShapeError(f"tensorinv: the shape {tensor.shape} is no square matrix with ind={ind}")
    count = math.prod(rows)
    return inv(tensor.reshape(count, count)).reshape(columns + rows)


def system(name: str, a: Any, b: Any) -> tuple[Node, Node]:
    """The matrices and right-hand sides of linear equations, their batches broadcast."""
    matrix, right = _square(name, a), as_node(b)
    tail = min(right.rank, 2)
    if not tail or right.shape[-tail] != matrix.shape[-1]:
        raise ShapeError(f"{name}: the shapes {matrix.shape} and {right.shape} do not fit together")
    batch = common_shape(name, [matrix.shape[:-2], right.shape[:-tail]])
    return expand(matrix, batch + matrix.shape[-2:]), expand(right, batch + right.shape[-tail:])


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices, of which the same triangle is read."""
    lower = Expression(linalg.cholesky(_square("cholesky", a), lower=not upper))
    return lower.mT if upper else lower


def _is_lower(UPLO: str) -> bool:
    """Which triangle is read."""
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"UPLO is 'L' or 'U', not {UPLO!r}")
    return UPLO.upper() == "L"


@implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Expression:
    """An integer power."""
    return Expression(linalg.matrix_power(_square("matrix_power", a), operator.index(n)))


@implements(np.linalg.pinv)
def pinv(a: Any) -> Expression:
    """The pseudo-inverse of matrices of full rank."""
    node = as_node(a)
    if node.rank < 2:
        raise ShapeError(f"pinv needs matrices, not the shape {node.shape}")
    return Expression(linalg.pseudo_inverse(node))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Expression:
    """The eigenvalues of symmetric matrices, of which one triangle is read, in ascending order."""
    return Expression(spectra.eigvalsh(_square("eigvalsh", a), _is_lower(UPLO)))


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Eigensystem:
    """The same, and the eigenvectors as columns."""
    node, lower = _square("eigh", a), _is_lower(UPLO)
    return Eigensystem(
        Expression(spectra.eigvalsh(node, lower)), Expression(spectra.eigenvectors(node, lower))
    )
