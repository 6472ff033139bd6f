"""PyTorch kernels of the element-wise rows: `kernel(name)` finds one, here or in PyTorch.

They follow the conventions of the NumPy kernels, are differentiable by autograd and never look at values.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from hesse.backends.kernels import Kernel, find
from hesse.backends.names import ROWS
from hesse.ops.choices import INDICATORS


def kernel(name: str) -> Kernel:
    """The function that computes the row of this name."""
    return find(name, KERNELS, "hesse.backends.torch.elementwise.KERNELS", ROWS["torch"], torch)


def _as_floats(function: Kernel) -> Kernel:
    """A function with true-or-false values, as zeros and ones of the type of the operands."""

    def computed(*operands: Any) -> Any:
        first, last = operands[0], operands[-1]
        dtype = first.dtype if first.ndim >= last.ndim else last.dtype  # a constant may have no axes
        return function(*operands).to(dtype if dtype.is_floating_point else torch.float64)

    return computed


def sign(x: Any) -> Any:
    """-1, 0 or 1, and nan of nan (where torch.sign is 0)."""
    return torch.where(torch.isnan(x), x, torch.sign(x))


def cbrt(x: Any) -> Any:
    """The real cube root."""
    return torch.copysign(torch.abs(x) ** (1.0 / 3.0), x)


def where(condition: Any, a: Any, b: Any) -> Any:
    """A choice by a condition that is true where it is not 0."""
    return torch.where(condition != 0, a, b)


def select(condition: Any, a: Any) -> Any:
    """The operand where the condition is not 0, else 0."""
    return torch.where(condition != 0, a, 0.0)


def polygamma(order: Any, x: Any) -> Any:
    """The derivative of digamma of an order 0, 1, …, which may differ from entry to entry.

    ψ_n(x) = (-1)^(n+1) n! ζ(n+1, x) for n ≥ 1; the zeta function of PyTorch also takes negative x.
    """
    order = order.to(x.dtype)
    sign = 1.0 - 2.0 * torch.remainder(order + 1.0, 2.0)
    zeta = torch.where(x == math.inf, 0.0, torch.special.zeta(order + 1.0, x))
    return torch.where(order == 0, torch.digamma(x), sign * torch.exp(torch.lgamma(order + 1.0)) * zeta)


def log_ndtr(x: Any) -> Any:
    """log(Φ(x)); that of PyTorch cannot be batched."""
    right, left = torch.clamp(x, min=-1.0), torch.clamp(x, max=-1.0)
    other = torch.log1p(-0.5 * torch.erfc(right / math.sqrt(2.0)))
    tail = torch.log(0.5 * torch.special.erfcx(left / -math.sqrt(2.0))) - 0.5 * left * left
    return torch.where(x > -1.0, other, tail)


def safe_reciprocal(x: Any) -> Any:
    """1 / x, and 0 at 0."""
    return torch.where(x == 0, 0.0, 1.0 / torch.where(x == 0, 1.0, x))


def safe_sqrt(x: Any) -> Any:
    """The root, with derivative 0 at 0."""
    return torch.where(x == 0, 0.0, torch.sqrt(torch.where(x == 0, 1.0, x)))


def stop_gradient(x: Any) -> Any:
    """The operand, cut off from autograd."""
    return x.detach()


KERNELS: dict[str, Kernel] = {
    **{name: _as_floats(getattr(torch, name)) for name in sorted(INDICATORS - {"equal"})},
    "cbrt": cbrt,
    "chosen": _as_floats(lambda condition: condition != 0),
    "equal": _as_floats(torch.eq),  # torch.equal compares whole tensors
    "log_ndtr": log_ndtr,
    "polygamma": polygamma,
    "power": torch.pow,
    "ratio": torch.div,
    "safe_reciprocal": safe_reciprocal,
    "safe_sqrt": safe_sqrt,
    "select": select,
    "sign": sign,
    "stop_gradient": stop_gradient,
    "where": where,
}
