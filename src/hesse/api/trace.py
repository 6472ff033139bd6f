"""Calling a user's function with expressions instead of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hesse.api.arguments import Parameters
from hesse.errors import TracingError
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.operands import as_node
from hesse.frontends.tracing import assignments_explained
from hesse.ir import Node, Variable, variable
from hesse.rewrite import simplify

INDEX_SUFFIX = ":index"
"""An integer argument is read under two names: as numbers, and with this suffix as an index array."""


_depth: ContextVar[int] = ContextVar("depth", default=0)


def nested_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names for the variables of a trace: primed inside another trace, so that the two never mix."""
    return tuple(name + "'" * _depth.get() for name in names)


@contextmanager
def nested_trace() -> Iterator[None]:
    """Around user code that is called with expressions: traces inside it get names of their own."""
    token = _depth.set(_depth.get() + 1)
    try:
        with assignments_explained():
            yield
    finally:
        _depth.reset(token)


def argument(label: str, shape: tuple[int, ...], kind: str = "real") -> Variable:
    """The variable that stands for an argument; never one that a user made under the same name."""
    return variable(label, shape, ["argument"], kind)


def trace(
    function: Callable[..., Any],
    parameters: Parameters,
    names: Sequence[str],
    labels: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    kinds: Sequence[str],
) -> Node:
    """The node that a function computes for arguments of these shapes, in variables of these labels."""
    values = {}
    for name, label, shape, kind in zip(names, labels, shapes, kinds, strict=False):
        whole = kind in "iu"
        index = Index(argument(label + INDEX_SUFFIX, shape, "integer")) if whole else None
        values[name] = Expression(argument(label, shape), boolean=kind == "b", index=index)
    with nested_trace():
        result = parameters.call(function, values)
    return simplify([_output_node(result, parameters.function_name)])[0]


def _output_node(result: Any, name: str) -> Node:
    if result is None:
        raise TracingError(f"{name} returned None; return the value to differentiate")
    if isinstance(result, tuple | list | dict):
        raise TracingError(
            f"{name} returned a {type(result).__name__}; "
            "return one array (np.stack or np.concatenate join several)"
        )
    return as_node(result)
