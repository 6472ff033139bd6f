"""Pools of ATen: means and maxima of windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hesse.frontends.aten.convolution import each, padded, windows
from hesse.frontends.aten.table import Typed, enter
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ops import integers
from hesse.ops.structural import argmax

Ranges = Sequence[range]
"""The places that each window reads along an axis; all are inside of it."""


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, is_ceiling: bool) -> int:
    """The number of windows along an axis; with a ceiling the last may hang over, if it begins inside."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + (stride - 1 if is_ceiling else 0)) // stride + 1
    return count - 1 if is_ceiling and (count - 1) * stride >= size + padding else count


def _adaptive(size: int, count: int) -> Ranges:
    """So many windows that together cover an axis."""
    return [range(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


# Maxima -----------------------------------------------------------------------


def _maxima(x: Expression, axes: Sequence[Ranges]) -> tuple[Expression, Typed]:
    """The first maximum of each window over the last axes, and its place among all entries of these.

    Windows are filled up to one size by repeating their first entry, which moves no maximum.
    """
    rank = len(axes)
    sizes, counts = x.shape[-rank:], tuple(len(ranges) for ranges in axes)
    table = _table(axes, sizes)
    flat = np.reshape(x, (*x.shape[:-rank], math.prod(sizes)))
    largest = argmax(as_node(flat[..., table]))
    begins = np.arange(table.shape[0]) * table.shape[1]
    chosen = integers.entries(integers.integers(table), integers.plus(largest, integers.integers(begins)))
    places = Expression(chosen, is_index=True, index=chosen)
    shape = (*x.shape[:-rank], *counts)
    values = np.reshape(np.take_along_axis(flat, places, -1), shape)
    return values, Typed(np.reshape(places, shape), torch.int64)


def _table(axes: Sequence[Ranges], sizes: Sequence[int]) -> np.ndarray:
    """For each window the places of its entries, as positions among all entries."""
    table = np.zeros((1, 1), int)
    for ranges, size in zip(axes, sizes, strict=True):
        longest = max(map(len, ranges))
        own = np.array([[*places, *[places[0]] * (longest - len(places))] for places in ranges])
        table = table[:, None, :, None] * size + own[None, :, None, :]
        table = table.reshape(table.shape[0] * table.shape[1], -1)
    return table


def _max_pool(
    rank: int,
    x: Expression,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Expression, Typed]:
    """The maximum of each window, and where it is."""
    kernel = each(kernel, rank)
    stride = each(stride, rank) if stride not in ((), []) else kernel
    axes = []
    for k, size in enumerate(x.shape[-rank:]):
        step, margin, gap = stride[k], each(padding, rank)[k], each(dilation, rank)[k]
        begins = [step * n - margin for n in range(_count(size, kernel[k], step, margin, gap, ceil_mode))]
        axes.append(
            [range(b % gap if b < 0 else b, min(size, b + gap * (kernel[k] - 1) + 1), gap) for b in begins]
        )
    return _maxima(x, axes)


def _adaptive_max_pool(rank: int, x: Expression, size: Any) -> tuple[Expression, Typed]:
    """The maxima of so many windows."""
    return _maxima(
        x, [_adaptive(n, count) for n, count in zip(x.shape[-rank:], each(size, rank), strict=True)]
    )


def _first(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    return lambda *arguments, **options: function(*arguments, **options)[0]


# Means ------------------------------------------------------------------------


def _avg_pool(
    rank: int,
    x: Expression,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window."""
    kernel = each(kernel, rank)
    stride = each(stride, rank) if stride not in ((), []) else kernel
    widths, counts = [], np.ones((), int)
    for k, size in enumerate(x.shape[-rank:]):
        margin = each(padding, rank)[k]
        begins = stride[k] * np.arange(_count(size, kernel[k], stride[k], margin, 1, ceil_mode)) - margin
        low, high = (-margin, size + margin) if count_include_pad else (0, size)
        own = np.minimum(begins + kernel[k], high) - np.maximum(begins, low)
        counts = np.multiply.outer(counts, own)
        widths.append((margin, max(margin, int(begins[-1]) + kernel[k] - size)))
    summed = np.sum(windows(padded(x, widths), kernel, stride, (1,) * rank), axis=tuple(range(-rank, 0)))
    if divisor_override is not None:
        return np.divide(summed, divisor_override)
    return np.divide(summed, int(counts.flat[0]) if np.ptp(counts) == 0 else counts)


def _adaptive_avg_pool(rank: int, x: Expression, size: Any) -> Any:
    """The means of so many windows."""
    for axis, count in zip(range(-rank, 0), each(size, rank), strict=True):
        n = x.shape[axis]
        x = np.moveaxis(x, axis, -1)
        if n % count == 0:
            x = np.mean(np.reshape(x, (*x.shape[:-1], count, n // count)), axis=-1)
        else:
            means = np.array([np.isin(np.arange(n), r) / len(r) for r in _adaptive(n, count)])
            x = np.matmul(x, means.T)
        x = np.moveaxis(x, -1, axis)
    return x


for _rank in (1, 2, 3):
    _pool, _own = functools.partial(_max_pool, _rank), functools.partial(_adaptive_max_pool, _rank)
    enter([f"max_pool{_rank}d"], _first(_pool))
    enter([f"max_pool{_rank}d_with_indices"], _pool)
    enter([f"adaptive_max_pool{_rank}d"], _own)
    enter([f"avg_pool{_rank}d"], functools.partial(_avg_pool, _rank))
    enter(
        [f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d"],
        functools.partial(_adaptive_avg_pool, _rank),
    )
