"""JAX as a front end: functions of JAX arrays as expressions, by one table of primitives."""

from hesse.frontends.jaxpr import (
    calls,
    complexes,
    control,
    convolution,
    drawing,
    elementwise,
    indexing,
    linear_algebra,
    orders,
    products,
    reductions,
    structure,
    writing,
)
from hesse.frontends.jaxpr.session import computing, nested_session, session, traced_expression

__all__ = [
    "calls",
    "complexes",
    "computing",
    "control",
    "convolution",
    "drawing",
    "elementwise",
    "indexing",
    "linear_algebra",
    "nested_session",
    "orders",
    "products",
    "reductions",
    "session",
    "structure",
    "traced_expression",
    "writing",
]
