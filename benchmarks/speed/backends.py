"""hesse for the arrays of JAX and torch, and the closed forms written in JAX, as candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.speed.candidates import (
    CLOSED_JAX,
    DENSE,
    HESSE_JAX,
    HESSE_TORCH,
    PRODUCT,
    STRUCTURED,
    Candidate,
    Thunk,
    as_arrays,
    derivative_of,
    direction,
    has_structured,
)
from benchmarks.speed.closed_forms import forms
from benchmarks.speed.libraries import Library, as_numpy, jax_library, torch_library
from benchmarks.speed.peers import missing
from benchmarks.speed.problem import Arrays, Problem

NAMES = {"jax": HESSE_JAX, "torch": HESSE_TORCH}


def backend_candidates(problem: Problem, arguments: Arrays, with_dense: bool) -> list[Candidate]:
    """What runs in JAX and torch, each where it can be imported."""
    absent = missing()
    found: list[Candidate] = []
    if "jax" not in absent:
        found += _closed_forms(jax_library(), problem, arguments, with_dense)
    makers: dict[str, Callable[[], Library]] = {"torch": torch_library, "jax": jax_library}
    for name, library in makers.items():
        if name not in absent:
            found += _by_hesse(library(), problem, arguments, with_dense)
    return found


def _closed_forms(library: Library, problem: Problem, arguments: Arrays, with_dense: bool) -> list[Candidate]:
    known = forms(library).get(problem.name)
    if known is None:
        return []
    found = []
    if with_dense:
        prepare = _thunk(library, lambda: library.compiled(known.dense), arguments)
        found.append(Candidate(CLOSED_JAX, DENSE, prepare, _arrays))
    if known.kept is not None:
        kept = known.kept
        prepare = _thunk(library, lambda: library.compiled(kept), arguments)
        found.append(Candidate(CLOSED_JAX, STRUCTURED, prepare, _multiplied(problem, arguments)))
    return found


def _multiplied(problem: Problem, arguments: Arrays) -> Callable[[Any], list[Any]]:
    """What is kept, times a vector; a Newton step is compared itself."""
    product = problem.product
    if product is None:
        return _arrays
    return lambda kept: [product(as_numpy(kept), direction(arguments), *arguments)]


def _by_hesse(library: Library, problem: Problem, arguments: Arrays, with_dense: bool) -> list[Candidate]:
    name = NAMES[library.name]
    is_rebuilt = library.name != "jax"  # compiling twice would take too long

    def candidate(comparison: str, make: Callable[[], Callable[..., Any]], compare: Any) -> Candidate:
        def checked(result: Any) -> list[Any]:
            library.check(result)
            found: list[Any] = compare(result)
            return found

        return Candidate(name, comparison, _thunk(library, make, arguments), checked, is_rebuilt=is_rebuilt)

    def structured() -> Callable[..., Any]:
        return derivative_of(problem, STRUCTURED, library)

    found = []
    if with_dense:
        found.append(candidate(DENSE, lambda: derivative_of(problem, DENSE, library), _arrays))
    if problem.derivative == "newton":
        found.append(candidate(STRUCTURED, structured, _arrays))
    elif has_structured(problem) and problem.kept is not None:
        vector = library.array(direction(arguments))

        def make_product() -> Thunk:
            tensor = structured()(*map(library.array, arguments))
            return lambda: library.wait(tensor @ vector)

        found.append(candidate(STRUCTURED, structured, lambda H: [as_numpy(H @ vector)]))
        found.append(Candidate(name, PRODUCT, make_product, _arrays, is_rebuilt=is_rebuilt))
    return found


def _thunk(
    library: Library, make: Callable[[], Callable[..., Any]], arguments: Arrays
) -> Callable[[], Thunk]:
    def prepare() -> Thunk:
        function, values = make(), [library.array(a) for a in arguments]
        return lambda: library.wait(function(*values))

    return prepare


def _arrays(result: Any) -> list[Any]:
    return as_arrays(as_numpy(result))
