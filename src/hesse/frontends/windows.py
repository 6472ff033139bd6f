"""Windows over the last axes of arrays, and what is made of them: correlations, sums, maxima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import Node
from hesse.ops.structural import argmax

PLACES, OFFSETS = "xyzpq", "uvwst"


def padded(x: Any, widths: Sequence[tuple[int, int]], value: float = 0.0) -> Any:
    """The last axes with margins; a negative one cuts entries off."""
    lead = x.ndim - len(widths)
    cut = [slice(max(0, -a), size - max(0, -b)) for (a, b), size in zip(widths, x.shape[lead:], strict=True)]
    x = x[(..., *cut)]
    margins = [(max(0, a), max(0, b)) for a, b in widths]
    if not any(map(any, margins)):
        return x
    return np.pad(x, [(0, 0)] * lead + margins, constant_values=value)


def windows(x: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Any:
    """Windows over the last axes, whose entries become further axes."""
    rank = len(kernel)
    reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
    found: Any = sliding_window_view(x, reach, tuple(range(x.ndim - rank, x.ndim)))
    return found[(..., *(slice(None, None, step) for step in (*stride, *dilation)))]


def correlated(x: Any, weight: Any, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Any:
    """Windows of `x` (batch, inputs, ...) times a kernel (outputs, inputs of a group, ...)."""
    rank = weight.ndim - 2
    shape = x.shape
    x = np.reshape(x, (shape[0], groups, shape[1] // groups, *shape[2:]))
    kernel = np.reshape(weight, (groups, weight.shape[0] // groups, *weight.shape[1:]))
    seen = windows(x, weight.shape[2:], stride, dilation)
    at, inside = PLACES[:rank], OFFSETS[:rank]
    result = np.einsum(f"bgi{at}{inside},goi{inside}->bgo{at}", seen, kernel)
    return np.reshape(result, (shape[0], weight.shape[0], *result.shape[3:]))


def first_maxima(seen: Any) -> tuple[Any, Node]:
    """The maximum of each window, whose entries are the last axis, and the position of the first of them.

    A maximum is the sum over its window of what is at the first of the largest, so derivatives are windows.
    """
    is_largest, largest = first_largest(seen)
    return np.sum(np.where(is_largest, seen, 0.0), axis=-1), largest


def first_largest(seen: Any) -> tuple[Any, Node]:
    """Where the first of the largest entries is along the last axis: as a mask, and as a position."""
    largest = argmax(as_node(seen))
    position = Expression(largest, is_index=True, index=largest)
    return np.equal(position[..., None], np.arange(seen.shape[-1])), largest
