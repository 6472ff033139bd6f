"""JAX kernels of the operation records: `kernel(name)` finds one, here or among the shared ones.

Values cannot be looked at while JAX traces, so nothing raises: inverses of singular matrices are infinite or
nan, entries gathered from outside of an array are nan, and so is one where something is scattered there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hesse.backends import records
from hesse.backends.foreign import float_dtype, pick, results_on_host
from hesse.backends.jax.products import summed
from hesse.backends.jax.rows import in_one_row
from hesse.backends.kernels import Kernel, find
from hesse.backends.names import words
from hesse.errors import DifferentiationError
from hesse.ops.foreign import Rule

Params = tuple[Any, ...]


def kernel(name: str) -> Kernel:
    """The kernel of the record with this name."""
    return find(name, KERNELS, "hesse.backends.jax.records.KERNELS")


def _repeat(step: Callable[[Any, Any], Any], counts: Any, state: Any) -> Any:
    """A loop of a fixed length that skips the idle steps: JAX differentiates no other."""
    most = jnp.max(counts)

    def step_or_skip(level: Any, state: Any) -> Any:
        return lax.cond(level < most, lambda state: step(state, counts > level), lambda state: state, state)

    state = lax.fori_loop(0, records.MOST_DOUBLINGS, step_or_skip, state)
    return records.nan_beyond_the_most(jnp, counts, state)


XP = records.Namespace(
    jnp,
    **words("jax"),
    checked=lambda index, size: index,
    # Like the others, read the lower triangle.
    linalg=records.Namespace(
        jnp.linalg,
        cholesky=partial(jnp.linalg.cholesky, symmetrize_input=False),
        eigh=partial(jnp.linalg.eigh, symmetrize_input=False),
    ),
    repeat=_repeat,
    solve_triangular=partial(lax.linalg.triangular_solve, left_side=True, lower=True),
)


def _exponentials(x: Any) -> tuple[Any, Any]:
    """The largest entries, 0 where they are -inf, and the exponentials of x without them.

    All kernels that need them spell them alike, so XLA computes them once for a value and its derivatives.
    """
    largest = lax.stop_gradient(lax.expand_dims(lax.reduce_max(x, (x.ndim - 1,)), (x.ndim - 1,)))
    shift = lax.select(largest == -jnp.inf, lax.full_like(largest, 0), largest)
    return shift, in_one_row(lax.exp)(x - shift)


def _total(exponentials: Any) -> Any:
    last = exponentials.ndim - 1
    return lax.expand_dims(summed(exponentials, last), (last,))


def logsumexp(params: Params, x: Any) -> Any:
    shift, exponentials = _exponentials(x)
    found = shift + lax.log(_total(exponentials))
    return lax.squeeze(lax.select(shift == jnp.inf, shift, found), (x.ndim - 1,))


def softmax(params: Params, x: Any) -> Any:
    _, exponentials = _exponentials(x)
    return exponentials / _total(exponentials)


def log_softmax(params: Params, x: Any) -> Any:
    shift, exponentials = _exponentials(x)
    return x - shift - lax.log(_total(exponentials))


def gather(params: Params, x: Any, index: Any) -> Any:
    return jnp.take(x, _wide(index), axis=0)


def scatter(params: Params, u: Any, index: Any) -> Any:
    """Zeros with u[k] added to entry index[k]; nan where that is outside."""
    (size,) = params
    index, rest = _wide(index), u.shape[index.ndim :]
    outside = ((index < -size) | (index >= size)).reshape(index.shape + (1,) * len(rest))
    return (
        jnp.zeros((size, *rest), u.dtype)
        .at[jnp.clip(index, -size, size - 1)]
        .add(jnp.where(outside, jnp.nan, u))
    )


def _wide(index: Any) -> Any:
    """Positions in a type that holds them all, counted from the end, too."""
    return index if index.dtype.itemsize >= 4 else index.astype(jnp.int32)


def adjugate(params: Params, a: Any) -> Any:
    """By the inverse, if all of it is finite.

    Both factors are those of one elimination. JAX's determinants of small matrices are not: where a matrix is
    singular but for rounding, their product with the inverse would be any number.
    """
    factors, pivots = jax.scipy.linalg.lu_factor(a)
    is_odd = (pivots != jnp.arange(a.shape[-1])).sum(-1) % 2 == 1
    determinant = jnp.diagonal(factors, axis1=-2, axis2=-1).prod(-1) * jnp.where(is_odd, -1.0, 1.0)
    unit = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    product = determinant[..., None, None] * jax.scipy.linalg.lu_solve((factors, pivots), unit)
    return lax.cond(
        jnp.isfinite(product).all(), lambda a: product, lambda a: jnp.swapaxes(minors((1,), a), -1, -2), a
    )


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def minors(params: Params, a: Any) -> Any:
    """Derivatives by singular values and vectors would need these to be distinct."""
    return records.minors(XP, params, a)


def _moved_minors(params: Params, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (a,), (tangent,), (order,) = primals, tangents, params
    own = "abcdefghijkl"[: 2 * order]
    moved = jnp.einsum(f"...{own}yz,...yz->...{own}", minors((order + 1,), a), tangent)
    return minors(params, a), moved


minors.defjvp(_moved_minors)


def foreign(params: Params, *operands: Any) -> list[Any]:
    """A native function is traced; any other one is called back on the host, which JAX cannot see into."""
    (rule,) = params
    if rule.is_native:
        return [jnp.asarray(result) for result in rule.call(*operands)]
    return list(_called_back(rule, *operands))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _called_back(rule: Rule, *operands: Any) -> tuple[Any, ...]:
    dtype = float_dtype(operands)
    whole = jax.dtypes.canonicalize_dtype(np.intp)
    expected = tuple(
        jax.ShapeDtypeStruct(shape, whole if kind == "integer" else dtype)
        for shape, kind in rule.outputs(tuple(operand.shape for operand in operands))
    )

    def on_host(*arrays: Any) -> tuple[np.ndarray, ...]:
        found = results_on_host(rule, [np.asarray(array) for array in arrays])
        return tuple(result.astype(to.dtype) for result, to in zip(found, expected, strict=True))

    results: tuple[Any, ...] = jax.pure_callback(on_host, expected, *operands, vmap_method="sequential")
    return results


@_called_back.defjvp  # type: ignore[untyped-decorator]
def _not_differentiable(rule: Rule, primals: Any, tangents: Any) -> Any:
    raise DifferentiationError(
        f"JAX cannot differentiate {rule.name}, a function of NumPy arrays; let hesse differentiate once "
        "more, or write the function in jax.numpy and mark it native=True"
    )


KERNELS: dict[str, Kernel] = {
    **records.shared(XP),
    "adjugate": adjugate,
    "foreign": foreign,
    "gather": gather,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "minors": minors,
    "pick": pick,
    "scatter": scatter,
    "softmax": softmax,
}
