"""Pure JAX source for a program: XLA fuses what NumPy is told line by line."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from hesse.backends.jax import elementwise, records
from hesse.backends.jax.convolutions import convolutions, convolved, unread
from hesse.backends.jax.layers import axis_of_layers, place_in_layers
from hesse.backends.jax.loops import in_slices
from hesse.backends.jax.machine import JaxMachine
from hesse.backends.jax.picked import picked_products
from hesse.backends.jax.products import added_products, contracted, summed
from hesse.backends.jax.runtime import Term, affine_view, box, place, place_all, place_into
from hesse.backends.jax.small import is_small, small_products, summed_in_one_loop
from hesse.backends.jax.windows import summed_windows, windows_of
from hesse.backends.kernels import Kernel
from hesse.backends.text import Dialect, affine_text, placed_labels, tuple_text
from hesse.backends.writer import FunctionalWriter, Terms
from hesse.plan.program import Contract, Instruction, Placed, Ref, View, sources
from hesse.plan.sliced import SlicedProgram, Slices

JAX = Dialect(
    "jnp", permute="transpose", total="summed", concatenate="jnp.concatenate", has_negative_steps=False
)


class JaxWriter(FunctionalWriter):
    """Writes a program over `jax.numpy`."""

    dialect = JAX
    program: SlicedProgram

    def __init__(self, program: SlicedProgram, dtype: np.dtype[Any], machine: JaxMachine) -> None:
        super().__init__(program)
        self.dtype, self.machine = dtype, machine
        self.namespace |= {"jnp": jnp, "dtype": dtype, "in_slices": in_slices}
        self.namespace |= {"added_products": added_products, "contracted": contracted, "convolved": convolved}
        self.namespace |= {"small_products": small_products, "summed": summed}
        self.windows = {
            k: ref for k, ref in windows_of(program, machine).items() if not self._in_slice(k, ref)
        }
        on_processor = jax.default_backend() == "cpu"
        self.short_sum = machine.short_sum if on_processor else machine.short_device_sum
        is_fast = on_processor and dtype.itemsize == 8
        found = convolutions(program, machine.few_features if is_fast else 0, machine.most_pieces)
        self.convolutions = {
            k: each
            for k, each in found.items()
            if k not in self.windows and not self._in_slice(k, each.value, *sources(program.instructions[k]))
        }
        self.unread = unread(program, self.convolutions) | set(self.windows.values())
        self.stored = picked_products(program) if on_processor else set[Contract]()
        for function in (affine_view, place, place_all, place_in_layers, place_into, summed_windows):
            self.namespace[function.__name__] = partial(function, most_pieces=machine.most_pieces)

    def _in_slice(self, *refs: Ref) -> bool:
        return any(map(self.program.is_sliced, refs))

    def literal(self, value: np.ndarray) -> Any:
        return value if value.dtype.kind in "iu" else np.asarray(value, self.dtype)

    def instruction(self, k: Ref, item: Instruction) -> None:
        slices = self.program.slices
        if k in self.windows:
            self.set(k, self._over_windows(cast("Contract", item), self.windows[k]))
        elif k in self.convolutions:
            found = self.convolutions[k]
            arrays = f"{self.names[found.value]}, {self.names[found.kernel]}"
            self.set(k, f"convolved({arrays}, {found.arguments(self.program.shapes[k])})")
        elif slices is None or not self.program.is_sliced(k):
            if k not in self.unread:
                super().instruction(k, item)
        elif k + 1 == slices.stop:
            self._in_slices(slices)

    def _in_slices(self, slices: Slices) -> None:
        functions = self.slice_functions(slices, lambda program: JaxWriter(program, self.dtype, self.machine))
        made, read = (
            ", ".join(self.names[ref] for ref, _ in part) for part in (slices.outputs, slices.reads)
        )
        cuts = [tuple_text(cut for _, cut in part) for part in (slices.reads, slices.outputs)]
        where = f"range(0, {slices.length}, {slices.rows})"
        self.lines.append(f"{made}, = in_slices(({functions}), {where}, ({read},), {cuts[0]}, {cuts[1]})")

    def _over_windows(self, item: Contract, ref: Ref) -> str:
        view = cast("View", self.program.instructions[ref])
        sides = [(item.left, item.left_labels), (item.right, item.right_labels)]
        (_, own), (other, others) = sides if ref == item.left else sides[::-1]
        windows = f"({self.names[view.source]}, {affine_text(view.axes, view.labels, view.ranges)})"
        return f"summed_windows({windows}, {own}, {self.names[other]}, {others}, {item.labels})"

    def contract(self, item: Contract, left: str, right: str) -> str:
        sizes = self.program.ranges(item)
        both = set(item.left_labels) & set(item.right_labels)
        summed = math.prod(sizes[label] for label in both - set(item.labels))
        entries = math.prod(sizes[label] for label in set(item.labels) - both)
        is_plain = both.symmetric_difference(item.labels) == {*item.left_labels, *item.right_labels}
        is_short = summed <= self.short_sum and item not in self.stored
        arguments = f"{left}, {right}, {item.left_labels}, {item.right_labels}, {item.labels}"
        if is_plain and is_short and entries >= self.machine.long_result:
            return f"added_products({arguments})"
        has_digits = self.dtype.itemsize >= 4  # else `jax.numpy` sums in a longer type
        if has_digits and item not in self.stored and summed_in_one_loop(item, sizes, self.machine):
            return f"small_products({arguments})"
        if is_short or is_small(item, sizes, self.machine) or not item.labels:
            return JAX.multiplied_and_summed(item, left, right, sizes)
        tables = list(item.left_labels), list(item.right_labels), list(item.labels)
        return f"contracted({left}, {tables[0]}, {right}, {tables[1]}, {tables[2]})"

    def split(self, placed: Terms, shape: tuple[int, ...]) -> tuple[Terms, Terms]:
        """Many terms at borders are added where they are: else all of them are looked at for each entry.

        In a small result it takes longer to start so many kernels.
        """
        if math.prod(shape) * len(placed) <= self.machine.few_looks:
            return placed, []
        most = math.prod(shape) * self.machine.local_share
        local = [each for each in placed if _box_entries(each[0]) <= most]
        if len(local) < self.machine.many_local:
            return placed, []
        return [each for each in placed if each not in local], local

    def add(self, k: Ref, local: Terms, shape: tuple[int, ...]) -> None:
        """Terms in layers that fill the sum are one loop; others change the few entries that they have."""
        terms = [_where(term) for term, _ in local]
        limits = self.machine.layered_share, self.machine.most_layers
        axis = axis_of_layers(terms, shape, *limits) if terms else None
        if axis is not None:
            places = ", ".join(f"({self.places(*each)})" for each in local)
            self.set(k, f"place_in_layers(t{k}, {axis}, {places})")
            return
        for each in local:
            self.set(k, f"place_into(t{k}, {self.places(*each)})")

    def placed(self, terms: Terms, shape: tuple[int, ...]) -> list[str]:
        """In large results terms on the same diagonals are added up first; in others, all of them.

        Added to a dense one at a time they would keep XLA from computing that in vectors.
        """
        if not terms or math.prod(shape) < self.machine.large_result:
            parts = super().placed(terms, shape)
            return [f"({' + '.join(parts)})"] if len(parts) > 1 else parts
        places = ", ".join(f"({self.places(*each)})" for each in terms)
        return [f"place_all({tuple_text(shape)}, {places})"]

    def elementwise(self, name: str) -> Kernel:
        return elementwise.kernel(name)

    def record(self, name: str) -> Kernel:
        return records.kernel(name)


def _where(term: Placed) -> Term:
    """Where a term goes, as the functions that place it are told."""
    labels = placed_labels(term)
    strides = tuple([tuple([dict(axis.terms).get(label, 0) for axis in term.output]) for label in labels])
    ranges = tuple([term.ranges[label] for label in labels])
    return Term(0.0, tuple([axis.offset for axis in term.output]), strides, ranges)


def _box_entries(term: Placed) -> int:
    """The entries of the box of the result that holds a term."""
    return math.prod(stop - first for first, stop in zip(*box(_where(term)), strict=True))
