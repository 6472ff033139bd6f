"""Convolutions, and windows that are summed or of which the largest entry is taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.structure import pad
from hesse.frontends.jaxpr.table import is_truth, is_whole, primitive, traced
from hesse.frontends.operands import as_node
from hesse.frontends.windows import PLACES, correlated, first_largest, first_maxima, windows
from hesse.ir import reshape
from hesse.ops import integers
from hesse.ops.structural import scatter


@primitive("conv_general_dilated")
def conv_general_dilated(
    x: Any,
    kernel: Any,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Any:
    """A kernel at all places of an image, as a correlation; the image may be spread out first."""
    numbers = dimension_numbers
    if len(window_strides) > len(PLACES):
        return NotImplemented
    image = np.transpose(traced(x), numbers.lhs_spec)
    weight = np.transpose(traced(kernel), numbers.rhs_spec)
    spread = [(low, high, step - 1) for (low, high), step in zip(padding, lhs_dilation, strict=True)]
    image = pad(image, 0.0, [(0, 0, 0), (0, 0, 0), *spread])
    groups = feature_group_count
    if batch_group_count > 1:
        groups = batch_group_count
        count, channels, *sizes = image.shape
        apart = np.reshape(image, (groups, count // groups, channels, *sizes))
        image = np.reshape(np.moveaxis(apart, 0, 1), (count // groups, groups * channels, *sizes))
    found = correlated(image, weight, tuple(window_strides), tuple(rhs_dilation), groups)
    return np.transpose(found, np.argsort(numbers.out_spec).tolist())


def _windows(
    x: Any,
    value: float,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Any:
    """Windows over all axes, whose entries become one more axis."""
    spread = [(low, high, step - 1) for (low, high), step in zip(padding, base_dilation, strict=True)]
    seen = windows(pad(x, value, spread), window_dimensions, window_strides, window_dilation)
    return np.reshape(seen, (*seen.shape[: np.ndim(x)], math.prod(window_dimensions)))


def _is_real(x: Any) -> bool:
    return not (is_whole(x) or is_truth(x))


@primitive("reduce_window_sum")
def reduce_window_sum(x: Any, **settings: Any) -> Any:
    """The sums of windows."""
    return np.sum(_windows(x, 0.0, **settings), axis=-1) if _is_real(x) else NotImplemented


@primitive("reduce_window_max")
def reduce_window_max(x: Any, **settings: Any) -> Any:
    """The maxima of windows; the first of equal ones gets the derivative."""
    return first_maxima(_windows(x, -math.inf, **settings))[0] if _is_real(x) else NotImplemented


@primitive("reduce_window_min")
def reduce_window_min(x: Any, **settings: Any) -> Any:
    """The minima of windows; the first of equal ones gets the derivative."""
    return np.negative(reduce_window_max(np.negative(x), **settings)) if _is_real(x) else NotImplemented


def _direction(select_prim: Any) -> float:
    """What turns the entries that are chosen into the largest."""
    return 1.0 if select_prim.name == "ge" else -1.0


@primitive("select_and_gather_add")
def select_and_gather_add(tangents: Any, x: Any, select_prim: Any, **settings: Any) -> Any:
    """Entries of one array where those of another are the largest of their windows."""
    seen = _windows(np.multiply(traced(x), _direction(select_prim)), -math.inf, **settings)
    return np.sum(np.where(first_largest(seen)[0], _windows(traced(tangents), 0.0, **settings), 0.0), axis=-1)


@primitive("select_and_scatter_add")
def select_and_scatter_add(
    source: Any,
    x: Any,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Any:
    """Values added up at the largest entries of windows."""
    same = (1,) * np.ndim(x)
    settings = (window_dimensions, window_strides, padding, same, same)
    _, largest = first_largest(
        _windows(np.multiply(traced(x), _direction(select_prim)), -math.inf, *settings)
    )
    sizes = [size + low + high for size, (low, high) in zip(np.shape(x), padding, strict=True)]
    grid = np.arange(math.prod(sizes)).reshape(sizes)
    table = windows(grid, window_dimensions, window_strides, same).reshape(*np.shape(source), -1)
    begins = np.arange(math.prod(np.shape(source))).reshape(np.shape(source)) * table.shape[-1]
    places = integers.entries(integers.integers(table), integers.plus(largest, integers.integers(begins)))
    whole = Expression(reshape(scatter(as_node(traced(source)), places, grid.size), tuple(sizes)))
    return pad(whole, 0.0, [(-low, -high, 0) for low, high in padding])
