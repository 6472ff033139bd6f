"""PyTorch as a front end: functions of torch tensors as expressions, by one table of ATen operations."""

from hesse.frontends.aten import (
    elementwise,
    linalg,
    memory,
    products,
    shapes,
)
from hesse.frontends.aten.session import computing, nested_session, session, traced_expression

__all__ = [
    "computing",
    "elementwise",
    "linalg",
    "memory",
    "nested_session",
    "products",
    "session",
    "shapes",
    "traced_expression",
]
