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

from hesse.backends.torch.tensors import as_tensor, is_plain
from hesse.ops.foreign import FOREIGN
from hesse.plan.program import CallApply, Program

MOST_ENTRIES = 2**15
"""From so many entries on PyTorch shares element-wise operations among threads."""
DTYPES = (torch.float64, torch.float32)


def is_worth_hosting(program: Program, dtype: torch.dtype) -> bool:
    """Whether all that a program computes is small, and nothing of it is code for tensors."""
    if has_foreign_code(program) or dtype not in DTYPES:
        return False
    return max(map(math.prod, program.shapes), default=0) <= MOST_ENTRIES


def has_foreign_code(program: Program) -> bool:
    """Whether functions of users run as they are."""
    return any(isinstance(item, CallApply) and item.name == FOREIGN for item in program.instructions)


class Hosted:
    """A function of tensors on the processor, which NumPy computes where nobody watches the operations."""

    def __init__(
        self, function: Callable[..., tuple[Tensor, ...]], numpy_function: Callable[..., Sequence[Any]]
    ) -> None:
        self._function, self._numpy_function = function, numpy_function

    def __call__(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        if not is_plain(arrays):
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
