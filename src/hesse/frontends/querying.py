"""What NumPy says of arrays without looking at their entries: types, indices of triangles, paths, texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.frontends.dispatch import implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, known_sizes
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import truth


def _outline(value: Any) -> Any:
    """An array without entries of its own that has the shape and the dtype of a traced value."""
    if not isinstance(value, Expression):
        return value
    return np.broadcast_to(np.zeros((), value.dtype), known_sizes("an array", value.shape))


def _of_outlines(function: Callable[..., Any]) -> Callable[..., Any]:
    def handler(*arguments: Any, **options: Any) -> Any:
        return function(*map(_outline, arguments), **options)

    return handler


for _function in (
    *(np.result_type, np.common_type, np.can_cast, np.min_scalar_type, np.einsum_path),
    *(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from),
):
    implements(_function)(_of_outlines(_function))


@implements(np.array_str, np.array_repr, np.array2string)
def array_str(a: Any, *settings: Any, **options: Any) -> str:
    """A text for messages; entries are not known."""
    return str(a)


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The values in another type."""
    return as_expression(x).astype(dtype)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Any:
    """Which values are inf."""
    return _without_out("np.isposinf", out, truth(as_expression(x) == np.inf))


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Any:
    """Which values are -inf."""
    return _without_out("np.isneginf", out, truth(as_expression(x) == -np.inf))


def _without_out(name: str, out: Any, found: Any) -> Any:
    if out is not None:
        raise untraceable(f"{name} with out=", "Assign the result.")
    return found
