"""Small constructors: leaves, element-wise arithmetic, views and placements, all of them einsums.

Nodes have the operators `+ - * /` (scalars and equal shapes only, no broadcasting), so that derivative
rules read like formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hesse.errors import ShapeError
from hesse.ir.axis import (
    Axis,
    Size,
    combine,
    constant_axis,
    label_axis,
    labels_of,
    number,
    plain_axes,
    size_product,
)
from hesse.ir.einsum import einsum
from hesse.ir.node import Apply, Constant, Einsum, FrozenArray, Map, Node, Params, Shape, Variable, intern
from hesse.ir.product import is_zero, make, zero
from hesse.ir.sum import add, scaled


def variable(
    name: str, shape: Iterable[Size], attributes: Iterable[str] = (), kind: str = "real"
) -> Variable:
    """A named input."""
    return intern(Variable, tuple(shape), (), kind, name=name, attributes=frozenset(attributes))


def constant(value: np.ndarray | float) -> Node:
    """An array known now.

    Integer arrays stay integers; equal finite entries become a scaled `ones`, and a matrix of a few bands
    (an identity, a difference matrix) a sum of placed diagonals, so that it is never multiplied by.
    """
    array = np.asarray(value)
    kind = "integer" if array.dtype.kind in "iu" else "real"
    if kind == "real" and _is_uniform(array):
        return uniform(float(array.flat[0]), array.shape)
    if kind == "real" and array.ndim == 2 and (offsets := _band_offsets(array)):
        return add([_band(array, offset) for offset in offsets], array.shape)
    return intern(Constant, array.shape, (), kind, frozen=FrozenArray(array))


def has_pattern(array: np.ndarray) -> bool:
    """Whether a known array becomes more than its entries: all of them equal, or a matrix of a few bands."""
    sample = array.ravel("K")[:: max(1, array.size // SAMPLE)] if array.flags.forc else array.flat[:SAMPLE]
    if not (sample == sample[:1]).all() and 2 * np.count_nonzero(sample) > len(sample):
        return False
    return _is_uniform(array) or (array.ndim == 2 and bool(_band_offsets(array)))


def _is_uniform(array: np.ndarray) -> bool:
    return bool(array.size and np.isfinite(first := array.flat[0]) and (array == first).all())


SAMPLE = 1000
"""Entries that are looked at before all are."""
MOST_BANDS = 3
"""Constant matrices with more bands than this are kept as they are."""


def _band_offsets(array: np.ndarray) -> list[int]:
    """Which diagonals of a matrix hold all that is not zero, if they are few and the rest is most of it."""
    if min(array.shape) < 2 or 2 * np.count_nonzero(array) > array.size or not array.any():
        return []
    rows, columns = np.nonzero(array)
    offsets = np.unique(columns - rows)
    return offsets.tolist() if len(offsets) <= MOST_BANDS else []


def _band(array: np.ndarray, offset: int) -> Node:
    values = constant(np.diagonal(array, offset))
    label = label_axis(0)
    output = [combine([(1, label)], max(-offset, 0)), combine([(1, label)], max(offset, 0))]
    return view(values, [label], output, array.shape, values.shape)


def uniform(value: float, shape: Iterable[Size] = ()) -> Node:
    """A tensor with all entries equal."""
    shape = tuple(shape)
    if not math.isfinite(value):
        return broadcast(intern(Constant, (), (), frozen=FrozenArray(np.asarray(value))), shape, ())
    axes = plain_axes(len(shape))
    if not value or 0 in shape or 1 in shape:
        return einsum([], [], axes, shape, shape, value)
    return intern(Einsum, shape, (), axes=(), output=axes, ranges=shape, scale=value)  # canonical as it is


def uniform_value(node: Node) -> float | None:
    """The common entry of a tensor known to be uniform, else None."""
    if is_zero(node):
        return 0.0
    if isinstance(node, Einsum) and not node.operands and _is_plain_output(node):
        return node.scale if not node.summed else None  # else it counts a symbolic size
    return None


def _is_plain_output(node: Einsum) -> bool:
    labels = [axis.label for axis in node.output if axis.is_label]
    whole = all(
        (axis.is_label and node.ranges[axis.label] == size) or (size == 1 and not axis.terms)
        for axis, size in zip(node.output, node.shape, strict=True)
    )
    return whole and len(set(labels)) == len(labels)


def delta(shape: Shape) -> Node:
    """The unit tensor of shape `shape + shape`."""
    axes = plain_axes(len(shape))
    return einsum([], [], axes + axes, shape + shape, shape)


def view(
    node: Node, axes: Sequence[Axis], output: Sequence[Axis], shape: Sequence[Size], ranges: Sequence[Size]
) -> Node:
    """An einsum of one operand."""
    return einsum([node], [axes], output, shape, ranges)


def transpose(node: Node, order: Sequence[int]) -> Node:
    """Axes in a new order: axis k of the result is axis `order[k]` of the node."""
    axes = plain_axes(node.rank)
    return view(node, axes, [axes[k] for k in order], [node.shape[k] for k in order], node.shape)


def broadcast(node: Node, shape: Sequence[Size], positions: Sequence[int]) -> Node:
    """Repeat the node into `shape`; its axis k becomes axis `positions[k]`, all others are new."""
    axes = [label_axis(position) for position in positions]
    return view(node, axes, plain_axes(len(shape)), shape, shape)


def total(node: Node, axes: Iterable[int]) -> Node:
    """The sum over the given axes."""
    summed = set(axes)
    kept = [k for k in range(node.rank) if k not in summed]
    return view(
        node, plain_axes(node.rank), [label_axis(k) for k in kept], [node.shape[k] for k in kept], node.shape
    )


def multiply(*factors: Node) -> Node:
    """The element-wise product of tensors of one shape."""
    shape = factors[0].shape
    axes = plain_axes(len(shape))
    return einsum(factors, [axes] * len(factors), axes, shape, shape)


def pairwise(spec: str, *operands: Node) -> Node:
    """An einsum in letters with plain labels: `pairwise("bik,blj->bijbkl", c, c)`.

    A leading `...` in an operand stands for its extra leading axes, equal in all operands that have it.
    """
    inputs, output = spec.split("->")
    letters: dict[str, int] = {}
    ranges: list[Size] = []
    batch: list[Axis] = []
    tables = []
    for text, operand in zip(inputs.split(","), operands, strict=True):
        lead = operand.rank - len(text.replace("...", ""))
        if "..." in text and not batch:
            batch = list(plain_axes(lead, len(ranges)))
            ranges += operand.shape[:lead]
        row = list(batch) if "..." in text else []
        for letter, size in zip(text.replace("...", ""), operand.shape[len(row) :], strict=True):
            if letter not in letters:
                letters[letter] = len(ranges)
                ranges.append(size)
            row.append(label_axis(letters[letter]))
        tables.append(row)
    result: list[Axis] = []
    for part in _tokens(output):
        result += batch if part == "..." else [label_axis(letters[part])]
    return einsum(operands, tables, result, [ranges[axis.label] for axis in result], ranges)


def _tokens(text: str) -> list[str]:
    return [token or "..." for piece in text.replace("...", "\0").split("\0") for token in [*piece, ""]][:-1]


def select(node: Node, index: Sequence[int | slice]) -> Node:
    """Basic indexing by one int or slice for each axis (concrete sizes where it is not the whole axis)."""
    axes: list[Axis] = []
    shape: list[Size] = []
    for entry, size in zip(index, node.shape, strict=True):
        if entry == slice(None):
            axes.append(label_axis(len(shape)))
            shape.append(size)
            continue
        if isinstance(size, str):
            raise ShapeError(f"an axis of symbolic size {size} can only be taken whole; bind the size first")
        if isinstance(entry, slice):
            start, stop, step = entry.indices(size)
            axes.append(combine([(step, label_axis(len(shape)))], start))
            shape.append(len(range(start, stop, step)))
        else:
            axes.append(constant_axis(entry))
    if 0 in shape:
        return zero(tuple(shape))
    return view(node, axes, plain_axes(len(shape)), shape, shape)


def place(
    node: Node, shape: Sequence[Size], offsets: Sequence[int], steps: Sequence[int] | None = None
) -> Node:
    """Put the node into a tensor of zeros of the given shape at `offsets + steps * position`."""
    steps = steps or [1] * node.rank
    axes = plain_axes(node.rank)
    output = [
        combine([(step, axis)], offset) for step, axis, offset in zip(steps, axes, offsets, strict=True)
    ]
    return view(node, axes, output, shape, node.shape)


def concatenate(nodes: Sequence[Node], axis: int) -> Node:
    """Join tensors along an axis."""
    sizes = [number(node.shape[axis]) for node in nodes]
    shape = list(nodes[0].shape)
    shape[axis] = sum(sizes)
    start, terms = 0, []
    for node, size in zip(nodes, sizes, strict=True):
        offsets = [0] * node.rank
        offsets[axis] = start
        start += size
        terms.append(place(node, shape, offsets))
    return add(terms, tuple(shape))


def reshape(node: Node, shape: Sequence[Size]) -> Node:
    """The same entries in row-major order in another shape: mixed-radix axes, no operation of its own."""
    shape = tuple(shape)
    if shape == node.shape:
        return node
    if any(isinstance(size, str) for size in (*node.shape, *shape)):
        return _symbolic_reshape(node, shape)
    old, new = tuple(map(number, node.shape)), tuple(map(number, shape))
    count = math.prod(old)
    if count != math.prod(new):
        raise ShapeError(f"cannot reshape {node.shape} ({count} entries) to {shape}")
    if count == 0:
        return zero(shape)
    digits = _common_digits(old, new)
    if digits is None:
        return reshape(reshape(node, (count,)), shape)
    inner, outer, ranges = digits
    return view(node, inner, outer, shape, ranges)


def _symbolic_reshape(node: Node, shape: Shape) -> Node:
    """A reshape to symbolic sizes: an operation of its own until the sizes are bound."""
    if size_product(node.shape) != size_product(shape):
        raise ShapeError(
            f"cannot reshape {node.shape} to {shape}: the sizes differ or are not known; bind them first"
        )
    if is_zero(node):
        return zero(shape)
    if isinstance(node, Apply) and node.name == "reshape":
        return reshape(node.operands[0], shape)
    return intern(Apply, shape, (node,), name="reshape", params=(node.rank, *shape))


def _common_digits(
    old: tuple[int, ...], new: tuple[int, ...]
) -> tuple[list[Axis], list[Axis], list[int]] | None:
    """Labels (digits, last axes first) in which both shapes can be written, or None."""
    ranges: list[int] = []
    axes = [constant_axis(0)] * len(old), [constant_axis(0)] * len(new)
    rest = [list(old), list(new)]
    places = [len(old) - 1, len(new) - 1]
    strides = [1, 1]
    while True:
        for side in (0, 1):
            while places[side] >= 0 and rest[side][places[side]] == 1:
                places[side] -= 1
                strides[side] = 1
        if places[0] < 0 or places[1] < 0:
            return axes[0], axes[1], ranges
        first, second = rest[0][places[0]], rest[1][places[1]]
        digit = min(first, second)
        if first % digit or second % digit:
            return None
        for side in (0, 1):
            place = places[side]
            axes[side][place] = combine([(1, axes[side][place]), (strides[side], label_axis(len(ranges)))])
            strides[side] *= digit
            rest[side][place] //= digit
        ranges.append(digit)


def map_(name: str, *operands: Node) -> Node:
    """An element-wise function; axes along which all operands only repeat are left to a broadcast."""
    shape = operands[0].shape
    if any(operand.shape != shape for operand in operands):
        raise ShapeError(f"{name} needs operands of one shape, not {[operand.shape for operand in operands]}")
    if 0 in shape:
        return zero(shape)
    repeated = [k for k in range(len(shape)) if all(_repeats(operand, k) for operand in operands)]
    if repeated:
        kept = [k for k in range(len(shape)) if k not in repeated]
        smaller = [_without_repeats(operand, kept) for operand in operands]
        return broadcast(map_(name, *smaller), shape, kept)
    return intern(Map, shape, operands, name=name)


def _repeats(node: Node, position: int) -> bool:
    if not isinstance(node, Einsum) or not node.output[position].is_label:
        return False
    label = node.output[position].label
    others = labels_of(axis for k, axis in enumerate(node.output) if k != position)
    return node.ranges[label] == node.shape[position] and label not in others | node.inside


def _without_repeats(node: Node, kept: Sequence[int]) -> Node:
    assert isinstance(node, Einsum)
    dropped = {axis.label for k, axis in enumerate(node.output) if k not in kept}
    product = node.product._replace(output=tuple(node.output[k] for k in kept))
    return make(product.without(dropped), tuple(node.shape[k] for k in kept))


def apply_(
    name: str, operands: Sequence[Node], shape: Sequence[Size], params: Params = (), kind: str = "real"
) -> Node:
    """An operation that has a record in `ops` (which is where to call it from)."""
    return intern(Apply, tuple(shape), tuple(operands), kind, name=name, params=params)


def _as_operand(other: Node | float, like: Node) -> Node:
    return other if isinstance(other, Node) else uniform(float(other), like.shape)


def _add(self: Node, other: Node | float) -> Node:
    return add([self, _as_operand(other, self)], self.shape)


def _subtract(self: Node, other: Node | float) -> Node:
    return add([self, scaled(_as_operand(other, self), -1.0)], self.shape)


def _reverse_subtract(self: Node, other: float) -> Node:
    return add([uniform(float(other), self.shape), scaled(self, -1.0)], self.shape)


def _multiply(self: Node, other: Node | float) -> Node:
    return multiply(self, other) if isinstance(other, Node) else scale(self, float(other))


def _divide(self: Node, other: Node | float) -> Node:
    return multiply(self, reciprocal(other)) if isinstance(other, Node) else scale(self, 1.0 / other)


def _reverse_divide(self: Node, other: float) -> Node:
    return scale(reciprocal(self), float(other))


def reciprocal(node: Node) -> Node:
    """`1 / node`, element by element."""
    value = uniform_value(node)
    return uniform(1.0 / value, node.shape) if value else map_("reciprocal", node)


def scale(node: Node, factor: float) -> Node:
    """`factor * node`."""
    if not math.isfinite(factor):
        return multiply(node, uniform(factor, node.shape))
    return scaled(node, factor) if factor else zero(node.shape)


def _negate(self: Node) -> Node:
    return scale(self, -1.0)


_OPERATORS = {
    "__add__": _add,
    "__radd__": _add,
    "__sub__": _subtract,
    "__rsub__": _reverse_subtract,
    "__mul__": _multiply,
    "__rmul__": _multiply,
    "__truediv__": _divide,
    "__rtruediv__": _reverse_divide,
    "__neg__": _negate,
}
for _name, _operator in _OPERATORS.items():
    setattr(Node, _name, _operator)
