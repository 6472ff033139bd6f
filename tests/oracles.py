"""What tests compare with: nested JAX, and finite differences by random inner products.

The third oracle, which evaluates expressions by definition, is `naive`.

Agreement is relative: the largest difference may be at most `tolerance * max(1, largest reference entry)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

TOLERANCE = 1e-9
DIFFERENCE_TOLERANCE = 1e-6
"""Finite differences are only this good, relative to the largest entry of the derivative."""

STEP = 1e-3
STENCIL = ((2, -1.0 / 12.0), (1, 8.0 / 12.0), (-1, -8.0 / 12.0), (-2, 1.0 / 12.0))
"""Steps and weights of the central difference of fourth order, whose error at STEP is about 1e-12."""

fast_jit = partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
)
"""`jax.jit` for a function that runs a few times: compiling takes a quarter of the usual time.

Nearly all the time of a reference is that of compiling. Without `jit` it is longer still, as each operation
is a program then.
"""


def nested_jax(
    function: Callable[..., Any], order: int, argnums: int | tuple[int, ...] = 0
) -> Callable[..., Any]:
    """The derivative of an order of a JAX function, by `jax.jacfwd` of itself: output axes first."""
    for _ in range(order):
        function = jax.jacfwd(function, argnums)
    return function


def evaluate_jax(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a JAX function returns for these arguments in float64, compiled, with NumPy arrays as leaves."""
    assert jax.config.jax_enable_x64, "references are computed in float64"
    return jax.tree.map(np.asarray, fast_jit(function)(*map(jnp.asarray, arguments)))


def jax_derivatives(
    function: Callable[..., Any], orders: int, argnums: int | tuple[int, ...], arguments: Sequence[Any]
) -> list[Any]:
    """The value and the derivatives of orders 1 to `orders`, compiled together."""

    def all_orders(*values: Any) -> list[Any]:
        return [nested_jax(function, order, argnums)(*values) for order in range(orders + 1)]

    return evaluate_jax(all_orders, *arguments)  # type: ignore[no-any-return]


def relative_error(found: Any, reference: Any) -> float:
    """The largest difference over max(1, largest reference entry); entries must be NaN or infinite alike."""
    found, reference = np.asarray(found, np.float64), np.asarray(reference, np.float64)
    regular = np.isfinite(reference)
    if not np.array_equal(found[~regular], reference[~regular], equal_nan=True):
        return np.inf
    error = np.abs(found[regular] - reference[regular]).max(initial=0.0)
    largest = np.abs(reference[regular]).max(initial=1.0)
    return float(error / largest) if np.isfinite(error) else np.inf


def assert_close(found: Any, reference: Any, what: str = "", tolerance: float = TOLERANCE) -> None:
    """Equal shapes, and a relative error within the tolerance; nested tuples are compared leaf by leaf."""
    if isinstance(reference, tuple):
        assert isinstance(found, tuple), f"{what}: a tuple is expected, not {type(found).__name__}"
        assert len(found) == len(reference), f"{what}: {len(found)} blocks instead of {len(reference)}"
        for k, (part, expected) in enumerate(zip(found, reference, strict=True)):
            assert_close(part, expected, f"{what}[{k}]", tolerance)
        return
    assert np.shape(found) == np.shape(reference), (
        f"{what}: shape {np.shape(found)}, not {np.shape(reference)}"
    )
    error = relative_error(found, reference)
    assert error <= tolerance, f"{what}: relative error {error:.1e}\nfound\n{found}\nreference\n{reference}"


def assert_matches_differences(
    function: Callable[[np.ndarray], Any],
    derivative: np.ndarray,
    point: np.ndarray,
    generator: np.random.Generator,
    what: str = "",
) -> None:
    """`<u, D v>` equals the central difference of `<u, f(x + t v)>` for random u and v.

    `derivative` has the axes of the value of `function` first and those of `point` after them.
    """
    direction = generator.uniform(-1.0, 1.0, point.shape)
    weights = generator.uniform(-1.0, 1.0, derivative.shape[: derivative.ndim - point.ndim])
    exact = np.vdot(weights, np.tensordot(derivative, direction, axes=point.ndim))
    estimate = sum(
        weight * np.vdot(weights, function(point + steps * STEP * direction)) / STEP
        for steps, weight in STENCIL
    )
    error = abs(exact - estimate) / np.abs(derivative).max(initial=1.0)
    assert error <= DIFFERENCE_TOLERANCE, f"{what}: {exact} differs from the difference quotient {estimate}"
