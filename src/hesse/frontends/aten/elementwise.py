"""Element-wise operations of ATen, with the derivatives at kinks that PyTorch gives them."""

from __future__ import annotations

import math
import traceback
from typing import Any

import numpy as np
import torch

import hesse.ops.elementwise as rows
from hesse.frontends.aten.table import Typed, aten, enter
from hesse.frontends.aten.tensor import is_recording
from hesse.frontends.complexes import Complex, both_parts
from hesse.frontends.expression import Expression
from hesse.frontends.integers import is_index
from hesse.frontends.operands import broadcast_nodes
from hesse.frontends.tracing import untraceable
from hesse.frontends.ufuncs import elementwise
from hesse.ir import Map, Node, Variable, topological

NUMPY: dict[str, Any] = {
    "abs": np.abs,
    "arccos": np.arccos,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg2rad": np.deg2rad,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logical_not": np.logical_not,
    "bitwise_not": np.logical_not,
    "neg": np.negative,
    "positive": np.positive,
    "rad2deg": np.rad2deg,
    "reciprocal": np.reciprocal,
    "sgn": np.sign,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "__and__": np.bitwise_and,
    "__or__": np.bitwise_or,
    "__xor__": np.bitwise_xor,
    "mul": np.multiply,
    "heaviside": np.heaviside,
}
"""Operations that are functions of NumPy."""
ROWS: dict[str, str] = {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "lgamma": "lgamma",
    "sigmoid": "sigmoid",
    "special_log_ndtr": "log_ndtr",
    "special_ndtr": "ndtr",
    "special_ndtri": "ndtri",
    "xlogy": "xlogy",
    "relu": "relu",
    "selu": "selu",
    "silu": "silu",
    "softsign": "softsign",
}
"""Operations that are rows or functions of the operation table."""

for _name, _function in NUMPY.items():
    enter([_name], lambda *values, _function=_function: _function(*values))
for _name, _row in ROWS.items():
    enter([_name], lambda *values, _row=_row: elementwise(_row, *values))


@aten("add")
def add(x: Any, y: Any, alpha: float = 1) -> Any:
    """`x + alpha y`."""
    return np.add(x, y if alpha == 1 else np.multiply(y, alpha))


@aten("sub")
def sub(x: Any, y: Any, alpha: float = 1) -> Any:
    """`x - alpha y`."""
    return np.subtract(x, y if alpha == 1 else np.multiply(y, alpha))


@aten("rsub")
def rsub(x: Any, y: Any, alpha: float = 1) -> Any:
    """`y - alpha x`."""
    return sub(y, x, alpha)


@aten("div")
def div(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """`x / y`, rounded if asked for."""
    if rounding_mode is None:
        return np.divide(x, y)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    return np.round(np.divide(np.subtract(x, np.fmod(x, y)), y))


@aten("floor_divide")
def floor_divide(x: Any, y: Any) -> Any:
    """`x / y`, rounded down."""
    return np.floor_divide(x, y)


@aten("remainder")
def remainder(x: Any, y: Any) -> Any:
    """What is left of `x`, with the sign of `y`."""
    return np.remainder(x, y)


@aten("fmod")
def fmod(x: Any, y: Any) -> Any:
    """What is left of `x`, with the sign of `x`."""
    return np.fmod(x, y)


@aten("round")
def round_(x: Any, decimals: int = 0) -> Any:
    """Rounded to a number of decimals, halves to even."""
    return np.round(x, decimals)


@aten("signbit")
def signbit(x: Any) -> Any:
    """Whether the sign is negative, that of zero included."""
    return np.signbit(x)


@aten("copysign")
def copysign(x: Any, y: Any) -> Any:
    """`|x|` with the sign of `y`."""
    size = np.abs(x)
    return np.where(
        signbit(y) if isinstance(y, Expression) else math.copysign(1, y) < 0, np.negative(size), size
    )


@aten("fmax")
def fmax(x: Any, y: Any) -> Any:
    """The larger one; nan counts as missing, and at ties `x` gets the derivative."""
    return np.where(np.logical_or(np.greater_equal(x, y), np.isnan(y)), x, y)


@aten("fmin")
def fmin(x: Any, y: Any) -> Any:
    """The smaller one; nan counts as missing, and at ties `x` gets the derivative."""
    return np.where(np.logical_or(np.less_equal(x, y), np.isnan(y)), x, y)


@aten("polygamma")
def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of `digamma`."""
    return elementwise("polygamma", float(n), x) if n else elementwise("digamma", x)


@aten("logaddexp2")
def logaddexp2(x: Any, y: Any) -> Any:
    """`log2(2**x + 2**y)`."""
    unit = math.log(2.0)
    return np.divide(np.logaddexp(np.multiply(x, unit), np.multiply(y, unit)), unit)


@aten("special_xlog1py")
def xlog1py(x: Any, y: Any) -> Any:
    """`x log(1 + y)`, zero where x is zero."""
    is_apart = np.logical_and(np.equal(x, 0.0), np.less_equal(y, -1.0))
    return np.multiply(x, np.log1p(np.where(is_apart, 0.0, y)))


@aten("special_entr")
def entr(x: Any) -> Any:
    """`-x log(x)`, and minus infinity below zero, with derivatives that are nan."""
    is_below, nothing = np.less(x, 0.0), np.subtract(x, elementwise("stop_gradient", x))
    # the slope is 0/0, and not above zero, where autograd would multiply it by zero
    below = np.subtract(elementwise("hypot", np.where(is_below, nothing, 1.0), 0.0 * nothing), math.inf)
    return np.where(is_below, below, np.negative(elementwise("xlogy", x, x)))


@aten("sinc")
def sinc(x: Any) -> Any:
    """`sin(pi x) / (pi x)`; around 0 by its series, which all derivatives of the quotient lose."""
    angle = np.multiply(x, math.pi)
    is_small = np.less(np.abs(angle), 1.0)
    near, far = np.square(np.where(is_small, angle, 0.0)), np.where(is_small, 1.0, angle)
    series: Any = 1.0
    for k in range(20, 0, -2):
        series = np.add(np.multiply(np.multiply(near, series), -1.0 / (k * (k + 1))), 1.0)
    return np.where(is_small, series, np.divide(np.sin(far), far))


@aten("pow", "float_power")
def power(x: Any, y: Any) -> Any:
    """`x ** y`."""
    return np.power(x, y)


@aten("rsqrt")
def rsqrt(x: Any) -> Any:
    """`1 / sqrt(x)`."""
    return np.power(x, -0.5)


@aten("frac")
def frac(x: Any) -> Any:
    """`x - trunc(x)`."""
    return np.subtract(x, np.trunc(x))


@aten("addcmul")
def addcmul(x: Any, y: Any, z: Any, value: float = 1) -> Any:
    """`x + value y z`."""
    return np.add(x, np.multiply(np.multiply(y, z), value))


@aten("addcdiv")
def addcdiv(x: Any, y: Any, z: Any, value: float = 1) -> Any:
    """`x + value y / z`."""
    return np.add(x, np.multiply(np.divide(y, z), value))


@aten("lerp")
def lerp(x: Any, end: Any, weight: Any) -> Any:
    """`x + weight (end - x)`."""
    return np.add(x, np.multiply(weight, np.subtract(end, x)))


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`."""
    return np.where(condition, x, y)


@aten("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`value` where the mask holds, else `x`."""
    return np.where(mask, value, x)


@aten("clamp", "clip")
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x` between bounds; the slope is 1 at them."""
    if is_index(x):
        return np.clip(x, min, max)  # integers stay integers
    low = -math.inf if min is None else min
    high = math.inf if max is None else max
    return Expression(rows.clamp(*broadcast_nodes("clamp", [x, low, high])))


@aten("clamp_min")
def clamp_min(x: Any, min: Any) -> Any:
    """`x`, at least `min`."""
    return clamp(x, min)


@aten("clamp_max")
def clamp_max(x: Any, max: Any) -> Any:
    """`x`, at most `max`."""
    return clamp(x, None, max)


@aten(
    "clone",
    "alias",
    "contiguous",
    "_conj",
    "resolve_conj",
    "resolve_neg",
    "lift_fresh_copy",
    "view_as_real_copy",
)
def same(x: Any, **_: Any) -> Any:
    """The tensor itself."""
    return x


@aten("detach")
def detach(x: Any) -> Any:
    """A constant; but not where PyTorch records its own rules, for which it detaches what it saves."""
    return x if is_recording.get() else elementwise("stop_gradient", x)


@aten("to.dtype", "_to_copy", "to.dtype_layout", "to.device", "to.other", "type_as")
def converted(x: Expression, *arguments: Any, dtype: Any = None, **_: Any) -> Any:
    """The tensor in another dtype; numbers stay as exact as they are."""
    found = [value for value in (*arguments, dtype) if isinstance(value, torch.dtype)]
    if not found:
        return x
    (wanted,) = found
    if wanted == torch.bool:
        return np.not_equal(x, 0.0) if not x.boolean else x
    if wanted.is_complex:
        return Typed(Complex(*both_parts(np.multiply(x, 1.0))), wanted)
    if not wanted.is_floating_point:
        if x.boolean or x.index is not None or _is_flat(x.node):
            return Typed(x.astype(int), wanted)
        if _is_inside_pytorch():  # which knows that its derivative is zero
            return Typed(np.trunc(x).astype(int), wanted)
        raise untraceable(
            f"a conversion of real numbers to {wanted}",
            "Its derivative is zero everywhere. If that is meant, say it: x.detach().long(), or "
            "x.floor().long(); torch.trunc and torch.round are conversions without another dtype.",
        )
    number: Any = np.multiply(x, 1.0) if x.boolean or x.is_index else Expression(x.node)
    return Typed(number, wanted)


def _is_inside_pytorch() -> bool:
    """Whether a function of PyTorch's own modules is what calls an operation."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    caller = next((name for name in names if not name.startswith(("hesse.", "torch._"))), "")
    return caller.startswith("torch.nn.")


STEPS = frozenset(
    {"ceil", "floor", "floor_divide", "round", "sign", "stop_gradient", "trunc"}
    | {"equal", "greater", "greater_equal", "isfinite", "isnan", "less", "less_equal", "not_equal"}
)
"""Functions whose derivatives are zero, so that integers made of them hide nothing."""


def _is_flat(node: Node) -> bool:
    """Whether real variables enter through steps only."""
    flat: set[Node] = set()
    for inner in topological([node]):
        is_step = isinstance(inner, Map) and inner.name in STEPS
        is_real = isinstance(inner, Variable)
        if is_step or not (is_real or any(operand not in flat for operand in inner.operands)):
            flat.add(inner)
    return node in flat
