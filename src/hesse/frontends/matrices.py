"""Functions of `scipy.linalg` in terms of NumPy's, for traced values and for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.special import solve_triangular


def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The triangular factor of a positive definite matrix, and which triangle it is."""
    return np.linalg.cholesky(a, upper=not lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """The solution of `a @ x = b`, given what `cho_factor` returns for `a`."""
    factor, lower = c_and_lower
    first, second = (factor, factor.T) if lower else (factor.T, factor)
    return solve_triangular(second, solve_triangular(first, b, lower=True))


def toeplitz(c: Any, r: Any = None) -> Any:
    """A matrix with constant diagonals: its first column and its first row."""
    row = c if r is None else r
    if np.ndim(c) != 1 or np.ndim(row) != 1:
        raise ShapeError(f"toeplitz needs vectors, not the shapes {np.shape(c)} and {np.shape(row)}")
    rows, columns = np.shape(c)[0], np.shape(row)[0]
    diagonals = np.concatenate([np.flip(row)[: columns - 1], c])
    return diagonals[np.arange(rows)[:, None] - np.arange(columns) + columns - 1]


def block_diag(*arrays: Any) -> Any:
    """Matrices one after the other on the diagonal of a larger one."""
    blocks = [np.atleast_2d(array) for array in arrays]
    rows = []
    for k, block in enumerate(blocks):
        widths = [np.shape(other)[1] for other in blocks]
        height = np.shape(block)[0]
        rows.append([block if k == m else np.zeros((height, width)) for m, width in enumerate(widths)])
    return np.block(rows)
