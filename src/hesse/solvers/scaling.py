"""Gradients scaled by the diagonal of the Hessian: near a minimum conjugate directions need fewer steps."""

from __future__ import annotations

from hesse.manifolds.tangent import Tangent
from hesse.solvers.problem import Problem, State, size
from hesse.tt.arrays import Array

NEAR = 0.02
"""A step shorter than this part of the point is near a minimum; far away scaling leads to wrong minima."""
RENEWED = 10
"""The diagonal is computed anew after so many steps."""
LEAST = 0.05
"""What each entry of the diagonal is at least, as a part of their mean."""


class Scaling:
    """A positive operator on tangent vectors that is nearly the inverse of the Hessian, or the identity.

    Retractions leave frames of singular vectors. They move with the point but for their signs, which squares
    do not have; so a diagonal serves some steps.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._factors: list[Array] | None = None
        self._age: int | None = None
        """Steps since the diagonal was computed; None: no step was short yet."""

    def step(self, new: State, length: float) -> None:
        """Follow a step of some length."""
        if self._age is None and length > NEAR * size(new.X):
            return
        self._age = 0 if self._age is None else (self._age + 1) % RENEWED
        if self._age == 0:
            diagonal = self._problem.objective.diagonal(new.X)
            self._factors = None if diagonal is None else [_inverse(entries) for entries in diagonal]

    def __call__(self, gradient: Tangent) -> Tangent:
        """A gradient, scaled."""
        if self._factors is None:
            return gradient
        scaled = [delta * factor for delta, factor in zip(gradient.deltas, self._factors, strict=True)]
        return Tangent(gradient.point, gradient.point.gauged(scaled))


def _inverse(entries: Array) -> Array:
    """One over each entry; the scale of a diagonal that is zero does not matter."""
    mean = entries.mean()
    return 1.0 / (entries + LEAST * mean + (mean == 0.0))
