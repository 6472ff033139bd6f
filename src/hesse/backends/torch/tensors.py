"""Tensors and NumPy arrays on the same memory, and what PyTorch does with tensors besides computing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad


def as_tensor(value: Any) -> Tensor:
    """An array or a number as a tensor, on its memory if PyTorch can read it there."""
    array = np.asarray(value)
    if not (array.flags.carray and array.dtype.isnative):
        steps = [stride // array.itemsize for stride in array.strides if stride % array.itemsize == 0]
        # PyTorch knows no read-only arrays; nothing is written to it, but PyTorch would warn
        is_known = array.flags.writeable and array.dtype.isnative
        if not is_known or len(steps) < array.ndim or min(steps, default=0) < 0:
            array = np.array(array, array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)


def is_differentiated(arrays: Sequence[Tensor]) -> bool:
    """Whether autograd asks for more than the values."""
    if torch.is_grad_enabled() and any(array.requires_grad for array in arrays):
        return True
    return bool(forward_ad._current_level >= 0)
