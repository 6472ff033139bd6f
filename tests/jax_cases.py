"""Functions of JAX arrays by family: each with the shapes of its arguments and where their entries lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

Interval = tuple[float, float]
WIDE: Interval = (-2.0, 2.0)
POSITIVE: Interval = (0.3, 2.5)
UNIT: Interval = (0.1, 0.9)
OPEN: Interval = (-0.9, 0.9)


class Case(NamedTuple):
    """A function of real arrays, with the highest order to which its derivatives are compared."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((4,),)
    interval: Interval = WIDE
    order: int = 3
    further: tuple[Any, ...] = ()
    """Arguments of whole numbers, by which it is not differentiated."""

    def points(self, seed: int = 0) -> list[np.ndarray]:
        """Arguments drawn from the interval."""
        generator = np.random.default_rng(seed)
        return [*(generator.uniform(*self.interval, shape) for shape in self.shapes), *self.further]


def _of_entries(functions: dict[str, Any], interval: Interval) -> list[Case]:
    return [Case(name, function, ((4,),), interval) for name, function in functions.items()]


def _of_rows(functions: dict[str, Any], interval: Interval = WIDE) -> list[Case]:
    return [Case(name, function, ((2, 3),), interval) for name, function in functions.items()]


def _of_pairs(functions: dict[str, Any], interval: Interval = POSITIVE) -> list[Case]:
    return [Case(name, function, ((3,), (3,)), interval) for name, function in functions.items()]


ELEMENTWISE = [
    *_of_entries(
        {
            name: getattr(jnp, name)
            for name in ("abs", "arctan", "arcsinh", "cbrt", "ceil", "cos", "cosh", "exp", "exp2", "expm1")
        }
        | {name: getattr(jnp, name) for name in ("floor", "negative", "sign", "sin", "sinh", "square")}
        | {name: getattr(jnp, name) for name in ("tanh", "trunc", "deg2rad", "positive", "round")}
        | {
            "erf": jax.scipy.special.erf,
            "erfc": jax.scipy.special.erfc,
            "logistic": lax.logistic,
            "where": lambda x: jnp.where(x > 0.3, x**3, jnp.exp(x)),
            "select": lambda x: jnp.select([x < -1, x < 1], [x**2, x**3], jnp.sin(x)),
            "piecewise by index": lambda x: lax.select_n((x > 0).astype(jnp.int32), x**2, jnp.sin(x)),
            "sinc of a shift": lambda x: jnp.sin(x + 3) / (x + 3),
            "clip": lambda x: jnp.clip(x, -0.5, 0.7) ** 2,
            "clamp": lambda x: lax.clamp(-0.5, x, 0.7) ** 3,
            "heaviside": lambda x: jnp.heaviside(x, 0.5) * x**2,
            "integer powers": lambda x: x**2 - x**5 + lax.integer_pow(x, 3),
            "logical": lambda x: jnp.where((x > -1) & ~(x > 1) | (x > 1.5), x**2, x),
            "exclusive or": lambda x: jnp.where((x > -1) ^ (x > 1), x**2, x),
            "truth values as numbers": lambda x: (x > 0) * x**2 + (x < 1).astype(float) * x,
            "nan to num": lambda x: jnp.nan_to_num(x) ** 2,
            "is finite": lambda x: jnp.where(jnp.isfinite(x), x**2, 0.0),
            "stop gradient": lambda x: x**2 * lax.stop_gradient(jnp.sin(x)),
            "remainder": lambda x: jnp.remainder(x, 0.7) ** 2,
            "fmod": lambda x: jnp.fmod(x, 0.7) ** 2,
            "mod of a variable": lambda x: jnp.mod(2.5, x) ** 2,
            "floor divide": lambda x: x * jnp.floor_divide(x, 0.3),
            "modf": lambda x: jnp.modf(x)[0] ** 2,
            "float power": lambda x: jnp.float_power(2.0, x),
            "reciprocal": lambda x: 1 / (3 + x),
            "sigmoid": jax.nn.sigmoid,
            "precision": lambda x: lax.reduce_precision(x, 11, 52) ** 2,
        },
        WIDE,
    ),
    *_of_entries(
        {name: getattr(jnp, name) for name in ("log", "log2", "log10", "log1p", "sqrt", "reciprocal", "tan")}
        | {
            "rsqrt": lax.rsqrt,
            "power": lambda x: x**2.5,
            "power of x": lambda x: x**x,
            "lgamma": jax.scipy.special.gammaln,
            "digamma": jax.scipy.special.digamma,
            "exponent": lambda x: 2.0**x,
        },
        POSITIVE,
    ),
    *_of_entries({name: getattr(jnp, name) for name in ("arccos", "arcsin", "arctanh")}, OPEN),
    *_of_entries({"erfinv": jax.scipy.special.erfinv}, UNIT),
    *_of_pairs(
        {
            "add": jnp.add,
            "subtract": jnp.subtract,
            "multiply": jnp.multiply,
            "divide": jnp.divide,
            "power of two": jnp.power,
            "arctan2": jnp.arctan2,
            "hypot": jnp.hypot,
            "maximum": jnp.maximum,
            "minimum": jnp.minimum,
            "outer": lambda x, y: jnp.outer(x, y) ** 2,
            "broadcast": lambda x, y: x[:, None] / (y + 1),
            "heat": lambda x, y: jnp.exp(-(x**2) / (4 * y)) / jnp.sqrt(y),
        }
    ),
]

STRUCTURE = [
    *_of_rows(
        {
            "reshape": lambda x: jnp.reshape(x, (3, 2)) ** 2,
            "ravel": lambda x: jnp.ravel(x) ** 3,
            "transpose": lambda x: jnp.transpose(x) * x.T,
            "swapaxes": lambda x: jnp.swapaxes(x[None], 0, 2) ** 2,
            "moveaxis": lambda x: jnp.moveaxis(x[:, None], 2, 0) ** 2,
            "squeeze": lambda x: jnp.squeeze(x[None, :, :, None]) ** 2,
            "expand": lambda x: jnp.expand_dims(x, (0, 2)) ** 2,
            "slices": lambda x: x[:, 1:] * x[:, :-1],
            "steps": lambda x: x[::1, ::2] ** 2,
            "backwards": lambda x: x[::-1, ::-1] * x,
            "flip": lambda x: jnp.flip(x, 1) * x,
            "entry": lambda x: x[1, 2] * x[0, 0],
            "last": lambda x: x[-1] ** 2 * x[0],
            "concatenate": lambda x: jnp.concatenate([x, x**2], 1),
            "stack": lambda x: jnp.stack([x, jnp.sin(x), jnp.ones_like(x)]),
            "vstack": lambda x: jnp.vstack([x, x[0] ** 2]),
            "append": lambda x: jnp.append(x, x[0] ** 2),
            "split": lambda x: jnp.split(x, 3, 1)[1] * jnp.split(x, [1], 0)[0][:, :1],
            "array split": lambda x: jnp.array_split(x, 2, 1)[1] ** 2,
            "tile": lambda x: jnp.tile(x, (2, 1)) ** 2,
            "broadcast to": lambda x: jnp.broadcast_to(x[0], (4, 3)) ** 2,
            "pad": lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=2.0) ** 2,
            "pad zero": lambda x: jnp.pad(x, 1) ** 3,
            "pad inside": lambda x: lax.pad(x, 0.0, ((1, 0, 2), (0, 1, 1))) ** 2,
            "pad inside by a number": lambda x: lax.pad(x, 3.0, ((1, 0, 2), (-1, 1, 1))) ** 2,
            "pad by an entry": lambda x: lax.pad(x**2, x[0, 0], ((1, 0, 0), (0, -1, 1))),
            "tril": lambda x: jnp.tril(x @ x.T) ** 2,
            "triu": lambda x: jnp.triu(x, 1) ** 2,
            "diff": lambda x: jnp.diff(x, axis=1) ** 2,
            "roll": lambda x: jnp.roll(x, 1, axis=1) * x,
            "rot90": lambda x: jnp.rot90(x) ** 2,
            "meshgrid": lambda x: jnp.meshgrid(x[0], x[1])[0] ** 2,
            "eye": lambda x: x @ jnp.eye(3) + jnp.ones((2, 3)) * x,
            "linspace of entries": lambda x: jnp.linspace(0.0, 1.0, 3) * x**2,
            "arange": lambda x: x * jnp.arange(3) ** 2,
            "full": lambda x: jnp.full_like(x, 2.0) * x**2,
        }
    ),
]

PRODUCTS = [
    *[
        Case(name, function, ((2, 3), (3, 2)), order=2)
        for name, function in {
            "matmul": lambda x, y: x @ y,
            "dot of sines": lambda x, y: jnp.dot(jnp.sin(x), y**2),
            "tensordot": lambda x, y: jnp.tensordot(x, y, ((1, 0), (0, 1))),
            "inner": lambda x, y: jnp.inner(x, y.T),
            "einsum ij,jk": lambda x, y: jnp.einsum("ij,jk->ki", x, y),
            "einsum ij,ji": lambda x, y: jnp.einsum("ij,ji->", x, y),
            "einsum of three": lambda x, y: jnp.einsum("ij,jk,il->kl", x, y, x),
            "einsum diagonal": lambda x, y: jnp.einsum("ii->i", x @ y),
            "kron": lambda x, y: jnp.kron(x, y)[:2, :3],
            "trace": lambda x, y: jnp.trace(x @ y),
            "vmap of dot": lambda x, y: jax.vmap(jnp.dot)(x, y.T),
            "vmap of matvec": lambda x, y: jax.vmap(lambda row: y.T @ row)(x),
            "multi dot": lambda x, y: jnp.linalg.multi_dot([x, y, x]),
            "vecdot": lambda x, y: jnp.vecdot(x, y.T),
            "matrix power": lambda x, y: jnp.linalg.matrix_power(x @ y, 3),
            "batches": lambda x, y: lax.dot_general(
                jnp.stack([x, x**2]), jnp.stack([y, y + 1]), (((2,), (1,)), ((0,), (0,)))
            ),
        }.items()
    ],
    Case("batched matmul", jnp.matmul, ((2, 2, 3), (3, 2)), order=2),
    Case("quadratic form", lambda x, a: x @ a @ x, ((3,), (3, 3))),
    Case("cross", jnp.cross, ((3,), (3,))),
]

REDUCTIONS = [
    *_of_rows(
        {
            "sum": lambda x: jnp.sum(x**2),
            "sum along": lambda x: jnp.sum(x**3, axis=1),
            "sum keeping": lambda x: x / jnp.sum(x**2, axis=0, keepdims=True),
            "prod": lambda x: jnp.prod(x, axis=1),
            "mean": lambda x: jnp.mean(x**2, axis=0),
            "var": lambda x: jnp.var(x, axis=1),
            "std": lambda x: jnp.std(x, axis=1, ddof=1),
            "max": lambda x: jnp.max(x, axis=1) ** 2,
            "min": lambda x: jnp.min(x, axis=0) ** 2,
            "ptp": lambda x: jnp.ptp(x, axis=1) ** 2,
            "argmax": lambda x: jnp.argmax(x, axis=1) * x[:, 0] ** 2,
            "argmin": lambda x: (jnp.argmin(x, axis=0) + 1) * x[0] ** 2,
            "any": lambda x: jnp.where(jnp.any(x > 0, axis=1), x[:, 0] ** 2, x[:, 1]),
            "all": lambda x: jnp.where(jnp.all(x > -1, axis=1), x[:, 0] ** 2, x[:, 1]),
            "count": lambda x: jnp.count_nonzero(x > 0) * x**2,
            "norm": lambda x: jnp.linalg.norm(x, axis=1),
            "frobenius": jnp.linalg.norm,
            "average": lambda x: jnp.average(x**2, axis=1, weights=jnp.array([1.0, 2.0, 3.0])),
            "softmax": lambda x: jax.nn.softmax(x, axis=1),
            "softmax of columns": lambda x: jax.nn.softmax(x, axis=0),
            "logsumexp": lambda x: jax.scipy.special.logsumexp(x, axis=1),
            "cosine": lambda x: jnp.dot(x[0], x[1]) / (jnp.linalg.norm(x[0]) * jnp.linalg.norm(x[1])),
            "standardize": lambda x: jax.nn.standardize(x, axis=1),
            "pairs": lambda x: jnp.sum(jnp.exp(-jnp.sum((x[:, None] - x[None]) ** 2, axis=-1))),
        }
    ),
]


@jax.jit
def _energy(w: Any, x: Any) -> Any:
    return jnp.log1p(jnp.exp(x @ w))


@jax.custom_batching.custom_vmap
def _own_batches(x: Any) -> Any:
    return jnp.sin(x)


_own_batches.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))
CALLS = [
    Case("jit", lambda w, x: jnp.sum(_energy(w, x)), ((3,), (4, 3)), order=2),
    Case("jit of jit", jax.jit(lambda w, x: _energy(w, x) ** 2), ((3,), (2, 3)), order=2),
    Case("vmap", jax.vmap(_energy, (None, 0)), ((3,), (2, 3)), order=2),
    Case("remat", jax.checkpoint(lambda w, x: _energy(jnp.sin(w), x)), ((3,), (2, 3)), order=2),
    Case(
        "grad inside",
        lambda w, x: jax.grad(lambda v: jnp.sum(_energy(v, x)))(w) ** 2,
        ((3,), (2, 3)),
        order=2,
    ),
    Case("jvp inside", lambda x: jax.jvp(jnp.sin, (x,), (x**2,))[1], ((3,),)),
    Case("hessian inside", lambda x: jnp.trace(jax.hessian(lambda y: jnp.sum(y**4))(x)) ** 2, ((3,),)),
    Case("named", lambda x: checkpoint_name(jnp.sin(x), "sine") ** 2, ((3,),), order=2),
    Case("moved", lambda x: jax.device_put(x) ** 2, ((3,),), order=2),
    Case("own batches", lambda x: _own_batches(x) ** 2, ((3,),), order=2),
    Case("debug print", lambda x: (jax.debug.print("{}", x[:0]), x**2)[1], ((3,),)),
]

FOURTH = frozenset(
    {"clip", "divide", "exp", "log", "logical", "pairs", "reshape", "sin", "sqrt", "tanh", "where"}
)
"""Cheap ones that are compared to the fourth order."""
CASES = {
    case.name: case._replace(order=4) if case.name in FOURTH and case.order == 3 else case
    for case in (*ELEMENTWISE, *STRUCTURE, *PRODUCTS, *REDUCTIONS, *CALLS)
}
