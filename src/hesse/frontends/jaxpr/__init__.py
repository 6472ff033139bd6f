"""JAX as a front end: functions of JAX arrays as expressions, by one table of primitives."""

from hesse.frontends.jaxpr import (
    calls,
    control,
    elementwise,
    indexing,
    products,
    reductions,
    structure,
    writing,
)
from hesse.frontends.jaxpr.session import computing, nested_session, session, traced_expression

__all__ = [
    "calls",
    "computing",
    "control",
    "elementwise",
    "indexing",
    "nested_session",
    "products",
    "reductions",
    "session",
    "structure",
    "traced_expression",
    "writing",
]
