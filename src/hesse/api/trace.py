"""Calling a user's function with expressions instead of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hesse.api.arguments import Parameters
from hesse.api.layout import Branches, Fixed, Layout, Truth
from hesse.api.trees import is_container, leaf_names, take_apart
from hesse.errors import TracingError
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.libraries import Session
from hesse.frontends.operands import as_node
from hesse.frontends.tracing import assignments_explained, depth
from hesse.ir import Node, Variable, variable
from hesse.rewrite import simplify

INDEX_SUFFIX = ":index"
"""An integer argument is read under two names: as numbers, and with this suffix as an index array."""


def nested_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names for the variables of a trace: primed inside another trace, so that the two never mix."""
    return tuple(name + "'" * depth.get() for name in names)


@contextmanager
def nested_trace() -> Iterator[None]:
    """Around user code that is called with expressions: traces inside it get names of their own."""
    token = depth.set(depth.get() + 1)
    try:
        with assignments_explained():
            yield
    finally:
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


def trace(
    function: Callable[..., Any],
    parameters: Parameters,
    names: Sequence[str],
    values: Sequence[Any],
    has_aux: bool,
    plain: bool,
    session: Session | None = None,
) -> tuple[Traced, Traced | None]:
    """What a function computes for these arguments, and its further results.

    What is not to be differentiated (further results, and all results if they are `plain`) may be anything.
    The `session` is that of another library, whose function it is.
    """

    def called() -> Any:
        return parameters.call(function, names, values)

    with nested_trace():
        result = called() if session is None else session.called(called)
    returned = _itself if session is None else session.returned
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise TracingError(
                f"{parameters.function_name} must return a pair (result, aux) because has_aux=True; "
                f"it returned a {type(result).__name__}"
            )
        result, further = result
        aux = _collected(further, "aux", parameters.function_name, True, returned)
    if result is None:
        raise TracingError(f"{parameters.function_name} returned None; return the value to differentiate")
    output = _collected(result, "result", parameters.function_name, plain, returned)
    return _simplified(output, aux)


def _simplified(output: Traced, aux: Traced | None) -> tuple[Traced, Traced | None]:
    """Both, simplified together so that they share what they have in common."""
    count = len(output.nodes)
    nodes = simplify([*output.nodes, *(aux.nodes if aux else ())])
    return output._replace(nodes=nodes[:count]), aux and aux._replace(nodes=nodes[count:])


def _itself(leaf: Any) -> Any:
    return leaf


def _collected(
    result: Any, name: str, function: str, is_plain: bool, returned: Callable[[Any], Any]
) -> Traced:
    """The leaves of what a function returned."""
    nodes: list[Node] = []
    if not is_container(result):
        return Traced(nodes, _entered(returned(result), name, function, is_plain, nodes))
    leaves, spec = take_apart(result)
    names = leaf_names(name, spec)
    parts = [
        _entered(returned(leaf), leaf_name, function, is_plain, nodes)
        for leaf, leaf_name in zip(leaves, names, strict=True)
    ]
    return Traced(nodes, Branches(spec, tuple(parts)))


def _entered(leaf: Any, name: str, function: str, is_plain: bool, nodes: list[Node]) -> Layout:
    """Enter the node of a leaf; where it is."""
    if is_plain and not isinstance(leaf, Expression):
        return Fixed(leaf)
    if isinstance(leaf, str | bytes):
        raise TracingError(
            f"{name} of {function} is a {type(leaf).__name__}, which cannot be differentiated; "
            "return it as a further result with has_aux=True"
        )
    nodes.append(as_node(leaf))
    return Truth(len(nodes) - 1) if is_plain and leaf.boolean else len(nodes) - 1
