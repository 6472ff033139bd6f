"""Operations of ATen about the memory of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from hesse.frontends.aten.table import aten, enter
from hesse.frontends.aten.tensor import Step, TracedTensor
from hesse.frontends.complexes import Complex
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.frontends.tracing import untraceable
from hesse.ir import combine, plain_axes, view

WITH_STRIDES = (
    "Use slices, torch.diagonal, torch.flip or Tensor.unfold, "
    "or x.clone(memory_format=torch.contiguous_format) first."
)
LAYOUT = {
    "as_strided_": "Use slices, torch.diagonal, torch.flip or Tensor.unfold.",
    "resize_": "Use torch.cat or slices.",
    "set_": "Use copy_ or another name.",
}
"""Operations on entries as they lie in memory, and what to do instead."""


def _refused(name: str, way_out: str) -> Any:
    def handler(*_: Any, **__: Any) -> NoReturn:
        raise untraceable(f"{name}, which reads the memory of a tensor as it lies there,", way_out)

    return handler


for _name, _way_out in LAYOUT.items():
    enter([_name], _refused(_name, _way_out))


@aten("as_strided")
def as_strided(x: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Entries at steps in memory, which has those of `x` in the order of its axes.

    An axis of one entry, or one that stands still in memory, is not read along but repeated.
    """
    if 0 in size:
        return np.reshape(np.ravel(x)[:0], tuple(size))
    moved = [n if step and n > 1 else 1 for n, step in zip(size, stride, strict=True)]
    axes = plain_axes(len(moved))
    terms = [(step, axis) for n, step, axis in zip(moved, stride, axes, strict=True) if n > 1]
    place = combine(terms, storage_offset or 0)
    found = view(as_node(np.ravel(x)), [place], axes, tuple(moved), tuple(moved))
    return np.broadcast_to(Expression(found), tuple(size))


def strided(
    base: TracedTensor, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> TracedTensor:
    """The view of the memory of a tensor; the steps that led to the tensor do not matter for it."""
    cell, instead = base.cell, WITH_STRIDES
    start, is_whole = _start(base)
    known = isinstance(cell.value, torch.Tensor) and cell.value.storage_offset() > 0
    if not (cell.is_ordered and is_whole) or known or isinstance(cell.value, Complex):
        raise untraceable(
            "as_strided of a tensor whose entries may not lie in memory in the order of its axes,", instead
        )
    if offset is not None and (start or cell.is_inside):
        raise untraceable("as_strided with a storage_offset, of a tensor that is a part of another,", instead)
    begin = start if offset is None else offset
    last = begin + sum(step * (n - 1) for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= int(np.prod(tuple(cell.value.shape), dtype=int)):
        raise untraceable(f"as_strided beyond the end of a tensor (at place {last})", "Check the strides.")
    step = Step(torch.ops.aten.as_strided.default, (list(size), list(stride), begin), {}, None, False)
    return TracedTensor(cell, (step,), tuple(size), base.dtype, base.device)


def _start(base: TracedTensor) -> tuple[int, bool]:
    """Where a view begins in memory, and whether its entries lie there in the order of its axes."""
    with _disable_current_modes():
        memory = torch.empty(tuple(base.cell.value.shape), device="meta")
        for step in base.steps:
            memory = step.of(memory, step.function)
        return int(memory.storage_offset()), memory.is_contiguous()


@aten("_has_same_storage_numel")
def has_same_storage(*_: Any) -> bool:
    """Traced tensors have no memory that could be too small."""
    return True


@aten("fill_diagonal")
def fill_diagonal(x: Any, value: Any, wrap: bool = False) -> Any:
    """One number on the diagonal of all axes; with `wrap` also below it in tall matrices."""
    mask = np.zeros(x.shape, bool)
    np.fill_diagonal(mask, True, wrap)
    return np.where(mask, value, x)
