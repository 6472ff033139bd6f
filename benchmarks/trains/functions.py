"""The five functions of Novikov, Rakhuba and Oseledets (section 7.1), for arrays of any library.

Sizes are those of their table 1. They took A = M + Mᵀ for ⟨AX,X⟩ and the Rayleigh quotient, so that M has
half of the rank that the table gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hesse import tt

NAMES = ("⟨AX,X⟩", "⟨AᵀAX,X⟩", "Rayleigh quotient", "completion", "exponential machines")


class Size(NamedTuple):
    """Ranks, sizes of axes and numbers of positions."""

    rank: int
    half: int
    """The rank of M, where A = M + Mᵀ."""
    gram: int
    short: int
    """The rank for completion and exponential machines."""
    axis: int = 20
    long: int = 40
    few: int = 10
    features: int = 500
    scale: float = 1e20
    """Forms of random trains with 40 axes are tiny."""


SIZES = {
    "small": Size(10, 5, 5, 5),
    "medium": Size(20, 10, 10, 10),
    "large": Size(20, 10, 20, 20),
    "tiny": Size(3, 2, 2, 2, 4, 5, 4, 6, 1.0),
}


class Library(NamedTuple):
    """How arrays of NumPy become those of a library, and its functions."""

    array: Callable[[np.ndarray], Any]
    log: Callable[[Any], Any]
    exp: Callable[[Any], Any]


NUMPY = Library(lambda a: a, np.log, np.exp)


class Case(NamedTuple):
    """A function of a train and a point; the data, for those who write the function otherwise."""

    name: str
    function: Callable[[Any], Any]
    point: tt.TensorTrain
    data: dict[str, Any]


def moved(chain: Any, library: Library) -> Any:
    """A train or an operator with arrays of a library."""
    return type(chain)([library.array(core) for core in chain.cores])


def case(name: str, size: Size, library: Library = NUMPY, dtype: str = "f8") -> Case:
    """One of the functions, by its name."""
    rng = np.random.default_rng(0)

    def cast(chain: Any) -> Any:
        return moved(type(chain)([core.astype(dtype) for core in chain.cores]), library)

    if name in ("⟨AX,X⟩", "Rayleigh quotient"):
        M = tt.random_matrix(((size.axis,) * 2,) * size.long, size.half, rng=1)
        A, X = cast(M + M.T), cast(tt.random((size.axis,) * size.long, size.rank, rng=3))
        quadratic = lambda X: size.scale * tt.dot(A @ X, X)  # noqa: E731
        rayleigh = lambda X: size.scale * tt.dot(A @ X, X) / tt.dot(X, X)  # noqa: E731
        return Case(name, quadratic if name == NAMES[0] else rayleigh, X, {"A": A})
    if name == "⟨AᵀAX,X⟩":
        B = cast(tt.random_matrix(((size.axis,) * 2,) * size.few, size.gram, rng=2))
        X = cast(tt.random((size.axis,) * size.few, size.rank, rng=4))
        return Case(name, lambda X: tt.dot(B @ X, B @ X), X, {"B": B})
    if name == "completion":
        count = 10 * size.few * size.axis * size.short**2
        where = tuple(rng.integers(0, size.axis, (size.few, count)))
        values = library.array(rng.standard_normal(count).astype(dtype))
        X = cast(tt.random((size.axis,) * size.few, size.short, rng=5))
        return Case(
            name,
            lambda X: ((tt.gather(X, where) - values) ** 2).sum(),
            X,
            {"where": where, "values": values},
        )
    words = cast(tt.rank_one([rng.standard_normal((32, size.features)) for _ in range(size.few)]))
    labels = library.array(np.sign(rng.standard_normal(32)).astype(dtype))
    X = cast(tt.random((size.features,) * size.few, size.short, rng=6))
    return Case(
        name,
        lambda X: library.log(1.0 + library.exp(-labels * tt.dot(words, X))).sum(),
        X,
        {"words": words, "labels": labels},
    )
