"""What is compared on a device: hesse by JAX and torch, the libraries themselves, closed forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import hesse
from benchmarks.gpu.cases import DENSE
from benchmarks.speed.closed_forms import forms
from benchmarks.speed.libraries import Jax, Library, Torch
from benchmarks.speed.problem import Problem

HESSE_JAX, HESSE_EAGER, HESSE_GRAPH = "hesse (jax)", "hesse (torch eager)", "hesse (torch graph)"
CLOSED_JAX, CLOSED_TORCH = "closed form (jax)", "closed form (torch)"

Function = Callable[..., Any]


class Candidate(NamedTuple):
    """A way to compute a result: the library of its arrays, and how its function is made."""

    name: str
    library: Library
    make: Callable[[], Function]
    is_closed: bool = False


def by_hesse(problem: Problem, form: str, library: Library, graph: bool = True) -> Function:
    """The derivative by hesse of the function of a library; the only place that knows how it is asked for."""
    maker = {"hessian": hesse.hessian, "jacobian": hesse.jacobian}[problem.derivative]
    derivative = maker(problem.function_for(library.name, library.xp), form=form)
    settings = {} if graph else {"graph": False}
    made: Function = derivative.compile(backend=library.name, **settings)
    return made


def closed_forms(problem: Problem, form: str, jax: Jax | None, torch: Torch) -> list[Candidate]:
    """The closed forms: the others are compared with the first of them."""
    found = []
    libraries: list[tuple[str, Library | None]] = [(CLOSED_TORCH, torch), (CLOSED_JAX, jax)]
    for name, library in libraries:
        if library is not None:
            known = forms(library)[problem.name]
            function = known.dense if form == DENSE else known.kept
            assert function is not None
            found.append(Candidate(name, library, partial(library.compiled, function), is_closed=True))
    return found


def others(problem: Problem, form: str, jax: Jax, torch: Torch) -> list[Candidate]:
    """hesse and the libraries."""
    found: list[Candidate] = [
        Candidate(HESSE_JAX, jax, lambda: by_hesse(problem, form, jax)),
        Candidate(HESSE_EAGER, torch, lambda: by_hesse(problem, form, torch, graph=False)),
    ]
    if torch.device != "cpu":
        found.append(Candidate(HESSE_GRAPH, torch, lambda: by_hesse(problem, form, torch)))
    return found + (_peers(problem, jax, torch) if form == DENSE else [])


def _peers(problem: Problem, jax: Jax, torch: Torch) -> list[Candidate]:
    f, transforms, func = problem.function_for("jax", jax.xp), jax.jax, torch.xp.func
    by_torch = problem.function_for("torch", torch.xp)
    if problem.derivative == "hessian":
        return [
            Candidate("JAX jit", jax, lambda: jax.compiled(transforms.hessian(f))),
            Candidate("torch.func", torch, lambda: func.hessian(by_torch)),
        ]
    return [
        Candidate("JAX jit", jax, lambda: jax.compiled(transforms.jacfwd(f))),
        Candidate("JAX jit, reverse", jax, lambda: jax.compiled(transforms.jacrev(f))),
        Candidate("torch.func", torch, lambda: func.jacfwd(by_torch)),
    ]
