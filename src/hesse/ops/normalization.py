"""Functions of a whole last axis that normalise it; any axes before it are a batch.

`logsumexp`, `softmax` and `log_softmax` are records because their partials are a diagonal plus a product
of two vectors, which is lost when they are expanded, and because their kernels do not overflow.
"""

from __future__ import annotations

from typing import Any

from hesse.errors import ShapeError
from hesse.ir import Apply, Node, Shape, broadcast, delta, multiply, pairwise, total, uniform
from hesse.ops.behaviour import Behaviour, whole
from hesse.ops.ranges import NONPOSITIVE, Range, at_least
from hesse.ops.registry import General, elementwise, operation, register


def logsumexp(x: Node) -> Node:
    """`log(sum(exp(x)))` over the last axis."""
    return operation("logsumexp", x)


def softmax(x: Node) -> Node:
    """`exp(x) / sum(exp(x))` over the last axis."""
    return operation("softmax", x)


def log_softmax(x: Node) -> Node:
    """`x - logsumexp(x)` over the last axis."""
    return operation("log_softmax", x)


def layer_norm(x: Node, epsilon: float = 1e-5) -> Node:
    """`(x - mean) / sqrt(mean((x - mean)^2) + epsilon)` over the last axis."""
    _check_axis("layer_norm", x.shape)
    centered = x - _spread(_mean(x), x.shape)
    deviation = elementwise("sqrt", _mean(multiply(centered, centered)) + epsilon)
    return multiply(centered, _spread(1.0 / deviation, x.shape))


def _mean(x: Node) -> Node:
    """The mean over the last axis, whose size may be a symbol: the count is a sum of ones."""
    count = total(uniform(1.0, x.shape[-1:]), [0])
    return total(x, [x.rank - 1]) / broadcast(count, x.shape[:-1], [])


def _spread(x: Node, shape: Shape) -> Node:
    return broadcast(x, shape, range(x.rank))


def _check_axis(name: str, shape: Shape) -> None:
    if not shape or shape[-1] == 0:
        raise ShapeError(
            f"{name} works on the last axis, which must not be empty: it cannot take shape {shape}"
        )


def _reduced(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    _check_axis("logsumexp", shapes[0])
    return shapes[0][:-1]


def _kept(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    _check_axis("softmax", shapes[0])
    return shapes[0]


def _logsumexp_partial(y: Apply) -> Node:
    """dy = p' dx with p = softmax(x)."""
    return pairwise("...i->......i", softmax(y.operands[0]))


def _softmax_partial(y: Apply) -> Node:
    """dp = (diag(p) - p p') dx."""
    return pairwise("...i->...i...i", y) - pairwise("...i,...j->...i...j", y, y)


def _log_softmax_partial(y: Apply) -> Node:
    """dy = (I - 1 p') dx with p = softmax(x)."""
    ones = uniform(1.0, y.shape[-1:])
    return delta(y.shape) - pairwise("i,...j->...i...j", ones, softmax(y.operands[0]))


register(
    General(
        "logsumexp",
        _reduced,
        (_logsumexp_partial,),
        r"\operatorname{{logsumexp}}\left({}\right)",
        last_axes=1,
        behaviour=Behaviour(pieces=whole("convex", 1)),
        image=lambda x: at_least(x.low),
    ),
    General(
        "softmax",
        _kept,
        (_softmax_partial,),
        r"\operatorname{{softmax}}\left({}\right)",
        last_axes=1,
        behaviour=Behaviour(Range(0.0, 1.0, nonzero=True)),
    ),
    General(
        "log_softmax",
        _kept,
        (_log_softmax_partial,),
        r"\log\operatorname{{softmax}}\left({}\right)",
        last_axes=1,
        behaviour=Behaviour(NONPOSITIVE, whole("concave")),
    ),
)
