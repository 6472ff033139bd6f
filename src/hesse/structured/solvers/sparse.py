"""Sparse matrices: elimination in an order that keeps them sparse."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from hesse.ir import Node, remembered
from hesse.structured.base import Patterns
from hesse.structured.patterns import (
    count,
    same_positions,
    touched,
)
from hesse.structured.solvers.systems import Solver, check, probe, singular
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
    """A sparse matrix: LU decomposition with an order that keeps it sparse."""
    rank = tensor.groups[-1]
    size = count(tensor.node.shape[:rank])
    if not _is_sparse(tensor.node, rank):
        return None
    sparse_arrays = importlib.import_module("scipy.sparse")
    linalg = importlib.import_module("scipy.sparse.linalg")

    def solve(right: np.ndarray) -> np.ndarray:
        matrix = to_sparse(tensor, "csc").astype(right.dtype)
        if damping:
            matrix = matrix + sparse_arrays.diags_array(np.full(size, damping, right.dtype), format="csc")
        flat = right.reshape(size, -1)
        return _by_elimination(linalg, matrix, flat).reshape(right.shape)

    return Solver("sparse", solve)


def _by_elimination(linalg: Any, matrix: Any, right: np.ndarray) -> np.ndarray:
    """Pivots on the diagonal where the matrix is symmetric and that is accurate, else partial pivoting."""
    norm = np.abs(matrix).sum(0).max()
    limit = RESIDUAL * np.finfo(right.dtype).eps * norm
    settings: list[dict[str, Any]] = [{}]
    if np.abs((matrix - matrix.T).data).max(initial=0.0) <= limit:
        on_diagonal = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        settings.insert(0, {"permc_spec": "MMD_AT_PLUS_A", **on_diagonal})
    both = np.concatenate([right, probe(len(right), right.dtype)], 1)
    for setting in settings:
        try:
            with np.errstate(all="ignore"):
                solution = linalg.splu(matrix, **setting).solve(both)
                residual = np.abs(matrix @ solution - both).max()
        except RuntimeError:  # a pivot is exactly zero
            continue
        if residual <= limit * np.abs(solution).max():
            return check(solution[:, :-1], norm * np.abs(solution[:, -1]).max())
    raise singular(len(right))
