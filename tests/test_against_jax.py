"""Every operation through the NumPy front end: values and derivatives of orders 1 to 3 against nested JAX.

A row of the table is one function, written once and called with two libraries: NumPy (and hesse for what
NumPy lacks), and JAX. It is differentiated by all of its arguments, in every mode up to order 2.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import pytest

import hesse
from hesse.calculus import MODES
from hesse.ir import Apply, Map, topological
from hesse.ops.registry import ELEMENTWISE, OPERATIONS
from oracles import assert_close, jax_derivatives

HIGHEST_ORDER = 3
HIGHEST_ORDER_IN_MODES = 2


def jax_windows(x: Any, window: int, axis: int = -1, step: int = 1) -> Any:
    starts = range(0, x.shape[axis] - window + 1, step)
    stacked = jnp.stack([jnp.take(x, jnp.arange(start, start + window), axis) for start in starts])
    axis %= x.ndim
    return jnp.moveaxis(jnp.moveaxis(stacked, axis + 1, -1), 0, axis)


def jax_layer_norm(x: Any, axis: int = -1, epsilon: float = 1e-5) -> Any:
    return (x - x.mean(axis, keepdims=True)) / jnp.sqrt(x.var(axis, keepdims=True) + epsilon)


def jax_matrix_exponential(a: Any) -> Any:
    """A series with scaling and squaring; JAX's own takes seconds to compile at third order."""
    scaled = a / 32
    term = total = jnp.eye(a.shape[-1])
    for k in range(1, 16):
        term = term @ scaled / k
        total = total + term
    for _ in range(5):
        total = total @ total
    return total


BEYOND_NUMPY: dict[str, tuple[Any, Any]] = {
    "celu": (hesse.celu, lambda x, a=1.0: jnp.where(x > 0, x, a * jnp.expm1(jnp.where(x > 0, 0.0, x) / a))),
    "digamma": (hesse.digamma, jsp.digamma),
    "elu": (hesse.elu, jax.nn.elu),
    "erf": (hesse.erf, jsp.erf),
    "erfc": (hesse.erfc, jsp.erfc),
    "erfcinv": (hesse.erfcinv, lambda x: jsp.erfinv(1.0 - x)),
    "erfinv": (hesse.erfinv, jsp.erfinv),
    "expm": (hesse.expm, jax_matrix_exponential),
    "gelu": (hesse.gelu, lambda x: jax.nn.gelu(x, approximate=False)),
    "gelu_tanh": (lambda x: hesse.gelu(x, approximate=True), lambda x: jax.nn.gelu(x, approximate=True)),
    "hard_tanh": (hesse.hard_tanh, jax.nn.hard_tanh),
    "hypot": (np.hypot, lambda x, y: jnp.sqrt(x * x + y * y)),
    "layer_norm": (hesse.layer_norm, jax_layer_norm),
    "leaky_relu": (hesse.leaky_relu, jax.nn.leaky_relu),
    "lgamma": (hesse.lgamma, jsp.gammaln),
    "log_ndtr": (hesse.log_ndtr, lambda x: jnp.log(0.5 * jsp.erfc(-x / np.sqrt(2.0)))),
    "log_softmax": (hesse.log_softmax, jax.nn.log_softmax),
    "logdet": (hesse.logdet, lambda a: jnp.linalg.slogdet(a)[1]),
    "logsumexp": (hesse.logsumexp, jsp.logsumexp),
    "ndtr": (hesse.ndtr, lambda x: 0.5 * jsp.erfc(-x / np.sqrt(2.0))),
    "ndtri": (hesse.ndtri, lambda x: np.sqrt(2.0) * jsp.erfinv(2.0 * x - 1.0)),
    "polygamma": (hesse.polygamma, jsp.polygamma),
    "relu": (hesse.relu, jax.nn.relu),
    "safe_norm": (hesse.safe_norm, jnp.linalg.norm),
    "selu": (hesse.selu, jax.nn.selu),
    "sigmoid": (hesse.sigmoid, jax.nn.sigmoid),
    "silu": (hesse.silu, jax.nn.silu),
    "sliding_window_view": (np.lib.stride_tricks.sliding_window_view, jax_windows),
    "softmax": (hesse.softmax, jax.nn.softmax),
    "softplus": (hesse.softplus, jax.nn.softplus),
    "softsign": (hesse.softsign, jax.nn.soft_sign),
    "solve_triangular": (hesse.solve_triangular, jax.scipy.linalg.solve_triangular),
    "stop_gradient": (hesse.stop_gradient, jax.lax.stop_gradient),
    "unfold": (hesse.unfold, jax_windows),
    "xlogy": (hesse.xlogy, jsp.xlogy),
}


class Library:
    """An array module together with functions that it lacks."""

    def __init__(self, module: Any, others: dict[str, Any]) -> None:
        self._module = module
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return self._others[name] if name in self._others else getattr(self._module, name)


NUMPY = Library(np, {name: ours for name, (ours, _) in BEYOND_NUMPY.items()})
JAX = Library(jnp, {name: reference for name, (_, reference) in BEYOND_NUMPY.items()})


class Input(NamedTuple):
    """A random array with entries from an interval, no two of them close to each other."""

    shape: tuple[int, ...]
    low: float = -1.5
    high: float = 1.5

    def sample(self, generator: np.random.Generator) -> np.ndarray:
        count = int(np.prod(self.shape))
        cells = generator.permutation(count) + generator.uniform(0.2, 0.8, count)
        return (self.low + (self.high - self.low) * cells / max(count, 1)).reshape(self.shape)


class Row(NamedTuple):
    """A function of a library and of arrays, and where to evaluate it."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]

    def arrays(self) -> list[np.ndarray]:
        generator = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [given.sample(generator) for given in self.inputs]


def row(name: str, function: Callable[..., Any], *inputs: Input | tuple[int, ...]) -> Row:
    return Row(name, function, tuple(given if isinstance(given, Input) else Input(given) for given in inputs))


def bent(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> Row:
    """A linear function between two others, so that it has derivatives of every order."""
    return row(name, lambda xp, *arrays: xp.sin(function(xp, *(array * array for array in arrays))), *shapes)


def with_a_zero(name: str, function: Callable[..., Any]) -> Row:
    """The function at three entries, the second of which is zero."""
    offset = row(name, function, (3,)).arrays()[0] * np.array([0.0, 1.0, 0.5])
    return row(name, lambda xp, x: function(xp, x - offset), (3,))


POSITIVE = (0.3, 2.5)
ANYWHERE = (-1.5, 1.5)
ONE_OPERAND: dict[str, tuple[float, float]] = {
    **dict.fromkeys(["negative", "exp", "exp2", "expm1", "square", "sin", "cos", "arctan"], ANYWHERE),
    **dict.fromkeys(["sinh", "cosh", "tanh", "arcsinh", "erf", "erfc", "sigmoid", "softplus"], ANYWHERE),
    **dict.fromkeys(["log_ndtr", "ndtr"], ANYWHERE),
    **dict.fromkeys(["erfcinv", "ndtri"], (0.15, 0.85)),
    **dict.fromkeys(["gelu", "gelu_tanh", "silu"], ANYWHERE),
    **dict.fromkeys(["abs", "relu", "leaky_relu", "elu", "selu", "celu", "softsign", "cbrt"], (-1.6, 1.4)),
    **dict.fromkeys(["log", "log2", "log10", "sqrt", "reciprocal", "lgamma", "digamma"], POSITIVE),
    **dict.fromkeys(["arcsin", "arccos", "arctanh", "erfinv"], (-0.8, 0.8)),
    "log1p": (-0.6, 2.0),
    "tan": (-1.2, 1.2),
    "arccosh": (1.2, 3.0),
    "hard_tanh": (-2.6, 2.4),
}
LOCALLY_CONSTANT = (
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "rint",
    "stop_gradient",
    "isnan",
    "isinf",
    "isfinite",
)


def power_rows() -> Iterator[Row]:
    for exponent in (0, 1, 2, 3, 4, 5, -1, -2, 0.5, -0.5, 1.5, -2.5):
        yield row(f"power {exponent}", lambda xp, x, e=exponent: x**e, Input((2,), *POSITIVE))
    for exponent in (2, 3, 5):
        yield with_a_zero(f"power {exponent} with a zero", lambda xp, x, e=exponent: x**e)
    exponents = np.array([2.0, -0.5, 3.0])
    yield row("power by a constant array", lambda xp, x: xp.power(x, exponents), Input((3,), *POSITIVE))
    yield row("power of a constant", lambda xp, x: 2.5**x, (2,))
    yield row("power of arrays", lambda xp, x, y: x**y, Input((2, 1), *POSITIVE), (2,))


ELEMENTWISE_ROWS = [
    *(
        row(name, lambda xp, x, f=name: getattr(xp, f)(x), Input((2,), *at))
        for name, at in ONE_OPERAND.items()
    ),
    *(row(name, lambda xp, x, f=name: getattr(xp, f)(3 * x) * xp.sin(x), (3,)) for name in LOCALLY_CONSTANT),
    *power_rows(),
    row("elu with alpha", lambda xp, x: xp.elu(x, 0.7), (2,)),
    row("celu with alpha", lambda xp, x: xp.celu(x, 0.7), (2,)),
    row("leaky_relu with slope", lambda xp, x: xp.leaky_relu(x * x * x, 0.2), (2,)),
    row("polygamma", lambda xp, x: xp.polygamma(2, x), Input((2,), *POSITIVE)),
    row("arctan2", lambda xp, y, x: xp.arctan2(y, x), (3,), (3,)),
    row("remainder", lambda xp, x, y: xp.remainder(3 * x, y * y + 0.3) * xp.sin(y), (3,), (3,)),
    row("fmod", lambda xp, x, y: xp.fmod(3 * x, y * y + 0.3) * xp.sin(y), (3,), (3,)),
    row("ratio", lambda xp, x, y: xp.floor(x / (y * y + 0.3) + 0.2) * xp.sin(y) * x, (3,), (3,)),
    row("floor_divide", lambda xp, x, y: xp.floor_divide(3 * x, y * y + 0.3) * xp.sin(y) * x, (3,), (3,)),
    row("hypot", lambda xp, x, y: xp.hypot(x, y), (2,), (2, 1)),
    row("maximum", lambda xp, x, y: xp.maximum(x, y * y) * y, (3,), (3,)),
    row("minimum", lambda xp, x, y: xp.minimum(x, y * y) * y, (3,), (3,)),
    row("clip", lambda xp, x: xp.clip(x * x * x, -0.5, 0.5), (4,)),
    row("clip by arrays", lambda xp, x, y: xp.clip(xp.sin(x), -y * y, y * y), (3,), (3,)),
    row("clip below", lambda xp, x: xp.clip(x * x * x, -0.5, None), (4,)),
    row("where", lambda xp, x, y: xp.where(x > y, x * y, xp.sin(x)), (3,), (3,)),
    row("where by a constant mask", lambda xp, x: xp.where(np.array([True, False]), xp.exp(x), x**3), (2,)),
    row("xlogy", lambda xp, x, y: xp.xlogy(x, y), (2,), Input((2,), *POSITIVE)),
    row("logaddexp", lambda xp, x, y: xp.logaddexp(x, y), (2,), (1,)),
    row(
        "comparisons", lambda xp, x, y: (x > y) * x * x + (x <= y) * xp.sin(x * y) + (x != y) * y, (3,), (3,)
    ),
    row("logic", lambda xp, x, y: xp.where((x > 0) & ~(y < x) | (x == y), x * y, y**3), (3,), (3,)),
    row(
        "arithmetic", lambda xp, x, y: (2 - x) / y - y / 3 + 1 / (x - 4) + x * y, (2,), Input((2,), *POSITIVE)
    ),
]


def squared(matrix: Any) -> Any:
    """The matrix times itself."""
    return matrix @ matrix


def shared(xp: Any, x: Any) -> Any:
    """A subexpression used several times."""
    y = xp.exp(x)
    return y * y + xp.sin(y) @ y


SAME_INPUT_TWICE = [
    row("x*x", lambda xp, x: x * x, (3,)),
    row("x*x*x of a matrix", lambda xp, x: x * x * x, (2, 2)),
    row("x@x", lambda xp, x: squared(x), (2, 2)),
    row("x@x@x", lambda xp, x: x @ x @ x, (2, 2)),
    row("x@x of vectors", lambda xp, x: x @ x, (3,)),
    row("x.T@x", lambda xp, x: x.T @ x, (3, 2)),
    row("x**x", lambda xp, x: x**x, Input((3,), *POSITIVE)),
    row("x/x", lambda xp, x: x / x, Input((2,), *POSITIVE)),
    row("x-x", lambda xp, x: x - x + x * (x - x), (2,)),
    row("x*x' of equal sizes", lambda xp, x: x * x.T + xp.sin(x), (2, 2)),
    row("maximum of x and itself squared", lambda xp, x: xp.maximum(x, x * x), (3,)),
    row("outer of x and x", lambda xp, x: xp.outer(x, x) * x, (3,)),
    row("a shared subexpression", shared, (3,)),
    row("equal sizes on all axes", lambda xp, x: xp.einsum("ijk,jki->ikj", x, xp.sin(x)), (2, 2, 2)),
]


def random_shapes(count: int = 8) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Distinct pairs of different shapes that broadcast together, with at most six entries each."""
    generator = np.random.default_rng(11)
    pairs: dict[tuple[tuple[int, ...], tuple[int, ...]], None] = {}
    while len(pairs) < count:
        whole = generator.integers(1, 4, size=generator.integers(1, 4))
        first, second = (
            tuple(
                np.where(generator.random(whole.size) < 0.4, 1, whole)[
                    generator.integers(0, whole.size) :
                ].tolist()
            )
            for _ in range(2)
        )
        if first != second and max(np.prod(first), np.prod(second)) <= 6:
            pairs[first, second] = None
    return list(pairs)


SIZES = [
    row("0-d", lambda xp, x: xp.sin(x) * x, ()),
    row("0-d x**x", lambda xp, x: x**x, Input((), *POSITIVE)),
    row("0-d sum, mean and max", lambda xp, x: xp.sum(x * x) * xp.mean(xp.exp(x)) * xp.max(x), ()),
    row("0-d with a matrix", lambda xp, x, y: x * x * y + xp.exp(x), (), (2, 1)),
    row("0-d to a matrix", lambda xp, x: xp.broadcast_to(x * xp.sin(x), (2, 1)), ()),
    row("0-d by indexing", lambda xp, x: x[None] ** 3 * np.arange(2.0), ()),
    row("0-d reshaped", lambda xp, x: xp.reshape(xp.sin(x), (1, 1)), ()),
    *(
        row(f"broadcasting {first} {second}", lambda xp, x, y: x * y + xp.sin(y) / (2 + x * x), first, second)
        for first, second in [
            *random_shapes(),
            ((), (2, 2)),
            ((1, 1), (1,)),
            ((0,), (1,)),
            ((2, 0), (2, 1)),
            ((1, 0), (3, 1)),
        ]
    ),
    row("empty elementwise", lambda xp, x: xp.exp(x) * x, (2, 0)),
    row("empty sum", lambda xp, x: xp.sum(x * x, axis=1) + 1.0, (2, 0)),
    row("empty prod", lambda xp, x: xp.prod(x, axis=1), (2, 0)),
    row("empty inner axis", lambda xp, x, y: x @ y + 2.0, (2, 0), (0, 3)),
    row("empty outer axis", lambda xp, x, y: xp.sin(x @ y), (0, 2), (2, 2)),
    row("empty joined", lambda xp, x, y: xp.concatenate([x, y * y, x]), (0,), (2,)),
    row("empty slice", lambda xp, x: xp.sin(x[2:2]) + xp.sum(x * x), (3,)),
    row("empty reshaped", lambda xp, x: xp.reshape(x * x, (3, 0)), (0, 2)),
    row("empty cumsum", lambda xp, x: xp.cumsum(x * x, axis=0), (0, 2)),
    row("empty index", lambda xp, x: xp.sin(x)[np.array([], dtype=int)], (3,)),
    row("empty logsumexp along the other axis", lambda xp, x: xp.logsumexp(x, axis=0), (2, 0)),
    row("empty softmax along the other axis", lambda xp, x: xp.softmax(x, axis=0), (2, 0)),
    row("empty linear algebra", lambda xp, x: xp.linalg.inv(x), (0, 2, 2)),
    row("size one reduced", lambda xp, x: xp.std(x, axis=1) + xp.prod(x, axis=1), Input((2, 2), *POSITIVE)),
    row("size one softmax", lambda xp, x: xp.softmax(x, axis=-1) * x, (2, 1)),
    row("size one products", lambda xp, x, y: xp.sin(x @ y) * x, (2, 1), (1, 2)),
    row("size one cumulative", lambda xp, x: xp.cumsum(x * x, axis=1) * xp.cumprod(x, axis=1), (2, 1)),
    row(
        "size one linear algebra",
        lambda xp, x: xp.linalg.inv(x) * xp.linalg.det(x) ** 3,
        Input((1, 1), 1.0, 2.0),
    ),
]

LEFT, RIGHT = np.linspace(-1.0, 1.0, 6).reshape(2, 3), np.linspace(0.5, 2.0, 6).reshape(3, 2)

PRODUCTS = [
    row("einsum", lambda xp, x, y: xp.einsum("ij,jk->ki", xp.sin(x), y), (2, 2), (2, 1)),
    row("einsum, implicit output", lambda xp, x, y: xp.einsum("ji,jk", xp.sin(x), y), (2, 2), (2, 1)),
    row("einsum diagonal", lambda xp, x: xp.einsum("ii->i", xp.exp(x)) ** 2, (2, 2)),
    row(
        "einsum trace of a product", lambda xp, x, y: xp.einsum("ij,jk,ki->", x, xp.sin(y), x), (2, 2), (2, 2)
    ),
    row(
        "einsum of three", lambda xp, x, y: xp.einsum("i,j,ij->ij", x, y, xp.sin(xp.outer(x, y))), (2,), (2,)
    ),
    row("einsum with dots", lambda xp, x, y: xp.einsum("...i,i->...", xp.sin(x), y), (2, 2), (2,)),
    row("einsum sums a lone label", lambda xp, x, y: xp.einsum("ij,k->i", xp.sin(x), y * y), (2, 2), (2,)),
    *(
        row(f"matmul {first} {second}", lambda xp, x, y: xp.matmul(xp.sin(x), y * y), first, second)
        for first, second in [
            ((2,), (2,)),
            ((2, 2), (2,)),
            ((2,), (2, 2)),
            ((2, 1), (1, 2)),
            ((2, 1, 2), (2, 1)),
            ((2, 1, 1), (2, 1, 2)),
            ((1, 2, 1), (2, 1, 2)),
            ((2,), (2, 2, 1)),
        ]
    ),
    row("dot of matrices", lambda xp, x, y: xp.dot(x * x, xp.sin(y)), (2, 2), (2, 1)),
    row("dot of many axes", lambda xp, x, y: xp.dot(xp.sin(x), y), (1, 2), (2, 2, 1)),
    row("dot with 0-d", lambda xp, x, y: xp.dot(x, xp.exp(y)) * x, (), (2,)),
    row("inner", lambda xp, x, y: xp.inner(xp.sin(x), y * y), (2, 2), (1, 2)),
    row("outer", lambda xp, x, y: xp.outer(xp.sin(x), y * y), (2, 1), (2,)),
    row("vdot", lambda xp, x, y: xp.vdot(xp.sin(x), y * y), (2, 2), (2, 2)),
    row("tensordot by number", lambda xp, x, y: xp.tensordot(xp.sin(x), y * y, 2), (1, 2, 2), (2, 2)),
    row("tensordot by lists", lambda xp, x, y: xp.tensordot(xp.sin(x), y, ([1, 0], [0, 1])), (2, 2), (2, 2)),
    row("tensordot of nothing", lambda xp, x, y: xp.tensordot(xp.sin(x), y, 0), (2,), (2,)),
    row("kron", lambda xp, x, y: xp.kron(xp.sin(x), y * y), (2, 1), (1, 2)),
    row("kron of vectors", lambda xp, x: xp.kron(x, xp.sin(x)), (2,)),
    row("trace", lambda xp, x: xp.trace(xp.exp(x)) * x, (2, 2)),
    row("trace with offset", lambda xp, x: xp.trace(xp.exp(x) * x, 1), (2, 3)),
    row("matmul by constants", lambda xp, x: LEFT @ xp.sin(x) @ LEFT, (3, 2)),
    row("multi_dot", lambda xp, x, y: xp.linalg.multi_dot([x, xp.sin(y), x]), (2, 2), (2, 2)),
    row("convolve", lambda xp, x, y: xp.convolve(xp.sin(x), y, "full"), (3,), (2,)),
    row("convolve same", lambda xp, x, y: xp.convolve(xp.sin(x), y, "same"), (3,), (2,)),
    row("convolve valid", lambda xp, x, y: xp.convolve(xp.sin(x), y, "valid"), (3,), (2,)),
    row("a bilinear form", lambda xp, x, y: x @ (LEFT @ RIGHT) @ xp.exp(y), (2,), (2,)),
]


def reduction_rows() -> Iterator[Row]:
    axes: list[tuple[str, dict[str, Any]]] = [
        ("of all", {}),
        ("over axis -1", {"axis": -1}),
        ("over two axes, kept", {"axis": (0, 2), "keepdims": True}),
    ]
    for name in ("sum", "mean", "prod", "var", "std", "max", "min", "logsumexp"):
        for text, options in axes:
            yield row(
                f"{name} {text}",
                lambda xp, x, f=name, o=options: getattr(xp, f)(xp.sin(x) + x * x * x, **o),
                (3, 1, 2),
            )


REDUCTIONS = [
    *reduction_rows(),
    row("var with ddof", lambda xp, x: xp.var(x * x, axis=0, ddof=1), (3, 2)),
    row("std with ddof", lambda xp, x: xp.std(x, axis=1, ddof=1, keepdims=True), (2, 3)),
    row("sum kept", lambda xp, x: x * xp.sum(x * x, keepdims=True), (2, 2)),
    row("sums of different parts", lambda xp, x: xp.einsum("i,j,k->", x, x[:2], xp.sin(x)), (3,)),
    with_a_zero("prod with a zero", lambda xp, x: xp.prod(x, axis=0)),
    with_a_zero("cumprod with a zero", lambda xp, x: xp.cumprod(x)),
    row("average", lambda xp, x, y: xp.average(xp.sin(x), axis=0, weights=y), (3, 2), Input((3,), *POSITIVE)),
    row("amax", lambda xp, x: xp.amax(x * x, axis=0), (3, 2)),
    row("amin", lambda xp, x: xp.amin(x * x, axis=0), (3, 2)),
    row("ptp", lambda xp, x: xp.ptp(x * x * x, axis=1), (2, 3)),
    row("median", lambda xp, x: xp.median(x * x * x, axis=0), (4,)),
    row("argmax to select", lambda xp, x: xp.sin(x)[xp.argmax(x)] * x, (3,)),
    row(
        "argmin to select along an axis",
        lambda xp, x: xp.take_along_axis(x * x, xp.expand_dims(xp.argmin(x, axis=1), 1), axis=1),
        (2, 3),
    ),
    row("cumsum", lambda xp, x: xp.cumsum(xp.sin(x)) * x, (4,)),
    row("cumsum flattened", lambda xp, x: xp.cumsum(xp.sin(x)), (2, 2)),
    row("cumsum along axis 1", lambda xp, x: xp.sin(xp.cumsum(x * x, axis=1)), (2, 3)),
    row("cumprod", lambda xp, x: xp.cumprod(x), (4,)),
    row("cumprod along axis 1", lambda xp, x: xp.cumprod(xp.sin(x), axis=1), (2, 3)),
    row("sort", lambda xp, x: xp.sort(x * x * x), (4,)),
    row("sort along axis 0", lambda xp, x: xp.sin(xp.sort(x, axis=0)) * x, (3, 2)),
    row(
        "numbers of positions", lambda xp, x: xp.sin(x) * (xp.argsort(x)[::-1] * 3 + xp.argmax(x) // 2), (4,)
    ),
    row(
        "chosen positions",
        lambda xp, x: xp.sin(x)[xp.where(x > 0, xp.argsort(x), (3 * x * x).astype(int) % 4)],
        (4,),
    ),
    row("positions in a sequence", lambda xp, x: xp.sin(x)[xp.searchsorted(xp.sort(x), -x) - 1], (4,)),
    row("argsort to select", lambda xp, x: xp.sin(x)[xp.argsort(-x)], (4,)),
    row("norm", lambda xp, x: xp.linalg.norm(x), (2, 2)),
    row("norm of order 1", lambda xp, x: xp.linalg.norm(x * x * x, 1), (3,)),
    row("norm of order 2 along an axis", lambda xp, x: xp.linalg.norm(x, 2, axis=0), (2, 3)),
    row("norm of order 3, kept", lambda xp, x: xp.linalg.norm(x, 3, axis=1, keepdims=True), (2, 2)),
    row("norm of order 2 of a matrix", lambda xp, x: xp.linalg.norm(x * x * x, 2), (2, 3)),
    row("norm of order inf", lambda xp, x: xp.linalg.norm(x * x * x, np.inf), (3,)),
    row("norm of order -inf", lambda xp, x: xp.linalg.norm(x * x * x, -np.inf), (3,)),
    row("Frobenius norm", lambda xp, x: xp.linalg.norm(x, "fro"), (2, 3)),
    row("Frobenius norm of a batch", lambda xp, x: xp.linalg.norm(x, "fro", axis=(0, 2)), (2, 2, 1)),
    row("matrix norm of order 1", lambda xp, x: xp.linalg.norm(xp.sin(x), 1), (2, 3)),
    row("matrix norm of order inf", lambda xp, x: xp.linalg.norm(xp.sin(x), np.inf, axis=(1, 0)), (2, 3)),
    row("softmax", lambda xp, x: xp.softmax(x), (3,)),
    row("softmax along axis 0", lambda xp, x: xp.softmax(x * x, axis=0), (2, 2)),
    row("log_softmax", lambda xp, x: xp.log_softmax(x), (3,)),
    row("log_softmax along axis 0", lambda xp, x: xp.log_softmax(x * x, axis=0), (2, 2)),
    row("layer_norm", lambda xp, x: xp.layer_norm(x), (3,)),
    row("layer_norm along axis 0", lambda xp, x: xp.layer_norm(xp.sin(x), axis=0), (3, 2)),
    row("softmax written out", lambda xp, x: xp.exp(x) / xp.sum(xp.exp(x), axis=-1, keepdims=True), (2, 2)),
    row("logsumexp written out", lambda xp, x: xp.log(xp.sum(xp.exp(x), axis=0)), (2, 2)),
    row("cross entropy", lambda xp, x: -xp.mean(xp.log_softmax(x)[np.arange(2), np.array([2, 0])]), (2, 3)),
]

BASIS = np.random.default_rng(5).normal(size=(3, 2, 3, 3))
STRETCH = np.diag([1.5, 3.0, 5.0])


def matrices(xp: Any, x: Any) -> Any:
    """Two well-conditioned 3x3 matrices, all entries of which depend on three parameters."""
    return STRETCH + 0.3 * xp.tensordot(x, BASIS, 1)


def matrix(xp: Any, x: Any) -> Any:
    """One well-conditioned 3x3 matrix."""
    return matrices(xp, x)[0]


def symmetric(xp: Any, x: Any) -> Any:
    """A positive definite matrix with distinct eigenvalues."""
    return (matrix(xp, x) + matrix(xp, x).T) / 2


def symmetric_batch(xp: Any, x: Any) -> Any:
    """Two of them."""
    return (matrices(xp, x) + xp.swapaxes(matrices(xp, x), 1, 2)) / 2


def matrix_logarithm(xp: Any, x: Any) -> Any:
    """By eigenvalues and eigenvectors."""
    values, vectors = xp.linalg.eigh(symmetric(xp, x))
    return (vectors * xp.log(values)) @ vectors.T


REGULAR = np.array([[2.0, 0.3], [-0.4, 1.5]])

LINEAR_ALGEBRA = [
    row("inv", lambda xp, x: xp.linalg.inv(x + REGULAR), Input((2, 2), -0.3, 0.3)),
    row("inv of a batch", lambda xp, x: xp.linalg.inv(matrices(xp, x)), (3,)),
    row("det", lambda xp, x: xp.linalg.det(matrix(xp, x)), (3,)),
    row("det by entries", lambda xp, x: xp.linalg.det(x + REGULAR), (2, 2)),
    row("det of a batch", lambda xp, x: xp.linalg.det(matrices(xp, x)), (3,)),
    row("slogdet", lambda xp, x: xp.linalg.slogdet(matrix(xp, x))[1], (3,)),
    row("slogdet of a batch", lambda xp, x: xp.linalg.slogdet(-matrices(xp, x))[1], (3,)),
    row("sign of slogdet", lambda xp, x: xp.linalg.slogdet(-matrix(xp, x))[0] * xp.sin(x), (3,)),
    row("logdet", lambda xp, x: xp.logdet(x + REGULAR), Input((2, 2), -0.3, 0.3)),
    row("solve", lambda xp, x, y: xp.linalg.solve(matrix(xp, x), xp.sin(y)), (3,), (3,)),
    row(
        "solve for a matrix",
        lambda xp, x, y: xp.linalg.solve(x + REGULAR, y),
        Input((2, 2), -0.3, 0.3),
        (2, 1),
    ),
    row("safe_norm", lambda xp, x: xp.safe_norm(xp.sin(x)), (3,)),
    row("solve_triangular", lambda xp, x, y: xp.solve_triangular(matrix(xp, x), xp.sin(y)), (3,), (3,)),
    row(
        "solve_triangular below",
        lambda xp, x, y: xp.solve_triangular(matrix(xp, x), xp.sin(y), lower=True),
        (3,),
        (3, 2),
    ),
    row("solve for a batch", lambda xp, x, y: xp.linalg.solve(matrices(xp, x), xp.sin(y)), (3,), (3, 1)),
    row("solve with itself", lambda xp, x: xp.linalg.solve(matrix(xp, x), matrix(xp, x) ** 2), (3,)),
    row("cholesky", lambda xp, x: xp.linalg.cholesky(symmetric(xp, x)), (3,)),
    row("cholesky by entries", lambda xp, x: xp.linalg.cholesky(x @ x.T + np.eye(2)), (2, 2)),
    row("cholesky of a batch", lambda xp, x: xp.linalg.cholesky(symmetric_batch(xp, x)), (3,)),
    *(
        row(
            f"matrix_power {n}",
            lambda xp, x, n=n: xp.linalg.matrix_power(x + REGULAR, n),
            Input((2, 2), -0.3, 0.3),
        )
        for n in (0, 1, 3, 5, -2)
    ),
    row("matrix_power of a batch", lambda xp, x: xp.linalg.matrix_power(matrices(xp, x), 3), (3,)),
    row("pinv of a tall matrix", lambda xp, x: xp.linalg.pinv(matrix(xp, x)[:, :2]), (3,)),
    row("pinv of a wide matrix", lambda xp, x: xp.linalg.pinv(matrix(xp, x)[:2]), (3,)),
    row("pinv of a batch", lambda xp, x: xp.linalg.pinv(matrices(xp, x)[:, :, 1:]), (3,)),
    row("expm", lambda xp, x: xp.expm(matrix(xp, x) / 3), (3,)),
    row("expm by entries", lambda xp, x: xp.expm(x), (2, 2)),
    row("expm of a batch", lambda xp, x: xp.expm(matrices(xp, x) / 3), (3,)),
    row("eigvalsh", lambda xp, x: xp.linalg.eigvalsh(symmetric(xp, x)), (3,)),
    row("eigvalsh of a batch", lambda xp, x: xp.linalg.eigvalsh(symmetric_batch(xp, x)), (3,)),
    row(
        "eigvalsh by entries",
        lambda xp, x: xp.linalg.eigvalsh(x + x.T + np.diag([1.0, 4.0])),
        Input((2, 2), -1, 1),
    ),
    # Eigenvectors are unique up to sign.
    row("eigh vectors", lambda xp, x: xp.linalg.eigh(symmetric(xp, x))[1] ** 2, (3,)),
    row("eigh vectors of a batch", lambda xp, x: xp.linalg.eigh(symmetric_batch(xp, x))[1] ** 2, (3,)),
    row("eigh rebuilt", matrix_logarithm, (3,)),
    row(
        "Gaussian log likelihood",
        lambda xp, x: x @ xp.linalg.solve(symmetric(xp, x), x) + xp.logdet(symmetric(xp, x)),
        (3,),
    ),
]

INDEX = np.array([2, 0, 2, -1])
MASK = np.array([[True, False, True], [False, True, False]])

STRUCTURAL = [
    bent("transpose", lambda xp, x: xp.transpose(x), (2, 3)),
    bent("transpose by order", lambda xp, x: xp.transpose(x, (2, 0, 1)), (1, 2, 2)),
    bent("swapaxes", lambda xp, x: xp.swapaxes(x, 0, -1), (1, 2, 2)),
    bent("moveaxis", lambda xp, x: xp.moveaxis(x, 0, -1), (2, 1, 2)),
    bent("moveaxis of two", lambda xp, x: xp.moveaxis(x, (0, 1), (2, 0)), (2, 1, 2)),
    bent("broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, 2, 2)), (2, 1)),
    bent("squeeze", lambda xp, x: xp.squeeze(x), (1, 3, 1)),
    bent("squeeze an axis", lambda xp, x: xp.squeeze(x, axis=2), (1, 3, 1)),
    bent("expand_dims", lambda xp, x: xp.expand_dims(x, (0, 2)), (2, 2)),
    bent("slice", lambda xp, x: x[1:3], (4,)),
    bent("slice with step", lambda xp, x: x[1::2] + x[::2], (4,)),
    bent("negative slice", lambda xp, x: x[-3:-1], (4,)),
    bent("negative step", lambda xp, x: x[::-2], (5,)),
    bent("negative step from the middle", lambda xp, x: x[3:0:-1], (5,)),
    bent("integers", lambda xp, x: x[-1, 1] * x[0], (2, 2)),
    bent("ellipsis and new axes", lambda xp, x: x[..., 0, None] * x[None, 1], (2, 3)),
    bent("slices of both axes", lambda xp, x: x[:, ::-1][1:, :2], (2, 3)),
    row("differences of neighbours", lambda xp, x: (x[1:] - x[:-1] ** 2) ** 2, (4,)),
    bent("concatenate", lambda xp, x, y: xp.concatenate([x, y, x]), (2,), (2,)),
    bent("concatenate along axis 1", lambda xp, x, y: xp.concatenate([x, y], axis=1), (2, 1), (2, 2)),
    bent("stack", lambda xp, x, y: xp.stack([x, y, x * y]), (2,), (2,)),
    bent("stack along the last axis", lambda xp, x, y: xp.stack([x, y], axis=-1), (2,), (2,)),
    bent("vstack, hstack", lambda xp, x, y: xp.vstack([x, y]) @ xp.hstack([x, y]).reshape(2, 2), (2,), (2,)),
    row("block", lambda xp, x, y: xp.block([[x, np.zeros((1, 1))], [y, xp.sin(x)]]) ** 2, (1, 1), (1, 1)),
    row(
        "a product of blocks",
        lambda xp, x: squared(xp.block([[x, np.zeros((2, 1))], [LEFT[:1]]])),
        (2, 2),
    ),
    bent("split", lambda xp, x: xp.multiply(*xp.split(x, 2)), (4,)),
    bent("split at positions", lambda xp, x: xp.sum(xp.split(x, [1, 3])[1]) * x, (4,)),
    bent("split along axis 1", lambda xp, x: xp.multiply(*xp.split(x, [1], axis=1)), (2, 2)),
    bent("array_split", lambda xp, x: xp.array_split(x, 2)[0] * xp.array_split(x, 2)[1][0], (3,)),
    bent("pad", lambda xp, x: xp.pad(x, 1), (2, 2)),
    bent("pad by axis", lambda xp, x: xp.pad(x, ((1, 0), (0, 2))), (2, 2)),
    bent("pad with a value", lambda xp, x: xp.pad(x, (0, 2), constant_values=0.5), (2,)),
    *(
        bent(f"pad {mode}", lambda xp, x, m=mode: xp.pad(x, (2, 1), mode=m), (3,))
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ),
    bent("flip", lambda xp, x: xp.flip(x) * x, (2, 2)),
    bent("flip an axis", lambda xp, x: xp.flip(x, axis=1) * x, (2, 2)),
    bent("rot90", lambda xp, x: xp.rot90(x), (2, 3)),
    bent("roll", lambda xp, x: xp.roll(x, 1) * x, (4,)),
    bent("roll flattened", lambda xp, x: xp.roll(x, 3) * x, (2, 2)),
    bent("roll along axes", lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)) * x, (2, 3)),
    bent("repeat", lambda xp, x: xp.repeat(x, 2), (2, 2)),
    bent("repeat along an axis", lambda xp, x: xp.repeat(x, 2, axis=0), (2, 2)),
    bent("repeat by counts", lambda xp, x: xp.repeat(x, np.array([2, 0, 1]), axis=0), (3,)),
    bent("tile", lambda xp, x: xp.tile(x, 2), (3,)),
    bent("tile along axes", lambda xp, x: xp.tile(x, (2, 1, 2)), (1, 2)),
    bent("diag of a vector", lambda xp, x: xp.diag(x), (3,)),
    bent("diag of a vector with offset", lambda xp, x: xp.diag(x, 1) + xp.diag(x, -1), (2,)),
    bent("diag of a matrix", lambda xp, x: xp.diag(x), (2, 3)),
    bent("diagonal with offset", lambda xp, x: xp.diagonal(x, 1), (2, 3)),
    bent("diagonal with negative offset", lambda xp, x: xp.diagonal(x, -1), (3, 2)),
    bent("diagonal of a batch", lambda xp, x: xp.diagonal(x, 0, 0, 2), (2, 1, 2)),
    bent("diagflat", lambda xp, x: xp.diagflat(x, 1), (2, 1)),
    bent("tril", lambda xp, x: xp.tril(x), (2, 3)),
    bent("triu with offset", lambda xp, x: xp.triu(x, 1), (2, 3)),
    bent("tril with negative offset of a batch", lambda xp, x: xp.tril(x, -1), (1, 2, 2)),
    bent("reshape", lambda xp, x: xp.reshape(x, (3, 2)), (2, 3)),
    bent("reshape to one axis more", lambda xp, x: xp.reshape(x, (2, -1, 1)), (6,)),
    bent("reshape and transpose", lambda xp, x: xp.reshape(x.T, (2, 3)).T @ x, (2, 3)),
    bent("ravel", lambda xp, x: xp.ravel(x) * xp.ravel(x.T), (2, 2)),
    bent("integer array", lambda xp, x: x[INDEX], (3,)),
    bent("integer array of rank 2", lambda xp, x: x[INDEX.reshape(2, 2)], (3, 1)),
    bent("integer array on axis 1", lambda xp, x: x[:, INDEX], (2, 3)),
    bent("two integer arrays", lambda xp, x: x[np.array([0, 1, 1]), np.array([2, 0, 2])], (2, 3)),
    bent("integer arrays that broadcast", lambda xp, x: x[np.array([[0], [1]]), np.array([2, 0])], (2, 3)),
    bent("integer array and integer", lambda xp, x: x[1, :, np.array([0, 1, 1])], (2, 1, 2)),
    bent("integer arrays apart", lambda xp, x: x[np.array([0, 1, 1]), :, np.array([1, 0, 1])], (2, 1, 2)),
    bent("boolean mask", lambda xp, x: x[MASK], (2, 3)),
    bent("boolean mask of an axis", lambda xp, x: x[:, MASK[0]], (2, 3)),
    bent("boolean mask of nothing", lambda xp, x: x[~MASK[0] & MASK[0]], (3,)),
    bent("take", lambda xp, x: xp.take(x, INDEX), (3,)),
    bent("take along axis 1", lambda xp, x: xp.take(x, INDEX, axis=1), (2, 3)),
    bent("take_along_axis", lambda xp, x: xp.take_along_axis(x, np.array([[2, 0], [1, 1]]), axis=1), (2, 3)),
    bent("take_along_axis 0", lambda xp, x: xp.take_along_axis(x, np.array([[1, 0, 1]]), axis=0), (2, 3)),
    bent("meshgrid", lambda xp, x, y: xp.multiply(*xp.meshgrid(x, y)), (2,), (3,)),
    bent("meshgrid ij", lambda xp, x, y: xp.subtract(*xp.meshgrid(x, y, indexing="ij")), (2,), (2,)),
    bent("broadcast_arrays", lambda xp, x, y: xp.multiply(*xp.broadcast_arrays(x, y)), (2, 1), (2,)),
    bent("unfold", lambda xp, x: xp.unfold(x, 2), (4,)),
    bent("unfold with step", lambda xp, x: xp.unfold(x, 3, axis=0, step=2), (5, 1)),
    bent("sliding_window_view", lambda xp, x: xp.sliding_window_view(x, 2, 0), (3, 2)),
    row(
        "convolution over windows",
        lambda xp, x, y: xp.einsum("ik,k->i", xp.unfold(xp.sin(x), 2), y * y),
        (4,),
        (2,),
    ),
    row(
        "convolution in two dimensions",
        lambda xp, x, y: xp.einsum("ijkl,kl->ij", xp.unfold(xp.unfold(xp.sin(x), 2, axis=0), 2, axis=1), y),
        (2, 3),
        (2, 2),
    ),
    row("diff", lambda xp, x: xp.diff(x * x * x), (4,)),
    row("diff twice along axis 0", lambda xp, x: xp.diff(xp.sin(x), 2, axis=0), (3, 2)),
    row("stop_gradient of one factor", lambda xp, x: xp.stop_gradient(xp.exp(x)) * xp.sin(x), (3,)),
    row("stop_gradient of everything", lambda xp, x: xp.stop_gradient(x * x), (2,)),
    row("loops over rows", lambda xp, x: sum(xp.sin(line) * line[0] for line in x), (2, 2)),
]

NETWORKS = [
    row(
        "logistic regression",
        lambda xp, w: xp.sum(xp.log(xp.exp(-np.array([1.0, -1.0]) * (LEFT @ w)) + 1)),
        (3,),
    ),
    row("a small network", lambda xp, w, v: xp.tanh(v @ xp.tanh(w @ LEFT)), (2, 2), (1, 2)),
    row(
        "attention",
        lambda xp, q, k: xp.softmax(q @ k.T / np.sqrt(2.0)) @ LEFT[:, :2],
        (1, 2),
        (2, 2),
    ),
    row("matrix factorisation", lambda xp, u, v: xp.linalg.norm(LEFT - u @ v.T) ** 2, (2, 1), (3, 1)),
    row("Rosenbrock", lambda xp, x: xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), (4,)),
]

ROWS = [
    *ELEMENTWISE_ROWS,
    *SAME_INPUT_TWICE,
    *SIZES,
    *PRODUCTS,
    *REDUCTIONS,
    *LINEAR_ALGEBRA,
    *STRUCTURAL,
    *NETWORKS,
]


def test_row_names_are_distinct() -> None:
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_value_and_derivatives(row: Row) -> None:
    arrays = row.arrays()
    argnums = 0 if len(arrays) == 1 else tuple(range(len(arrays)))
    value, *derivatives = jax_derivatives(
        lambda *arguments: row.function(JAX, *arguments), HIGHEST_ORDER, argnums, arrays
    )

    def f(*arguments: Any) -> Any:
        return row.function(NUMPY, *arguments)

    variables = [hesse.variable(f"x{k}", array.shape) for k, array in enumerate(arrays)]
    named = {f"x{k}": array for k, array in enumerate(arrays)}
    assert_close(f(*arrays), value, "the function of arrays")
    assert_close(f(*variables).evaluate(**named), value, "the traced function")
    for order, reference in enumerate(derivatives, start=1):
        for mode in ("auto", *(MODES if order <= HIGHEST_ORDER_IN_MODES else ())):
            found = hesse.derivative(f, order, argnums, mode)(*arrays)
            assert_close(found, reference, f"order {order}, mode {mode}")


KINKS: list[tuple[str, Callable[[Any], Any], float]] = [
    ("relu", hesse.relu, 0.0),
    ("abs", np.abs, 0.0),
    ("sign", np.sign, 0.0),
    ("maximum with zero", lambda x: np.maximum(x, 0.0), 0.5),
    ("minimum with zero", lambda x: np.minimum(x, 0.0), 0.5),
    ("clip at its edge", lambda x: np.clip(x, 0.0, 1.0), 0.5),
    ("leaky_relu", hesse.leaky_relu, 1.0),
    ("elu", hesse.elu, 1.0),
    ("softsign", hesse.softsign, 1.0),
    ("norm of order 1", lambda x: np.linalg.norm(x, 1), 0.0),
    ("square", lambda x: x**2, 0.0),
    ("power 3", lambda x: x**3, 0.0),
]


@pytest.mark.parametrize(("function", "slope"), [kink[1:] for kink in KINKS], ids=[kink[0] for kink in KINKS])
@pytest.mark.parametrize("mode", MODES)
def test_subgradients_at_zero(function: Callable[[Any], Any], slope: float, mode: str) -> None:
    found = hesse.grad(lambda x: np.sum(function(x)), mode=mode)(np.zeros(2))
    np.testing.assert_array_equal(found, np.full(2, slope))


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 6])
def test_integer_powers_are_exact_at_zero(exponent: int) -> None:
    def f(x: Any) -> Any:
        return x**exponent

    for order in range(1, exponent + 2):
        expected = float(np.prod(np.arange(exponent, exponent - order, -1))) if order == exponent else 0.0
        assert hesse.derivative(f, order)(np.zeros(())) == expected


def test_rows_use_every_operation_of_the_registries() -> None:
    used: set[str] = set()
    for row in ROWS:
        variables = [hesse.variable(f"x{k}", given.shape) for k, given in enumerate(row.inputs)]
        node = row.function(NUMPY, *variables).node
        used |= {part.name for part in topological([node]) if isinstance(part, Map | Apply)}
    only_in_derivatives = {"adjugate", "minors", "chosen", "scatter", "path_products", "safe_reciprocal"}
    only_in_programs = {"select"}  # of derivatives of choices
    other_conventions = {"clamp"}
    only_in_formulas = {"kron", "reshape", "vec"}  # with symbolic sizes
    assert {*ELEMENTWISE, *OPERATIONS} - used == (
        only_in_derivatives | only_in_programs | only_in_formulas | other_conventions
    )
