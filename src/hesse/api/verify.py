"""Every derivative that is printed is compared with a finite difference first.

A derivative G of F by X is right if G contracted with a direction D is the derivative of F(X + tD) at t = 0.
That is tested at a random point of small size, drawn inside the domain of the formula: the declared facts are
respected, and points at which something is not finite, or at which the difference quotients do not converge
(a kink, a pole nearby), are replaced by others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hesse.errors import VerificationError
from hesse.ir import Shape, Size, Variable
from hesse.ir.attributes import independent, projected

Evaluate = Callable[[Mapping[str, np.ndarray], Mapping[str, int]], np.ndarray]

SIZE_CHOICES = ((4, 3, 2, 3, 2), (2, 3, 4, 2, 3), (3, 3, 3, 3, 3))
"""Distinct sizes show exchanged axes; the second choice is for formulas that need wide matrices."""
MOST_ENTRIES = 20_000
"""Sizes are lowered until the derivative has no more entries than this."""
MOST_GIVEN_ENTRIES = 1_000_000
"""Sizes given as numbers cannot be lowered: with more entries than this a derivative is not verified."""
STEP = 0.02
STEPS = (STEP, STEP / 2, STEP / 4)
TOLERANCE = 1e-6
"""Relative difference between derivative and difference quotient that counts as a mismatch."""
CONVERGED = 1e-7
"""Relative change of the last extrapolation up to which a difference quotient is believed."""
PRECISIONS = float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)
"""How much smaller the rounding errors of double precision are than those of single precision …"""
ROUNDING_LUCK = 100.0
"""… unless the latter happen to be small."""

Style = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


class Differentiation(NamedTuple):
    """One differentiation to be checked."""

    function: Evaluate
    derivative: Evaluate
    variables: Sequence[Variable]
    sizes: Sequence[str]
    """The names of sizes, of the variables and of unit tensors and the like."""
    by: Variable
    shape: Shape
    inner: Sequence[Shape]
    """The shapes of the functions inside the formula, whose values are computed on the way."""
    independent: bool
    """Whether the derivative is by the independent entries of a matrix with a structure."""
    name: str


def verify(step: Differentiation) -> float:
    """The relative difference between the derivative and a finite difference; an error if it is too large."""
    for values, sizes, generator in points(step):
        direction = projected(
            generator.normal(size=values[step.by.name].shape), step.by.attributes - {"positive"}
        )
        quotient = _difference_quotient(step, values, sizes, direction)
        if quotient is None:
            continue
        exact = evaluated(step.derivative, values, sizes)
        if exact is None:
            continue
        rank = step.by.rank
        weights = independent(direction, step.by.attributes) if step.independent else direction
        slope = np.tensordot(exact, weights, rank) if rank else exact * direction
        scale = np.max(np.abs(slope), initial=0.0) + np.max(np.abs(quotient.value), initial=0.0)
        error = np.max(np.abs(slope - quotient.value), initial=0.0)
        agree = error <= TOLERANCE * scale + quotient.noise
        if agree and quotient.converged:
            return float(error / max(scale, quotient.noise / TOLERANCE)) if error else 0.0
        if _are_zero(step, (slope, quotient.value), values, sizes, direction):
            return 0.0
        if quotient.converged:
            raise VerificationError(
                f"the derivative {step.name} does not agree with a finite difference: the two differ by "
                f"{error:.1e} where they are of size {scale / 2:.1e}. This is a "
                "mistake in hesse; please report the formula"
            )
    raise VerificationError(
        f"the derivative {step.name} could not be compared with a finite difference: at all points tried the "
        "formula is not finite or not smooth. Declare the variables so that it is, such as positive vector x"
    )


class Quotient(NamedTuple):
    """A directional derivative by finite differences, and the error that rounding may cause."""

    value: np.ndarray
    noise: float
    converged: bool


def _are_zero(
    step: Differentiation,
    slopes: tuple[np.ndarray, np.ndarray],
    values: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    direction: np.ndarray,
) -> bool:
    """Whether the derivative and the difference quotient are both what rounding leaves of a zero.

    How much that is depends on the terms that cancel. Single precision shows it: there the values have errors
    that are larger by a known factor, and the values of a derivative that is not zero have not.
    """
    steps = (0.0, *(sign * h for h in STEPS for sign in (1, -1)))
    line = [{**values, step.by.name: values[step.by.name] + h * direction} for h in steps]
    slope, quotient = (np.max(np.abs(found), initial=0.0) for found in slopes)
    return bool(
        slope <= rounding(step.derivative, line, sizes)
        and quotient <= rounding(step.function, line, sizes) / STEPS[-1]
    )


def rounding(
    function: Evaluate, places: Sequence[Mapping[str, np.ndarray]], sizes: Mapping[str, int]
) -> float:
    """The rounding errors that the values of a function may have, judged by those of single precision."""
    largest = 0.0
    for values in places:
        single = {name: np.asarray(array, np.float32) for name, array in values.items()}
        found = [evaluated(function, arrays, sizes) for arrays in (values, single)]
        if found[0] is None or found[1] is None:
            return 0.0
        largest = max(largest, float(np.max(np.abs(found[0] - found[1]), initial=0.0)))
    return ROUNDING_LUCK * PRECISIONS * largest


def _difference_quotient(
    step: Differentiation, values: Mapping[str, np.ndarray], sizes: Mapping[str, int], direction: np.ndarray
) -> Quotient | None:
    """Central differences with three steps, extrapolated (Richardson); None where they are not finite."""
    name, rows, largest = step.by.name, [], 0.0
    for h in STEPS:
        above, below = (
            evaluated(step.function, {**values, name: values[name] + t * direction}, sizes) for t in (h, -h)
        )
        if above is None or below is None:
            return None
        largest = max(largest, np.max(np.abs(above), initial=0.0))
        rows.append((above - below) / (2 * h))
    first, second = ((4 * rows[k + 1] - rows[k]) / 3 for k in (0, 1))
    value = (16 * second - first) / 15
    noise = 1e-11 * largest / STEP
    change = np.max(np.abs(value - second), initial=0.0)
    converged = change <= CONVERGED * np.max(np.abs(value), initial=0.0) + noise
    return Quotient(value, noise, bool(converged))


def evaluated(
    function: Evaluate, values: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> np.ndarray | None:
    """The value of a function, or None where it is not finite."""
    with np.errstate(all="ignore"):
        try:
            result = function(values, sizes)
        except np.linalg.LinAlgError:
            return None
    return result if np.isfinite(result).all() else None


def points(
    step: Differentiation,
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, int], np.random.Generator]]:
    """Random values of the variables, the sizes that they have, and the generator they come from."""
    given = [step.shape, *step.inner, *(variable.shape for variable in step.variables)]
    entries = max(math.prod(size for size in shape if isinstance(size, int)) for shape in given)
    if entries > MOST_GIVEN_ENTRIES:
        raise VerificationError(
            f"the derivative {step.name} could not be compared with a finite difference: the sizes given as "
            f"numbers make a tensor of {entries:,} entries; give names to sizes, such as vector x(n)"
        )
    for choice in SIZE_CHOICES if step.sizes else SIZE_CHOICES[:1]:
        largest = max(1, int(MOST_ENTRIES ** (1.0 / max(1, len(step.shape)))))
        sizes = {name: min(largest, choice[k % len(choice)]) for k, name in enumerate(step.sizes)}
        for number, style in enumerate(STYLES):
            generator = np.random.default_rng(number + 1)
            values = {variable.name: _array(generator, variable, sizes, style) for variable in step.variables}
            yield values, sizes, generator


def _array(
    generator: np.random.Generator, variable: Variable, sizes: Mapping[str, int], style: Style
) -> np.ndarray:
    shape = tuple(size_value(size, sizes) for size in variable.shape)
    return projected(style(generator, shape), variable.attributes)


def size_value(size: Size, sizes: Mapping[str, int]) -> int:
    """The number that a size is: a name, a number or a product of them."""
    if isinstance(size, int):
        return size
    return int(np.prod([int(part) if part.isdigit() else sizes[part] for part in size.split("*")]))


def _near_unit(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Positive entries; square matrices well inside the positive definite ones, not symmetric."""
    array = generator.uniform(0.2, 1.0, shape)
    if len(shape) == 2 and shape[0] == shape[1]:
        array += len(array) * np.eye(len(array))
    return array


STYLES: tuple[Style, ...] = (
    lambda generator, shape: generator.normal(size=shape),
    lambda generator, shape: generator.uniform(0.4, 1.6, shape),
    _near_unit,
    lambda generator, shape: generator.uniform(-0.4, 0.4, shape),
    lambda generator, shape: generator.uniform(0.1, 0.5, shape),
    lambda generator, shape: -generator.uniform(0.4, 1.6, shape),
    lambda generator, shape: generator.uniform(2.0, 3.0, shape),
)
"""Where points are drawn, most general first: signs mixed, positive, positive definite, small, …"""
