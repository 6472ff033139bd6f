"""Pieces of Python source over an array library: what all targets write in the same way.

Only the few words of a `Dialect` differ between the libraries.
"""

from __future__ import annotations

import itertools
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
    concatenate: str
    """The function that puts arrays one after the other along an axis."""
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
        """A view as an index expression, its axes split by a reshape, where it is one."""
        found = [digits_of(axis, view.ranges, size) for axis, size in zip(view.axes, shape, strict=True)]
        parts = [part for part in found if part is not None]
        used = [label for part in parts for label in part.labels]
        if len(parts) < len(found) or sorted(used) != sorted(view.labels):
            return None
        if not self.has_negative_steps and any(part.step < 0 for part in parts):
            return None
        text = _subscripted(name, [part.text(size) for part, size in zip(parts, shape, strict=True)])
        if any(len(part.labels) > 1 for part in parts):  # no copy: axes are only split
            text += f".reshape{tuple_text(width for part in parts for width in part.widths)}"
            text = _subscripted(text, [piece for part in parts for piece in part.pieces(view.ranges)])
        return self.permuted(text, tuple(used.index(label) for label in view.labels))

    def concatenated(self, terms: Iterable[tuple[Placed, str]], shape: tuple[int, ...]) -> str | None:
        """Terms that lie one after the other along an axis and fill the result, or None if they do not."""
        named = list(terms)
        for axis in range(len(shape)):
            pieces = [_piece(term, name, axis, shape, self) for term, name in named]
            found = sorted(piece for piece in pieces if piece is not None)
            ends = [0, *(piece.first + piece.layers for piece in found)]
            if len(found) == len(named) and [*(piece.first for piece in found), shape[axis]] == ends:
                return f"{self.concatenate}({tuple_text(piece.text for piece in found)}, {axis})"
        return None

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

    def multiplied_and_summed(self, item: Contract, left: str, right: str, sizes: Mapping[int, int]) -> str:
        """A product that is formed first, its axes as they lie in the larger operand, and summed then.

        Long sums along the last axes of both operands are along the last axes of the product, too.
        """
        smaller, largest = sorted((item.right_labels, item.left_labels), key=len)
        added = [label for label in item.labels if label not in largest]
        summed = tuple([label for label in largest if label not in item.labels])
        is_last = all(labels[len(labels) - len(summed) :] == summed for labels in (smaller, largest))
        is_long = math.prod(sizes[label] for label in summed) > math.prod(sizes[label] for label in added)
        at = len(largest) - len(summed) * (is_last and is_long)
        whole = (*largest[:at], *added, *largest[at:])
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


def _subscripted(text: str, index: list[str]) -> str:
    return text if all(entry == ":" for entry in index) else f"{text}[{', '.join(index)}]"


@dataclass(frozen=True)
class Digits:
    """Positions `first + step * k` of an axis, and the digits of k, the slowest one first.

    A digit has a label and a width; its label counts from `starts` on.
    """

    first: int
    step: int
    labels: Labels = ()
    widths: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many positions there are."""
        return math.prod(self.widths)

    def is_gapless(self, ranges: tuple[int, ...]) -> bool:
        """Whether the labels reach all of the positions."""
        return self.widths == tuple(ranges[label] for label in self.labels)

    def text(self, size: int) -> str:
        """The slice, or the position, of an axis of a size."""
        if not self.labels:
            return str(self.first)
        step, last = self.step, self.first + self.step * (self.count - 1)
        if step > 0:
            start, stop = str(self.first) if self.first else "", "" if last + step >= size else str(last + 1)
            return f"{start}:{stop}" + (f":{step}" if step > 1 else "")
        start = "" if self.first == size - 1 else str(self.first)
        stop = "" if last + step < 0 else str(last - 1)
        return f"{start}:{stop}:{step}"

    def pieces(self, ranges: tuple[int, ...]) -> list[str]:
        """The slices of the digits."""
        counted = zip(self.labels, self.widths, self.starts, strict=True)
        return [Digits(start, 1, (label,), (ranges[label],)).text(width) for label, width, start in counted]


def digits_of(axis: Axis, ranges: tuple[int, ...], size: int) -> Digits | None:
    """The positions that an axis of a size reads, if its labels are the digits of one number."""
    if not axis.terms:
        return Digits(axis.offset, 1)
    labels, strides = zip(*sorted(axis.terms, key=lambda term: -abs(term[1])), strict=True)
    step = strides[-1]
    if len(labels) == 1:
        return Digits(axis.offset, step, labels, (ranges[labels[0]],), (0,))
    if step < 0 or 0 in ranges or any(slow % fast for slow, fast in itertools.pairwise(strides)):
        return None
    widths = ranges[labels[0]], *(slow // fast for slow, fast in itertools.pairwise(strides))
    first = min(axis.offset, size - 1 - step * (math.prod(widths) - 1))  # all digits must be there
    starts: list[int] = []
    rest = axis.offset - first
    for stride in strides:
        start, rest = divmod(rest, stride)
        starts.append(start)
    fits = all(
        start + ranges[label] <= width for start, label, width in zip(starts, labels, widths, strict=True)
    )
    return Digits(first, step, labels, widths, tuple(starts)) if fits and first >= 0 and not rest else None


class _Piece(NamedTuple):
    """Some layers of an array along an axis."""

    first: int
    layers: int
    text: str


def _piece(term: Placed, name: str, axis: int, shape: tuple[int, ...], dialect: Dialect) -> _Piece | None:
    """A term as layers along an axis, if it fills them."""
    parts = [digits_of(a, term.ranges, size) for a, size in zip(term.output, shape, strict=True)]
    digits = [part for part in parts if part is not None]
    labels = tuple(label for part in digits for label in part.labels)
    is_filled = len(digits) == len(shape) and sorted(labels) == sorted(term.labels)
    if not is_filled or any(part.step != 1 or not part.is_gapless(term.ranges) for part in digits):
        return None
    if any(part.first or part.count != shape[k] for k, part in enumerate(digits) if k != axis):
        return None
    text = dialect.permuted(name, tuple(term.labels.index(label) for label in labels))
    if any(len(part.labels) != 1 for part in digits):
        text += f".reshape{tuple_text(part.count for part in digits)}"
    text = text if term.factor == 1 else f"{term.factor!r} * {text}"
    return _Piece(digits[axis].first, digits[axis].count, text)


def position_text(axis: Axis, ranges: tuple[int, ...], size: int) -> str:
    """The slice or the position of an axis with at most one label."""
    found = digits_of(axis, ranges, size)
    assert found is not None
    return found.text(size)


def affine_text(axes: tuple[Axis, ...], labels: Labels, ranges: tuple[int, ...]) -> str:
    """Offsets, strides[label][axis] and sizes of the labels, as three arguments."""
    strides = tuple_text(tuple_text(dict(axis.terms).get(label, 0) for axis in axes) for label in labels)
    offsets, shape = tuple_text(axis.offset for axis in axes), tuple_text(ranges[label] for label in labels)
    return f"{offsets}, {strides}, {shape}"


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
