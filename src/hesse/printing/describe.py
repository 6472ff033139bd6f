"""From one node to its form: matrix notation where it is unambiguous, index notation elsewhere."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any, assert_never, cast

import numpy as np

from hesse.ir import Add, Apply, Constant, Einsum, Map, Node, Variable, einsum, is_zero
from hesse.printing.chains import labels_of, matrix_form
from hesse.printing.forms import (
    Call,
    Chain,
    Elementwise,
    Form,
    Indexed,
    Leaf,
    Literal,
    Number,
    Scaled,
    Sum,
    Symbol,
    Transposed,
)
from hesse.printing.notation import range_notes, unused_sizes
from hesse.printing.products import filled, norm, powers

LITERAL_LIMIT = 6
"""Constants with at most this many entries are written out."""
BANDS_LIMIT = 4
"""A sum of at most this many terms is placed term by term."""


def describe(node: Node, shared: Container[Node] = ()) -> Form:
    """The form of a node; sums in `shared` are left whole."""
    node = cast("Variable | Constant | Einsum | Add | Map | Apply", node)
    match node:
        case Variable():
            return Symbol(node.name)
        case Constant():
            return _constant(node)
        case Einsum():
            placed = _bands(node, shared)
            return Sum(tuple(map(Leaf, placed))) if placed else _einsum(node)
        case Add():
            if not node.operands:
                return filled(0.0, node.shape) or Number(0.0)
            return Sum(tuple(form for operand in node.operands for form in _terms(operand, shared)))
        case Map():
            return _function(node)
        case Apply():
            # a reshape is written with the sizes of all axes
            params = node.shape if node.name == "reshape" else node.params
            return Call(node.name, tuple(map(Leaf, node.operands)), "apply", node.rank == 0, params)
    assert_never(node)


def is_large(node: Node) -> bool:
    """Whether the node is a constant too large to be written out."""
    return isinstance(node, Constant) and node.value.size > LITERAL_LIMIT


def _constant(node: Constant) -> Form:
    if node.rank == 0:
        return Number(float(node.value))
    sizes = tuple(Symbol(str(size)) for size in node.shape)
    return Call("constant", sizes) if is_large(node) else Literal(_nested(node.value))


def _nested(array: np.ndarray) -> Any:
    return tuple(map(_nested, array)) if array.ndim else float(array)


def _function(node: Map) -> Form:
    """An element-wise function; the root of `x'*x` is a norm."""
    if node.name == "sqrt" and node.rank == 0 and isinstance(node.operands[0], Einsum):
        match describe(node.operands[0]):
            case Elementwise(factors=((Call(name="norm2") as call, 2),), divisors=()):
                return call
            case Elementwise(factors=((Chain(factors=(Transposed(body=row), column)), 1),), divisors=()):
                if row == column:
                    return norm(row, 1)
    if node.name == "reciprocal":
        return powers([node], scalar=node.rank == 0)
    return Call(node.name, tuple(map(broadcasting, node.operands)), "map", scalar=node.rank == 0)


def broadcasting(node: Node) -> Form:
    """An operand beside others of its shape, where a scalar may stand for a tensor of equal entries."""
    if is_zero(node):
        return Number(0.0)
    if isinstance(node, Einsum) and not any(operand.rank for operand in node.operands) and _fills(node):
        scalars = powers(node.operands, scalar=True) if node.operands else None
        return scaled_form(node.scale, unused_sizes(node), scalars, None)
    return Leaf(node)


def _terms(node: Node, shared: Container[Node]) -> list[Form]:
    """A term of a sum; where it is a sum that is placed by a pattern, the placed terms."""
    return [Leaf(band) for band in _bands(node, shared)] or [broadcasting(node)]


def _bands(node: Node, shared: Container[Node]) -> list[Node]:
    """A short sum of views that is placed by a pattern, as placed views: `f[i] -> [i,i]` and the like."""
    if not isinstance(node, Einsum) or len(node.operands) != 1 or matrix_form(node) is not None:
        return []
    (inner,), (axes,) = node.operands, node.axes
    if not isinstance(inner, Add) or inner in shared or len(inner.operands) > BANDS_LIMIT:
        return []
    if not any(map(is_indexed, inner.operands)):
        return []
    placed = [
        einsum([term], [axes], node.output, node.shape, node.ranges, node.scale) for term in inner.operands
    ]
    return placed if all(isinstance(band, Einsum) for band in placed) else []


def is_indexed(node: Node) -> bool:
    """Whether the node is written with indices."""
    form = _einsum(node) if isinstance(node, Einsum) else None
    return isinstance(form.body if isinstance(form, Scaled) else form, Indexed)


def _fills(node: Einsum) -> bool:
    """Whether the output is every entry of the result once."""
    labels = labels_of(node.output, node.shape, node.ranges)
    if labels is None:
        return False
    named = [label for label in labels if label is not None]
    return len(set(named)) == len(named)


def _einsum(node: Einsum) -> Form:
    found = matrix_form(node)
    if found is not None:
        scalars, body = found
        sizes = unused_sizes(node)
        if isinstance(body, Call) and body.name in ("vector", "matrix") and scalars is None and not sizes:
            return replace(body, arguments=(Number(node.scale), *body.arguments[1:]))
        return scaled_form(node.scale, sizes, scalars, body)
    numbers = [operand for operand in node.operands if not operand.rank]
    factors = tuple(
        (Leaf(part), axes) for part, axes in zip(node.operands, node.axes, strict=True) if part.rank
    )
    body = Indexed(factors, node.output, range_notes(node)) if factors or node.shape else None
    product = powers(numbers, scalar=True) if numbers else None
    return scaled_form(node.scale, unused_sizes(node), product, body)


def scaled_form(value: float, sizes: tuple[str, ...], scalars: Form | None, body: Form | None) -> Form:
    """A number, sizes of labels that are summed over without any use, and scalars times a tensor."""
    if value == 1 and not sizes and (scalars is None or body is None):
        return body or scalars or Number(1.0)
    if not sizes and scalars is None and body is None:
        return Number(value)
    if scalars is not None and not isinstance(scalars, Elementwise):
        scalars = Elementwise(((scalars, 1),), scalar=True)
    return Scaled(value, sizes, scalars, body)
