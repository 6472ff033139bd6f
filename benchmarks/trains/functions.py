"""The five functions of Novikov, Rakhuba and Oseledets (section 7.1), for arrays of any library.

Sizes are those of their table 1. They took A = M + Mᵀ for ⟨AX,X⟩ and the Rayleigh quotient, so that M has
half of the rank that the table gives.
"""

from __future__ import annotations

import functools
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


@functools.cache
def numbers(name: str, size: Size) -> dict[str, Any]:
    """The data of a function, as arrays of NumPy: the train `X`, and what the function reads."""
    rng = np.random.default_rng(0)
    if name in ("⟨AX,X⟩", "Rayleigh quotient"):
        M = tt.random_matrix(((size.axis,) * 2,) * size.long, size.half, rng=1)
        return {"A": M + M.T, "X": tt.random((size.axis,) * size.long, size.rank, rng=3)}
    if name == "⟨AᵀAX,X⟩":
        B = tt.random_matrix(((size.axis,) * 2,) * size.few, size.gram, rng=2)
        return {"B": B, "X": tt.random((size.axis,) * size.few, size.rank, rng=4)}
    if name == "completion":
        count = 10 * size.few * size.axis * size.short**2
        return {
            "where": tuple(rng.integers(0, size.axis, (size.few, count))),
            "values": rng.standard_normal(count),
            "X": tt.random((size.axis,) * size.few, size.short, rng=5),
        }
    return {
        "words": tt.rank_one([rng.standard_normal((32, size.features)) for _ in range(size.few)]),
        "labels": np.sign(rng.standard_normal(32)),
        "X": tt.random((size.features,) * size.few, size.short, rng=6),
    }


def case(name: str, size: Size, library: Library = NUMPY, dtype: str = "f8") -> Case:
    """One of the functions, by its name."""

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):  # positions
            return value
        if isinstance(value, np.ndarray):
            return library.array(value.astype(dtype))
        return type(value)([library.array(core.astype(dtype)) for core in value.cores])

    data = {key: moved(value) for key, value in numbers(name, size).items()}
    A, B, where, values, words, labels = map(data.get, ("A", "B", "where", "values", "words", "labels"))
    functions: dict[str, Callable[[Any], Any]] = {
        "⟨AX,X⟩": lambda X: size.scale * tt.dot(A @ X, X),
        "Rayleigh quotient": lambda X: size.scale * tt.dot(A @ X, X) / tt.dot(X, X),
        "⟨AᵀAX,X⟩": lambda X: tt.dot(B @ X, B @ X),
        "completion": lambda X: ((tt.gather(X, where) - values) ** 2).sum(),
        "exponential machines": lambda X: library.log(1.0 + library.exp(-labels * tt.dot(words, X))).sum(),
    }
    return Case(name, functions[name], data["X"], data)
