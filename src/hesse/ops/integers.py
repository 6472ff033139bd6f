"""Integer tensors: the arithmetic of indices.

They are computed in the integers of the back end, exactly, whatever the floating-point type of a program, and
they are locally constant: no derivative passes through them. `as_real` reads them as numbers, `as_integer`
makes them from numbers, and `gather` and `scatter` read and write by them. Operands broadcast as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.ir import Constant, Node, Shape, common_shape, constant, uniform
from hesse.ops.registry import General, elementwise, operation, register


def integers(value: Any) -> Node:
    """Known integers."""
    return constant(np.asarray(value, dtype=np.int64))


def plus(a: Node, b: Node) -> Node:
    """`a + b`."""
    if _is_number(a, 0) or _is_number(b, 0):
        return b if _is_number(a, 0) else a
    return _arithmetic("integer_add", np.add, a, b)


def minus(a: Node, b: Node) -> Node:
    """`a - b`."""
    return plus(a, negative(b))


def negative(a: Node) -> Node:
    """`-a`."""
    return times(integers(-1), a)


def times(a: Node, b: Node) -> Node:
    """`a * b`."""
    if _is_number(a, 1) or _is_number(b, 1):
        return b if _is_number(a, 1) else a
    return _arithmetic("integer_multiply", np.multiply, a, b)


def power(a: Node, exponent: Node) -> Node | None:
    """`a` to a known exponent that is positive and small; else None."""
    if not isinstance(exponent, Constant) or exponent.shape or exponent.value not in range(1, 9):
        return None
    return reduce(times, [a] * int(exponent.value))


def quotient(a: Node, b: Node) -> Node:
    """`a // b`, rounded down."""
    return _arithmetic("integer_quotient", np.floor_divide, a, b)


def remainder(a: Node, b: Node) -> Node:
    """`a % b`, which has the sign of b."""
    return minus(a, times(quotient(a, b), b))


def choice(condition: Node, a: Node, b: Node) -> Node:
    """`a` where the real condition is not zero, else `b`."""
    return operation("integer_where", condition, a, b)


def difference(a: Node, b: Node) -> Node:
    """`a - b` as a real number, to compare with zero: exact, since only the sign of it matters."""
    return as_real(minus(a, b))


def minimum(a: Node, b: Node) -> Node:
    """The smaller of two."""
    return choice(elementwise("less", difference(a, b), 0.0), a, b)


def maximum(a: Node, b: Node) -> Node:
    """The larger of two."""
    return choice(elementwise("less", difference(a, b), 0.0), b, a)


def entries(table: Node, positions: Node) -> Node:
    """The entries of a flattened integer table at positions; negative ones count from the end."""
    if isinstance(table, Constant) and isinstance(positions, Constant):
        return integers(table.value.ravel()[positions.value])
    return operation("integer_entries", table, positions)


def as_integer(x: Node) -> Node:
    """Real numbers without their fractions."""
    return operation("as_integer", x)


def as_real(index: Node) -> Node:
    """Integers as real numbers of the program's type, which the second operand has."""
    if isinstance(index, Constant):
        return constant(index.value.astype(float))
    return operation("as_real", index, uniform(1.0))


def search(sequence: Node, values: Node, side: str) -> Node:
    """Where the values belong in an ascending sequence: before equal entries ("left") or after ("right")."""
    return operation("searchsorted", sequence, values, params=(side,))


def _is_number(node: Node, number: int) -> bool:
    return isinstance(node, Constant) and not node.shape and node.value == number


def _arithmetic(name: str, function: Callable[..., Any], a: Node, b: Node) -> Node:
    """An operation on integers, which is done at once where both are known."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return integers(function(a.value, b.value))
    return operation(name, a, b)


def _broadcast_rule(name: str) -> Any:
    def rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
        return common_shape(name, shapes)

    return rule


def _entries_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    return shapes[1]


def _same_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    return shapes[0]


def _search_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    sequence, values = shapes
    if len(sequence) != 1:
        raise ShapeError(f"searchsorted needs a sequence of one axis, not of shape {sequence}")
    if params not in (("left",), ("right",)):
        raise ArgumentError(f"searchsorted: side is 'left' or 'right', not {params[0]!r}")
    return values


register(
    General("integer_add", _broadcast_rule("+"), (None, None), r"\left({} + {}\right)", kind="integer"),
    General(
        "integer_multiply", _broadcast_rule("*"), (None, None), r"\left({} \cdot {}\right)", kind="integer"
    ),
    General(
        "integer_quotient",
        _broadcast_rule("//"),
        (None, None),
        r"\left\lfloor {} / {} \right\rfloor",
        kind="integer",
    ),
    General(
        "integer_where",
        _broadcast_rule("where"),
        (None, None, None),
        r"\operatorname{{where}}\left({}, {}, {}\right)",
        kind="integer",
    ),
    General("integer_entries", _entries_rule, (None, None), r"{}_{{{}}}", kind="integer"),
    General("as_integer", _same_rule, (None,), r"\operatorname{{integer}}\left({}\right)", kind="integer"),
    General("as_real", _same_rule, (None, None), r"\operatorname{{real}}\left({}, {}\right)"),
    General(
        "searchsorted",
        _search_rule,
        (None, None),
        r"\operatorname{{searchsorted}}\left({}, {}\right)",
        kind="integer",
    ),
)
