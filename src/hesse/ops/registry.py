"""The open set of operations: one row or record each, in tables that everything else enumerates.

- `Elementwise`: a row. Its partials are formulas in the same language.
- `General`: a record for a nonlinear operation on whole tensors (inverse, softmax, …). Its partial is a
  tensor with the axes of the result first and those of the operand after them.
- `Linear`: a record for a structural operation that is no affine einsum (gather, cumulative sum, …). It
  acts on the leading axes of its first operand and carries any further axes along, so its transpose *is*
  its derivative and no 0/1 matrix is ever built.
- `Foreign`: the one record of all functions from elsewhere, which is in no table; see `ops.foreign`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hesse.errors import ShapeError
from hesse.ir import Apply, Node, Shape, apply_, keep_symmetry, map_, uniform, uniform_value
from hesse.ops.behaviour import Behaviour
from hesse.ops.foreign import FOREIGN
from hesse.ops.ranges import UNKNOWN, Range

Formula = Callable[..., Node]


@dataclass(frozen=True)
class Equation:
    """What the value `y` of an operation solves: `product(y, x)` is its operand `slot`, or a constant.

    `x` is `factor(y)`, by default the first operand. `solution(y, r)` is the change of y for a change r of
    the product, x being fixed: with it, Taylor coefficients follow from those of lower order.
    """

    product: Callable[[Node, Node], Node]
    solution: Callable[[Any, Node], Node]
    slot: int | None = None
    factor: Callable[[Node], Node] = lambda y: y.operands[0]


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What an operation may say of itself; whatever is left out is not claimed.

    `short` is its name in formulas if that is another one than its own. `image(*ranges)` is a range of the
    values for operands in given ranges, where that is more than `behaviour.values`. `equation` is what Taylor
    mode uses instead of the partials, where that is cheaper.
    """

    short: str | None = None
    behaviour: Behaviour | None = None
    image: Callable[..., Range] | None = None
    equation: Equation | None = None

    def range(self, *operands: Range) -> Range:
        """A range in which all values lie."""
        if self.image is not None:
            return self.image(*operands)
        return UNKNOWN if self.behaviour is None else self.behaviour.values


@dataclass(frozen=True)
class Elementwise(_Facts):
    """An element-wise function `y = f(x, …)`.

    `partials[k](y, x, …)` is the factor dy/dx_k; None says that the function is locally constant in
    that operand. Back ends find the kernel by the name of the row. `value` computes the function of
    plain floats (for folding constants), `sample` is an interval inside the domain for each operand,
    for tests and documentation; `latex` is a template with one `{}` for each operand. `definition` is the
    function in terms of other rows, for targets that have no function of that name.
    """

    name: str
    partials: tuple[Formula | None, ...]
    latex: str
    sample: tuple[tuple[float, float], ...] = ((-2.0, 2.0),)
    value: Callable[..., float] | None = None
    flops: int = 1
    definition: Formula | None = None

    @property
    def arity(self) -> int:
        """Number of operands."""
        return len(self.partials)


@dataclass(frozen=True)
class General(_Facts):
    """A nonlinear operation on whole tensors.

    `shape(shapes, params)` gives the shape of the result, `partials[k](y)` the partial of the node `y`
    by its operand k, of shape `y.shape + y.operands[k].shape` (None: locally constant).
    """

    name: str
    shape: Callable[[tuple[Shape, ...], tuple[Any, ...]], Shape]
    partials: tuple[Callable[[Apply], Node] | None, ...]
    latex: str
    kind: str = "real"
    flops: Callable[[tuple[Shape, ...]], float] | None = None
    keeps_symmetry: bool = False
    """Whether it turns symmetric matrices into symmetric ones."""
    last_axes: int = 0
    """On how many last axes of its operands it acts, for each index of those before (0: on others)."""
    acts_on_first: bool = False
    """Whether it acts on the first axis of its operand, for each index of those behind."""


@dataclass(frozen=True)
class Linear(_Facts):
    """A structural operation, linear in its first operand, acting on leading axes.

    `transpose(node, cotangent)` takes a tensor with the axes of the node first and any further axes
    after them to one with the axes of the first operand first.
    """

    name: str
    shape: Callable[[tuple[Shape, ...], tuple[Any, ...]], Shape]
    transpose: Callable[[Apply, Node], Node]
    latex: str


@dataclass(frozen=True)
class Foreign(_Facts):
    """A function from elsewhere: what is known of it is in the rule that its node holds."""

    name: str = FOREIGN


ELEMENTWISE: dict[str, Elementwise] = {}
OPERATIONS: dict[str, General | Linear] = {}


def record_of(node: Apply) -> General | Linear | Foreign:
    """The record of a node."""
    return Foreign() if node.name == FOREIGN else OPERATIONS[node.name]


def printed_name(name: str) -> str:
    """The name of an operation in formulas."""
    record = ELEMENTWISE.get(name) or OPERATIONS.get(name)
    return name if record is None else record.short or name


def register(*records: Elementwise | General | Linear) -> None:
    """Enter records into the tables."""
    for record in records:
        table: dict[str, Any] = ELEMENTWISE if isinstance(record, Elementwise) else OPERATIONS
        if record.name in table:
            raise ValueError(f"the operation {record.name} is registered twice")
        table[record.name] = record
        if isinstance(record, General) and record.keeps_symmetry:
            keep_symmetry.add(record.name)


def define(
    name: str,
    *partials: Formula | None,
    latex: str | None = None,
    sample: tuple[tuple[float, float], ...] | None = None,
    value: Callable[..., float] | None = None,
    flops: int = 1,
    definition: Formula | None = None,
    short: str | None = None,
    behaviour: Behaviour | None = None,
    image: Callable[..., Range] | None = None,
    equation: Equation | None = None,
) -> Callable[..., Node]:
    """Enter a row into the element-wise table and return the function on nodes that applies it."""
    if latex is None:
        printed = name.replace("_", r"\_")
        latex = rf"\operatorname{{{{{printed}}}}}\left({', '.join(['{}'] * len(partials))}\right)"
    if image is None and behaviour is not None and value is not None and len(partials) == 1:
        image = partial(behaviour.image, value)
    sample = sample or ((-2.0, 2.0),) * len(partials)
    register(
        Elementwise(
            name,
            partials,
            latex,
            sample,
            value,
            flops,
            definition,
            short=short,
            behaviour=behaviour,
            image=image,
            equation=equation,
        )
    )
    return partial(elementwise, name)


def elementwise(name: str, *operands: Node | float) -> Node:
    """Apply a row of the element-wise table.

    A number stands for a tensor of it in the shape of the other operands. Uniform operands are folded,
    unless the function has no finite value there: then the back end says what NumPy would say.
    """
    row = ELEMENTWISE[name]
    if len(operands) != row.arity:
        raise ShapeError(f"{name} takes {row.arity} operands, not {len(operands)}")
    shape = next((operand.shape for operand in operands if isinstance(operand, Node)), ())
    nodes = [operand if isinstance(operand, Node) else uniform(operand, shape) for operand in operands]
    values = [uniform_value(node) for node in nodes]
    if row.value is not None and None not in values and all(node.shape == shape for node in nodes):
        try:
            return uniform(float(row.value(*values)), shape)
        except (ArithmeticError, ValueError):
            pass
    return map_(name, *nodes)


def operation(name: str, *operands: Node, params: tuple[Any, ...] = ()) -> Node:
    """Apply a record of the operation table."""
    record = OPERATIONS[name]
    shape = record.shape(tuple(operand.shape for operand in operands), params)
    kind = record.kind if isinstance(record, General) else "real"
    return apply_(name, operands, shape, params, kind)


def apply_linear(node: Apply, operand: Node) -> Node:
    """The linear operation of `node` on another first operand (which may carry further axes)."""
    return operation(node.name, operand, *node.operands[1:], params=node.params)
