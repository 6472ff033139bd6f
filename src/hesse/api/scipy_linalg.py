"""Functions of `scipy.linalg` for traced values, with SciPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.api.matrix_functions import logm, sqrtm
from hesse.frontends import matrices, special
from hesse.frontends.standing_in import Function

GENERAL = (None, "gen", "general", "banded")
PARTS: dict[str | None, Function] = {
    "diagonal": lambda a: np.tril(np.triu(a)),
    "tridiagonal": lambda a: np.tril(np.triu(a, -1), 1),
    "lower triangular": np.tril,
    "upper triangular": np.triu,
}
SYMMETRIC = ("sym", "symmetric", "her", "hermitian", "pos", "positive definite")


class SciPyKnowsMore(Exception):
    """A stand-in does not know what an option asks for."""


def _whole(a: Any, lower: bool) -> Any:
    """The symmetric matrix of which one triangle is read."""
    triangle, off = (np.tril(a), np.tril(a, -1)) if lower else (np.triu(a), np.triu(a, 1))
    return triangle + off.mT


def solve(
    a: Any, b: Any, lower: bool = False, *, assume_a: str | None = None, transposed: bool = False
) -> Any:
    """The solution of linear equations; of a matrix that is said to be special only a part is read."""
    if assume_a in SYMMETRIC:
        a = _whole(a, lower)
    elif assume_a in PARTS:
        a = PARTS[assume_a](a)
    elif assume_a not in GENERAL:
        raise SciPyKnowsMore
    return np.linalg.solve(a.mT if transposed else a, b)


def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """The solution of linear equations with a triangular matrix."""
    if unit_diagonal:
        triangle = np.tril(a, -1) if lower else np.triu(a, 1)
        a = triangle + np.eye(np.shape(a)[-1])
    is_turned = trans not in (0, "N")
    return special.solve_triangular(a.mT if is_turned else a, b, lower != is_turned)


def cholesky(a: Any, lower: bool = False) -> Any:
    """The triangular factor of a positive definite matrix."""
    return np.linalg.cholesky(a, upper=not lower)


def eigvalsh(a: Any, b: Any = None, *, lower: bool = True) -> Any:
    """The eigenvalues of a symmetric matrix, or of two of them."""
    if b is None:
        return np.linalg.eigvalsh(a, "L" if lower else "U")
    factor = np.linalg.cholesky(b, upper=not lower)
    factor = factor if lower else factor.mT
    return np.linalg.eigvalsh(_congruent(_whole(a, lower), factor))


def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False) -> Any:
    """The eigenvalues and eigenvectors of a symmetric matrix, or of two of them."""
    if eigvals_only:
        return eigvalsh(a, b, lower=lower)
    if b is None:
        return np.linalg.eigh(a, "L" if lower else "U")
    factor = np.linalg.cholesky(b, upper=not lower)
    factor = factor if lower else factor.mT
    values, vectors = np.linalg.eigh(_congruent(_whole(a, lower), factor))
    return values, special.solve_triangular(factor.mT, vectors)


def _congruent(a: Any, factor: Any) -> Any:
    """`inv(L) a inv(L)'` for a lower triangular matrix L."""
    half = special.solve_triangular(factor, a, lower=True)
    return special.solve_triangular(factor, half.mT, lower=True)


def qr(a: Any, *, mode: str = "full") -> Any:
    """Orthonormal columns and a triangular matrix."""
    if mode == "r":  # of the shape that it has in the full decomposition
        found = np.linalg.qr(a, mode="r")
        missing = np.shape(a)[-2] - np.shape(found)[-2]
        return (np.pad(found, ((0, missing), (0, 0))),)
    return np.linalg.qr(a, mode="reduced" if mode == "economic" else "complete")


def lstsq(a: Any, b: Any) -> Any:
    """The solution of least squares, the squared residuals, the rank and the singular values."""
    solution, residuals, rank, values = np.linalg.lstsq(a, b, rcond=None)
    return solution, residuals[0] if np.ndim(b) == 1 and len(residuals) else residuals, rank, values


def pinv(a: Any) -> Any:
    """The pseudo-inverse."""
    return np.linalg.pinv(a)


def circulant(c: Any) -> Any:
    """The matrix whose columns are one vector, turned on."""
    return matrices.toeplitz(c, np.roll(c[::-1], 1))


def hankel(c: Any, r: Any = None) -> Any:
    """A matrix with constant diagonals from below, by its first column and its last row."""
    row = np.zeros(len(c)) if r is None else r
    entries = np.concatenate([c, row[1:]])
    return entries[np.arange(len(c))[:, None] + np.arange(len(row))]


def solve_toeplitz(c_or_cr: Any, b: Any) -> Any:
    """The solution of linear equations with constant diagonals."""
    pair = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)
    return np.linalg.solve(matrices.toeplitz(*pair), b)


def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Any:
    """The solution of linear equations with few diagonals, which are the rows of `ab`."""
    below, above = l_and_u
    size = np.shape(ab)[1]
    bands = []
    for row, offset in enumerate(range(above, -below - 1, -1)):
        first, last = max(0, offset), size + min(0, offset)
        bands.append(np.diag(ab[row][first:last], offset))
    return np.linalg.solve(sum(bands[1:], bands[0]), b)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The X with `a X + X b = q`."""
    rows, columns = np.shape(q)
    whole = np.kron(a, np.eye(columns)) + np.kron(np.eye(rows), b.T)
    return np.linalg.solve(whole, np.reshape(q, -1)).reshape(rows, columns)


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The X with `a X + X a' = q`."""
    return solve_sylvester(a, np.transpose(a), q)


def solve_discrete_lyapunov(a: Any, q: Any) -> Any:
    """The X with `a X a' - X + q = 0`."""
    size = np.shape(a)[0]
    found = np.linalg.solve(np.eye(size * size) - np.kron(a, a), np.reshape(q, -1))
    return found.reshape(size, size)


LINEAR_ALGEBRA: dict[str, Function] = {
    **{function.__name__: function for function in (solve, solve_triangular, cholesky, eigvalsh, eigh, qr)},
    **{function.__name__: function for function in (lstsq, pinv, circulant, hankel, logm, sqrtm)},
    **{function.__name__: function for function in (solve_toeplitz, solve_banded, solve_sylvester)},
    **{function.__name__: function for function in (solve_continuous_lyapunov, solve_discrete_lyapunov)},
    **{name: getattr(matrices, name) for name in ("cho_factor", "cho_solve", "toeplitz", "block_diag")},
    "det": np.linalg.det,
    "expm": special.expm,
    "inv": np.linalg.inv,
    "norm": lambda a, ord=None, axis=None, keepdims=False: np.linalg.norm(a, ord, axis, keepdims),
    "svd": lambda a, full_matrices=True, compute_uv=True: np.linalg.svd(a, full_matrices, compute_uv),
    "svdvals": np.linalg.svdvals,
}
