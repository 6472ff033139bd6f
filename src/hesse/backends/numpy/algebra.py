"""NumPy's linear algebra for solvers: see `hesse.backends.algebra`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hesse.backends.numpy.records import XP
from hesse.backends.records import Namespace


@functools.lru_cache(maxsize=64)
def _probe(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    generator = np.random.default_rng(0)
    signs = generator.choice([-1.0, 1.0], (size, 1))
    column: np.ndarray = (signs * generator.uniform(0.5, 1.0, (size, 1))).astype(dtype)
    column.setflags(write=False)
    return column


def _add_to_diagonal(matrices: np.ndarray, amount: float) -> np.ndarray:
    np.einsum("...ii->...i", matrices)[...] += amount
    return matrices


def _solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    lapack = importlib.import_module("scipy.linalg.lapack")
    posv = lapack.sposv if matrix.dtype == np.float32 else lapack.dposv
    _, solution, info = posv(matrix.T, right, lower=True)
    return np.asarray(solution) if info == 0 else None


def _sparse(
    values: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], layout: str
) -> Any:
    matrix = importlib.import_module("scipy.sparse").coo_array((values, (rows, columns)), shape)
    matrix.sum_duplicates()
    return matrix.asformat(layout)


def _compiled(function: Callable[..., Any], *settings: Any) -> Callable[..., Any]:
    return partial(function, ALGEBRA, *settings)


ALGEBRA = Namespace(
    np,
    add_to_diagonal=_add_to_diagonal,
    arange=XP.arange,
    compiled=_compiled,
    eye=XP.eye,
    in_order=partial(np.asarray, order="C"),
    is_fixed=lambda *arrays: True,
    is_hidden=lambda *arrays: False,
    probe=lambda size, like: _probe(size, like.dtype),
    quiet=partial(np.errstate, all="ignore"),
    raises=True,
    solve_positive=_solve_positive,
    sparse=_sparse,
    sparse_layouts=("csr", "bsr", "coo", "csc", "dia", "dok", "lil"),
    zeros=XP.zeros,
)
