"""Tiles of products of matrices, for compiled kernels.

The sums for some rows and a few registers of columns stay in registers while both matrices are read. A
compiler does not find that in loops, so a tile is written in its own language.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hesse.tt.compiler import once

ALIGNED = 4
"""Bytes after which numbers may begin."""
ROWS = 8
"""At most so many rows of a tile."""


class Sizes(NamedTuple):
    """Those of a tile."""

    rows: int
    registers: int
    """For each row."""
    width: int
    """The numbers in a register."""


@once
def sizes(rows: int, columns: int, itemsize: int) -> Sizes:
    """Those of tiles that cover a matrix: equal ones, as large as there are registers for their sums."""
    is_wide = _has_wide_registers()
    width = min((64 if is_wide else 32) // itemsize, 2 ** (columns.bit_length() - 1))
    registers = _evenly(-(-columns // width), 4 if is_wide else 2)
    return Sizes(_evenly(rows, min(ROWS, (20 if is_wide else 12) // registers)), registers, width)


class DotSizes(NamedTuple):
    """Those of a square of inner products."""

    side: int
    width: int
    """The numbers in a register."""


@once
def dot_sizes(rows: int, itemsize: int) -> DotSizes:
    """Those of squares that cover all pairs of rows."""
    is_wide = _has_wide_registers()
    return DotSizes(_evenly(rows, 5 if is_wide else 3), (64 if is_wide else 32) // itemsize)


def _evenly(count: int, most: int) -> int:
    """The size of parts that are as few and as equal as can be."""
    return -(-count // -(-count // most))


def _has_wide_registers() -> bool:
    """Whether there are 32 registers of 64 bytes. Of those with 16 bytes two serve as one with 32."""
    binding = importlib.import_module("llvmlite.binding")
    return bool(binding.get_host_cpu_features().get("avx512f"))


def tile(size: Sizes) -> Any:
    """For kernels: `tile(made, a, b, c, d, i, j)` writes `a[:, i:].T @ b[:, j:] - c[i:] @ d[:, j:]` to
    `made[i:, j:]`, as much of it as a tile has.

    Columns of a tile that begin too late for a register are those at the end.
    """
    extending, types = (importlib.import_module(f"numba.{name}") for name in ("extending", "types"))

    def tile(context, made, a, b, c, d, i, j):  # type: ignore[no-untyped-def]
        def write(target: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            *given, row, column = values
            arrays = [_Array(target, builder, *own) for own in zip(signature.args, given, strict=False)]
            _write(_Registers(builder, size.width, arrays[0].number), size, arrays, row, column)
            return target.get_dummy_value()

        return types.void(made, a, b, c, d, types.intp, types.intp), write

    return extending.intrinsic(tile)


def _write(registers: _Registers, size: Sizes, arrays: Sequence[_Array], i: Any, j: Any) -> None:
    """The instructions of a tile."""
    made, a, b, c, d = arrays
    builder = registers.builder
    places = [builder.add(i, i.type(k)) for k in range(size.rows)]
    last = builder.sub(made.shape[1], i.type(size.width))
    columns = [registers.smaller(builder.add(j, i.type(k * size.width)), last) for k in range(size.registers)]
    sums = [[registers.zero() for _ in columns] for _ in places]
    for left, right, operation in ((a, b, builder.fadd), (c, d, builder.fsub)):
        with right.each_row() as k:
            row = [registers.load(right.at(k, column)) for column in columns]
            for place, totals in zip(places, sums, strict=True):
                factor = registers.everywhere(left.at(k, place) if left is a else left.at(place, k))
                for total, numbers in zip(totals, row, strict=True):
                    registers.add(total, operation, factor, numbers)
    for place, totals in zip(places, sums, strict=True):
        for column, total in zip(columns, totals, strict=True):
            registers.store(builder.load(total), made.at(place, column))


def dots(size: DotSizes) -> Any:
    """For kernels: `dots(total, rows, start, count, j, k)` adds inner products of rows from j on with rows
    from k on to `total[j:, k:]`, of `count` numbers of each row from `start` on. For rows behind the last one
    that is read again.
    """
    extending, types = (importlib.import_module(f"numba.{name}") for name in ("extending", "types"))

    def dots(context, total, rows, start, count, j, k):  # type: ignore[no-untyped-def]
        def write(target: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            total, rows = (
                _Array(target, builder, *own) for own in zip(signature.args[:2], values, strict=False)
            )
            start, count, j, k = values[2:]
            whole = builder.mul(builder.udiv(count, count.type(size.width)), count.type(size.width))
            end = builder.add(start, count)
            middle = builder.add(start, whole)
            for width, first, last in ((size.width, start, middle), (1, middle, end)):
                registers = _Registers(builder, width, total.number)
                _write_dots(registers, size.side, total, rows, (first, last), (j, k))
            return target.get_dummy_value()

        return types.void(total, rows, *(types.intp,) * 4), write

    return extending.intrinsic(dots)


def _write_dots(
    registers: _Registers,
    side: int,
    total: _Array,
    rows: _Array,
    ends: tuple[Any, Any],
    corner: tuple[Any, Any],
) -> None:
    """The instructions for some numbers of each row, as many at a time as a register has."""
    builder = registers.builder
    places = [[builder.add(first, first.type(n)) for n in range(side)] for first in corner]
    last = builder.sub(rows.shape[0], corner[0].type(1))
    left, right = ([registers.smaller(place, last) for place in same] for same in places)
    sums = [[registers.zero() for _ in right] for _ in left]
    with registers.each(*ends) as start:
        others = [registers.load(rows.at(place, start)) for place in right]
        for place, totals in zip(left, sums, strict=True):
            own = registers.load(rows.at(place, start))
            for sum_, numbers in zip(totals, others, strict=True):
                registers.add(sum_, builder.fadd, own, numbers)
    for place, totals in zip(places[0], sums, strict=True):
        for other, sum_ in zip(places[1], totals, strict=True):
            address = total.at(place, other)
            builder.store(builder.fadd(builder.load(address), registers.total(sum_)), address)


class _Array:
    """A matrix of a kernel, for its instructions."""

    def __init__(self, target: Any, builder: Any, kind: Any, value: Any) -> None:
        self._tools = importlib.import_module("numba.core.cgutils")
        self._target, self._builder, self._kind = target, builder, kind
        array = target.make_array(kind)(target, builder, value)
        self._data = array.data
        self.shape, self._strides = (
            self._tools.unpack_tuple(builder, part) for part in (array.shape, array.strides)
        )
        self.number = target.get_data_type(kind.dtype)

    def at(self, row: Any, column: Any) -> Any:
        """The address of an entry."""
        return self._tools.get_item_pointer2(
            self._target,
            self._builder,
            self._data,
            self.shape,
            self._strides,
            self._kind.layout,
            [row, column],
        )

    @contextmanager
    def each_row(self) -> Iterator[Any]:
        """A loop over its rows: the number of each."""
        count = self.shape[0]
        with self._tools.for_range(self._builder, count, intp=count.type) as loop:
            yield loop.index


class _Registers:
    """Some numbers at a time. Variables become registers when the instructions are compiled."""

    def __init__(self, builder: Any, width: int, number: Any) -> None:
        self.builder, self._ir = builder, importlib.import_module("llvmlite.ir")
        self._numbers, self._width = self._ir.VectorType(number, width), width

    def smaller(self, first: Any, second: Any) -> Any:
        """The smaller one of two whole numbers."""
        return self.builder.select(self.builder.icmp_signed("<", first, second), first, second)

    @contextmanager
    def each(self, start: Any, end: Any) -> Iterator[Any]:
        """A loop over numbers, a register at a time: where each begins."""
        tools = importlib.import_module("numba.core.cgutils")
        step = start.type(self._width)
        with tools.for_range_slice(self.builder, start, end, step, intp=start.type, inc=True) as (index, _):
            yield index

    def total(self, variable: Any) -> Any:
        """The sum of the numbers of a variable."""
        numbers = self.builder.load(variable)
        parts = [self.builder.extract_element(numbers, self._ir.IntType(32)(k)) for k in range(self._width)]
        while len(parts) > 1:
            parts = [self.builder.fadd(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

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

    def everywhere(self, address: Any) -> Any:
        """A number in all places of a register."""
        whole, undefined = self._ir.IntType(32), self._numbers(self._ir.Undefined)
        first = self.builder.insert_element(undefined, self.builder.load(address), whole(0))
        return self.builder.shuffle_vector(
            first, undefined, self._ir.VectorType(whole, self._width)([0] * self._width)
        )

    def add(self, total: Any, operation: Any, factor: Any, numbers: Any) -> None:
        """Products of numbers, added to a variable or taken from it."""
        product = self.builder.fmul(factor, numbers, flags=("contract",))
        self.builder.store(operation(self.builder.load(total), product, flags=("contract",)), total)
