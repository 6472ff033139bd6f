"""PyTorch as a front end: functions of torch tensors as expressions, by one table of ATen operations."""

from hesse.frontends.aten import (
    attention,
    convolution,
    elementwise,
    indexing,
    pooling,
    products,
    sampling,
    shapes,
)
from hesse.frontends.aten.session import session, traced_expression

__all__ = [
    "attention",
    "convolution",
    "elementwise",
    "indexing",
    "pooling",
    "products",
    "sampling",
    "session",
    "shapes",
    "traced_expression",
]
