"""Primitives that reduce axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.frontends.jaxpr.table import primitive

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_prod": np.prod,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_and": np.all,
    "reduce_or": np.any,
}


def _register(name: str, function: Callable[..., Any]) -> None:
    @primitive(name)
    def reduce(x: Any, axes: Sequence[int], out_sharding: Any = None) -> Any:
        return function(x, axis=tuple(axes)) if axes else x


for _name, _function in REDUCTIONS.items():
    _register(_name, _function)


@primitive("argmax")
def argmax(x: Any, axes: Sequence[int], index_dtype: Any) -> Any:
    """Where the largest entry is along an axis."""
    return np.argmax(x, axis=axes[0])


@primitive("argmin")
def argmin(x: Any, axes: Sequence[int], index_dtype: Any) -> Any:
    """Where the smallest entry is along an axis."""
    return np.argmin(x, axis=axes[0])
