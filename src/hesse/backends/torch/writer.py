"""Straight-line PyTorch source for a program."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from hesse.backends.kernels import Kernel
from hesse.backends.text import (
    Dialect,
    Labels,
    Matrices,
    matrices,
    placed_labels,
    tuple_text,
)
from hesse.backends.torch import elementwise, records
from hesse.backends.torch.lanes import Lanes, issued, kernels, steps
from hesse.backends.torch.machine import TorchMachine
from hesse.backends.torch.runtime import FUSED, STRIDED, TRANSFORMED
from hesse.backends.torch.sums import Sums
from hesse.backends.writer import FunctionalWriter
from hesse.ir import Axis, overlapping_labels
from hesse.plan.program import Combine, Contract, Instruction, Load, Placed, Program, Ref, Scale, View

TORCH = Dialect(
    "torch", permute="permute", total="torch.sum", concatenate="torch.cat", has_negative_steps=False
)


class TorchWriter(FunctionalWriter):
    """Writes a program over `torch`, for arrays on one device.

    Nothing that somebody else may see is written to: results can be differentiated by autograd.
    """

    dialect = TORCH
    frees = True

    def __init__(
        self,
        program: Program,
        dtype: torch.dtype,
        machine: TorchMachine,
        shared: Collection[str],
        device: torch.device,
        is_transformed: bool = False,
        is_fused: bool = False,
    ) -> None:
        super().__init__(program)
        self.dtype, self.machine, self.device, self.shared = dtype, machine, device, shared
        self.sums = Sums(program, is_fused)
        self.last = self.sums.last_uses()
        self.namespace |= {"torch": torch, "dtype": dtype, "device": device}
        self.namespace |= TRANSFORMED if is_transformed else FUSED if is_fused else STRIDED

    def instruction(self, k: Ref, item: Instruction) -> None:
        if k not in self.sums.inside:
            super().instruction(k, item)

    def read(self, k: Ref) -> Iterable[Ref]:
        return self.sums.read(k)

    def literal(self, value: np.ndarray) -> Any:
        dtype = None if value.dtype.kind in "iu" else self.dtype
        with torch.inference_mode(False):  # autograd may look into later calls
            return torch.tensor(value, dtype=dtype, device=self.device)

    def view(self, item: View, name: str, shape: tuple[int, ...]) -> str:
        text = _indexed(item, name, shape)
        return text or f"affine_view({name}, {_flat(item.axes, item.labels, item.ranges, shape)})"

    def contract(self, item: Contract, left: str, right: str) -> str:
        a, b, sizes = item.left_labels, item.right_labels, self.program.ranges(item)
        found = matrices(item, left, right, sizes, TORCH)
        if found is None and not item.labels:
            right = TORCH.permuted(right, tuple(b.index(label) for label in a))
            return f"torch.dot({left}.reshape(-1), {right}.reshape(-1))"
        if found is None or self._is_small(found, sizes):
            return TORCH.multiplied_and_summed(item, left, right, sizes)
        return found.finished(f"torch.matmul({found.first}, {found.second})", item, sizes, TORCH)

    def _is_small(self, product: Matrices, sizes: Mapping[int, int]) -> bool:
        """Whether products of matrices are so small that one kernel for all numbers takes less time."""
        if self.sums.is_fused:
            most = self.machine.fused_stack if product.batch else self.machine.fused_product
            return math.prod(sizes.values()) <= most
        entries = math.prod(sizes[label] for label in product.rows + product.columns)
        return bool(product.batch) and entries <= self.machine.small_matrix

    def combine(self, k: Ref, item: Combine) -> None:
        shape = self.program.shapes[k]
        dense = [term for term in item.terms if term.is_dense(shape)]
        placed = [(term, self.names[term.source]) for term in item.terms if not term.is_dense(shape)]
        size = tuple_text(shape)
        total = self.sums.text(dense, self.names, TORCH) if dense else None
        side_by_side = TORCH.concatenated(placed, shape) if placed and not dense else None
        if side_by_side:
            self.set(k, side_by_side)
            return
        if not item.terms:
            self.set(k, f"torch.zeros({size}, dtype=dtype, device=device)")
        elif not placed:
            self.set(k, f"({total}).expand{size}" if item.missing(shape) else str(total))
        else:
            names = ", ".join(dict.fromkeys(name for _, name in placed))
            begin = "new_zeros(" if total is None else f"{self._array(item, dense, shape)}({total}, "
            self.set(k, f"{begin}{size}, {names})")
        for term, name in placed:
            self.lines.append(self._added(f"t{k}", term, name, shape))

    def _array(self, item: Combine, dense: list[Placed], shape: tuple[int, ...]) -> str:
        """What makes an array that can be added to out of the dense terms: new memory, if it must be."""
        if len(dense) > 1:
            return "new_array" if item.missing(shape) else "own_array"
        (term,) = dense
        # autograd may need the result of a function later, but not that of a product or a sum; it needs
        # what others have read, and these may be views
        is_computed = isinstance(self.program.instructions[term.source], Contract | Combine | Scale)
        is_ours = is_computed and self.program.is_fresh(term.source) and self.sums.reads[term.source] == 1
        is_whole = term.factor == 1 and len(term.labels) == len(shape)
        return "own_array" if is_ours and is_whole else "new_array"

    def _added(self, target: str, term: Placed, name: str, shape: tuple[int, ...]) -> str:
        labels = placed_labels(term)
        value, factor = TORCH.aligned(name, term.labels, labels), f"{term.factor!r}"
        entries = _indexed(View(term.source, term.output, labels, term.ranges), target, shape)
        if entries is not None:
            return f"{entries}.add_({value}{'' if term.factor == 1 else f', alpha={factor}'})"
        text = f"{target}, {value}, {factor}, {_flat(term.output, labels, term.ranges, shape)}"
        overlapping = overlapping_labels(term.output, term.ranges)
        if not overlapping:
            return f"place({text})"
        return f"place_overlapping({text}, {tuple_text(labels.index(label) for label in overlapping)})"

    def result(self, ref: Ref) -> str:
        """A result; it shares no memory with literals, other results and inputs that are not `shared`."""
        item = self.program.instructions[ref]
        is_given = isinstance(item, Load) and item.name in self.shared
        if is_given or (self.program.is_fresh(ref) and self.program.results.count(ref) == 1):
            return self.names[ref]
        return f"{self.names[ref]}.clone()"

    def elementwise(self, name: str) -> Kernel:
        return elementwise.kernel(name)

    def record(self, name: str) -> Kernel:
        return records.kernel(name)


class LanedWriter(TorchWriter):
    """Writes a program over the streams of a GPU, to be captured as a graph."""

    frees = False  # lanes know what may be

    def written(self, arguments: Mapping[str, str]) -> list[str]:
        lines: dict[Ref, list[str]] = {}
        begin: list[str] = []
        for k, item in enumerate(self.program.instructions):
            self._write(k, item, arguments)
            is_first = isinstance(item, View) and not any(source in lines for source in self.read(k))
            if self.lines and is_first:  # of an argument: nothing runs
                begin += self.lines
            elif self.lines:
                lines[k] = self.lines
            self.lines = []
        reads = {k: [source for source in self.read(k) if source in lines] for k in lines}
        costs = {k: kernels(self.program, k, self.dtype.itemsize, self.machine) for k in lines}
        self.namespace["Lanes"] = Lanes
        count = self.machine.lanes
        found = steps(reads, costs, self.program.results, count)
        self.lines = [*begin, *issued(found, lines, self.names, count)]
        return [self.result(result) for result in self.program.results]


def _indexed(view: View, name: str, shape: tuple[int, ...]) -> str | None:
    """A view as an index expression; where a label occurs in several axes, as a diagonal of one."""
    axes, ranges, twins = [], list(view.ranges), dict[int, int]()
    first: set[int] = set()
    for axis in view.axes:
        names = {}
        for label in axis.labels():
            names[label] = len(ranges) if label in first else label
            if label in first:
                twins[len(ranges)] = label
                ranges.append(view.ranges[label])
        first.update(names)
        axes.append(axis.rename(names.__getitem__))
    labels = [*view.labels, *twins]
    text = TORCH.indexed(View(view.source, tuple(axes), tuple(labels), tuple(ranges)), name, shape)
    if text is None or not twins:
        return text
    for twin, label in twins.items():
        text += f".diagonal(0, {labels.index(label)}, {labels.index(twin)})"
        labels = [other for other in labels if other not in (label, twin)] + [label]
    return TORCH.permuted(text, tuple([labels.index(label) for label in view.labels]))


def _flat(axes: tuple[Axis, ...], labels: Labels, ranges: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Start, strides of labels and their ranges, by places in the flattened array."""
    steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    start = sum(axis.offset * step for axis, step in zip(axes, steps, strict=True))
    strides = [
        sum(dict(axis.terms).get(label, 0) * step for axis, step in zip(axes, steps, strict=True))
        for label in labels
    ]
    return f"{start}, {tuple_text(strides)}, {tuple_text(ranges[label] for label in labels)}"
