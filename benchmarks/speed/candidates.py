"""hesse and the closed forms as candidates: named thunks to check, then to time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import hesse
from benchmarks.speed.libraries import Library
from benchmarks.speed.problem import Arrays, Problem

DENSE, STRUCTURED, PRODUCT = "dense", "structured", "product"
HESSE, CLOSED = "hesse", "closed form"
HESSE_JAX, HESSE_TORCH, CLOSED_JAX = "hesse (jax)", "hesse (torch)", "closed form (jax)"
OURS = (HESSE, HESSE_JAX, HESSE_TORCH, CLOSED, CLOSED_JAX)
"""Candidates that are no other library."""

Thunk = Callable[[], Any]


@dataclass(frozen=True)
class Candidate:
    """One way to compute the result of a problem.

    `prepare()` does what is done once and returns the thunk that is timed; `compare(result)` makes arrays
    of a result that must agree with those of the other candidates of the same `comparison`.
    """

    name: str
    comparison: str
    prepare: Callable[[], Thunk]
    compare: Callable[[Any], list[np.ndarray]]
    is_numpy: bool = False
    is_rebuilt: bool = False
    """Whether it is given up after its first call and prepared again when all others have been called.

    hesse finds nodes again that another candidate holds: a first call must not profit from that.
    """


def as_arrays(result: Any) -> list[np.ndarray]:
    """The arrays of a result or of a tuple of results."""
    return [np.asarray(part) for part in (result if isinstance(result, tuple | list) else (result,))]


def derivative_of(problem: Problem, form: str = DENSE, library: Library | None = None) -> Callable[..., Any]:
    """The derivative of a problem by hesse, written for NumPy or for another library."""
    f = problem.function_for(*(("numpy", np) if library is None else (library.name, library.xp)))
    if problem.derivative == "newton":
        return _newton(f, form, library)
    return _run_by(library, _maker(problem.derivative, form)(f))


def _maker(derivative: str, form: str) -> Callable[..., Any]:
    match derivative:
        case "hessian":
            return partial(hesse.hessian, form=form)
        case "jacobian":
            return partial(hesse.jacobian, form=form)
        case "third":
            return partial(hesse.derivative, order=3, form=form)
        case "value_and_grad" | "hvp" | "laplacian":
            made: Callable[..., Any] = getattr(hesse, derivative)
            return made
        case other:
            raise ValueError(f"no derivative is called {other}")


def _run_by(library: Library | None, derivative: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = derivative if library is None else derivative.compile(backend=library.name)
    return made


def _newton(f: Callable[..., Any], form: str, library: Library | None) -> Callable[..., Any]:
    second = _run_by(library, hesse.hessian(f, form=form))
    first = _run_by(library, hesse.grad(f))
    xp = np if library is None else library.xp

    def step(x: Any, *data: Any) -> Any:
        H, g = second(x, *data), first(x, *data)
        if form == STRUCTURED:
            return H.solve(g)
        size = math.prod(x.shape)
        return xp.linalg.solve(H.reshape((size, size)), g.reshape((size,))).reshape(x.shape)

    return step if library is None else library.compiled(step)


def has_structured(problem: Problem) -> bool:
    """Whether the result is a tensor that hesse can keep structured."""
    return problem.derivative in ("hessian", "jacobian", "third", "newton")


def dense_entries(problem: Problem, arguments: Arrays) -> int:
    """Number of entries of the dense result (or of what is formed for it)."""
    n = arguments[0].size
    match problem.derivative:
        case "hessian" | "newton":
            return n * n
        case "third":
            return n**3
        case "jacobian":
            return n * math.prod(np.shape(problem.function_for("numpy", np)(*arguments)))
        case _:
            return n


def own_candidates(problem: Problem, arguments: Arrays, with_dense: bool) -> list[Candidate]:
    """hesse and the closed forms, dense (if that fits), structured, and structured times a vector."""
    found = []
    if with_dense:
        found.append(_plain(HESSE, DENSE, lambda: derivative_of(problem), arguments))
        if problem.closed is not None:
            found.append(_plain(CLOSED, DENSE, lambda: problem.closed, arguments))
    if problem.derivative == "newton":
        found.append(_plain(HESSE, STRUCTURED, lambda: derivative_of(problem, STRUCTURED), arguments))
        found.append(_plain(CLOSED, STRUCTURED, lambda: problem.kept, arguments))
    elif has_structured(problem) and problem.kept is not None:
        found += _kept_candidates(problem, arguments)
    return found


def _plain(
    name: str, comparison: str, make: Callable[[], Callable[..., Any] | None], arguments: Arrays
) -> Candidate:
    def prepare() -> Thunk:
        function = make()
        assert function is not None
        return lambda: function(*arguments)

    return Candidate(name, comparison, prepare, as_arrays, is_numpy=True, is_rebuilt=name == HESSE)


def direction(arguments: Arrays) -> np.ndarray:
    """A random array of the shape of the variable."""
    return np.random.default_rng(1).normal(size=arguments[0].shape)


def _kept_candidates(problem: Problem, arguments: Arrays) -> list[Candidate]:
    vector = direction(arguments)
    kept, product = problem.kept, problem.product
    assert kept is not None
    assert product is not None

    def make_structured() -> Thunk:
        function = derivative_of(problem, STRUCTURED)
        return lambda: function(*arguments)

    def make_product() -> Thunk:
        tensor = derivative_of(problem, STRUCTURED)(*arguments)
        return lambda: tensor @ vector

    def make_closed_product() -> Thunk:
        arrays = kept(*arguments)
        return lambda: product(arrays, vector, *arguments)

    return [
        Candidate(HESSE, STRUCTURED, make_structured, lambda H: [H @ vector], is_numpy=True, is_rebuilt=True),
        Candidate(
            CLOSED,
            STRUCTURED,
            lambda: lambda: kept(*arguments),
            lambda arrays: [product(arrays, vector, *arguments)],
            is_numpy=True,
        ),
        Candidate(HESSE, PRODUCT, make_product, as_arrays, is_numpy=True, is_rebuilt=True),
        Candidate(CLOSED, PRODUCT, make_closed_product, as_arrays, is_numpy=True),
    ]
