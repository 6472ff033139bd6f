"""Activation functions of ATen, with PyTorch's derivatives at kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hesse.frontends import special
from hesse.frontends.aten.table import Typed, aten, enter
from hesse.frontends.ufuncs import elementwise

EXACT_THRESHOLD = 20.0
"""From here on `softplus(x)` is `x` for PyTorch, and to single precision."""


@aten("gelu")
def gelu(x: Any, approximate: str = "none") -> Any:
    """`x` times the normal distribution function, exactly or by tanh."""
    return elementwise("gelu" if approximate == "none" else "gelu_tanh", x)


@aten("softplus")
def softplus(x: Any, beta: float = 1, threshold: float = EXACT_THRESHOLD) -> Any:
    """`log(1 + exp(beta x)) / beta`; `x` itself above a threshold that is lower than PyTorch's own."""
    scaled = x if beta == 1 else np.multiply(x, beta)
    smooth: Any = elementwise("softplus", scaled)
    smooth = smooth if beta == 1 else np.divide(smooth, beta)
    return smooth if threshold >= EXACT_THRESHOLD else np.where(np.greater(scaled, threshold), x, smooth)


@aten("log_sigmoid")
def log_sigmoid(x: Any) -> Any:
    """`-log(1 + exp(-x))`."""
    return np.negative(elementwise("softplus", np.negative(x)))


@aten("mish")
def mish(x: Any) -> Any:
    """`x tanh(softplus(x))`."""
    return np.multiply(x, np.tanh(elementwise("softplus", x)))


@aten("glu")
def glu(x: Any, dim: int = -1) -> Any:
    """The first half along an axis times the sigmoid of the second."""
    value, gate = np.split(x, 2, dim)
    return np.multiply(value, elementwise("sigmoid", gate))


@aten("elu")
def elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    """`x` where it is positive, else `alpha (exp(x) - 1)`."""
    if input_scale != 1:
        return NotImplemented
    return np.multiply(elementwise("elu", x, alpha), scale)


@aten("celu")
def celu(x: Any, alpha: float = 1) -> Any:
    """`x` where it is positive, else `alpha (exp(x / alpha) - 1)`."""
    return elementwise("celu", x, alpha)


@aten("leaky_relu")
def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """`x` where it is positive, else `slope x`."""
    return np.where(np.greater(x, 0.0), x, np.multiply(x, slope))


@aten("_prelu_kernel")
def prelu(x: Any, weight: Any) -> Any:
    """`x` where it is positive, else `weight x`."""
    return leaky_relu(x, weight)


@aten("rrelu")
def rrelu(
    x: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    """Outside of training a `leaky_relu` with the mean slope."""
    return leaky_relu(x, (lower + upper) / 2)


@aten("hardtanh")
def hardtanh(x: Any, low: float = -1, high: float = 1) -> Any:
    """`x` cut off at bounds, where it is flat."""
    is_low = np.less_equal(x, low)
    is_outside = np.logical_or(is_low, np.greater_equal(x, high))
    return np.where(is_outside, np.where(is_low, low, high), x)


@aten("relu6")
def relu6(x: Any) -> Any:
    """`x` cut off at 0 and 6."""
    return hardtanh(x, 0.0, 6.0)


@aten("hardsigmoid")
def hardsigmoid(x: Any) -> Any:
    """The line from 0 at -3 to 1 at 3."""
    return np.add(np.divide(hardtanh(x, -3.0, 3.0), 6.0), 0.5)


@aten("hardswish")
def hardswish(x: Any) -> Any:
    """`x hardsigmoid(x)`, which is 0 below -3 and `x` above 3."""
    curve = np.divide(np.multiply(x, np.add(x, 3.0)), 6.0)
    return np.where(np.less_equal(x, -3.0), 0.0, np.where(np.greater_equal(x, 3.0), x, curve))


@aten("hardshrink")
def hardshrink(x: Any, lambd: float = 0.5) -> Any:
    """`x`, and 0 where it is small."""
    return np.where(np.less_equal(np.abs(x), lambd), 0.0, x)


@aten("softshrink")
def softshrink(x: Any, lambd: float = 0.5) -> Any:
    """`x` moved towards 0, and 0 where it is small."""
    moved = np.subtract(x, np.multiply(np.sign(x), lambd))
    return np.where(np.less_equal(np.abs(x), lambd), 0.0, moved)


@aten("threshold")
def threshold(x: Any, threshold: float, value: float) -> Any:
    """`x` above a threshold, else a value."""
    return np.where(np.less_equal(x, threshold), value, x)


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of a function of one axis; a tensor without axes is one entry."""

    def handler(x: Any, dim: int, dtype: Any = None) -> Any:
        result = function(x, dim) if x.ndim else np.reshape(function(np.reshape(x, (1,)), 0), ())
        return Typed(result, dtype) if isinstance(dtype, torch.dtype) else result

    return handler


enter(["softmax.int", "_softmax"], _along(special.softmax))
enter(["log_softmax.int", "_log_softmax"], _along(special.log_softmax))
