"""Small programs on the processor, run by NumPy on the memory of the tensors.

PyTorch takes about twice as long as NumPy to start an operation. As long as arrays are so small that PyTorch
would not share an operation among its threads, that is what a program costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack as count_dispatch_modes
from torch._C import _len_torch_function_stack as count_function_modes
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from hesse.backends.torch.tensors import as_tensor, is_differentiated
from hesse.ops.foreign import FOREIGN
from hesse.plan.program import CallApply, Program

MOST_ENTRIES = 2**15
"""From so many entries on PyTorch shares element-wise operations among threads."""
DTYPES = (torch.float64, torch.float32)
PLAIN = (Tensor, torch.nn.Parameter)


def is_worth_hosting(program: Program, dtype: torch.dtype) -> bool:
    """Whether all that a program computes is small, and nothing of it is code for tensors."""
    is_own = not any(isinstance(item, CallApply) and item.name == FOREIGN for item in program.instructions)
    return is_own and dtype in DTYPES and max(map(math.prod, program.shapes), default=0) <= MOST_ENTRIES


class Hosted:
    """A function of tensors on the processor, which NumPy computes where nobody watches the operations."""

    def __init__(
        self, function: Callable[..., tuple[Tensor, ...]], numpy_function: Callable[..., Sequence[Any]]
    ) -> None:
        self._function, self._numpy_function = function, numpy_function

    def __call__(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        if not _is_plain(arrays):
            return self._function(*arrays)
        try:
            given = [array.detach().numpy() if array.requires_grad else array.numpy() for array in arrays]
        except RuntimeError:  # NumPy cannot read the memory of a tensor
            return self._function(*arrays)
        try:
            with np.errstate(all="ignore"):  # PyTorch does not warn
                results = self._numpy_function(*given)
        except np.linalg.LinAlgError:
            return self._function(*arrays)  # which raises PyTorch's error
        return tuple(map(as_tensor, results))


def _is_plain(arrays: Sequence[Tensor]) -> bool:
    """Whether nothing but the values is asked for, of tensors that are nothing but arrays."""
    if is_differentiated(arrays) or count_dispatch_modes() or (count_function_modes() and _is_observed()):
        return False
    return not torch.compiler.is_compiling() and all(type(array) in PLAIN for array in arrays)


def _is_observed() -> bool:
    """Whether a mode looks at functions; a default device, a mode as well, is none of these."""
    return not all(isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())
