"""Whole tensors as vectors and matrices, where sizes may be symbols: vec, Kronecker products, the maximum.

With concrete sizes all of these but the maximum are einsums with mixed-radix axes. With symbolic sizes they
are operations, so that formulas can be written, differentiated and printed before the sizes are known; their
sizes are products such as `m*n`. What derivatives need besides is `reshape`, a node only until its sizes are
bound.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from hesse.errors import ShapeError
from hesse.ir import (
    Add,
    Apply,
    Node,
    Shape,
    add,
    broadcast,
    plain_axes,
    reshape,
    scale,
    size_product,
    total,
    transpose,
    unscaled,
    view,
)
from hesse.ops.behaviour import Behaviour, whole
from hesse.ops.registry import General, Linear, elementwise, operation, register


def vec(x: Node) -> Node:
    """The columns of a matrix, one below the other."""
    return operation("vec", x)


def kron(a: Node, b: Node) -> Node:
    """The Kronecker product of two vectors or two matrices."""
    return operation("kron", a, b)


def maximum_entry(x: Node) -> Node:
    """The largest entry; the derivative is shared equally by entries that are equal to it."""
    return operation("max", x) if x.rank else x


def _vec_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (shape,) = shapes
    if len(shape) < 2:
        raise ShapeError(f"vec needs a matrix, of shape (m, n), not {shape}")
    return (size_product(shape[:2]), *shape[2:])


def _vec_transpose(y: Apply, cotangent: Node) -> Node:
    """The columns put side by side again; what was a vec of this size is that matrix."""
    shape = y.operands[0].shape[:2] + cotangent.shape[1:]
    base, factor = unscaled(cotangent)
    terms = base.operands if isinstance(base, Add) and base.operands else (base,)
    matrices = [_inside_vec(term, shape) for term in terms]
    if all(matrix is None for matrix in matrices):
        return _side_by_side(cotangent, shape)
    found = [
        _side_by_side(term, shape) if matrix is None else matrix
        for term, matrix in zip(terms, matrices, strict=True)
    ]
    return scale(add(found, shape), factor)


def _inside_vec(node: Node, shape: Shape) -> Node | None:
    """`c*X` if the node is `c*vec(X)` and X has the shape."""
    base, factor = unscaled(node)
    if isinstance(base, Apply) and base.name == "vec" and base.operands[0].shape == shape:
        return scale(base.operands[0], factor)
    return None


def _side_by_side(node: Node, shape: Shape) -> Node:
    split = reshape(node, (shape[1], shape[0], *shape[2:]))
    return transpose(split, [1, 0, *range(2, split.rank)])


def _kron_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    a, b = shapes
    if len(a) != len(b):
        raise ShapeError(f"kron needs two vectors or two matrices, not the shapes {a} and {b}")
    return tuple(size_product(pair) for pair in zip(a, b, strict=True))


def _kron_partial_left(y: Apply) -> Node:
    """dK[p*i+k, q*j+l] = dA[i,j] B[k,l], for B of size p x q."""
    return _kron_partial(y, 0)


def _kron_partial_right(y: Apply) -> Node:
    """dK[p*i+k, q*j+l] = A[i,j] dB[k,l], for B of size p x q."""
    return _kron_partial(y, 1)


def _kron_partial(y: Apply, slot: int) -> Node:
    a, b = y.operands
    ranges = a.shape + b.shape
    axes = (plain_axes(a.rank), plain_axes(b.rank, a.rank))
    output = (*chain.from_iterable(zip(*axes, strict=True)), *axes[slot])
    shape = [ranges[axis.label] for axis in output]
    other = view(y.operands[1 - slot], axes[1 - slot], output, shape, ranges)
    return reshape(other, y.shape + y.operands[slot].shape)


def _max_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (shape,) = shapes
    if 0 in shape:
        raise ShapeError(f"max needs at least one entry, not the shape {shape}")
    return ()


def _max_partial(y: Apply) -> Node:
    """1 at the largest entry; where several entries are the largest, an equal part at each."""
    (x,) = y.operands
    largest = elementwise("equal", x, broadcast(y, x.shape, ()))
    return largest / broadcast(total(largest, range(x.rank)), x.shape, ())


def _reshape_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    rank, *sizes = params
    return (*sizes, *shapes[0][rank:])


def _reshape_transpose(y: Apply, cotangent: Node) -> Node:
    return reshape(cotangent, y.operands[0].shape + cotangent.shape[y.rank :])


register(
    Linear("vec", _vec_rule, _vec_transpose, r"\operatorname{{vec}}\left({}\right)", image=lambda x: x),
    Linear(
        "reshape",
        _reshape_rule,
        _reshape_transpose,
        r"\operatorname{{reshape}}\left({}\right)",
        image=lambda x: x,
    ),
    General("kron", _kron_rule, (_kron_partial_left, _kron_partial_right), r"{} \otimes {}"),
    General(
        "max",
        _max_rule,
        (_max_partial,),
        r"\max\left({}\right)",
        behaviour=Behaviour(pieces=whole("convex", 1), smooth=False),
        image=lambda x: x,
    ),
)
