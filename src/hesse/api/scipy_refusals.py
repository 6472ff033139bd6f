"""Compiled code of SciPy that a traced value would crash: it is refused while a function is traced.

It takes an array of objects for one of numbers and does not look. What only raises an error is explained
where that error is caught (`frontends.explained`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.standing_in import LATER, Function, Pair, traced_instead
from hesse.frontends.tracing import NumbersNeeded, note_need, untraceable

CRASHING: dict[str, tuple[str, ...]] = {
    "scipy.spatial": ("ConvexHull", "Delaunay", "HalfspaceIntersection", "KDTree", "Voronoi"),
    "scipy.interpolate": (
        "CloughTocher2DInterpolator",
        "LinearNDInterpolator",
        "NearestNDInterpolator",
        "RBFInterpolator",
    ),
}
"""Classes by their modules."""
WAY_OUT = (
    "Compute it before the call and pass what it finds as an argument, or wrap it with "
    "hesse.custom_derivative."
)


def _refusal(name: str) -> Function:
    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        note_need(_leaves((*arguments, *options.values())))
        raise untraceable(f"{name}, which computes with numbers,", WAY_OUT, kind=NumbersNeeded)

    return refuse


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            yield from value.flat
        elif isinstance(value, Expression):
            yield value


def _of_module(module: str) -> Callable[[], dict[tuple[Any, str], Pair]]:
    """Their constructors, which other functions of SciPy call, too."""

    def entries() -> dict[tuple[Any, str], Pair]:
        found: dict[tuple[Any, str], Pair] = {}
        for name in CRASHING[module]:
            kind: Any = getattr(importlib.import_module(module), name)
            found[kind, "__init__"] = traced_instead(kind.__init__, _refusal(f"{module}.{name}"))
        return found

    return entries


LATER.update({module: _of_module(module) for module in CRASHING})
