"""What a row of the benchmark is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Function = Callable[..., Any]

GRADIENT, JACOBIAN, BLOCKS = "gradient", "Jacobian", "Jacobian, blocks"


class Case(NamedTuple):
    """An objective over an array namespace, its data, and what is asked for.

    The result of `BLOCKS` has a row for each point, and so have the arguments that it is differentiated by
    from number `shared` on: `[n, i, j]` is the derivative of `[n, i]` by `[n, j]`.
    """

    problem: str
    size: str
    derivative: str
    function: Callable[[Any], Function]
    arguments: tuple[np.ndarray, ...]
    count: int
    """By how many of its first arguments the objective is differentiated."""
    by_hand: Function | None = None
    scanned: Callable[[Any, Function], Function] | None = None
    """The objective with its loop by a `scan`, for JAX and as another way of hesse."""
    shared: int = 0
    is_compiled: bool = True
    """Whether torch compiles the program within a minute or so."""

    @property
    def argnums(self) -> tuple[int, ...]:
        """The arguments that the objective is differentiated by."""
        return tuple(range(self.count))


def seeds(arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Directions, one for each array; derivatives are compared by products with them."""
    random = np.random.default_rng(1)
    return [random.normal(size=array.shape) for array in arguments]
