"""Partials, and the orders in which they are multiplied."""

from hesse.calculus.columns import Columns
from hesse.calculus.compositions import enter_compositions
from hesse.calculus.derivative import (
    TAYLOR,
    Choice,
    check_mode,
    choose,
    derivative_blocks,
    differentiate,
    sorted_blocks,
)
from hesse.calculus.modes import MODES, cross_country, forward, pull_back, push_forward, reverse
from hesse.calculus.operators import (
    Direction,
    along,
    along_curve,
    taylor_cost,
    taylor_diagonal,
    taylor_laplacian,
)
from hesse.calculus.partial import partial
from hesse.calculus.taylor import Parameter, Propagation

__all__ = [
    "MODES",
    "TAYLOR",
    "Choice",
    "Columns",
    "Direction",
    "Parameter",
    "Propagation",
    "along",
    "along_curve",
    "check_mode",
    "choose",
    "cross_country",
    "derivative_blocks",
    "differentiate",
    "enter_compositions",
    "forward",
    "partial",
    "pull_back",
    "push_forward",
    "reverse",
    "sorted_blocks",
    "taylor_cost",
    "taylor_diagonal",
    "taylor_laplacian",
]
