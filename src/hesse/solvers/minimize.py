"""`minimize`: the minimum of a function on the manifold of its start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from hesse.errors import ArgumentError
from hesse.solvers.first_order import cg_steps, gradient_steps
from hesse.solvers.problem import Problem, State, number
from hesse.solvers.progress import shown
from hesse.solvers.result import Result, Step
from hesse.solvers.second_order import gauss_newton_steps, trust_region_steps

METHODS: dict[str, Callable[[Problem, State], Iterator[State]]] = {
    "cg": cg_steps,
    "gradient": gradient_steps,
    "gauss-newton": gauss_newton_steps,
    "trust-region": trust_region_steps,
}


def minimize(
    f: Callable[[Any], Any],
    X0: Any,
    method: str = "cg",
    tol: float = 1e-8,
    steps: int = 500,
    progress: bool | None = None,
    callback: Callable[[Any, Step], Any] | None = None,
) -> Result:
    """A minimum of a function of a train, among the trains of the shape and rank of the start.

    It ends when the norm of the gradient is `tol` times that at the start, after so many `steps`, when no
    step decreases the value any more, or when `callback(X, step)` returns True.

    >>> import hesse
    >>> from hesse import tt
    >>> F = tt.random((4, 5, 6), rank=2, rng=0)
    >>> result = hesse.solvers.minimize(lambda X: tt.dot(X - F, X - F), tt.random((4, 5, 6), rank=2, rng=1))
    >>> result.converged, float((result.point - F).norm()) < 1e-6
    (True, True)
    """
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(map(repr, METHODS))}, not {method!r}")
    if not tol >= 0.0:
        raise ArgumentError(f"tol must not be negative, not {tol!r}")
    problem = Problem(f, X0)
    begin = time.perf_counter()
    state = problem.state(X0)
    history = [Step(0, state.value, state.gradient_norm, 0.0, 0, time.perf_counter() - begin)]
    enough = tol * state.gradient_norm
    message = ""
    with shown(method, steps, progress) as report:
        walk = METHODS[method](problem, state)
        while not message:
            message = _end(state, enough, len(history) - 1, steps)
            if message:
                break
            new = next(walk, None)
            if new is None:
                message = "no step decreases the value"
                break
            length = number((new.X - state.X).norm())
            seconds = time.perf_counter() - begin
            history.append(
                Step(len(history), new.value, new.gradient_norm, length, problem.products, seconds)
            )
            state = new
            report(history[-1])
            if callback is not None and callback(state.X, history[-1]) is True:
                message = "stopped by the callback"
    converged = state.gradient_norm <= enough
    return Result(state.X, state.value, state.gradient_norm, converged, message, method, tuple(history))


def _end(state: State, enough: float, taken: int, steps: int) -> str:
    if state.gradient_norm <= enough:
        return "the gradient is small"
    return f"{steps} steps are taken" if taken >= steps else ""
