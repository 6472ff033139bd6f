"""Normalisations of ATen: by mean and variance of some axes, or by those that were measured before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.aten.table import aten


def standardized(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    """`(x - mean) / sqrt(variance + epsilon)` over axes."""
    centered = np.subtract(x, np.mean(x, axes, keepdims=True))
    variance = np.mean(np.square(centered), axes, keepdims=True)
    return np.divide(centered, np.sqrt(np.add(variance, epsilon)))


def affine(x: Any, weight: Any, bias: Any) -> Any:
    """`weight x + bias`, where they are given."""
    scaled = x if weight is None else np.multiply(x, weight)
    return scaled if bias is None else np.add(scaled, bias)


def _last(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def _by_channel(value: Any, rank: int) -> Any:
    """A vector along the second axis."""
    return None if value is None else np.reshape(value, (-1, *[1] * (rank - 2)))


@aten("layer_norm")
def layer_norm(
    x: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """The last axes normalised."""
    return affine(standardized(x, _last(len(normalized_shape)), eps), weight, bias)


@aten("rms_norm")
def rms_norm(x: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """The last axes divided by the root of their mean square."""
    if eps is None:  # it depends on the dtype
        return NotImplemented
    square = np.mean(np.square(x), _last(len(normalized_shape)), keepdims=True)
    return affine(np.divide(x, np.sqrt(np.add(square, eps))), weight, None)


@aten("group_norm")
def group_norm(
    x: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    """Groups of channels normalised."""
    entries = math.prod(x.shape[1:]) // num_groups
    groups = np.reshape(x, (x.shape[0], num_groups, entries))
    result = np.reshape(standardized(groups, (-1,), eps), x.shape)
    return affine(result, _by_channel(weight, x.ndim), _by_channel(bias, x.ndim))


def _normalized(
    x: Any, axes: tuple[int, ...] | None, mean: Any, variance: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """Channels normalised over axes, or by a mean and a variance that are given."""
    if axes is not None:
        result = standardized(x, axes, eps)
    else:
        centered = np.subtract(x, _by_channel(mean, x.ndim))
        result = np.divide(centered, np.sqrt(np.add(_by_channel(variance, x.ndim), eps)))
    return affine(result, _by_channel(weight, x.ndim), _by_channel(bias, x.ndim))


@aten("batch_norm")
def batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Channels normalised over the batch; what was measured is not written back."""
    axes = (0, *range(2, x.ndim)) if training or running_mean is None else None
    return _normalized(x, axes, running_mean, running_var, weight, bias, eps)


@aten("instance_norm")
def instance_norm(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Channels of each example normalised; what was measured is not written back."""
    axes = tuple(range(2, x.ndim)) if use_input_stats else None
    return _normalized(x, axes, running_mean, running_var, weight, bias, eps)
