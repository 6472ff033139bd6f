"""Primitives that reduce axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.frontends.jaxpr.table import primitive

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_prod": np.prod,
    "reduce_and": np.all,
    "reduce_or": np.any,
}


def _register(name: str, function: Callable[..., Any]) -> None:
    @primitive(name)
    def reduce(x: Any, axes: Sequence[int], out_sharding: Any = None) -> Any:
        return function(x, axis=tuple(axes)) if axes else x


for _name, _function in REDUCTIONS.items():
    _register(_name, _function)


def _of_nothing(name: str, function: Callable[..., Any], start: float) -> None:
    """As in JAX, the largest of no entries is the least number that there is."""

    @primitive(name)
    def reduce(x: Any, axes: Sequence[int], out_sharding: Any = None) -> Any:
        kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
        is_empty = any(x.shape[axis] == 0 for axis in axes)
        return np.full(kept, start) if is_empty else function(x, axis=tuple(axes)) if axes else x


_of_nothing("reduce_max", np.max, -math.inf)
_of_nothing("reduce_min", np.min, math.inf)


@primitive("argmax")
def argmax(x: Any, axes: Sequence[int], index_dtype: Any) -> Any:
    """Where the largest entry is along an axis."""
    return np.argmax(x, axis=axes[0])


@primitive("argmin")
def argmin(x: Any, axes: Sequence[int], index_dtype: Any) -> Any:
    """Where the smallest entry is along an axis."""
    return np.argmin(x, axis=axes[0])
