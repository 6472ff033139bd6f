"""Straight-line NumPy source for the linear instructions: views, contractions, sums and placements."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Callable, Mapping
from typing import NamedTuple

from hesse.backends.numpy.machine import NumpyMachine
from hesse.backends.numpy.parts import parts_source
from hesse.backends.text import (
    Dialect,
    Labels,
    Matrices,
    affine_text,
    dense_labels,
    matrices,
    placed_labels,
    position_text,
    tuple_text,
)
from hesse.ir import Axis, overlapping_labels
from hesse.plan.program import Combine, Contract, Placed, View

NUMPY = Dialect("np", permute="transpose", total="np.add.reduce", concatenate="np.concatenate")


def einsum_source(item: Contract, left: str, right: str) -> str:
    """A product by its labels, in letters, which NumPy reads sooner than numbers."""
    rows = item.left_labels, item.right_labels, item.labels
    letters = dict(zip(dict.fromkeys(itertools.chain(*rows)), string.ascii_letters, strict=False))
    a, b, output = ("".join([letters[label] for label in row]) for row in rows)
    return f"einsum('{a},{b}->{output}', {left}, {right})"


def view_source(view: View, name: str, shape: tuple[int, ...]) -> str:
    """A strided view: an index expression where one exists, else `affine_view`."""
    text = NUMPY.indexed(view, name, shape)
    return text or f"affine_view({name}, {affine_text(view.axes, view.labels, view.ranges)})"


def loop_order(labels: Labels, sizes: Mapping[int, int], machine: NumpyMachine) -> Labels | None:
    """An order of axes that ends with a long one, where the last one is so short that loops over it are slow.

    NumPy's element-wise loops run along the last axis in memory: three coordinates of a million points are
    best kept as three arrays.
    """
    short = [label for label in labels if sizes[label] < machine.short_axis]
    entries = math.prod(sizes[label] for label in labels)
    if not labels or labels[-1] not in short or entries < machine.large_array:
        return None
    return (*short, *(label for label in labels if label not in short))


def product_source(item: Contract, left: str, right: str, order: Labels | None, buffer: str | None) -> str:
    """An element-wise product, in memory in the given order of axes, or written to a buffer."""
    a, b, output = item.left_labels, item.right_labels, item.labels
    if buffer is not None:
        operands = NUMPY.aligned(left, a, output), NUMPY.aligned(right, b, output)
        return f"np.multiply({', '.join(operands)}, out={buffer})"
    if order is None:
        return NUMPY.multiplied(item, left, right)
    text = f"np.multiply({NUMPY.aligned(left, a, order)}, {NUMPY.aligned(right, b, order)}, order='C')"
    return NUMPY.permuted(text, tuple(order.index(label) for label in output))


class Lying(NamedTuple):
    """The labels along which two operands lie in memory, and whether `dot` takes both without a copy."""

    innermost: set[int]
    is_plain: bool


def contract_source(
    item: Contract,
    left: str,
    right: str,
    sizes: dict[int, int],
    buffer: Callable[[], str | None],
    lying: Lying,
    machine: NumpyMachine,
) -> tuple[str, Labels | None]:
    """A product of two arrays that is summed: a dot product, an einsum or a matrix product.

    A matrix product is written to the array of `buffer()`, if there is one. The answer has the labels of
    the result in their order in memory, too; None: they lie as in the operands.
    """
    found = matrices(item, left, right, sizes, NUMPY)
    if found is None:
        text = _inner_source(item, left, right, sizes, lying, machine)
        return (einsum_source(item, left, right), None) if text is None else (text, item.labels)
    summed = math.prod(sizes[label] for label in found.summed)
    is_batch = len({*item.left_labels, *item.right_labels}) == 3 and found.batch
    if is_batch and summed <= machine.small_block:
        # for many small blocks quicker than a product of each
        return einsum_source(item, left, right), None
    if _is_narrow(found, sizes, lying, machine):
        text = _row_dots(item, left, right, (*found.produced, *found.summed))
        return NUMPY.permuted(text, tuple(map(found.produced.index, item.labels))), found.produced
    second = found.second
    groups = [found.rows, found.summed, found.columns]
    if second.endswith(".T") and _is_slow_transposed(groups, sizes, machine):
        second = f"np.ascontiguousarray({second})"
    is_plain = not found.drop and len(found.rows) == len(found.columns) == 1 and found.produced == item.labels
    if not item.is_symmetric and item.left != item.right:  # BLAS knows a square by itself
        own_buffer = buffer if is_plain else lambda: None
        if in_parts := parts_source(found, sizes, machine, own_buffer):
            return found.finished(in_parts, item, sizes, NUMPY), found.produced
    if is_plain and not item.is_symmetric and (held := buffer()) is not None:
        return f"np.matmul({found.first}, {second}, out={held})", item.labels
    is_small = math.prod(sizes[label] for label in item.labels) <= machine.large_array
    if is_small and lying.is_plain and not found.batch and not item.is_symmetric:
        # begins in half the time, but writes zeros first
        text = f"{found.first}.dot({second})"
    else:
        function = "symmetric_product" if item.is_symmetric else "np.matmul"
        text = f"{function}({found.first}, {second})"
    return found.finished(text, item, sizes, NUMPY), found.produced


def _is_narrow(found: Matrices, sizes: Mapping[int, int], lying: Lying, machine: NumpyMachine) -> bool:
    """Whether a stack of products of matrices takes BLAS longer than dot products of their rows."""
    if not found.batch or lying.innermost != {*found.summed}:
        return False
    sides = [math.prod(sizes[label] for label in group) for group in (found.rows, found.columns)]
    is_long = math.prod(sizes[label] for label in found.summed) >= machine.narrow_dot
    return is_long and min(sides) > 1 and max(sides) <= machine.narrow_matrix


def _row_dots(item: Contract, left: str, right: str, whole: Labels) -> str:
    """Dot products along the last one of the labels, with one axis for each of the others."""
    sides = (left, item.left_labels), (right, item.right_labels)
    return f"np.vecdot({', '.join(NUMPY.aligned(name, labels, whole) for name, labels in sides)})"


def _is_slow_transposed(groups: list[list[int]], sizes: dict[int, int], machine: NumpyMachine) -> bool:
    """Whether a product of many rows with a small matrix is so small that BLAS has a loop of its own for it.

    That loop is twice as slow if the small matrix is transposed.
    """
    rows, summed, columns = (math.prod(sizes[label] for label in group) for group in groups)
    is_small = summed * columns <= machine.small_matrix and rows * summed * columns <= machine.small_product
    return rows >= machine.many_rows and is_small


def _inner_source(
    item: Contract,
    left: str,
    right: str,
    sizes: Mapping[int, int],
    lying: Lying,
    machine: NumpyMachine,
) -> str | None:
    """A product that is no product of matrices, if it is one of vectors."""
    a, b, output = item.left_labels, item.right_labels, item.labels
    if output:
        summed = {*a} - {*output}
        rows, length = (math.prod(sizes[label] for label in labels) for labels in (output, summed))
        is_quick = rows < machine.many_rows or length >= machine.short_dot
        if len(summed) == 1 and summed == lying.innermost and is_quick:
            return _row_dots(item, left, right, (*output, *summed))
        return None
    if math.prod(sizes[label] for label in a) > machine.longest_dot:
        return None
    if len(a) == 1:
        return f"{left}.dot({right})"
    return f"np.vdot({left}, {NUMPY.permuted(right, tuple(b.index(label) for label in a))})"


MOST_COMPARED = 64
"""Of so many placed terms it is found out whether they touch the same entries."""


class Destination(NamedTuple):
    """The array that a sum is written to, on a machine.

    In memory the axes of a result (`is_result`) are in order; the first axis may be innermost (`by_columns`).
    """

    name: str
    shape: tuple[int, ...]
    itemsize: int
    is_result: bool
    by_columns: bool
    machine: NumpyMachine


class Written(NamedTuple):
    """The lines of a sum, the term whose array it has taken over, and the order that it was given in memory,
    where that is not the order of its terms."""

    lines: list[str]
    own: int | None
    order: Labels | None


def is_written_contiguous(item: Combine, target: Destination) -> bool:
    """Whether the array of a sum must be contiguous, for terms to be put into it.

    A copy of repeated rows is, too: as they lie in memory, the repetitions would be the innermost axis.
    """
    placed = [term for term in item.terms if not term.is_dense(target.shape)]
    is_fixed = target.is_result or item.repeats(target.shape)
    return bool(placed) and (is_fixed or not all(map(_is_indexed, placed)))


def combine_source(
    item: Combine, target: Destination, names: list[str], spare: set[int], buffer: Callable[[], str | None]
) -> Written:
    """A sum of terms: dense ones as one expression, the others placed into it.

    `spare` are the terms whose arrays nobody reads afterwards: one of them may hold the sum. Else
    `buffer()` may give an array for it.
    """
    shape = target.shape
    dense = [k for k, term in enumerate(item.terms) if term.is_dense(shape)]
    placed = [k for k in range(len(item.terms)) if k not in dense]
    whole = [k for k in dense if k in spare and len(item.terms[k].labels) == len(shape)]
    own = min(whole, key=lambda k: item.terms[k].factor != 1, default=None)
    is_contiguous, order = is_written_contiguous(item, target), None
    fresh = set() if dense else _fresh([item.terms[k] for k in placed[:MOST_COMPARED]])
    if not dense:
        is_filled = _fills([item.terms[placed[position]] for position in fresh], shape)
        order = tuple(reversed(range(len(shape)))) if target.by_columns and not is_contiguous else None
        function, layout = "empty" if is_filled else "zeros", "" if order is None else ", order='F'"
        lines = [f"{target.name} = np.{function}({tuple_text(shape)}, dtype{layout})"]
    elif own is not None:
        first = NUMPY.aligned(names[own], item.terms[own].labels, dense_labels(item.terms[own]))
        lines = [f"{target.name} = {f'np.ascontiguousarray({first})' if is_contiguous else first}"]
        others = [(item.terms[k], names[k]) for k in dense if k != own]
        lines += _added_to(item.terms[own].factor, others, target)
    elif len(dense) > 1 and not placed and not item.repeats(shape) and (held := buffer()) is not None:
        lines = _buffered_sum([(item.terms[k], names[k]) for k in dense], target, held)
    else:
        order = None if placed else _sum_order(item, target)
        text = _dense_text(item, dense, names, target, order, bool(placed), is_contiguous)
        lines = [f"{target.name} = {text}"]
    for position, k in enumerate(placed):
        lines.append(_place(item.terms[k], names[k], target, is_first=position in fresh))
    return Written(lines, own, order)


def _fresh(terms: list[Placed]) -> set[int]:
    """The terms that touch no entry that a term before them touches."""
    boxes = [[_reach(axis, term.ranges) for axis in term.output] for term in terms]
    return {k for k, box in enumerate(boxes) if not any(_may_meet(box, other) for other in boxes[:k])}


def _reach(axis: Axis, ranges: tuple[int, ...]) -> tuple[int, int]:
    """The first and the last position along an axis."""
    ends = [(0, stride * (ranges[label] - 1)) for label, stride in axis.terms]
    return axis.offset + sum(map(min, ends)), axis.offset + sum(map(max, ends))


def _may_meet(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> bool:
    return all(a[0] <= b[1] and b[0] <= a[1] for a, b in zip(one, two, strict=True))


def _fills(terms: list[Placed], shape: tuple[int, ...]) -> bool:
    """Whether terms that are apart from each other leave no entry out."""
    if any(overlapping_labels(term.output, term.ranges) for term in terms):
        return False
    counts = [math.prod([term.ranges[label] for label in placed_labels(term)]) for term in terms]
    return sum(counts) == math.prod(shape)


def _sum_order(item: Combine, target: Destination) -> Labels | None:
    """The order in memory to ask for, for a sum of dense terms."""
    # an axis that no term has cannot be moved to the front
    if len(item.terms) == 1 or target.is_result or item.missing(target.shape):
        return None
    return loop_order(tuple(range(len(target.shape))), dict(enumerate(target.shape)), target.machine)


def _dense_text(
    item: Combine,
    dense: list[int],
    names: list[str],
    target: Destination,
    order: Labels | None,
    is_written: bool,
    is_contiguous: bool,
) -> str:
    """The sum of dense terms as an expression; `is_written`: others will be added into it."""
    text = _dense_sum([(item.terms[k], names[k]) for k in dense], order)
    missing = item.missing(target.shape)
    is_shared = len(dense) == 1
    if item.repeats(target.shape):
        text, is_shared = f"np.broadcast_to({text}, {tuple_text(target.shape)})", True
    elif 0 in missing:  # `aligned` leaves leading axes out; an index takes a tenth of the time of a function
        leading = next((k for k in range(len(target.shape)) if k not in missing), len(target.shape))
        text = f"({text})[{', '.join(['None'] * leading)}]"
    if is_written and is_shared:
        return f"np.array({text}, order={'C' if is_contiguous else 'K'!r})"
    return f"np.ascontiguousarray({text})" if is_contiguous else text


def _added_to(factor: float, terms: list[tuple[Placed, str]], target: Destination) -> list[str]:
    """Terms added to an array times a factor, in place."""
    ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)
    lines = [] if factor == 1 else [f"{target.name} *= {factor!r}"]
    if factor == -1 and target.shape and ordered and ordered[0][0].factor > 0:
        first = NUMPY.part(*ordered.pop(0))
        lines = [f"np.subtract({first}, {target.name}, out={target.name})"]
    return lines + [_added(term, name, target) for term, name in ordered]


def _added(term: Placed, name: str, target: Destination) -> str:
    return f"{target.name} {'-' if term.factor < 0 else '+'}= {NUMPY.part(term, name)}"


def _buffered_sum(terms: list[tuple[Placed, str]], target: Destination, buffer: str) -> list[str]:
    ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)  # begin with a positive term
    (first, first_name), (second, second_name), *others = ordered
    function = "np.subtract" if second.factor < 0 else "np.add"
    start = f"{'-' if first.factor < 0 else ''}{NUMPY.part(first, first_name)}"
    lines = [f"{target.name} = {function}({start}, {NUMPY.part(second, second_name)}, out={buffer})"]
    return lines + [_added(term, name, target) for term, name in others]


def _dense_sum(terms: list[tuple[Placed, str]], order: Labels | None) -> str:
    if order is None:
        return NUMPY.dense_sum(terms)
    ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)  # begin with a positive term
    first, second, *parts = [NUMPY.part(term, name, order) for term, name in ordered]
    negative = [term.factor < 0 for term, _ in ordered]
    function = "np.subtract" if negative[1] else "np.add"
    text = f"{function}({'-' if negative[0] else ''}{first}, {second}, order='C')"
    more = [f" {'-' if sign else '+'} {part}" for sign, part in zip(negative[2:], parts, strict=True)]
    back = tuple(order.index(k) for k in range(len(order)))
    return NUMPY.permuted(f"({''.join([text, *more])})" if more else text, back)


def _place(term: Placed, name: str, target: Destination, is_first: bool) -> str:
    """One term added into a part of an array (which is all zero if `is_first`).

    The array must be contiguous unless the part is an index expression.
    """
    labels = placed_labels(term)
    value = NUMPY.aligned(name, term.labels, labels)
    overlapping = overlapping_labels(term.output, term.ranges)
    if overlapping:
        value = value if term.factor == 1 else f"{term.factor!r} * {value}"
        loop = tuple_text(labels.index(label) for label in overlapping)
        where = affine_text(term.output, labels, term.ranges)
        return f"place_overlapping({target.name}, {value}, {where}, {loop})"
    if is_first:
        write, factor = "=", term.factor
    else:
        write, factor = "-=" if term.factor < 0 else "+=", abs(term.factor)
    value = value if factor == 1 else f"-{value}" if factor == -1 else f"{factor!r} * {value}"
    if _is_indexed(term):
        index = [position_text(a, term.ranges, n) for a, n in zip(term.output, target.shape, strict=True)]
        return f"{target.name}[{', '.join(index)}] {write} {value}"
    return f"{_strided(term, labels, target)} {write} {value}"


def _is_indexed(term: Placed) -> bool:
    """Whether the entries that a term hits are an index expression."""
    is_simple = all(len(axis.terms) <= 1 for axis in term.output)
    return is_simple and sum(len(axis.terms) for axis in term.output) == len(placed_labels(term))


def _strided(term: Placed, labels: Labels, target: Destination) -> str:
    """The entries that a term hits, by their places in the contiguous array."""
    steps = [math.prod(target.shape[k + 1 :]) for k in range(len(target.shape))]
    start = sum(axis.offset * step for axis, step in zip(term.output, steps, strict=True))
    strides = [
        sum(dict(axis.terms).get(label, 0) * step for axis, step in zip(term.output, steps, strict=True))
        for label in labels
    ]
    sizes = [term.ranges[label] for label in labels]
    if len(labels) == 1 and strides[0] > 0:
        last = start + strides[0] * (sizes[0] - 1)
        return f"{target.name}.reshape(-1)[{start}:{last + 1}:{strides[0]}]"
    start, strides = start * target.itemsize, [stride * target.itemsize for stride in strides]
    place = f"{tuple_text(sizes)}, dtype, {target.name}, {start}, {tuple_text(strides)}"
    return f"np.ndarray({place})[...]"
