"""The object behind every derivative: traced, planned and compiled once for each signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hesse.api.arguments import Arrays, Parameters, as_arrays, check_argnums, check_differentiable
from hesse.api.explain import Explanation
from hesse.api.trace import INDEX_SUFFIX, argument, nested_names, trace
from hesse.backends.numpy import Compiled, compile_program, make_plan, sliced
from hesse.calculus import Choice, check_mode
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import Node, Variable, number, substitute, topological
from hesse.plan import (
    Program,
    allowed_bytes,
    bytes_text,
    check_memory,
    fits_memory,
    flatten,
    lower,
    split,
)
from hesse.structured import Storage, Structured, check_chunk, chunk_elements, stored

FORMS = ("dense", "structured")

Layout = int | tuple["Layout", ...]
"""How results are arranged: a position in the list of results, or a tuple of layouts."""


@dataclass(frozen=True)
class Options:
    """What to differentiate by, and how."""

    argnums: int | tuple[int, ...] = 0
    mode: str = "auto"
    form: str = "dense"
    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.chunk is not None:
            check_chunk(self.chunk)
            if self.form == "structured":
                raise ArgumentError("chunk slices a dense result; a structured one has dense(chunk=...)")
        if self.form not in FORMS:
            raise ArgumentError(f"form must be one of {', '.join(map(repr, FORMS))}, not {self.form!r}")
        check_mode(self.mode)


class Request(NamedTuple):
    """A traced function and what to differentiate it by; `extra` are the variables of directions."""

    output: Node
    variables: list[Variable]
    as_tuple: bool
    extra: list[Variable]
    mode: str


class Built(NamedTuple):
    """Nodes to compute and how to arrange their values; `groups` are the ranks of their groups of axes."""

    roots: list[Node]
    layout: Layout
    groups: tuple[tuple[int, ...], ...] = ()
    choices: tuple[Choice, ...] = ()


Builder = Callable[[Request], Built]


def _arranged(layout: Layout, results: Sequence[Any]) -> Any:
    return results[layout] if isinstance(layout, int) else tuple(_arranged(part, results) for part in layout)


class _Entry(NamedTuple):
    """A compiled derivative for one signature.

    `casts` says for each input of the program which argument it is and what to cast it to (None: as it
    is); it is None itself when the arguments can be passed on as they are. `storages` are given where the
    program computes the parts of structured tensors; with a `chunk` these are made dense slice by slice.
    """

    built: Built
    program: Program
    compiled: Compiled
    dtype: np.dtype[Any]
    casts: tuple[tuple[int, np.dtype[Any] | None], ...] | None
    storages: tuple[Storage, ...] | None
    chunk: int | None = None

    def run(self, values: Sequence[Any]) -> Any:
        if self.casts is not None:
            values = [values[k] if dtype is None else np.asarray(values[k], dtype) for k, dtype in self.casts]
        results: Sequence[Any] = self.compiled.function(*values)
        if self.storages is not None:
            results = _structured(self.storages, self.built.groups, results, self.dtype)
            if self.chunk is not None:
                results = [tensor.dense(chunk=self.chunk) for tensor in results]
        return _arranged(self.built.layout, results)


def _structured(
    storages: Sequence[Storage],
    groups: Sequence[tuple[int, ...]],
    results: Sequence[np.ndarray],
    dtype: np.dtype[Any],
) -> list[Structured]:
    tensors = []
    start = 0  # each tensor takes as many results as it has parts
    for (node, names, _), ranks in zip(storages, groups, strict=True):
        stop = start + len(names)
        values = {name: np.asarray(part) for name, part in zip(names, results[start:stop], strict=True)}
        tensors.append(Structured(node, values, ranks, dtype))
        start = stop
    return tensors


class Derivative:
    """A derivative of a function: call it with the arguments of the function.

    The function is traced once for each combination of shapes and dtypes; arrays it closes over are
    captured then.
    """

    def __init__(
        self, function: Callable[..., Any], build: Builder, options: Options, extra: tuple[str, ...] = ()
    ) -> None:
        self._function = function
        self._build = build
        self._options = options
        self._parameters = Parameters(function, extra)
        self._entries: dict[Any, _Entry] = {}
        self.__name__ = f"derivative of {self._parameters.function_name}"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not options:
            try:
                entry = self._entries[tuple([(a.shape, a.dtype) for a in arguments])]
            except (AttributeError, KeyError, TypeError):
                pass  # the first call of this signature, or something that is not an array
            else:
                return entry.run(arguments)
        names, values = self._parameters.match(arguments, options)
        if any(isinstance(value, Expression) for value in values):
            return self._as_expression(names, [as_node(value) for value in values])
        arrays = as_arrays(names, values)
        found = self._entry(names, arrays, by_name=bool(options))
        if found is None:
            return self._as_expression(names, [as_node(array) for array in arrays.values])
        return found.run(arrays.values)

    def _entry(self, names: tuple[str, ...], arrays: Arrays, by_name: bool) -> _Entry | None:
        """The compiled derivative, or None if it depends on variables of a trace around it."""
        key = (names, arrays.signature) if by_name else arrays.signature
        if key not in self._entries:
            shapes, dtypes = [a.shape for a in arrays.values], [a.dtype for a in arrays.values]
            built, labels = self._built(names, shapes, dtypes)
            found = [node for node in topological(built.roots) if isinstance(node, Variable)]
            own = {*labels, *(label + INDEX_SUFFIX for label in labels)}
            if any("argument" not in node.attributes or node.name not in own for node in found):
                return None
            count = len(names) - len(self._parameters.extra)
            positions, _ = check_argnums(self._options.argnums, count, names[:count])
            variables = [labels[position] for position in positions]
            self._entries[key] = _compiled(built, labels, variables, arrays, self._options)
        return self._entries[key]

    def _built(
        self, names: tuple[str, ...], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]]
    ) -> tuple[Built, tuple[str, ...]]:
        """The derivative as nodes, and the names of the variables that stand for the arguments."""
        count = len(names) - len(self._parameters.extra)
        positions, as_tuple = check_argnums(self._options.argnums, count, names[:count])
        for position in positions:
            check_differentiable(names[position], dtypes[position])
        labels = nested_names(names)
        output = trace(self._function, self._parameters, names[:count], labels, shapes, dtypes)
        variables = [argument(label, shape) for label, shape in zip(labels, shapes, strict=True)]
        chosen = [variables[position] for position in positions]
        return self._build(Request(output, chosen, as_tuple, variables[count:], self._options.mode)), labels

    def _as_expression(self, names: tuple[str, ...], nodes: list[Node]) -> Any:
        """The derivative as an expression, when it is called inside a function that is being traced."""
        shapes = [tuple(map(number, node.shape)) for node in nodes]
        built, labels = self._built(names, shapes, [np.dtype(float)] * len(nodes))
        table: dict[Node, Node] = {
            argument(label, shape): node for label, shape, node in zip(labels, shapes, nodes, strict=True)
        }
        return _arranged(built.layout, [Expression(node) for node in substitute(built.roots, table)])

    def explain(self, *arguments: Any, **options: Any) -> Explanation:
        """What is computed for these arguments, and what it costs."""
        names, values = self._parameters.match(arguments, options)
        arrays = as_arrays(names, values)
        entry = self._entry(names, arrays, by_name=bool(options))
        if entry is None:
            raise ArgumentError(f"{self.__name__} depends on a trace around it and cannot be explained there")
        built = entry.built
        return Explanation(
            tuple(built.roots), entry.program, entry.compiled.source, entry.dtype, built.choices
        )

    def bind(self, **bound: Any) -> Bound:
        """The derivative with some arguments fixed: what depends on them alone is computed once.

        >>> import numpy as np, hesse
        >>> f = hesse.grad(lambda x, A: x @ (A @ A) @ x).bind(A=np.eye(2))
        >>> f(np.array([1.0, 2.0]))
        array([2., 4.])
        """
        return Bound(self, bound)


def _compiled(
    built: Built, labels: Sequence[str], variables: Sequence[str], arrays: Arrays, options: Options
) -> _Entry:
    """Plan and compile; a structured result refers to data that is no variable of it, and copies the rest."""
    dtype = arrays.dtype
    is_structured = options.form == "structured"
    chunk, storages = options.chunk, None
    if is_structured or chunk is not None:
        storages = tuple(map(stored, built.roots))
    program = make_plan(_computed(built, storages))
    if storages is None and not fits_memory(program, dtype.itemsize):
        storages = tuple(map(stored, built.roots))
        chunk = _fitting_chunk(storages, dtype) if built.groups else None
        if chunk is None:
            check_memory(program, dtype.itemsize, lambda: _structured_advice(built.roots, dtype))
        program = make_plan(_computed(built, storages))
    check_memory(program, dtype.itemsize, lambda: "")
    casts = [(k, None if array.dtype == dtype else dtype) for k, array in enumerate(arrays.values)]
    inputs = list(labels)
    read = {node.name for node in topological(_computed(built, storages)) if isinstance(node, Variable)}
    for k, label in enumerate(labels):
        if label + INDEX_SUFFIX in read:
            inputs.append(label + INDEX_SUFFIX)
            casts.append((k, None))
    as_they_are = len(inputs) == len(labels) and all(cast is None for _, cast in casts)
    shared = set(labels) - set(variables) if storages else set()
    compiled = compile_program(program, inputs, dtype, results_in_order=storages is None, shared=shared)
    return _Entry(built, program, compiled, dtype, None if as_they_are else tuple(casts), storages, chunk)


def _computed(built: Built, storages: tuple[Storage, ...] | None) -> list[Node]:
    """The nodes that the program computes: the results, or the parts of structured ones."""
    return built.roots if storages is None else [source for s in storages for source in s.sources]


def _fitting_chunk(storages: Sequence[Storage], dtype: np.dtype[Any]) -> int | None:
    """The largest chunk with which the dense results fit into memory, or None if none does."""
    kept = sum(storage.entries + math.prod(map(number, storage.node.shape)) for storage in storages)
    rows = max((number(storage.node.shape[0]) for storage in storages if storage.node.shape), default=1)
    while rows > 1:
        rows = -(-rows // 2)
        needed = kept + max(chunk_elements(storage.node, rows) for storage in storages)
        if needed * dtype.itemsize <= allowed_bytes():
            return rows
    return None


def _structured_advice(roots: Sequence[Node], dtype: np.dtype[Any]) -> str:
    kept = sum(stored(root).entries for root in roots) * dtype.itemsize
    return f"The structured form (form='structured') keeps it in {bytes_text(kept)}."


class Bound:
    """A derivative with some arguments fixed; call it with the others."""

    def __init__(self, derivative: Derivative, bound: dict[str, Any]) -> None:
        self._derivative = derivative
        known = derivative._parameters.names()
        for name in bound:
            if name not in known:
                raise ArgumentError(
                    f"{derivative.__name__} has no argument {name}; it has {', '.join(known)}"
                )
        self._bound = dict(
            zip(bound, map(np.array, as_arrays(list(bound), list(bound.values())).values), strict=True)
        )
        self._free = [name for name in known if name not in bound]
        self._entries: dict[Any, _Entry] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if len(arguments) > len(self._free):
            raise ArgumentError(f"got {len(arguments)} arguments for the free {', '.join(self._free)}")
        free = {**dict(zip(self._free, arguments, strict=False)), **options}
        names = tuple(free)
        arrays = as_arrays(names, list(free.values()))
        key = (names, arrays.signature)
        if key not in self._entries:
            self._entries[key] = self._prepared(dict(zip(names, arrays.values, strict=True)))
        return self._entries[key].run(arrays.values)

    def _prepared(self, free: dict[str, np.ndarray]) -> _Entry:
        """The entry for the free arguments, with everything that depends on bound data only computed."""
        derivative = self._derivative
        names, values = derivative._parameters.by_name({**self._bound, **free})
        arrays = as_arrays(names, values)
        whole = derivative._entry(names, arrays, by_name=True)
        if whole is None:
            raise ArgumentError(
                f"{derivative.__name__} depends on a trace around it and cannot be bound there"
            )
        casts = whole.casts or tuple((k, None) for k in range(len(names)))
        inputs = list(zip(whole.compiled.inputs, casts, strict=True))
        early = [(label, cast) for label, cast in inputs if names[cast[0]] in self._bound]
        late = [(label, cast) for label, cast in inputs if names[cast[0]] not in self._bound]
        straight = lower(flatten(_computed(whole.built, whole.storages)))
        first, second, loads = split(straight, {label for label, _ in early})
        data = [np.asarray(arrays.values[k], dtype) for _, (k, dtype) in early]
        prepared = compile_program(sliced(first), [label for label, _ in early], whole.dtype).function(*data)
        second = sliced(second)
        compiled = compile_program(
            second, [label for label, _ in late], whole.dtype, given=dict(zip(loads, prepared, strict=True))
        )
        order = tuple(free)
        places = tuple((order.index(names[k]), dtype) for _, (k, dtype) in late)
        return _Entry(whole.built, second, compiled, whole.dtype, places, whole.storages, whole.chunk)
