"""JAX's linear algebra for solvers: see `hesse.backends.algebra`."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.sparse.linalg
import numpy as np

from hesse.backends.algebra import MOST_STEPS, places, probe
from hesse.backends.jax.records import XP
from hesse.backends.records import Namespace


def _is_hidden(*arrays: Any) -> bool:
    return any(isinstance(array, jax.core.Tracer) for array in arrays)


@functools.lru_cache(maxsize=256)
def _compiled(function: Callable[..., Any], *settings: Any) -> Callable[..., Any]:
    jitted: Callable[..., Any] = jax.jit(partial(function, ALGEBRA, *settings))
    return jitted


def _iterated(step: Callable[[Any], Any], times: int, state: Any) -> Any:
    return jax.lax.fori_loop(0, times, lambda _, state: step(state), state)


def _solve_positive(matrix: Any, right: Any) -> Any:
    return jax.scipy.linalg.cho_solve((XP.linalg.cholesky(matrix), True), right)


def _conjugate_gradients(
    product: Callable[..., Any],
    parts: list[Any],
    right: Any,
    precondition: Callable[[Any], Any],
    tolerance: float,
) -> Any:
    return jax.scipy.sparse.linalg.cg(
        lambda x: product(parts, x), right, tol=tolerance, maxiter=MOST_STEPS, M=precondition
    )[0]


def _probe(size: int, like: Any) -> Any:
    return probe(XP, size, like).astype(like.dtype)


def _sparse(values: Any, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], layout: str) -> Any:
    formats = importlib.import_module("jax.experimental.sparse")
    found = places(rows, columns, shape)
    summed = jnp.zeros(len(found.rows), values.dtype).at[found.which].add(values)
    at = jnp.stack([found.rows, found.columns], 1)
    matrix = formats.BCOO((summed, at), shape=shape, indices_sorted=True, unique_indices=True)
    return formats.BCSR.from_bcoo(matrix) if layout == "csr" else matrix


ALGEBRA = Namespace(
    jnp,
    add_to_diagonal=lambda matrices, amount: matrices + amount * XP.eye(matrices.shape[-1], matrices),
    arange=XP.arange,
    compiled=_compiled,
    conjugate_gradients=_conjugate_gradients,
    eye=XP.eye,
    in_order=lambda array: array,
    is_fixed=lambda *arrays: not _is_hidden(*arrays),
    is_hidden=_is_hidden,
    iterated=_iterated,
    linalg=XP.linalg,
    probe=_probe,
    quiet=contextlib.nullcontext,
    raises=False,
    solve_positive=jax.jit(_solve_positive),
    solve_tridiagonal=jax.lax.linalg.tridiagonal_solve,
    sparse=_sparse,
    sparse_layouts=("coo", "csr"),
    zeros=XP.zeros,
)
