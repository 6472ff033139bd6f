"""Straight-line NumPy source for the linear instructions: views, contractions, sums and placements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from hesse.ir import Axis
from hesse.plan.program import Combine, Contract, Placed, View

Labels = tuple[int, ...]
SHORT_AXIS = 8
"""An axis with fewer entries than this is too short to be the innermost loop."""
SMALL_BLOCK = 12
"""Blocks with at most this many columns are multiplied with vectors all at once."""
MANY_ROWS, SMALL_MATRIX, SMALL_PRODUCT = 100, 1024, 10**6
"""Rows, entries of the small matrix and multiplications of the products for which it is copied."""
LARGE = 4096
"""Arrays of fewer entries than this fit into the fastest cache: their order in memory hardly matters."""


def tuple_text(items: object) -> str:
    """A tuple literal."""
    parts = [str(item) for item in items]  # type: ignore[attr-defined]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def permuted(name: str, order: tuple[int, ...]) -> str:
    """`name` with its axes in another order."""
    if order == tuple(range(len(order))):
        return name
    return f"{name}.T" if order == (1, 0) else f"{name}.transpose{tuple_text(order)}"


def aligned(name: str, labels: Labels, output: Labels) -> str:
    """`name` with one axis for each output label, new axes where it has none."""
    present = tuple(label for label in output if label in labels)
    text = permuted(name, tuple(labels.index(label) for label in present))
    first = next((k for k, label in enumerate(output) if label in labels), len(output))
    if all(label in labels for label in output[first:]):  # missing leading axes broadcast by themselves
        return text
    index = ", ".join(":" if label in labels else "None" for label in output[first:])
    return f"{text}[{index}]"


def view_source(view: View, name: str, shape: tuple[int, ...]) -> str:
    """A strided view: an index expression where one exists, else `affine_view`."""
    used = [label for axis in view.axes for label in axis.labels()]
    if len(set(used)) == len(used) and all(len(axis.terms) <= 1 for axis in view.axes):
        index = [_index(axis, view.ranges, size) for axis, size in zip(view.axes, shape, strict=True)]
        text = name if all(entry == ":" for entry in index) else f"{name}[{', '.join(index)}]"
        return permuted(text, tuple(used.index(label) for label in view.labels))
    digits = _digits(view, shape)
    if digits is not None:
        split = f"{name}.reshape{tuple_text(view.ranges[label] for label in digits)}"
        return permuted(split, tuple(digits.index(label) for label in view.labels))
    return f"affine_view({name}, {_affine(view.axes, view.labels, view.ranges)})"


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


def _index(axis: Axis, ranges: tuple[int, ...], size: int) -> str:
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


def _affine(axes: tuple[Axis, ...], labels: Labels, ranges: tuple[int, ...]) -> str:
    strides = tuple_text(tuple_text(dict(axis.terms).get(label, 0) for axis in axes) for label in labels)
    offsets, shape = tuple_text(axis.offset for axis in axes), tuple_text(ranges[label] for label in labels)
    return f"{offsets}, {strides}, {shape}"


def loop_order(labels: Labels, sizes: Mapping[int, int]) -> Labels | None:
    """An order of axes that ends with a long one, where the last one is so short that loops over it are slow.

    NumPy's element-wise loops run along the last axis in memory: three coordinates of a million points are
    best kept as three arrays.
    """
    short = [label for label in labels if sizes[label] < SHORT_AXIS]
    if not labels or labels[-1] not in short or math.prod(sizes[label] for label in labels) < LARGE:
        return None
    return (*short, *(label for label in labels if label not in short))


def product_source(item: Contract, left: str, right: str, order: Labels | None, buffer: str | None) -> str:
    """An element-wise product, in memory in the given order of axes, or written to a buffer."""
    a, b, output = item.left_labels, item.right_labels, item.labels
    if buffer is not None:
        return f"np.multiply({aligned(left, a, output)}, {aligned(right, b, output)}, out={buffer})"
    if order is None:
        return f"{aligned(left, a, output)} * {aligned(right, b, output)}"
    text = f"np.multiply({aligned(left, a, order)}, {aligned(right, b, order)}, order='C')"
    return permuted(text, tuple(order.index(label) for label in output))


def contract_source(
    item: Contract, left: str, right: str, sizes: dict[int, int], buffer: Callable[[], str | None]
) -> tuple[str, bool]:
    """A product of two arrays that is summed: a dot product, an einsum or a matrix product.

    A matrix product is written to the array of `buffer()`, if there is one. The answer says, too, whether
    the axes of the result are in order in memory.
    """
    a, b, output = item.left_labels, item.right_labels, item.labels
    summed = [label for label in a if label in b and label not in output]
    batch = [label for label in output if label in a and label in b]
    rows = [label for label in output if label in a and label not in b]
    columns = [label for label in output if label in b and label not in a]
    if not rows and not columns:
        return _inner_source(item, left, right), True
    if len({*a, *b}) == 3 and batch and math.prod(sizes[label] for label in summed) <= SMALL_BLOCK:
        return _einsum_text(item, left, right), True  # for many small blocks quicker than a product of each
    if rows and columns and output.index(columns[0]) < output.index(rows[0]):
        left, right, a, b, rows, columns = right, left, b, a, columns, rows
    first = _matrix(left, a, [batch, rows, summed], sizes)
    second = _matrix(right, b, [batch, summed, columns], sizes)
    if second.endswith(".T") and _is_slow_transposed([rows, summed, columns], sizes):
        second = f"np.ascontiguousarray({second})"
    if not rows and batch:
        first, drop = f"{first}[..., None, :]", "[..., 0, :]"
    elif not columns and batch:
        second, drop = f"{second}[..., None]", "[..., 0]"
    else:
        drop = ""
    produced = (*batch, *rows, *columns)
    function = "symmetric_product" if item.is_symmetric else "np.matmul"
    is_plain = not drop and len(rows) == len(columns) == 1 and produced == output
    if is_plain and not item.is_symmetric and (held := buffer()) is not None:
        return f"np.matmul({first}, {second}, out={held})", True
    text = f"{function}({first}, {second}){drop}"
    if len(rows) > 1 or len(columns) > 1:
        text += f".reshape{tuple_text(sizes[label] for label in batch + rows + columns)}"
    return permuted(text, tuple(produced.index(label) for label in output)), produced == output


def _is_slow_transposed(groups: list[list[int]], sizes: dict[int, int]) -> bool:
    """Whether a product of many rows with a small matrix is so small that BLAS has a loop of its own for it.

    That loop is twice as slow if the small matrix is transposed.
    """
    rows, summed, columns = (math.prod(sizes[label] for label in group) for group in groups)
    return rows >= MANY_ROWS and summed * columns <= SMALL_MATRIX and rows * summed * columns <= SMALL_PRODUCT


def _einsum_text(item: Contract, left: str, right: str) -> str:
    tables = list(item.left_labels), list(item.right_labels), list(item.labels)
    return f"np.einsum({left}, {tables[0]}, {right}, {tables[1]}, {tables[2]})"


def _inner_source(item: Contract, left: str, right: str) -> str:
    a, b, output = item.left_labels, item.right_labels, item.labels
    if output:
        return _einsum_text(item, left, right)
    if len(a) == 1:
        return f"np.dot({left}, {right})"
    return f"np.vdot({left}, {permuted(right, tuple(b.index(label) for label in a))})"


def _matrix(name: str, labels: Labels, groups: list[list[int]], sizes: dict[int, int]) -> str:
    """`name` as a stack of matrices: batch axes, then each other group that is not empty as one axis."""
    batch, *others = groups
    first, second = others
    if not batch and first and second and list(labels) == second + first:  # no copy, whatever is merged
        shape = (math.prod(sizes[label] for label in second), math.prod(sizes[label] for label in first))
        merged_name = name if len(labels) == 2 else f"{name}.reshape{tuple_text(shape)}"
        return f"{merged_name}.T"
    order = [label for group in groups for label in group]
    text = permuted(name, tuple(labels.index(label) for label in order))
    if all(len(group) <= 1 for group in others):
        return text
    merged = [sizes[label] for label in batch]
    merged += [math.prod(sizes[label] for label in group) for group in others if group]
    return f"{text}.reshape{tuple_text(merged)}"


def repeats(item: Combine, shape: tuple[int, ...]) -> bool:
    """Whether the dense terms together leave an axis of the result to broadcasting."""
    dense = [term for term in item.terms if term.is_dense(shape)]
    varying = {k for term in dense for k, axis in enumerate(term.output) if axis.label in term.labels}
    return bool(dense) and len(varying) < len(shape)


class Target(NamedTuple):
    """The array that a sum is written to; `is_result`: in memory its axes are in order."""

    name: str
    shape: tuple[int, ...]
    itemsize: int
    is_result: bool


class Written(NamedTuple):
    """The lines of a sum, the term whose array it has taken over, and whether it is in that array's order
    (or, where it has taken none, certain to be in the order of its axes)."""

    lines: list[str]
    own: int | None
    in_order: bool


def combine_source(
    item: Combine, target: Target, names: list[str], spare: set[int], buffer: Callable[[], str | None]
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
    in_order = not dense
    if not dense:
        lines = [f"{target.name} = np.zeros({tuple_text(shape)}, dtype)"]
    elif own is not None:
        first = aligned(names[own], item.terms[own].labels, _labels(item.terms[own]))
        in_order = first == names[own] and not placed
        lines = [f"{target.name} = {f'np.ascontiguousarray({first})' if placed else first}"]
        others = [(item.terms[k], names[k]) for k in dense if k != own]
        lines += _added_to(item.terms[own].factor, others, target)
    elif len(dense) > 1 and not placed and not repeats(item, shape) and (held := buffer()) is not None:
        lines, in_order = _buffered_sum([(item.terms[k], names[k]) for k in dense], target, held), True
    else:
        text = _dense_text(item, dense, names, target, is_written=bool(placed))
        lines = [f"{target.name} = {text}"]
    for k in placed:
        lines.append(_place(item.terms[k], names[k], target, is_first=not dense and k == placed[0]))
    return Written(lines, own, in_order)


def _dense_text(item: Combine, dense: list[int], names: list[str], target: Target, is_written: bool) -> str:
    """The sum of dense terms as an expression; `is_written`: others will be added into it."""
    terms = [(item.terms[k], names[k]) for k in dense]
    is_repeated = repeats(item, target.shape)  # an axis that no term has cannot be moved to the front
    text = _dense_sum(terms, target.shape, in_order=is_written or target.is_result or is_repeated)
    is_shared = len(dense) == 1
    if is_repeated:
        text, is_shared = f"np.broadcast_to({text}, {tuple_text(target.shape)})", True
    if not is_written:
        return text
    return f"np.array({text}, order='C')" if is_shared else f"np.ascontiguousarray({text})"


def _added_to(factor: float, terms: list[tuple[Placed, str]], target: Target) -> list[str]:
    """Terms added to an array times a factor, in place."""
    ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)
    lines = [] if factor == 1 else [f"{target.name} *= {factor!r}"]
    if factor == -1 and target.shape and ordered and ordered[0][0].factor > 0:
        first = _part(*ordered.pop(0))
        lines = [f"np.subtract({first}, {target.name}, out={target.name})"]
    return lines + [_added(term, name, target) for term, name in ordered]


def _added(term: Placed, name: str, target: Target) -> str:
    return f"{target.name} {'-' if term.factor < 0 else '+'}= {_part(term, name)}"


def _buffered_sum(terms: list[tuple[Placed, str]], target: Target, buffer: str) -> list[str]:
    ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)  # begin with a positive term
    (first, first_name), (second, second_name), *others = ordered
    function = "np.subtract" if second.factor < 0 else "np.add"
    start = f"{'-' if first.factor < 0 else ''}{_part(first, first_name)}"
    lines = [f"{target.name} = {function}({start}, {_part(second, second_name)}, out={buffer})"]
    return lines + [_added(term, name, target) for term, name in others]


def _labels(term: Placed) -> Labels:
    return tuple(axis.label for axis in term.output)


def _part(term: Placed, name: str, order: Labels | None = None) -> str:
    """A dense term without its sign, its axes in an order."""
    labels = _labels(term)
    part = aligned(name, term.labels, labels if order is None else tuple(labels[k] for k in order))
    return part if abs(term.factor) == 1 else f"{abs(term.factor)!r} * {part}"


def _dense_sum(terms: list[tuple[Placed, str]], shape: tuple[int, ...], in_order: bool) -> str:
    ordered = sorted(terms, key=lambda pair: pair[0].factor < 0)  # begin with a positive term
    order = None
    if len(terms) > 1 and not in_order:
        order = loop_order(tuple(range(len(shape))), dict(enumerate(shape)))
    parts = [_part(term, name, order) for term, name in ordered]
    signs = ["-" if term.factor < 0 else "+" for term, _ in ordered]
    text = f"-{parts[0]}" if signs[0] == "-" else parts[0]
    if order is not None:
        function = "np.subtract" if signs[1] == "-" else "np.add"
        text = f"{function}({text}, {parts[1]}, order='C')"
        parts, signs = parts[1:], signs[1:]
    text = "".join([text, *(f" {sign} {part}" for sign, part in zip(signs[1:], parts[1:], strict=True))])
    if order is None:
        return text
    back = tuple(order.index(k) for k in range(len(shape)))
    return permuted(f"({text})" if len(parts) > 1 else text, back)


def _place(term: Placed, name: str, target: Target, is_first: bool) -> str:
    """One term added into a part of a contiguous array (which is all zero if `is_first`)."""
    labels = tuple(dict.fromkeys(label for axis in term.output for label in axis.labels()))
    value = aligned(name, term.labels, labels)
    overlapping = overlapping_labels(term.output, term.ranges)
    if overlapping:
        value = value if term.factor == 1 else f"{term.factor!r} * {value}"
        loop = tuple_text(labels.index(label) for label in overlapping)
        return (
            f"place_overlapping({target.name}, {value}, {_affine(term.output, labels, term.ranges)}, {loop})"
        )
    if is_first:
        write, factor = "=", term.factor
    else:
        write, factor = "-=" if term.factor < 0 else "+=", abs(term.factor)
    value = value if factor == 1 else f"-{value}" if factor == -1 else f"{factor!r} * {value}"
    simple = all(len(axis.terms) <= 1 for axis in term.output)
    if simple and sum(len(axis.terms) for axis in term.output) == len(labels):
        index = ", ".join(
            _index(axis, term.ranges, size) for axis, size in zip(term.output, target.shape, strict=True)
        )
        return f"{target.name}[{index}] {write} {value}"
    return f"{_strided(term, labels, target)} {write} {value}"


def _strided(term: Placed, labels: Labels, target: Target) -> str:
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


def overlapping_labels(output: tuple[Axis, ...], ranges: tuple[int, ...]) -> list[int]:
    """Labels to loop over so that the rest of the output axes hits every entry at most once."""
    known = {axis.label for axis in output if len(axis.terms) == 1}
    loop: list[int] = []
    for axis in output:
        rest = sorted(
            (abs(stride), -ranges[label], label) for label, stride in axis.terms if label not in known
        )
        reach = 0
        for stride, _, label in rest:
            if stride > reach:
                reach += stride * (ranges[label] - 1)
            else:
                loop.append(label)
            known.add(label)
    return loop
