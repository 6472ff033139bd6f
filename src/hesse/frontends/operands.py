"""From what users pass to nodes: constants, broadcasting, axis numbers.

The expression language has no implicit broadcasting; NumPy's rules are applied here, once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from hesse.backends.arrays import other_arithmetic
from hesse.errors import ShapeError
from hesse.frontends.dispatch import function_name, implements
from hesse.frontends.expression import Expression
from hesse.frontends.indices import Index
from hesse.frontends.memory import Step, shared
from hesse.frontends.tracing import ComplexError, untraceable
from hesse.ir import (
    Node,
    Size,
    common_shape,
    concatenate,
    constant_axis,
    label_axis,
    plain_axes,
    reshape,
    uniform,
    view,
)
from hesse.ir import constant as constant_node
from hesse.ops.integers import as_real

NodeHandler = TypeVar("NodeHandler", bound=Callable[..., Node])


def as_node(value: Any) -> Node:
    """The real-valued node of an expression, a number or an array."""
    if isinstance(value, Expression):
        if value.is_index:
            return as_real(_integers(value))
        return value.node
    array = _captured(value)
    if array.dtype.kind == "O" and all(map(_is_entry, array.flat)):
        return _joined_entries(array)
    array = as_array(value)
    return constant_node(array if array.dtype.kind == "f" else array.astype(float))


def as_divided(value: Any) -> Node:
    """The node of a value, in which a quotient is one: for functions with jumps."""
    is_real = isinstance(value, Expression) and not value.is_index
    return value.divided if is_real else as_node(value)


def _is_entry(value: Any) -> bool:
    """Whether a value may be an entry of an array of traced numbers."""
    return is_number(value) or (isinstance(value, Expression) and not value.shape)


def _joined_entries(array: np.ndarray) -> Node:
    """One node of an array of objects, entries of which are expressions."""
    if not any(isinstance(entry, Expression) for entry in array.flat):
        return constant_node(array.astype(float))
    joined = concatenate([reshape(as_node(entry), (1,)) for entry in array.flat], 0)
    return reshape(joined, array.shape)


def _integers(value: Expression) -> Node:
    """The integer node of an index."""
    if value.index is None:
        raise untraceable("a view of an index of symbolic sizes as a number", "Bind the sizes first.")
    return value.index.as_node()


def as_array(value: Any) -> np.ndarray:
    """A real or boolean array that is known now."""
    array = _captured(value)
    if array.dtype.kind == "c":
        problem = untraceable(
            "a complex constant here", "Only real numbers are supported; separate real and imaginary parts."
        )
        raise ComplexError(str(problem))
    if array.dtype.kind not in "biuf":
        raise untraceable(
            f"a constant of type {type(value).__name__}", "Pass real numbers or arrays of them."
        )
    return array


def _captured(value: Any) -> np.ndarray:
    """What NumPy makes of a value."""
    if type(value) is not np.ndarray and (refusal := other_arithmetic(value)) is not None:
        kind, _, way_out = refusal.partition(", ")
        raise untraceable(kind, way_out[:1].upper() + way_out[1:] + ".")
    try:
        array = np.asarray(value)
        return array.astype(np.float32) if array.dtype.name == "bfloat16" else array  # NumPy has no such type
    except ComplexError:
        raise
    except (TypeError, RuntimeError) as problem:  # a tensor with a gradient, or one on another device
        raise untraceable(
            f"a constant of type {type(value).__name__}", f"Pass it as an argument: {problem}"
        ) from None


def as_expression(value: Any) -> Expression:
    """An expression of what may already be one."""
    return value if isinstance(value, Expression) else Expression(as_node(value), boolean=is_boolean(value))


def constant(value: Any) -> Expression:
    """A known array as an expression, for what NumPy offers on arrays only: `constant(table)[index]`.

    Integers may serve as indices.
    """
    array = as_array(value)
    index = Index(constant_node(array)) if array.dtype.kind in "iu" else None
    return Expression(as_node(array), boolean=array.dtype == bool, index=index)


def is_boolean(value: Any) -> bool:
    """Whether a value is a truth value or an array of them."""
    return value.boolean if isinstance(value, Expression) else _captured(value).dtype == bool


Sharing = Callable[[Expression, Step, Expression], Expression]


def read_only(array: Expression, step: Step, result: Expression) -> Expression:
    """The result of a step that is a view to which NumPy does not write."""
    return shared(array, step, result, f"the result of {function_name(step.function)}, which is read-only")


def restructures(*functions: Any, shares: Sharing | None = None) -> Callable[[NodeHandler], NodeHandler]:
    """Register a handler on nodes for a NumPy function that only moves entries of its first argument.

    Truth values stay truth values and indices stay indices. `shares` says that it is a view (`shared`,
    `read_only`) or may be one (`reshaped`).
    """

    def register(handler: NodeHandler) -> NodeHandler:
        @functools.wraps(handler)
        def wrapped(value: Any, *arguments: Any, **options: Any) -> Expression:
            expression = as_expression(value)
            node = handler(expression.node, *arguments, **options)
            index = expression.index
            if index is not None:
                index = index.restructured(functions[0], *arguments, **options)
            result = Expression(node, expression.boolean, index, expression.is_index)
            if shares is None or not isinstance(value, Expression):
                return result
            return shares(expression, Step(functions[0], arguments, options), result)

        implements(*functions)(wrapped)
        return handler

    return register


def expand(node: Node, shape: Sequence[Size], name: str = "broadcasting") -> Node:
    """The node repeated along new leading axes and axes of size 1 until it has the shape."""
    shape = tuple(shape)
    if node.shape == shape:
        return node
    lead = len(shape) - node.rank
    if lead < 0 or any(old not in (1, new) for old, new in zip(node.shape, shape[lead:], strict=True)):
        raise ShapeError(f"{name}: the shape {node.shape} cannot be broadcast to {shape}")
    axes = [
        label_axis(lead + k) if old == shape[lead + k] else constant_axis(0)
        for k, old in enumerate(node.shape)
    ]
    return view(node, axes, plain_axes(len(shape)), shape, shape)


def broadcast_nodes(name: str, values: Iterable[Any]) -> list[Node]:
    """The nodes of several values, broadcast to their common shape."""
    nodes = [value if is_number(value) else as_node(value) for value in values]
    shapes = [node.shape for node in nodes if isinstance(node, Node)]
    shape = shapes[0] if len(set(shapes)) == 1 else common_shape(name, shapes)
    # A number becomes a tensor of the right shape at once: most operands of programs are such.
    return [expand(n, shape, name) if isinstance(n, Node) else uniform(float(n), shape) for n in nodes]


def is_number(value: Any) -> bool:
    """Whether a value is a plain real number, known now."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def axis_number(name: str, axis: Any, rank: int) -> int:
    """An axis counted from the front."""
    try:
        number = operator.index(axis)
    except TypeError as problem:
        if isinstance(axis, Expression):
            raise
        raise ShapeError(f"{name}: an axis is an integer, not {axis!r}") from problem
    if not -rank <= number < rank:
        raise ShapeError(f"{name}: axis {number} is out of range for {rank} axes")
    return number % rank


def axis_numbers(name: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Several distinct axes counted from the front; None means all of them."""
    if axes is None:
        return tuple(range(rank))
    given = tuple(axes) if isinstance(axes, (tuple, list, range)) else (axes,)
    numbers = tuple(axis_number(name, axis, rank) for axis in given)
    if len(set(numbers)) != len(numbers):
        raise ShapeError(f"{name}: the axes {axes} name one axis twice")
    return numbers


def known_sizes(name: str, sizes: Iterable[Size]) -> tuple[int, ...]:
    """Sizes that must be numbers."""
    known = tuple(sizes)
    if any(isinstance(size, str) for size in known):
        raise ShapeError(f"{name} needs known sizes, not {known}; bind the sizes first")
    return known  # type: ignore[return-value]
