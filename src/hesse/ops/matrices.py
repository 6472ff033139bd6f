"""What the tables of linear algebra share: products, symmetric parts and shapes of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hesse.errors import ShapeError
from hesse.ir import Node, Shape, Size, broadcast, constant, delta, pairwise, select

ShapeRule = Callable[[tuple[Shape, ...], tuple[Any, ...]], Shape]
Cost = Callable[[tuple[Shape, ...]], float]


def matrix_product(a: Node, b: Node) -> Node:
    """`a b` on the last two axes, the batch axes being equal."""
    return pairwise("...ij,...jk->...ik", a, b)


def symmetric(a: Node, lower: bool | None) -> Node:
    """The symmetric matrices that have one triangle of `a`; None: the symmetric part.

    Of matrices with symbolic sizes it is the symmetric part in any case.
    """
    if lower is None:
        return symmetric_part(a)
    size = square("a symmetric matrix function", a.shape)
    turned = pairwise("...ij->...ji", a)
    if turned is a or isinstance(size, str):
        return symmetric_part(a)
    kept = np.tri(size) if lower else np.tri(size).T
    return pairwise("...ij,ij->...ij", a, constant(kept)) + pairwise(
        "...ij,ij->...ij", turned, constant(1.0 - kept)
    )


def symmetric_part(a: Node) -> Node:
    """`(a + a')/2`."""
    square("a symmetric matrix function", a.shape)
    return (a + pairwise("...ij->...ji", a)) / 2.0


def flip(a: Node, axis: int) -> Node:
    """An axis read backwards."""
    return select(a, [slice(None, None, -1) if k == axis else slice(None) for k in range(a.rank)])


def identity_like(a: Node) -> Node:
    """Unit matrices of the shape of square ones."""
    return broadcast(delta(a.shape[-1:]), a.shape, [a.rank - 2, a.rank - 1])


def square(name: str, shape: Shape) -> Size:
    """The size n of square matrices."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{name} needs square matrices, of shape (..., n, n), not {shape}")
    return shape[-1]


def square_rule(name: str, dropped: int = 0) -> ShapeRule:
    """The shape of the operand, a square matrix, without the last `dropped` axes."""

    def rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
        (shape,) = shapes
        square(name, shape)
        return shape[: len(shape) - dropped]

    return rule


def cubic(factor: float) -> Cost:
    """`factor * n^3` for each matrix of the first operand."""

    def cost(shapes: tuple[Shape, ...]) -> float:
        sizes = [size for size in shapes[0] if isinstance(size, int)]
        return factor * math.prod(sizes) * sizes[-1]

    return cost


def concrete(name: str, size: Size) -> int:
    """A size that must be a number."""
    if isinstance(size, str):
        raise ShapeError(f"the derivative of {name} needs concrete sizes, not {size}; bind the size first")
    return size
