"""Operations on the rows of a chunk, whose results take the memory of those of the last chunk.

Fresh memory costs NumPy more than most of what it computes there: the system clears it page by page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hesse.tt.arrays import Array, Library


class Workspace:
    """The arrays of one chunk. They hold until the workspace is cleared for the next one."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._is_numpy = library.name == "numpy"
        self._arrays: list[np.ndarray] = []
        self._used = 0

    def cleared(self) -> Workspace:
        """The same workspace, whose arrays may be written to again."""
        self._used = 0
        return self

    def _empty(self, shape: Sequence[int], like: np.ndarray) -> np.ndarray:
        size = math.prod(shape)
        if self._used == len(self._arrays):
            self._arrays.append(np.empty(0, like.dtype))
        found = self._arrays[self._used]
        if found.size < size or found.dtype != like.dtype:
            found = self._arrays[self._used] = np.empty(size, like.dtype)
        self._used += 1
        return found[:size].reshape(shape)

    def take(self, array: Array, index: Array) -> Array:
        """The rows at positions, all of which are within the array."""
        if not self._is_numpy:
            return self.library.take(array, index)
        out = self._empty((len(index), *array.shape[1:]), array)
        return np.take(array, index, axis=0, mode="clip", out=out)  # other modes copy twice

    def product(self, left: Array, right: Array) -> Array:
        """A product of matrices."""
        if not self._is_numpy:
            return left @ right
        return np.matmul(left, right, out=self._empty((*left.shape[:-1], right.shape[-1]), left))

    def times(self, left: Array, right: Array) -> Array:
        """A product entry by entry; the first one has the shape of both."""
        return np.multiply(left, right, out=self._empty(left.shape, left)) if self._is_numpy else left * right
