"""What a benchmark problem is: one function, its data at every size, and the answers known by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]

PAPERS = "1 the papers' problems"
STRUCTURE = "2 problems with structure"
CHAINS = "2 chains and stencils"
NESTED = "3 where nested differentiation is good"


CRASHES = "the compiled code ends the process with a segmentation fault (torch 2.13)"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem: for the plan guards, for `make bench`, for `make bench-full`."""

    guard: int
    short: tuple[int, ...]
    full: tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """A derivative to compute.

    `function(xp)` is the function over an array namespace (numpy, jax.numpy, torch, autograd.numpy); its
    first argument is the variable. `data(size)` are its arguments. `closed(*arguments)` is the derivative
    as written by hand; `kept(*arguments)` is what an expert would keep of it instead of the dense array,
    and `product(kept, vector, *arguments)` multiplies that with a vector. `widest(size)` is the number of
    entries of the largest intermediate of the function: a library that pushes all basis vectors at once
    needs that many for each of them.
    """

    name: str
    group: str
    derivative: str
    function: Callable[[Any], Callable[..., Any]]
    data: Callable[[int], Arrays]
    sizes: Sizes
    widest: Callable[[int], int]
    closed: Callable[..., Any] | None = None
    kept: Callable[..., Any] | None = None
    product: Callable[..., np.ndarray] | None = None
    special: dict[str, Callable[[Any], Callable[..., Any]]] = field(default_factory=dict)
    """Functions to use instead for a namespace (by its name), where it has its own word for it."""
    each: Callable[[Any], Callable[..., Any]] | None = None
    """The function of one example, where an expert would map its derivative over a batch."""
    each_axes: tuple[int | None, ...] = ()
    """Which axes of the arguments `each` is mapped over."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Candidates that cannot take part, by name, with the reason."""
    is_sparse: bool = False
    """Whether a colouring library is a peer."""

    def function_for(self, namespace: str, xp: Any) -> Callable[..., Any]:
        """The function written for a namespace."""
        return self.special.get(namespace, self.function)(xp)


def generator(size: int) -> np.random.Generator:
    """Random numbers that depend on the size only."""
    return np.random.default_rng(size)
