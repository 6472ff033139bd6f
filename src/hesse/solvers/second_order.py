"""Gauss-Newton and trust regions: steps found by conjugate gradients in the tangent space."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hesse.manifolds.tangent import Tangent
from hesse.solvers.problem import Problem, State, inner

MOST_PRODUCTS = 200
"""Hessian products for one step."""


def gauss_newton_steps(problem: Problem, state: State) -> Iterator[State]:
    """Steps of the Hessian without curvature: quadratically near a minimum of value zero."""
    first = state.gradient_norm
    while True:
        direction = _step(problem, state, first, math.inf, exact=False)[0]
        if inner(direction, state.gradient) >= 0.0:
            direction = -state.gradient
        found = problem.search(state, direction, 1.0)
        if found is None:
            return
        state = problem.state(found[0])
        yield state


def trust_region_steps(problem: Problem, state: State) -> Iterator[State]:
    """Steps of the exact Hessian within a radius, which grows where the model was right."""
    first = state.gradient_norm
    radius, least = 1.0, 1e-14
    while radius > least:
        direction, at_edge = _step(problem, state, first, radius, exact=True)
        promised = -inner(state.gradient, direction) - 0.5 * inner(
            direction, problem.product(state, direction, exact=True)
        )
        Y, value = problem.value_at(state, direction)
        noise = 1e-13 * abs(state.value)
        quality = (state.value - value + noise) / (promised + noise) if promised + noise > 0.0 else -1.0
        if quality < 0.25 or not math.isfinite(value):
            radius *= 0.25
        elif quality > 0.75 and at_edge:
            radius *= 2.0
        if quality > 0.1:
            state = problem.state(Y)
            yield state


def _step(problem: Problem, state: State, first: float, radius: float, exact: bool) -> tuple[Tangent, bool]:
    """Steihaug's method: conjugate gradients until the radius, a direction of descent or enough accuracy.

    The step, and whether it ends at the radius.
    """
    step = problem.manifold.zero_tangent(state.X)
    residual = -state.gradient
    direction = residual
    square = inner(residual, residual)
    enough = state.gradient_norm * min(0.1, state.gradient_norm / max(first, 1e-300))
    for _ in range(MOST_PRODUCTS):
        product = problem.product(state, direction, exact)
        curvature = inner(direction, product)
        if curvature <= 0.0:
            if math.isinf(radius):
                return (step if inner(step, step) > 0.0 else direction), False
            return step + direction * _to_edge(step, direction, radius), True
        length = square / curvature
        longer = step + direction * length
        if inner(longer, longer) >= radius**2:
            return step + direction * _to_edge(step, direction, radius), True
        step = longer
        residual = residual - product * length
        new = inner(residual, residual)
        if math.sqrt(new) <= enough:
            break
        direction = residual + direction * (new / square)
        square = new
    return step, False


def _to_edge(step: Tangent, direction: Tangent, radius: float) -> float:
    """How far along a direction the radius is reached."""
    a, b, c = inner(direction, direction), inner(step, direction), inner(step, step) - radius**2
    root = math.sqrt(max(b * b - a * c, 0.0))
    return -c / (b + root) if b > 0.0 else (root - b) / a
