"""Values of expressions for small arrays, node by node: compiling a program would take longer than computing.

Every node is computed by its definition, in its own precision; nothing is planned, shared or reordered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, assert_never, cast

import numpy as np

from hesse.backends.executable import Executable, executable
from hesse.backends.foreign import results_on_host
from hesse.backends.numpy import elementwise, records
from hesse.backends.numpy.target import TARGET
from hesse.ir import (
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Map,
    Node,
    Variable,
    bind_sizes,
    bound_size,
    number,
    topological,
)
from hesse.rewrite import expanded, simplify

MOST_WORK = 4_000_000
"""Products of more terms than this are left to compiled programs …"""
MOST_LABELS = 26
"""… and so are those of more labels."""
LITTLE_WORK = 10_000
"""Up to this many terms a product is formed in one loop, in whatever order."""

Arrays = Sequence[np.ndarray]
Shape = tuple[int, ...]
Step = Callable[[Arrays], np.ndarray]


class Values:
    """The values of an expression for arrays and sizes by name; of a large one by a compiled program."""

    def __init__(self, node: Node) -> None:
        (self._node,) = expanded(simplify([node]), TARGET.has_row)
        self._known: dict[Any, SmallValues | Executable] = {}

    def __call__(self, values: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
        dtype = np.result_type(*values.values()) if values else np.dtype(float)
        key = dtype, tuple(sizes.items())
        if key not in self._known:
            self._known[key] = small_values(self._node, sizes, dtype) or self._compiled(sizes, dtype)
        known = self._known[key]
        if isinstance(known, SmallValues):
            return known(values)
        return np.asarray(known(*(values[name] for name in known.inputs))[0])

    def _compiled(self, sizes: Mapping[str, int], dtype: np.dtype[Any]) -> Executable:
        roots = bind_sizes([self._node], sizes)
        names = [node.name for node in topological(roots) if isinstance(node, Variable)]
        runs = executable(roots, names, dtype, TARGET)
        runs.check_memory()
        return runs


class SmallValues(NamedTuple):
    """How to compute an expression for given sizes: a function for each node, operands first."""

    order: Sequence[Node]
    steps: Sequence[Step | None]
    """None for a variable."""

    def __call__(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        known: dict[Node, np.ndarray] = {}
        for node, step in zip(self.order, self.steps, strict=True):
            if step is not None:
                known[node] = step([known[operand] for operand in node.operands])
            elif isinstance(node, Variable):
                known[node] = np.asarray(values[node.name])
        return np.asarray(known[self.order[-1]])


def small_values(root: Node, sizes: Mapping[str, int], dtype: np.dtype[Any]) -> SmallValues | None:
    """How to compute an expression whose sizes are small; None if some part of it is large."""
    order = topological([root])
    shapes = {node: _numbers(node.shape, sizes) for node in order}
    steps = []
    for node in order:
        ranges = _numbers(node.ranges, sizes) if isinstance(node, Einsum) else shapes[node]
        if max(math.prod(ranges), math.prod(shapes[node])) > MOST_WORK or len(ranges) > MOST_LABELS:
            return None
        steps.append(_step(node, shapes, ranges, dtype))
    return SmallValues(order, steps)


def _numbers(shape: Sequence[int | str], sizes: Mapping[str, int]) -> Shape:
    return tuple([number(bound_size(size, sizes)) for size in shape])


def _step(node: Node, shapes: Mapping[Node, Shape], ranges: Shape, dtype: np.dtype[Any]) -> Step | None:
    shape = shapes[node]
    node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
    match node:
        case Variable():
            return None
        case Constant():
            value = node.value if node.kind == "integer" else np.asarray(node.value, dtype)
            return lambda operands: value
        case Einsum():
            readings = [
                _reading(axes, shapes[operand], ranges)
                for operand, axes in zip(node.operands, node.axes, strict=True)
            ]
            return _product(node, readings, shape, ranges, dtype)
        case Add():
            return lambda operands: sum(operands, np.zeros(shape, dtype))
        case Map():
            function = elementwise.kernel(node.name)
            return lambda operands: function(*operands)
        case Apply(name="reshape"):
            return lambda operands: operands[0].reshape(shape)
        case Apply(name="foreign"):
            rule, number = node.params
            return lambda operands: results_on_host(rule, operands)[number]
        case Apply():
            operation, params = records.kernel(node.name), node.params
            return lambda operands: operation(params, *operands)
    assert_never(node)


def _product(
    node: Einsum, readings: Sequence[_Reading], shape: Shape, ranges: Shape, dtype: np.dtype[Any]
) -> Step:
    """Operands read through their axes, multiplied and summed, and added into the entries of the output."""
    inside = {label for reading in readings for label in reading.labels}
    placed = list(dict.fromkeys(label for axis in node.output for label in axis.labels()))
    kept = [label for label in placed if label in inside]
    counted = [size for label, size in enumerate(ranges) if label not in inside and label not in placed]
    scale = node.scale * math.prod(counted)
    letters = ",".join(_letters(reading.labels) for reading in readings)
    subscripts = f"{letters}->{_letters(kept)}"

    planned = math.prod(ranges) > LITTLE_WORK

    def core(operands: Arrays) -> np.ndarray:
        if not operands:
            return np.asarray(scale, dtype)
        read = [
            operand if reading.entries is None else operand[reading.entries]
            for reading, operand in zip(readings, operands, strict=True)
        ]
        found: np.ndarray = np.einsum(subscripts, *read, optimize=planned)
        return found if scale == 1 else scale * found

    box = tuple([ranges[label] for label in placed])
    if box == shape and kept == [axis.label if axis.is_label else -1 for axis in node.output]:
        return core
    missing = tuple([k for k, label in enumerate(placed) if label not in inside])
    entries = tuple([_positions(axis, placed, box) for axis in node.output])

    def placed_core(operands: Arrays) -> np.ndarray:
        result = np.zeros(shape, dtype)
        np.add.at(result, entries, np.broadcast_to(np.expand_dims(core(operands), missing), box))
        return result

    return placed_core


class _Reading(NamedTuple):
    """How a product reads an operand: labels of axes, and the entries, unless it is all of them in order."""

    labels: list[int]
    entries: tuple[np.ndarray, ...] | None


def _reading(axes: Sequence[Axis], shape: Shape, ranges: Shape) -> _Reading:
    if all(axis.is_label and ranges[axis.label] == size for axis, size in zip(axes, shape, strict=True)):
        return _Reading([axis.label for axis in axes], None)
    labels = list(dict.fromkeys(label for axis in axes for label in axis.labels()))
    box = [ranges[label] for label in labels]
    return _Reading(labels, tuple([_positions(axis, labels, box) for axis in axes]))


def _letters(labels: Sequence[int]) -> str:
    return "".join([chr(ord("a") + label) for label in labels])


def _positions(axis: Axis, labels: Sequence[int], box: Sequence[int]) -> np.ndarray:
    """Where an axis points for all values of some labels, one axis for each of them."""
    strides = dict(axis.terms)
    found = np.full((1,) * len(labels), axis.offset)
    for place, (label, size) in enumerate(zip(labels, box, strict=True)):
        if label in strides:
            found = found + np.expand_dims(
                strides[label] * np.arange(size), tuple(k for k in range(len(labels)) if k != place)
            )
    return found
