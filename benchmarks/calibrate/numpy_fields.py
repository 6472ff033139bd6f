"""The record of the NumPy back end."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.calibrate.measuring import (
    Measured,
    Target,
    largest,
    named,
    powers,
    random,
    relative,
    seconds,
    smallest,
)
from hesse.backends.numpy import NUMPY_MACHINE, NumpyMachine
from hesse.backends.numpy.runtime import symmetric_product
from hesse.backends.numpy.spaces import aligned_arrays

CHOICES = {
    "larger_first": "what the library does",
    "largest_joined": "0: results take no longer the more there are",
    "call_cost": "0: calls are not counted",
    "fewest_rows": "a bound",
    "many_slices": "how much must be won",
    "fewest_slices": "a bound",
    "fuses": "what the library does",
    "most_seeds": "a bound of a search",
    "symmetric_blocks": "goes with halved_share",
    "most_parts": "a bound",
    "cache_entries": "a bound",
    "longest_dot": "whether threads wait for the next call",
    "longest_row": "where digits are kept",
}


# products and sums


def entry_cost(machine: NumpyMachine) -> Measured:
    """Time of an entry that is moved, in operations of a large matrix product."""
    a, b, c = (random(2**21) for _ in range(3))
    matrix = random(1000, 1000)
    moved, multiplied = seconds(lambda: np.add(a, b, out=c), lambda: matrix @ matrix)
    return (moved / (3 * a.size)) / (multiplied / (2 * 1000**3))


def smallest_halved(machine: NumpyMachine) -> Measured:
    """Rows from which halves of a symmetric product are quicker than all of it."""

    def pays(n: int) -> bool:
        a = random(n, n)
        b = a.T.copy()  # BLAS itself notices a product with the transposed
        return relative(lambda: symmetric_product(a, b, machine.symmetric_blocks), lambda: a @ b) < 1

    return smallest([16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512], pays)


def halved_share(machine: NumpyMachine) -> Measured:
    """Time of a large product by halves relative to all of it."""
    a = random(1200, 1200)
    b = a.T.copy()
    return relative(lambda: symmetric_product(a, b, machine.symmetric_blocks), lambda: a @ b)


def large_sum(machine: NumpyMachine) -> Measured:
    """Entries from which it pays to add each term as soon as it is known."""

    def pays(size: int) -> bool:
        x = random(size)

        def together() -> np.ndarray:
            a, b, c, d = x * x, x * 2.0, x * 3.0, x * 4.0
            return a + b + c + d

        def one_by_one() -> np.ndarray:
            total = x * x + x * 2.0
            total += x * 3.0
            total += x * 4.0
            return total

        return relative(one_by_one, together) < 0.95

    return smallest(powers(10, 21), pays)


# slices


def _kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    d = x[:, None] - y
    d *= d
    return np.add.reduce(np.exp(-d), axis=1)


def _in_slices(total: int, entries: int) -> Callable[[], np.ndarray]:
    """A chain of intermediates of so many entries, some of them at a time."""
    width = min(1024, total)
    x, y = random(total // width), random(width)
    rows = max(1, entries // width)
    return lambda: np.concatenate([_kernel(x[k : k + rows], y) for k in range(0, len(x), rows)])


def slice_entries(machine: NumpyMachine) -> Measured:
    """Entries of the slices that are quickest."""
    sizes = powers(11, 21)
    times = seconds(*(_in_slices(2**21, entries) for entries in sizes))
    return sizes[times.index(min(times))]


def smallest_slice(machine: NumpyMachine) -> Measured:
    """Entries of the smallest slices that take at most twice as long as the best."""
    best = _in_slices(2**19, machine.slice_entries)
    return smallest(powers(10, 16), lambda entries: relative(_in_slices(2**19, entries), best) < 2)


def least_saved(machine: NumpyMachine) -> Measured:
    """Entries of intermediates from which slices are quicker than all at once."""

    def pays(total: int) -> bool:
        cut = min(machine.slice_entries, total // 4)
        return relative(_in_slices(total, cut), _in_slices(total, total)) < 0.95

    return smallest(powers(12, 22), pays)


def small_instruction(machine: NumpyMachine) -> Measured:
    """Entries at which computing takes as long as calling."""
    one = random(1)

    def is_work(size: int) -> bool:
        a = random(size)
        return relative(lambda: a * a, lambda: one * one) > 2

    return smallest(powers(6, 18), is_work)


def _product_in_slices(width: int, rows: int) -> bool:
    """Whether a product with a square matrix in slices of so many rows takes at most a tenth longer."""
    matrix = random(width, width)
    left = random(32 * rows, width)
    result = np.empty_like(left)

    def cut() -> None:
        for k in range(0, len(left), rows):
            np.matmul(left[k : k + rows], matrix, out=result[k : k + rows])

    return relative(cut, lambda: np.matmul(left, matrix, out=result)) < 1.1


WIDTHS = [32, 64, 90, 128, 180, 256, 360, 512]


def largest_whole(machine: NumpyMachine) -> Measured:
    """Entries of the largest matrix with which slices of the usual size are multiplied at no great loss."""
    found = largest(
        WIDTHS, lambda n: _product_in_slices(n, max(machine.fewest_rows, machine.slice_entries // n))
    )
    return None if found is None else found**2


def largest_read(machine: NumpyMachine) -> Measured:
    """The same for slices of twice as many entries as the matrix has."""
    found = largest(WIDTHS, lambda n: _product_in_slices(n, max(machine.product_rows, 2 * n)))
    return None if found is None else found**2


def _moments(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A matrix for each component: a sum over all points, as likelihoods of mixtures have it."""
    z = x * weights[:, None, None]
    return np.matmul(np.tanh(z).transpose(0, 2, 1), z)


def largest_sum(machine: NumpyMachine) -> Measured:
    """Entries of the largest sum that slices of four times as many entries are quickly added to."""
    components = 8
    weights = random(components)

    def is_quick(size: int) -> bool:
        width = math.isqrt(size // components)
        x = random(2**20 // width, width)
        rows = 4 * size // (components * width)

        def cut() -> np.ndarray:
            total = np.zeros((components, width, width))
            for k in range(0, len(x), rows):
                total += _moments(x[k : k + rows], weights)
            return total

        return relative(cut, lambda: _moments(x, weights)) < 1

    return largest(powers(10, 18), is_quick)


def product_rows(machine: NumpyMachine) -> Measured:
    """Rows of a slice from which a product takes no more time for each of them."""
    matrix = random(256, 256)
    many = random(512, 256)

    def is_enough(rows: int) -> bool:
        few = many[:rows]
        return relative(lambda: few @ matrix, lambda: many @ matrix) / rows < 1.5 / len(many)

    return smallest(powers(0, 8), is_enough)


# what NumPy's loops and BLAS like


def short_axis(machine: NumpyMachine) -> Measured:
    """Entries from which the last axis is long enough to be the innermost loop."""

    def is_long(k: int) -> bool:
        n = 2**18 // k
        last, first, factors = random(n, k), random(k, n), random(n)
        return relative(lambda: last * factors[:, None], lambda: first * factors) < 2

    return smallest([2, 3, 4, 6, 8, 12, 16, 24, 32, 64], is_long)


def small_block(machine: NumpyMachine) -> Measured:
    """Columns up to which many blocks are multiplied with vectors more quickly by an einsum."""

    def pays(k: int) -> bool:
        blocks, vectors = random(2**16 // k**2, k, k), random(2**16 // k**2, k)
        by_einsum = partial(np.einsum, "nij,nj->ni", blocks, vectors)
        return relative(by_einsum, lambda: np.matmul(blocks, vectors[:, :, None])) < 1

    return largest([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64], pays)


def _copy_pays(rows: int, width: int) -> bool:
    left, matrix = random(rows, width), random(width, width)
    return relative(lambda: left @ np.ascontiguousarray(matrix.T), lambda: left @ matrix.T) < 1


def many_rows(machine: NumpyMachine) -> Measured:
    """Rows from which it pays to copy a small transposed matrix."""
    return smallest([10, 20, 50, 100, 200, 500], lambda rows: _copy_pays(rows, 16))


def small_matrix(machine: NumpyMachine) -> Measured:
    """Entries of the largest matrix that is worth being copied."""
    found = largest([4, 8, 16, 24, 32, 48, 64, 96], lambda n: _copy_pays(machine.many_rows, n))
    return None if found is None else found**2


def small_product(machine: NumpyMachine) -> Measured:
    """Multiplications of the largest product for which it pays."""
    found = largest([200, 500, 1000, 2000, 4000, 8000, 16000, 32000], lambda rows: _copy_pays(rows, 16))
    return None if found is None else found * 16**2


def short_dot(machine: NumpyMachine) -> Measured:
    """Entries from which dot products of many rows with rows are quicker than an einsum."""

    def pays(n: int) -> bool:
        left, right = random(2000, n), random(2000, n)
        return relative(lambda: np.vecdot(left, right), partial(np.einsum, "ij,ij->i", left, right)) < 1

    return smallest([4, 8, 16, 24, 32, 48, 64, 96], pays)


def _dots_pay(width: int, n: int) -> bool:
    left, right = random(200, width, n), random(200, width, n)
    by_rows = partial(np.vecdot, left[:, :, None], right[:, None])
    return relative(by_rows, lambda: np.matmul(left, right.transpose(0, 2, 1))) < 1


def narrow_matrix(machine: NumpyMachine) -> Measured:
    """Rows and columns up to which stacks of products of matrices are quicker as dot products of rows."""
    return largest([2, 3, 4, 5, 6, 8, 12], lambda width: _dots_pay(width, 4 * machine.narrow_dot))


def narrow_dot(machine: NumpyMachine) -> Measured:
    """Entries of rows from which they are."""
    return smallest([8, 16, 32, 64, 128, 256], lambda n: _dots_pay(machine.narrow_matrix, n))


def large_array(machine: NumpyMachine) -> Measured:
    """Entries of an array with a short last axis from which another order in memory is quicker."""

    def matters(size: int) -> bool:
        last, first, factors = random(size // 4, 4), random(4, size // 4), random(size // 4)
        return relative(lambda: last * factors[:, None], lambda: first * factors) > 1.5

    return smallest(powers(5, 18), matters)


def largest_aligned(machine: NumpyMachine) -> Measured:
    """Entries of the largest array that is written sooner where it begins with a line of the cache."""

    def pays(size: int) -> bool:
        left, right, memory = random(size), random(size), aligned_arrays(1, (size + 8,), np.dtype(float))[0]
        beside, along = memory[2 : size + 2], memory[:size]
        written = partial(np.multiply, left, right)
        return relative(partial(written, out=along), partial(written, out=beside)) < 0.9

    return largest(powers(13, 20), pays)


def _broadcast(rows: int, width: int, size: int | None) -> Callable[[], np.ndarray]:
    """An outer product, which repeats a row, through buffers of a size (None: NumPy's)."""
    column, row = random(rows, 1), random(width)

    def run() -> np.ndarray:
        with np.errstate():  # restores the size of the buffers, too
            np.setbufsize(size)
            return column * row

    return run if size is not None else lambda: column * row


def buffer_entries(machine: NumpyMachine) -> Measured:
    """Entries of the largest buffers with which rows of a few hundred entries are repeated quickly."""
    sizes = powers(7, 13)
    times = seconds(*(_broadcast(1500, 600, size) for size in sizes))
    return max(size for size, taken in zip(sizes, times, strict=True) if taken < 1.1 * min(times))


def large_broadcast(machine: NumpyMachine) -> Measured:
    """Entries from which it pays to say how large the buffers are."""

    def pays(size: int) -> bool:
        rows = max(1, size // 600)  # one of them fits into the buffers that are shipped
        return relative(_broadcast(rows, 600, machine.buffer_entries), _broadcast(rows, 600, None)) < 0.98

    return smallest(powers(10, 20), pays)


TARGET = Target(
    NUMPY_MACHINE,
    named(
        entry_cost,
        smallest_halved,
        halved_share,
        large_sum,
        slice_entries,
        smallest_slice,
        least_saved,
        small_instruction,
        largest_whole,
        largest_read,
        largest_sum,
        product_rows,
        short_axis,
        small_block,
        many_rows,
        small_matrix,
        small_product,
        short_dot,
        narrow_matrix,
        narrow_dot,
        large_array,
        largest_aligned,
        buffer_entries,
        large_broadcast,
    ),
    CHOICES,
    {},
)
