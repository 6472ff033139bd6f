"""NumPy kernels of the operation records: one function `(params, *arrays) -> array` for each record.

All of them work on a batch at once and give back the dtype they got (positions are `intp`). Those named
by `hesse.plan.program.IN_PLACE` can write to a given array, which may be the one they read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Params = tuple[Any, ...]
Kernel = Callable[..., Array]

TAYLOR_DEGREE = 16
"""Degree of the series of `expm_chain`: at a norm of 1/2 the rest is below 1e-19 of the first term."""


def inverse(params: Params, a: Array) -> Array:
    return np.linalg.inv(a)


def determinant(params: Params, a: Array) -> Array:
    return np.asarray(np.linalg.det(a))


def log_determinant(params: Params, a: Array) -> Array:
    return np.asarray(np.linalg.slogdet(a).logabsdet)


def sign_determinant(params: Params, a: Array) -> Array:
    return np.asarray(np.linalg.slogdet(a).sign)


def solve(params: Params, a: Array, b: Array) -> Array:
    # NumPy takes b for a vector only if it has one axis; here a batch of vectors has one axis less than a.
    if b.ndim < a.ndim:
        return np.linalg.solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b)


def cholesky(params: Params, a: Array) -> Array:
    return np.linalg.cholesky(a)


def pseudo_inverse(params: Params, a: Array) -> Array:
    return np.linalg.pinv(a)


def eigvalsh(params: Params, a: Array) -> Array:
    # Not numpy.linalg.eigvalsh: values and vectors that occur in one formula should agree to the last bit.
    return np.linalg.eigh(a).eigenvalues


def eigenvectors(params: Params, a: Array) -> Array:
    return np.linalg.eigh(a).eigenvectors


def expm_chain(params: Params, a: Array) -> Array:
    """T_k(A)[a1,b1, …, ak,bk]: the integral of e^(s1 A)[a1,b1] … e^(sk A)[ak,bk] over s1 + … + sk = 1.

    Scaling and squaring for all of T_1, …, T_k together: a Taylor series on a simplex of length 2^-s,
    then s doublings.
    """
    (length,) = params
    batch, size = a.shape[:-2], a.shape[-1]
    if not a.size:
        return np.zeros(batch + (size,) * (2 * length), a.dtype)
    a = a.reshape(-1, size, size)
    # T_k(A + m I) = e^m T_k(A); without its mean eigenvalue the matrix needs fewer doublings.
    mean = np.trace(a, axis1=1, axis2=2)[:, None, None] / size
    a = a - mean * np.eye(size, dtype=a.dtype)
    norms = np.abs(a).sum(axis=1).max(axis=1)
    exponents = np.frexp(np.where(np.isfinite(norms), norms, 0.0))[1]
    doublings = np.maximum(exponents + 1, 0)
    step = np.ldexp(np.ones_like(norms), -doublings)[:, None, None]
    chains = _chain_series(a * step, step, length)
    for level in range(int(doublings.max())):
        active = doublings > level
        doubled = _doubled([chain[active] for chain in chains])
        for chain, value in zip(chains, doubled, strict=True):
            chain[active] = value
    result: Array = chains[-1] * np.exp(mean).reshape((-1,) + (1,) * (2 * length))
    return result.reshape(batch + (size,) * (2 * length))


def _chain_series(a: Array, step: Array, length: int) -> list[Array]:
    """T_1, …, T_length over a simplex of length `step`, for `a` already multiplied by it.

    By Dirichlet's integral T_k = step^(k-1) sum over d of h_d / (d+k-1)!, where h_d is the sum of
    A^j1 ⊗ … ⊗ A^jk over j1 + … + jk = d, the complete homogeneous polynomial, with
    h_d(x1, …, xk) = h_d(x1, …, x(k-1)) + h_(d-1)(x1, …, xk) xk.
    """
    count, unit = len(a), np.eye(a.shape[-1], dtype=a.dtype)
    polynomials = [np.repeat(unit[None], count, axis=0)]
    for _ in range(1, length):
        polynomials.append(polynomials[-1][..., None, None] * unit)
    chains = [polynomial / math.factorial(k) for k, polynomial in enumerate(polynomials)]
    for degree in range(1, TAYLOR_DEGREE + 1):
        for k in range(length):
            polynomials[k] = _contract(polynomials[k], a)
            if k:
                polynomials[k] += polynomials[k - 1][..., None, None] * unit
            chains[k] += polynomials[k] / math.factorial(degree + k)
    return [chain * (step**k).reshape((count,) + (1,) * (2 * k + 2)) for k, chain in enumerate(chains)]


def _doubled(chains: list[Array]) -> list[Array]:
    """The chains over a simplex twice as long.

    The middle of the simplex falls into some link m and cuts it in two:
    T_k(2t)[a1,b1, …] = sum over m of T_m(t)[a1,b1, …, am,c] T_(k-m+1)(t)[c,bm, …, ak,bk].
    """
    return [sum(_contract(chains[m], chains[k - m]) for m in range(k + 1)) for k in range(len(chains))]  # type: ignore[misc]


def _contract(left: Array, right: Array) -> Array:
    """The last axis of `left` with the first axis after the batch of `right`."""
    count, size = right.shape[:2]
    product: Array = left.reshape(count, -1, size) @ right.reshape(count, size, -1)
    return product.reshape(left.shape[:-1] + right.shape[2:])


def logsumexp(params: Params, x: Array) -> Array:
    shift = _finite_maximum(x)
    with np.errstate(divide="ignore", over="ignore"):  # the value is -inf or inf where the maximum is
        return np.asarray(np.log(np.exp(x - shift).sum(axis=-1)) + shift[..., 0])


def softmax(params: Params, x: Array, out: Array | None = None) -> Array:
    result: Array = np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(result, out=result)
    result /= result.sum(axis=-1, keepdims=True)
    return result


def log_softmax(params: Params, x: Array) -> Array:
    largest = _finite_maximum(x)
    result: Array = x - largest
    total = np.exp(result, out=result).sum(axis=-1, keepdims=True)
    np.subtract(x, largest, out=result)  # again: cheaper than another array
    result -= np.log(total)
    return result


def _finite_maximum(x: Array) -> Array:
    maximum = x.max(axis=-1, keepdims=True)
    return np.asarray(np.where(np.isfinite(maximum), maximum, np.zeros_like(maximum)))


def gather(params: Params, x: Array, index: Array) -> Array:
    return np.asarray(np.take(x, index, axis=0))  # always a copy, also for a single position


def scatter(params: Params, u: Array, index: Array) -> Array:
    (size,) = params
    rest = u.shape[index.ndim :]
    positions = index.reshape(-1)
    positions = np.where(positions < 0, positions + size, positions)
    if positions.size and (positions.min() < 0 or positions.max() >= size):
        raise IndexError(f"an index is out of bounds for an axis of size {size}")
    rows = u.reshape(len(positions), math.prod(rest))
    if rows.shape[1] == 1:
        sums = np.bincount(positions, weights=rows[:, 0], minlength=size)
        return sums.astype(u.dtype, copy=False).reshape((size, *rest))
    result = np.zeros((size, rows.shape[1]), u.dtype)
    if len(positions) and np.bincount(positions).max() > 1:
        order = np.argsort(positions, kind="stable")
        targets, starts = np.unique(positions[order], return_index=True)
        result[targets] = np.add.reduceat(rows[order], starts, axis=0)
    else:
        result[positions] = rows
    return result.reshape((size, *rest))


def flat_index(params: Params, index: Array) -> Array:
    """Positions in the rows of a table as positions in the flattened table."""
    size, leading = params
    rows = index.shape[:leading]
    starts = size * np.arange(math.prod(rows)).reshape(rows + (1,) * (index.ndim - leading))
    return np.asarray(np.where(index < 0, index + size, index) + starts)


def cumulative_sum(params: Params, x: Array) -> Array:
    return np.cumsum(x, axis=0)


def cumulative_product(params: Params, x: Array) -> Array:
    return np.cumprod(x, axis=0)


def product(params: Params, x: Array) -> Array:
    return np.asarray(np.prod(x, axis=0))


def path_products(params: Params, x: Array) -> Array:
    """P[i,j] = x[j] … x[i-1] for i >= j, zero for i < j."""
    count, rest = len(x), x.shape[1:]
    started = np.tri(count, dtype=bool).reshape((count, count) + (1,) * len(rest))
    running = np.cumprod(np.where(started, x[:, None], np.ones((), x.dtype)), axis=0)
    result = np.zeros((count + 1, count + 1, *rest), x.dtype)
    result[1:, :count] = np.where(started, running, np.zeros((), x.dtype))
    result[np.arange(count + 1), np.arange(count + 1)] = 1
    return result


def argmax(params: Params, x: Array) -> Array:
    return np.asarray(np.argmax(x, axis=-1))


def argmin(params: Params, x: Array) -> Array:
    return np.asarray(np.argmin(x, axis=-1))


def argsort(params: Params, x: Array) -> Array:
    return np.argsort(x, axis=-1, kind="stable")


def largest_entry(params: Params, x: Array) -> Array:
    return np.asarray(np.max(x))


def kron(params: Params, a: Array, b: Array) -> Array:
    return np.asarray(np.kron(a, b))


def vec(params: Params, x: Array) -> Array:
    return np.array(np.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]))


def reshape(params: Params, x: Array) -> Array:
    rank, *sizes = params
    return np.array(x.reshape(*sizes, *x.shape[rank:]))


KERNELS: dict[str, Kernel] = {
    function.__name__: function
    for function in (
        inverse,
        determinant,
        log_determinant,
        sign_determinant,
        solve,
        cholesky,
        pseudo_inverse,
        expm_chain,
        eigvalsh,
        eigenvectors,
        logsumexp,
        softmax,
        log_softmax,
        gather,
        scatter,
        flat_index,
        cumulative_sum,
        cumulative_product,
        product,
        path_products,
        argmax,
        argmin,
        argsort,
        kron,
        vec,
        reshape,
    )
} | {"max": largest_entry}


def kernel(name: str) -> Kernel:
    """The kernel of the record with this name."""
    return KERNELS[name]
