"""What each library takes for the derivative where a function has none, as functions on nodes.

The values are the same everywhere. A front end builds the functions of its library from its column; what a
column does not name is as in NumPy's, which is what functions of hesse and traced NumPy code have.
"""

from __future__ import annotations

from collections.abc import Callable

from hesse.ir import Node, multiply, total, uniform
from hesse.ops import elementwise as table
from hesse.ops.structural import shared_maximum

LEAK = 0.01
"""The slope of `leaky_relu` below zero."""


def _length(root: Callable[[Node], Node]) -> Callable[[Node], Node]:
    return lambda x: root(total(multiply(x, x), [x.rank - 1]))


def _bounded(cut: Callable[..., Node]) -> Callable[[Node], Node]:
    return lambda x: cut(x, uniform(-1.0, x.shape), uniform(1.0, x.shape))


def _abs_with_a_right_slope(x: Node) -> Node:
    return table.where(table.greater_equal(x, 0.0), x, -x)


def _leaky_with_a_left_slope(x: Node) -> Node:
    return table.where(table.greater(x, 0.0), x, x * LEAK)


def _open_hard_tanh(x: Node) -> Node:
    """Flat at its bounds."""
    return table.where(table.less(table.abs(x), 1.0), x, table.sign(x))


CONVENTIONS: dict[str, dict[str, Callable[..., Node]]] = {
    "numpy": {
        "abs": table.abs,
        "clip": _bounded(table.clip),
        "hard_tanh": table.hard_tanh,
        "leaky_relu": lambda x: table.leaky_relu(x, LEAK),
        "max": shared_maximum,
        "maximum": table.maximum,
        "minimum": table.minimum,
        "norm": _length(table.sqrt),
        "relu": table.relu,
    },
    "jax": {
        "abs": _abs_with_a_right_slope,
        "hard_tanh": _bounded(table.clamp),
    },
    "torch": {
        "clip": _bounded(table.clamp),
        "hard_tanh": _open_hard_tanh,
        "leaky_relu": _leaky_with_a_left_slope,
        "norm": _length(table.safe_sqrt),
    },
}
"""By library and function: of the last axis (max, norm), of two operands (maximum, minimum), else of each
entry. `clip` has the bounds -1 and 1 here."""

KINKS: dict[str, tuple[tuple[float, ...], ...]] = {
    "abs": ((0.0,),),
    "clip": ((-1.0, 1.0),),
    "hard_tanh": ((-1.0, 1.0),),
    "leaky_relu": ((0.0,),),
    "max": ((1.0, 3.0, 3.0),),
    "maximum": ((2.0,), (2.0,)),
    "minimum": ((2.0,), (2.0,)),
    "norm": ((0.0, 0.0),),
    "relu": ((0.0,),),
}
"""For each function operands at which it has a kink."""


def convention(library: str, name: str) -> Callable[..., Node]:
    """A function with the derivatives that a library gives it."""
    return CONVENTIONS[library].get(name) or CONVENTIONS["numpy"][name]
