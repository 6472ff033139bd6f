"""Operations of ATen about the memory of tensors."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from hesse.frontends.aten.table import aten, enter
from hesse.frontends.tracing import untraceable

LAYOUT = {
    "as_strided": "Use slices, torch.diagonal, torch.flip or Tensor.unfold.",
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
