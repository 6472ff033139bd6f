"""`x.flat`: the entries of a traced array one after the other."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.frontends.dispatch import call

if TYPE_CHECKING:
    from hesse.frontends.expression import Expression


class Flat:
    """The entries of an array in row-major order: `x.flat`."""

    def __init__(self, array: Expression) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Expression]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        return call(np.copy, (call(np.ravel, (self._array,)),))[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        chosen = np.arange(len(self))[key]
        call(operator.setitem, (self._array, np.unravel_index(chosen, self._array.shape), value))  # type: ignore[arg-type]
