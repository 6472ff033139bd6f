"""A dense tensor filled slice by slice, so that no intermediate is larger than a slice needs.

The slices are along the first axis. Where a term has the label of that axis, its parts are sliced along it
and the same program runs on each slice; a term that cannot be sliced is computed whole.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hesse.backends.executable import Executable, executable
from hesse.backends.target import Array, DType, Target
from hesse.errors import ArgumentError
from hesse.ir import Add, Axis, Einsum, Node, Variable, add, einsum, number, remembered, topological, variable

Places = tuple[int | None, ...]
"""For each axis of a tensor where a slice begins, or None if the axis is whole."""


class Cut(NamedTuple):
    """A term cut along one of its labels: the node of one slice, and where its parts and its result begin.

    `parts` are by the names in the node, each with the name of the whole part.
    """

    node: Node
    parts: Mapping[str, tuple[str, Places]]
    output: Places


def check_chunk(chunk: Any) -> int:
    """Refuse what is no number of entries."""
    if isinstance(chunk, bool) or not isinstance(chunk, numbers.Integral) or chunk < 1:
        raise ArgumentError(f"chunk must be a positive number of entries of the first axis, not {chunk!r}")
    return int(chunk)


def dense_in_chunks(
    node: Node, values: Mapping[str, Array], dtype: DType, target: Target, rows: int
) -> Array:
    """The tensor as an array, `rows` entries of its first axis at a time."""
    result = target.zeros(tuple(map(number, node.shape)), dtype, list(values.values()))
    for term in node.operands if isinstance(node, Add) else (node,):
        length = _length(term)
        if length is None or length <= rows:
            value = _executable(term, dtype, target)(*_inputs(term, values))[0]
            result = target.added(result, ..., value)
            continue
        for start in range(0, length, rows):
            count = min(rows, length - start)
            cut = _cut(term, count)
            sliced = {
                name: values[whole][_index(places, start, count)]
                for name, (whole, places) in cut.parts.items()
            }
            value = _executable(cut.node, dtype, target)(*_inputs(cut.node, sliced))[0]
            result = target.added(result, _index(cut.output, start, count), value)
    return result


def chunk_elements(node: Node, rows: int, target: Target) -> int:
    """The largest number of entries that a slice needs besides the result and the parts."""
    peaks = []
    for term in node.operands if isinstance(node, Add) else (node,):
        length = _length(term)
        part = term if length is None or length <= rows else _cut(term, rows).node
        peaks.append(target.passes(target.planned([part])).peak_elements())
    return max(peaks, default=0)


def _index(places: Places, start: int, count: int) -> tuple[slice, ...]:
    return tuple(
        slice(None) if first is None else slice(first + start, first + start + count) for first in places
    )


def _inputs(node: Node, values: Mapping[str, Array]) -> list[Array]:
    return [values[name] for name in _names(node)]


def _names(node: Node) -> list[str]:
    return [part.name for part in topological([node]) if isinstance(part, Variable)]


def _executable(node: Node, dtype: DType, target: Target) -> Executable:
    return executable([node], _names(node), dtype, target)


def _length(term: Node) -> int | None:
    """The range of the label of the first axis, or None if the term cannot be cut along it."""
    if not isinstance(term, Einsum) or not term.output or len(term.output[0].terms) != 1:
        return None
    label = term.output[0].terms[0][0]
    return number(term.ranges[label]) if _can_be_cut(term, label) else None


def _can_be_cut(term: Einsum, label: int) -> bool:
    for axis in (axis for axes in (*term.axes, term.output) for axis in axes):
        if label in axis.labels() and (len(axis.terms) > 1 or axis.terms[0][1] != 1):
            return False
    return all(
        isinstance(operand, Variable) or _is_cut_sum(operand, _places(axes, label))
        for operand, axes in zip(term.operands, term.axes, strict=True)
    )


def _is_cut_sum(operand: Node, places: Places) -> bool:
    """Whether a factor is a sum of repeated tensors that can be cut along at most one axis."""
    at = [axis for axis, first in enumerate(places) if first is not None]
    if not isinstance(operand, Add) or len(at) > 1:
        return False
    return all(
        isinstance(part, Variable)
        or (
            isinstance(part, Einsum)
            and all(part.output[axis].is_label for axis in at)
            and all(part.ranges[part.output[axis].label] == operand.shape[axis] for axis in at)
            and all(_can_be_cut(part, part.output[axis].label) for axis in at)
        )
        for part in operand.operands
    )


@remembered
def _cut(term: Node, count: int) -> Cut:
    """The term with `count` values of the label of its first axis."""
    assert isinstance(term, Einsum)
    label = term.output[0].terms[0][0]
    parts: dict[str, tuple[str, Places]] = {}
    return Cut(_cut_product(term, label, 0, count, parts), parts, _places(term.output, label))


def _cut_product(
    term: Einsum, label: int, shift: int, count: int, parts: dict[str, tuple[str, Places]]
) -> Node:
    """A product with `count` values of a label, from `shift` on; what it reads is added to `parts`."""
    ranges = [count if k == label else size for k, size in enumerate(term.ranges)]
    operands, tables = [], []
    for operand, axes in zip(term.operands, term.axes, strict=True):
        places = tuple(None if p is None else p + shift for p in _places(axes, label))
        operands.append(_cut_operand(operand, places, count, parts))
        tables.append(_moved(axes, places))
    output = _places(term.output, label)
    shape = _shape(term.shape, output, count)
    return einsum(operands, tables, _moved(term.output, output), shape, ranges, term.scale)


def _cut_operand(operand: Node, places: Places, count: int, parts: dict[str, tuple[str, Places]]) -> Node:
    if isinstance(operand, Variable):
        name = ":".join([operand.name, *("" if first is None else str(first) for first in places)])
        parts[name] = (operand.name, places)
        return variable(name, _shape(operand.shape, places, count))
    at = next((axis for axis, first in enumerate(places) if first is not None), None)
    terms = []
    for part in operand.operands:
        if isinstance(part, Einsum):
            label, shift = (-1, 0) if at is None else (part.output[at].label, places[at] or 0)
            terms.append(_cut_product(part, label, shift, count, parts))
        else:
            terms.append(_cut_operand(part, places, count, parts))
    return add(terms, _shape(operand.shape, places, count))


def _places(axes: Sequence[Axis], label: int) -> Places:
    return tuple(axis.offset if label in axis.labels() else None for axis in axes)


def _shape(shape: Sequence[int | str], places: Places, count: int) -> tuple[int, ...]:
    return tuple(number(size) if first is None else count for size, first in zip(shape, places, strict=True))


def _moved(axes: Sequence[Axis], places: Places) -> tuple[Axis, ...]:
    return tuple(
        axis if first is None else Axis(axis.terms, 0) for axis, first in zip(axes, places, strict=True)
    )
