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


NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""What a new tensor has prepared."""


class Form(NamedTuple):
    """What tensors have besides their arrays: an expression over parts with names, in groups of axes."""

    node: Node
    names: tuple[str, ...]
    groups: tuple[int, ...]
    dtype: DType
    target: Target


class Patterns:
    """An expression over parts, in groups of axes: what `Structured` computes with and solvers look at.

    One is made at every call of a derivative, so that takes no more than to refer to a form and to arrays.
    """

    __slots__ = ("__weakref__", "_arrays", "_form", "_products", "_ready")

    def __init__(self, form: Form, arrays: Sequence[Array]) -> None:
        self._form = form
        self._arrays = arrays
        self._ready: Mapping[Any, _Ready] = NOTHING
        """Compiled formulas, by formula, settings and dtype of the vector."""
        self._products: Mapping[Any, tuple[Callable[..., Any], list[Array], int]] = NOTHING
        """Programs of products with vectors, by what can be read off these; their other operands; bytes."""

    @classmethod
    def form(
        cls, node: Node, names: Iterable[str], groups: Iterable[int], dtype: DType, target: Target
    ) -> Form:
        """What tensors of this class have in common; JAX's transformations know them from then on."""
        if target.name == "jax":
            _jax_pytree().register(cls)
        return Form(node, tuple(names), tuple(groups), dtype, target)

    @classmethod
    def of(
        cls,
        node: Node,
        values: Mapping[str, Array],
        groups: Sequence[int],
        dtype: DType = None,
        target: Target | None = None,
    ) -> Self:
        """An expression over arrays, by the names of the variables they are the values of."""
        target = target_for(values.values()) if target is None else target
        if dtype is None:
            dtype = target.dtype([value.dtype for value in values.values()])
        return cls(cls.form(node, values, groups, dtype, target), tuple(values.values()))

    @property
    def node(self) -> Node:
        """The expression over the parts."""
        return self._form.node

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are kept, by the names of the variables of the expression."""
        return MappingProxyType(self._values())

    def _values(self) -> dict[str, Array]:
        return dict(zip(self._form.names, self._arrays, strict=True))

    @property
    def groups(self) -> tuple[int, ...]:
        """The ranks of the groups of axes."""
        return self._form.groups

    @property
    def target(self) -> Target:
        """The back end of the arrays."""
        return self._form.target

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense tensor."""
        return tuple(map(number, self.node.shape))

    @property
    def ndim(self) -> int:
        """Number of axes of the dense tensor."""
        return self.node.rank

    @property
    def dtype(self) -> DType:
        """The dtype of the entries."""
        return self._form.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are kept."""
        return sum(array.nbytes for array in self._arrays)

    def like(self, node: Node, groups: Sequence[int] | None = None) -> Self:
        """Another expression over the same parts (those that it has)."""
        names = {part.name for part in topological([node]) if isinstance(part, Variable)}
        values = {name: value for name, value in self._values().items() if name in names}
        ranks = self.groups if groups is None else groups
        return self.of(node, values, ranks, self.dtype, self.target)

    def over(self, arrays: Iterable[Array]) -> Self:
        """The same expression over other arrays, in the order of `parts`."""
        return type(self)(self._form, tuple(arrays))

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
        return runs(*arrays, *self.target.converted([vector], [runs.dtype]))

    def _prepared(self, key: tuple[Formula, tuple[Any, ...], DType], vector: Array | None) -> _Ready:
        names, dtype, target = self._form.names, self.dtype, self.target
        if vector is not None:
            names, dtype = (*names, VECTOR), self.promoted(vector)
        runs = executable(_roots(self.node, *key[:2]), names, dtype, target)
        arrays = target.converted(self._arrays, [dtype] * len(self._arrays))
        ready = _Ready(runs, arrays, runs.program.peak_elements() * runs.itemsize)
        # Elsewhere a function may be traced or recorded, which what was cast in it must not outlive.
        if target.name == "numpy" or all(map(is_, arrays, self._arrays)):
            self._ready = {**self._ready, key: ready}
        return ready

    def _alternative(self) -> str:
        return f"The structured form, which has {bytes_text(self.nbytes)}, does without where it can."

    def promoted(self, *arrays: Array) -> DType:
        """The dtype in which this tensor is computed with together with arrays."""
        if all(array.dtype == self.dtype for array in arrays):
            return self.dtype
        floats = [array.dtype for array in arrays if self.target.kind(array) == "f"]
        return self.target.dtype([self.dtype, *floats])
