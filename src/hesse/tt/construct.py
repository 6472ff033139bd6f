"""Trains made from sizes, vectors and dense tensors."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.tt.arrays import Array, library
from hesse.tt.chain import sealed
from hesse.tt.rounding import rank_limits, rounded, whole_numbers
from hesse.tt.train import TensorTrain, TTMatrix

Generator = int | np.random.Generator | None


def feasible_ranks(sizes: Sequence[int], rank: int | Sequence[int]) -> list[int]:
    """The ranks of all bonds, clipped with a warning where no tensor of these sizes needs as many."""
    asked = rank_limits(rank, len(sizes))
    left, right = [1], [1]
    for size in sizes:
        left.append(min(left[-1] * size, 2**62))
    for size in reversed(sizes):
        right.append(min(right[-1] * size, 2**62))
    most = [min(pair) for pair in zip(left, reversed(right), strict=True)]
    ranks = [1, *(min(a, b) for a, b in zip(asked, most[1:-1], strict=True) if a is not None), 1]
    if ranks[1:-1] != asked:
        warnings.warn(
            f"tensors of shape {tuple(sizes)} have ranks up to {tuple(most)}; the given ones are clipped",
            stacklevel=3,
        )
    return ranks


def checked_sizes(shape: Any) -> list[int]:
    """The sizes of the axes of a train."""
    sizes = whole_numbers("the sizes of a shape", shape)
    if not sizes or any(size < 1 for size in sizes):
        raise ShapeError(f"the shape of a train has sizes of at least 1, not {tuple(shape)!r}")
    return sizes


def random(shape: Sequence[int], rank: int | Sequence[int], rng: Generator = None) -> TensorTrain:
    """A train of norm one with normally distributed cores.

    >>> from hesse import tt
    >>> tt.random((4, 5, 6), rank=3, rng=0)
    TensorTrain(shape=(4, 5, 6), ranks=(1, 3, 3, 1))
    """
    sizes = checked_sizes(shape)
    return TensorTrain(_random_cores([(size,) for size in sizes], feasible_ranks(sizes, rank), rng))


def random_matrix(
    shape: Sequence[tuple[int, int]], rank: int | Sequence[int], rng: Generator = None
) -> TTMatrix:
    """An operator with normally distributed cores, scaled so that it keeps the mean square of entries."""
    pairs = [(int(rows), int(columns)) for rows, columns in shape]
    ranks = feasible_ranks(checked_sizes([rows * columns for rows, columns in pairs]), rank)
    cores = _random_cores(pairs, ranks, rng)
    return TTMatrix([sealed(core * rows**0.5) for core, (rows, _) in zip(cores, pairs, strict=True)])


def _random_cores(sizes: Sequence[tuple[int, ...]], ranks: Sequence[int], rng: Generator) -> list[Array]:
    """Cores of a tensor of norm one, scaled alike so that no product of them is large or small."""
    generator = np.random.default_rng(rng)
    cores = [
        generator.standard_normal((left, *size, right))
        for left, size, right in zip(ranks, sizes, ranks[1:], strict=False)
    ]
    flat = [core.reshape(core.shape[0], -1, core.shape[-1]) for core in cores]
    gram, logarithm = np.ones((1, 1)), 0.0
    for core in flat:
        gram = np.einsum("bic,bid->cd", np.einsum("ab,aic->bic", gram, core), core)
        size = float(np.trace(gram))
        gram, logarithm = gram / size, logarithm + np.log(size)
    scale = float(np.exp(-0.5 * (logarithm + np.log(gram[0, 0])) / len(cores)))
    return [sealed(core * scale) for core in cores]


def ones(shape: Sequence[int]) -> TensorTrain:
    """A tensor of ones."""
    return TensorTrain([np.ones((1, size, 1)) for size in checked_sizes(shape)])


def eye(shape: Sequence[int]) -> TTMatrix:
    """The operator that leaves tensors of a shape as they are."""
    return TTMatrix([np.eye(size)[None, :, :, None] for size in checked_sizes(shape)])


def rank_one(vectors: Sequence[Array]) -> TensorTrain:
    """The product of vectors, one for each axis; of matrices, a batch of such products: one for each row."""
    if not vectors:
        raise ArgumentError("tt.rank_one needs at least one vector")
    arrays = [np.asarray(v, float) if isinstance(v, list | tuple) else v for v in vectors]
    if {len(array.shape) for array in arrays} not in ({1}, {2}):
        raise ShapeError(
            f"tt.rank_one takes vectors, or matrices of one number of rows; not shapes "
            f"{[tuple(array.shape) for array in arrays]}"
        )
    return TensorTrain([array[..., None, :, None] for array in arrays])


def from_dense(array: Array, tol: float = 1e-14, rank: int | Sequence[int] | None = None) -> TensorTrain:
    """A dense tensor as a train, off by at most `tol` times its norm, or of a rank.

    >>> import numpy as np
    >>> from hesse import tt
    >>> tt.from_dense(np.add.outer(np.arange(4.0), np.arange(5.0)))
    TensorTrain(shape=(4, 5), ranks=(1, 2, 1))
    """
    if not hasattr(array, "shape") or (isinstance(array, np.ndarray) and array.dtype.kind in "biu"):
        array = np.asarray(array, np.float64)
    if not math.prod(array.shape) or not len(array.shape):
        raise ShapeError(
            f"an array of shape {tuple(array.shape)} has no axes or no entries to make a train of"
        )
    own = library(array)
    flat = array.reshape((1, *array.shape, 1))
    cores = []
    for _ in range(len(array.shape) - 1):
        left, size, *rest = flat.shape
        u, s, vt = own.svd(flat.reshape((left * size, -1)))
        cores.append(u.reshape((left, size, -1)))
        flat = (s[:, None] * vt).reshape((-1, *rest))
    return TensorTrain([*map(sealed, rounded(own, [*cores, flat], tol, rank))])


def cross(
    f: Callable[[np.ndarray], np.ndarray],
    shape: Sequence[int],
    rank: int | Sequence[int],
    rng: Generator = None,
    tol: float = 1e-10,
    sweeps: int = 10,
) -> TensorTrain:
    """A tensor known by its entries, interpolated on crosses of its unfoldings (TT-cross).

    `f` takes an array of positions with a row for each entry, and gives the entries. Sweeps end when the
    train changes by less than `tol` times its norm.

    >>> from hesse import tt
    >>> X = tt.cross(lambda i: 1.0 / (1.0 + i.sum(1)), (6, 6, 6), rank=4, rng=0)
    >>> abs(X.dense()[1, 2, 3] - 1 / 7) < 1e-3
    np.True_
    """
    sizes = checked_sizes(shape)
    ranks = feasible_ranks(sizes, rank)
    generator = np.random.default_rng(rng)
    count = len(sizes)
    behind = [np.zeros((1, 0), np.intp)] * (count + 1)
    for k in range(count - 1, 0, -1):
        fibre = _pairs(np.arange(sizes[k])[:, None], behind[k + 1])
        behind[k] = fibre[generator.choice(len(fibre), min(ranks[k], len(fibre)), replace=False)]
    found: TensorTrain | None = None
    for _ in range(sweeps):
        cores, before = _cross_sweep(f, sizes, behind)
        made = TensorTrain(cores)
        _cross_back(f, sizes, before, behind)
        if found is not None and float((made - found).norm()) <= tol * float(made.norm()):
            return made
        found = made
    assert found is not None
    return found


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Each row of a table followed by each row of another."""
    left = np.repeat(first, len(second), axis=0)
    return np.concatenate([left, np.tile(second, (len(first), 1))], axis=1)


def _cross_sweep(
    f: Callable[[np.ndarray], np.ndarray], sizes: list[int], behind: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """From the left: the cores of the interpolant, and the positions chosen before each bond."""
    before = [np.zeros((1, 0), np.intp)]
    cores = []
    for k, size in enumerate(sizes):
        rows = _pairs(before[k], np.arange(size)[:, None])
        values = _entries(f, _pairs(rows, behind[k + 1])).reshape(len(rows), len(behind[k + 1]))
        if k == len(sizes) - 1:
            cores.append(values.reshape(len(before[k]), size, 1))
            break
        q, _ = np.linalg.qr(values)
        chosen = _large_volume(q)
        cores.append(np.linalg.solve(q[chosen].T, q.T).T.reshape(len(before[k]), size, len(chosen)))
        before.append(rows[chosen])
    return cores, before


def _cross_back(
    f: Callable[[np.ndarray], np.ndarray],
    sizes: list[int],
    before: list[np.ndarray],
    behind: list[np.ndarray],
) -> None:
    """From the right: better positions behind each bond."""
    for k in range(len(sizes) - 1, 0, -1):
        columns = _pairs(np.arange(sizes[k])[:, None], behind[k + 1])
        values = _entries(f, _pairs(before[k], columns)).reshape(len(before[k]), len(columns))
        q, _ = np.linalg.qr(values.T)
        behind[k] = columns[_large_volume(q)]


def _entries(f: Callable[[np.ndarray], np.ndarray], positions: np.ndarray) -> np.ndarray:
    values = np.asarray(f(positions), float)
    if values.shape != (len(positions),):
        raise ShapeError(
            f"f of tt.cross must give one entry for each of {len(positions)} positions, not {values.shape}"
        )
    if not np.isfinite(values).all():
        place = positions[np.flatnonzero(~np.isfinite(values))[0]]
        raise ArgumentError(
            f"f of tt.cross gave {values[~np.isfinite(values)][0]} at the position {tuple(map(int, place))}; "
            "it must be finite at all positions, of which some are chosen"
        )
    return values


def _large_volume(columns: np.ndarray) -> np.ndarray:
    """Rows of a matrix with orthonormal columns that form a well-conditioned square matrix (maxvol)."""
    rank = columns.shape[1]
    permutation = importlib.import_module("scipy.linalg").lu(columns, p_indices=True)[0]
    chosen = np.argsort(permutation)[:rank]
    for _ in range(100):
        ratios = np.linalg.solve(columns[chosen].T, columns.T).T
        row, column = np.unravel_index(np.abs(ratios).argmax(), ratios.shape)
        if abs(ratios[row, column]) <= 1.05:
            break
        chosen[column] = row
    return chosen
