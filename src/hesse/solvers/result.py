"""What a solver found, and how it got there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hesse.backends.optional import optional
from hesse.tt.train import TensorTrain


class Step(NamedTuple):
    """A step of a solver: what was found after it."""

    number: int
    value: float
    gradient_norm: float
    length: float
    """The length of the step along the manifold."""
    products: int
    """Hessian products up to here."""
    seconds: float
    """Time since the start."""


@dataclass(frozen=True)
class Result:
    """The point that a solver found.

    `history` has an entry for the start and for each step; `message` says why it ended.
    """

    point: TensorTrain
    value: float
    gradient_norm: float
    converged: bool
    message: str
    method: str
    history: Sequence[Step] = field(repr=False)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.history) - 1

    def plot(self, ax: Any = None) -> Any:
        """The values and the norms of the gradient, step by step, drawn with Matplotlib."""
        if ax is None:
            _, ax = optional("matplotlib.pyplot", "plot").subplots(figsize=(6.0, 4.0), layout="constrained")
        numbers = [step.number for step in self.history]
        values = [step.value for step in self.history]
        least = min(0.0, *values) if len(values) > 1 else min(0.0, values[0])
        label = "value" if least == 0.0 else "value above the least one"
        ax.plot(numbers, [value - least for value in values], label=label)
        ax.plot(numbers, [step.gradient_norm for step in self.history], label="norm of the gradient")
        ax.set_yscale("log")
        ax.set_xlabel("step")
        ax.set_title(f"{self.method}: {self.message}")
        ax.legend()
        return ax
