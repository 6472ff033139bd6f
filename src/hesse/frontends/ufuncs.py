"""NumPy's element-wise functions as rows and builders of the operation table."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import hesse.ops.elementwise as table
from hesse.frontends.dispatch import FUNCTIONS, LOOKUPS, NAMED, call, implements
from hesse.frontends.expression import Expression, Quotient
from hesse.frontends.integers import chosen, compared, with_index
from hesse.frontends.operands import (
    as_divided,
    as_expression,
    as_node,
    broadcast_nodes,
    is_boolean,
    is_number,
)
from hesse.frontends.tracing import untraceable
from hesse.ir import Node, add, multiply, scale, uniform
from hesse.ops import integers
from hesse.ops.registry import ELEMENTWISE, Elementwise

JUMPS: dict[Any, str] = {
    np.floor: "floor",
    np.ceil: "ceil",
    np.trunc: "trunc",
    np.fix: "trunc",
    np.rint: "round",
}
OTHER_NAMES: dict[Any, str] = {
    np.fabs: "abs",
    np.float_power: "power",
}
"""NumPy functions whose row or builder has another name; ufuncs are found by their own names."""
LOGICAL: dict[Any, str] = {np.logical_and: "logical_and", np.logical_or: "logical_or"}
BITWISE: dict[Any, Any] = {
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.bitwise_xor: np.logical_xor,
}
FACTORS: dict[Any, float] = {
    np.deg2rad: math.pi / 180.0,
    np.radians: math.pi / 180.0,
    np.rad2deg: 180.0 / math.pi,
    np.degrees: 180.0 / math.pi,
}
SCIPY_ONE_OPERAND: dict[str, str] = {
    "erf": "erf",
    "erfc": "erfc",
    "erfcinv": "erfcinv",
    "erfinv": "erfinv",
    "log_ndtr": "log_ndtr",
    "ndtr": "ndtr",
    "ndtri": "ndtri",
    "gammaln": "lgamma",
    "loggamma": "lgamma",
    "psi": "digamma",
    "digamma": "digamma",
    "expit": "sigmoid",
}
"""Names of ufuncs of scipy.special, which is never imported here."""


def elementwise(name: str, *values: Any) -> Expression:
    """A function of the table on broadcast operands."""
    return Expression(table.function(name)(*broadcast_nodes(name, values)))


def _register_logical(function: Any, name: str) -> None:
    @implements(function)
    def handler(x: Any, y: Any, /) -> Expression:
        return Expression(elementwise(name, truth(x), truth(y)).node, boolean=True)


def _register_bitwise(function: Any, logical: np.ufunc) -> None:
    @implements(function)
    def handler(x: Any, y: Any, /) -> Any:
        if not (is_boolean(x) and is_boolean(y)):
            raise untraceable(
                "&, | or ^ of numbers", "They combine conditions: (x > 0) & (y > 0), with parentheses."
            )
        return logical(x, y)


def _register_factor(function: Any, factor: float) -> None:
    @implements(function)
    def handler(x: Any, /) -> Expression:
        if is_boolean(x):
            raise untraceable(f"np.{function.__name__} of truth values", "Use ~ or np.logical_not.")
        return Expression(scale(as_node(x), factor))


@implements(np.negative)
def negative(x: Any, /) -> Expression:
    """`-x`."""
    if is_boolean(x):
        raise untraceable("np.negative of truth values", "Use ~ or np.logical_not.")
    return with_index(Expression(-as_node(x)), integers.negative, x)


@implements(np.signbit)
def signbit(x: Any, /) -> Any:
    """Whether the sign is negative, that of zero included."""
    return np.logical_or(np.less(x, 0.0), np.less(np.reciprocal(x), 0.0))


def _register_jumps(function: Any, name: str) -> None:
    @implements(function)
    def handler(x: Any, /) -> Expression:
        return Expression(table.function(name)(as_divided(x)))


def _register_all(register: Callable[[Any, Any], None], functions: dict[Any, Any]) -> None:
    for function, name in functions.items():
        register(function, name)


_register_all(_register_logical, LOGICAL)
_register_all(_register_bitwise, BITWISE)
_register_all(_register_factor, FACTORS)
_register_all(_register_jumps, JUMPS)
NAMED.update(
    {
        scipy_name: lambda x, /, name=name: elementwise(name, x)
        for scipy_name, name in SCIPY_ONE_OPERAND.items()
    }
)
NAMED["xlogy"] = lambda x, y, /: elementwise("xlogy", x, y)


def truth(value: Any) -> Expression:
    """A value as truth values: whether it is not zero."""
    if is_boolean(value):
        return as_expression(value)
    node = as_node(value)
    return Expression(table.not_equal(node, uniform(0.0, node.shape)), boolean=True)


def _with_quotients(result: Expression, x: Any, y: Any, sign: float = 1.0) -> Expression:
    """`x + sign*y`, of which it is kept that one of both is a quotient."""
    known = [value.quotient for value in (x, y) if isinstance(value, Expression)]
    if any(quotient is not None and isinstance(quotient.written, tuple) for quotient in known):
        values = [
            Expression(as_divided(value)) if isinstance(value, Expression) else value for value in (x, y)
        ]
        first, second = broadcast_nodes("add", values)
        result.quotient = Quotient(result.node, add([first, scale(second, sign)], first.shape))
    return result


@implements(np.add)
def add_(x: Any, y: Any, /) -> Expression:
    """The sum; of truth values, whether one of them holds."""
    if is_boolean(x) and is_boolean(y):
        return Expression(elementwise("logical_or", x, y).node, boolean=True)
    nodes = broadcast_nodes("add", (x, y))
    result = _with_quotients(Expression(add(nodes, nodes[0].shape)), x, y)
    return with_index(result, integers.plus, x, y)


@implements(np.subtract)
def subtract(x: Any, y: Any, /) -> Expression:
    """The difference."""
    if is_boolean(x) and is_boolean(y):
        raise untraceable("the difference of truth values", "Use ^ or np.logical_xor.")
    first, second = broadcast_nodes("subtract", (x, y))
    return with_index(_with_quotients(Expression(first - second), x, y, -1.0), integers.minus, x, y)


@implements(np.multiply)
def multiply_(x: Any, y: Any, /) -> Expression:
    """The product; of truth values, whether both hold."""
    if is_boolean(x) and is_boolean(y):
        return Expression(elementwise("logical_and", x, y).node, boolean=True)
    if is_number(x):
        x, y = y, x
    if is_number(y):
        product = Expression(scale(as_node(x), float(y)))
    else:
        product = Expression(multiply(*broadcast_nodes("multiply", (x, y))))
    return with_index(product, integers.times, x, y)


@implements(np.divide)
def divide(x: Any, y: Any, /) -> Expression:
    """The quotient."""
    if is_number(y) and y:
        node = as_node(x)
        result = Expression(node / float(y))
        if math.frexp(float(y))[0] != 0.5:  # else it is exact
            result.quotient = Quotient(result.node, (node, uniform(float(y), node.shape)))
        return result
    first, second = broadcast_nodes("divide", (x, y))
    result = Expression(first / second)
    result.quotient = Quotient(result.node, (first, second))
    return result


@implements(np.positive, np.conjugate)
def positive(x: Any, /) -> Expression:
    """The same value."""
    return copy.copy(as_expression(x))


@implements(np.real)
def real(x: Any, /) -> Expression:
    """The value itself."""
    return as_expression(x)


@implements(np.imag)
def imag(x: Any, /) -> Expression:
    """Zero: all expressions are real."""
    return Expression(uniform(0.0, as_node(x).shape))


@implements(np.iscomplexobj)
def is_complex(x: Any, /) -> bool:
    """All expressions are real."""
    return False


@implements(np.isrealobj)
def is_real(x: Any, /) -> bool:
    """All expressions are real."""
    return True


@implements(np.logical_not)
def logical_not(x: Any, /) -> Expression:
    """Whether a value is zero."""
    return Expression(table.logical_not(truth(x).node), boolean=True)


@implements(np.logical_xor)
def logical_xor(x: Any, y: Any, /) -> Expression:
    """Whether exactly one of two values is not zero."""
    return Expression(elementwise("not_equal", truth(x), truth(y)).node, boolean=True)


@implements(np.invert)
def invert(x: Any, /) -> Expression:
    """`~condition`."""
    if not is_boolean(x):
        raise untraceable("~ of numbers", "It negates a condition: ~(x > 0).")
    return logical_not(x)


@implements(np.where)
def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """One of two values by a condition; without values the places where it holds."""
    return call(np.nonzero, (condition,)) if x is None or y is None else where(condition, x, y)


def where(condition: Any, x: Any, y: Any, /) -> Expression:
    """`x` where the condition holds, else `y`."""
    mask = truth(condition)
    result = elementwise("where", mask, x, y)
    return chosen(Expression(result.node, boolean=is_boolean(x) and is_boolean(y)), mask, x, y)


@implements(np.select)
def select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    """The choice of the first condition that holds."""
    if len(conditions) != len(choices):
        raise untraceable("np.select with lists of different lengths", "Give one choice for each condition.")
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


@implements(np.heaviside)
def heaviside(x: Any, y: Any, /) -> Expression:
    """0 below zero, 1 above, `y` at zero; what is missing stays so."""
    node = as_node(x)
    is_zero = table.equal(node, uniform(0.0, node.shape))
    return where(Expression(is_zero, boolean=True), y, Expression((table.sign(node) + 1.0) * 0.5))


@implements(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Expression:
    """Values cut off below and above."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if low is None and high is None:
        return copy.copy(as_expression(a))
    if low is None:
        return FUNCTIONS[np.minimum](a, high)  # type: ignore[no-any-return]
    if high is None:
        return FUNCTIONS[np.maximum](a, low)  # type: ignore[no-any-return]
    return with_index(elementwise("clip", a, low, high), _clipped, a, low, high)


def _clipped(a: Node, low: Node, high: Node) -> Node:
    return integers.minimum(integers.maximum(a, low), high)


@implements(np.round, np.around)
def round_(a: Any, decimals: int = 0) -> Expression:
    """Values rounded to a number of decimals, halves to even."""
    factor = 10.0**decimals
    node: Node = table.round(scale(as_divided(a), factor))
    return Expression(scale(node, 1.0 / factor))


OF_INTEGERS: dict[str, Callable[..., Node | None]] = {
    "abs": lambda a: integers.maximum(a, integers.negative(a)),
    "maximum": integers.maximum,
    "minimum": integers.minimum,
    "power": integers.power,
    "square": lambda a: integers.times(a, a),
}
"""Functions of the table that integers have, too."""


def _same_meaning(name: str, arity: int) -> Callable[..., Expression]:
    """The handler of a function that is one of the table on broadcast operands."""
    boolean = name in table.INDICATORS
    of_integers = OF_INTEGERS.get(name)

    def of_one(x: Any, /) -> Expression:
        result = Expression(elementwise(name, x).node, boolean)
        return with_index(result, of_integers, x) if of_integers else result

    def of_two(x: Any, y: Any, /) -> Expression:
        if boolean and (node := compared(name, x, y)) is not None:
            return Expression(node, boolean)
        result = Expression(elementwise(name, x, y).node, boolean)
        return with_index(result, of_integers, x, y) if of_integers else result

    def of_more(*operands: Any) -> Expression:
        return elementwise(name, *operands)

    if arity == 1:
        return of_one
    return of_two if arity == 2 else of_more


def _register_same_meaning(function: Any, name: str) -> None:
    implements(function)(_same_meaning(name, getattr(function, "nin", 1)))


@functools.cache
def _row_entered_later(name: str, row: Elementwise) -> Callable[..., Expression]:
    return _same_meaning(name, row.arity)


def _row(name: str) -> Callable[..., Expression] | None:
    """The handler of a ufunc that has the name of a row."""
    row = ELEMENTWISE.get(name)
    return None if row is None else _row_entered_later(name, row)


LOOKUPS.append(_row)


def _ufuncs_of_the_table() -> dict[Any, str]:
    """The ufuncs that have the name of a row or builder, and no handler of their own above."""
    found = {getattr(np, name, None): name for name in (*ELEMENTWISE, *table.BUILDERS)}
    return {
        function: name
        for function, name in found.items()
        if isinstance(function, np.ufunc) and function not in FUNCTIONS
    }


_register_all(_register_same_meaning, {**OTHER_NAMES, **_ufuncs_of_the_table()})
