"""Element-wise rows: comparisons, logic, steps, and the choices between values.

Conditions are tensors of 0 and 1. Comparisons, logic and steps are locally constant: they pass no
derivative. At ties `maximum`, `minimum` and `clip` share the derivative equally, as JAX does.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable

import numpy as np

from hesse.ir import Constant, Map, Node, is_zero, multiply, uniform, uniform_value
from hesse.ops.behaviour import Behaviour, valley, whole
from hesse.ops.ranges import NONNEGATIVE, UNIT, UNKNOWN, Range
from hesse.ops.registry import ELEMENTWISE, define, elementwise

STEP = (0.2, 0.4)
"""An interval without jumps of floor, ceil, round and trunc."""
INDICATOR = Behaviour(UNIT, smooth=False)
"""Values 0 and 1."""


def _indicator(name: str, symbol: str, holds: Callable[[float, float], bool]) -> Callable[..., Node]:
    latex = rf"\left[{{}} {symbol} {{}}\right]"
    return define(name, None, None, latex=latex, value=lambda a, b: float(holds(a, b)), behaviour=INDICATOR)


greater = _indicator("greater", ">", lambda a, b: a > b)
greater_equal = _indicator("greater_equal", r"\geq", lambda a, b: a >= b)
less = _indicator("less", "<", lambda a, b: a < b)
less_equal = _indicator("less_equal", r"\leq", lambda a, b: a <= b)
equal = _indicator("equal", "=", lambda a, b: a == b)
not_equal = _indicator("not_equal", r"\neq", lambda a, b: a != b)
logical_and = _indicator("logical_and", r"\land", lambda a, b: a != 0 and b != 0)
logical_or = _indicator("logical_or", r"\lor", lambda a, b: a != 0 or b != 0)
logical_not = define(
    "logical_not",
    None,
    latex=r"\left[\lnot {}\right]",
    value=lambda a: float(a == 0),
    behaviour=INDICATOR,
)

isfinite = define(
    "isfinite",
    None,
    latex=r"\left[\left|{}\right| < \infty\right]",
    value=lambda a: float(math.isfinite(a)),
    behaviour=INDICATOR,
    definition=lambda a: less(abs(a), math.inf),
)
isinf = define(
    "isinf",
    None,
    latex=r"\left[\left|{}\right| = \infty\right]",
    value=lambda a: float(math.isinf(a)),
    behaviour=INDICATOR,
    definition=lambda a: equal(abs(a), math.inf),
)
isnan = define(
    "isnan",
    None,
    value=lambda a: float(math.isnan(a)),
    behaviour=INDICATOR,
    definition=lambda a: not_equal(a, a),
)

INDICATORS = frozenset(name for name, row in ELEMENTWISE.items() if row.behaviour is INDICATOR)
"""Rows whose values are 0 and 1."""


def truth(condition: Node) -> Node:
    """A condition as zeros and ones."""
    if isinstance(condition, Map) and condition.name in INDICATORS:
        return condition
    if isinstance(condition, Constant) and np.isin(condition.value, (0, 1)).all():
        return condition
    return not_equal(condition, 0.0)


chosen = define(
    "chosen",
    None,
    latex="{}",
    value=lambda condition: float(condition != 0),
    behaviour=INDICATOR,
    definition=truth,
)
"""The derivative of a choice by what is chosen: 1 where the condition is not 0, else 0.

It says more than a number. A product with it is 0 where it is 0, whatever the other factors are; programs
select (`rewrite.selections`). A comparison that somebody multiplies with is a number like all others.
"""

sign = define(
    "sign",
    None,
    sample=((0.2, 2.0),),
    value=lambda x: float(x > 0) - float(x < 0),
    behaviour=Behaviour(Range(-1.0, 1.0), whole("unknown", 1), smooth=False, strict=False),
)
floor = define("floor", None, latex=r"\left\lfloor {} \right\rfloor", sample=(STEP,), value=math.floor)
ceil = define("ceil", None, latex=r"\left\lceil {} \right\rceil", sample=(STEP,), value=math.ceil)
round = define("round", None, sample=(STEP,), value=builtins.round)
trunc = define("trunc", None, sample=(STEP,), value=math.trunc)
# Quotients are not multiplied by a reciprocal: 49 * (1/49) is less than 1.
floor_divide = define(
    "floor_divide",
    None,
    None,
    latex=r"\left\lfloor {} / {} \right\rfloor",
    sample=((0.6, 0.8), STEP),
    value=lambda a, b: a // b,
)
ratio = define(
    "ratio",
    lambda y, a, b: elementwise("reciprocal", b),
    lambda y, a, b: -multiply(y, elementwise("reciprocal", b)),
    latex=r"\frac{{{}}}{{{}}}",
    sample=((0.6, 0.8), (0.45, 0.55)),
    value=lambda a, b: a / b,
    definition=lambda a, b: multiply(a, elementwise("reciprocal", b)),
)
remainder = define(
    "remainder",
    lambda y, a, b: uniform(1.0, a.shape),
    lambda y, a, b: -floor_divide(a, b),
    sample=((0.6, 0.8), (0.45, 0.55)),
    value=lambda a, b: a % b,
    flops=10,
)
fmod = define(
    "fmod",
    lambda y, a, b: uniform(1.0, a.shape),
    lambda y, a, b: -round(multiply(a - y, elementwise("reciprocal", b))),
    sample=((-0.8, -0.6), (0.45, 0.55)),
    value=math.fmod,
    flops=10,
)


stop_gradient = define("stop_gradient", None, value=lambda x: x, image=lambda x: x)

abs = define(
    "abs",
    lambda y, x: sign(x),
    latex=r"\left|{}\right|",
    sample=((0.2, 2.0),),
    value=builtins.abs,
    behaviour=Behaviour(NONNEGATIVE, valley(), smooth=False),
)


def _share(a: Node, b: Node) -> Node:
    """The part that a has in max(a, b): 1 where it is larger, 1/2 at a tie."""
    return (chosen(greater(a, b)) + chosen(greater_equal(a, b))) * 0.5


maximum = define(
    "maximum",
    lambda y, a, b: _share(a, b),
    lambda y, a, b: _share(b, a),
    latex=r"\max\left({}, {}\right)",
    value=max,
    short="max",
    behaviour=Behaviour(UNKNOWN, whole("convex", 1), smooth=False),
    image=lambda a, b: Range(max(a.low, b.low), max(a.high, b.high), a.is_positive or b.is_positive),
)

minimum = define(
    "minimum",
    lambda y, a, b: _share(b, a),
    lambda y, a, b: _share(a, b),
    latex=r"\min\left({}, {}\right)",
    value=min,
    short="min",
    behaviour=Behaviour(UNKNOWN, whole("concave", 1), smooth=False),
    image=lambda a, b: Range(min(a.low, b.low), min(a.high, b.high), a.is_negative or b.is_negative),
)

clip = define(
    "clip",
    # The partials of minimum(maximum(x, low), high), also where low > high.
    lambda y, x, low, high: multiply(_share(x, low), _share(high, x)),
    lambda y, x, low, high: multiply(_share(low, x), _share(high, low)),
    lambda y, x, low, high: _share(maximum(x, low), high),
    sample=((-0.9, 0.9), (-2.0, -1.0), (1.0, 2.0)),
    value=lambda x, low, high: min(max(x, low), high),
    flops=2,
    definition=lambda x, low, high: minimum(maximum(x, low), high),
)


define(
    "where",
    None,
    lambda y, condition, a, b: chosen(condition),
    lambda y, condition, a, b: chosen(logical_not(condition)),
    sample=((1.0, 1.0), (-2.0, 2.0), (-2.0, 2.0)),
    value=lambda condition, a, b: a if condition else b,
    image=lambda condition, a, b: a.union(b),
)


def where(condition: Node, a: Node | float, b: Node | float) -> Node:
    """a where the condition is not 0, else b.

    Derivatives are chosen, too: what is infinite or nan in the branch that is not taken leaves no trace.
    """
    known = 0.0 if is_zero(condition) else uniform_value(condition)
    if known is None:
        return elementwise("where", condition, a, b)
    chosen = a if known else b
    return chosen if isinstance(chosen, Node) else uniform(chosen, condition.shape)


select = define(
    "select",
    None,
    lambda y, condition, a: chosen(condition),
    sample=((1.0, 1.0), (-2.0, 2.0)),
    value=lambda condition, a: a if condition else 0.0,
    image=lambda condition, a: a.with_zero(),
    definition=lambda condition, a: where(condition, a, 0.0),
)
"""A product with `chosen(condition)`, as programs compute it."""
