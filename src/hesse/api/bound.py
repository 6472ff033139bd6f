"""Derivatives with some arguments fixed: what depends on them alone is computed once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.api.entries import Entry
from hesse.api.signature import Argument, Call, Recipe, is_array, marks, numbered, recipe
from hesse.api.trees import is_list_of_numbers
from hesse.backends.arrays import Arrays, as_arrays
from hesse.backends.executable import Executable
from hesse.backends.kept import keep
from hesse.backends.target import DType, Target, library_of
from hesse.errors import ArgumentError
from hesse.plan import split

if TYPE_CHECKING:
    from hesse.api.compiled import Derivative, Tables


class _Early:
    """The part of a program that depends on bound data alone, computed once where its results may be kept."""

    def __init__(self, runs: Executable, arrays: Sequence[Any], casts: Sequence[DType | None]) -> None:
        self._runs = runs
        self._arrays, self._casts = arrays, casts
        self._kept: list[Any] | None = None

    def results(self) -> list[Any]:
        if self._kept is not None:
            return self._kept
        target = self._runs.target
        arrays = target.converted(self._arrays, self._casts)
        results = list(target.call(self._runs.compiled, arrays, False))
        given = [array for array in self._arrays if library_of(array) is not None]
        if target.may_be_kept([*given, *arrays, *results]):
            self._kept = results
        return results


class Bound:
    """A derivative with some arguments fixed; call it with the others."""

    def __init__(self, derivative: Derivative, bound: dict[str, Any]) -> None:
        self._derivative = derivative
        known = derivative.building.parameters.names()
        for name in bound:
            if name not in known:
                raise ArgumentError(
                    f"{derivative.__name__} has no argument {name}; it has {', '.join(known)}"
                )
        self._bound = _copied(bound, derivative.building.options.backend)
        self._free = [name for name in known if name not in bound]
        self._entries: dict[Any, tuple[Entry, _Early]] = {}
        self._recipes: dict[Any, tuple[Recipe, _Early]] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        tables, captured = self._derivative.present()
        try:
            key, leaves = marks(arguments, options, bool(self._derivative.building.needed))
            known, early = self._recipes[tables, key]
            arrays = known.arrays(leaves)
        except (LookupError, TypeError):
            pass  # as in a derivative
        else:
            return known.entry.run([*early.results(), *arrays, *captured.arrays])
        return self._first_call(arguments, options)

    def _first_call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call of a new signature, or one of which not enough can be read off."""
        if len(arguments) > len(self._free):
            raise ArgumentError(f"got {len(arguments)} arguments for the free {', '.join(self._free)}")
        derivative, bound = self._derivative, self._bound
        names, values = derivative.building.parameters.by_name({**bound, **self._by_name(arguments, options)})
        call, arrays, whole = derivative.found(names, values, by_name=True)
        if whole is None:
            raise ArgumentError(
                f"{derivative.__name__} depends on a trace around it and cannot be bound there"
            )
        tables, _ = derivative.present()
        key = (tables, call.names, call.key, arrays.key)
        if key not in self._entries:
            keep(self._entries, key, self._prepared(call, arrays, whole))
        entry, early = self._entries[key]
        self._remember(tables, arguments, options, call, entry, early)
        owners = self._owners(call, arrays)
        free = [value for value, name in zip(arrays.values, owners, strict=True) if name not in bound]
        return entry.run([*early.results(), *free])

    def _remember(
        self,
        tables: Tables,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        call: Call,
        entry: Entry,
        early: _Early,
    ) -> None:
        """Keep an entry for calls that look the same."""
        try:
            key, leaves = marks(arguments, options, bool(self._derivative.building.needed))
        except LookupError:
            return
        numbers = {**dict.fromkeys(self._bound), **self._by_name(*numbered(arguments, options))}
        _, order = self._derivative.building.parameters.by_name(numbers)
        known = recipe(call, order, leaves, entry)
        if known is not None:
            keep(self._recipes, (tables, key), (known, early))

    def _by_name(self, arguments: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self._free, arguments, strict=False)), **options}

    @staticmethod
    def _owners(call: Call, arrays: Arrays) -> list[str | None]:
        """For each array the name of the argument it is part of; None for those that are captured."""
        names: list[str | None] = [call.names[call.owners[k]] for k in call.positions]
        return names + [None] * (len(arrays.values) - len(names))

    def _prepared(self, call: Call, arrays: Arrays, whole: Entry) -> tuple[Entry, _Early]:
        """The entry for the free arguments, and what depends on bound data only: it comes first."""
        runs = whole.executable
        owners = self._owners(call, arrays)
        casts = whole.casts or tuple((k, None) for k in range(len(owners)))
        inputs = list(zip(runs.inputs, casts, strict=True))
        early = [(label, cast) for label, cast in inputs if owners[cast[0]] in self._bound]
        late = [(label, cast) for label, cast in inputs if owners[cast[0]] not in self._bound]
        again = None if runs.escape is None else runs.escape.roots
        roots = whole.computed if again is None else again()  # right for all matrices
        first, second, loads = split(runs.target.planned(roots), {label for label, _ in early})
        given, wanted = [arrays.values[k] for _, (k, _) in early], [cast for _, (_, cast) in early]
        before = Executable(first, tuple(label for label, _ in early), runs.dtype, runs.target)
        after = Executable(second, (*loads, *(label for label, _ in late)), runs.dtype, runs.target)
        free = [k for k, name in enumerate(owners) if name not in self._bound]
        place = {k: len(loads) + at for at, k in enumerate(free)}
        places = [(k, None) for k in range(len(loads))] + [(place[k], dtype) for _, (k, dtype) in late]
        return whole._replace(executable=after, casts=tuple(places)), _Early(before, given, wanted)


def _copied(bound: dict[str, Any], backend: str | Target | None) -> dict[str, Any]:
    """The bound arguments, of which nothing changes when the given ones are changed."""
    arguments = [Argument.of(name, value) for name, value in bound.items()]
    call = Call(tuple(bound), arguments, {})
    positions = [k for k, leaf in enumerate(call.leaves) if is_array(leaf)]
    arrays = as_arrays([call.leaf_names[k] for k in positions], [call.leaves[k] for k in positions], backend)
    leaves = list(call.leaves)
    for k, array, is_weak in zip(positions, arrays.values, arrays.weak, strict=True):
        if is_list_of_numbers(leaves[k]):
            leaves[k] = copy.deepcopy(leaves[k])
        elif not is_weak and not isinstance(leaves[k], np.generic):  # numbers stay numbers
            leaves[k] = arrays.target.copied(array)
    return dict(zip(bound, call.assembled(leaves), strict=True))
