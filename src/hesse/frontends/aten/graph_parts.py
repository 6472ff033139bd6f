"""Autograd's graph as it is: nodes, edges between them, and what nodes keep."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hesse.errors import ArgumentError
from hesse.frontends.aten.graph_nodes import FREE, RENAMED, ROWS, node_name

WAYS_OUT = (
    "Differentiate the function itself (hesse.derivative, hesse.hessian), compute the tensor inside of "
    "`with hesse.torch.record():`, or enter a rule for the node into Controller.index"
)
SIZES = ("_sym_sizes", "_sym_strides", "_scalar_type")
"""What nodes keep besides arguments and results."""


class Edge(NamedTuple):
    """A value in the graph: the node that it comes from, and which of its results it is."""

    node: Any
    number: int


class Unknown(NamedTuple):
    """An argument that was not kept; zero stands for it."""

    shape: tuple[int, ...]


class Call(NamedTuple):
    """An operation and its arguments, in which edges stand for values."""

    function: Any
    arguments: Sequence[Any]
    options: Mapping[str, Any]
    is_shifted: bool
    """Whether a constant must be added to the result that nobody knows."""


def edge_of(tensor: Tensor) -> Edge:
    """The edge to the node of a tensor; that of a leaf accumulates its gradient."""
    if tensor.grad_fn is not None:
        return Edge(tensor.grad_fn, tensor.output_nr)
    return Edge(torch.autograd.graph.get_gradient_edge(tensor).node, 0)


def edges_of(node: Any) -> list[Edge | None]:
    """The edges to the operands of a node, None for constants."""
    return [None if following is None else Edge(following, k) for following, k in node.next_functions]


def graph_nodes(tensor: Tensor, cuts: Sequence[Edge] = ()) -> list[Any]:
    """The nodes of the graph of a tensor, operands first; nothing behind the `cuts`."""
    order: dict[Any, None] = {}
    waiting: list[tuple[Any, bool]] = [(tensor.grad_fn, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            order[node] = None
        elif node not in order:
            waiting.append((node, True))
            waiting += [
                (edge.node, False)
                for edge in reversed(edges_of(node))
                if edge is not None and edge not in cuts and edge.node not in order
            ]
    return list(order)


@functools.cache
def _saved_names(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_saved_") and not name.endswith(SIZES))


def saved_values(node: Any) -> dict[str, Any]:
    """What a node keeps, by the names of arguments and results; reading it checks that it is still there."""
    try:
        return {
            name.removeprefix("_saved_"): _signed(getattr(node, name))
            for name in _saved_names(node.__class__)
        }
    except RuntimeError as error:
        text = str(error)
        if "second time" in text or "freed" in text:
            raise ArgumentError(
                f"the graph was freed: {node.name()} has lost what it kept. Call hesse.torch.backward before "
                "tensor.backward(), or tensor.backward(retain_graph=True)"
            ) from None
        if "modified by an inplace operation" in text:
            raise ArgumentError(
                f"a tensor that {node.name()} kept was changed in place afterwards, so that the graph no "
                "longer says what was computed. Change a copy (x = x + 1 instead of x += 1), or compute the "
                "tensor again"
            ) from None
        raise


def _signed(value: Any) -> Any:
    """Negative axes are kept as 2**64 - k."""
    if isinstance(value, int) and value >= 2**63:
        return value - 2**64
    if isinstance(value, tuple | list):
        return [_signed(part) for part in value]
    return value


def has_kept_results(node: Any) -> bool:
    """Whether a node keeps tensors: then its derivative depends on values."""
    return any(isinstance(value, Tensor) and value.dtype.is_floating_point for value in _results(node))


def _results(node: Any) -> Iterator[Any]:
    row = ROWS.get(node_name(node))
    arguments = () if row is None else {argument.name for argument in row.operation._schema.arguments}
    for name, value in saved_values(node).items():
        if name not in arguments:
            yield value


def plain_argument(argument: Any, saved: Mapping[str, Any], node: Any) -> Any:
    """An argument that is not differentiated by."""
    name = argument.name
    for known in (name, RENAMED.get(name, name)):
        if known in saved:
            return saved[known]
    if name in ("input_sizes", "shape", "size"):
        return list(node._input_metadata[0].shape)
    if name == "output_size":
        count = 3 if re.search("3d", node_name(node), re.IGNORECASE) else 2
        return list(node._input_metadata[0].shape)[-count:]
    return FREE[name] if name in FREE else Unknown(())


def is_absent(name: str, saved: Mapping[str, Any]) -> bool:
    """Whether an operand that has no edge is known to have been None."""
    sizes = saved.get(f"{name}_sym_sizes_opt")
    return sizes is not None and sum(sizes) == 0


def stand_in(name: str, type_text: str, argument: Any, node: Any) -> Any:
    """What an argument that was not kept is replaced by; the result differs by a constant."""
    if "Optional" in type_text:
        return None
    if "Tensor" in type_text:
        return Unknown(tuple(node._input_metadata[0].shape) if name == "self" else ())
    return argument.default_value if argument.has_default_value() else 0


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Edges, unknown arguments and tensors inside arguments changed."""
    if isinstance(value, Edge | Unknown | Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return [mapped(change, part) for part in value]
    return value


def edges_in(value: Any) -> Iterator[Edge]:
    """The edges inside arguments."""
    if isinstance(value, Edge):
        yield value
    elif isinstance(value, tuple | list) and not isinstance(value, Unknown):
        for part in value:
            yield from edges_in(part)
