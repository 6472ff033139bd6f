"""The object behind every derivative: traced, planned and compiled once for each signature."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hesse.api.arguments import Parameters, check_argnums, check_differentiable
from hesse.api.bound import Bound
from hesse.api.entries import Builder, Built, Entry, Extra, Options, Request, compiled, keep
from hesse.api.explain import Explanation
from hesse.api.layout import Branches, Layout, arranged, is_bare
from hesse.api.signature import (
    Argument,
    Call,
    Recipe,
    fixed_leaves,
    fixed_value,
    marks,
    may_be_fixed,
    numbered,
    recipe,
)
from hesse.api.trace import INDEX_SUFFIX, argument, nested_names, stand_in, trace
from hesse.api.trees import leaf_names, take_apart_like, tuple_of
from hesse.backends.arrays import Arrays, as_arrays
from hesse.backends.target import Target, as_target, library_of
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node, constant
from hesse.frontends.tracing import watched
from hesse.ir import Node, Variable, number, substitute, topological

SINGLE_NEEDS = 8
"""So many times a trace that needs a value is repeated with that value; then with all that may be needed."""


class Derivative:
    """A derivative of a function: call it with the arguments of the function.

    The function is traced once for each combination of shapes, dtypes, structures and plain values; arrays it
    closes over are captured then.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        build: Builder,
        options: Options,
        extra: tuple[str, ...] = (),
        extra_like_variables: bool = True,
    ) -> None:
        self._function = function
        self._build = build
        self._options = options
        self._extra = extra
        self._extra_like_variables = extra_like_variables
        self._parameters = Parameters(function, extra)
        self._entries: dict[Any, Entry] = {}
        self._fast: dict[Any, Entry] = {}
        """The entries again, by what can be read off arguments that need no conversion."""
        self._recipes: dict[Any, Recipe] = {}
        """The entries again, by marks of numbers, containers and plain values."""
        self._dispatched: dict[tuple[type, ...], Callable[..., Any]] = {}
        """Where the library finds the entry by itself: its function, by the types of the arguments."""
        self._needed: set[str] = set()
        """Numbers and masks whose values the function needs: they are part of the signature."""
        kind = "compiled" if options.as_it_is else "derivative of"
        self.__name__ = f"{kind} {self._parameters.function_name}"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not options:
            if self._dispatched:
                run = self._dispatched.get(tuple(map(type, arguments)))
                if run is not None:
                    return run(*arguments)
            if self._fast:
                try:
                    entry = self._fast[_fast_key(arguments)]
                except (AttributeError, KeyError, TypeError):
                    pass  # the first call of this signature, or something that is not an array
                else:
                    return entry.run(arguments)
        try:
            key, leaves = marks(arguments, options, bool(self._needed))
            known = self._recipes[key]
            arrays = known.arrays(leaves)
        except (LookupError, TypeError):
            pass  # the first call of this signature, or something that has to be looked at more closely
        else:
            return known.entry.run(arrays)
        return self._first_call(arguments, options)

    def _first_call(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call of a new signature, or one of which not enough can be read off."""
        names, values = self._parameters.match(arguments, options)
        call = self._call(names, values)
        if any(isinstance(leaf, Expression) for leaf in call.leaves):
            return self._as_expression(call)
        call, arrays, found = self._found(names, values, by_name=bool(options))
        if found is None:
            return self._as_expression(call)
        if not options and not call.fixed and is_bare(found.built.layout):
            if all(library_of(a) is not None for a in arguments):
                run = arrays.target.dispatched(self._run_entry)
                if run is not None:
                    self._dispatched[tuple(map(type, arguments))] = run
                    return run(*arguments)
            if all(type(a) is np.ndarray or library_of(a) is not None for a in arguments):
                keep(self._fast, _fast_key(arguments), found)
                return found.run(arrays.values)
        self._remember(arguments, options, call, found)
        return found.run(arrays.values)

    def _remember(
        self, arguments: tuple[Any, ...], options: dict[str, Any], call: Call, found: Entry
    ) -> None:
        """Keep an entry for calls that look the same."""
        try:
            key, leaves = marks(arguments, options, bool(self._needed))
        except LookupError:
            return
        _, order = self._parameters.match(*numbered(arguments, options))
        known = recipe(call, order, leaves, found)
        if known is not None:
            keep(self._recipes, key, known)

    def _run_entry(self, *arguments: Any) -> Any:
        """What a call computes, for a library that keeps its own table of signatures."""
        names, values = self._parameters.match(arguments, {})
        _, arrays, found = self._found(names, values, by_name=False)
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
        return Derivative(self._function, self._build, options, self._extra, self._extra_like_variables)

    def _call(self, names: Sequence[str], values: Sequence[Any]) -> Call:
        """A matched call, taken apart."""
        positions, as_tuple = self._positions(names)
        count = len(names) - len(self._extra)
        chosen = set(positions)
        arguments = [
            Argument.leaf(name, value) if value is None and k not in chosen else Argument.of(name, value)
            for k, (name, value) in enumerate(zip(names[:count], values[:count], strict=True))
        ]
        for name, value in zip(names[count:], values[count:], strict=True):
            specs = [arguments[position].spec for position in positions]
            if not self._extra_like_variables:
                arguments.append(Argument.of(name, value))
            elif not as_tuple and specs[0] is None:
                arguments.append(Argument.leaf(name, value))
            else:
                spec = tuple_of(specs) if as_tuple else specs[0]
                assert spec is not None
                others = ", ".join(names[position] for position in positions)
                leaves = take_apart_like(name, value, spec, f"({others})" if as_tuple else others)
                arguments.append(Argument(spec, leaves, leaf_names(name, spec)))
        chosen.update(range(count, len(arguments)))
        return Call(names, arguments, fixed_leaves(arguments, chosen, self._needed))

    def _positions(self, names: Sequence[str]) -> tuple[tuple[int, ...], bool]:
        """The arguments to differentiate by, and whether a tuple of them was asked for."""
        if self._options.as_it_is:
            return (), True
        count = len(names) - len(self._extra)
        return check_argnums(self._options.argnums, count, names[:count])

    def _found(
        self, names: Sequence[str], values: Sequence[Any], by_name: bool
    ) -> tuple[Call, Arrays, Entry | None]:
        """The call, its arrays and the compiled derivative, which is None where a trace around it matters.

        Numbers and masks are traced like all arrays. Where the function needs their values (sizes, axes,
        conditions), it is traced again, and they are part of the signature from then on.
        """
        tries = 0
        while True:
            call = self._call(names, values)
            arrays = as_arrays(call.array_names, call.arrays, self._options.backend)
            key = (call.names if by_name else None, call.key, arrays.key)
            if key in self._entries:
                return call, arrays, self._entries[key]
            labels = nested_names(call.array_names)
            known = self._known(call, labels)
            with watched({name for label in known for name in (label, label + INDEX_SUFFIX)}) as needed:
                try:
                    built = self._built(call, arrays, labels)
                except Exception:  # whatever became of the refusal to give a value, in anybody's code
                    if not needed:
                        raise
            if not needed:
                return call, arrays, self._compiled(key, built, labels, call, arrays)
            tries += 1
            asked = {name.removesuffix(INDEX_SUFFIX) for name in needed} if tries <= SINGLE_NEEDS else known
            self._needed.update(known[label] for label in asked)

    def _known(self, call: Call, labels: Sequence[str]) -> dict[str, str]:
        """The labels and names of arrays that are traced but may become part of the signature."""
        positions, _ = self._positions(call.names)
        traced = {*positions, *range(len(call.names) - len(self._extra), len(call.names))}
        return {
            label: call.leaf_names[k]
            for label, k in zip(labels, call.positions, strict=True)
            if call.owners[k] not in traced and may_be_fixed(call.leaves[k])
        }

    def _compiled(
        self, key: Hashable, built: Built, labels: Sequence[str], call: Call, arrays: Arrays
    ) -> Entry | None:
        """The entry for a key, or None if it depends on variables of a trace around it."""
        found = [node for node in topological(built.roots) if isinstance(node, Variable)]
        own = {*labels, *(label + INDEX_SUFFIX for label in labels)}
        if any("argument" not in node.attributes or node.name not in own for node in found):
            return None
        chosen = set(self._positions(call.names)[0])
        variables = [
            label for label, k in zip(labels, call.positions, strict=True) if call.owners[k] in chosen
        ]
        keep(self._entries, key, compiled(built, labels, variables, arrays, self._options))
        return self._entries[key]

    def _built(self, call: Call, arrays: Arrays, labels: Sequence[str]) -> Built:
        """The derivative as nodes."""
        chosen = set(self._positions(call.names)[0])
        leaves = [fixed_value(leaf) if k in call.fixed else leaf for k, leaf in enumerate(call.leaves)]
        kinds = zip(call.positions, labels, arrays.shapes, arrays.kinds, arrays.values, strict=True)
        for k, label, shape, kind, value in kinds:
            if call.owners[k] in chosen:
                check_differentiable(call.leaf_names[k], kind, value.dtype)
            leaves[k] = stand_in(label, shape, kind)
        return self._requested(call, leaves)

    def _requested(self, call: Call, leaves: Sequence[Any]) -> Built:
        """The derivative as nodes, for leaves that are expressions or known."""
        positions, as_tuple = self._positions(call.names)
        count = len(call.names) - len(self._extra)
        arguments = call.assembled(leaves)
        output, aux = trace(
            self._function,
            self._parameters,
            call.names[:count],
            arguments[:count],
            self._options.has_aux,
            self._options.as_it_is,
        )
        starts = [0]
        for given in call.arguments:
            starts.append(starts[-1] + len(given.leaves))
        layouts: list[Layout] = []
        chosen: list[int] = []
        for position in positions:
            layouts.append(_layout(call.arguments[position], len(chosen)))
            chosen += range(starts[position], starts[position + 1])
        further = range(starts[count], starts[-1])
        extra = Extra(
            [call.leaf_names[k] for k in further],
            [as_node(leaves[k]) for k in further],
            _layout(call.arguments[count], 0) if self._extra else (),
        )
        return self._build(
            Request(
                output,
                aux,
                [leaves[k].node for k in chosen],
                [call.leaf_names[k] for k in chosen],
                tuple(layouts) if as_tuple else layouts[0],
                extra,
                self._options.mode,
            )
        )

    def _as_expression(self, call: Call) -> Any:
        """The derivative as an expression, when it is called inside a function that is being traced.

        What is not differentiated by is passed on as it is.
        """
        chosen = set(self._positions(call.names)[0])
        labels = nested_names(call.leaf_names)
        leaves, table = list(call.leaves), dict[Node, Node]()
        for k, (leaf, owner) in enumerate(zip(call.leaves, call.owners, strict=True)):
            if owner in chosen:
                node = as_node(leaf)
                point = argument(labels[k], tuple(map(number, node.shape)))
                leaves[k], table[point] = Expression(point), node
            elif k not in call.fixed and not isinstance(leaf, Expression) and not may_be_fixed(leaf):
                leaves[k] = constant(leaf)
        built = self._requested(call, leaves)
        return arranged(built.layout, [Expression(node) for node in substitute(built.roots, table)])

    def explain(self, *arguments: Any, **options: Any) -> Explanation:
        """What is computed for these arguments, and what it costs."""
        names, values = self._parameters.match(arguments, options)
        _, _, entry = self._found(names, values, by_name=bool(options))
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


def _layout(given: Argument, start: int) -> Layout:
    """The arrangement of the leaves of an argument, after `start` others."""
    if given.spec is None:
        return start
    return Branches(given.spec, tuple(range(start, start + len(given.leaves))))


def _fast_key(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What decides about arrays; only those of JAX can be weakly typed."""
    return tuple([(type(a), a.shape, a.dtype, getattr(a, "weak_type", None)) for a in arrays])
