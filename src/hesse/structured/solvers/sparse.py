"""Sparse matrices: elimination in an order that keeps them sparse, or conjugate gradients."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.backends.target import Array
from hesse.ir import Node, remembered
from hesse.structured.base import Patterns
from hesse.structured.formulas import diagonal, times_vector
from hesse.structured.patterns import (
    count,
    same_positions,
    touched,
)
from hesse.structured.solvers.dense import DENSE_INSTEAD, dense
from hesse.structured.solvers.systems import Solver, accepted, check, singular, with_probe
from hesse.structured.sparse import to_sparse

SPARSE_ENTRIES = 8
"""A sparse solver is used when fewer than one entry in this many of the matrix (or its blocks) is touched."""

RESIDUAL = 1e4
"""A solution is accepted when its residual is this many roundings of its terms."""

SPARSE_FROM = 65
"""Smaller matrices are solved as dense ones."""


@remembered
def _is_sparse(node: Node, rank: int) -> bool:
    size = count(node.shape[:rank])
    block = size // count(tuple(node.shape[p] for p in same_positions(node, rank)))
    return size >= SPARSE_FROM and SPARSE_ENTRIES * touched(node) < size * block


def sparse(tensor: Patterns, damping: float) -> Solver | None:
    """A sparse matrix: LU decomposition with an order that keeps it sparse, or conjugate gradients."""
    rank, xp = tensor.groups[-1], tensor.target.algebra
    size = count(tensor.node.shape[:rank])
    if not _is_sparse(tensor.node, rank):
        return None
    if not xp.raises:
        if size <= DENSE_INSTEAD:
            return Solver("sparse", dense(tensor, damping).solve)
        return Solver(
            "sparse", lambda right: xp.compiled(_by_gradients)(tensor, right, damping), _not_positive
        )
    sparse_arrays = importlib.import_module("scipy.sparse")
    linalg = importlib.import_module("scipy.sparse.linalg")

    def solve(right: np.ndarray) -> np.ndarray:
        matrix = to_sparse(tensor, "csc").astype(right.dtype)
        if damping:
            matrix = matrix + sparse_arrays.diags_array(np.full(size, damping, right.dtype), format="csc")
        flat = right.reshape(size, -1)
        return _by_elimination(xp, linalg, matrix, flat).reshape(right.shape)

    return Solver("sparse", solve)


def _not_positive(size: int) -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError(
        f"conjugate gradients did not converge for a sparse system of {size} equations; they need a "
        "symmetric positive definite matrix (try a larger damping=), "
        "and NumPy arrays are solved by elimination instead"
    )


def _by_gradients(xp: Any, tensor: Patterns, right: Array, damping: float) -> Array:
    """Conjugate gradients, with a second start from the residual of the first, scaled by the diagonal."""
    rank, shape, parts = tensor.groups[-1], tuple(right.shape), list(tensor.parts.values())

    def product(arrays: Sequence[Array], x: Array) -> Array:
        return tensor.over(arrays).run(times_vector, rank, shape, vector=x) + damping * x

    def precondition(x: Array) -> Array:
        return x / line[..., None]

    line = tensor.run(diagonal, rank) + damping
    eps = float(xp.finfo(right.dtype).eps)
    solution = xp.conjugate_gradients(product, parts, right, precondition, 10 * eps)
    rest = right - product(parts, solution)
    solution = solution + xp.conjugate_gradients(product, parts, rest, precondition, eps)
    residual = right - product(parts, solution)
    # The largest entry of the diagonal is at most the norm of a positive definite matrix.
    limit = RESIDUAL * eps * xp.amax(line) * xp.amax(xp.abs(solution))
    is_fine = (xp.amax(xp.abs(residual)) <= limit) & (line > 0).all()
    return accepted(xp, solution, is_fine, math.prod(shape[:rank]))


def _by_elimination(xp: Any, linalg: Any, matrix: Any, right: np.ndarray) -> np.ndarray:
    """Pivots on the diagonal where the matrix is symmetric and that is accurate, else partial pivoting."""
    norm = np.abs(matrix).sum(0).max()
    limit = RESIDUAL * np.finfo(right.dtype).eps * norm
    settings: list[dict[str, Any]] = [{}]
    if np.abs((matrix - matrix.T).data).max(initial=0.0) <= limit:
        on_diagonal = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        settings.insert(0, {"permc_spec": "MMD_AT_PLUS_A", **on_diagonal})
    both = with_probe(xp, right)
    for setting in settings:
        try:
            with np.errstate(all="ignore"):
                solution = linalg.splu(matrix, **setting).solve(both)
                residual = np.abs(matrix @ solution - both).max()
        except RuntimeError:  # a pivot is exactly zero
            continue
        if residual <= limit * np.abs(solution).max():
            return np.asarray(check(xp, solution[:, :-1], norm * np.abs(solution[:, -1]).max()))
    raise singular(len(right))
