"""JAX functions that read and write by integers, put entries in order, and reduce running windows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_cases import Case

ROWS = np.array([1, -1])
PLACES = np.array([3, 0, 0, 2])
MASK = np.array([True, False, True, True])
FAR = np.array([7, -9])
LABELS = np.array([0, 2, 0, 1])
PAIRS = np.array([[1, 2, -1], [0, 0, 3]])


def _known(functions: dict[str, Any], order: int = 2) -> list[Case]:
    return [Case(name, function, ((4, 3),), order=order) for name, function in functions.items()]


def _traced(integers: np.ndarray, functions: dict[str, Any], order: int = 2) -> list[Case]:
    return [
        Case(name, function, ((4, 3),), order=order, further=(integers,))
        for name, function in functions.items()
    ]


READ_KNOWN = _known(
    {
        "rows from the end": lambda x: x[ROWS] ** 2,
        "rows repeated": lambda x: x[PLACES] ** 3,
        "columns": lambda x: x[:, np.array([2, 0, 0])] ** 2,
        "entries": lambda x: x[ROWS, ROWS] ** 2,
        "a grid": lambda x: x[np.ix_([0, 2], [0, 2])] ** 2,
        "apart": lambda x: x[None, :, :][:, ROWS, None, ROWS] ** 2,
        "a mask": lambda x: x[MASK] ** 2,
        "a mask of entries": lambda x: x[np.arange(12).reshape(4, 3) % 5 == 1] ** 2,
        "upper triangle": lambda x: x[np.triu_indices(3)] ** 2,
        "diagonal": lambda x: jnp.diag(x[:3]) ** 2,
        "diagonal beside": lambda x: jnp.diag(x[:3], 1) ** 2,
        "diagonal matrix": lambda x: jnp.diag(x[0]) @ x.T,
        "diagonal matrix beside": lambda x: jnp.diag(x[0], -1)[:, :3] * x,
        "take": lambda x: jnp.take(x, PLACES, axis=0) ** 2,
        "take of all": lambda x: jnp.take(x, np.array([[0, 5], [11, 5]])) ** 2,
        "take along": lambda x: jnp.take_along_axis(x, PAIRS, axis=0) ** 2,
        "repeat": lambda x: jnp.repeat(x, 2, axis=0) ** 2,
        "repeat by numbers": lambda x: jnp.repeat(x, np.array([1, 2, 0, 3]), axis=0) ** 2,
        "delete": lambda x: jnp.delete(x, 1, axis=0) ** 2,
        "trace of a part": lambda x: jnp.trace(x[1:]) ** 2,
        "interpolation": lambda x: jnp.interp(x[0], jnp.array([-3.0, 0.0, 1.0, 3.0]), x[:, 0]),
        "toeplitz": lambda x: jax.scipy.linalg.toeplitz(x[0]) ** 2,
        "block diagonal": lambda x: jax.scipy.linalg.block_diag(x[:2], x[2:] ** 2),
        "reflected margins": lambda x: jnp.pad(x, 2, mode="reflect") ** 2,
        "repeated margins": lambda x: jnp.pad(x, 1, mode="edge") ** 2,
        "chosen": lambda x: jnp.choose(np.array([0, 1, 0]), [x[0] ** 2, x[1]], mode="clip"),
    },
    order=1,
)

READ_TRACED = [
    *_traced(
        ROWS,
        {
            "traced rows": lambda x, i: x[i] ** 2,
            "a traced row": lambda x, i: x[i[0]] ** 2,
            "traced entries": lambda x, i: x[i, i + 1] ** 2,
            "traced rows of a column": lambda x, i: x[i, 1] ** 2,
            "a traced grid": lambda x, i: x[i[:, None], i] ** 2,
            "traced columns": lambda x, i: jnp.take(x, i, axis=1) ** 2,
            "a traced window": lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 2)) ** 2,
            "traced rows side by side": lambda x, i: lax.dynamic_slice_in_dim(x, i[0], 2) ** 2,
            "a traced roll": lambda x, i: jnp.roll(x, i[0], axis=0) ** 2,
            "traced truth values": lambda x, i: jnp.where((x > 0)[i], x[:2] ** 2, 0.0),
            "a table of integers": lambda x, i: x[jnp.array([1, 3, 0, 2])[i]] ** 2,
            "whole numbers": lambda x, i: x * (jnp.sum(i) // 2) + x**2 * (jnp.abs(i) % 2)[0],
            "powers of integers": lambda x, i: x[i**2] * (i[0] ** 2) + x[jnp.maximum(i, 0)],
        },
    ),
    *_traced(
        FAR,
        {
            "rows outside": lambda x, i: x[i] ** 2,
            "outside, clipped": lambda x, i: jnp.take(x, i, axis=1, mode="clip") ** 2,
            "outside, wrapped": lambda x, i: jnp.take(x, i, axis=1, mode="wrap") ** 2,
            "outside, filled": lambda x, i: jnp.take(x, i, axis=0, mode="fill", fill_value=3.0) ** 2,
            "outside, with zeros": lambda x, i: x.at[i, 1].get(mode="fill", fill_value=0) ** 2,
            "a window outside": lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 2)) ** 2,
            "added outside": lambda x, i: x.at[i].add(x[:2] ** 2) ** 2,
            "added outside, clipped": lambda x, i: x.at[i].add(x[:2] ** 2, mode="clip") ** 2,
            "written outside": lambda x, i: x.at[i].set(x[:2] ** 2) ** 2,
            "a window written outside": lambda x, i: lax.dynamic_update_slice(x, x[:2] ** 2, (i[0], i[1])),
        },
    ),
    *_traced(
        LABELS,
        {
            "an entry of each row": lambda x, i: jax.vmap(lambda row, k: row[k])(x, i) ** 2,
            "a window of each row": lambda x, i: (
                jax.vmap(lambda row, k: lax.dynamic_slice(row, (k,), (2,)))(x, i) ** 2
            ),
            "rows one by one": lambda x, i: jax.vmap(lambda k: x[k])(i) ** 2,
            "sums of segments": lambda x, i: jax.ops.segment_sum(x**2, i, 3) ** 2,
            "maxima of segments": lambda x, i: jax.ops.segment_max(x, i, 3) ** 2,
            "minima of segments": lambda x, i: jax.ops.segment_min(x, i, 3) * x[:3],
            "maxima and an edge": lambda x, i: x.at[i + 2].max(x[::-1] ** 2) ** 2,
            "products at places": lambda x, i: (
                x.at[i[:2], np.arange(2)].mul(x[2:, 0], unique_indices=True) ** 2
            ),
            "weighted counts": lambda x, i: jnp.bincount(i, x[:, 0] ** 2, length=3) ** 2,
            "one of each": lambda x, i: jnp.sum(jax.nn.log_softmax(x)[jnp.arange(4), i]),
            "one-hot": lambda x, i: jax.nn.one_hot(i, 3) * x**2,
            "added to each row": lambda x, i: jax.vmap(lambda row, k: row.at[k].add(row[0]))(x, i) ** 2,
            "written to each row": jax.vmap(lambda row, k: row.at[k].set(row[0] ** 2)),
        },
    ),
    *_traced(
        PAIRS, {"traced along": lambda x, i: jnp.take_along_axis(x, i, axis=0) ** 2 + x[i[0], i[1]] ** 2}
    ),
]

WRITTEN = [
    *_known(
        {
            "rows written": lambda x: x.at[ROWS].set(x[:2] ** 2) ** 2,
            "the last one counts": lambda x: x.at[np.array([1, 1])].set(x[:2] ** 2) ** 2,
            "an entry written": lambda x: x.at[1, 2].set(3.0) ** 2,
            "a slice written": lambda x: x.at[1:3].set(x[0] ** 2) ** 2,
            "every second": lambda x: x.at[::2, 1].set(x[1, 0]) ** 2,
            "a mask written": lambda x: x.at[MASK].set(2.0 * x[0]) ** 2,
            "rows added": lambda x: x.at[ROWS].add(x[:2] ** 2) ** 2,
            "added twice": lambda x: x.at[np.array([1, 1])].add(x[:2] ** 2) ** 2,
            "added and dropped": lambda x: x.at[np.array([1, 9])].add(x[:2] ** 2) ** 2,
            "subtracted": lambda x: x.at[ROWS].subtract(x[:2] ** 2) ** 2,
            "multiplied": lambda x: x.at[1:3].multiply(x[:2]) ** 2,
            "divided": lambda x: x.at[1].divide(x[0] + 3),
            "raised": lambda x: x.at[1].power(3.0) ** 2,
            "a window written": lambda x: lax.dynamic_update_slice(x, x[:2, :2] ** 2, (1, 1)) ** 2,
            "known segments": lambda x: jax.ops.segment_sum(x**2, LABELS, 3) ** 2,
            "filled diagonal": lambda x: jnp.fill_diagonal(x[:3], x[3], inplace=False) ** 2,
            "triangle from a vector": lambda x: (
                jnp.zeros((3, 3)).at[np.tril_indices(3)].set(jnp.ravel(x)[:6]) @ x.T
            ),
            "inserted": lambda x: jnp.insert(x, 1, 2.0, axis=0) ** 2,
            "a loop that writes": lambda x: lax.fori_loop(
                0, 3, lambda k, y: y.at[k].set(jnp.sin(y[k]) * y[k + 1]), x
            ),
        }
    ),
    *_traced(
        ROWS,
        {
            "traced rows written": lambda x, i: x.at[i].set(x[:2] ** 2) ** 2,
            "traced entries written": lambda x, i: x.at[i, i].set(x[0, :2] ** 2) ** 2,
            "numbers written": lambda x, i: x.at[i].set(1.5) * x,
            "traced rows added": lambda x, i: x.at[i].add(x[:2] ** 2) ** 2,
            "traced columns added": lambda x, i: x.at[:, i].add(x[:, :2] ** 2) ** 2,
            "traced entries added": lambda x, i: x.at[i, i[::-1]].add(x[0, :2] ** 2) ** 2,
            "a traced window written": lambda x, i: lax.dynamic_update_slice(x, x[:2, :2] ** 2, (i[0], i[1])),
        },
    ),
    *_traced(np.array([2, 2]), {"one of two counts": lambda x, i: x.at[i].set(x[:2] ** 2) ** 2}),
]

ORDERED = _known(
    {
        "sort": lambda x: jnp.sort(x, axis=0) ** 2 * x,
        "sort downwards": lambda x: jnp.sort(x, axis=1, descending=True) ** 2 * x,
        "argsort": lambda x: x[jnp.argsort(x[:, 0])] ** 2,
        "argsort along": lambda x: jnp.take_along_axis(x, jnp.argsort(-x, axis=1), axis=1) * x,
        "sort together": lambda x: lax.sort((x, x**2), dimension=1, num_keys=1)[1] * x,
        "sort by two": lambda x: lax.sort((jnp.floor(x), x**2, x), dimension=1, num_keys=2)[2] * x,
        "lexsort": lambda x: x[jnp.lexsort((x[:, 0], jnp.floor(x[:, 1])))] ** 2,
        "median": lambda x: jnp.median(x, axis=1) ** 2,
        "quantile": lambda x: jnp.quantile(x, 0.3, axis=0) ** 2,
        "percentiles": lambda x: jnp.percentile(x, jnp.array([20.0, 70.0])) ** 2,
        "largest": lambda x: lax.top_k(x, 2)[0] ** 2,
        "places of the largest": lambda x: x[0][lax.top_k(x, 2)[1]] ** 2,
        "entry at argmax": lambda x: jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1) ** 2,
        "searchsorted": lambda x: x[jnp.searchsorted(jnp.array([-1.0, 0.0, 1.0]), x[:, 0])] ** 2,
        "cumsum": lambda x: jnp.cumsum(x**2, axis=1) ** 2,
        "cumsum of all": lambda x: jnp.cumsum(x) ** 2,
        "cumsum from the end": lambda x: lax.cumsum(x, axis=0, reverse=True) ** 2,
        "cumprod": lambda x: jnp.cumprod(x, axis=1) * x,
        "cumprod from the end": lambda x: lax.cumprod(x, axis=0, reverse=True),
        "cummax": lambda x: lax.cummax(x, axis=1) ** 2,
        "cummin": lambda x: lax.cummin(x, axis=0, reverse=True) ** 2,
        "cumlogsumexp": lambda x: lax.cumlogsumexp(x, axis=1) ** 2,
        "trapezoid": lambda x: jnp.trapezoid(x**3, axis=1),
        "gradient": lambda x: jnp.gradient(x, axis=0) ** 2,
        "unwrapped": lambda x: jnp.unwrap(3 * x, axis=0) ** 2,
    },
    order=1,
)

CASES = {case.name: case for case in (*READ_KNOWN, *READ_TRACED, *WRITTEN, *ORDERED)}
assert len(CASES) == len(READ_KNOWN) + len(READ_TRACED) + len(WRITTEN) + len(ORDERED)
