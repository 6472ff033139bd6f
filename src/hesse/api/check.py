"""A numeric self-check: every order against central differences of the order below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hesse.api.arguments import Parameters, check_argnums, check_differentiable, check_order
from hesse.api.derivatives import derivative
from hesse.api.signature import Argument, Call, is_array
from hesse.api.trees import is_container, take_apart
from hesse.backends.arrays import as_arrays
from hesse.backends.target import library_of, target_named
from hesse.errors import ArgumentError


@dataclass(frozen=True)
class OrderCheck:
    """How well one order agrees with finite differences."""

    order: int
    shape: tuple[Any, ...]
    """The shape of the derivative; for containers those of all blocks."""
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
    (position, *_), as_tuple = check_argnums(argnums, len(values), names)
    if as_tuple:
        raise ArgumentError(f"check takes one argument to differentiate by at a time, not {argnums!r}")
    values = _as_precise(f, names, values)
    given = Argument.of(names[position], values[position])
    point = given._replace(leaves=list(map(_on_host, given.leaves)))
    for name, leaf, own in zip(point.names, point.leaves, given.leaves, strict=True):
        check_differentiable(name, leaf.dtype.kind, leaf.dtype, library_of(own))
    generator = np.random.default_rng(seed)
    functions: list[Callable[..., Any]] = [f] + [
        derivative(f, order=k, argnums=position, mode=mode) for k in range(1, order + 1)
    ]

    def at(function: Callable[..., Any], leaves: list[np.ndarray]) -> list[np.ndarray]:
        """The leaves of the result of a function at another point."""
        precise = [leaf.astype(known.dtype) for leaf, known in zip(leaves, point.leaves, strict=True)]
        own = list(map(_as_in, given.leaves, precise))
        moved = own[0] if point.spec is None else point.spec.unflatten(own)
        result = function(*values[:position], moved, *values[position + 1 :])
        return list(map(_on_host, take_apart(result)[0] if is_container(result) else [result]))

    rows = [
        _check_order(
            partial(at, functions[k - 1]), partial(at, functions[k]), k, point, generator, directions
        )
        for k in range(1, order + 1)
    ]
    return Report(parameters.function_name, tuple(rows))


def _as_precise(f: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """Arguments in double precision, if the function takes them so: tensors that it reads may be shorter."""
    precise = [_in_double_precision(name, value) for name, value in zip(names, values, strict=True)]
    try:
        f(*precise)
    except (RuntimeError, TypeError):
        return list(values)
    return precise


def _in_double_precision(name: str, value: Any) -> Any:
    """An argument with all of its arrays in double precision, as far as their library has that."""
    given = Argument.of(name, value)
    call = Call((name,), [given], {})
    leaves = list(given.leaves)
    for k in [k for k, leaf in enumerate(leaves) if is_array(leaf)]:
        found = as_arrays([given.names[k]], [leaves[k]])
        (array,), is_real = found.values, found.kinds == ["f"]
        leaves[k] = _as_in(array, _on_host(array).astype(np.float64)) if is_real else array
    return call.assembled(leaves)[0]


def _on_host(array: Any) -> np.ndarray:
    """An array of any library as one of NumPy."""
    library = library_of(array)
    return np.asarray(array if library is None else target_named(library).on_host(array))


def _as_in(like: Any, array: np.ndarray) -> Any:
    """An array of NumPy as one of the library and on the device of another."""
    library = library_of(like)
    if library is None:
        return array
    target = target_named(library)
    dtype = target.dtype([array.dtype])
    converted = target.converted([like, array], [None, dtype])[1]
    return target.zeros(array.shape, dtype, [like]) + converted


def _check_order(
    lower: Callable[[list[np.ndarray]], list[np.ndarray]],
    upper: Callable[[list[np.ndarray]], list[np.ndarray]],
    order: int,
    point: Argument,
    generator: np.random.Generator,
    directions: int,
) -> OrderCheck:
    """The derivative of each result by each leaf, against differences of the results below."""
    exact, count = upper(point.leaves), len(point.leaves)
    largest = [float(np.abs(leaf).max(initial=0.0)) for leaf in point.leaves]
    is_double = all(leaf.dtype == np.float64 for leaf in point.leaves)
    step = np.cbrt(np.finfo(np.float64 if is_double else np.float32).eps) * max(1.0, *largest)
    worst = 0.0
    for _ in range(directions):
        along = [generator.standard_normal(leaf.shape) for leaf in point.leaves]
        ahead, behind = (
            lower([leaf + sign * step * part for leaf, part in zip(point.leaves, along, strict=True)])
            for sign in (1.0, -1.0)
        )
        for k, (after, before) in enumerate(zip(ahead, behind, strict=True)):
            difference = (after - before) / (2 * step)
            blocks = exact[k * count : (k + 1) * count]
            pairs = list(zip(blocks, along, strict=True))
            product = sum(np.tensordot(block, part, axes=part.ndim) for block, part in pairs)
            scale = max(float(np.abs(array).max(initial=0.0)) for array in (difference, *blocks))
            error = float(np.abs(product - difference).max(initial=0.0)) / max(scale, 1e-8)
            worst = max(worst, error if np.isfinite(error) else np.inf)
    shapes = tuple(block.shape for block in exact)
    return OrderCheck(order, shapes[0] if len(shapes) == 1 else shapes, worst, 1e-5 if is_double else 1e-2)
