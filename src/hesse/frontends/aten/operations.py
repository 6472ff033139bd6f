"""What can be said of an ATen operation and its operands before it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from hesse.frontends.aten.table import operation_name
from hesse.frontends.aten.tensor import TracedTensor, content
from hesse.frontends.expression import Expression
from hesse.frontends.tracing import untraceable

MAY_COPY = frozenset({"contiguous", "flatten", "ravel", "reshape", "reshape_as"})
"""Operations that give a view where the layout in memory allows it, else a copy."""
CHANGED_SHAPES = frozenset({"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_"})
"""Operations that change the shape of a tensor in place."""
VALUES = frozenset(
    {
        "_local_scalar_dense",
        "equal",
        "is_nonzero",
        "item",
        "nonzero",
        "nonzero_numpy",
        "unique_consecutive",
        "unique_dim",
        "_unique2",
    }
)
"""Operations that need the entries of a tensor."""


def is_masked(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether entries are chosen by a mask that is not known: the size of the result is not known, either."""
    if operation_name(function) != "index":
        return False
    masks = [index for index in arguments[1] if index is not None and index.dtype == torch.bool]
    return any(isinstance(content(mask), Expression) for mask in masks)


def functional(name: str) -> Any:
    """The operation that does the same without changing anything."""
    return getattr(torch.ops.aten, name if name.startswith("__") else name.removesuffix("_"))


def is_view(function: Any) -> bool:
    """Whether results share memory with the first argument."""
    schema = function._schema
    return (
        bool(schema.arguments)
        and schema.arguments[0].alias_info is not None
        and any(found.alias_info is not None for found in schema.returns)
    )


def is_copy(operand: Any, result: Any) -> bool:
    """Whether an operation that may give a view gave a copy, such as a conversion to another dtype."""
    return isinstance(result, Tensor) and (
        result.untyped_storage()._cdata != operand.untyped_storage()._cdata
    )


def is_shared(base: TracedTensor, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a result that may be a copy shares memory with its argument, by the layout in memory."""
    with _disable_current_modes():
        value = base.cell.value
        memory = torch.empty(tuple(value.shape), device="meta")
        for step in base.steps:
            memory = step.of(memory, step.function)
        result = function(memory, *arguments[1:], **options)
        return bool(result.untyped_storage()._cdata == memory.untyped_storage()._cdata)


def check_devices(function: Any, tensors: Sequence[TracedTensor]) -> None:
    """Refuse tensors on several devices, but for single numbers on the CPU."""
    devices = {str(t.device) for t in tensors if t.dim() or t.device.type != "cpu"}
    if len(devices) > 1 and operation_name(function) not in ("copy_", "_to_copy", "to"):
        raise untraceable(
            f"{function} of tensors on {' and on '.join(sorted(devices))}", "Move them to one device."
        )


def check_random(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Refuse random numbers, which would be the same in every call."""
    schema = function._schema.arguments
    given = {a.name: a.default_value for a in schema if a.has_default_value()}
    given |= dict(zip([a.name for a in schema], arguments, strict=False)) | options
    share = next((given[name] for name in ("dropout_p", "dropout", "p") if name in given), None)
    is_training = next((given[name] for name in ("train", "training") if name in given), True)
    if share == 0 or not is_training:
        return
    name = operation_name(function)
    if share is not None or not {"train", "training"}.isdisjoint(given):
        raise untraceable(
            f"{name} in training mode, which draws random numbers,",
            "Call module.eval() first, or draw the mask outside and pass it as an argument.",
        )
    raise untraceable(
        f"{name}, which draws random numbers,", "Draw them outside and pass them as an argument."
    )
