"""The element-wise table: values against SciPy, derivatives of orders 1 to 4 against nested JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import pytest
import scipy.special

from hesse.backends import elementwise_kernels
from hesse.backends.elementwise_kernels import kernel
from hesse.calculus import reverse
from hesse.errors import ShapeError
from hesse.ir import (
    Add,
    Constant,
    Einsum,
    Map,
    Node,
    Variable,
    constant,
    is_zero,
    topological,
    total,
    uniform,
    uniform_value,
    variable,
)
from hesse.ops.elementwise import BUILDERS, INDICATORS, function, power, where
from hesse.ops.registry import ELEMENTWISE, define, elementwise

Interval = tuple[float, float]
COUNT = 5
HIGHEST_ORDER = 4


def _as_floats(compare: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: compare(*operands).astype(jnp.float64)


REFERENCES: dict[str, Callable[..., Any]] = {
    **{name: _as_floats(getattr(jnp, name)) for name in INDICATORS},
    "celu": jax.nn.celu,
    "digamma": jsp.digamma,
    "elu": jax.nn.elu,
    "erf": jsp.erf,
    "erfc": jsp.erfc,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "hard_tanh": jax.nn.hard_tanh,
    "leaky_relu": jax.nn.leaky_relu,
    "lgamma": jsp.gammaln,
    "polygamma": lambda n, x: jsp.polygamma(n.astype(int), x),
    "relu": jax.nn.relu,
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "softsign": jax.nn.soft_sign,
    "stop_gradient": jax.lax.stop_gradient,
    "where": lambda condition, a, b: jnp.where(condition != 0, a, b),
    "xlogy": jsp.xlogy,
}
BOTH_SIDES: list[Interval] = [(-2.0, -0.2), (0.2, 2.0)]
BUILDER_CASES: list[tuple[str, tuple[Interval, ...]]] = [
    *((name, ((-2.0, 2.0),)) for name in ("gelu", "gelu_tanh", "negative", "silu", "square")),
    *((name, ((0.3, 2.5),)) for name in ("log10", "log2")),
    *((name, (side,)) for name in ("hard_tanh", "selu") for side in [(-3.0, -1.1), (-0.9, -0.2), (1.1, 3.0)]),
    *((name, (side, (0.5, 1.5))) for name in ("celu", "elu", "leaky_relu") for side in BOTH_SIDES),
]
FURTHER_CASES: list[tuple[str, tuple[Interval, ...]]] = [
    *((name, (BOTH_SIDES[0],)) for name in ("abs", "cbrt", "reciprocal", "relu", "sign", "softsign")),
    ("clip", ((-3.0, -2.5), (-2.0, -1.0), (1.0, 2.0))),
    ("clip", ((2.5, 3.0), (-2.0, -1.0), (1.0, 2.0))),
    ("polygamma", ((2.0, 2.0), (0.4, 4.0))),
    ("where", ((0.0, 0.0), (-2.0, 2.0), (-2.0, 2.0))),
]
CASES = [(name, row.sample) for name, row in ELEMENTWISE.items()] + BUILDER_CASES + FURTHER_CASES


def reference(name: str) -> Callable[..., Any]:
    """The function of this name in JAX."""
    return REFERENCES.get(name) or getattr(jnp, name)  # type: ignore[no-any-return]


def points(sample: tuple[Interval, ...]) -> list[np.ndarray]:
    """Random operands inside the intervals."""
    generator = np.random.default_rng(7)
    return [generator.uniform(low, high, COUNT) for low, high in sample]


def evaluate(root: Node, **inputs: np.ndarray) -> np.ndarray:
    """A naive evaluator of element-wise expressions, independent of plans and back ends."""
    values: dict[Node, np.ndarray] = {}
    for node in topological([root]):
        operands = [values[operand] for operand in node.operands]
        match node:
            case Variable():
                values[node] = np.asarray(inputs[node.name])
            case Constant():
                values[node] = node.value
            case Add():
                values[node] = sum(operands, np.zeros(node.shape))
            case Map():
                values[node] = kernel(node.name)(*operands)
            case Einsum():
                arguments: list[Any] = [np.ones(node.ranges), list(range(len(node.ranges)))]
                for operand, axes in zip(operands, node.axes, strict=True):
                    arguments += [operand, [axis.label for axis in axes]]
                output = [axis.label for axis in node.output]
                values[node] = node.scale * np.einsum(*arguments, output)
    return values[root]


def derivatives(function_of_t: Callable[[Node], Node], at: np.ndarray, orders: int = HIGHEST_ORDER) -> list[np.ndarray]:
    """The derivatives of orders 1, 2, … of an element-wise function."""
    t = variable("t", at.shape)
    node = function_of_t(t)
    results = []
    for _ in range(orders):
        (node,) = reverse(total(node, [0]), [t])
        results.append(evaluate(node, t=at))
    return results


def jax_derivatives(function_of_t: Callable[..., Any], *rows: np.ndarray, orders: int = HIGHEST_ORDER) -> list[np.ndarray]:
    """The same by nested `jax.grad` at t = 0; further arguments are mapped over."""
    results = []
    derivative = function_of_t
    for _ in range(orders):
        derivative = jax.grad(derivative)
        results.append(np.asarray(jax.vmap(derivative, (None, *[0] * len(rows)))(0.0, *rows)))
    return results


def slopes(name: str, arity: int) -> list[float]:
    """A direction in the space of operands; conditions and orders stay fixed."""
    row = ELEMENTWISE.get(name)
    free = [row is None or partial is not None for partial in (row.partials if row else [None] * arity)]
    if name in ("sign", "floor", "ceil", "round", "trunc", "stop_gradient", *INDICATORS):
        free = [True] * arity
    return [slope if is_free else 0.0 for slope, is_free in zip((1.0, -0.7, 0.4), free, strict=False)]
