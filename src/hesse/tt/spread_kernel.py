"""Compiled derivatives by large cores: sums over words of products of three vectors.

For each left bond they are a product of matrices, of which one side is a rank. Sums stay in registers; so the
part in a frame, which gauged derivatives lack, costs no further pass. Without numba, `serves` says no.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hesse.tt import rows_kernel
from hesse.tt.compiler import compiled, once
from hesse.tt.tiles import ROWS, Sizes, sizes, tile


class Part(NamedTuple):
    """What the derivative by a core is made of: `sum_s words[s, i] * before[s, a] * behind[s, b]`, less
    `frame @ inside`. All numbers are of one type.
    """

    words: np.ndarray
    before: np.ndarray
    behind: np.ndarray
    frame: np.ndarray | None
    inside: np.ndarray | None

    @property
    def is_served(self) -> bool:
        """Whether this kernel computes it."""
        (count, size), left, right = self.words.shape, self.before.shape[1], self.behind.shape[1]
        serves = rows_kernel.serves(self.words.dtype, right, count * size * left * right)
        return serves and right >= 4 and size >= ROWS


def spread(part: Part) -> np.ndarray:
    """The derivative."""
    words, before, behind, frame, inside = part
    right = behind.shape[1]
    made = np.empty((before.shape[1], words.shape[1], right), words.dtype)
    if frame is None or inside is None:
        frame, inside = made[:, :, :0], np.empty((0, right), words.dtype)
    given = map(rows_kernel.fixed, (words, before, behind, frame, inside))
    some = np.empty(behind.shape, words.dtype)
    _kernel(sizes(words.shape[1], right, words.itemsize))(*given, some, made)
    return made


@once
def _kernel(size: Sizes) -> Any:
    """That of tiles. Those at the end begin before it, and are made twice in part."""
    write = tile(size)
    rows, columns = size.rows, size.registers * size.width

    def kernel(words, before, behind, frame, inside, some, made):  # type: ignore[no-untyped-def]
        for a in range(made.shape[0]):
            for s in range(len(words)):
                for b in range(made.shape[2]):
                    some[s, b] = before[s, a] * behind[s, b]
            for start in range(0, made.shape[1], rows):
                i = min(start, made.shape[1] - rows)
                for j in range(0, made.shape[2], columns):
                    write(made[a], words, some, frame[a], inside, i, j)

    return compiled(kernel)
