"""Compiled derivatives by large cores: sums over words of products of a vector and a small matrix.

For each left bond they are a product of matrices, of which one side is a rank. The sums for a tile of eight
places and as many columns as a register holds stay in registers; so the part in a frame, which gauged
derivatives lack, costs no further pass. A compiler does not find that in loops, so the tile is written in its
own language. Without numba, `serves` says no.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hesse.tt import rows_kernel
from hesse.tt.compiler import compiled

ALIGNED = 4
"""Bytes after which numbers may begin."""
PLACES = 8
"""Rows of a tile: as many sums at a time as wait for each other."""


def serves(words: np.ndarray, matrices: np.ndarray) -> bool:
    """Whether these kernels compute such derivatives."""
    (count, size), (left, _, right) = words.shape, matrices.shape
    work = count * size * left * right
    return rows_kernel.serves(words.dtype, right, work) and right >= 4 and size >= PLACES


def spread(
    words: np.ndarray, matrices: np.ndarray, frame: np.ndarray | None, inside: np.ndarray | None
) -> np.ndarray:
    """The sum over words s of `words[s, i] * matrices[a, s, b]`, less `frame @ inside`."""
    left, _, right = matrices.shape
    made = np.empty((left, words.shape[1], right), words.dtype)
    if frame is None or inside is None:
        frame, inside = made[:, :, :0], np.empty((0, right), words.dtype)
    given = map(rows_kernel.fixed, (words, matrices, frame, inside))
    width = min(_widest() // words.itemsize, 2 ** (right.bit_length() - 1))
    _kernel(width)(*given, made)
    return made


@functools.cache
def _widest() -> int:
    """The bytes of a register. Where there are smaller ones, two of them serve as one."""
    binding = importlib.import_module("llvmlite.binding")
    return 64 if binding.get_host_cpu_features().get("avx512f") else 32


@functools.cache
def _kernel(width: int) -> Any:
    """That for tiles of so many columns. Those at the end begin before it, and are made twice in part."""
    tile = _tile(width)

    def kernel(words, matrices, frame, inside, made):  # type: ignore[no-untyped-def]
        count, size, rank = made.shape
        for a in range(count):
            for start in range(0, size, PLACES):
                i = min(start, size - PLACES)
                for first in range(0, rank, width):
                    j = min(first, rank - width)
                    tile(made[a], words, matrices[a], frame[a], inside, i, j)

    return compiled(kernel)


def _tile(width: int) -> Any:
    """`made[i:, j:] = words[:, i:].T @ matrix[:, j:] - frame[i:] @ inside[:, j:]` for a tile."""
    extending, types = (importlib.import_module(f"numba.{name}") for name in ("extending", "types"))

    def tile(context, made, words, matrix, frame, inside, i, j):  # type: ignore[no-untyped-def]
        def write(target: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            *given, row, column = values
            arrays = [_Array(target, builder, *own) for own in zip(signature.args, given, strict=False)]
            _write_tile(_Registers(builder, width, arrays[0].number), arrays, row, column)
            return target.get_dummy_value()

        return types.void(made, words, matrix, frame, inside, types.intp, types.intp), write

    return extending.intrinsic(tile)


def _write_tile(registers: _Registers, arrays: Sequence[_Array], i: Any, j: Any) -> None:
    """The instructions of a tile."""
    made, words, matrix, frame, inside = arrays
    builder = registers.builder
    places = [builder.add(i, i.type(k)) for k in range(PLACES)]
    sums = [registers.zero() for _ in places]
    with matrix.each_row() as word:
        row = registers.load(matrix.at(word, j))
        for total, place in zip(sums, places, strict=True):
            registers.add(total, builder.fadd, words.at(word, place), row)
    with inside.each_row() as bond:
        row = registers.load(inside.at(bond, j))
        for total, place in zip(sums, places, strict=True):
            registers.add(total, builder.fsub, frame.at(place, bond), row)
    for total, place in zip(sums, places, strict=True):
        registers.store(builder.load(total), made.at(place, j))


class _Array:
    """A matrix of a kernel, for its instructions."""

    def __init__(self, target: Any, builder: Any, kind: Any, value: Any) -> None:
        self._tools = importlib.import_module("numba.core.cgutils")
        self._target, self._builder, self._kind = target, builder, kind
        array = target.make_array(kind)(target, builder, value)
        self._data = array.data
        self._shape, self._strides = (
            self._tools.unpack_tuple(builder, part) for part in (array.shape, array.strides)
        )
        self.number = target.get_data_type(kind.dtype)

    def at(self, row: Any, column: Any) -> Any:
        """The address of an entry."""
        return self._tools.get_item_pointer2(
            self._target,
            self._builder,
            self._data,
            self._shape,
            self._strides,
            self._kind.layout,
            [row, column],
        )

    @contextmanager
    def each_row(self) -> Iterator[Any]:
        """A loop over its rows: the number of each."""
        count = self._shape[0]
        with self._tools.for_range(self._builder, count, intp=count.type) as loop:
            yield loop.index


class _Registers:
    """Some numbers at a time. Variables become registers when the instructions are compiled."""

    def __init__(self, builder: Any, width: int, number: Any) -> None:
        self.builder, self._ir = builder, importlib.import_module("llvmlite.ir")
        self._numbers, self._width = self._ir.VectorType(number, width), width

    def zero(self) -> Any:
        """A variable."""
        tools = importlib.import_module("numba.core.cgutils")
        made = tools.alloca_once(self.builder, self._numbers)
        self.builder.store(self._numbers([0.0] * self._width), made)
        return made

    def load(self, address: Any) -> Any:
        """The numbers that begin at an address."""
        found = self.builder.load(self.builder.bitcast(address, self._numbers.as_pointer()))
        found.align = ALIGNED
        return found

    def store(self, numbers: Any, address: Any) -> None:
        """Numbers written to an address and those that follow it."""
        self.builder.store(numbers, self.builder.bitcast(address, self._numbers.as_pointer())).align = ALIGNED

    def add(self, total: Any, operation: Any, address: Any, numbers: Any) -> None:
        """A number times some others, added to a variable or taken from it."""
        whole, undefined = self._ir.IntType(32), self._numbers(self._ir.Undefined)
        first = self.builder.insert_element(undefined, self.builder.load(address), whole(0))
        same = self.builder.shuffle_vector(
            first, undefined, self._ir.VectorType(whole, self._width)([0] * self._width)
        )
        product = self.builder.fmul(same, numbers, flags=("contract",))
        self.builder.store(operation(self.builder.load(total), product, flags=("contract",)), total)
