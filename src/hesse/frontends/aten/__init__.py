"""PyTorch as a front end: functions of torch tensors as expressions, by one table of ATen operations."""

from hesse.frontends.aten import (
    activations,
    elementwise,
    losses,
    normalization,
    products,
    reductions,
    shapes,
)
from hesse.frontends.aten.session import session, traced_expression

__all__ = [
    "activations",
    "elementwise",
    "losses",
    "normalization",
    "products",
    "reductions",
    "session",
    "shapes",
    "traced_expression",
]
