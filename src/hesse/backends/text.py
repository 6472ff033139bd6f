"""Pieces of Python source over an array library: what all targets write in the same way.

Only the few words of a `Dialect` differ between the libraries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from hesse.ir import Axis
from hesse.plan.program import Contract, Placed, View

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Dialect:
    """How an array library spells what all of them have."""

    module: str
    """The name of the library in the source."""
    permute: str
    """The method that permutes axes."""
    total: str
    """The function that sums over axes."""
    has_negative_steps: bool = True
    """Whether slices may run backwards."""

    def permuted(self, name: str, order: tuple[int, ...]) -> str:
        """`name` with its axes in another order."""
        if order == tuple(range(len(order))):
            return name
        return f"{name}.T" if order == (1, 0) else f"{name}.{self.permute}{tuple_text(order)}"

    def aligned(self, name: str, labels: Labels, output: Labels) -> str:
        """`name` with one axis for each output label, new axes where it has none."""
        if labels == output:
            return name
        present = tuple(label for label in output if label in labels)
        text = self.permuted(name, tuple(labels.index(label) for label in present))
        first = next((k for k, label in enumerate(output) if label in labels), len(output))
        if all(label in labels for label in output[first:]):  # missing leading axes broadcast by themselves
            return text
        index = ", ".join(":" if label in labels else "None" for label in output[first:])
        return f"{text}[{index}]"

    def indexed(self, view: View, name: str, shape: tuple[int, ...]) -> str | None:
        """A view as an index expression or a reshape, where it is one."""
        used = [label for axis in view.axes for label in axis.labels()]
        if len(set(used)) == len(used) and all(len(axis.terms) <= 1 for axis in view.axes):
            if not self.has_negative_steps and any(stride < 0 for a in view.axes for _, stride in a.terms):
                return None
            index = [index_text(axis, view.ranges, size) for axis, size in zip(view.axes, shape, strict=True)]
            text = name if all(entry == ":" for entry in index) else f"{name}[{', '.join(index)}]"
            return self.permuted(text, tuple(used.index(label) for label in view.labels))
        digits = _digits(view, shape)
        if digits is None:
            return None
        split = f"{name}.reshape{tuple_text(view.ranges[label] for label in digits)}"
        return self.permuted(split, tuple(digits.index(label) for label in view.labels))

    def summed(self, name: str, positions: tuple[int, ...]) -> str:
        """The sum over axes."""
        return f"{self.total}({name}, {positions[0] if len(positions) == 1 else tuple_text(positions)})"

    def multiplied(self, item: Contract, left: str, right: str) -> str:
        """A product that is not summed."""
        a, b, output = item.left_labels, item.right_labels, item.labels
        return f"{self.aligned(left, a, output)} * {self.aligned(right, b, output)}"

    def einsum(self, item: Contract, left: str, right: str) -> str:
        """A product by its labels."""
        tables = list(item.left_labels), list(item.right_labels), list(item.labels)
        return f"{self.module}.einsum({left}, {tables[0]}, {right}, {tables[1]}, {tables[2]})"

    def multiplied_and_summed(self, item: Contract, left: str, right: str) -> str:
        """A product that is formed first, its axes as they lie in the larger operand, and summed then."""
        largest = max(item.left_labels, item.right_labels, key=len)
        whole = (*largest, *[label for label in item.labels if label not in largest])
        places = tuple([k for k, label in enumerate(whole) if label not in item.labels])
        kept = [label for label in whole if label in item.labels]
        total = self.summed(self.multiplied(replace(item, labels=whole), left, right), places)
        return self.permuted(total, tuple([kept.index(label) for label in item.labels]))

    def part(self, term: Placed, name: str, order: Labels | None = None) -> str:
        """A dense term without its sign, its axes in an order."""
        labels = dense_labels(term)
        part = self.aligned(name, term.labels, labels if order is None else tuple(labels[k] for k in order))
        return part if abs(term.factor) == 1 else f"{abs(term.factor)!r} * {part}"

    def dense_sum(self, terms: Iterable[tuple[Placed, str]]) -> str:
        """Dense terms added up, beginning with a positive one."""
        ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)
        parts = [("-" if term.factor < 0 else "+", self.part(term, name)) for term, name in ordered]
        text = " ".join(f"{sign} {part}" for sign, part in parts)
        return f"-{text[2:]}" if text.startswith("- ") else text[2:]


def tuple_text(items: Iterable[object]) -> str:
    """A tuple literal."""
    parts = [str(item) for item in items]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def index_text(axis: Axis, ranges: tuple[int, ...], size: int) -> str:
    """The slice or the position of an axis with at most one label."""
    if not axis.terms:
        return str(axis.offset)
    ((label, stride),) = axis.terms
    first, last = axis.offset, axis.offset + stride * (ranges[label] - 1)
    if stride > 0:
        start, stop = str(first) if first else "", "" if last + stride >= size else str(last + 1)
        return f"{start}:{stop}" + (f":{stride}" if stride > 1 else "")
    start = "" if first == size - 1 else str(first)
    stop = "" if last + stride < 0 else str(last - 1)
    return f"{start}:{stop}:{stride}"


def affine_text(axes: tuple[Axis, ...], labels: Labels, ranges: tuple[int, ...]) -> str:
    """Offsets, strides[label][axis] and sizes of the labels, as three arguments."""
    strides = tuple_text(tuple_text(dict(axis.terms).get(label, 0) for axis in axes) for label in labels)
    offsets, shape = tuple_text(axis.offset for axis in axes), tuple_text(ranges[label] for label in labels)
    return f"{offsets}, {strides}, {shape}"


def _digits(view: View, shape: tuple[int, ...]) -> list[int] | None:
    """The labels of a view that only splits axes, `n*i + j` into i and j, in the order of the axes."""
    digits: list[int] = []
    for axis, size in zip(view.axes, shape, strict=True):
        step = size
        for label, stride in sorted(axis.terms, key=lambda term: -term[1]):
            if stride * view.ranges[label] != step:
                return None
            step = stride
            digits.append(label)
        if axis.offset or step != 1:
            return None
    return digits if len(set(digits)) == len(digits) == len(view.labels) else None


class Matrices(NamedTuple):
    """A contraction as a product of (stacks of) matrices: the operands, and how to read the product.

    The labels of each side fall into `batch`, `rows`, `summed` and `columns`; `drop` removes an axis that
    was added to a vector, and `produced` are the labels of the product in its order.
    """

    first: str
    second: str
    drop: str
    batch: list[int]
    rows: list[int]
    summed: list[int]
    columns: list[int]

    @property
    def produced(self) -> Labels:
        """The labels of the product, in its order."""
        return (*self.batch, *self.rows, *self.columns)

    def finished(self, text: str, item: Contract, sizes: Mapping[int, int], dialect: Dialect) -> str:
        """The product of both operands with its axes as asked for."""
        text += self.drop
        if len(self.rows) > 1 or len(self.columns) > 1:
            text += f".reshape{tuple_text(sizes[label] for label in self.produced)}"
        return dialect.permuted(text, tuple(self.produced.index(label) for label in item.labels))


def matrices(
    item: Contract, left: str, right: str, sizes: Mapping[int, int], dialect: Dialect
) -> Matrices | None:
    """A contraction as a product of matrices; None if it is one of numbers, or of vectors."""
    a, b, output = item.left_labels, item.right_labels, item.labels
    summed = [label for label in a if label in b and label not in output]
    batch = [label for label in output if label in a and label in b]
    rows = [label for label in output if label in a and label not in b]
    columns = [label for label in output if label in b and label not in a]
    if not rows and not columns:
        return None
    if rows and columns and output.index(columns[0]) < output.index(rows[0]):
        left, right, a, b, rows, columns = right, left, b, a, columns, rows
    first = _matrix(left, a, [batch, rows, summed], sizes, dialect)
    second = _matrix(right, b, [batch, summed, columns], sizes, dialect)
    drop = ""
    if not rows and batch:
        first, drop = f"{first}[..., None, :]", "[..., 0, :]"
    elif not columns and batch:
        second, drop = f"{second}[..., None]", "[..., 0]"
    return Matrices(first, second, drop, batch, rows, summed, columns)


def _matrix(
    name: str, labels: Labels, groups: list[list[int]], sizes: Mapping[int, int], dialect: Dialect
) -> str:
    """`name` as a stack of matrices: batch axes, then each other group that is not empty as one axis."""
    batch, *others = groups
    first, second = others
    if not batch and first and second and list(labels) == second + first:  # no copy, whatever is merged
        shape = (math.prod(sizes[label] for label in second), math.prod(sizes[label] for label in first))
        merged_name = name if len(labels) == 2 else f"{name}.reshape{tuple_text(shape)}"
        return f"{merged_name}.T"
    order = [label for group in groups for label in group]
    text = dialect.permuted(name, tuple(labels.index(label) for label in order))
    if all(len(group) <= 1 for group in others):
        return text
    merged = [sizes[label] for label in batch]
    merged += [math.prod(sizes[label] for label in group) for group in others if group]
    return f"{text}.reshape{tuple_text(merged)}"


def dense_labels(term: Placed) -> Labels:
    """The labels of the result, for a dense term."""
    return tuple(axis.label for axis in term.output)


def placed_labels(term: Placed) -> Labels:
    """The labels of the places that a term goes to, in order of appearance."""
    return tuple(dict.fromkeys(label for axis in term.output for label in axis.labels()))
