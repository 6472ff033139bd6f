"""Compiled derivatives by large cores: sums over words of products of a vector and a small matrix.

For each left bond they are a product of matrices, of which one side is a rank. Sums stay in registers; so the
part in a frame, which gauged derivatives lack, costs no further pass. Without numba, `serves` says no.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.tt import rows_kernel
from hesse.tt.compiler import compiled, once
from hesse.tt.tiles import ROWS, Sizes, sizes, tile


def serves(words: np.ndarray, matrices: np.ndarray) -> bool:
    """Whether these kernels compute such derivatives."""
    (count, size), (left, _, right) = words.shape, matrices.shape
    work = count * size * left * right
    return rows_kernel.serves(words.dtype, right, work) and right >= 4 and size >= ROWS


def spread(
    words: np.ndarray, matrices: np.ndarray, frame: np.ndarray | None, inside: np.ndarray | None
) -> np.ndarray:
    """The sum over words s of `words[s, i] * matrices[a, s, b]`, less `frame @ inside`."""
    left, _, right = matrices.shape
    made = np.empty((left, words.shape[1], right), words.dtype)
    if frame is None or inside is None:
        frame, inside = made[:, :, :0], np.empty((0, right), words.dtype)
    given = map(rows_kernel.fixed, (words, matrices, frame, inside))
    _kernel(sizes(words.shape[1], right, words.itemsize))(*given, made)
    return made


@once
def _kernel(size: Sizes) -> Any:
    """That of tiles. Those at the end begin before it, and are made twice in part."""
    write = tile(size)
    rows, columns = size.rows, size.registers * size.width

    def kernel(words, matrices, frame, inside, made):  # type: ignore[no-untyped-def]
        for a in range(made.shape[0]):
            for start in range(0, made.shape[1], rows):
                i = min(start, made.shape[1] - rows)
                for j in range(0, made.shape[2], columns):
                    write(made[a], words, matrices[a], frame[a], inside, i, j)

    return compiled(kernel)
