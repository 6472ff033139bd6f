"""Kernels of the operation records, written once over an array library.

Each is a function `(xp, params, *arrays) -> array`, where `xp` is a `Namespace`. It works on a batch at once,
gives back the dtype it got, shares no memory with its operands and changes none of them. A target takes
`shared(xp)` and replaces those that its library does better.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from types import SimpleNamespace
from typing import Any

from hesse.backends.kernels import Kernel
from hesse.backends.names import RECORDS

Params = tuple[Any, ...]

TAYLOR_DEGREE = 16
"""Degree of the series of `expm_chain`: at a norm of 1/2 the rest is below 1e-19 of the first term."""

MOST_DOUBLINGS = 32
"""Where values cannot be looked at, `expm_chain` is nan for matrices of a norm beyond 2^31."""


class Namespace(SimpleNamespace):
    """The functions of an array library, and those that libraries spell differently.

    `eye(size, like)`, `zeros(shape, like)` and `arange(size, like)` are on the device of the array `like`,
    the first two also in its dtype; `cast(x, like)` is x in the dtype of `like`, and `wide(x)` are integers,
    as wide as the library has them. `checked(index, size)` raises, if the library does so, where an index is
    outside of an axis; `solve_triangular(a, b)` reads only the lower triangle of `a`.
    `repeat(step, counts, state)` applies `step(state, due)` for the levels below the largest of the counts,
    where `due` says which counts are above the level (None: all of them).
    """

    def __init__(self, library: Any, **names: Any) -> None:
        super().__init__(**{**vars(library), **names})


def _turned(xp: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """U, S, V' and det(U) det(V) of A = U S V'; the last is no number where an entry of A is not finite."""
    zeros = xp.zeros_like(a)
    spoilt = xp.sum(xp.where(xp.isfinite(a), zeros, zeros + math.nan), axis=(-2, -1))
    left, values, right = xp.linalg.svd(xp.where(xp.isfinite(spoilt)[..., None, None], a, zeros))
    return left, values, right, xp.linalg.det(left) * xp.linalg.det(right) + spoilt


def adjugate(xp: Any, params: Params, a: Any) -> Any:
    """By singular values: with A = U S V' it is det(U) det(V) V T U', T the products of all others in S."""
    left, values, right, sign = _turned(xp, a)
    size = a.shape[-1]
    unit = xp.eye(size, a)
    others = xp.prod(values[..., None, :] * (1.0 - unit) + unit, -1)
    return xp.swapaxes(right, -1, -2) @ ((others * sign[..., None])[..., None] * xp.swapaxes(left, -1, -2))


def minors(xp: Any, params: Params, a: Any) -> Any:
    """With A = U S V' it is that of S, signed products of all others in S, with axes turned by U and V."""
    (order,) = params
    size = a.shape[-1]
    left, values, right, sign = _turned(xp, a)
    unit = xp.eye(size, a)
    chosen, apart = xp.zeros((size,) * (order + 1), a), xp.zeros((size,) * order, a) + 1.0
    for k in range(order):  # axes of one choice each, and one of all values
        spread = (1,) * k + (size,) + (1,) * (order - k - 1)
        for m in range(k):
            pair = tuple(size if axis in (m, k) else 1 for axis in range(order))
            apart = apart * (1.0 - xp.reshape(unit, pair))
        chosen = chosen + xp.reshape(unit, (*spread, size))
    wide = xp.reshape(values, (*values.shape[:-1], *(1,) * order, size))
    # where two choices coincide there is no product, and the power of the value must not matter
    others = xp.prod(xp.where(chosen > 0.0, xp.zeros_like(wide) + 1.0, wide), -1) * apart
    found = others * xp.reshape(sign, (*sign.shape, *(1,) * order))
    own = "abcdefghijklmnopqrstuv"
    for k in range(order):
        rest = own[: order - k - 1 + 2 * k]
        found = xp.einsum(f"...z{rest},...xz,...zy->...{rest}xy", found, left, right)
    total = xp.zeros_like(found)
    for permutation in itertools.permutations(range(order)):
        turns = sum(a > b for a, b in itertools.combinations(permutation, 2))
        turned = "".join(own[2 * k] + own[2 * m + 1] for k, m in enumerate(permutation))
        total = total + (-1.0) ** turns * xp.einsum(f"...{own[: 2 * order]}->...{turned}", found)
    return total


def logsumexp(xp: Any, params: Params, x: Any) -> Any:
    """log(sum(exp(x))) over the last axis, without overflow."""
    largest = xp.max(x, axis=-1, keepdims=True)
    shift = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
    return xp.log(xp.sum(xp.exp(x - shift), axis=-1)) + shift[..., 0]


def softmax(xp: Any, params: Params, x: Any) -> Any:
    """exp(x) / sum(exp(x)) over the last axis, without overflow."""
    exponentials = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return exponentials / xp.sum(exponentials, axis=-1, keepdims=True)


def log_softmax(xp: Any, params: Params, x: Any) -> Any:
    """x - log(sum(exp(x))) over the last axis, without overflow."""
    shifted = x - xp.max(x, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def solve(xp: Any, params: Params, a: Any, b: Any) -> Any:
    # Libraries guess whether b is a vector; here a batch of vectors has one axis less than a.
    if b.ndim < a.ndim:
        return xp.linalg.solve(a, b[..., None])[..., 0]
    return xp.linalg.solve(a, b)


def triangular_solve(xp: Any, params: Params, a: Any, b: Any) -> Any:
    if b.ndim < a.ndim:
        return xp.solve_triangular(a, b[..., None])[..., 0]
    return xp.solve_triangular(a, b)


def pseudo_inverse(xp: Any, params: Params, a: Any) -> Any:
    # Said explicitly: the libraries drop singular values below different limits.
    return xp.linalg.pinv(a, rtol=max(a.shape[-2:]) * float(xp.finfo(a.dtype).eps))


def eigenvectors(xp: Any, params: Params, a: Any) -> Any:
    # Libraries choose other signs when they are told to read the other triangle.
    return xp.linalg.eigh(a, UPLO=params[0] if params else "L")[1]


def expm_chain(xp: Any, params: Params, a: Any) -> Any:
    """T_k(A)[a1,b1, …, ak,bk]: the integral of e^(s1 A)[a1,b1] … e^(sk A)[ak,bk] over s1 + … + sk = 1.

    Scaling and squaring for all of T_1, …, T_k together: a Taylor series on a simplex of length 2^-s,
    then s doublings.
    """
    (length,) = params
    batch, size = tuple(a.shape[:-2]), a.shape[-1]
    shape = batch + (size,) * (2 * length)
    if 0 in shape:
        return xp.zeros(shape, a)
    a = a.reshape(-1, size, size)
    # T_k(A + m I) = e^m T_k(A); without its mean eigenvalue the matrix needs fewer doublings.
    unit = xp.eye(size, a)
    mean = (a * unit).sum((1, 2))[:, None, None] / size
    a = a - mean * unit
    norms = xp.amax(xp.abs(a).sum(1), 1)
    exponents = xp.frexp(xp.where(xp.isfinite(norms), norms, xp.zeros_like(norms)))[1]
    doublings = xp.where(exponents > -1, exponents + 1, xp.zeros_like(exponents))
    step = xp.ldexp(xp.ones_like(norms), -doublings)[:, None, None]

    chains = xp.repeat(partial(_doubled, xp), doublings, _chain_series(xp, a * step, step, length))
    return (chains[-1] * xp.exp(mean).reshape((-1,) + (1,) * (2 * length))).reshape(shape)


def nan_beyond_the_most(xp: Any, doublings: Any, chains: list[Any]) -> list[Any]:
    """The chains after `MOST_DOUBLINGS`, and nan where these were too few."""
    enough = doublings <= MOST_DOUBLINGS
    return [
        xp.where(enough.reshape((-1,) + (1,) * (c.ndim - 1)), c, xp.zeros_like(c) + math.nan) for c in chains
    ]


def _chain_series(xp: Any, a: Any, step: Any, length: int) -> list[Any]:
    """T_1, …, T_length over a simplex of length `step`, for `a` already multiplied by it.

    By Dirichlet's integral T_k = step^(k-1) sum over d of h_d / (d+k-1)!, where h_d is the sum of
    A^j1 ⊗ … ⊗ A^jk over j1 + … + jk = d, the complete homogeneous polynomial, with
    h_d(x1, …, xk) = h_d(x1, …, x(k-1)) + h_(d-1)(x1, …, xk) xk.
    """
    unit = xp.eye(a.shape[-1], a)
    polynomials = [xp.zeros_like(a) + unit]
    for _ in range(1, length):
        polynomials.append(polynomials[-1][..., None, None] * unit)
    chains = [polynomial / math.factorial(k) for k, polynomial in enumerate(polynomials)]
    for degree in range(1, TAYLOR_DEGREE + 1):
        for k in range(length):
            polynomials[k] = _contract(polynomials[k], a)
            if k:
                polynomials[k] += polynomials[k - 1][..., None, None] * unit
            chains[k] += polynomials[k] / float(math.factorial(degree + k))  # beyond 20! no integer of JAX
    return [chain * (step**k).reshape((-1,) + (1,) * (2 * k + 2)) for k, chain in enumerate(chains)]


def _doubled(xp: Any, chains: list[Any], due: Any) -> list[Any]:
    """The chains over a simplex twice as long, where that is due.

    The middle of the simplex falls into some link m and cuts it in two:
    T_k(2t)[a1,b1, …] = sum over m of T_m(t)[a1,b1, …, am,c] T_(k-m+1)(t)[c,bm, …, ak,bk].
    """
    if due is None:
        return [sum(_contract(chains[m], chains[k - m]) for m in range(k + 1)) for k in range(len(chains))]
    masks = [due.reshape((-1,) + (1,) * (chain.ndim - 1)) for chain in chains]
    # What is not due is doubled as zeros: it could overflow, and even a discarded infinity makes the
    # derivative nan.
    zeroed = [xp.where(mask, chain, xp.zeros_like(chain)) for mask, chain in zip(masks, chains, strict=True)]
    doubled = _doubled(xp, zeroed, None)
    return [xp.where(m, new, old) for m, new, old in zip(masks, doubled, chains, strict=True)]


def _contract(left: Any, right: Any) -> Any:
    """The last axis of `left` with the first axis after the batch of `right`."""
    count, size = right.shape[:2]
    product = left.reshape(count, -1, size) @ right.reshape(count, size, -1)
    return product.reshape(tuple(left.shape[:-1]) + tuple(right.shape[2:]))


def flat_index(xp: Any, params: Params, index: Any) -> Any:
    """Positions in the rows of a table as positions in the flattened table.

    What is outside of its row is outside of the table: it must not be read from another row.
    """
    size, leading = params
    index = xp.checked(xp.wide(index), size)
    rows = tuple(index.shape[:leading])
    count = math.prod(rows)
    starts = size * xp.arange(count, index).reshape(rows + (1,) * (index.ndim - leading))
    inside = (index >= -size) & (index < size)
    place = xp.where(index < 0, index + size, index) + starts
    return xp.asarray(xp.where(inside, place, xp.zeros_like(place) + count * size))


def integer_add(xp: Any, params: Params, a: Any, b: Any) -> Any:
    return xp.asarray(xp.wide(a) + xp.wide(b))


def integer_multiply(xp: Any, params: Params, a: Any, b: Any) -> Any:
    return xp.asarray(xp.wide(a) * xp.wide(b))


def integer_quotient(xp: Any, params: Params, a: Any, b: Any) -> Any:
    return xp.asarray(xp.wide(a) // xp.wide(b))


def integer_where(xp: Any, params: Params, condition: Any, a: Any, b: Any) -> Any:
    return xp.asarray(xp.where(condition != 0, xp.wide(a), xp.wide(b)))


def integer_entries(xp: Any, params: Params, table: Any, positions: Any) -> Any:
    return xp.asarray(xp.take(xp.wide(table), xp.wide(positions)))


def as_integer(xp: Any, params: Params, x: Any) -> Any:
    return xp.wide(x)


def as_real(xp: Any, params: Params, index: Any, like: Any) -> Any:
    return xp.cast(index, like)


def searchsorted(xp: Any, params: Params, sequence: Any, values: Any) -> Any:
    (side,) = params
    return xp.wide(xp.searchsorted(sequence, values, side=side))


def path_products(xp: Any, params: Params, x: Any) -> Any:
    """P[i,j] = x[j] … x[i-1] for i >= j, zero for i < j: running products that start below the diagonal."""
    count, rest = x.shape[0] + 1, tuple(x.shape[1:])
    places = xp.arange(count, x)
    distance = (places[:, None] - places).reshape((count, count) + (1,) * len(rest))
    factors = xp.concatenate([xp.zeros((1, *rest), x), x], axis=0)[:, None]
    running = xp.cumprod(xp.where(distance > 0, factors, xp.ones_like(factors)), axis=0)
    return xp.where(distance >= 0, running, xp.zeros_like(running))


def vec(xp: Any, params: Params, x: Any) -> Any:
    rows, columns, *rest = x.shape
    return xp.copy(xp.swapaxes(x, 0, 1).reshape(rows * columns, *rest))


def reshape(xp: Any, params: Params, x: Any) -> Any:
    rank, *sizes = params
    return xp.copy(x.reshape(*sizes, *x.shape[rank:]))


SHARED: dict[str, Kernel] = {
    function.__name__: function
    for function in (
        adjugate,
        minors,
        logsumexp,
        softmax,
        log_softmax,
        solve,
        triangular_solve,
        pseudo_inverse,
        expm_chain,
        eigenvectors,
        flat_index,
        integer_add,
        integer_multiply,
        integer_quotient,
        integer_where,
        integer_entries,
        as_integer,
        as_real,
        searchsorted,
        path_products,
        vec,
        reshape,
    )
}


def shared(xp: Namespace) -> dict[str, Kernel]:
    """The kernels `(params, *arrays)` that are written here, for one library."""
    named = {name: function.kernel(xp) for name, function in RECORDS.items()}
    return named | {name: partial(function, xp) for name, function in SHARED.items()}
