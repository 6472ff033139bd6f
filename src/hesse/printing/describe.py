"""From one node to its form: matrix notation where it is unambiguous, index notation elsewhere."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any, assert_never, cast

import numpy as np

from hesse.ir import (
    Add,
    Apply,
    Constant,
    Einsum,
    Map,
    Node,
    Shape,
    Variable,
    is_zero,
    rebuild,
    select,
    size_product,
    topological,
)
from hesse.ops.foreign import FOREIGN, printed_name, rule_of
from hesse.printing.chains import matrix_form, whole_labels
from hesse.printing.digits import regrouped
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
            return _operation(node)
    assert_never(node)


def _operation(node: Apply) -> Form:
    if node.name == FOREIGN:
        given = rule_of(node).arguments(list(map(Leaf, node.operands)))
        parts = tuple(Symbol(part) if isinstance(part, str) else part for part in given)
        return Call(printed_name(node), parts, "foreign", node.rank == 0)
    arguments: tuple[Form, ...] = tuple(map(Leaf, node.operands))
    params = node.params
    if node.name == "reshape":
        # it is written with the sizes of all axes, merged ones in the order of the axes they come from
        groups = regrouped(node.operands[0].shape, node.shape)
        params = node.shape if groups is None else tuple("*".join(map(str, group)) or 1 for group in groups)
        sizes = _exchanged_sizes(node.operands[0])
        if sizes is not None and node.shape == (size_product(sizes),) * 2:
            return Call("commutation", tuple(Symbol(str(size)) for size in sizes))
    elif node.name == "kron" and node.rank == 2 and sum(1 in part.shape for part in node.operands) == 1:
        arguments = tuple(_column_or_row(part) or Leaf(part) for part in node.operands)
    return Call(node.name, arguments, "apply", node.rank == 0, params)


def _exchanged_sizes(node: Node) -> Shape | None:
    """The sizes m and n of the tensor delta[i,l]*delta[j,k], as a matrix the commutation matrix."""
    if not isinstance(node, Einsum) or node.operands or node.scale != 1 or node.rank != 4:
        return None
    labels = whole_labels(node.output, node.shape, node.ranges)
    exchanged = labels is not None and labels[:2] == labels[:1:-1] and labels[0] != labels[1]
    return node.shape[:2] if exchanged and len(node.ranges) == 2 else None


def _column_or_row(node: Node) -> Form | None:
    """The vector of which a matrix is the only column or row: beside a matrix it may stand for that."""
    row = node.shape[0] == 1
    if isinstance(node, Apply) and node.name == "reshape":
        vector = node.operands[0]
    elif isinstance(node, Einsum) and len(node.operands) == 1:
        vector = select(node, (0, slice(None)) if row else (slice(None), 0))
    else:
        return None
    if vector.rank != 1 or node in topological([vector]):
        return None
    return Transposed(Leaf(vector)) if row else Leaf(vector)


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
    (inner,) = node.operands
    if not isinstance(inner, Add) or inner in shared or len(inner.operands) > BANDS_LIMIT:
        return []
    if not any(map(is_indexed, inner.operands)):
        return []
    placed = [rebuild(node, (term,)) for term in inner.operands]
    return placed if all(isinstance(band, Einsum) for band in placed) else []


def is_indexed(node: Node) -> bool:
    """Whether the node is written with indices."""
    form = _einsum(node) if isinstance(node, Einsum) else None
    return isinstance(form.body if isinstance(form, Scaled) else form, Indexed)


def _fills(node: Einsum) -> bool:
    """Whether the output is every entry of the result once."""
    labels = whole_labels(node.output, node.shape, node.ranges)
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
    if value == 1 and len(sizes) == 1 and scalars is None and body is None:
        return Symbol(sizes[0])
    if not sizes and scalars is None and body is None:
        return Number(value)
    if scalars is not None and not isinstance(scalars, Elementwise):
        scalars = Elementwise(((scalars, 1),), scalar=True)
    return Scaled(value, sizes, scalars, body)
