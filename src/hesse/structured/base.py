"""Patterns over parts: an expression over small arrays, and how what is computed from it runs."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, Self

from hesse.backends.executable import Executable, executable
from hesse.backends.target import Array, DType, Target, target_for
from hesse.ir import Node, Variable, number, remembered, topological
from hesse.plan import bytes_text, is_always_allowed
from hesse.rewrite import simplify
from hesse.structured.formulas import VECTOR

Formula = Callable[..., Node] | Callable[..., list[Node]]
"""One or several expressions of a tensor's node and of static settings."""


def _roots(node: Node, formula: Formula, settings: tuple[Any, ...]) -> list[Node]:
    """The expressions of a formula."""
    return [node if found is None else found for found in _simplified(node, formula, settings)]


@remembered
def _simplified(node: Node, formula: Formula, settings: tuple[Any, ...]) -> list[Node | None]:
    """The same with None for the node itself, which must not remember itself."""
    made = formula(node, *settings)
    roots = [made] if isinstance(made, Node) else made
    # sums that the first pass made have common factors, too
    return [None if found is node else found for found in simplify(simplify(roots))]


class _Ready(NamedTuple):
    """A formula with the arrays in the dtype it needs, and how many bytes it takes."""

    runs: Executable
    arrays: list[Array]
    needed: int


@functools.cache
def _jax_pytree() -> ModuleType:
    return importlib.import_module("hesse.structured.jax_pytree")


class Patterns:
    """An expression over parts, in groups of axes: what `Structured` computes with and solvers look at."""

    __slots__ = ("__weakref__", "_dtype", "_groups", "_node", "_products", "_ready", "_target", "_values")

    def __init__(
        self,
        node: Node,
        values: Mapping[str, Array],
        groups: Sequence[int],
        dtype: DType = None,
        target: Target | None = None,
    ) -> None:
        self._node = node
        self._values = values
        self._groups = tuple(groups)
        self._target = target_for(values.values()) if target is None else target
        if dtype is None:
            dtype = self._target.dtype([value.dtype for value in values.values()])
        self._dtype = dtype
        self._ready: dict[Any, _Ready] = {}
        """Compiled formulas, by formula, settings and dtype of the vector."""
        self._products: dict[Any, tuple[Callable[..., Any], list[Array], int]] = {}
        """Programs of products with vectors, by what can be read off these; their other operands; bytes."""
        if self._target.name == "jax":
            _jax_pytree().register(type(self))

    @property
    def node(self) -> Node:
        """The expression over the parts."""
        return self._node

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are kept, by the names of the variables of the expression."""
        return MappingProxyType(dict(self._values))

    @property
    def groups(self) -> tuple[int, ...]:
        """The ranks of the groups of axes."""
        return self._groups

    @property
    def target(self) -> Target:
        """The back end of the arrays."""
        return self._target

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense tensor."""
        return tuple(map(number, self._node.shape))

    @property
    def ndim(self) -> int:
        """Number of axes of the dense tensor."""
        return self._node.rank

    @property
    def dtype(self) -> DType:
        """The dtype of the entries."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are kept."""
        return sum(value.nbytes for value in self._values.values())

    def like(self, node: Node, groups: Sequence[int] | None = None) -> Self:
        """Another expression over the same parts (those that it has)."""
        names = {part.name for part in topological([node]) if isinstance(part, Variable)}
        values = {name: value for name, value in self._values.items() if name in names}
        ranks = self._groups if groups is None else groups
        return type(self)(node, values, ranks, self._dtype, self._target)

    def over(self, arrays: Iterable[Array]) -> Self:
        """The same expression over other arrays, in the order of `parts`."""
        values = dict(zip(self._values, arrays, strict=True))
        return type(self)(self._node, values, self._groups, self._dtype, self._target)

    def run(self, formula: Formula, *settings: Any, vector: Array | None = None) -> Array:
        """The value of a formula of one expression."""
        return self.run_all(formula, *settings, vector=vector)[0]

    def run_all(self, formula: Formula, *settings: Any, vector: Array | None = None) -> tuple[Array, ...]:
        """The values of a formula of this tensor; formulas are compiled once for each pattern."""
        key = (formula, settings, None if vector is None else vector.dtype)
        runs, arrays, needed = self._ready.get(key) or self._prepared(key, vector)
        if not is_always_allowed(needed):
            runs.check_memory(self._alternative)
        if vector is None:
            return runs(*arrays)
        if vector.dtype == runs.dtype:
            return runs(*arrays, vector)
        return runs(*arrays, *self._target.converted([vector], [runs.dtype]))

    def _prepared(self, key: tuple[Formula, tuple[Any, ...], DType], vector: Array | None) -> _Ready:
        names, dtype = tuple(self._values), self._dtype
        if vector is not None:
            names, dtype = (*names, VECTOR), self.promoted(vector)
        runs = executable(_roots(self._node, *key[:2]), names, dtype, self._target)
        arrays = self._target.converted([*self._values.values()], [dtype] * len(self._values))
        ready = _Ready(runs, arrays, runs.program.peak_elements() * runs.itemsize)
        # Elsewhere a function may be traced or recorded, which what was cast in it must not outlive.
        if self._target.name == "numpy" or all(map(is_, arrays, self._values.values())):
            self._ready[key] = ready
        return ready

    def _alternative(self) -> str:
        return f"The structured form, which has {bytes_text(self.nbytes)}, does without where it can."

    def promoted(self, *arrays: Array) -> DType:
        """The dtype in which this tensor is computed with together with arrays."""
        if all(array.dtype == self._dtype for array in arrays):
            return self._dtype
        floats = [array.dtype for array in arrays if self._target.kind(array) == "f"]
        return self._target.dtype([self._dtype, *floats])
