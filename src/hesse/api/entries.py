"""Compiled derivatives: what is kept for each signature, and how it is planned and run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from hesse.api.layout import Layout, arranged
from hesse.api.trace import INDEX_SUFFIX, Traced
from hesse.backends.arrays import Arrays
from hesse.backends.executable import Escape, Executable, executable
from hesse.backends.target import DType, Target, as_target, target_named
from hesse.calculus import Choice, Columns, check_mode
from hesse.errors import ArgumentError
from hesse.ir import Node, Variable, number, topological
from hesse.plan import allowed_bytes, bytes_text, called_cost
from hesse.plan.origins import Origins
from hesse.structured import Form, Storage, Structured, check_chunk, chunk_elements, stored

FORMS = ("dense", "structured")
WORTH_IT = 0.9
"""The share of the cost of a program below which another one is taken, which uses no patterns."""


@dataclass(frozen=True)
class Options:
    """What to differentiate by, and how; or to compute the function itself (`as_it_is`).

    With `one_entry` results of shape (1,), (1, 1) and so on are numbers. `is_directional` says that only
    derivatives along directions are asked for, which Taylor mode can make.
    """

    argnums: int | tuple[int, ...] = 0
    mode: str = "auto"
    form: str = "dense"
    chunk: int | None = None
    backend: str | Target | None = None
    has_aux: bool = False
    as_it_is: bool = False
    is_directional: bool = False
    one_entry: bool = False

    def __post_init__(self) -> None:
        if self.backend is not None:
            as_target(self.backend)
        if self.chunk is not None:
            check_chunk(self.chunk)
            if self.form == "structured":
                raise ArgumentError("chunk slices a dense result; a structured one has dense(chunk=...)")
        if self.form not in FORMS:
            raise ArgumentError(f"form must be one of {', '.join(map(repr, FORMS))}, not {self.form!r}")
        check_mode(self.mode, self.is_directional)


class Extra(NamedTuple):
    """The further arguments of a derivative (directions): names, nodes and structure."""

    names: list[str]
    nodes: list[Node]
    layout: Layout


class Request(NamedTuple):
    """A traced function and what to differentiate it by.

    `names` are those of the variables, `layout` their arrangement. `aux` are results that are not
    differentiated. `is_dense` says that nobody asks for the patterns of the result.
    """

    output: Traced
    aux: Traced | None
    variables: list[Variable]
    names: list[str]
    layout: Layout
    extra: Extra
    mode: str
    is_dense: bool


class Built(NamedTuple):
    """Nodes to compute and how to arrange their values.

    `groups` are the ranks of the groups of axes of those that are derivatives, which come first, and
    `variables` those by which they are derivatives, where their axes are the variables' own. `columns` makes
    them in another way, and so does `escape` where matrices are singular.
    """

    roots: list[Node]
    layout: Layout
    groups: tuple[tuple[int, ...], ...] = ()
    choices: tuple[Choice, ...] = ()
    variables: tuple[tuple[Variable, ...], ...] = ()
    columns: Callable[[], Columns | None] | None = None
    escape: Escape | None = None

    def axes_of_variables(self) -> list[Origins]:
        """For each result the variables that its axes are of."""
        found: list[Origins] = [(None,) * root.rank for root in self.roots]
        for k, variables in enumerate(self.variables):
            own = [(variable.name, axis) for variable in variables for axis in range(variable.rank)]
            found[k] = (*found[k][: self.roots[k].rank - len(own)], *own)
        doubts = () if self.escape is None else self.escape.doubts
        return found + [(None,) * doubt.rank for doubt in doubts]


Builder = Callable[[Request], Built]
Pick = Callable[[Sequence[Any]], Sequence[Any]]


class Tensors(NamedTuple):
    """Structured tensors whose parts are the first results of a program; some may have parts in common."""

    storages: tuple[Storage, ...]
    forms: tuple[tuple[Form, Pick | None], ...]
    """What each has besides its parts, and what takes these from the results; None: all results are parts."""
    part_count: int
    """So many results are parts."""
    has_numbers: bool
    """Whether a part has no axes: NumPy's programs give a number then."""
    target: Target
    chunk: int | None
    """So many entries of the first axis are made dense at a time; None: the tensors stay structured."""

    @property
    def is_one(self) -> bool:
        """Whether the results are, as they are, the parts of one tensor that stays structured."""
        is_all = len(self.forms) == 1 and self.forms[0][1] is None
        return is_all and not self.has_numbers and self.chunk is None

    def of(self, results: Sequence[Any]) -> list[Any]:
        """The tensors, and the results that are no parts of them."""
        if self.has_numbers:
            results = self.target.converted(results, [None] * len(results))
        tensors: list[Any] = [
            Structured(form, pick(results) if pick else results) for form, pick in self.forms
        ]
        if self.chunk is not None:
            tensors = [tensor.dense(chunk=self.chunk) for tensor in tensors]
        if len(results) == self.part_count:
            return tensors
        return tensors + [self.target.copied(result) for result in results[self.part_count :]]


class Entry(NamedTuple):
    """A compiled derivative for one signature.

    `casts` says for each input of the program which array it is and what to cast it to (None: as it
    is); it is None itself when the arrays can be passed on as they are. `tensors` are given where the
    program computes the parts of structured tensors.
    """

    built: Built
    executable: Executable
    casts: tuple[tuple[int, DType | None], ...] | None
    tensors: Tensors | None
    as_numpy: bool

    def run(self, values: Sequence[Any]) -> Any:
        """The results for arrays of the signature, in their places."""
        return arranged(self.built.layout, self.results(values))

    def direct(self) -> Callable[[Sequence[Any]], Any]:
        """`run` for calls that take microseconds: what it finds out each time is known here."""
        tensors, program = self.tensors, self.executable
        if self.casts is not None or self.built.layout != 0 or (tensors and not tensors.is_one):
            return self.run
        function = program.target.direct(program.compiled, self.as_numpy)
        if function is None:
            return self.run
        if tensors is None:
            return lambda values: function(*values)[0]
        ((form, _),) = tensors.forms
        return lambda values: Structured(form, function(*values))

    def results(self, values: Sequence[Any]) -> Sequence[Any]:
        """The same in a row."""
        target = self.executable.target
        if self.casts is not None:
            values = target.converted([values[k] for k, _ in self.casts], [dtype for _, dtype in self.casts])
        results = target.call(self.executable.compiled, values, self.as_numpy)
        return results if self.tensors is None else self.tensors.of(results)

    @property
    def computed(self) -> list[Node]:
        """The nodes that the program computes."""
        return _computed(self.built, None if self.tensors is None else self.tensors.storages)


class Labels(NamedTuple):
    """The names of the arrays of a call: arguments, some of which are variables, and captured ones."""

    arguments: Sequence[str]
    captured: Sequence[str]
    variables: Collection[str]

    @property
    def all(self) -> list[str]:
        """All of them, in the order of the arrays."""
        return [*self.arguments, *self.captured]


def compiled(built: Built, labels: Labels, arrays: Arrays, options: Options) -> Entry:
    """Plan and compile; a structured result refers to data that is no variable of it, and copies the rest."""
    target, itemsize = arrays.target, arrays.target.itemsize(arrays.dtype)
    chunk, storages = options.chunk, None
    if options.form == "structured" or chunk is not None:
        storages = _storages(built, target)
    found = _executable(built, labels, arrays, storages)
    if storages is None and not found.fits_memory:
        storages = _storages(built, target)
        chunk = _fitting_chunk(storages, itemsize, target) if storages else None
        if chunk is None:
            found.check_memory(lambda: _structured_advice(built.roots, itemsize))
        found = _executable(built, labels, arrays, storages)
    found.check_memory()
    places = {label: pair for label, pair in zip(labels.all, enumerate(arrays.casts), strict=True)}
    places |= {label + INDEX_SUFFIX: (k, None) for k, label in enumerate(labels.all)}
    casts = [places[name] for name in found.inputs]
    in_order = [k for k, _ in casts] == [*range(len(labels.all))]
    as_they_are = in_order and all(cast is None for _, cast in casts)  # NumPy's float64 == None
    tensors = None if storages is None else _tensors(storages, built, arrays, chunk)
    return Entry(built, found, None if as_they_are else tuple(casts), tensors, arrays.as_numpy)


def _tensors(storages: tuple[Storage, ...], built: Built, arrays: Arrays, chunk: int | None) -> Tensors:
    """The tensors of a result, of the library of the arguments."""
    target, dtype = arrays.target, arrays.dtype
    if arrays.as_numpy:
        target, dtype = target_named("numpy"), target.numpy_dtype(dtype)
    sources = _sources(storages)
    places = {source: k for k, source in enumerate(sources)}
    count = len(sources) + len(built.roots) - len(storages)
    forms = tuple(
        (
            Structured.form(s.node, s.names, ranks, dtype, target),
            _picker([places[source] for source in s.sources], count),
        )
        for s, ranks in zip(storages, built.groups, strict=True)
    )
    has_numbers = any(source.shape == () for source in sources)
    return Tensors(storages, forms, len(sources), has_numbers, target, chunk)


def _picker(places: Sequence[int], count: int) -> Pick | None:
    """What takes the results at some places, most of which are in a row; None: they are all results."""
    if [*places] == [*range(count)]:
        return None
    first = next(iter(places), 0)
    row = range(first, first + len(places))
    return itemgetter(slice(row.start, row.stop)) if [*places] == [*row] else itemgetter(*places)


def _sources(storages: Sequence[Storage]) -> list[Node]:
    """What computes the parts of some tensors; those that several have occur once."""
    return list(dict.fromkeys(source for storage in storages for source in storage.sources))


def _storages(built: Built, target: Target) -> tuple[Storage, ...]:
    largest = target.machine.largest_joined
    return tuple(stored(root, largest) for root in built.roots[: len(built.groups)])


def _executable(
    built: Built, labels: Labels, arrays: Arrays, storages: tuple[Storage, ...] | None
) -> Executable:
    """The program of the results, or of the parts of structured ones; index arrays are further inputs.

    Captured arrays that it does not read are none: they need not be brought to where it runs.
    """
    roots = _computed(built, storages)
    read = {node.name for node in topological(roots) if isinstance(node, Variable)}
    inputs = [*labels.arguments, *(label for label in labels.captured if label in read)]
    inputs += [label + INDEX_SUFFIX for label in labels.all if label + INDEX_SUFFIX in read]
    shared = set(labels.all) - set(labels.variables) if storages else set()
    if storages is not None:
        escape = None if built.escape is None else built.escape._replace(roots=None)
        return executable(roots, inputs, arrays.dtype, arrays.target, False, shared, escape=escape)
    target = arrays.target.distributing(built.axes_of_variables())
    found = executable(roots, inputs, arrays.dtype, target, escape=built.escape)
    if built.escape is not None:
        return found
    return _by_columns(built, found) or found if target is arrays.target else found


def _by_columns(built: Built, found: Executable) -> Executable | None:
    """Another program for the same results, if it is a cheaper one."""
    machine = found.target.machine
    if built.columns is None or not machine.call_cost:
        return None
    columns, cost = built.columns(), called_cost(found.program, machine)
    if columns is None or columns.least_cost > WORTH_IT * cost:
        return None
    roots = [*columns.derivatives(), *built.roots[len(columns.wanted) :]]
    other = executable(roots, found.inputs, found.dtype, found.target, meaning=built.roots)
    is_cheaper = called_cost(other.program, machine) < WORTH_IT * cost and other.fits_memory
    return other if is_cheaper else None


def _computed(built: Built, storages: tuple[Storage, ...] | None) -> list[Node]:
    """The nodes that the program computes: the results, or the parts of structured ones."""
    if storages is None:
        return built.roots
    return _sources(storages) + built.roots[len(storages) :]


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
