"""Where tensors are in memory: what tells them apart while operations are recorded.

Autograd makes other objects of views, so objects say little. Addresses are used again when memory is freed,
so memory is numbered when it is first seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef

from hesse.errors import ArgumentError

Place = tuple[Any, ...]
"""Where the entries of a tensor are: the number of the memory, offset, shape, strides, dtype and signs."""
NAME = "_hesse_memory"
"""The attribute of a storage that tells its number."""
_numbers = itertools.count()


class Memory:
    """What is known of the memory of tensors; it lives as long as that.

    `makers` are recordings of what is in it. They live as long as the memory and must not keep it alive.
    """

    __slots__ = ("makers", "number")

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.makers: list[Any] = []


def memory_of(tensor: Tensor) -> Memory:
    """The memory of a tensor."""
    storage = tensor.untyped_storage()
    found: Memory | None = getattr(storage, NAME, None)
    if found is None:
        found = Memory()
        setattr(storage, NAME, found)
    return found


def place_of(tensor: Tensor) -> Place:
    """The place of a tensor."""
    where = tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype
    meaning = tensor.is_conj(), tensor.is_neg()  # views that differ in signs only
    return memory_of(tensor).number, *where, *meaning


@dataclass(frozen=True, slots=True)
class Seen:
    """An operand or a result of a recorded operation, without its entries."""

    place: Place
    dtype: torch.dtype
    device: torch.device
    is_ordered: bool
    has_graph: bool
    is_leaf: bool
    """Whether it is differentiated by: it has no history, but derivatives."""

    @property
    def is_real(self) -> bool:
        """Whether the entries are numbers that may be differentiated, not integers or truth values."""
        return bool(self.dtype.is_floating_point or self.dtype.is_complex)

    @property
    def shape(self) -> Sequence[int]:
        """The sizes of its axes."""
        shape: Sequence[int] = self.place[2]
        return shape


def seen(tensor: Tensor) -> Seen:
    """What is written down of a tensor."""
    is_leaf = tensor.requires_grad and tensor.is_leaf
    return Seen(
        place_of(tensor), tensor.dtype, tensor.device, tensor.is_contiguous(), tensor.requires_grad, is_leaf
    )


def _version_of(tensor: Tensor) -> int | None:
    """How often something was written to a tensor; None: nobody counts that."""
    return None if tensor.is_inference() else tensor._version


class Outside:
    """A tensor that a recording did not compute: its entries, and the object itself while somebody has it."""

    def __init__(self, tensor: Tensor, is_copied: bool) -> None:
        self.entries = tensor.detach().clone() if is_copied else tensor.detach()
        self._object = TensorWeakRef(tensor)
        self._version = None if is_copied else _version_of(tensor)

    def keep(self) -> None:
        """Copy the entries before something else is written there."""
        if not self._is_changed():
            self.entries, self._version = self.entries.clone(), None

    def kept(self) -> Tensor:
        """The entries, unless something else is there by now."""
        if self._is_changed():
            raise ArgumentError(
                f"a tensor of shape {tuple(self.entries.shape)} was changed in place after the recording had "
                "read it, so that the recording no longer says what was computed. Change a copy (x = x + 1 "
                "instead of x += 1), or compute the result again"
            )
        return self.entries

    def _is_changed(self) -> bool:
        tensor = self.tensor
        if tensor is None or self._version is None:
            return False
        return _version_of(tensor) != self._version

    @property
    def tensor(self) -> Tensor | None:
        """The object."""
        found: Tensor | None = self._object()
        return found
