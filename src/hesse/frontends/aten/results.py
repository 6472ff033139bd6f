"""Results of handlers as traced tensors, of the dtype and on the device that PyTorch gives them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from hesse.frontends.aten.complexes import constant_part
from hesse.frontends.aten.table import Typed
from hesse.frontends.aten.tensor import TracedTensor, dtype_of, fresh, is_recording
from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression


def wrapped(result: Any, operands: Sequence[TracedTensor]) -> Any:
    """Results as traced tensors, of the dtype that PyTorch promotes the operands to."""
    if isinstance(result, Typed):  # which is a tuple, too
        return _wrapped_as(result.value, result.dtype, operands)
    if isinstance(result, tuple | list):
        return type(result)(wrapped(part, operands) for part in result)
    if isinstance(result, Complex):
        return _wrapped_as(result, _floating(operands).to_complex(), operands)
    if not isinstance(result, Expression):
        return result
    return _wrapped_as(result, dtype_of(result, _floating(operands)), operands)


def apart(value: Any, operands: Sequence[TracedTensor]) -> TracedTensor:
    """A result that shares memory with the operand in PyTorch, but not here."""
    made: TracedTensor = wrapped(value, operands)
    for tensor in (operands[0], made):
        tensor.cell.forbid_writing()
    return made


def _wrapped_as(value: Any, dtype: torch.dtype, operands: Sequence[TracedTensor]) -> TracedTensor:
    is_number = dtype.is_floating_point or dtype.is_complex
    if not torch.is_grad_enabled() and is_number and not is_recording.get():
        value = constant_part(value)
    device = next((t.device for t in operands if t.device.type != "cpu"), operands[0].device)
    return fresh(value, dtype, device, value.ndim < 2)  # which always lies in one piece


def _floating(operands: Sequence[TracedTensor]) -> torch.dtype:
    """What the dtypes of operands are promoted to; those without axes count only if there are no others."""
    found = [t for t in operands if t.dtype.is_floating_point or t.dtype.is_complex]
    dtypes = [t.dtype.to_real() for t in [t for t in found if t.dim()] or found]
    return functools.reduce(torch.promote_types, dtypes, dtypes[0] if dtypes else torch.get_default_dtype())
