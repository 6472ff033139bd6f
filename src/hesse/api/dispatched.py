"""Calls whose signatures the library of the arrays tells apart by itself: jitted functions."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.api.entries import Entry
from hesse.api.layout import Layout, arranged, has_results_only, is_bare
from hesse.api.signature import may_be_fixed
from hesse.api.trees import flattened, take_apart
from hesse.backends.kept import keep
from hesse.backends.target import library_of
from hesse.errors import ArgumentError, TracingError

if TYPE_CHECKING:
    from optree import PyTreeSpec

    from hesse.api.compiled import Derivative

Types = tuple[type, ...]
Quick = tuple[int, type, Callable[[], bool] | None, Callable[..., Any]]
"""So many arguments of a type: whether all that is read besides is the same, and what computes the result.

It may raise ValueError inside of a trace.
"""
MISSING = object()
"""Says that a call is not dispatched."""


class OtherLayout(Exception):
    """For these shapes the results are arranged in another way than for those of the first call."""


class Dispatched:
    """A derivative as a function of arrays alone, captured ones last.

    `spec` is the structure of the arguments, whose leaves the others are. Without one the arrays are the
    arguments, and the results are arranged by the library.
    """

    run: Callable[..., Any]
    """The function of the library, which calls the method and does not keep this object alive."""

    def __init__(self, derivative: Derivative, layout: Layout, spec: PyTreeSpec | None) -> None:
        self._derivative = weakref.ref(derivative)
        self._spec, self._layout = spec, layout
        # a result that is its own position, however many there are
        self._positions, self.structure = take_apart(arranged(layout, range(sys.maxsize)))

    def method(self, *arrays: Any) -> Any:
        """The results; if there is a structure, then in a row, as leaves of theirs."""
        derivative, spec = self._derivative(), self._spec
        assert derivative is not None, "it calls this"
        _, captured = derivative.present()
        count = len(arrays) - len(captured.arrays)
        arguments: Any = arrays[:count] if spec is None else spec.unflatten(arrays[:count])
        names, values = derivative.building.parameters.match(arguments, {})
        _, given, found = derivative.found(names, values, by_name=False, further=arrays[count:])
        if found is None:
            raise ArgumentError(
                f"{derivative.__name__} depends on a trace around it and cannot be computed there"
            )
        if spec is None:
            return found.run(given.values)
        if found.built.layout != self._layout:
            raise OtherLayout
        results = found.results(given.values)
        return [results[k] for k in self._positions]


class Dispatch:
    """The dispatched functions of a derivative."""

    def __init__(self) -> None:
        self.bare: dict[Types, Dispatched] = {}
        """By the types of the arguments, which are arrays."""
        self.nested: dict[Hashable, Dispatched] = {}
        """By the structure of the arguments and the types of their leaves."""

    def enter(self, derivative: Derivative, arguments: tuple[Any, ...], found: Entry) -> bool:
        """Whether calls like this one, of arrays and containers of arrays, are dispatched from now on."""
        layout, spec = found.built.layout, None
        if is_bare(layout) and all(map(_is_array, arguments)):
            key: Any = tuple(map(type, arguments))
        else:
            leaves, spec = take_apart(arguments)
            key = _key(leaves, spec)
            if key is None or not has_results_only(layout) or not all(map(library_of, leaves)):
                return False
        known = Dispatched(derivative, layout, spec)
        program = found.executable
        run = program.target.dispatched(known.method, program.program, program.dtype)
        if run is not None:
            known.run = run
            keep(self.bare if spec is None else self.nested, key, known)
        return run is not None

    def call(self, arguments: tuple[Any, ...], captured: tuple[Any, ...]) -> Any:
        """The result of a call, or MISSING if it is not dispatched."""
        if self.bare:
            types = tuple(map(type, arguments))
            known = self.bare.get(types)
            if known is not None:
                try:
                    return known.run(*arguments, *captured)
                except TracingError:  # for these shapes values of an argument may be needed
                    if not any(map(may_be_fixed, arguments)):
                        raise
                    del self.bare[types]
        if self.nested:
            leaves, spec = flattened(arguments)
            key = _key(leaves, spec)
            known = self.nested.get(key)
            if known is not None:
                try:
                    return known.structure.unflatten(known.run(*leaves, *captured))
                except OtherLayout:
                    del self.nested[key]
        return MISSING

    def quick(self, arguments: tuple[Any, ...], is_same: Callable[[], bool] | None) -> Quick | None:
        """The function for arguments like these, if they are arrays of the library, all of one type."""
        types = tuple(map(type, arguments))
        known = self.bare.get(types)
        if known is None or len(set(types)) != 1 or np.ndarray in types:
            return None
        return len(types), types[0], is_same, getattr(known.run, "alone", known.run)


def _key(leaves: list[Any], spec: PyTreeSpec) -> Hashable:
    """The structure and the types of the leaves, if it can be compared, else None."""
    key = spec, tuple(map(type, leaves))
    try:
        hash(key)
    except TypeError:  # of a static field
        return None
    return key


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray or library_of(value) is not None
