"""Arrays that can be written to, and what writes to them: `x[key] = y`, `np.add.at`, `np.copyto`, `out=`."""

from __future__ import annotations

import copy
import math
import operator
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.dispatch import METHODS, call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.integers import integer_node
from hesse.frontends.memory import kind_of, part_of, write
from hesse.frontends.operands import as_expression, as_node, constant, expand, known_sizes
from hesse.frontends.tracing import ComplexError, NumbersNeeded, decided, depth, untraceable
from hesse.frontends.ufuncs import truth
from hesse.ir import Node, common_shape, uniform
from hesse.ops import integers

KINDS = {"b": "boolean", "i": "integer", "u": "integer", "f": "real"}
FILL = (
    "Write to np.zeros_like(x) or hesse.zeros(3) instead of np.zeros(3): these record what is written; "
    "np.full(3, x) is np.ones(3) * x."
)


def _converted(value: Any, kind: str) -> Node:
    """The node of a value as entries of an array of a kind: as NumPy, integers drop fractions."""
    if kind == "boolean":
        return truth(value).node
    if kind == "integer":
        whole = integer_node(value)
        return integers.as_integer(as_node(value)) if whole is None else whole
    return as_node(value)


def array_to_write(target: Any, what: str) -> Expression:
    """What is written to, which must be traced."""
    if not isinstance(target, Expression):
        what = f"{what}, where a traced value is written to an array of NumPy,"
        raise untraceable(what, FILL, kind=NumbersNeeded)
    return target


def _checked(target: Expression, value: Any) -> None:
    """Refuse what NumPy does not convert to the type of an array without being asked."""
    kind = kind_of(target)
    given = kind_of(value) if isinstance(value, Expression) else KINDS[np.asarray(value).dtype.kind]
    order = ("boolean", "integer", "real")
    if order.index(given) > order.index(kind):
        name = {"boolean": "truth values", "integer": "integers", "real": "real numbers"}
        raise ArgumentError(
            f"{name[given]} cannot be written to an array of {name[kind]} in place (x += y, out=x); "
            "write x = x + y"
        )


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write to all of an array, or where a condition holds."""
    target = array_to_write(dst, "np.copyto or np.full")
    if casting != "unsafe":
        _checked(target, src)
    value = src if where is True else call(np.where, (where, src, target))
    node = _converted(value, kind_of(target))
    if len(node.shape) > target.ndim or common_shape("a write", [node.shape, target.shape]) != target.shape:
        raise ShapeError(
            f"values of shape {node.shape} cannot be written to an array of shape {target.shape}"
        )
    write(target, _expanded(node, target))


def _expanded(node: Node, target: Expression) -> Node:
    if node.kind != "integer" or node.shape == target.shape:
        return expand(node, target.shape)
    places = np.arange(math.prod(known_sizes("a write", node.shape))).reshape(node.shape)  # type: ignore[arg-type]
    return integers.entries(node, integers.integers(np.broadcast_to(places, target.shape)))  # type: ignore[arg-type]


@implements(operator.setitem)
def setitem(array: Any, key: Any, value: Any) -> None:
    """`array[key] = value`."""
    target = array_to_write(array, "x[i] = y")
    if isinstance(key, Expression) and key.boolean:
        _where(target, key, value)
        return
    if _is_traced(key):
        _by_traced_key(target, key, value)
        return
    places = _places(target)
    try:
        positions = np.asarray(places[_known(key)])
    except IndexError as problem:
        raise ShapeError(f"x[i] = y: {problem}") from None
    node = _converted(value, kind_of(target))
    _check_shape(node, positions.shape)
    write(target, node, positions)


def _places(target: Expression) -> np.ndarray:
    """The numbers of the entries of an array."""
    sizes = known_sizes("x[i] = y", target.shape)
    return np.arange(math.prod(sizes)).reshape(sizes)


def _check_shape(node: Node, shape: tuple[int, ...]) -> None:
    sizes = known_sizes("x[i] = y", node.shape)
    extra = sizes[: max(0, len(sizes) - len(shape))]
    try:
        is_fitting = np.broadcast_shapes(sizes[len(extra) :], shape) == shape and set(extra) <= {1}
    except ValueError:
        is_fitting = False
    if not is_fitting:
        raise ShapeError(f"x[i] = y: values of shape {sizes} do not fit entries of shape {shape}")


def _is_traced(key: Any) -> bool:
    """Whether a key holds integers that are not known now."""
    if isinstance(key, tuple | list):
        return any(map(_is_traced, key))
    return isinstance(key, Expression) and (key.index is None or key.index.known is None)


def _known(key: Any) -> Any:
    """A key without traced values, as NumPy takes it."""
    if isinstance(key, tuple):
        return tuple(map(_known, key))
    return key.index.known if isinstance(key, Expression) and key.index is not None else key


def _where(target: Expression, mask: Expression, value: Any) -> None:
    """`target[mask] = value` with a mask that depends on data."""
    lead = target.shape[: mask.ndim]
    if mask.shape != lead:
        raise ShapeError(f"a mask of shape {mask.shape} does not fit an array of shape {target.shape}")
    node = _converted(value, kind_of(target))
    if len(node.shape) > target.ndim - mask.ndim:
        known = decided("mask", mask.node)
        if known is not None:
            setitem(target, known, value)
            return
        raise untraceable(
            "x[mask] = y with a traced mask and one value for each place where it holds "
            "(their number depends on the data)",
            "Give one value for all of them, or write x = np.where(mask, y, x) with y of the shape of x; "
            "or let the function decide by values: @hesse.branching.",
        )
    wide = mask[(..., *[None] * (target.ndim - mask.ndim))]
    copyto(target, call(np.where, (wide, Expression(node, target.boolean), target)), casting="unsafe")


def _by_traced_key(target: Expression, key: Any, value: Any) -> None:
    """`target[key] = value` with integers that depend on data: of equal ones the last counts."""
    positions = constant(_places(target))[key].ravel()
    count = positions.shape[0]
    new = call(np.ravel, (Expression(expand(_converted(value, "real"), _shape_of(target, key))),))
    if _may_repeat(key):
        later = np.triu(np.ones((count, count), bool), 1)
        is_last = ~call(np.any, ((positions[:, None] == positions[None, :]) & later,), {"axis": 1})
        new = call(np.where, (is_last, new, 0.0))
        hits = call(np.bincount, (positions, Expression(is_last.node)), {"minlength": target.size})
    else:
        hits = call(np.bincount, (positions,), {"minlength": target.size})
    written = call(np.bincount, (positions, new), {"minlength": target.size}).reshape(target.shape)
    copyto(target, call(np.where, (hits.reshape(target.shape) > 0, written, target)), casting="unsafe")


def _shape_of(target: Expression, key: Any) -> tuple[int, ...]:
    return known_sizes("x[i] = y", constant(_places(target))[key].shape)


def _may_repeat(key: Any) -> bool:
    """Whether some traced entries of a key are arrays, which may hold an integer twice."""
    entries = key if isinstance(key, tuple) else (key,)
    return any(isinstance(entry, Expression | np.ndarray | list) and np.ndim(entry) > 0 for entry in entries)


def _added_at(sign: float) -> Any:
    def handler(array: Any, key: Any, value: Any) -> None:
        target = array_to_write(array, "np.add.at")
        places = constant(_places(target))[key]
        weights = expand(as_node(value), places.shape, "np.add.at") if places.shape else as_node(value)
        sums = call(np.bincount, (places.ravel(), Expression(weights).ravel()), {"minlength": target.size})
        copyto(target, target + sign * sums.reshape(target.shape), casting="unsafe")

    return handler


def _applied_at(ufunc: np.ufunc) -> Any:
    """`ufunc.at`: entries that are named several times are computed as often, one after the other."""

    def handler(array: Any, key: Any, *values: Any) -> None:
        name = f"np.{ufunc.__name__}.at"
        target = array_to_write(array, name)
        if _is_traced(key):
            raise untraceable(
                f"{name} with indices that depend on data", "np.add.at and np.subtract.at take them."
            )
        places = np.atleast_1d(_places(target)[_known(key)])
        given = [Expression(expand(as_node(value), places.shape, name)).ravel() for value in values]
        order = np.argsort(places, axis=None, kind="stable")
        ordered = places.ravel()[order]
        turns = np.arange(ordered.size) - np.searchsorted(ordered, ordered)
        for turn in range(turns.max(initial=-1) + 1):
            chosen = order[turns == turn]
            entries = np.unravel_index(places.ravel()[chosen], _places(target).shape)
            target[entries] = call(ufunc, (target[entries], *(value[chosen] for value in given)))

    return handler


METHODS |= {
    ufunc.at: _applied_at(ufunc)
    for ufunc in vars(np).values()
    if isinstance(ufunc, np.ufunc) and ufunc.nin <= 2 and ufunc.nout == 1 and ufunc.signature is None
}
METHODS[np.add.at] = _added_at(1.0)
METHODS[np.subtract.at] = _added_at(-1.0)


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any) -> None:
    """Write to the main diagonal."""
    target = array_to_write(a, "np.fill_diagonal")
    if target.ndim != 2:
        raise ShapeError(f"fill_diagonal needs a matrix, not the shape {target.shape}")
    along = np.arange(min(known_sizes("fill_diagonal", target.shape)))
    setitem(target, (along, along), val)


@implements(np.copy)
def copy_(a: Any, order: str = "K") -> Expression:
    """An array of its own with the same entries."""
    result = copy.copy(as_expression(a))
    if order == "C" and result.shape and not any(isinstance(size, str) for size in result.shape):
        part_of(result, is_ordered=True)
    return _as_array(result)


def zeros(shape: Any) -> Any:
    """Zeros to write to: inside a traced function they record what is written, elsewhere they are an array.

    >>> import numpy as np, hesse
    >>> def f(x):
    ...     y = hesse.zeros(3)
    ...     for i in range(3):
    ...         y[i] = x[i] ** 2
    ...     return y.sum()
    >>> hesse.grad(f)(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (operator.index(shape),)
    if not depth.get():
        return np.zeros(sizes)
    return written_to(Expression(uniform(0.0, sizes)), is_ordered=True)


def written_to(array: Expression, is_ordered: bool) -> Expression:
    """A new array that will be written to."""
    return _as_array(array, is_ordered)


def _as_array(result: Expression, is_ordered: bool = False) -> Expression:
    """A new array; without axes it is none that NumPy makes a number of."""
    if not result.shape or is_ordered:
        part_of(result, is_ordered)
    return result


@implements(np.zeros_like, np.empty_like)
def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Expression:
    """Zeros, also where NumPy leaves what is there."""
    return full_like(a, 0, dtype, shape=shape)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Expression:
    """Ones."""
    return full_like(a, 1, dtype, shape=shape)


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Expression:
    """A value everywhere."""
    like = as_expression(a)
    given = like.shape if shape is None else shape
    sizes = given if isinstance(given, tuple) else tuple(np.atleast_1d(given).tolist())
    if dtype is not None and np.dtype(dtype).kind == "c":
        raise ComplexError
    kind = kind_of(like) if dtype is None else KINDS.get(np.dtype(dtype).kind)
    if kind is None:
        raise untraceable(f"an array of dtype {np.dtype(dtype)}", "Only real numbers are traced.")
    if kind == "integer" and not isinstance(fill_value, Expression):
        return constant(np.full(sizes, fill_value, dtype=np.int64))
    node = _converted(fill_value, kind)
    return _as_array(Expression(expand(node, sizes, "full_like"), boolean=kind == "boolean"))
