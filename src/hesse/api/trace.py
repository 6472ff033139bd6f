"""Calling a user's function with expressions instead of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hesse.api.layout import Branches, Fixed, Layout, Truth
from hesse.api.recurrences import with_loops
from hesse.api.trees import is_container, leaf_names, take_apart
from hesse.calculus.rolling import rolled
from hesse.errors import ArgumentError, TracingError
from hesse.frontends.complexes import Complex
from hesse.frontends.explained import explained
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.operands import as_node
from hesse.frontends.standing_in import standing_in
from hesse.frontends.tracing import depth, parts_read
from hesse.ir import Node, Variable, reshape, variable
from hesse.rewrite import simplify

if TYPE_CHECKING:
    from optree import PyTreeSpec

INDEX_SUFFIX = ":index"
"""An integer argument is read under two names: as numbers, and with this suffix as an index array."""


def nested_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names for the variables of a trace: primed inside another trace, so that the two never mix."""
    return tuple(name + "'" * depth.get() for name in names)


@contextmanager
def nested_trace() -> Iterator[None]:
    """Around user code that is called with expressions: traces inside it get names of their own."""
    token, read = depth.set(depth.get() + 1), parts_read.set({})
    try:
        with explained(), standing_in():
            yield
    finally:
        parts_read.reset(read)
        depth.reset(token)


def argument(label: str, shape: tuple[int, ...], kind: str = "real") -> Variable:
    """The variable that stands for an argument; never one that a user made under the same name."""
    return variable(label, shape, ["argument"], kind)


def stand_in(label: str, shape: tuple[int, ...], kind: str) -> Expression:
    """The expression that a function is called with instead of an array."""
    index = Index(argument(label + INDEX_SUFFIX, shape, "integer")) if kind in "iu" else None
    return Expression(argument(label, shape), boolean=kind == "b", index=index)


class Traced(NamedTuple):
    """What a function returns: the nodes of its leaves, and their arrangement."""

    nodes: list[Node]
    layout: Layout


def as_numbers(output: Traced) -> Traced:
    """The only entry of each leaf, which must have no others."""
    for node in output.nodes:
        if not set(node.shape) <= {1}:
            raise ArgumentError(
                f"one_entry=True needs a result with one entry, this one has shape {node.shape}"
            )
    return output._replace(nodes=[reshape(node, ()) for node in output.nodes])


class _Returned(NamedTuple):
    """What a function returned, taken apart: leaves, and the structure of a container."""

    name: str
    leaves: list[Any]
    spec: PyTreeSpec | None

    @classmethod
    def of(cls, name: str, result: Any) -> _Returned:
        return cls(name, *take_apart(result)) if is_container(result) else cls(name, [result], None)


Run = Callable[[Callable[[Any], list[Any]]], list[Any]]
"""Calls a function, lets what it returns be taken apart, and gives the leaves as expressions."""


def trace(run: Run, function_name: str, has_aux: bool, plain: bool) -> tuple[Traced, Traced | None]:
    """What a function computes, and its further results.

    What is not to be differentiated (further results, and all results if they are `plain`) may be anything.
    """
    parts: list[_Returned] = []

    def taken(result: Any) -> list[Any]:
        parts[:] = _parts(result, function_name, has_aux)
        return [leaf for part in parts for leaf in part.leaves]

    with nested_trace():
        leaves = run(taken)
    result, *further = parts
    count = len(result.leaves)
    output = _collected(result._replace(leaves=leaves[:count]), function_name, plain)
    aux = _collected(further[0]._replace(leaves=leaves[count:]), function_name, True) if further else None
    return _simplified(output, aux)


def _parts(result: Any, function_name: str, has_aux: bool) -> list[_Returned]:
    """The result, and the further results if there are any."""
    further = []
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise TracingError(
                f"{function_name} must return a pair (result, aux) because has_aux=True; "
                f"it returned a {type(result).__name__}"
            )
        result, aux = result
        further = [_Returned.of("aux", aux)]
    if result is None:
        raise TracingError(f"{function_name} returned None; return the value to differentiate")
    return [_Returned.of("result", result), *further]


def _simplified(output: Traced, aux: Traced | None) -> tuple[Traced, Traced | None]:
    """Both, simplified together so that they share what they have in common."""
    count = len(output.nodes)
    nodes = simplify(rolled(with_loops([*output.nodes, *(aux.nodes if aux else ())])))
    return output._replace(nodes=nodes[:count]), aux and aux._replace(nodes=nodes[count:])


def _collected(returned: _Returned, function: str, is_plain: bool) -> Traced:
    """The leaves of what a function returned, as nodes."""
    nodes: list[Node] = []
    if returned.spec is None:
        return Traced(nodes, _entered(returned.leaves[0], returned.name, function, is_plain, nodes))
    names = leaf_names(returned.name, returned.spec)
    parts = [
        _entered(leaf, name, function, is_plain, nodes)
        for leaf, name in zip(returned.leaves, names, strict=True)
    ]
    return Traced(nodes, Branches(returned.spec, tuple(parts)))


def _entered(leaf: Any, name: str, function: str, is_plain: bool, nodes: list[Node]) -> Layout:
    """Enter the node of a leaf; where it is."""
    if isinstance(leaf, np.ndarray) and leaf.dtype == object:  # traced entries
        leaf = Expression(as_node(leaf))
    if isinstance(leaf, Complex):
        raise TracingError(
            f"{name} of {function} is complex; return real numbers: z.real, z.imag, np.abs(z), np.angle(z)"
        )
    if not is_plain and isinstance(leaf, Expression) and (leaf.boolean or leaf.index is not None):
        what = "truth values" if leaf.boolean else "whole numbers"
        raise TracingError(
            f"{name} of {function} is made of {what}, which have no derivatives; return real numbers, "
            f"or 1.0 * result if zeros are what is wanted"
        )
    if is_plain and not isinstance(leaf, Expression):
        return Fixed(leaf)
    if isinstance(leaf, str | bytes):
        raise TracingError(
            f"{name} of {function} is a {type(leaf).__name__}, which cannot be differentiated; "
            "return it as a further result with has_aux=True"
        )
    nodes.append(as_node(leaf))
    return Truth(len(nodes) - 1) if is_plain and leaf.boolean else len(nodes) - 1
