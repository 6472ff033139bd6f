"""A function and what is asked of it: calls are taken apart, traced, and the derivative is made of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

from hesse.api.arguments import Parameters, check_argnums, check_differentiable
from hesse.api.captured import Captured
from hesse.api.entries import Builder, Built, Extra, Options, Request
from hesse.api.escapes import escape
from hesse.api.filling import with_arrays
from hesse.api.layout import Branches, Layout, arranged
from hesse.api.paths import Decision, decides, followed
from hesse.api.signature import Argument, Call, fixed_leaves, fixed_value, may_be_fixed
from hesse.api.trace import Run, argument, as_numbers, nested_names, stand_in, trace
from hesse.api.trees import leaf_names, take_apart_like, tuple_of
from hesse.backends.arrays import Arrays
from hesse.backends.target import library_of
from hesse.frontends.expression import Expression
from hesse.frontends.libraries import Input, nested, session
from hesse.frontends.memory import protect
from hesse.frontends.operands import as_node, constant
from hesse.frontends.standing_in import in_place_of, known_by_name
from hesse.frontends.tracing import deciding_as, tensors_given
from hesse.ir import Node, carried, number, shortcuts_kept, shortcuts_wanted, substitute


class Met(Exception):
    """A trace met arrays that no walk had found."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        super().__init__()
        self.arrays = arrays


class Building:
    """What turns calls of a function into the nodes of its derivative."""

    def __init__(
        self,
        function: Callable[..., Any],
        build: Builder,
        options: Options,
        extra: tuple[str, ...],
        extra_like_variables: bool,
    ) -> None:
        self.function = function
        self.build = build
        self.options = options
        self.extra = extra
        self.extra_like_variables = extra_like_variables
        self.parameters = Parameters(function, extra)
        self.needed: set[str] = set()
        """Numbers and masks whose values the function needs: they are part of the signature."""
        self.library: str | None = None
        """Whose functions the function calls, where that shows only when it is called with NumPy arrays."""
        self.is_branching = decides(function)
        self.arrays_traced = False
        """Whether the function writes traced values to arrays of its own, or indexes known ones with them."""
        self.decisions: list[Decision] = []
        """Those of the last trace."""

    def call(self, names: Sequence[str], values: Sequence[Any]) -> Call:
        """A matched call, taken apart."""
        positions, as_tuple = self.positions(names)
        count = len(names) - len(self.extra)
        chosen = set(positions)
        arguments = [
            Argument.leaf(name, value) if value is None and k not in chosen else Argument.of(name, value)
            for k, (name, value) in enumerate(zip(names[:count], values[:count], strict=True))
        ]
        for name, value in zip(names[count:], values[count:], strict=True):
            specs = [arguments[position].spec for position in positions]
            if not self.extra_like_variables:
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
        return Call(names, arguments, fixed_leaves(arguments, chosen, self.needed))

    def positions(self, names: Sequence[str]) -> tuple[tuple[int, ...], bool]:
        """The arguments to differentiate by, and whether a tuple of them was asked for."""
        if self.options.as_it_is:
            return (), True
        count = len(names) - len(self.extra)
        return check_argnums(self.options.argnums, count, names[:count])

    def known(self, call: Call, labels: Sequence[str]) -> dict[str, str]:
        """The labels and names of arrays that are traced but may become part of the signature."""
        positions, _ = self.positions(call.names)
        traced = {*positions, *range(len(call.names) - len(self.extra), len(call.names))}
        return {
            label: call.leaf_names[k]
            for label, k in zip(labels, call.positions, strict=False)  # captured ones have more labels
            if call.owners[k] not in traced and may_be_fixed(call.leaves[k])
        }

    def nodes(self, call: Call, arrays: Arrays, labels: Sequence[str], captured: Captured) -> Built:
        """The derivative as nodes; where arrays of the function would need numbers, they are traced, too."""
        with known_by_name(captured.walk.named(), captured.walk.names):
            built, self.arrays_traced = with_arrays(
                self.parameters.function_name,
                lambda: self._followed(call, arrays, labels, captured),
                self.arrays_traced,
            )
            return built

    def _followed(self, call: Call, arrays: Arrays, labels: Sequence[str], captured: Captured) -> Built:
        """The derivative as nodes; if the function may decide by values, for the path of this call."""
        if not self.is_branching:
            return self._built(call, arrays, labels, captured)
        with followed(labels, arrays) as decisions:
            built = self._built(call, arrays, labels, captured)
        self.decisions = decisions
        return built

    def _built(self, call: Call, arrays: Arrays, labels: Sequence[str], captured: Captured) -> Built:
        """The derivative as nodes."""
        chosen = set(self.positions(call.names)[0])
        leaves = [fixed_value(leaf) if k in call.fixed else leaf for k, leaf in enumerate(call.leaves)]
        stand_ins = list(map(stand_in, labels, arrays.shapes, arrays.kinds))
        for k, kind, value in zip(call.positions, arrays.kinds, arrays.values, strict=False):
            if call.owners[k] in chosen:
                check_differentiable(call.leaf_names[k], kind, value.dtype, library_of(call.leaves[k]))
        for k, expression in zip(call.positions, stand_ins, strict=False):
            leaves[k] = expression
        hidden = stand_ins[len(call.positions) :]
        for name, expression in zip(captured.names, hidden, strict=True):
            protect(expression, f"{name}, an array that is no argument of the function")
        library = None if arrays.as_numpy and self.library is None else arrays.target.name
        known = [*captured.known, *(leaves[k] for k in call.fixed)]
        known = [array for array in known if library_of(array) == library]
        opened = library and session(library, list(zip(captured.arrays, hidden, strict=True)), known)
        if not library or not opened:
            return self._requested(call, leaves, self._run(call, leaves, captured.function(hidden)))

        def called(given: Sequence[Any], read: Sequence[Any], taken: Callable[[Any], list[Any]]) -> list[Any]:
            filled = list(leaves)
            for k, one in zip(call.positions, given, strict=True):
                filled[k] = one
            return self._run(call, filled, captured.function(read))(taken)

        inputs = list(map(Input, stand_ins, arrays.values, arrays.weak))[: len(call.positions)]
        try:
            built = self._requested(
                call, leaves, lambda taken: opened.called(partial(called, taken=taken), inputs)
            )
        except Exception:
            if opened.further:
                raise Met(opened.further) from None
            if captured.is_fixed or opened.is_final:
                raise
            # A function in NumPy's language may use what tensors lack (x.size, x.astype). If it is no such
            # function, what that trace says is of no interest: the error of its own library is raised.
            with suppress(Exception), tensors_given():
                return self._requested(call, leaves, self._run(call, leaves, captured.function(hidden)))
            raise
        if opened.further:
            raise Met(opened.further)
        return built

    def _run(self, call: Call, leaves: Sequence[Any], function: Callable[..., Any]) -> Run:
        """The call of a function with leaves that are expressions or known."""
        count = len(call.names) - len(self.extra)

        def run(taken: Callable[[Any], list[Any]]) -> list[Any]:
            arguments = call.assembled(list(map(_own, leaves)))[:count]
            return taken(self.parameters.call(in_place_of(function), call.names[:count], arguments))

        return run

    @shortcuts_kept()
    def _requested(self, call: Call, leaves: Sequence[Any], run: Run) -> Built:
        """The derivative as nodes, for leaves that are expressions or known."""
        positions, as_tuple = self.positions(call.names)
        count = len(call.names) - len(self.extra)
        output, aux = trace(run, self.parameters.function_name, self.options.has_aux, self.options.as_it_is)
        if self.options.one_entry:
            output = as_numbers(output)
        starts = [0]
        for argument_given in call.arguments:
            starts.append(starts[-1] + len(argument_given.leaves))
        layouts: list[Layout] = []
        chosen: list[int] = []
        for position in positions:
            layouts.append(_layout(call.arguments[position], len(chosen)))
            chosen += range(starts[position], starts[position + 1])
        further = range(starts[count], starts[-1])
        extra = Extra(
            [call.leaf_names[k] for k in further],
            [as_node(leaves[k]) for k in further],
            _layout(call.arguments[count], 0) if self.extra else (),
        )
        request = Request(
            output,
            aux,
            [leaves[k].node for k in chosen],
            [call.leaf_names[k] for k in chosen],
            tuple(layouts) if as_tuple else layouts[0],
            extra,
            self.options.mode,
            self.options.form == "dense" and self.options.chunk is None,
        )
        built = self.build(request)
        return built._replace(escape=escape(self.build, request, built.roots))

    def as_expression(self, call: Call) -> Any:
        """The derivative as an expression, when it is called inside a function that is being traced.

        What is not differentiated by is passed on as it is.
        """
        opened = nested(call.leaves)
        chosen = set(self.positions(call.names)[0])
        labels = nested_names(call.leaf_names)
        leaves, given, table = list(call.leaves), list(call.leaves), dict[Node, Node]()
        for k, (leaf, owner) in enumerate(zip(call.leaves, call.owners, strict=True)):
            found = leaf if opened is None else opened.returned(leaf)
            if owner in chosen:
                node = as_node(found)
                point = argument(labels[k], tuple(map(number, node.shape)))
                leaves[k], table[point] = Expression(point), node
                given[k] = leaves[k] if opened is None else opened.given(leaves[k], leaf)
            elif isinstance(found, Expression):
                leaves[k] = found
            elif k not in call.fixed and not may_be_fixed(leaf):
                leaves[k] = given[k] = constant(leaf)
        run = own = self._run(call, given, self.function)
        if opened is not None:

            def run(taken: Callable[[Any], list[Any]]) -> list[Any]:
                return list(map(opened.returned, own(taken)))

        with deciding_as(lambda node: substitute([node], table)[0]), shortcuts_wanted():
            built = self._requested(call, leaves, run)
        roots = carried(built.roots, lambda roots: substitute(roots, table))
        results = [Expression(node) for node in roots]
        return arranged(built.layout, results if opened is None else list(map(opened.result, results)))


def _own(leaf: Any) -> Any:
    """An argument of a function, to which the function may write."""
    return copy(leaf) if isinstance(leaf, Expression) else leaf


def _layout(given: Argument, start: int) -> Layout:
    """The arrangement of the leaves of an argument, after `start` others."""
    if given.spec is None:
        return start
    return Branches(given.spec, tuple(range(start, start + len(given.leaves))))
