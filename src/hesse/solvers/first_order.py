"""Steepest descent and nonlinear conjugate gradients on a manifold."""

from __future__ import annotations

from collections.abc import Iterator

from hesse.manifolds.tangent import Tangent
from hesse.solvers.problem import Problem, State, inner, number, size

LONGEST = 0.2
"""The longest step, compared with the norm of the point."""


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
    the minimum along the direction in the tangent space.
    """
    direction = -state.gradient
    length: float | None = None
    while True:
        length = _first_length(problem, state, direction, length)
        found = problem.search(state, direction, length)
        if found is None:
            return
        Y, length = found
        new = problem.state(Y)
        direction = _conjugate(problem, state, new, direction)
        state = new
        yield state


def _conjugate(problem: Problem, old: State, new: State, direction: Tangent) -> Tangent:
    carried = problem.moved(old.X, new.X, direction)
    before = problem.moved(old.X, new.X, old.gradient)
    change = inner(new.gradient, new.gradient - before)
    beta = max(0.0, change / max(old.gradient_norm**2, 1e-300))
    found = carried * beta - new.gradient
    return found if inner(found, new.gradient) < 0.0 else -new.gradient


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
