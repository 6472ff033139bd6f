"""Steepest descent and nonlinear conjugate gradients on a manifold."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hesse.manifolds.tangent import Tangent
from hesse.solvers.problem import Problem, State, inner, number, size
from hesse.solvers.scaling import Scaling

LONGEST = 0.2
"""The longest step, compared with the norm of the point."""
WORTH = 0.01
"""The part of the value by which the start must decrease for another size of it."""


def gradient_steps(problem: Problem, state: State) -> Iterator[State]:
    """Steps against the gradient."""
    length: float | None = None
    while True:
        direction = -state.gradient
        length = _first_length(problem, state, direction, length)
        found = problem.search(state, direction, length)
        if found is None:
            return
        Y, length = found
        state = problem.state(Y)
        yield state


def cg_steps(problem: Problem, state: State) -> Iterator[State]:
    """Steps along conjugate directions (Polak and Ribière's, never backwards).

    The last direction is carried to the new point by projection. The first length that is tried is that of
    the minimum along the direction in the tangent space. Near a minimum gradients are scaled. The first step
    of a matrix may be one to the best multiple of the start: random ones are far too large, and steps from
    there led to minima with a few large entries in a fifth of 40 completions. Longer trains had none such.
    """
    resized = _of_best_size(problem, state) if len(state.X) == 2 else None
    if resized is not None:
        yield resized
        state = resized
    scaling = Scaling(problem)
    scaled = scaling(state.gradient)
    direction = -scaled
    length: float | None = None
    while True:
        length = _first_length(problem, state, direction, length)
        found = problem.search(state, direction, length)
        if found is None:
            return
        Y, length = found
        new = problem.state(Y)
        scaling.step(new, length * number(direction.norm()))
        before, scaled = inner(scaled, state.gradient), scaling(new.gradient)
        direction = _conjugate(problem, state, new, direction, scaled, before)
        state = new
        yield state


def _of_best_size(problem: Problem, state: State) -> State | None:
    """The multiple of a point that has the least value, about; None: it is worth little, or not known."""
    point = state.gradient.point
    cores = [core * 0.0 for core in point.left.cores]
    radius = Tangent(point, [*cores[:-1], point.centre(len(cores) - 1)])
    slope = -inner(state.gradient, radius)
    curvature = inner(radius, problem.product(state, radius))
    if not (curvature > 0.0 and slope**2 / (2.0 * curvature) > WORTH * abs(state.value)):
        return None
    found = problem.search(state, radius * math.copysign(1.0, slope), abs(slope) / curvature)
    return None if found is None else problem.state(found[0])


def _conjugate(
    problem: Problem, old: State, new: State, direction: Tangent, scaled: Tangent, before: float
) -> Tangent:
    """The next direction, from the last one and the scaled gradient; `before`: the square of the old one."""
    carried = problem.moved(old.X, new.X, direction)
    change = inner(scaled, new.gradient - problem.moved(old.X, new.X, old.gradient))
    beta = max(0.0, change / max(before, 1e-300))
    found = carried * beta - scaled
    return found if inner(found, new.gradient) < 0.0 else -scaled


def _first_length(problem: Problem, state: State, direction: Tangent, last: float | None) -> float:
    """The length of the minimum along a direction in the tangent space, or twice the last length.

    After the first step, which finds the scale, no step is longer than a part of the point itself: the
    tangent space tells nothing about what is far away.
    """
    curvature = inner(direction, problem.product(state, direction))
    slope = -inner(state.gradient, direction)
    if last is None:
        return slope / curvature if curvature > 0.0 else 1.0 / max(state.gradient_norm, 1e-300)
    length = slope / curvature if curvature > 0.0 else 2.0 * last
    return min(length, LONGEST * size(state.X) / number(direction.norm()))
