"""A numeric self-check: every order against central differences of the order below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hesse.api.arguments import Parameters, check_argnums, check_differentiable, check_order
from hesse.api.derivatives import derivative
from hesse.backends.arrays import as_arrays
from hesse.errors import ArgumentError


@dataclass(frozen=True)
class OrderCheck:
    """How well one order agrees with finite differences."""

    order: int
    shape: tuple[int, ...]
    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True)
class Report:
    """The outcome of `check`: true if every order agrees; printing it shows a table."""

    function: str
    rows: tuple[OrderCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every order agrees."""
        return all(row.ok for row in self.rows)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"derivatives of {self.function} against central differences of the order below"]
        for row in self.rows:
            verdict = "ok" if row.ok else "WRONG"
            lines.append(
                f"  order {row.order}  shape {row.shape!s:<18} relative error {row.error:.1e}"
                f"  (allowed {row.tolerance:.0e})  {verdict}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def check(
    f: Callable[..., Any],
    *arguments: Any,
    order: int = 1,
    argnums: int = 0,
    mode: str = "auto",
    directions: int = 3,
    seed: int = 0,
) -> Report:
    """Compare the derivatives of orders 1 to `order` with finite differences along random directions.

    The first order is checked against the function itself, called with plain arrays, each further one
    against the order below it.

    >>> import numpy as np, hesse
    >>> hesse.check(lambda x: np.sum(np.sin(x)), np.ones(3), order=2).ok
    True
    """
    order = check_order(order)
    parameters = Parameters(f)
    names, values = parameters.match(arguments, {})
    arrays = [
        np.asarray(a, np.float64) if a.dtype.kind == "f" else a
        for a in as_arrays(names, values, "numpy").values
    ]
    (position, *_), as_tuple = check_argnums(argnums, len(arrays), names)
    if as_tuple:
        raise ArgumentError(f"check takes one argument to differentiate by at a time, not {argnums!r}")
    check_differentiable(names[position], arrays[position].dtype.kind, arrays[position].dtype)
    generator = np.random.default_rng(seed)
    functions: list[Callable[..., Any]] = [f] + [
        derivative(f, order=k, argnums=position, mode=mode) for k in range(1, order + 1)
    ]
    rows = [
        _check_order(functions[k - 1], functions[k], k, arrays, position, generator, directions)
        for k in range(1, order + 1)
    ]
    return Report(parameters.function_name, tuple(rows))


def _check_order(
    lower: Callable[..., Any],
    upper: Callable[..., Any],
    order: int,
    arrays: list[np.ndarray],
    position: int,
    generator: np.random.Generator,
    directions: int,
) -> OrderCheck:
    point = arrays[position]
    exact = np.asarray(upper(*arrays))
    step = np.cbrt(np.finfo(np.float64).eps) * max(1.0, float(np.abs(point).max(initial=0.0)))
    worst = 0.0
    for _ in range(directions):
        direction = generator.standard_normal(point.shape)
        ahead, behind = (
            np.asarray(lower(*arrays[:position], point + sign * step * direction, *arrays[position + 1 :]))
            for sign in (1.0, -1.0)
        )
        difference = (ahead - behind) / (2 * step)
        product = np.tensordot(exact, direction, axes=point.ndim)
        scale = max(float(np.abs(difference).max(initial=0.0)), float(np.abs(exact).max(initial=0.0)), 1e-8)
        error = float(np.abs(product - difference).max(initial=0.0)) / scale
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return OrderCheck(order, exact.shape, worst, 1e-5)
