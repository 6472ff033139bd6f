"""A function on a manifold as solvers see it: plain numbers, points and tangent vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hesse.errors import ArgumentError, ConvergenceError
from hesse.manifolds.derivatives import Objective
from hesse.manifolds.tangent import Tangent
from hesse.manifolds.tensor_trains import TensorTrains, manifold_of
from hesse.tt.point import point_of
from hesse.tt.train import TensorTrain

MOST_HALVINGS = 40
SUFFICIENT = 1e-4
"""The part of the decrease that the slope promises which a step must reach."""


class State(NamedTuple):
    """A point with the value and the gradient of the function there."""

    X: TensorTrain
    value: float
    gradient: Tangent
    gradient_norm: float


class Problem:
    """A function and the manifold of its start."""

    def __init__(self, f: Callable[[Any], Any], start: Any) -> None:
        if not isinstance(start, TensorTrain):
            raise ArgumentError(f"the start is a tt.TensorTrain, not a {type(start).__name__}")
        if start.batch is not None:
            raise ArgumentError("minimize takes one train; call it for each train of a batch")
        self.objective = Objective(f)
        self.manifold: TensorTrains = manifold_of(start)
        self.products = 0

    def state(self, X: TensorTrain) -> State:
        """What is known at a point."""
        value, gradient = self.objective.value_and_grad(X)
        found = State(X, float(value), gradient, number(gradient.norm()))
        if not (math.isfinite(found.value) and math.isfinite(found.gradient_norm)):
            raise ConvergenceError(
                f"the value {found.value} or its gradient is not finite; start elsewhere or scale f"
            )
        return found

    def product(self, state: State, direction: Tangent, exact: bool = False) -> Tangent:
        """The Hessian times a tangent vector."""
        self.products += 1
        return self.objective.hvp(state.X, direction, exact)

    def value_at(self, state: State, step: Tangent) -> tuple[TensorTrain, float]:
        """The point after a step and the value there."""
        Y = self.manifold.retract(state.X, step)
        return Y, float(self.objective.value(Y))

    def search(self, state: State, direction: Tangent, length: float) -> tuple[TensorTrain, float] | None:
        """The point after a step that decreases the value enough, and its length; None: there is none.

        The length is halved until it does. What rounding makes of the value is no increase.
        """
        slope = inner(state.gradient, direction)
        noise = 4.0 * float(np.finfo(np.float64).eps) * abs(state.value)
        for _ in range(MOST_HALVINGS):
            Y, value = self.value_at(state, direction * length)
            if value <= state.value + SUFFICIENT * length * slope + noise:
                return Y, length
            length *= 0.5
        return None

    def moved(self, X: TensorTrain, Y: TensorTrain, direction: Tangent) -> Tangent:
        """A tangent vector at X, carried to Y."""
        return self.manifold.transport(X, Y, direction)


def number(value: Any) -> float:
    """A number of any library."""
    return float(value)


def size(X: TensorTrain) -> float:
    """The norm of a point: that of the centre of its frames."""
    return float(np.linalg.norm(X.library.host(point_of(X).right.cores[0]).astype(np.float64)))


def inner(left: Tangent, right: Tangent) -> float:
    """The inner product as a plain number."""
    return number(left.inner(right))
