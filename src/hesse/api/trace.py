"""Calling a user's function with expressions instead of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.api.arguments import Parameters
from hesse.errors import TracingError
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.operands import as_node
from hesse.ir import Node, Variable, variable
from hesse.rewrite import simplify

INDEX_SUFFIX = ":index"
"""An integer argument is read under two names: as numbers, and with this suffix as an index array."""


class Trace(NamedTuple):
    """What a function computes, and the variables that stand for its arguments."""

    output: Node
    variables: tuple[Variable, ...]


def trace(function: Callable[..., Any], parameters: Parameters, names: Sequence[str], arrays: Sequence[np.ndarray]) -> Trace:
    """The expression that a function computes for arguments of these shapes."""
    variables = tuple(variable(name, array.shape) for name, array in zip(names, arrays, strict=True))
    values = {}
    for name, array, node in zip(names, arrays, variables, strict=True):
        whole = array.dtype.kind in "iu"
        index = Index(variable(name + INDEX_SUFFIX, array.shape, kind="integer")) if whole else None
        values[name] = Expression(node, boolean=array.dtype.kind == "b", index=index)
    result = parameters.call(function, values)
    return Trace(simplify([_output_node(result, parameters.function_name)])[0], variables)


def _output_node(result: Any, name: str) -> Node:
    if result is None:
        raise TracingError(f"{name} returned None; return the value to differentiate")
    if isinstance(result, tuple | list | dict):
        raise TracingError(
            f"{name} returned a {type(result).__name__}; return one array (np.stack or np.concatenate join several)"
        )
    return as_node(result)
