"""`scan`: a recurrence of many equal steps, as `jax.lax.scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hesse.api.carries import scanned
from hesse.api.custom import holds_expressions
from hesse.api.loops import Steps
from hesse.api.trace import argument, nested_names, nested_trace, stand_in
from hesse.api.trees import is_container, leaf_names, take_apart, take_apart_like
from hesse.backends.target import library_of
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import Node, constant, select, zero

if TYPE_CHECKING:
    from optree import PyTreeSpec

Step = Callable[[Any, Any], tuple[Any, Any]]


def scan(step: Step, carry: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    """Call `carry, y = step(carry, x)` for each `x` in `xs`; the last carry and all `y`, stacked.

    `carry`, `x` and `y` are arrays or containers of arrays; `xs` has one more axis, the first, along which
    steps go (backwards if `reverse`). The carry keeps its structure and shapes. Without `xs`, `length` says
    how many steps there are, and `x` is None.

    Inside a function that is differentiated the step is traced once, whatever their number, and derivatives
    are loops again: building takes the same time for ten steps and for ten thousand. The step may read
    any values from around it.

    >>> import numpy as np, hesse
    >>> def smoothed(x):
    ...     return hesse.scan(lambda s, x: (0.9 * s + x, s), 0.0, x)[0]
    >>> float(smoothed(np.ones(4)))
    3.439
    >>> hesse.grad(smoothed)(np.ones(4))
    array([0.729, 0.81 , 0.9  , 1.   ])
    """
    if not callable(step):
        raise ArgumentError(f"scan takes a function of a carry and an item, not a {type(step).__name__}")
    items = _Tree.of("xs", xs)
    count = _count(items, length)
    start = _Tree.of("carry", carry)
    if not any(isinstance(leaf, Expression) for leaf in (*start.leaves, *items.leaves)):
        libraries = {library_of(leaf) for leaf in (*start.leaves, *items.leaves)}
        if "jax" in libraries:
            import jax  # noqa: PLC0415

            return jax.lax.scan(step, carry, xs, count, reverse)
        if (found := _called(step, start, items, count, reverse)) is not None:
            return found
        if not count:
            _, ys = _traced(step, start, items, count, reverse)
            empty = _Tree.of("y", ys)
            return carry, empty.put_together([_zeros(leaf.shape, libraries) for leaf in empty.leaves])
    return _traced(step, start, items, count, reverse)


class _Tree(NamedTuple):
    """Leaves, and the container that they are in, if any."""

    name: str
    leaves: list[Any]
    spec: PyTreeSpec | None

    @classmethod
    def of(cls, name: str, value: Any) -> _Tree:
        return cls(name, *take_apart(value)) if is_container(value) else cls(name, [value], None)

    def put_together(self, leaves: Sequence[Any]) -> Any:
        """Other leaves in the same container."""
        return leaves[0] if self.spec is None else self.spec.unflatten(leaves)

    @property
    def names(self) -> list[str]:
        """How a user writes each leaf."""
        return [self.name] if self.spec is None else leaf_names(self.name, self.spec)


def _count(items: _Tree, length: int | None) -> int:
    """The number of steps, in which all items must agree."""
    counts = {}
    for name, leaf in zip(items.names, items.leaves, strict=True):
        shape = np.shape(leaf) if not hasattr(leaf, "shape") else leaf.shape
        if not shape:
            raise ShapeError(f"scan goes along the first axis of {name}, which is a number")
        counts[name] = int(shape[0])
    if length is not None:
        counts["length"] = int(length)
    if not counts:
        raise ArgumentError("scan needs xs to go along, or the length: the number of steps")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ShapeError(f"scan needs the same number of steps for all items, not {listed}")
    return next(iter(counts.values()))


def _returned(result: Any, start: _Tree) -> tuple[list[Any], Any]:
    """The leaves of the carry that a step returned, and its `y`."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TracingError(
            f"the step of scan must return a pair (carry, y); it returned a {type(result).__name__}"
        )
    if start.spec is None:
        return [result[0]], result[1]
    return take_apart_like("the carry that the step of scan returns", result[0], start.spec, "carry"), result[
        1
    ]


def _called(step: Step, start: _Tree, items: _Tree, count: int, reverse: bool) -> Any:
    """The loop with arrays; None if the step reads traced values."""
    leaves, found = start.leaves, []
    container: _Tree | None = None
    for k in reversed(range(count)) if reverse else range(count):
        x = items.put_together([leaf[k] for leaf in items.leaves])
        result = step(start.put_together(leaves), x)
        leaves, y = _returned(result, start)
        if holds_expressions(leaves) or holds_expressions(y):
            return None
        container = _Tree.of("y", y)
        found.append(container.leaves)
    if container is None:  # there is no step, and the shapes are not known
        return None
    if reverse:
        found.reverse()
    stacked = [_stack(column) for column in zip(*found, strict=True)]
    return start.put_together(leaves), container.put_together(stacked)


def _stack(arrays: Sequence[Any]) -> Any:
    if library_of(arrays[0]) == "torch":
        import torch  # noqa: PLC0415

        return torch.stack(list(arrays))
    return np.stack(arrays)


def _zeros(shape: tuple[int, ...], libraries: set[str | None]) -> Any:
    if "torch" in libraries:
        import torch  # noqa: PLC0415

        return torch.zeros(shape)
    return np.zeros(shape)


class _Item(NamedTuple):
    """A leaf of an item inside the step, and the variables that it is read by with their stacks."""

    inside: Expression
    stacks: dict[Node, Node]


def _item(label: str, leaf: Any) -> _Item:
    index = None
    if isinstance(leaf, Expression):
        index = None if leaf.index is None else leaf.index.as_node()
    elif np.asarray(leaf).dtype.kind in "iu":
        index = constant(np.asarray(leaf))
    kind = "i" if index is not None else "b" if getattr(leaf, "boolean", False) else "f"
    node = as_node(leaf)
    inside = stand_in(label, node.shape[1:], kind)  # type: ignore[arg-type]
    stacks: dict[Node, Node] = {inside.node: node}
    if index is not None:
        assert inside.index is not None
        stacks[inside.index.node] = index
    return _Item(inside, stacks)


def _traced(step: Step, start: _Tree, items: _Tree, count: int, reverse: bool) -> Any:
    """The loop as an expression."""
    first = [as_node(leaf) for leaf in start.leaves]
    shapes = [tuple(map(int, node.shape)) for node in first]
    with nested_trace():
        names = nested_names([f"carry {k} of scan" for k in range(len(shapes))])
        carry = list(map(argument, names, shapes))
        labels = nested_names([f"item {k} of scan" for k in range(len(items.leaves))])
        given = [_item(name, leaf) for name, leaf in zip(labels, items.leaves, strict=True)]
        result = step(
            start.put_together(list(map(Expression, carry))),
            items.put_together([item.inside for item in given]),
        )
    returned, y = _returned(result, start)
    after = [as_node(leaf) for leaf in returned]
    for name, node, shape in zip(start.names, after, shapes, strict=True):
        if node.shape != shape:
            raise ShapeError(
                f"the step of scan returns shape {node.shape} for {name}, which has shape {shape} before; "
                "the carry must keep its shapes"
            )
    outputs = _Tree.of("y", y)
    ys = [as_node(leaf) for leaf in outputs.leaves]
    if count == 0:
        empty = [Expression(zero((0, *node.shape))) for node in ys]
        return start.put_together(list(map(Expression, first))), outputs.put_together(empty)
    stacks = {variable: stack for item in given for variable, stack in item.stacks.items()}
    steps = Steps(count, reverse, stacks, {})
    carries, found = scanned(steps, carry, first, after, ys)
    last = [
        select(stack, [0 if reverse else count - 1] + [slice(None)] * (stack.rank - 1)) for stack in carries
    ]
    return start.put_together(list(map(Expression, last))), outputs.put_together(list(map(Expression, found)))
