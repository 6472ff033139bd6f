"""Rules that say how a tangent, or a cotangent, passes through a foreign function: by an expression.

Such an expression is linear in a variable that stands for the tangent. It is applied to a tensor with further
axes by pushing that forward through it, and transposed by pulling back through it, so one of the two is
enough, no matrix is formed that need not be, and structure is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from hesse.calculus.modes import pull_back, push_forward
from hesse.calculus.partial import edge
from hesse.errors import DifferentiationError
from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Node,
    Variable,
    add,
    delta,
    dependents,
    einsum,
    is_zero,
    plain_axes,
    rebuild,
    substitute,
    topological,
    transpose,
    variable,
    zero,
)
from hesse.ops.foreign import FOREIGN, Output, Rule, foreign, rule_of
from hesse.ops.registry import Foreign, Linear, record_of


class LinearMap(NamedTuple):
    """An expression that is linear in a variable.

    It is linear in all of the `directions`, of which the variable is one, and no node in `fixed` depends on
    them: nothing need be looked at that is only below those.
    """

    value: Node
    argument: Variable
    directions: tuple[Variable, ...]
    fixed: tuple[Node, ...] = ()


class DerivedRule(Rule):
    """A rule with a `tangent` or a `cotangent` or both: where one is not known, the other is transposed."""

    def tangent(self, node: Apply, slot: int) -> LinearMap | None:
        """The tangent of the node as a function of the tangent of an operand."""
        return None

    def cotangent(self, node: Apply, slot: int) -> LinearMap | None:
        """The cotangent of an operand as a function of the cotangent of the node."""
        return None

    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        if (forward := self.tangent(node, slot)) is not None:
            return applied(self.name, forward, tangent)
        rank = node.operands[slot].rank
        turned = transpose(tangent, [*range(rank, tangent.rank), *range(rank)])
        result = transposed(self.name, self._known(self.cotangent(node, slot)), turned)
        lead = result.rank - node.rank
        return transpose(result, [*range(lead, result.rank), *range(lead)])

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        if (backward := self.cotangent(node, slot)) is not None:
            lead, rank = cotangent.rank - node.rank, node.operands[slot].rank
            turned = transpose(cotangent, [*range(lead, cotangent.rank), *range(lead)])
            result = applied(self.name, backward, turned)
            return transpose(result, [*range(rank, result.rank), *range(rank)])
        return transposed(self.name, self._known(self.tangent(node, slot)), cotangent)

    def missing(self) -> DifferentiationError:
        """The error where neither is known."""
        return DifferentiationError(f"{self.name} has no rule for its derivative")

    def _known(self, found: LinearMap | None) -> LinearMap:
        if found is None:
            raise self.missing()
        return found


def applied(name: str, linear: LinearMap, operand: Node) -> Node:
    """A linear map of an operand `[argument…, trail…]`: `[value…, trail…]`."""
    trail = operand.shape[linear.argument.rank :]
    live = _checked(name, linear)
    if not trail and any(map(_is_foreign, live)):
        return _rebuilt(linear, live, operand, rebuild)
    through = _transparent(linear, live)
    return push_forward(through, {linear.argument: operand}, trail, linear.fixed)


def at(linear: LinearMap, operand: Node) -> Node:
    """The value for an operand of the shape of the argument, linear or not."""
    return substitute([linear.value], {linear.argument: operand})[0]


def is_linear(linear: LinearMap) -> bool:
    """Whether the value is seen to be linear in the directions."""
    order = topological([linear.value], linear.fixed)
    live = dependents(order, linear.directions)
    return all(_is_linear(node, live) for node in order if node in live) and (
        linear.value in live or is_zero(linear.value)
    )


def transposed(name: str, linear: LinearMap, operand: Node) -> Node:
    """The transpose of a linear map applied to `[lead…, value…]`: `[lead…, argument…]`."""
    through = _transparent(linear, _checked(name, linear))
    return pull_back(through, operand, [linear.argument], linear.fixed)[0]


def _checked(name: str, linear: LinearMap) -> dict[Node, None]:
    """The nodes that depend on the directions, operands first; each of them must be linear in them."""
    if not is_linear(linear):
        raise DifferentiationError(
            f"the rule for the derivative of {name} is not linear in the tangents or cotangents that "
            "it gets; it must be a sum of terms, each with one of them as a factor"
        )
    order = topological([linear.value], linear.fixed)
    found = dependents(order, linear.directions)
    return {node: None for node in order if node in found}


def _is_linear(node: Node, live: Collection[Node]) -> bool:
    """Whether a node is linear in the operands that depend on the directions.

    A foreign function is believed to be: a rule may call one on a tangent.
    """
    slots = [slot for slot, operand in enumerate(node.operands) if operand in live]
    if isinstance(node, Add):
        return len(slots) == len(node.operands)
    if isinstance(node, Einsum):
        return len(slots) <= 1
    if isinstance(node, Apply) and isinstance(record_of(node), Foreign):
        return True
    if isinstance(node, Apply) and isinstance(record_of(node), Linear):
        return slots in ([], [0])  # the others are positions
    fixed = [operand for operand in node.operands if operand not in live]
    edges = [found for slot in slots if (found := edge(node, slot)) is not None]
    inside = topological([part for found in edges for part in found.operands], fixed)
    # what is locally constant in a direction (floor, argmax) is not linear in it
    return len(edges) == len(slots) and not any(part in live for part in inside)


def _is_foreign(node: Node) -> bool:
    return isinstance(node, Apply) and node.name == FOREIGN


def _rebuilt(
    linear: LinearMap, live: Collection[Node], operand: Node, made: Callable[[Node, tuple[Node, ...]], Node]
) -> Node:
    """The value for an operand, its nodes made anew."""
    new: dict[Node, Node] = {other: zero(other.shape) for other in linear.directions}
    new[linear.argument] = operand
    for node in live:
        if node not in new:
            operands = tuple(new.get(below, below) for below in node.operands)
            vanishes = all(is_zero(new[below]) for below in node.operands if below in live)
            new[node] = zero(node.shape) if vanishes else made(node, operands)
    return new.get(linear.value, linear.value)


def transparent(name: str, linear: LinearMap) -> Node:
    """The value as a node in which the argument passes through no foreign function."""
    return _transparent(linear, _checked(name, linear))


def _transparent(linear: LinearMap, live: Collection[Node]) -> Node:
    """The value with the foreign functions through which directions pass as products with their matrices.

    What is linear as a whole is linear in each of its parts.
    """
    if not any(map(_is_foreign, live)):
        return linear.value

    def made(node: Node, operands: tuple[Node, ...]) -> Node:
        if not isinstance(node, Apply) or not _is_foreign(node):
            return rebuild(node, operands)
        return _as_product(node, operands, [k for k, below in enumerate(node.operands) if below in live])

    return _rebuilt(linear, live, linear.argument, made)


def _as_product(node: Apply, operands: Sequence[Node], slots: Sequence[int]) -> Node:
    """A foreign function that is linear in some operands: the sum of products with its matrices."""
    fixed = [zero(operand.shape) if slot in slots else operand for slot, operand in enumerate(operands)]
    terms = []
    for slot in slots:
        matrix = foreign(_matrix_rule(rule_of(node), node.params[1], slot), *fixed)[0]
        axes = plain_axes(matrix.rank)
        own, other = axes[: node.rank], axes[node.rank :]
        terms.append(einsum([matrix, operands[slot]], [axes, other], own, node.shape, matrix.shape))
    return add(terms, node.shape)


_matrices: WeakValueDictionary[tuple[Rule, int, int], Rule] = WeakValueDictionary()


def _matrix_rule(rule: Rule, output: int, slot: int) -> Rule:
    """The one rule for the matrix of a linear function, as long as somebody uses it."""
    known = _matrices.get((rule, output, slot))
    if known is None:
        known = _matrices[rule, output, slot] = _MatrixRule(rule, output, slot)
    return known


class _MatrixRule(Rule):
    """The matrix `[result…, operand…]` of a function that is linear in an operand, which is given as 0."""

    def __init__(self, rule: Rule, output: int, slot: int) -> None:
        super().__init__(f"{rule.name}_matrix")
        self.rule, self.output, self.slot = rule, output, slot
        self.is_native = self.has_native_matrix = rule.has_native_matrix

    def meaning(self) -> Hashable:
        return type(self), self.rule.meaning(), self.output, self.slot

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        return (Output(self.rule.outputs(shapes)[self.output].shape + shapes[self.slot]),)

    def call(self, *arrays: Any) -> Sequence[Any]:
        return [self.rule.matrix(self.output, self.slot, arrays)]

    def columns(self, function: Callable[[Any], Any], operand: Any, shape: tuple[int, ...]) -> Any:
        return self.rule.columns(function, operand, shape)

    def is_active(self, node: Apply, slot: int) -> bool:
        return self.rule.is_active(self._column(node, node.operands[self.slot]), slot)

    def _column(self, node: Apply, unit: Node) -> Apply:
        """The function itself at a unit tensor."""
        operands = list(node.operands)
        operands[self.slot] = unit
        column = foreign(self.rule, *operands)[self.output]
        assert isinstance(column, Apply)
        return column

    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        """The columns of the tangent: those of the function, which is linear, for unit tensors."""
        unit = variable(f"a unit of {self.name}", node.operands[self.slot].shape, ["tangent"])
        column = self._column(node, unit)
        pushed = LinearMap(self.rule.push(column, slot, tangent), unit, (unit,))
        result = applied(self.name, pushed, delta(unit.shape))
        own, end = column.rank, result.rank - unit.rank
        return transpose(result, [*range(own), *range(end, result.rank), *range(own, end)])

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        shape = node.operands[slot].shape
        partial = self.push(node, slot, delta(shape))
        lead = cotangent.rank - node.rank
        axes = plain_axes(cotangent.rank + len(shape))
        own, rest = axes[lead : cotangent.rank], axes[cotangent.rank :]
        return einsum(
            [cotangent, partial],
            [axes[: cotangent.rank], own + rest],
            axes[:lead] + rest,
            cotangent.shape[:lead] + shape,
            cotangent.shape + shape,
        )
