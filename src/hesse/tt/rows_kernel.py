"""Compiled inner products of long rows: Gram matrices of large cores, and cores read by words.

BLAS is at its best where all three sizes of a product are large. Here two of them are ranks: the sums for
four rows times four others stay in registers, and each core is read once. Without numba, `serves` says no.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from hesse.tt import compiler
from hesse.tt.compiler import compiled, inner

WORTH = 2**18
"""Multiplications of a product from which on it pays to compile."""
MOST = 32
"""Rows on one side up to which BLAS is slower."""
BLOCK = 512
"""So many numbers of each row at a time, which caches hold."""
STRIDE = BLOCK + 8
"""The length of the rows of a block: those of 4096 bytes would want the same places of the cache."""


def serves(dtype: Any, rank: int, multiplications: int) -> bool:
    """Whether these kernels compute such products of arrays of NumPy."""
    return (
        dtype in (np.float64, np.float32)
        and rank <= MOST
        and multiplications >= WORTH
        and compiler.is_installed()
    )


def gram(a: np.ndarray) -> np.ndarray:
    """`a.T @ a` of a tall matrix, whose rows or columns follow each other in memory."""
    count = a.shape[1]
    total = np.zeros((_rounded(count),) * 2, a.dtype)
    if a.flags.c_contiguous:
        _kernels().columns(fixed(a), np.empty((count, STRIDE), a.dtype), total)
    else:
        _kernels().rows(fixed(a.T), total)
    return total[:count, :count]


def read(words: np.ndarray, core: np.ndarray) -> np.ndarray:
    """A core times each word at its position, with axes (left bond, right bond, word)."""
    left, _, right = core.shape
    total = np.zeros((left, _rounded(right), _rounded(len(words))), core.dtype)
    _kernels().read(fixed(words), fixed(core), np.empty((right, STRIDE), core.dtype), total)
    return total[:, :right, : len(words)]


def _rounded(count: int) -> int:
    """The next multiple of four."""
    return -4 * (-count // 4)


def fixed(array: np.ndarray) -> np.ndarray:
    """In one layout and not to be written to: kernels are compiled for that."""
    made = np.ascontiguousarray(array)[...]
    made.flags.writeable = False
    return made


class _Kernels(NamedTuple):
    """All of them; each is compiled when it is called."""

    rows: Any
    columns: Any
    read: Any


@functools.cache
def _kernels() -> _Kernels:
    add = inner(_add_products)
    return _Kernels(*(compiled(make(add)) for make in (_rows_kernel, _columns_kernel, _read_kernel)))


def _add_products(left, at, j, right, start, k, count, total):  # type: ignore[no-untyped-def]
    """The inner products of parts of four rows with those of four others, or of fewer at the end."""
    J, K = left.shape[0] - 1, right.shape[0] - 1
    a, b = left[j][at : at + count], left[min(j + 1, J)][at : at + count]
    c, d = left[min(j + 2, J)][at : at + count], left[min(j + 3, J)][at : at + count]
    e, f = right[k][start : start + count], right[min(k + 1, K)][start : start + count]
    g, h = right[min(k + 2, K)][start : start + count], right[min(k + 3, K)][start : start + count]
    ae = af = ag = ah = be = bf = bg = bh = total.dtype.type(0)
    ce = cf = cg = ch = de = df = dg = dh = total.dtype.type(0)
    for i in range(count):
        p, q, r, s = e[i], f[i], g[i], h[i]
        ae, af, ag, ah = ae + a[i] * p, af + a[i] * q, ag + a[i] * r, ah + a[i] * s
        be, bf, bg, bh = be + b[i] * p, bf + b[i] * q, bg + b[i] * r, bh + b[i] * s
        ce, cf, cg, ch = ce + c[i] * p, cf + c[i] * q, cg + c[i] * r, ch + c[i] * s
        de, df, dg, dh = de + d[i] * p, df + d[i] * q, dg + d[i] * r, dh + d[i] * s
    sums = (ae, af, ag, ah), (be, bf, bg, bh), (ce, cf, cg, ch), (de, df, dg, dh)
    for m in range(4):
        for n in range(4):
            total[j + m, k + n] += sums[m][n]


def _rows_kernel(add: Any) -> Any:
    def kernel(rows, total):  # type: ignore[no-untyped-def]
        """The products of rows with each other."""
        count, length = rows.shape
        for start in range(0, length, BLOCK):
            some = min(BLOCK, length - start)
            for j in range(0, count, 4):
                for k in range(0, j + 4, 4):
                    add(rows, start, j, rows, start, k, some, total)
        for j in range(count):
            for k in range(j):
                total[k, j] = total[j, k]

    return kernel


def _columns_kernel(add: Any) -> Any:
    def kernel(a, block, total):  # type: ignore[no-untyped-def]
        """The products of columns with each other."""
        length, count = a.shape
        for start in range(0, length, BLOCK):
            some = min(BLOCK, length - start)
            for i in range(some):
                for j in range(count):
                    block[j, i] = a[start + i, j]
            for j in range(0, count, 4):
                for k in range(0, j + 4, 4):
                    add(block, 0, j, block, 0, k, some, total)
        for j in range(count):
            for k in range(j):
                total[k, j] = total[j, k]

    return kernel


def _read_kernel(add: Any) -> Any:
    def kernel(words, core, block, total):  # type: ignore[no-untyped-def]
        """The products of words with what a core has along its position."""
        left, length, right = core.shape
        for a in range(left):
            for start in range(0, length, BLOCK):
                some = min(BLOCK, length - start)
                for i in range(some):
                    for j in range(right):
                        block[j, i] = core[a, start + i, j]
                for j in range(0, right, 4):
                    for k in range(0, words.shape[0], 4):
                        add(block, 0, j, words, start, k, some, total[a])

    return kernel
