"""Tensors and NumPy arrays on the same memory, and what PyTorch does with tensors besides computing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _get_function_stack_at as function_mode_at
from torch._C import _len_torch_dispatch_stack as count_dispatch_modes
from torch._C import _len_torch_function_stack as count_function_modes
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext

PLAIN = (Tensor, torch.nn.Parameter)


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


def is_plain(arrays: Sequence[Tensor]) -> bool:
    """Whether nothing but the values is asked for, of tensors that are nothing but arrays."""
    if is_differentiated(arrays) or count_dispatch_modes() or _is_observed():
        return False
    return not torch.compiler.is_compiling() and all(type(array) in PLAIN for array in arrays)


def has_only_a_default_device(arrays: Sequence[Tensor]) -> bool:
    """Whether functions of tensors are sent through Python for the sake of a default device alone.

    That takes longer than many functions themselves.
    """
    if not count_function_modes() or _is_observed() or torch.compiler.is_compiling():
        return False
    return all(type(array) in PLAIN for array in arrays)


def _is_observed() -> bool:
    """Whether a mode looks at functions; a default device, a mode as well, is none of these."""
    return any(not isinstance(function_mode_at(k), DeviceContext) for k in range(count_function_modes()))
