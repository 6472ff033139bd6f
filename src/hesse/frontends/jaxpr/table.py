"""The table of JAX primitives: by name, handlers on expressions.

A handler takes the operands of an equation, as expressions or as known arrays of NumPy (numbers where they
have no axes), and its parameters by name. It returns an expression, or a sequence of them where the primitive
has several results. It may return NotImplemented for operands that it leaves to JAX's own rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.frontends.expression import Expression
from hesse.frontends.handlers import Handlers
from hesse.frontends.operands import as_node, constant
from hesse.ops.integers import as_integer

HANDLERS = Handlers()
"""By the name of a primitive."""
KNOWN = Handlers()
"""The same for known arrays, where NumPy computes what JAX would have to compile first."""
primitive, enter = HANDLERS.register, HANDLERS.enter
known = KNOWN.register


def traced(value: Any) -> Expression:
    """An operand as an expression."""
    return value if isinstance(value, Expression) else constant(value)


def kind_of(dtype: Any) -> str:
    """What the entries of an array are: "real", "integer" or "boolean"; anything else by its name."""
    if np.issubdtype(dtype, np.bool_):
        return "boolean"
    if np.issubdtype(dtype, np.integer):
        return "integer"
    return "real" if is_real(dtype) else str(dtype)


def typed(value: Any, dtype: Any) -> Any:
    """A result as what its dtype says it is: real numbers that are integers may serve as such."""
    kind = kind_of(dtype)
    if not isinstance(value, Expression):
        return value
    if kind == "integer" and not is_whole(value):
        whole = value if value.boolean else np.round(value)
        return Expression(as_node(whole), index=as_integer(as_node(whole)))
    if kind == "boolean" and not value.boolean:
        return np.not_equal(value, 0.0)
    return np.multiply(value, 1.0) if kind == "real" and (value.boolean or is_whole(value)) else value


def is_real(dtype: Any) -> bool:
    """Whether a dtype is a floating one; NumPy knows nothing of bfloat16."""
    return bool(np.issubdtype(dtype, np.floating)) or str(dtype).startswith(("bfloat", "float"))


def is_whole(value: Any) -> bool:
    """Whether an operand holds whole numbers."""
    if isinstance(value, Expression):
        return value.index is not None or value.is_index
    return bool(np.asarray(value).dtype.kind in "iu")


def is_truth(value: Any) -> bool:
    """Whether an operand holds truth values."""
    return value.boolean if isinstance(value, Expression) else bool(np.asarray(value).dtype.kind == "b")
