"""NumPy: a program becomes readable straight-line source that saves memory traffic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, assert_never

import numpy as np

from hesse.backends.numpy import elementwise, records
from hesse.backends.numpy.columns import computed_from, is_narrow
from hesse.backends.numpy.machine import NumpyMachine
from hesse.backends.numpy.orders import Order, agreed, seen, viewed
from hesse.backends.numpy.parts import FUNCTIONS
from hesse.backends.numpy.program import IN_PLACE
from hesse.backends.numpy.repeated import Repeated
from hesse.backends.numpy.runtime import affine_view, einsum, in_slices, place_overlapping, symmetric_product
from hesse.backends.numpy.source import (
    NUMPY,
    Destination,
    Lying,
    combine_source,
    contract_source,
    is_written_contiguous,
    loop_order,
    product_source,
    view_source,
)
from hesse.backends.numpy.spaces import Spaces, aligned_arrays
from hesse.backends.text import dense_labels, tuple_text
from hesse.backends.writer import Writer
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Count,
    Instruction,
    Literal,
    Load,
    Program,
    Reduce,
    Ref,
    Scale,
    View,
    sources,
)
from hesse.plan.sliced import SlicedProgram, Slices

SMALL_PART = 256
"""Entries of a part of an array that the method `dot` copies in no time."""
WRITTEN = Contract | Scale | CallMap | Combine
"""Instructions that may write to an array that is done with."""


class NumpyWriter(Writer):
    """Writes the lines of a program, instruction by instruction, and keeps track of memory.

    Large arrays that nobody reads any more are written over, in place or by a later instruction of the
    same shape and order in memory: touching new memory costs more than the arithmetic.
    """

    dialect = NUMPY
    program: SlicedProgram

    def __init__(
        self,
        program: SlicedProgram,
        dtype: np.dtype[Any],
        machine: NumpyMachine,
        results_in_order: bool,
        shared: Collection[str] = (),
        columns: Collection[str] = (),
        has_spaces: bool = False,
    ) -> None:
        super().__init__(program)
        self.dtype, self.machine = dtype, machine
        self.namespace |= {
            **FUNCTIONS,
            "np": np,
            "dtype": dtype,
            "affine_view": affine_view,
            "aligned_arrays": aligned_arrays,
            "einsum": einsum,
            "in_slices": in_slices,
            "place_overlapping": place_overlapping,
            "symmetric_product": partial(symmetric_product, blocks=machine.symmetric_blocks),
        }
        self.last, self.last_reads = program.last_uses(), program.last_reads()
        self.results_in_order, self.shared = results_in_order, shared
        self.final = _final(program) if results_in_order else set()
        self.buffers: dict[tuple[int, ...], list[Ref]] = {}
        """Arrays that nobody reads any more, by their sizes in the order of memory."""
        self.spaces = Spaces(program, machine if has_spaces else None)
        self.dead: list[str] = []
        """Names of arrays that the current instruction writes over."""
        self.orders: dict[Ref, Order] = {}
        """The order in memory of values of which it is known."""
        self.given: set[Ref] = set()
        """The results so far: those that are asked for again are copied."""
        self.columns = columns
        """Inputs that are copied column by column."""
        self.by_columns = computed_from(program, columns)
        """Values that may lie in memory as those do."""
        self.repeated = Repeated(program)
        self.wanted: Counter[tuple[int, ...]] = Counter(
            tuple(sorted(shape))
            for k, (item, shape) in enumerate(zip(program.instructions, program.shapes, strict=True))
            if isinstance(item, WRITTEN) and not program.is_sliced(k)
        )

    def written(self, arguments: Mapping[str, str]) -> list[str]:
        names = [argument for label, argument in arguments.items() if label in self.columns]
        self.lines += [f"{name} = np.asfortranarray({name})" for name in names]
        for k, item in enumerate(self.program.instructions):
            if isinstance(item, Load) and item.name in self.columns:
                self.orders[k] = tuple(reversed(range(len(self.program.shapes[k]))))
        results = super().written(arguments)
        self.lines[:0] = self.spaces.lines()
        return results

    def literal(self, value: np.ndarray) -> Any:
        return value if value.dtype.kind in "iu" else np.asarray(value, self.dtype)

    def instruction(self, k: Ref, item: Instruction) -> None:
        slices = self.program.slices
        if slices is not None and self.program.is_sliced(k):
            if k + 1 == slices.stop:
                self._in_slices(slices)
            return
        if isinstance(item, WRITTEN):
            self.wanted[tuple(sorted(self.program.shapes[k]))] -= 1
        spare = {s for s in sources(item) if self.last_reads[s] <= k and self.program.is_fresh(s)}
        taken = self._instruction(item, k, spare)
        if taken is not None:
            self.spaces.passed(taken, k)
        self._release(item, k, spare - {taken})

    def _in_slices(self, slices: Slices) -> None:
        """Call the programs of the slices, and give back what is read there last."""
        functions = self.slice_functions(
            slices, lambda program: NumpyWriter(program, self.dtype, self.machine, self.results_in_order)
        )
        read = tuple_text(self._along_first_axis(ref) for ref, _ in slices.reads)
        made = ", ".join(self.names[ref] for ref, _ in slices.outputs)
        cuts = [tuple_text(cut for _, cut in part) for part in (slices.reads, slices.outputs)]
        order = "C" if self.results_in_order else "K"
        where = f"range(0, {slices.length}, {slices.rows})"
        self.lines.append(
            f"{made}, = in_slices(({functions}), {where}, {read}, {cuts[0]}, {cuts[1]}, {order!r})"
        )
        done = dict.fromkeys(ref for ref, _ in slices.reads if self.program.is_sliced(self.last[ref]))
        dead = [self.names[ref] for ref in done if self._is_large(ref)]
        if dead:
            self.lines.append(f"del {', '.join(dead)}")

    def _along_first_axis(self, ref: Ref) -> str:
        """A matrix with a short last axis (points and their coordinates) by columns: loops run along them."""
        shape = self.program.shapes[ref]
        is_narrow = len(shape) == 2 and shape[1] < self.machine.short_axis < shape[0]
        return f"np.asfortranarray({self.names[ref]})" if is_narrow else self.names[ref]

    def _release(self, item: Instruction, k: Ref, spare: set[Ref]) -> None:
        """Keep the memory of values that are done with for later, or give it back."""
        dead, self.dead = self.dead, []
        for source in dict.fromkeys(sources(item)):
            if self.last[source] != k or not self._is_large(source):
                continue
            kept = self.buffers.setdefault(self._sizes_in(source, self._order(source)), [])
            wanted = self.wanted[tuple(sorted(self.program.shapes[source]))]
            if source in spare & self.orders.keys() and len(kept) < wanted:
                kept.append(source)
            else:
                dead.append(self.names[source])
        if dead and k + 1 < len(self.program.instructions):
            self.lines.append(f"del {', '.join(dead)}")

    def _is_large(self, ref: Ref) -> bool:
        is_large = math.prod(self.program.shapes[ref]) > self.machine.large_array
        return is_large and not isinstance(self.program.instructions[ref], Load | Literal)

    def _order(self, ref: Ref) -> Order:
        """The order of a value in memory; that of its axes, where nothing else is known."""
        return self.orders.get(ref, tuple(range(len(self.program.shapes[ref]))))

    def _sizes_in(self, ref: Ref, order: Order) -> tuple[int, ...]:
        return tuple([self.program.shapes[ref][axis] for axis in order])

    def _buffer(self, k: Ref, order: Order) -> str | None:
        """An array of the shape of value k, in an order in memory, that nobody reads any more."""
        sizes, places = self._sizes_in(k, order), tuple(map(int, np.argsort(order)))
        kept = self.buffers.get(sizes, [])
        ref = next((ref for ref in reversed(kept) if self.spaces.may_pass(ref, k)), None)
        if ref is None:
            name = self.spaces.new(k, sizes)
            return None if name is None else NUMPY.permuted(name, places)
        kept.remove(ref)
        self.spaces.passed(ref, k)
        self.dead.append(self.names[ref])  # from now on the array is known as value k only
        own = self._order(ref)
        return NUMPY.permuted(self.names[ref], tuple([own[place] for place in places]))

    def result(self, ref: Ref) -> str:
        """A result; it shares no memory with literals, other results and inputs that are not `shared`."""
        item = self.program.instructions[ref]
        is_given = isinstance(item, Load) and item.name in self.shared
        is_repeated = ref in self.given
        self.given.add(ref)
        if is_given or (self.program.is_fresh(ref) and not is_repeated):
            is_turned = self.results_in_order and ref in self.by_columns
            return f"np.ascontiguousarray({self.names[ref]})" if is_turned else self.names[ref]
        return f"np.array({self.names[ref]}, order={'C' if self.results_in_order else 'K'!r})"

    def _instruction(self, item: Instruction, k: Ref, spare: set[Ref]) -> Ref | None:
        """Write an instruction; the answer is the value whose memory it has taken over."""
        match item:
            case View():
                self.set(k, view_source(item, self.names[item.source], self.program.shapes[item.source]))
                self.orders[k] = viewed(item, self._order(item.source))
            case Reduce():
                self.set(k, self._summed(item))
            case Scale():
                return self._scale(item, k, spare)
            case Contract():
                return self._contract(item, k, spare)
            case Combine():
                return self._combine(item, k, spare)
            case CallMap():
                return self._map(item, k, spare)
            case CallApply():
                return self._apply(item, k, spare)
            case Load() | Literal() | Count():
                raise AssertionError("leaves have no lines")
            case _:
                assert_never(item)
        return None

    def _summed(self, item: Reduce) -> str:
        """A sum over axes; short vectors, and rows of matrices, are multiplied with ones in less time."""
        name, shape = self.names[item.source], self.program.shapes[item.source]
        length = math.prod([shape[k] for k in item.positions])
        is_short = len(item.positions) == 1 and 0 < length <= self.machine.longest_row
        if len(shape) > 2 or not is_short or not self._is_plain(item.source):
            return NUMPY.summed(name, item.positions)
        ones = f"ones_{length}"
        self.namespace[ones] = np.ones(length, self.dtype)
        return f"{ones}.dot({name})" if item.positions == (0,) else f"{name}.dot({ones})"

    def _is_plain(self, ref: Ref) -> bool:
        """Whether a value is small, or a whole array of our own: of others the method `dot` makes a copy."""
        owner = self.program.owner(ref)
        entries, whole = (math.prod(self.program.shapes[k]) for k in (ref, owner))
        if entries < whole:
            return entries <= SMALL_PART
        return self.program.is_fresh(owner) or entries <= self.machine.large_array

    def _take_over(self, k: Ref, source: Ref, text: str, order: Order, update: str) -> Ref:
        """Value k is the array of `source`, changed in place."""
        self.set(k, text)
        self.lines.append(f"t{k} {update}")
        self.orders[k] = order
        return source

    def _scale(self, item: Scale, k: Ref, spare: set[Ref]) -> Ref | None:
        source, order = self.names[item.source], self._order(item.source)
        number, comment = self._number(item, k)
        if item.source in spare:
            return self._take_over(k, item.source, source, order, f"*= {number}{comment}")
        buffer = self._buffer(k, order)
        if buffer is not None:
            self.set(k, f"np.multiply({source}, {number}, out={buffer}){comment}")
        else:
            self.set(k, f"-{source}" if item.factor == -1 else f"{number} * {source}{comment}")
        self.orders[k] = order
        return None

    def _number(self, item: Scale, k: Ref) -> tuple[str, str]:
        """A factor, and what it is: NumPy multiplies by an array without axes sooner than by a float."""
        if not self.program.shapes[k] or abs(item.factor) > np.finfo(self.dtype).max:
            return repr(item.factor), ""
        self.namespace[f"c{k}"] = np.asarray(item.factor, self.dtype)
        return f"c{k}", f"  # {item.factor!r}"

    def _map(self, item: CallMap, k: Ref, spare: set[Ref]) -> Ref | None:
        function = self.namespace[item.name] = elementwise.kernel(item.name)
        operands = [self.names[source] for source in item.sources]
        own = next((s for s in item.sources if s in spare and self._is_large(s)), None)
        if not isinstance(function, np.ufunc):
            own = None
        elif own is not None:
            operands.append(f"out={self.names[own]}")
            self.orders[k] = self._order(own)
        else:
            order = self.orders[k] = agreed(map(self._order, item.sources), len(self.program.shapes[k]))
            buffer = self._buffer(k, order)
            operands += [] if buffer is None else [f"out={buffer}"]
        self.set(k, f"{item.name}({', '.join(operands)})")
        return own

    def _apply(self, item: CallApply, k: Ref, spare: set[Ref]) -> Ref | None:
        self.namespace[item.name] = records.kernel(item.name)
        operands = [self.parameters(k, item), *(self.names[source] for source in item.sources)]
        own = next((s for s in item.sources if s in spare and self._is_large(s)), None)
        if item.name not in IN_PLACE:
            own = None
        elif own is not None:
            operands.append(f"out={self.names[own]}")
            self.orders[k] = self._order(own)
        self.set(k, f"{item.name}({', '.join(operands)})")
        return own

    def _contract(self, item: Contract, k: Ref, spare: set[Ref]) -> Ref | None:
        left, right = self.names[item.left], self.names[item.right]
        sizes = self.program.ranges(item)
        sides = (item.left, item.left_labels), (item.right, item.right_labels)
        orders = [seen(self._order(ref), labels, item.labels) for ref, labels in sides]
        if not set(item.left_labels) & set(item.right_labels) <= set(item.labels):
            in_order = tuple(range(len(item.labels)))
            innermost = {labels[self._order(ref)[-1]] for ref, labels in sides if labels}
            lying = Lying(innermost, all(self._is_plain(ref) for ref, _ in sides))
            text, produced = contract_source(
                item, left, right, sizes, lambda: self._buffer(k, in_order), lying, self.machine
            )
            self.set(k, text)
            if produced is None:
                self.orders[k] = agreed(orders, len(in_order))
            else:
                self.orders[k] = seen(in_order, produced, item.labels)
            return None
        item, left, right, lines = self.repeated.factors(item, self.program.shapes[k], orders, self.names)
        self.lines += lines
        others = (right, item.right_labels), (left, item.left_labels)
        for (ref, labels), order, other in zip(sides, orders, others, strict=True):
            if ref in spare and item.left != item.right and len(labels) == len(item.labels) > 0:
                text = NUMPY.permuted(self.names[ref], tuple(labels.index(label) for label in item.labels))
                factor = NUMPY.aligned(*other, item.labels)
                return self._take_over(k, ref, text, order, f"*= {factor}")
        loops = None if k in self.final else loop_order(item.labels, sizes, self.machine)
        if loops is None:
            self.orders[k] = agreed(orders, len(item.labels))
            self.set(k, product_source(item, left, right, None, self._buffer(k, self.orders[k])))
        else:
            self.orders[k] = tuple([item.labels.index(label) for label in loops])
            self.set(k, product_source(item, left, right, loops, None))
        return None

    def _combine(self, item: Combine, k: Ref, spare: set[Ref]) -> Ref | None:
        owners = [self.program.owner(term.source) for term in item.terms]
        readers = Counter(owners)  # what is changed in place must not be read by another term afterwards
        shape = self.program.shapes[k]
        free = {j for j, term in enumerate(item.terms) if term.source in spare and readers[owners[j]] == 1}
        by_columns = k in self.by_columns and k not in self.final and is_narrow(shape, self.machine)
        target = Destination(f"t{k}", shape, self.dtype.itemsize, k in self.final, by_columns, self.machine)
        names = [self.names[term.source] for term in item.terms]
        orders = [
            seen(self._order(term.source), term.labels, dense_labels(term)) if term.is_dense(shape) else None
            for term in item.terms
        ]
        order, dense = tuple(range(len(shape))), [found for found in orders if found is not None]
        is_contiguous = is_written_contiguous(item, target)
        if dense and not is_contiguous:
            order = agreed(dense, len(shape))
        lines, own, loops = combine_source(item, target, names, free, lambda: self._buffer(k, order))
        self.lines += lines
        self.orders[k] = loops or order
        if own is None:
            return None
        if (taken := orders[own]) is not None and not is_contiguous:
            self.orders[k] = taken
        return item.terms[own].source


def _final(program: Program) -> set[Ref]:
    """The values that are results, or become results by adding to them."""
    final = set(program.results)
    for k in reversed(range(len(program.instructions))):
        item = program.instructions[k]
        if k in final and isinstance(item, Combine | Scale):
            final.update(source for source in sources(item) if program.shapes[source] == program.shapes[k])
    return final
