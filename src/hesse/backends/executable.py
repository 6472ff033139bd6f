"""From nodes to something that runs: planned and compiled once for each target and dtype."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from hesse.backends.kept import keep
from hesse.backends.memory import keep_freed_memory
from hesse.backends.named import Origin, enter
from hesse.backends.target import Array, DType, Target
from hesse.backends.writer import Compiled
from hesse.ir import Node
from hesse.plan import Program, check_memory, fits_memory

KEPT = 32
"""Executables that are kept with a node."""


class Escape(NamedTuple):
    """What to compute where a matrix is nearly singular: `doubts` are large there; `roots` invert nothing.

    Structured results have no such roots.
    """

    doubts: tuple[Node, ...]
    roots: Callable[[], Sequence[Node]] | None


@dataclass(frozen=True)
class Executable:
    """A program for a target: planned at once, compiled when it is called for the first time."""

    straight: Program
    inputs: tuple[str, ...]
    dtype: DType
    target: Target
    in_order: bool = True
    shared: frozenset[str] = frozenset()
    origin: Origin | None = None
    escape: Escape | None = None

    @cached_property
    def program(self) -> Program:
        """The program as the target runs it."""
        return self.target.passes(self.straight)

    @cached_property
    def compiled(self) -> Compiled:
        """The function and its source."""
        keep_freed_memory()
        found = self.target.compile(self.program, self.inputs, self.dtype, self.in_order, self.shared)
        if self.origin is not None:
            enter(found.function, self.origin)
        if self.escape is None:
            return found
        other = None if self.escape.roots is None else self._other
        return replace(found, function=self.target.guarded(found.function, len(self.escape.doubts), other))

    def _other(self) -> Callable[..., Any]:
        """The function without inverses."""
        assert self.escape is not None and self.escape.roots is not None
        other = executable(self.escape.roots(), self.inputs, self.dtype, self.target, self.in_order)
        other.check_memory()
        return other.compiled.function

    @property
    def itemsize(self) -> int:
        """Bytes of an entry."""
        return self.target.itemsize(self.dtype)

    @property
    def fits_memory(self) -> bool:
        """Whether it needs no more memory than it may take."""
        return fits_memory(self.program, self.itemsize, self.target.free_bytes)

    def check_memory(self, advice: Callable[[], str] = str) -> None:
        """Refuse what would not fit, before any work is done."""
        check_memory(self.program, self.itemsize, advice, self.target.free_bytes)

    def __call__(self, *arrays: Array) -> tuple[Any, ...]:
        return self.compiled.function(*arrays)


def executable(
    roots: Sequence[Node],
    inputs: Sequence[str],
    dtype: DType,
    target: Target,
    in_order: bool = True,
    shared: Collection[str] = (),
    meaning: Sequence[Node] | None = None,
    escape: Escape | None = None,
) -> Executable:
    """The executable for some nodes, kept as long as the first of them lives.

    `meaning` are expressions of the same values, for those who want to know what the program computes.
    """
    if not roots:
        return Executable(target.planned(roots), tuple(inputs), dtype, target, in_order, frozenset(shared))
    kept: dict[Any, Executable] = roots[0]._cache.setdefault(executable, {})
    others = tuple(None if root is roots[0] else root for root in roots[1:])  # a node does not hold itself
    if escape is not None:
        origin = Origin(tuple(inputs), meaning or roots)
        planned = target.planned([*roots, *escape.doubts])
        return Executable(planned, tuple(inputs), dtype, target, in_order, frozenset(shared), origin, escape)
    key = (others, tuple(inputs), dtype, target, in_order, frozenset(shared))
    found = kept.get(key)
    if found is None:
        origin = Origin(tuple(inputs), meaning or roots)
        found = keep(kept, key, Executable(target.planned(roots), *key[1:], origin), KEPT)
    return found
