"""PyTorch as a front end: functions of torch tensors as expressions, by one table of ATen operations."""

from hesse.frontends.aten import (
    activations,
    attention,
    combining,
    convolution,
    elementwise,
    indexing,
    linalg,
    losses,
    memory,
    normalization,
    pooling,
    products,
    reductions,
    sampling,
    sequences,
    shapes,
)
from hesse.frontends.aten.session import computing, nested_session, session, traced_expression

__all__ = [
    "activations",
    "attention",
    "combining",
    "computing",
    "convolution",
    "elementwise",
    "indexing",
    "linalg",
    "losses",
    "memory",
    "nested_session",
    "normalization",
    "pooling",
    "products",
    "reductions",
    "sampling",
    "sequences",
    "session",
    "shapes",
    "traced_expression",
]
