"""Arrays that are distributed over several devices: so are the results.

XLA distributes what it computes from distributed arrays. What a derivative does not depend on leaves no trace
in it (the Hessian of a quadratic by its distributed variable): such axes are told to lie as those of the
variable do. Where the axes of a mesh are explicit, every axis of a result is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

Place = tuple[int, int] | None
"""The number of an input and its axis, for an axis of a result that should lie as that does."""
Function = Callable[..., tuple[Any, ...]]


def distributed(
    function: Function, variables: Sequence[Sequence[Place]], origins: Sequence[Sequence[Place]]
) -> Function:
    """The function with results distributed as its arguments are.

    For each axis of each result, `variables` says of which variable it is, and `origins` along which axis of
    which argument it runs.
    """

    def run(*arrays: Any) -> tuple[Any, ...]:
        mesh = _explicit_mesh(arrays)
        if mesh is None:
            results = zip(function(*arrays), variables, strict=True)
            return tuple(_like_variable(result, places, arrays) for result, places in results)
        specs = [[_names(place, arrays) for place in places] for places in origins]
        own = [[_names(place, arrays) for place in places] for places in variables]
        shardings = [
            NamedSharding(mesh, _spec([a or b for a, b in zip(first, second, strict=True)]))
            for first, second in zip(own, specs, strict=True)
        ]
        found: tuple[Any, ...] = jax.sharding.auto_axes(function, out_sharding=tuple(shardings))(*arrays)
        return found

    run.__name__ = function.__name__
    return run


def _explicit_mesh(arrays: Sequence[Any]) -> Any:
    """The mesh over which arrays are distributed in a way that the types of arrays say."""
    for array in arrays:
        mesh = jax.typeof(array).sharding.mesh
        if AxisType.Explicit in mesh.axis_types:
            return mesh
    return None


def _like_variable(result: Any, places: Sequence[Place], arrays: Sequence[Any]) -> Any:
    """A result that lies as the first variable that has axes; XLA knows how that one lies, nobody else.

    It is chosen between the two, entry by entry; XLA cannot tell that the choice is always the same, and lets
    them lie alike.
    """
    number = next((place[0] for place in places if place is not None), None)
    if number is None:
        return result
    array = arrays[number]
    start = next(k for k, place in enumerate(places) if place is not None)
    axes = tuple(range(start, start + array.ndim))
    spread = jax.lax.broadcast_in_dim(jnp.asarray(array, result.dtype), result.shape, axes)
    never = jax.lax.optimization_barrier(jnp.zeros((), bool))
    return jax.lax.select(jnp.broadcast_to(never, result.shape), spread, result)


def _names(place: Place, arrays: Sequence[Any]) -> tuple[str, ...]:
    """The axes of the mesh over which an axis of an argument is distributed."""
    if place is None:
        return ()
    number, axis = place
    spec = jax.typeof(arrays[number]).sharding.spec
    found = spec[axis] if axis < len(spec) else None
    return () if found is None else (found,) if isinstance(found, str) else tuple(found)


def _spec(names: Sequence[tuple[str, ...]]) -> PartitionSpec:
    """One axis after the other; no axis of a mesh can be used twice."""
    used: set[str] = set()
    entries: list[tuple[str, ...] | None] = []
    for wanted in names:
        free = tuple(name for name in wanted if name not in used)
        used.update(free)
        entries.append(free or None)
    return PartitionSpec(*entries)
