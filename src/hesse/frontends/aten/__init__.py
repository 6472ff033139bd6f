"""PyTorch as a front end: functions of torch tensors as expressions, by one table of ATen operations."""

from hesse.frontends.aten import (
    elementwise,
    linalg,
    products,
    shapes,
)
from hesse.frontends.aten.session import session, traced_expression

__all__ = [
    "elementwise",
    "linalg",
    "products",
    "session",
    "shapes",
    "traced_expression",
]
