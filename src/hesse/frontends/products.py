"""Products that sum over axes: all of them are one einsum."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import NotationError, ShapeError
from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node, axis_numbers, is_boolean, known_sizes
from hesse.frontends.structural import diagonal, moveaxis, ravel
from hesse.frontends.tracing import untraceable
from hesse.ir import (
    Axis,
    Node,
    Shape,
    Size,
    combine,
    constant_axis,
    label_axis,
    plain_axes,
    reshape,
    select,
    total,
)
from hesse.ir import einsum as einsum_node


@implements(np.einsum)
def numpy_einsum(*operands: Any) -> Expression:
    """`np.einsum` in letters or in its interleaved form."""
    if operands and not isinstance(operands[0], str):
        operands = _from_sublists(operands)
    text = operands[0]
    output = text.replace(" ", "").partition("->")[2].replace("...", "")
    if len(set(output)) < len(output):
        raise NotationError(f"np.einsum {text!r}: the output repeats a label; hesse.einsum allows that")
    return einsum(*operands)


def einsum(notation: str, *operands: Any) -> Expression:
    """Einstein summation as in NumPy; moreover, the output may repeat labels.

    `einsum("i->ii", v)` is a diagonal matrix. Labels are letters, `...` stands for any further axes,
    and without `->` the output has the labels that occur once, in alphabetical order.
    """
    if not isinstance(notation, str):
        raise NotationError(f"einsum starts with its notation, such as 'ij,jk->ik', not with {notation!r}")
    _refuse_booleans("einsum", operands)
    nodes = [as_node(operand) for operand in operands]
    return Expression(einsum_node(nodes, *_tables(notation, tuple([node.shape for node in nodes]))))


@functools.lru_cache(maxsize=1024)
def _tables(
    notation: str, shapes: tuple[Shape, ...]
) -> tuple[list[list[Axis]], list[Axis], list[Size], list[Size]]:
    """The axes of the operands and of the output, the shape, and the ranges of the labels."""
    inputs, output = _parsed(notation, shapes)
    sizes: dict[str, Size] = {}
    for label in dict.fromkeys(label for labels in inputs for label in labels):
        found = [
            shape[k]
            for shape, labels in zip(shapes, inputs, strict=True)
            for k, at in enumerate(labels)
            if at == label
        ]
        distinct = [size for size in dict.fromkeys(found) if size != 1]
        if len(distinct) > 1:
            raise ShapeError(
                f"einsum {notation!r}: the label {label[0]} has the sizes {' and '.join(map(str, distinct))}"
            )
        sizes[label] = distinct[0] if distinct else 1
    number = {label: k for k, label in enumerate(sizes)}

    def axis(label: str, size: Size) -> Axis:
        return label_axis(number[label]) if size == sizes[label] else constant_axis(0)

    axes = [
        [axis(*pair) for pair in zip(labels, shape, strict=True)]
        for labels, shape in zip(inputs, shapes, strict=True)
    ]
    result = [sizes[label] for label in output]
    return axes, [label_axis(number[at]) for at in output], result, list(sizes.values())


def _parsed(notation: str, shapes: Sequence[Shape]) -> tuple[list[list[str]], list[str]]:
    """The labels of the operands and of the output; the axes of `...` are `...1`, `...2` from the last."""
    text = notation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise NotationError(f"einsum {notation!r} names {len(terms)} operands, but {len(shapes)} were given")
    for term in [*terms, right]:
        letters = term.replace("...", "", 1)
        if not all(letter in string.ascii_letters for letter in letters):
            raise NotationError(f"einsum {notation!r}: {term!r} is not made of letters and one '...'")
    extra = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    for term, shape, count in zip(terms, shapes, extra, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ShapeError(f"einsum {notation!r}: {term!r} does not fit an operand of shape {shape}")
    inputs = [_labels(term, count) for term, count in zip(terms, extra, strict=True)]
    longest = max((count for term, count in zip(terms, extra, strict=True) if "..." in term), default=0)
    if arrow:
        output = _labels(right, longest)
    else:
        once = sorted(letter for letter in set(left) - set(",.") if left.count(letter) == 1)
        output = [*_labels("..." if longest else "", longest), *once]
    known = {label for labels in inputs for label in labels}
    if missing := [label for label in output if label not in known]:
        raise NotationError(f"einsum {notation!r}: the output label {missing[0]} is in no operand")
    if arrow and longest and "..." not in right:
        raise NotationError(f"einsum {notation!r}: the output lacks the '...' of the operands")
    return inputs, output


def _labels(term: str, count: int) -> list[str]:
    before, dots, after = term.partition("...")
    return [*before, *(f"...{k}" for k in range(count, 0, -1) if dots), *after]


def _from_sublists(operands: Sequence[Any]) -> tuple[Any, ...]:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])` in letters."""

    def letters(sublist: Any) -> str:
        return "".join("..." if entry is Ellipsis else string.ascii_letters[entry] for entry in sublist)

    values, sublists = list(operands[:-1:2]), [letters(sublist) for sublist in operands[1::2]]
    notation = ",".join(sublists) + (f"->{letters(operands[-1])}" if len(operands) % 2 else "")
    return (notation, *values)


def _refuse_booleans(name: str, operands: Sequence[Any]) -> None:
    if len(operands) > 1 and all(map(is_boolean, operands)):
        raise untraceable(f"{name} of truth values only", "Multiply one of them by 1.0 to count.")


def contract(name: str, a: Node, b: Node, axes_a: Sequence[int], axes_b: Sequence[int]) -> Node:
    """Sum over pairs of axes; the other axes of `a` come first, then those of `b`."""
    pairs = list(zip(axes_a, axes_b, strict=True))
    if any(a.shape[left] != b.shape[right] for left, right in pairs):
        raise ShapeError(f"{name}: the shapes {a.shape} and {b.shape} do not fit along the axes {pairs}")
    free_a = [k for k in range(a.rank) if k not in axes_a]
    free_b = [k for k in range(b.rank) if k not in axes_b]
    number = {right: left for left, right in pairs} | {k: a.rank + at for at, k in enumerate(free_b)}
    ranges = [*a.shape, *(b.shape[k] for k in free_b)]
    labels = [*free_a, *(number[k] for k in free_b)]
    axes = [plain_axes(a.rank), [label_axis(number[k]) for k in range(b.rank)]]
    shape = [ranges[label] for label in labels]
    return einsum_node([a, b], axes, [label_axis(label) for label in labels], shape, ranges)


@implements(np.matmul, np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Expression:
    """Matrix products over the last two axes; vectors are rows or columns, leading axes broadcast."""
    _refuse_booleans("matmul", (x1, x2))
    a, b = as_node(x1), as_node(x2)
    if not a.rank or not b.rank:
        raise ShapeError(
            f"matmul needs axes to multiply along, not the shapes {a.shape} and {b.shape}; use *"
        )
    if a.shape[-1] != b.shape[-2 if b.rank > 1 else -1]:
        raise ShapeError(f"matmul: the shapes {a.shape} and {b.shape} do not fit together")
    row, column = "i" if a.rank > 1 else "", "k" if b.rank > 1 else ""
    return einsum(f"...{row}j,...j{column}->...{row}{column}", Expression(a), Expression(b))


@implements(np.matvec)
def matvec(x1: Any, x2: Any, /) -> Expression:
    """Matrices times vectors, leading axes broadcast."""
    return einsum("...ij,...j->...i", x1, x2)


@implements(np.vecmat)
def vecmat(x1: Any, x2: Any, /) -> Expression:
    """Vectors times matrices, leading axes broadcast."""
    return einsum("...i,...ij->...j", x1, x2)


@implements(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Expression:
    """Inner products along an axis."""
    first, second = (Expression(moveaxis(as_node(value), axis, -1)) for value in (x1, x2))
    return einsum("...i,...i->...", first, second)


@implements(np.dot)
def dot(a: Any, b: Any) -> Expression:
    """The last axis of `a` with the last but one of `b`."""
    _refuse_booleans("dot", (a, b))
    first, second = as_node(a), as_node(b)
    if not first.rank or not second.rank:
        return call(np.multiply, (a, b))  # type: ignore[no-any-return]
    return Expression(contract("dot", first, second, [first.rank - 1], [max(second.rank - 2, 0)]))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Expression:
    """The last axes of both."""
    _refuse_booleans("inner", (a, b))
    first, second = as_node(a), as_node(b)
    if not first.rank or not second.rank:
        return call(np.multiply, (a, b))  # type: ignore[no-any-return]
    return Expression(contract("inner", first, second, [first.rank - 1], [second.rank - 1]))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Expression:
    """The sum of the products of all entries."""
    _refuse_booleans("vdot", (a, b))
    return inner(Expression(ravel(as_node(a))), Expression(ravel(as_node(b))))


@implements(np.outer, np.linalg.outer)
def outer(a: Any, b: Any, /) -> Expression:
    """All products of an entry of `a` with one of `b`."""
    return Expression(contract("outer", ravel(as_node(a)), ravel(as_node(b)), [], []))


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Expression:
    """A sum over pairs of axes: a number of last and first axes, or two lists."""
    first, second = as_node(a), as_node(b)
    _refuse_booleans("tensordot", (a, b))
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(first.rank, second.rank):
            raise ShapeError(f"tensordot over {axes} axes of the shapes {first.shape} and {second.shape}")
        axes = (list(range(first.rank - axes, first.rank)), list(range(axes)))
    left, right = (list(np.ravel(part)) for part in axes)
    if len(left) != len(right):
        raise ShapeError(f"tensordot: the lists {left} and {right} do not name equally many axes")
    axes_a = axis_numbers("tensordot", left, first.rank)
    return Expression(
        contract("tensordot", first, second, axes_a, axis_numbers("tensordot", right, second.rank))
    )


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: axis k of the result runs over axis k of `a`, then over that of `b`."""
    first, second = as_node(a), as_node(b)
    rank = max(first.rank, second.rank)
    first = reshape(first, (1,) * (rank - first.rank) + first.shape)
    second = reshape(second, (1,) * (rank - second.rank) + second.shape)
    joint = contract("kron", first, second, [], [])
    order = [k for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for k in pair]
    sizes = zip(known_sizes("kron", first.shape), known_sizes("kron", second.shape), strict=True)
    return Expression(joint).transpose(order).reshape([m * n for m, n in sizes])


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Expression:
    """The sum of a diagonal of the plane of two axes."""
    line = diagonal(as_node(a), offset, axis1, axis2)
    return Expression(total(line, [line.rank - 1]))


@implements(np.linalg.trace)
def matrix_trace(x: Any, /, *, offset: int = 0) -> Expression:
    """The sum of a diagonal of the last two axes."""
    return trace(x, offset, -2, -1)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any]) -> Any:
    """A chain of matrix products; the plan chooses the order."""
    result = arrays[0]
    for array in arrays[1:]:
        result = dot(result, array)
    return result


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The vector product of vectors with three components."""
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    first = Expression(moveaxis(as_node(a), axisa, -1))
    second = Expression(moveaxis(as_node(b), axisb, -1))
    if first.shape[-1] != 3 or second.shape[-1] != 3:
        raise ShapeError(f"cross needs three components, not the shapes {first.shape} and {second.shape}")
    symbol = np.zeros((3, 3, 3))
    symbol[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
    symbol[[0, 2, 1], [2, 1, 0], [1, 0, 2]] = -1.0
    return Expression(moveaxis(einsum("ijk,...j,...k->...i", symbol, first, second).node, -1, axisc))


@implements(np.linalg.cross)
def cross_along(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product along an axis."""
    return cross(x1, x2, axis=axis)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Expression:
    """`result[i + k] += a[i] v[k]`."""
    _refuse_booleans("convolve", (a, v))
    first, second = as_node(a), as_node(v)
    sizes = known_sizes("convolve", first.shape + second.shape)
    if first.rank != 1 or second.rank != 1 or 0 in sizes:
        raise ShapeError(f"convolve takes two vectors, not the shapes {first.shape} and {second.shape}")
    count = sum(sizes) - 1
    i, k = plain_axes(2)
    full = einsum_node([first, second], [[i], [k]], [combine([(1, i), (1, k)])], [count], sizes)
    lengths = {"full": count, "same": max(sizes), "valid": max(sizes) - min(sizes) + 1}
    if mode not in lengths:
        raise ShapeError(f"convolve: the mode is full, same or valid, not {mode!r}")
    start = (count - lengths[mode]) // 2
    return Expression(select(full, [slice(start, start + lengths[mode])]))


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Expression:
    """`result[i] += a[i + k] v[k]`; with the longer vector second, the same backwards."""
    _refuse_booleans("correlate", (a, v))
    first, second = as_node(a), as_node(v)
    if first.rank != 1 or second.rank != 1:
        raise ShapeError(f"correlate takes two vectors, not the shapes {first.shape} and {second.shape}")
    sizes = known_sizes("correlate", first.shape + second.shape)
    if sizes[1] > sizes[0]:
        return Expression(_backwards(correlate(Expression(second), Expression(first), mode).node))
    return convolve(Expression(first), Expression(_backwards(second)), mode)


def _backwards(vector: Node) -> Node:
    return select(vector, [slice(None, None, -1)])
