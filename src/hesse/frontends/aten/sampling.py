"""Resampling of ATen: interpolation on a grid by known matrices, and at given places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from hesse.frontends.aten.table import aten, enter

ZEROS, BORDER, REFLECTION = range(3)
"""What an image is outside of its edges."""
LINEAR, NEAREST, CUBIC = range(3)
"""How values between entries are found."""
CORNERS = {LINEAR: (0, 1), NEAREST: (0,), CUBIC: (-1, 0, 1, 2)}
"""The entries that a value is found from, counted from the one before it."""
BEND = -0.75
"""The slope of cubic shares where they end."""


def _resampled(name: str, rank: int, has_corners: bool) -> Callable[..., Any]:
    """Every axis times a known matrix: what PyTorch makes of the rows of the identity."""

    def handler(x: Any, size: Sequence[int], *settings: Any) -> Any:
        corners, scales = settings[:has_corners], (*settings[has_corners:], *(None,) * rank)
        for k, count in enumerate(size):
            n = x.shape[k - rank]
            lead = (1,) * (rank - 1)
            rows = torch.eye(n, dtype=torch.float64).reshape(n, 1, *lead, n)
            with _disable_current_modes():
                found = getattr(torch.ops.aten, name)(
                    rows, [*lead, count], *corners, *[None] * (rank - 1), scales[k]
                )
            matrix = found.reshape(n, count).numpy()
            x = np.moveaxis(np.matmul(np.moveaxis(x, k - rank, -1), matrix), -1, k - rank)
        return x

    return handler


def _enter_resampling(name: str, rank: int, has_corners: bool) -> None:
    """Register both overloads, by sizes and by factors of the sizes."""
    by_size = _resampled(name, rank, has_corners)

    def by_factors(x: Any, size: Sequence[int] | None, *settings: Any) -> Any:
        factors = settings[-1] or ()
        size = size or [int(n * factor) for n, factor in zip(x.shape[-rank:], factors, strict=True)]
        return by_size(x, size, *settings[:-1], *factors)

    enter([f"{name}.default"], by_size)
    enter([f"{name}.vec"], by_factors)


for _rank, _linear in ((1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d")):
    _enter_resampling(_linear, _rank, True)
    _enter_resampling(f"upsample_nearest{_rank}d", _rank, False)
    _enter_resampling(f"_upsample_nearest_exact{_rank}d", _rank, False)
for _name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    _enter_resampling(_name, 2, True)


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sample(x: Any, grid: Any, interpolation: int, padding: int, align_corners: bool) -> Any:
    """Images at given places, the last axis of images first among coordinates."""
    batch, channels, *sizes = x.shape
    count = math.prod(grid.shape[1:-1])
    rows = np.reshape(np.moveaxis(x, 1, -1), (batch * math.prod(sizes), channels))
    begins = np.arange(batch)[:, None] * math.prod(sizes)
    edges = [_edges(size, align_corners) for size in sizes]
    places = [
        _place(np.reshape(grid[..., len(sizes) - 1 - k], (batch, count)), *low_and_high)
        for k, low_and_high in enumerate(edges)
    ]
    if interpolation != CUBIC:
        places = [_inside(place, *edge, padding) for place, edge in zip(places, edges, strict=True)]
    if interpolation == NEAREST:
        places = [np.round(place) for place in places]
    result: Any = 0.0
    for corner in itertools.product(CORNERS[interpolation], repeat=len(sizes)):
        weight, flat = np.ones(()), begins * 0
        for place, size, edge, offset in zip(places, sizes, edges, corner, strict=True):
            entry = np.add(np.floor(place), offset)
            share = _share(np.subtract(place, entry), offset, interpolation)
            if interpolation == CUBIC:
                entry = _inside(entry, *edge, padding)
            is_inside = np.logical_and(np.greater_equal(entry, 0), np.less(entry, size))
            weight = np.multiply(weight, np.where(is_inside, share, 0.0))
            flat = np.add(np.multiply(flat, size), np.clip(entry, 0, size - 1).astype(int))
        taken = np.reshape(rows[np.reshape(np.add(flat, begins), (batch * count,))], (batch, count, channels))
        result = np.add(result, np.multiply(taken, weight[..., None]))
    return np.moveaxis(np.reshape(result, (batch, *grid.shape[1:-1], channels)), -1, 1)


def _share(beyond: Any, offset: int, interpolation: int) -> Any:
    """What an entry contributes to a place so far beyond it; at an entry the next one is the neighbour."""
    if interpolation != CUBIC:
        return np.subtract(1.0, beyond) if offset <= 0 else np.add(1.0, beyond)
    distance = beyond if offset <= 0 else np.negative(beyond)
    square, cube = np.multiply(distance, distance), np.multiply(distance, np.multiply(distance, distance))
    if offset in (0, 1):
        return np.add(np.subtract(np.multiply(BEND + 2, cube), np.multiply(BEND + 3, square)), 1.0)
    outer = np.subtract(np.add(cube, np.multiply(8.0, distance)), np.add(np.multiply(5.0, square), 4.0))
    return np.multiply(BEND, outer)


def _edges(size: int, align_corners: bool) -> tuple[float, float]:
    """The places of the coordinates -1 and 1."""
    return (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)


def _place(coordinate: Any, low: float, high: float) -> Any:
    """A coordinate between -1 and 1 as a place along an axis."""
    return np.add(np.multiply(np.add(coordinate, 1.0), (high - low) / 2), low)


def _inside(place: Any, low: float, high: float, padding: int) -> Any:
    """The place inside of an image that stands for one outside."""
    if padding == REFLECTION and high > low:
        period = 2 * (high - low)
        beyond = np.subtract(place, low)
        turned = np.subtract(beyond, np.multiply(period, np.floor(np.divide(beyond, period))))
        place = np.add(low, np.minimum(turned, np.subtract(period, turned)))
    if padding == ZEROS:
        return place
    first, last = math.ceil(low), math.floor(high)
    is_between = np.logical_and(np.greater(place, first), np.less(place, last))
    return np.where(is_between, place, np.where(np.less(place, last), float(first), float(last)))
