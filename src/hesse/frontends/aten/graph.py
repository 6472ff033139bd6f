"""From a tensor to the expression that it was computed by, after the fact: the graph that autograd kept.

Each node of that graph is the derivative of an operation. The operation is called again, on expressions, with
the arguments that the node kept. Leaves are variables, and kept data are variables, too, so that two graphs
of the same form give the same expression.

What a derivative does not need is not kept: constants that are added, fill values, the operand of `exp`. A
value may therefore be known *up to a constant*. Linear operations pass such a value on. The first other one
has kept its operand, or a result that tells it, and what is missing is the difference to the known part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hesse.backends.kept import keep
from hesse.errors import ArgumentError, DifferentiationError
from hesse.frontends.aten.complexes import Apart, as_complex, complex_handler_of
from hesse.frontends.aten.graph_nodes import INVERSES, KEPT_RESULTS, PREIMAGES, ROWS, Row, node_name
from hesse.frontends.aten.graph_parts import (
    WAYS_OUT,
    Call,
    Edge,
    Unknown,
    edge_of,
    edges_in,
    edges_of,
    graph_nodes,
    has_kept_results,
    is_absent,
    mapped,
    plain_argument,
    saved_values,
    stand_in,
)
from hesse.frontends.aten.graph_special import SPECIAL
from hesse.frontends.aten.inputs import Inputs, Walked
from hesse.frontends.aten.table import Typed, handler_of
from hesse.frontends.aten.tensor import expression_of, fresh
from hesse.frontends.aten.tracer import Tracer
from hesse.frontends.complexes import Complex
from hesse.frontends.dispatch import call as call_numpy
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import number, zero

KEPT = 4096
"""So many results of operations are remembered."""

Rule = Callable[..., Any]
"""What a node computes, given by a user: a torch function of the node and of its operands."""


class Value(NamedTuple):
    """The expression of a value, or of what is known of it up to a constant (`is_shifted`)."""

    expression: Expression | Complex
    is_shifted: bool


def is_known(node: Any, rules: Mapping[str, Rule]) -> bool:
    """Whether there is a rule for a node."""
    name = node_name(node)
    return hasattr(node, "variable") or name in rules or name in ROWS or name in SPECIAL


def walked(tensor: Tensor, cuts: Sequence[Tensor] = (), rules: Mapping[str, Rule] | None = None) -> Walked:
    """The expression that a tensor was computed by; tensors that it is cut at are leaves, too."""
    return Walk(rules or {}, cuts).of(tensor)


class Walk:
    """One walk through a graph."""

    def __init__(self, rules: Mapping[str, Rule], cuts: Sequence[Tensor]) -> None:
        self._rules = rules
        self._inputs = Inputs()
        self._values: dict[Edge, Value] = {}
        self._numbers: dict[Edge, Tensor] = {}
        """Values of expressions, as far as they were needed."""
        self._calls: dict[Any, Call] = {}
        self._completed: dict[Edge, Edge] = {}
        """For values that were known up to a constant: the edge to the whole value."""
        self._cuts = {edge_of(cut): cut for cut in cuts}

    def of(self, tensor: Tensor) -> Walked:
        """The whole graph."""
        nodes = graph_nodes(tensor, tuple(self._cuts))  # keeps the nodes alive, which are keys here
        for edge, cut in self._cuts.items():
            self._enter_leaf(edge, cut)
        for node in nodes:
            if hasattr(node, "variable"):
                if Edge(node, 0) not in self._values:
                    self._enter_leaf(Edge(node, 0), node.variable)
            else:
                self._enter(node)
        root = self._value(Edge(tensor.grad_fn, tensor.output_nr))
        if root.is_shifted and any(node_name(node) in KEPT_RESULTS for node in nodes):
            self.number(Edge(tensor.grad_fn, tensor.output_nr))  # checks what was kept on the way
        dtypes = frozenset(kept.dtype for node in nodes for kept in node._input_metadata)
        return Walked(as_node(root.expression), root.is_shifted, self._inputs, dtypes)

    def _enter_leaf(self, edge: Edge, tensor: Tensor) -> None:
        self._values[edge] = Value(self._inputs.leaf(tensor), False)
        self._numbers[edge] = tensor.detach()

    def _enter(self, node: Any) -> None:
        """Add the results of a node."""
        call = self._calls[node] = self._call(node)
        results = self._applied(call)
        for k, (result, kept) in enumerate(zip(results, node._input_metadata, strict=False)):
            shape = tuple(kept.shape)
            whole = result if tuple(result.shape) == shape else call_numpy(np.broadcast_to, (result, shape))
            whole = as_complex(whole) if kept.dtype.is_complex else whole
            self._values.setdefault(Edge(node, k), Value(whole, call.is_shifted))

    # What a node computes.

    def _call(self, node: Any) -> Call:
        name = node_name(node)
        rule = self._rules.get(name)
        if rule is not None:
            edges = [self.operand(node, None, edge) for edge in edges_of(node) if edge is not None]
            is_shifted = any(self.is_shifted(edge) for edge in edges)
            return Call(functools.partial(rule, node), edges, {}, is_shifted)
        special = SPECIAL.get(name)
        if special is not None:
            return special(self, node)
        row = ROWS.get(name)
        if row is None:
            raise DifferentiationError(f"hesse does not know what {node.name()} computes. {WAYS_OUT}")
        return self.called(node, row)

    def called(self, node: Any, row: Row, /, **known: Any) -> Call:
        """The operation of a row, with some arguments known and the others from the node."""
        saved = saved_values(node)
        edges = iter(edges_of(node))
        arguments: list[Any] = []
        options: dict[str, Any] = {}
        is_shifted = False
        for argument in row.operation._schema.arguments:
            name, type_text = argument.name, str(argument.type)
            if name in known:
                value = known[name]
                _ = name in row.operands and next(edges, None)
            elif name in row.operands and "List" in type_text:
                value = [self.operand(node, None, edge) for edge in edges]
                is_shifted |= any(isinstance(part, Unknown) for part in value)
                shape = next(self.shape(part) for part in value if isinstance(part, Edge))
                value = [Unknown(shape) if isinstance(part, Unknown) else part for part in value]
            elif name in row.operands:
                value = self.operand(node, saved.get(name), next(edges, None))
            else:
                value = plain_argument(argument, saved, node)
            if isinstance(value, Unknown):
                is_shifted |= not is_absent(name, saved)
                value = stand_in(name, type_text, argument, node)
            if argument.kwarg_only:
                options[name] = value
            else:
                arguments.append(value)
        used = [edge for edge in edges_in((arguments, *options.values())) if self.is_shifted(edge)]
        return Call(row.operation, arguments, options, is_shifted or bool(used))

    def operand(self, node: Any, saved: Any, edge: Edge | None) -> Any:
        """An operand: an edge, or what was kept of a constant."""
        if edge is None:
            return Unknown(()) if saved is None else saved
        edge = self._completed.get(edge, edge)
        if not self.is_shifted(edge):
            return edge
        name = node_name(node)
        if isinstance(saved, Tensor):
            return self._complete(edge, saved.detach())
        if name in INVERSES:
            whole = INVERSES[name](node).detach()
            # one of the complex numbers with this result, which need not be that of other uses
            return self._shifted_to(edge, whole) if whole.is_complex() else self._complete(edge, whole)
        if name in PREIMAGES:
            return self._shifted_to(edge, PREIMAGES[name](node).detach())
        if name in self._rules or has_kept_results(node):
            raise DifferentiationError(
                f"a constant that was added before {node.name()} was not kept by autograd. {WAYS_OUT}"
            )
        return edge

    def _complete(self, edge: Edge, whole: Tensor) -> Edge:
        """The value of an edge with the missing constant, for all who use it from now on."""
        self._completed[edge] = self._shifted_to(edge, whole)
        return self._completed[edge]

    def _shifted_to(self, edge: Edge, whole: Tensor) -> Edge:
        """A value that differs by a constant from that of an edge."""
        missing = self._inputs.hidden(whole - self.number(edge))
        new = Edge(object(), 0)
        self._values[new] = Value(call_numpy(np.add, (self._values[edge].expression, missing)), False)
        self._numbers[new] = whole
        return new

    def _value(self, edge: Edge) -> Value:
        """A result of a node."""
        if edge not in self._values:
            raise DifferentiationError(
                f"hesse does not know result {edge.number} of {edge.node.name()}. {WAYS_OUT}"
            )
        return self._values[edge]

    def is_shifted(self, edge: Edge) -> bool:
        """Whether a value is known up to a constant only."""
        return self._value(edge).is_shifted

    def shape(self, edge: Edge) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(map(number, self._values[edge].expression.shape))

    def inner(self, call: Call) -> Edge:
        """The result of an operation inside of a node."""
        edge = Edge(object(), 0)
        self._calls[edge.node] = call
        (result,) = self._applied(call)
        self._values[edge] = Value(result, call.is_shifted)
        return edge

    # Calling operations on expressions, and on numbers.

    def _applied(self, call: Call) -> list[Expression | Complex]:
        """The results of an operation as expressions; remembered, as graphs of one form come again."""
        if isinstance(call.function, functools.partial):  # a user's rule may read data that are no arguments
            return self._traced(call)
        arguments = mapped(self._entered, list(call.arguments))
        options = {name: mapped(self._entered, value) for name, value in call.options.items()}
        dtypes = tuple(
            self._example(edge).dtype for edge in edges_in((call.arguments, *call.options.values()))
        )
        key = call.function, _frozen(arguments), _frozen(list(options.items())), dtypes
        found = _known.get(key)
        if found is None:
            has_pairs = any(isinstance(part, Complex) for part in _flat((arguments, *options.values())))
            handler = (complex_handler_of if has_pairs else handler_of)(call.function)
            result = NotImplemented if handler is None else handler(*arguments, **options)
            is_handled = result is not NotImplemented
            found = [_as_expression(part) for part in _parts(result)] if is_handled else self._traced(call)
            keep(_known, key, found, KEPT)
        return found

    def _entered(self, value: Any) -> Expression | Complex:
        """The expression of an edge or of data."""
        if isinstance(value, Edge):
            return self._values[value].expression
        return Expression(zero(value.shape)) if isinstance(value, Unknown) else self._inputs.hidden(value)

    def _traced(self, call: Call) -> list[Expression | Complex]:
        """The results of a function of tensors."""

        def traced(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value
            example = self._example(value)
            return fresh(self._entered(value), example.dtype, example.device)

        options = {name: mapped(traced, value) for name, value in call.options.items()}
        with Tracer((), self._inputs.hidden).active():
            result = call.function(*mapped(traced, list(call.arguments)), **options)
            return [expression_of(part) for part in _parts(result)]

    def _example(self, value: Edge | Unknown) -> Any:
        """Something with the dtype and the device of a value."""
        if isinstance(value, Unknown):
            return torch.empty(0, dtype=torch.float64)
        known = self._numbers.get(value)
        if known is not None or not hasattr(value.node, "_input_metadata"):
            return self.number(value)
        return value.node._input_metadata[value.number]

    def number(self, edge: Edge) -> Tensor:
        """The value of the expression of an edge."""
        waiting = [edge]
        while waiting:
            node = waiting[-1].node
            if waiting[-1] in self._numbers:
                waiting.pop()
                continue
            call = self._calls[node]
            missing = [
                used
                for used in edges_in((call.arguments, *call.options.values()))
                if used not in self._numbers
            ]
            if missing:
                waiting += missing
                continue
            self._compute(node, call)
        return self._numbers[edge]

    def _compute(self, node: Any, call: Call) -> None:
        beside = next(self._numbers[edge] for edge in edges_in((call.arguments, *call.options.values())))

        def found(value: Any) -> Any:
            if isinstance(value, Edge):
                return self._numbers[value]
            return beside.new_zeros(value.shape) if isinstance(value, Unknown) else value

        options = {name: mapped(found, value) for name, value in call.options.items()}
        with torch.no_grad():
            results = _parts(call.function(*mapped(found, list(call.arguments)), **options))
        if not call.is_shifted:
            _check_kept(node, results[0])
        for k, result in enumerate(results):
            if Edge(node, k) in self._values:
                self._numbers[Edge(node, k)] = result.detach().broadcast_to(self.shape(Edge(node, k)))


def _check_kept(node: Any, result: Tensor) -> None:
    """What a node kept of its result must be what it is now: autograd does not see if its operand changed."""
    kept = KEPT_RESULTS.get(node_name(node)) if hasattr(node, "_input_metadata") else None
    if kept is None:
        return
    before = saved_values(node)[kept].detach()
    scale = before.abs().nan_to_num(0.0, 0.0, 0.0).max() if before.numel() else 0.0
    is_same = (result - before).abs() <= 8 * torch.finfo(before.dtype).eps ** 0.5 * scale
    if not bool((is_same | (result == before) | (result.isnan() & before.isnan())).all()):
        raise ArgumentError(
            f"{node.name()} kept another result than the leaves give now: a leaf was changed in place after "
            "the tensor was computed (by an optimizer, or by load_state_dict). Compute the tensor again"
        )


def _parts(result: Any) -> Sequence[Any]:
    is_several = isinstance(result, tuple | list) and not isinstance(result, Typed)
    return result if is_several else (result,)


def _flat(value: Any) -> Iterator[Any]:
    """The parts of arguments."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _frozen(value: Any) -> Any:
    """Arguments as a key; a number is told from another one that is equal to it."""
    if isinstance(value, Complex):
        return _frozen(value.real), _frozen(value.imag)
    if isinstance(value, Expression):
        return value.node, value.boolean, value.is_index
    if isinstance(value, tuple | list):
        return tuple(map(_frozen, value))
    return type(value), value


_known: dict[Any, list[Expression | Complex]] = {}
"""Results of operations, by their arguments."""


def _as_expression(value: Any) -> Expression | Complex:
    if isinstance(value, Typed | Apart):
        value = value.value
    return value if isinstance(value, Expression | Complex) else Expression(as_node(value))
