"""Compiled sweeps over large cores, from both ends: by what each is turned, while conditions are small.

Threads that compute short pieces wait for the lock of the interpreter again and again, which takes longer
than the pieces. Here all cores of the same ranks are one piece. Without numba, nothing is swept.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.tt import rows_kernel
from hesse.tt.compiler import compiled, inner, once
from hesse.tt.rows_kernel import BLOCK, add_products, fixed, square
from hesse.tt.tiles import ROWS, DotSizes, Sizes, dot_sizes, sizes, tile


class Swept(NamedTuple):
    """How far a sweep came. It ends where a condition is not small."""

    factors: list[tuple[np.ndarray, np.ndarray]]
    """For each core before that Cholesky's factor of its Gram matrix, and its inverse."""
    gram: np.ndarray | None
    """The Gram matrix of the core where it ended."""
    products: list[np.ndarray]
    """From the left: cores times what was before them, that where it ended included."""


def left_sweep(cores: Sequence[np.ndarray], matrix: np.ndarray) -> Swept:
    """The first core is to be multiplied by a matrix at its left bond, each other one by the factor before.
    Gram matrices are those of columns.
    """
    alike = _alike(cores)
    if not alike:
        return Swept([], None, [])
    left, _, right = alike[0].shape
    itemsize = alike[0].itemsize
    products = [np.empty(core.shape, core.dtype) for core in alike]
    factors = np.zeros((2, len(alike), right, right), alike[0].dtype)
    part, total = (np.empty((right, right), core.dtype) for core in alike[:1] * 2)
    kernel = _left_kernel(sizes(left, right, itemsize), sizes(right, right, itemsize))
    done = kernel(*_given(alike), _given(products)[0], fixed(matrix.T), factors, part, total)
    return Swept([*zip(*factors[:, :done], strict=True)], total if done < len(alike) else None, products)


def right_sweep(cores: Sequence[np.ndarray], matrix: np.ndarray) -> Swept:
    """The first core is to be multiplied by a matrix at its right bond, each other one by the factor before.
    Gram matrices are those of rows. Products are not kept.
    """
    alike = _alike(cores)
    if not alike:
        return Swept([], None, [])
    left, _, right = alike[0].shape
    factors = np.zeros((2, len(alike), left, left), alike[0].dtype)
    size = dot_sizes(left, factors.itemsize)
    total = square(left, size, factors)
    count = ROWS * max(1, BLOCK // (ROWS * right))
    some = np.empty((left, count, right), factors.dtype)
    kernel = _right_kernel(sizes(ROWS, right, factors.itemsize), size)
    done = kernel(*_given(alike), fixed(matrix), some.ctypes.data, count, factors, total)
    gram = total[:left, :left] if done < len(alike) else None
    return Swept([*zip(*factors[:, :done], strict=True)], gram, [])


def _alike(cores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The first cores, as many as have the same ranks and are served, in the layout of the kernels."""
    left, _, right = cores[0].shape
    same = itertools.takewhile(lambda core: core.shape[::2] == (left, right) and _serves(core), cores)
    return [fixed(core) for core in (same if left == right else itertools.islice(same, 1))]


def _given(cores: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The addresses and lengths of cores."""
    return np.array([core.ctypes.data for core in cores]), np.array([core.shape[1] for core in cores])


def _serves(core: np.ndarray) -> bool:
    left, size, right = core.shape
    work = core.size * left
    return (
        min(left, right) > 1 and size >= 2 * ROWS and rows_kernel.serves(core.dtype, max(left, right), work)
    )


@once
def _left_kernel(size: Sizes, own_size: Sizes) -> Any:
    turn, write, factor, core_at = tile(size), tile(own_size), _factored(), _core_at()
    steps, rows = size.rows, own_size.rows
    widths, columns = (one.registers * one.width for one in (size, own_size))

    def multiply(matrix, core, made):  # type: ignore[no-untyped-def]
        for j in range(0, made.shape[1], widths):
            for first in range(0, made.shape[0], steps):
                i = min(first, made.shape[0] - steps)
                turn(made, matrix, core, matrix[:0], core[:0], i, j)

    def gram(flat, part, total):  # type: ignore[no-untyped-def]
        right = len(total)
        for i in range(right):
            for j in range(right):
                total[i, j] = 0.0
        for start in range(0, len(flat), BLOCK):
            own = flat[start : start + BLOCK]
            for first in range(0, right, rows):
                i = min(first, right - rows)
                for j in range(0, right, columns):
                    write(part, own, own, own[:0], own[:0], i, j)
            for i in range(right):
                for j in range(right):
                    total[i, j] += part[i, j]

    multiplied, added = inner(multiply), inner(gram)

    def kernel(addresses, lengths, products, matrix, factors, part, total):  # type: ignore[no-untyped-def]
        left, right = len(matrix), len(total)
        for k in range(len(addresses)):
            core = core_at(addresses[k], matrix, (left, lengths[k] * right))
            made = core_at(products[k], matrix, (matrix.shape[1], lengths[k] * right))
            multiplied(factors[0, k - 1] if k else matrix, core, made)
            added(core_at(products[k], matrix, (len(made) * lengths[k], right)), part, total)
            if not factor(total, factors[0, k], factors[1, k]):
                return k
        return len(addresses)

    return compiled(kernel)


@once
def _right_kernel(size: Sizes, dot_size: DotSizes) -> Any:
    gram, factor, core_at = _gram(size, dot_size), _factored(), _core_at()

    def kernel(addresses, lengths, matrix, some, count, factors, total):  # type: ignore[no-untyped-def]
        left, right = factors.shape[2], len(matrix)
        for k in range(len(addresses)):
            core = core_at(addresses[k], matrix, (left, lengths[k], right))
            gram(core, factors[0, k - 1] if k else matrix, some, min(count, lengths[k]), total)
            if not factor(total, factors[0, k], factors[1, k]):
                return k
        return len(addresses)

    return compiled(kernel)


@once
def _gram(size: Sizes, dot_size: DotSizes) -> Any:
    """The products of the rows of a core that is multiplied by a matrix, some places at a time. The last ones
    begin where they are as many; what was counted before is left out.
    """
    add, write, core_at = add_products(dot_size), tile(size), _core_at()
    rows, columns = size.rows, size.registers * size.width

    def gram(core, matrix, some, count, total):  # type: ignore[no-untyped-def]
        left, length, right = core.shape
        made = core_at(some, matrix, (left, count, right))
        flat = core_at(some, matrix, (left, count * right))
        for i in range(len(total)):
            for j in range(len(total)):
                total[i, j] = 0.0
        for start in range(0, length, count):
            begin = min(start, length - count)
            for a in range(left):
                part = core[a, begin : begin + count]
                for first in range(0, count, rows):
                    i = min(first, count - rows)
                    for j in range(0, right, columns):
                        write(made[a], part.T, matrix, part[:0], matrix[:0], i, j)
            known = (start - begin) * right
            add(flat, known, count * right - known, total)

    return inner(gram)


@once
def _factored() -> Any:
    return inner(_factor)


def _factor(gram, lower, inverse):  # type: ignore[no-untyped-def]
    """Cholesky's factor and its inverse. False: there is none, or its condition is 2.7 or more."""
    count = len(lower)
    for i in range(count):
        for j in range(i + 1):
            rest = gram[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            if i > j:
                lower[i, j] = rest / lower[j, j]
            elif rest > 0.0:
                lower[i, i] = math.sqrt(rest)
            else:
                return False
    size = other = 0.0
    for i in range(count):
        inverse[i, i] = 1.0 / lower[i, i]
        for j in range(i):
            rest = lower[i, j] * inverse[j, j]
            for k in range(j + 1, i):
                rest += lower[i, k] * inverse[k, j]
            inverse[i, j] = -rest * inverse[i, i]
        for j in range(i + 1):
            size += lower[i, j] ** 2
            other += inverse[i, j] ** 2
    return size * other <= count * (count + 2)


@once
def _core_at() -> Any:
    """For kernels: the array of a shape at an address, with numbers like those of another one."""
    numba, extending = (importlib.import_module(name) for name in ("numba", "numba.extending"))

    def pointer(context, address, like):  # type: ignore[no-untyped-def]
        def write(target: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            return builder.inttoptr(values[0], target.get_value_type(signature.return_type))

        return numba.types.CPointer(like.dtype)(address, like), write

    pointed, carray = extending.intrinsic(pointer), numba.carray

    def core_at(address, like, shape):  # type: ignore[no-untyped-def]
        return carray(pointed(address, like), shape)

    return inner(core_at)
