"""Derivatives of determinants that need no inverse, for matrices that may be singular."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hesse.errors import ShapeError
from hesse.ir import Apply, Node, Shape, pairwise
from hesse.ops.matrices import square
from hesse.ops.registry import General, operation, register

_may_be_singular: ContextVar[bool] = ContextVar("_may_be_singular", default=False)


def may_be_singular() -> bool:
    """Whether derivatives of determinants are made without inverses now."""
    return _may_be_singular.get()


@contextmanager
def singular_matrices() -> Iterator[None]:
    """Make derivatives of determinants without inverses, which takes longer."""
    token = _may_be_singular.set(True)
    try:
        yield
    finally:
        _may_be_singular.reset(token)


def minors(a: Node, order: int) -> Node:
    """The derivative of det(a) of an order: axes i, j, k, l, ... for the entries a[i,j], a[k,l], ..."""
    return operation("minors", a, params=(order,))


def _rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (shape,) = shapes
    order: int = params[0]
    square("minors", shape)
    if order < 1:
        raise ShapeError(f"minors needs an order of 1 or more, not {order}")
    return shape[:-2] + shape[-2:] * order


def minors_partial(a: Node, order: int) -> Node:
    """The partial of the derivative of det(a) of an order by a."""
    own = "abcdefghijkl"[: 2 * order]
    return pairwise(f"...{own}yz->...{own}...yz", minors(a, order + 1))


def _minors_partial(y: Apply) -> Node:
    """The derivative of the next order."""
    (order,) = y.params
    return minors_partial(y.operands[0], order)


def _flops(shapes: tuple[Shape, ...]) -> float:
    size = shapes[0][-1]
    return 30.0 * float(size) ** 3 if isinstance(size, int) else 0.0


register(
    General(
        "minors",
        _rule,
        (_minors_partial,),
        r"\operatorname{{minors}}\left({}\right)",
        last_axes=2,
        flops=_flops,
    )
)
