"""Pools of ATen: means and maxima of windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from hesse.frontends.aten.convolution import each
from hesse.frontends.aten.table import Typed, enter
from hesse.frontends.expression import Expression
from hesse.frontends.windows import first_maxima, padded, windows
from hesse.ir import Node
from hesse.ops import integers


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, is_ceiling: bool) -> int:
    """The number of windows along an axis; with a ceiling the last may hang over, if it begins inside."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + (stride - 1 if is_ceiling else 0)) // stride + 1
    return count - 1 if is_ceiling and (count - 1) * stride >= size + padding else count


def _adaptive(size: int, count: int) -> list[range]:
    """So many windows that together cover an axis."""
    return [range(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


# Maxima -----------------------------------------------------------------------


def _maxima(x: Any, seen: Any, places: Sequence[np.ndarray]) -> tuple[Any, Typed]:
    """The first maximum of each window, and its place among all entries of the axes that are pooled.

    `seen` holds the entries of windows along its last axis; `places` says for each axis which they are.
    """
    rank = len(places)
    table = np.zeros((1, 1), int)
    for own, size in zip(places, x.shape[-rank:], strict=True):
        table = table[:, None, :, None] * size + own[None, :, None, :]
        table = table.reshape(table.shape[0] * table.shape[1], -1)
    order = integers.integers(np.arange(len(table)).reshape(seen.shape[x.ndim - rank : -1]) * table.shape[1])
    value, largest = first_maxima(seen)
    found = integers.entries(integers.integers(table), integers.plus(largest, order))
    return value, Typed(_index(found), torch.int64)


def _index(node: Node) -> Any:
    return Expression(node, is_index=True, index=node)


def _max_pool(
    rank: int,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Any, Typed]:
    """The maximum of each window, and where it is."""
    kernel, gaps, margins = each(kernel, rank), each(dilation, rank), each(padding, rank)
    stride = each(stride, rank) if stride not in ((), []) else kernel
    places, widths = [], []
    for size, width, step, margin, gap in zip(x.shape[-rank:], kernel, stride, margins, gaps, strict=True):
        begins = step * np.arange(_count(size, width, step, margin, gap, ceil_mode)) - margin
        own = begins[:, None] + gap * np.arange(width)
        widths.append((margin, max(margin, int(own[-1, -1]) + 1 - size)))
        is_inside = (own >= 0) & (own < size)
        first = np.take_along_axis(
            own, is_inside.argmax(1)[:, None], 1
        )  # what is outside is never the largest
        places.append(np.where(is_inside, own, first))
    seen = windows(padded(x, widths, -math.inf), kernel, stride, gaps)
    return _maxima(x, np.reshape(seen, (*seen.shape[:-rank], math.prod(kernel))), places)


def _adaptive_max_pool(rank: int, x: Any, size: Any) -> tuple[Any, Typed]:
    """The maxima of so many windows; those of one axis may differ by 1 in size."""
    sizes, counts = x.shape[-rank:], each(size, rank)
    if all(n % count == 0 for n, count in zip(sizes, counts, strict=True)):
        return _max_pool(rank, x, tuple(n // count for n, count in zip(sizes, counts, strict=True)))
    places = []
    for n, count in zip(sizes, counts, strict=True):
        ranges = _adaptive(n, count)
        longest = max(map(len, ranges))  # an entry more than once moves no maximum
        places.append(np.array([[*r, *[r[-1]] * (longest - len(r))] for r in ranges]))
    seen = x[(..., *np.ix_(*(own.ravel() for own in places)))]
    split = [n for own in places for n in own.shape]
    seen = np.reshape(seen, (*x.shape[:-rank], *split))
    lead = x.ndim - rank
    seen = np.moveaxis(seen, tuple(range(lead + 1, lead + 2 * rank, 2)), tuple(range(-rank, 0)))
    return _maxima(x, np.reshape(seen, (*seen.shape[:-rank], -1)), places)


def _first(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    return lambda *arguments, **options: function(*arguments, **options)[0]


# Means ------------------------------------------------------------------------


def _avg_pool(
    rank: int,
    x: Any,
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


def _adaptive_avg_pool(rank: int, x: Any, size: Any) -> Any:
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
