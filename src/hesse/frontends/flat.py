"""`x.flat`: the entries of a traced array one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hesse.frontends.dispatch import call


class Flat:
    """The entries of an array in row-major order: `x.flat`."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return int(self._array.size)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        return call(np.copy, (call(np.ravel, (self._array,)),))[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        chosen = np.arange(len(self))[key]
        self._array[np.unravel_index(chosen, self._array.shape)] = value
