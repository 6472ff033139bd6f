"""The object behind every derivative: traced, planned and compiled once for each signature."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from hesse.api.bound import Bound
from hesse.api.building import Building, Met
from hesse.api.captured import Captured, Watch
from hesse.api.collecting import collecting_rarely
from hesse.api.dispatched import MISSING, Dispatch, Quick
from hesse.api.draws import checked
from hesse.api.entries import Builder, Built, Entry, Labels, Options, compiled
from hesse.api.explain import Explanation
from hesse.api.layout import is_bare
from hesse.api.paths import Path, conditions_of, taken
from hesse.api.signature import (
    Call,
    Recipe,
    marks,
    numbered,
    recipe,
)
from hesse.api.trace import INDEX_SUFFIX, nested_names
from hesse.backends.arrays import Arrays, as_arrays
from hesse.backends.kept import KEPT, keep
from hesse.backends.target import Target, as_target, library_of, quick_key
from hesse.errors import ArgumentError, TracingError
from hesse.frontends.explained import mixed
from hesse.frontends.expression import Expression
from hesse.frontends.libraries import refused_by, traced_expression
from hesse.frontends.tracing import computing_in, watched
from hesse.ir import Variable, topological

SINGLE_NEEDS = 8
"""So many times a trace that needs a value is repeated with that value; then with all that may be needed."""


@dataclass
class Attempts:
    """Traces of one call that were not enough."""

    count: int = 0
    fixed: set[str] = field(default_factory=set)
    """Captured arrays that were made constants because a trace failed."""


class Tables:
    """What a derivative keeps for all that its function reads besides its arguments, but the arrays."""

    def __init__(self) -> None:
        self.entries: dict[Any, Entry] = {}
        self.fast: dict[Any, Callable[[Sequence[Any]], Any]] = {}
        """What runs the entries, by what can be read off arguments that need no conversion."""
        self.recipes: dict[Any, Recipe] = {}
        """The entries again, by marks of numbers, containers and plain values."""
        self.dispatch = Dispatch()
        """Where the library finds the entry by itself."""
        self.paths: dict[Any, list[Path]] = {}
        """For functions that decide by values, in place of entries."""
        self.fast_paths: dict[Any, list[Path]] = {}


class Derivative:
    """A derivative of a function: call it with the arguments of the function.

    The function is traced once for each combination of shapes, dtypes, structures and plain values. Arrays
    that it reads besides its arguments are read at every call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        build: Builder,
        options: Options,
        extra: tuple[str, ...] = (),
        extra_like_variables: bool = True,
    ) -> None:
        self.building = Building(function, build, options, extra, extra_like_variables)
        self._is_branching = self.building.is_branching
        self._watch = Watch(function)
        self._tables: dict[Any, Tables] = {}
        """By what the function reads besides its arguments."""
        self._present: tuple[Tables, Captured] | None = None
        """Those of the last call."""
        self._quick: Quick | None = None
        """What computes calls with some arrays of a library, where the function reads no arrays besides."""
        kind = "compiled" if options.as_it_is else "derivative of"
        self.__name__ = f"{kind} {self.building.parameters.function_name}"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        quick = self._quick  # another thread may change it
        if quick is not None and not options:
            count, kind, is_same, run = quick
            for argument in arguments:  # quicker than a comparison of tuples
                if type(argument) is not kind:
                    break
            else:
                if len(arguments) == count and (is_same is None or is_same()):
                    try:
                        return run(*arguments)
                    except ValueError:
                        pass  # a trace is around it, or it is raised again
        tables, captured = self.present()
        if self._is_branching:
            entry = None if options else self._taken(tables, arguments + captured.arrays)
            if entry is None:
                with collecting_rarely:
                    return self._first_call(arguments, options)
            return entry.run(arguments + captured.arrays)
        if not options:
            result = tables.dispatch.call(arguments, captured.arrays)
            if result is not MISSING:
                return result
            if tables.fast:
                try:
                    run = tables.fast[quick_key(arguments)]
                except (AttributeError, KeyError, TypeError):
                    pass  # the first call of this signature, or something that is not an array
                else:
                    return run(arguments + captured.arrays)
        try:
            key, leaves = marks(arguments, options, bool(self.building.needed))
            known = tables.recipes[key]
            arrays = known.arrays(leaves)
        except (LookupError, TypeError):
            pass  # the first call of this signature, or something that has to be looked at more closely
        else:
            return known.entry.run([*arrays, *captured.arrays])
        with collecting_rarely:
            return self._first_call(arguments, options)

    @staticmethod
    def _taken(tables: Tables, arrays: tuple[Any, ...]) -> Entry | None:
        """The entry of the path that arrays take, if it is known what to do with such arrays."""
        try:
            paths = tables.fast_paths[quick_key(arrays)]
        except (AttributeError, KeyError, TypeError):
            return None
        return taken(paths, arrays)

    def present(self) -> tuple[Tables, Captured]:
        """What the function reads now besides its arguments, and what is kept for it."""
        known = self._present or self.look()
        is_same = known[1].is_same
        return known if is_same is None or is_same() else self.look()

    def look(self) -> tuple[Tables, Captured]:
        """The same, when something may have changed."""
        captured = self._watch.look()
        tables = self._tables.get(captured.key)
        if tables is None:
            keep(self._tables, captured.key, tables := Tables())
        self._present, self._quick = (tables, captured), None
        return self._present

    def _first_call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call of a new signature, or one of which not enough can be read off."""
        names, values = self.building.parameters.match(arguments, options)
        call = self.building.call(names, values)
        if any(isinstance(leaf, Expression) or traced_expression(leaf) is not None for leaf in call.leaves):
            return self.building.as_expression(call)
        call, arrays, found = self.found(names, values, by_name=bool(options))
        if found is None:
            return self.building.as_expression(call)
        assert self._present is not None
        tables, captured = self._present
        is_plain = not options and not call.fixed
        is_flat = is_plain and is_bare(found.built.layout)
        if self._is_branching:
            if is_flat and all(type(array) is np.ndarray for array in arguments):
                known = next(paths for paths in tables.paths.values() if paths[0].entry is found)
                keep(tables.fast_paths, quick_key(arguments + captured.arrays), known)
            return found.run(arrays.values)
        may_dispatch = is_plain and not arrays.as_numpy and arrays.target.may_be_kept(arrays.values)
        if may_dispatch and tables.dispatch.enter(self, arguments, found):
            if not captured.arrays:
                self._quick = tables.dispatch.quick(arguments, captured.is_same)
            return tables.dispatch.call(arguments, captured.arrays)
        kinds = [type(a) is np.ndarray or library_of(a) is not None for a in arguments]
        # the key does not tell weak types apart
        if is_flat and all(kinds) and not any(hasattr(a, "weak_type") for a in arguments):
            keep(tables.fast, quick_key(arguments), found.direct())
        else:
            self._remember(tables, arguments, options, call, found)
        return found.run(arrays.values)

    def _remember(
        self,
        tables: Tables,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        call: Call,
        found: Entry,
    ) -> None:
        """Keep an entry for calls that look the same."""
        try:
            key, leaves = marks(arguments, options, bool(self.building.needed))
        except LookupError:
            return
        _, order = self.building.parameters.match(*numbered(arguments, options))
        known = recipe(call, order, leaves, found)
        if known is not None:
            keep(tables.recipes, key, known)

    def compile(self, backend: str | Target = "numpy", **settings: Any) -> Derivative:
        """The same derivative, computed by a back end: "numpy", "torch" or "jax", with its settings.

        Without it the arrays of a call decide: PyTorch computes with tensors, JAX with its arrays.

        >>> import numpy as np, hesse
        >>> hesse.grad(lambda x: np.sum(x * x)).compile(backend="jax")(np.array([1.0, 2.0]))
        array([2., 4.])
        """
        options = replace(self.building.options, backend=as_target(backend).configured(**settings))
        return self._like(self.building.function, options)

    @property
    def differentiated(self) -> Callable[..., Any]:
        """The function."""
        return self.building.function

    def over(self, function: Callable[..., Any]) -> Derivative:
        """The same derivative of another function."""
        return self._like(function, self.building.options)

    def _like(self, function: Callable[..., Any], options: Options) -> Derivative:
        asked = self.building
        return Derivative(function, asked.build, options, asked.extra, asked.extra_like_variables)

    def found(
        self, names: Sequence[str], values: Sequence[Any], by_name: bool, further: Sequence[Any] | None = None
    ) -> tuple[Call, Arrays, Entry | None]:
        """The call, its arrays and the compiled derivative, which is None where a trace around it matters.

        Numbers, masks and captured arrays are traced like all arrays. Where the function needs their values
        (sizes, axes, conditions), it is traced again, and they are part of the signature from then on.
        `further` are what captured arrays are now, where they are traced by their library.
        """
        attempts = Attempts()
        while True:
            tables, captured = self._present or self.look()
            call = self.building.call(names, values)
            asked = self.building.options.backend
            in_kind = asked is None and self.building.library is not None
            own = as_arrays(call.array_names, call.arrays, asked or self.building.library, in_kind)
            if strange := captured.strangers(own):
                self._take_in(strange, captured, own)
                continue
            arrays = own.beside(captured.arrays if further is None else further)
            key = (call.names if by_name else None, call.key, arrays.key)
            entry = tables.entries.get(key) or taken(tables.paths.get(key, []), arrays.values)
            if entry is not None:
                return call, arrays, entry
            labels = nested_names([*call.array_names, *captured.labels(call.array_names)])
            built = self._traced(call, arrays, labels, captured, attempts)
            if built is not None:
                if self._watch.settle(captured):
                    tables, _ = self.look()
                return call, arrays, self._compiled(tables, key, built, labels, call, arrays)

    def _traced(
        self, call: Call, arrays: Arrays, labels: Sequence[str], captured: Captured, attempts: Attempts
    ) -> Built | None:
        """The nodes of a derivative, or None if it must be traced again with more values or other inputs."""
        known = self.building.known(call, labels)
        hidden = dict(zip(labels[len(call.positions) :], captured.names, strict=True))
        watching = [name for label in (*known, *hidden) for name in (label, label + INDEX_SUFFIX)]
        dtype = partial(arrays.target.numpy_dtype, arrays.dtype)
        with watched(watching) as needed, computing_in(dtype):
            try:
                build = partial(self.building.nodes, call, arrays, labels, captured)
                built = checked(build, captured.walk, call.leaves, self.building.parameters.function_name)
            except Met as met:
                attempts.count += 1
                self._hold(met.arrays, attempts.count)
                return None
            except Exception as error:  # whatever became of the refusal to give a value, in anybody's code
                if arrays.as_numpy and self.building.library is None:
                    self.building.library = refused_by(error)
                    if self.building.library is not None:
                        return None
                if not needed and attempts.fixed.issuperset(hidden.values()):
                    self._watch.release(attempts.fixed)
                    self._present = None
                    if (explanation := mixed(error)) is not None:
                        raise explanation from error
                    raise
                built = None
        if built is not None and not needed:
            return built
        attempts.count += 1
        if not needed:
            attempts.fixed.update(hidden.values())
        wanted = {name.removesuffix(INDEX_SUFFIX) for name in needed} or set(hidden)
        self._fix({*known, *hidden} if attempts.count > SINGLE_NEEDS else wanted, known, hidden)
        return None

    def _take_in(self, strange: Collection[str], captured: Captured, arguments: Arrays) -> None:
        """Make constants of captured arrays of another library; if they are traced, that library computes."""
        traced = captured.traced(strange)
        if not traced:
            self._watch.fix(strange)
            self.look()
        elif arguments.as_numpy and self.building.library is None and self.building.options.backend is None:
            self.building.library = traced
        else:
            raise ArgumentError(
                f"{self.building.parameters.function_name} reads {', '.join(strange)}, which JAX traces, and "
                f"is computed by {arguments.target.name}; pass arrays of JAX"
            )

    def _hold(self, arrays: Sequence[Any], tries: int) -> None:
        """Make inputs of arrays that a trace met, if it does not meet others each time."""
        if tries > SINGLE_NEEDS:
            raise TracingError(
                f"{self.building.parameters.function_name} reads other tensors each time it is called; "
                "pass them as arguments"
            ) from None
        self._watch.hold(arrays)
        self.look()

    def _fix(self, labels: Collection[str], known: Mapping[str, str], hidden: Mapping[str, str]) -> None:
        """Make arguments and captured arrays, by their labels, part of the signature."""
        self.building.needed.update(known[label] for label in labels if label in known)
        constants = [hidden[label] for label in labels if label in hidden]
        if constants:
            self._watch.fix(constants)
            self.look()

    def _compiled(
        self,
        tables: Tables,
        key: Hashable,
        built: Built,
        labels: Sequence[str],
        call: Call,
        arrays: Arrays,
    ) -> Entry | None:
        """The entry for a key, or None if it depends on variables of a trace around it."""
        found = [node for node in topological(built.roots) if isinstance(node, Variable)]
        own = {*labels, *(label + INDEX_SUFFIX for label in labels)}
        if any("argument" not in node.attributes or node.name not in own for node in found):
            return None
        chosen = set(self.building.positions(call.names)[0])
        count = len(call.positions)
        pairs = zip(labels[:count], call.positions, strict=True)
        variables = [label for label, k in pairs if call.owners[k] in chosen]
        named = Labels(labels[:count], labels[count:], variables)
        entry = compiled(built, named, arrays, self.building.options)
        if self._is_branching:
            self._keep_path(tables, key, entry, named, arrays)
        else:
            keep(tables.entries, key, entry)
        return entry

    def _keep_path(self, tables: Tables, key: Hashable, entry: Entry, labels: Labels, arrays: Arrays) -> None:
        """Keep an entry for calls that decide alike."""
        decisions, conditions = tuple(self.building.decisions), None
        if decisions:
            options = Options(backend=self.building.options.backend)
            conditions = compiled(conditions_of(decisions), labels._replace(variables=()), arrays, options)
        paths = tables.paths.setdefault(key, [])
        paths.insert(0, Path(decisions, conditions, entry))
        del paths[KEPT:]

    def explain(self, *arguments: Any, **options: Any) -> Explanation:
        """What is computed for these arguments, and what it costs."""
        names, values = self.building.parameters.match(arguments, options)
        self.present()
        _, _, entry = self.found(names, values, by_name=bool(options))
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
        if self._is_branching:
            raise ArgumentError(
                f"{self.__name__} decides by values and cannot be bound; use functools.partial"
            )
        return Bound(self, bound)
