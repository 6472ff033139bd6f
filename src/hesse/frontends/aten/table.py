"""The table of ATen operations: by name, handlers on expressions.

A handler takes the arguments of the operation as its schema has them, tensors as expressions, and returns
expressions. It may return NotImplemented for arguments that it leaves to PyTorch's own decomposition or rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hesse.frontends.handlers import Handlers

HANDLERS = Handlers()
"""By the name of an operation ("sum"), or by that of one of its overloads ("sum.dim_IntList")."""
aten, enter = HANDLERS.register, HANDLERS.enter


class Typed(NamedTuple):
    """A result with a dtype of its own."""

    value: Any  # an expression, which NumPy's stubs take for an array
    dtype: torch.dtype


def operation_name(function: Any) -> str:
    """The name of an operation without its overload: "sum" for `aten::sum.dim_IntList`."""
    name: str = function._schema.name
    return name.removeprefix("aten::")


def handler_of(function: Any) -> Callable[..., Any] | None:
    """The handler of an overload."""
    name = operation_name(function)
    return HANDLERS.get(f"{name}.{function._overloadname}") or HANDLERS.get(name)


def mapped(change: Callable[[Any], Any], value: Any, kind: type = Tensor) -> Any:
    """The arguments of an operation with tensors changed, or others of a kind."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(mapped(change, part, kind) for part in value)
    return value


def tensors_in(value: Any, kind: type = Tensor) -> Iterator[Any]:
    """The tensors in arguments, or others of a kind."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part, kind)
    elif isinstance(value, dict):
        yield from tensors_in(tuple(value.values()), kind)
