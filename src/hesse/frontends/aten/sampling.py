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
LINEAR, NEAREST = range(2)
"""How values between entries are found."""


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
    if interpolation not in (LINEAR, NEAREST):
        return NotImplemented
    batch, channels, *sizes = x.shape
    count = math.prod(grid.shape[1:-1])
    rows = np.reshape(np.moveaxis(x, 1, -1), (batch * math.prod(sizes), channels))
    begins = np.arange(batch)[:, None] * math.prod(sizes)
    places = [
        _place(np.reshape(grid[..., len(sizes) - 1 - k], (batch, count)), size, padding, align_corners)
        for k, size in enumerate(sizes)
    ]
    if interpolation == NEAREST:
        places = [np.round(place) for place in places]
    result: Any = 0.0
    for corner in itertools.product(range(2 if interpolation == LINEAR else 1), repeat=len(sizes)):
        weight, flat = np.ones(()), begins * 0
        for place, size, offset in zip(places, sizes, corner, strict=True):
            entry = np.add(np.floor(place), offset)
            is_inside = np.logical_and(np.greater_equal(entry, 0), np.less(entry, size))
            share = np.subtract(1.0, np.abs(np.subtract(place, entry)))
            weight = np.multiply(weight, np.where(is_inside, share, 0.0))
            flat = np.add(np.multiply(flat, size), np.clip(entry, 0, size - 1).astype(int))
        taken = np.reshape(rows[np.reshape(np.add(flat, begins), (batch * count,))], (batch, count, channels))
        result = np.add(result, np.multiply(taken, weight[..., None]))
    return np.moveaxis(np.reshape(result, (batch, *grid.shape[1:-1], channels)), -1, 1)


def _place(coordinate: Any, size: int, padding: int, align_corners: bool) -> Any:
    """A coordinate between -1 and 1 as a place along an axis."""
    if align_corners:
        place = np.multiply(np.add(coordinate, 1.0), (size - 1) / 2)
        low, high = 0.0, size - 1.0
    else:
        place = np.subtract(np.multiply(np.add(coordinate, 1.0), size / 2), 0.5)
        low, high = -0.5, size - 0.5
    if padding == REFLECTION and high > low:
        period = 2 * (high - low)
        beyond = np.subtract(place, low)
        turned = np.subtract(beyond, np.multiply(period, np.floor(np.divide(beyond, period))))
        place = np.add(low, np.minimum(turned, np.subtract(period, turned)))
    return place if padding == ZEROS else np.clip(place, 0.0, size - 1.0)
