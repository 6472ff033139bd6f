"""The object behind every derivative: traced, planned and compiled once for each signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hesse.api.arguments import Parameters, check_argnums, check_differentiable
from hesse.api.explain import Explanation
from hesse.api.trace import INDEX_SUFFIX, argument, nested_names, trace
from hesse.backends.arrays import Arrays, as_arrays
from hesse.backends.executable import Executable, executable
from hesse.backends.target import DType, Target, as_target, library_of, target_named
from hesse.calculus import Choice, check_mode
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import Node, Variable, number, substitute, topological
from hesse.plan import allowed_bytes, bytes_text, make_plan, split
from hesse.structured import Storage, Structured, check_chunk, chunk_elements, stored

FORMS = ("dense", "structured")
KEPT_ENTRIES = 256
"""Signatures for which a derivative is kept compiled."""

Kept = TypeVar("Kept")
Layout = int | tuple["Layout", ...]
"""How results are arranged: a position in the list of results, or a tuple of layouts."""


@dataclass(frozen=True)
class Options:
    """What to differentiate by, and how."""

    argnums: int | tuple[int, ...] = 0
    mode: str = "auto"
    form: str = "dense"
    chunk: int | None = None
    backend: str | Target | None = None

    def __post_init__(self) -> None:
        if self.backend is not None:
            as_target(self.backend)
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
    is); it is None itself when the arguments can be passed on as they are. `tensors` are given where the
    program computes the parts of structured tensors; with a `chunk` these are made dense slice by slice.
    """

    built: Built
    executable: Executable
    casts: tuple[tuple[int, DType | None], ...] | None
    tensors: _Tensors | None
    chunk: int | None
    as_numpy: bool

    def run(self, values: Sequence[Any]) -> Any:
        target = self.executable.target
        if self.casts is not None:
            values = target.converted([values[k] for k, _ in self.casts], [dtype for _, dtype in self.casts])
        results = target.call(self.executable.compiled, values, self.as_numpy)
        if self.tensors is not None:
            results = self.tensors.of(results)
            if self.chunk is not None:
                results = [tensor.dense(chunk=self.chunk) for tensor in results]
        return _arranged(self.built.layout, results)


class _Tensors(NamedTuple):
    """Structured tensors whose parts are the results of a program, in a row."""

    storages: tuple[Storage, ...]
    kinds: tuple[tuple[Node, tuple[str, ...], tuple[int, ...]], ...]
    """For each tensor its expression, the names of its parts and the ranks of its groups of axes."""
    has_numbers: bool
    """Whether a part has no axes: NumPy's programs give a number then."""
    dtype: DType
    target: Target

    def of(self, results: Sequence[Any]) -> list[Structured]:
        """The tensors."""
        if self.has_numbers:
            results = self.target.converted(results, [None] * len(results))
        parts, dtype, target = iter(results), self.dtype, self.target
        return [  # each takes as many parts as it has names
            Structured(node, dict(zip(names, parts)), ranks, dtype, target)  # noqa: B905
            for node, names, ranks in self.kinds
        ]


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
        self._extra = extra
        self._parameters = Parameters(function, extra)
        self._entries: dict[Any, _Entry] = {}
        self._fast: dict[Any, _Entry] = {}
        """The entries again, by what can be read off arguments that need no conversion."""
        self._dispatched: dict[tuple[type, ...], Callable[..., Any]] = {}
        """Where the library finds the entry by itself: its function, by the types of the arguments."""
        self.__name__ = f"derivative of {self._parameters.function_name}"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not options:
            if self._dispatched:
                run = self._dispatched.get(tuple(map(type, arguments)))
                if run is not None:
                    return run(*arguments)
            try:
                entry = self._fast[_fast_key(arguments)]
            except (AttributeError, KeyError, TypeError):
                pass  # the first call of this signature, or something that is not an array
            else:
                return entry.run(arguments)
        names, values = self._parameters.match(arguments, options)
        if any(isinstance(value, Expression) for value in values):
            return self._as_expression(names, [as_node(value) for value in values])
        arrays = as_arrays(names, values, self._options.backend)
        found = self._entry(names, arrays, by_name=bool(options))
        if found is None:
            return self._as_expression(names, [as_node(array) for array in arrays.values])
        if options or not all(type(a) is np.ndarray or library_of(a) is not None for a in arguments):
            return found.run(arrays.values)
        run = None if arrays.as_numpy else arrays.target.dispatched(self._run_entry)
        if run is not None:
            self._dispatched[tuple(map(type, arguments))] = run
            return run(*arguments)
        if not any(hasattr(a, "weak_type") for a in arguments):  # the key does not tell such apart
            _keep(self._fast, _fast_key(arguments), found)
        return found.run(arrays.values)

    def _run_entry(self, *arguments: Any) -> Any:
        """What a call computes, for a library that keeps its own table of signatures."""
        names, values = self._parameters.match(arguments, {})
        arrays = as_arrays(names, values, self._options.backend)
        found = self._entry(names, arrays, by_name=False)
        if found is None:
            raise ArgumentError(f"{self.__name__} depends on a trace around it and cannot be computed there")
        return found.run(arrays.values)

    def compile(self, backend: str | Target = "numpy", **settings: Any) -> Derivative:
        """The same derivative, computed by a back end: "numpy", "torch" or "jax", with its settings.

        Without it the arrays of a call decide: PyTorch computes with tensors, JAX with its arrays.

        >>> import numpy as np, hesse
        >>> hesse.grad(lambda x: np.sum(x * x)).compile(backend="jax")(np.array([1.0, 2.0]))
        array([2., 4.])
        """
        options = replace(self._options, backend=as_target(backend).configured(**settings))
        return Derivative(self._function, self._build, options, self._extra)

    def _entry(self, names: tuple[str, ...], arrays: Arrays, by_name: bool) -> _Entry | None:
        """The compiled derivative, or None if it depends on variables of a trace around it."""
        key = (names if by_name else None, arrays.key)
        if key not in self._entries:
            dtypes = [value.dtype for value in arrays.values]
            built, labels = self._built(names, arrays.shapes, arrays.kinds, dtypes)
            found = [node for node in topological(built.roots) if isinstance(node, Variable)]
            own = {*labels, *(label + INDEX_SUFFIX for label in labels)}
            if any("argument" not in node.attributes or node.name not in own for node in found):
                return None
            count = len(names) - len(self._parameters.extra)
            positions, _ = check_argnums(self._options.argnums, count, names[:count])
            variables = [labels[position] for position in positions]
            _keep(self._entries, key, _compiled(built, labels, variables, arrays, self._options))
        return self._entries[key]

    def _built(
        self,
        names: tuple[str, ...],
        shapes: Sequence[tuple[int, ...]],
        kinds: Sequence[str],
        dtypes: Sequence[Any],
    ) -> tuple[Built, tuple[str, ...]]:
        """The derivative as nodes, and the names of the variables that stand for the arguments."""
        count = len(names) - len(self._parameters.extra)
        positions, as_tuple = check_argnums(self._options.argnums, count, names[:count])
        for position in positions:
            check_differentiable(names[position], kinds[position], dtypes[position])
        labels = nested_names(names)
        output = trace(self._function, self._parameters, names[:count], labels, shapes, kinds)
        variables = [argument(label, shape) for label, shape in zip(labels, shapes, strict=True)]
        chosen = [variables[position] for position in positions]
        return self._build(Request(output, chosen, as_tuple, variables[count:], self._options.mode)), labels

    def _as_expression(self, names: tuple[str, ...], nodes: list[Node]) -> Any:
        """The derivative as an expression, when it is called inside a function that is being traced."""
        shapes = [tuple(map(number, node.shape)) for node in nodes]
        built, labels = self._built(names, shapes, ["f"] * len(nodes), [float] * len(nodes))
        table: dict[Node, Node] = {
            argument(label, shape): node for label, shape, node in zip(labels, shapes, nodes, strict=True)
        }
        return _arranged(built.layout, [Expression(node) for node in substitute(built.roots, table)])

    def explain(self, *arguments: Any, **options: Any) -> Explanation:
        """What is computed for these arguments, and what it costs."""
        names, values = self._parameters.match(arguments, options)
        arrays = as_arrays(names, values, self._options.backend)
        entry = self._entry(names, arrays, by_name=bool(options))
        if entry is None:
            raise ArgumentError(f"{self.__name__} depends on a trace around it and cannot be explained there")
        return Explanation(tuple(entry.built.roots), entry.executable, entry.built.choices)

    def bind(self, **bound: Any) -> Bound:
        """The derivative with some arguments fixed: what depends on them alone is computed once.

        >>> import numpy as np, hesse
        >>> f = hesse.grad(lambda x, A: x @ (A @ A) @ x).bind(A=np.eye(2))
        >>> f(np.array([1.0, 2.0]))
        array([2., 4.])
        """
        return Bound(self, bound)


def _fast_key(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What decides about arrays."""
    return tuple([(type(a), a.shape, a.dtype) for a in arrays])


def _keep(entries: dict[Any, Kept], key: Any, entry: Kept) -> None:
    """Enter an entry; the oldest ones are forgotten when there are too many."""
    while len(entries) >= KEPT_ENTRIES:
        entries.pop(next(iter(entries)), None)
    entries[key] = entry


def _compiled(
    built: Built, labels: Sequence[str], variables: Sequence[str], arrays: Arrays, options: Options
) -> _Entry:
    """Plan and compile; a structured result refers to data that is no variable of it, and copies the rest."""
    target, itemsize = arrays.target, arrays.target.itemsize(arrays.dtype)
    chunk, storages = options.chunk, None
    if options.form == "structured" or chunk is not None:
        storages = tuple(map(stored, built.roots))
    found = _executable(built, labels, variables, arrays, storages)
    if storages is None and not found.fits_memory:
        storages = tuple(map(stored, built.roots))
        chunk = _fitting_chunk(storages, itemsize, target) if built.groups else None
        if chunk is None:
            found.check_memory(lambda: _structured_advice(built.roots, itemsize))
        found = _executable(built, labels, variables, arrays, storages)
    found.check_memory()
    casts = list(enumerate(arrays.casts))
    casts += [(labels.index(name.removesuffix(INDEX_SUFFIX)), None) for name in found.inputs[len(labels) :]]
    as_they_are = len(casts) == len(labels) and all(cast is None for _, cast in casts)
    tensors = None if storages is None else _tensors(storages, built, arrays)
    return _Entry(built, found, None if as_they_are else tuple(casts), tensors, chunk, arrays.as_numpy)


def _tensors(storages: tuple[Storage, ...], built: Built, arrays: Arrays) -> _Tensors:
    """The tensors of a result, of the library of the arguments."""
    target, dtype = arrays.target, arrays.dtype
    if arrays.as_numpy:
        target, dtype = target_named("numpy"), target.numpy_dtype(dtype)
    kinds = tuple((s.node, s.names, ranks) for s, ranks in zip(storages, built.groups, strict=True))
    has_numbers = any(source.shape == () for s in storages for source in s.sources)
    return _Tensors(storages, kinds, has_numbers, dtype, target)


def _executable(
    built: Built,
    labels: Sequence[str],
    variables: Sequence[str],
    arrays: Arrays,
    storages: tuple[Storage, ...] | None,
) -> Executable:
    """The program of the results, or of the parts of structured ones; index arrays are further inputs."""
    roots = _computed(built, storages)
    read = {node.name for node in topological(roots) if isinstance(node, Variable)}
    inputs = [*labels, *(label + INDEX_SUFFIX for label in labels if label + INDEX_SUFFIX in read)]
    shared = set(labels) - set(variables) if storages else set()
    return executable(roots, inputs, arrays.dtype, arrays.target, storages is None, shared)


def _computed(built: Built, storages: tuple[Storage, ...] | None) -> list[Node]:
    """The nodes that the program computes: the results, or the parts of structured ones."""
    return built.roots if storages is None else [source for s in storages for source in s.sources]


def _fitting_chunk(storages: Sequence[Storage], itemsize: int, target: Target) -> int | None:
    """The largest chunk with which the dense results fit into memory, or None if none does."""
    kept = sum(storage.entries + math.prod(map(number, storage.node.shape)) for storage in storages)
    rows = max((number(storage.node.shape[0]) for storage in storages if storage.node.shape), default=1)
    while rows > 1:
        rows = -(-rows // 2)
        needed = kept + max(chunk_elements(storage.node, rows, target) for storage in storages)
        if needed * itemsize <= allowed_bytes(target.free_bytes):
            return rows
    return None


def _structured_advice(roots: Sequence[Node], itemsize: int) -> str:
    kept = sum(stored(root).entries for root in roots) * itemsize
    return f"The structured form (form='structured') keeps it in {bytes_text(kept)}."


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
        known = derivative._parameters.names()
        for name in bound:
            if name not in known:
                raise ArgumentError(
                    f"{derivative.__name__} has no argument {name}; it has {', '.join(known)}"
                )
        arrays = as_arrays(list(bound), list(bound.values()), derivative._options.backend)
        self._bound = {
            name: value if is_weak else arrays.target.copied(array)  # numbers stay numbers
            for (name, value), array, is_weak in zip(bound.items(), arrays.values, arrays.weak, strict=True)
        }
        self._free = [name for name in known if name not in bound]
        self._entries: dict[Any, tuple[_Entry, _Early]] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if len(arguments) > len(self._free):
            raise ArgumentError(f"got {len(arguments)} arguments for the free {', '.join(self._free)}")
        free = {**dict(zip(self._free, arguments, strict=False)), **options}
        names = tuple(free)
        arrays = as_arrays(names, list(free.values()), self._derivative._options.backend)
        key = (names, arrays.key)
        if key not in self._entries:
            _keep(self._entries, key, self._prepared(free))
        entry, early = self._entries[key]
        return entry.run([*early.results(), *arrays.values])

    def _prepared(self, free: dict[str, Any]) -> tuple[_Entry, _Early]:
        """The entry for the free arguments, and what depends on bound data only: it comes first."""
        derivative = self._derivative
        names, values = derivative._parameters.by_name({**self._bound, **free})
        arrays = as_arrays(names, values, derivative._options.backend)
        whole = derivative._entry(names, arrays, by_name=True)
        if whole is None:
            raise ArgumentError(
                f"{derivative.__name__} depends on a trace around it and cannot be bound there"
            )
        runs = whole.executable
        casts = whole.casts or tuple((k, None) for k in range(len(names)))
        inputs = list(zip(runs.inputs, casts, strict=True))
        early = [(label, cast) for label, cast in inputs if names[cast[0]] in self._bound]
        late = [(label, cast) for label, cast in inputs if names[cast[0]] not in self._bound]
        storages = None if whole.tensors is None else whole.tensors.storages
        straight = make_plan(_computed(whole.built, storages), runs.target.machine)
        first, second, loads = split(straight, {label for label, _ in early})
        given, wanted = [arrays.values[k] for _, (k, _) in early], [cast for _, (_, cast) in early]
        before = Executable(first, tuple(label for label, _ in early), runs.dtype, runs.target)
        after = Executable(second, (*loads, *(label for label, _ in late)), runs.dtype, runs.target)
        order = tuple(free)
        places = [(k, None) for k in range(len(loads))]
        places += [(len(loads) + order.index(names[k]), dtype) for _, (k, dtype) in late]
        whole = whole._replace(executable=after, casts=tuple(places))
        return whole, _Early(before, given, wanted)
