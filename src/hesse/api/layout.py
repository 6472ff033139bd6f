"""How results are arranged: positions in the list of results, in tuples and containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np

if TYPE_CHECKING:
    from optree import PyTreeSpec


@dataclass(frozen=True)
class Branches:
    """A container with layouts for leaves."""

    spec: PyTreeSpec
    parts: tuple[Layout, ...]


@dataclass(frozen=True)
class Truth:
    """A result that stands for truth values."""

    position: int


@dataclass(frozen=True)
class Fixed:
    """What is known already, as it is."""

    value: Any


Layout = Union[int, "tuple[Layout, ...]", Branches, Truth, Fixed]


def arranged(layout: Layout, results: Sequence[Any]) -> Any:
    """The results in their places."""
    if isinstance(layout, int):
        return results[layout]
    if isinstance(layout, tuple):
        return tuple([arranged(part, results) for part in layout])
    if isinstance(layout, Branches):
        return layout.spec.unflatten([arranged(part, results) for part in layout.parts])
    if isinstance(layout, Truth):
        return results[layout.position] != 0
    return layout.value.copy() if isinstance(layout.value, np.ndarray) else layout.value


def mapped(layout: Layout, function: Callable[[int], Layout]) -> Layout:
    """The layout with every position replaced."""
    if isinstance(layout, int):
        return function(layout)
    if isinstance(layout, tuple):
        return tuple(mapped(part, function) for part in layout)
    if isinstance(layout, Branches):
        return Branches(layout.spec, tuple(mapped(part, function) for part in layout.parts))
    if isinstance(layout, Truth):
        position = function(layout.position)
        assert isinstance(position, int), "nothing is differentiated that is true or false"
        return Truth(position)
    return layout


def shifted(layout: Layout, start: int) -> Layout:
    """The layout of results that come after `start` others."""
    return mapped(layout, lambda position: position + start)


def is_bare(layout: Layout) -> bool:
    """Whether there are nothing but results in tuples, which every library knows."""
    return isinstance(layout, int) or (isinstance(layout, tuple) and all(map(is_bare, layout)))


def has_results_only(layout: Layout) -> bool:
    """Whether there are nothing but results, in whatever containers."""
    parts = layout.parts if isinstance(layout, Branches) else layout
    return all(map(has_results_only, parts)) if isinstance(parts, tuple) else isinstance(parts, int)


def same_structure(layout: Layout, other: Layout) -> bool:
    """Whether two layouts differ in positions at most."""
    if isinstance(layout, Branches) and isinstance(other, Branches):
        return layout.spec == other.spec
    return isinstance(layout, int) and isinstance(other, int)
