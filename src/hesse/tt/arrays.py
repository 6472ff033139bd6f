"""The few functions of arrays that trains need, for NumPy, PyTorch and JAX.

Expressions are arrays of NumPy here: its functions find the way to the engine.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from hesse.backends.target import library_of
from hesse.errors import ArgumentError
from hesse.tt import rows_kernel

Array = Any
"""An array of NumPy, PyTorch or JAX."""


class Library(NamedTuple):
    """What the libraries spell differently."""

    name: str
    transpose: Callable[[Array, Sequence[int]], Array]
    concatenate: Callable[[Sequence[Array], int], Array]
    einsum: Callable[..., Array]
    qr: Callable[[Array], tuple[Array, Array]]
    svd: Callable[[Array], tuple[Array, Array, Array]]
    zeros: Callable[[Sequence[int], Array], Array]
    """Zeros of a shape, of the dtype and on the device of an array."""
    like: Callable[[Any, Array], Array]
    """Numbers or an array of NumPy, of the dtype and on the device of an array."""
    wide: Callable[[Array], Array]
    """The same numbers in double precision."""
    kept: Callable[[np.ndarray, Array], Array]
    """Whole numbers or truth values of NumPy on the device of an array, for longer than one computation."""
    host: Callable[[Array], np.ndarray]
    take: Callable[[Array, Array], Array]
    """The rows of an array at positions, all of which are within it."""
    contiguous: Callable[[Array], Array]
    """The same array, its entries in the order of its axes."""
    compiled: Callable[[Callable[..., Array]], Callable[..., Array]]
    """A function whose first two arguments are no arrays, as the library runs it best."""
    decided: Callable[[Array], bool | None]
    """Whether something is true; None where that cannot be known: in a CUDA graph, or for a compiler."""
    is_wide: Callable[[Array], bool]
    """Whether an array is on a device where starting an operation costs more than most operations."""
    is_watched: Callable[[Array], bool]
    """Whether the library follows what becomes of an array: to differentiate, to map or to compile it."""
    eagerly: Callable[[], AbstractContextManager[Any]]
    """Where arrays that are not watched become such, even while a function is being compiled."""


def _as_it_is(function: Callable[..., Array]) -> Callable[..., Array]:
    return function


TALL = 16
"""From so many times more rows than columns on, QR decompositions are made from those of Gram matrices."""
ROUNDING = 8.0
"""So many units of rounding are left of products of orthogonal columns anyway."""


CONDITION = {8: 1e3, 4: 10.0}
"""So many digits may be lost by a product with an inverse, by the bytes of a number."""


class Factorization(NamedTuple):
    """A QR decomposition by NumPy. For few products with Q, that need not be multiplied out."""

    q: np.ndarray
    matrix: np.ndarray | None
    """By which Q is to be multiplied, if by anything."""
    r: np.ndarray
    inverse: np.ndarray | None
    """That of R; None: too many digits would be lost."""


def _numpy_qr(a: Array) -> tuple[Array, Array]:
    found = tall_qr(a)
    if found is None:
        q, r = np.linalg.qr(a)
        return q, r
    return found.q if found.matrix is None else _times(found.q, found.matrix), found.r


def factored_qr(a: np.ndarray, gram: np.ndarray | None = None) -> Factorization:
    """The QR decomposition of a matrix, whose Gram matrix may be known, and the inverse of R."""
    found = tall_qr(a, gram)
    if found is not None:
        return found
    q, r = np.linalg.qr(a)
    lapack = importlib.import_module("scipy.linalg.lapack")
    inverse, failed = (lapack.dtrtri if r.dtype == np.float64 else lapack.strtri)(r)
    return Factorization(q, None, r, None if failed or _loses(r, inverse) else inverse)


def tall_qr(a: np.ndarray, gram: np.ndarray | None = None) -> Factorization | None:
    """Cholesky's method, twice: the second time makes what the first one left as orthogonal as can be.

    That holds if the first result is nearly orthogonal. None: it is not, or there is none, or there are few
    rows. Where columns are nearly orthogonal from the start, once is enough: errors grow with the square of
    their condition.
    """
    if a.ndim != 2 or a.shape[0] < TALL * a.shape[1]:
        return None
    found = _lower_factor(_gram(a) if gram is None else gram)
    if found is None:
        return None
    first, inverse = found
    if _is_even(first, inverse):
        return Factorization(a, inverse.T, first.T, inverse.T)
    q = _times(a, inverse.T)
    gram = _gram(q)
    error = float(np.abs(gram - np.eye(len(gram))).max())
    if error <= ROUNDING * np.finfo(a.dtype).eps:  # it is orthogonal already
        return Factorization(q, None, first.T, None if _loses(first, inverse) else inverse.T)
    again = _lower_factor(gram) if error < 1e-3 else None
    if again is None:
        return None
    r, inverse = again[0].T @ first.T, inverse.T @ again[1].T
    return Factorization(q, again[1].T, r, None if _loses(r, inverse) else inverse)


def _gram(a: np.ndarray) -> np.ndarray:
    """`a.T @ a` of a tall matrix.

    NumPy takes the product for symmetric results. Where there is little to multiply, that takes longer than
    any other, and wakes the threads of BLAS. One column is left to it: its sum is more exact there.
    """
    work = a.size * a.shape[1]
    if a.shape[1] > 1 and rows_kernel.serves(a.dtype, a.shape[1], work):
        return rows_kernel.gram(a)
    if a.shape[1] < 2 or work >= ALONE:
        return np.asarray(a.T @ a)
    blas = importlib.import_module("scipy.linalg.blas")
    multiply = blas.dgemm if a.dtype == np.float64 else blas.sgemm
    if a.flags.c_contiguous:  # BLAS has columns in a row
        return np.asarray(multiply(1.0, a.T, a.T, trans_b=True))
    return np.asarray(multiply(1.0, a, a, trans_a=True))


def _lower_factor(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Cholesky's factor and its inverse, if there are any.

    By LAPACK itself, since NumPy's functions take longer than such small matrices, and hold up other threads.
    """
    lapack = importlib.import_module("scipy.linalg.lapack")
    factorize, invert = (
        (lapack.dpotrf, lapack.dtrtri) if gram.dtype == np.float64 else (lapack.spotrf, lapack.strtri)
    )
    factor, failed = factorize(gram, lower=1)
    if failed:
        return None
    inverse, failed = invert(factor, lower=1)
    return None if failed else (factor, inverse)


def _is_even(matrix: np.ndarray, inverse: np.ndarray) -> bool:
    """Whether the condition of a matrix is below 2.7."""
    count = len(matrix)
    return _condition(matrix, inverse) ** 2 <= count * (count + 2)


def _loses(matrix: np.ndarray, inverse: np.ndarray) -> bool:
    """Whether products with the inverse of a matrix lose too many digits."""
    return not _condition(matrix, inverse) <= CONDITION[matrix.itemsize]


def _condition(matrix: np.ndarray, inverse: np.ndarray) -> float:
    """That of a matrix, by its norm and that of its inverse."""
    return math.sqrt(np.vdot(matrix, matrix) * np.vdot(inverse, inverse))


def _times(tall: Array, small: Array) -> Array:
    """A product of matrices, in memory in the order of the first one."""
    return tall @ small if tall.flags.c_contiguous else (small.T @ tall.T).T


def _numpy_svd(a: Array) -> tuple[Array, Array, Array]:
    try:
        u, s, vt = np.linalg.svd(a, full_matrices=False)
    except np.linalg.LinAlgError:  # divide and conquer may fail where QR iteration does not
        if not np.isfinite(a).all():
            raise ArgumentError(
                "entries that are not finite (nan or inf) have no singular values; look for them in the "
                "cores, or in the dense tensor"
            ) from None
        scipy_linalg = importlib.import_module("scipy.linalg")
        u, s, vt = scipy_linalg.svd(a, full_matrices=False, lapack_driver="gesvd")
    return u, s, vt


NUMPY = Library(
    "numpy",
    np.transpose,
    lambda arrays, axis: np.concatenate(arrays, axis=axis),
    np.einsum,
    _numpy_qr,
    _numpy_svd,
    lambda shape, like: np.zeros(shape, getattr(like, "dtype", np.float64)),
    lambda values, like: np.asarray(values, like.dtype),
    lambda a: a.astype(np.float64),
    lambda values, like: values,
    np.asarray,
    functools.partial(np.take, axis=0, mode="clip"),
    np.ascontiguousarray,
    _as_it_is,
    bool,
    lambda a: False,
    lambda a: False,
    nullcontext,
)


ALONE, MANY = 2**19, 2**23
"""Multiplications from which on BLAS shares a product among threads, and from which on that pays."""


def product(left: Array, right: Array) -> Array:
    """A product of matrices. One that is not large is cut into such that BLAS does not share among threads:
    to wake them may take longer than all of it, and they are wanted elsewhere.
    """
    (rows, inner), columns = left.shape, right.shape[1]
    total = rows * inner * columns
    if not isinstance(left, np.ndarray) or not ALONE <= total < MANY:
        return left @ right
    parts, size = blocks(rows, total)
    end = parts * size
    made = np.empty((rows, columns), np.result_type(left, right))
    stack = left[:end].reshape((parts, size, inner))
    np.matmul(stack, right, out=made[:end].reshape((parts, size, columns)))
    if end < rows:
        np.matmul(left[end:], right, out=made[end:])
    return made


def blocks(rows: int, total: int) -> tuple[int, int]:
    """As few blocks of rows as are multiplied alone, and the rows of each; fewer rows than blocks remain."""
    parts = min(rows, total // ALONE + 1)
    return parts, rows // parts


PASSES = 3


def cholesky_qr(
    a: Array,
    cholesky: Callable[[Array], Array],
    divided: Callable[[Array, Array], Array],
    eye: Array,
) -> tuple[Array, Array, Array]:
    """The QR decomposition of a tall matrix by Cholesky's method, and whether its Q is orthogonal.

    The first Gram matrix is shifted, so that rounding does not make it indefinite (Fukaya and others,
    "Shifted CholeskyQR", 2020); two more passes make Q as orthogonal as can be, unless columns depend on each
    other. `divided(a, lower)` is `a` times the inverse of the transpose of `lower`.
    """
    rows, columns = a.shape[-2:]
    eps = float(np.finfo(str(a.dtype).rpartition(".")[2]).eps)
    q, r = a, eye
    for number in range(PASSES):
        gram = q.mT @ q
        if number == 0:
            square = (a * a).sum((-2, -1))[..., None, None]
            gram = gram + (11.0 * (rows + columns + 1) * columns * eps / 2.0) * square * eye
        lower = cholesky(gram)
        q, r = divided(q, lower), lower.mT @ r
    error = abs(q.mT @ q - eye).max()
    return q, r, error < 100.0 * columns * eps


def _torch_qr(torch: Any, a: Array) -> tuple[Array, Array]:
    """On a GPU by products of matrices: its own decomposition starts hundreds of small operations.

    While a CUDA graph is captured nothing can be decided; Q is then NaN if its columns are not independent.
    """
    if not a.is_cuda or a.shape[-2] < a.shape[-1]:
        return tuple(torch.linalg.qr(a))
    q, r, fits = cholesky_qr(
        a,
        lambda gram: torch.linalg.cholesky_ex(gram)[0],
        lambda q, lower: torch.linalg.solve_triangular(lower.mT, q, upper=True, left=False),
        torch.eye(a.shape[-1], dtype=a.dtype, device=a.device),
    )
    decided = _torch_decided(torch, fits)
    if decided is None:
        return q.where(fits, torch.nan), r
    return (q, r) if decided else tuple(torch.linalg.qr(a))


def _torch_decided(torch: Any, condition: Array) -> bool | None:
    if condition.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    return bool(condition)


def _torch_watches(torch: Any, a: Array) -> bool:
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(a) or torch.compiler.is_compiling()
    return bool(is_wrapped or (a.requires_grad and torch.is_grad_enabled()))


def _jax_qr(jax: Any, a: Array) -> tuple[Array, Array]:
    """The same for JAX, where a function that is being compiled cannot decide either."""
    if jax.default_backend() == "cpu" or a.shape[-2] < a.shape[-1]:
        return tuple(jax.numpy.linalg.qr(a))
    q, r, fits = _jax_cholesky_qr(jax)(a)
    decided = _jax_decided(jax, fits)
    if decided is None:
        return jax.numpy.where(fits, q, jax.numpy.nan), r
    return (q, r) if decided else tuple(jax.numpy.linalg.qr(a))


def _jax_decided(jax: Any, condition: Array) -> bool | None:
    return None if isinstance(condition, jax.core.Tracer) else bool(condition)


def _jax_kept(jax: Any, values: np.ndarray, like: Array) -> Array:
    """A true array even while a function is being compiled. Whole numbers are short, as in JAX itself."""
    with jax.ensure_compile_time_eval():
        return jax.numpy.asarray(values if values.dtype == bool else values.astype(np.int32))


@functools.cache
def _jax_cholesky_qr(jax: Any) -> Callable[[Array], tuple[Array, Array, Array]]:
    solve = jax.lax.linalg.triangular_solve

    def found(a: Array) -> tuple[Array, Array, Array]:
        with jax.default_matmul_precision("highest"):  # the default drops digits on GPUs
            return cholesky_qr(
                a,
                jax.numpy.linalg.cholesky,
                lambda q, lower: solve(lower, q, left_side=False, lower=True, transpose_a=True),
                jax.numpy.eye(a.shape[-1], dtype=a.dtype),
            )

    made: Callable[[Array], tuple[Array, Array, Array]] = jax.jit(found)
    return made


def _torch() -> Library:
    torch = importlib.import_module("torch")
    return Library(
        "torch",
        torch.permute,
        torch.cat,
        torch.einsum,
        functools.partial(_torch_qr, torch),
        lambda a: tuple(torch.linalg.svd(a, full_matrices=False)),
        lambda shape, like: torch.zeros(tuple(shape), dtype=like.dtype, device=like.device),
        lambda values, like: torch.as_tensor(np.asarray(values), dtype=like.dtype, device=like.device),
        lambda a: a.double(),
        lambda values, like: torch.as_tensor(values, device=like.device),
        lambda a: a.detach().cpu().numpy(),
        lambda a, index: torch.index_select(a, 0, index),
        lambda a: a.contiguous(),
        _as_it_is,
        functools.partial(_torch_decided, torch),
        lambda a: bool(a.is_cuda),
        functools.partial(_torch_watches, torch),
        nullcontext,
    )


def _jax() -> Library:
    jax = importlib.import_module("jax")
    jnp = jax.numpy
    return Library(
        "jax",
        jnp.transpose,
        lambda arrays, axis: jnp.concatenate(arrays, axis=axis),
        jnp.einsum,
        functools.partial(_jax_qr, jax),
        lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)),
        lambda shape, like: jnp.zeros(tuple(shape), like.dtype),
        lambda values, like: jnp.asarray(values, like.dtype),
        lambda a: a.astype(jnp.float64),
        functools.partial(_jax_kept, jax),
        np.asarray,
        lambda a, index: jnp.take(a, index, axis=0, mode="clip"),
        lambda a: a,
        functools.cache(lambda function: jax.jit(function, static_argnums=(0, 1))),
        functools.partial(_jax_decided, jax),
        lambda a: jax.default_backend() != "cpu",
        lambda a: isinstance(a, jax.core.Tracer),
        jax.ensure_compile_time_eval,
    )


_MAKERS: dict[str | None, Callable[[], Library]] = {None: lambda: NUMPY, "torch": _torch, "jax": _jax}
_made: dict[str | None, Library] = {}


def library(array: Array) -> Library:
    """The library of an array."""
    name = library_of(array)
    if name not in _made:
        _made[name] = _MAKERS[name]()
    return _made[name]


def common_library(what: str, arrays: Sequence[Array]) -> Library:
    """The library of all arrays; an error if they come from several."""
    if any(hasattr(array, "node") for array in arrays):
        return NUMPY
    found = {library(array).name: library(array) for array in arrays}
    if len(found) != 1:
        raise ArgumentError(
            f"{what} has arrays of {' and '.join(sorted(found))}; convert them to one library first"
        )
    return next(iter(found.values()))
