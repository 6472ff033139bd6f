"""Taylor mode: derivatives of high order along directions, by propagating coefficients through nodes.

The variables move with parameters: `x + s·v`, or `x + s·v + t·w`. The coefficient of a node of an index
`(a, b)` is its derivative by s and t of these orders. Sums and products follow from Leibniz' rule. For
everything else one law is enough, the chain rule: the derivative of `y = f(u)` by s is the tangent
`push(y, ∂u/∂s)`, an expression of y, u and a *rate* that stands for `∂u/∂s`, and its coefficients of one
order less in s are those of y. It may contain y itself, of which it needs lower orders only: where a rule is
written in terms of its value, as those of exp and tanh are, this is the well-known recurrence.

A parameter may have many directions, which are trailing axes of coefficients. If only the sum of the highest
derivatives over all directions is wanted (a Laplacian), it is propagated as one coefficient, because the
highest ones occur linearly (collapsed Taylor mode, or the forward Laplacian). With many directions it is
operations on large coefficients that count, so low orders of element-wise functions are then propagated not
by recurrences but by the formula of Faà di Bruno: second derivatives are `f''(u)·∂u·∂u + f'(u)·∂∂u`.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

from hesse.calculus.foreign import LinearMap, transparent
from hesse.calculus.modes import push_forward
from hesse.calculus.partial import is_active, push
from hesse.calculus.shares import Index, distributions, in_pairs, linked, partitions
from hesse.ir import (
    Add,
    Apply,
    Axis,
    Einsum,
    Map,
    Node,
    Shape,
    Variable,
    add,
    einsum,
    is_zero,
    plain_axes,
    rebuild,
    topological,
    transpose,
    uniform,
    variable,
    zero,
)
from hesse.ops.registry import ELEMENTWISE, Equation, Foreign, General, Linear, apply_linear, record_of
from hesse.rewrite import simplify

MOST_COMPOSED = 4
"""Up to this order the derivatives of a composition are formed at once: there are 15 terms of order 4."""
Key = tuple[Node, Index]
Steps = Generator[Key, Node, Node]
"""Asks for coefficients, gets them, and returns one."""


class Parameter(NamedTuple):
    """What variables move with: the highest order, and the axes of its directions.

    If `is_summed`, coefficients of the highest order are sums over the directions.
    """

    order: int
    directions: Shape = ()
    is_summed: bool = False


class Propagation:
    """Coefficients of nodes, for those of the variables: `seeds[variable][index]`.

    A coefficient has the axes of the node first, then those of the directions of each parameter in which its
    order is neither 0 nor summed. `by_recurrences` says that element-wise functions always follow theirs.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        seeds: Mapping[Node, Mapping[Index, Node]],
        by_recurrences: bool = False,
    ) -> None:
        self._parameters = tuple(parameters)
        self._by_recurrences = by_recurrences
        self._seeds = seeds
        self._is_symmetric = _are_alike(parameters, seeds)
        self._known: dict[Key, Node] = {}
        self._ready: dict[Node, Node] = {}
        """Nodes with their products in the form in which they are propagated."""
        self._live: dict[Node, bool] = {}
        """Whether a node depends on the variables."""
        self._stands_for: dict[Node, Node] = {}
        self._lifted: dict[Node, int] = {}
        """Nodes that are linear in rates by this parameter; the order that a rate has counts in an index."""
        self._tangents: dict[tuple[Node, int], Node] = {}
        self._products: dict[Node, tuple[Einsum, Node]] = {}
        self._slopes: dict[Node, list[Node]] = {}

    def coefficient(self, node: Node, index: Index) -> Node:
        """The derivative of a node of an index."""
        key = (self._prepared(node), index)
        stack = [(key, self._steps(*key))]  # no recursion over the depth of an expression
        answer: Node | None = None
        while stack:
            key, steps = stack[-1]
            try:
                wanted = steps.send(answer)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as end:
                self._known[key] = answer = end.value
                stack.pop()
            else:
                answer = self._known.get(wanted)
                if answer is None:
                    stack.append((wanted, self._steps(*wanted)))
        assert answer is not None
        return answer

    def compositions(self) -> list[Key]:
        """The element-wise functions of one operand, with the indices of coefficients that were asked for."""
        return [
            (node, index)
            for node, index in self._known
            if any(index) and isinstance(node, Map) and len(node.operands) == 1 and node not in self._lifted
        ]

    def trail(self, index: Index) -> list[int]:
        """The parameters whose directions a coefficient has."""
        return [
            k
            for k, (order, parameter) in enumerate(zip(index, self._parameters, strict=True))
            if order and not (parameter.is_summed and order == parameter.order)
        ]

    def _shape(self, node: Node, index: Index) -> Shape:
        return node.shape + self._directions(index)

    def _directions(self, index: Index) -> Shape:
        return tuple(itertools.chain(*[self._parameters[k].directions for k in self.trail(index)]))

    # --- what is propagated ---

    def _prepared(self, root: Node) -> Node:
        """The node with at most two factors of a product that depend on the variables, where it can be so."""
        for node in topological([root], self._ready):
            operands = tuple([self._ready[operand] for operand in node.operands])
            new = node if operands == node.operands else rebuild(node, operands)
            self._learn(new)
            if isinstance(new, Einsum) and len(self._live_slots(new)) > 1 and len(new.operands) > 2:
                new = in_pairs(new)
                self._learn(new)
            self._ready[node] = self._ready[new] = new
        return self._ready[root]

    def _learn(self, root: Node) -> None:
        """Find out what depends on variables and on rates."""
        for node in topological([root], self._live):
            self._live[node] = node in self._seeds or bool(self._live_slots(node))
            for operand in node.operands:
                if operand in self._lifted:
                    self._lifted[node] = self._lifted[operand]

    def _live_slots(self, node: Node) -> list[int]:
        return [k for k, operand in enumerate(node.operands) if self._live[operand] and is_active(node, k)]

    def _rate(self, node: Node, parameter: int) -> Node:
        """A variable that stands for the derivative of a node."""
        stand_in = self._stand_in(node)
        self._stands_for[stand_in] = node
        self._lifted[stand_in] = parameter
        return stand_in

    def _stand_in(self, node: Node) -> Variable:
        found = variable(f"coefficients {len(self._live)}", node.shape, ["tangent"])
        self._live[found] = True
        self._ready[found] = found
        return found

    def _tangent(self, node: Node, parameter: int) -> Node:
        """The derivative of a node by a parameter, in terms of the rates of its operands."""
        if (node, parameter) not in self._tangents:
            terms = []
            for slot in self._live_slots(node):
                # what is linear in rates is its own tangent
                operand = node.operands[slot]
                rate = operand if node in self._lifted else self._rate(operand, parameter)
                if node not in self._lifted or operand in self._lifted:
                    terms.append(self._pushed(node, slot, rate))
            self._tangents[node, parameter] = self._prepared(add(terms, node.shape))
        return self._tangents[node, parameter]

    def _pushed(self, node: Node, slot: int, rate: Node) -> Node:
        pushed = push(node, slot, rate)
        if isinstance(node, Apply) and isinstance(record_of(node), Foreign):
            assert isinstance(rate, Variable), "foreign functions of rates are products"
            return transparent(node.params[0].name, LinearMap(pushed, rate, (rate,)))
        return pushed

    # --- coefficients ---

    def _steps(self, node: Node, index: Index) -> Steps:
        """The coefficient of a node."""
        seeds = self._seeds.get(node)
        if node in self._stands_for:
            return (yield self._stands_for[node], index)
        if not any(index):
            return node
        if seeds is not None:
            return seeds.get(index, zero(self._shape(node, index)))
        if not self._live[node]:
            return zero(self._shape(node, index))
        if self._is_symmetric and node not in self._lifted:
            first = tuple(sorted(index, reverse=True))
            if first != index:
                return self._swapped(node, (yield node, first), index)
        if isinstance(node, Add):
            return (yield from self._sum(node, index))
        if isinstance(node, Einsum):
            return (yield from self._product(node, index))
        if isinstance(node, Apply) and isinstance(record_of(node), Linear):
            return apply_linear(node, (yield node.operands[0], index))
        if self._is_composed(node, index):
            return (yield from self._composition(node, index))
        equation = None if node in self._lifted else _equation(node)
        if equation is not None:
            return (yield from self._solved(node, equation, index))
        parameter = self._lifted.get(node)
        if parameter is None:  # the lowest order gives the fewest terms
            parameter = min((order, k) for k, order in enumerate(index) if order)[1]
        return (yield self._tangent(node, parameter), index)

    def _swapped(self, node: Node, coefficient: Node, index: Index) -> Node:
        """The coefficient of an index from that of the same orders descending, all parameters being alike."""
        rank = len(self._parameters[0].directions)
        places = sorted(range(len(index)), key=lambda k: -index[k])
        trail = [k for k in places if k in self.trail(index)]
        groups = [
            range(node.rank + rank * trail.index(k), node.rank + rank * trail.index(k) + rank)
            for k in sorted(trail)
        ]
        return transpose(coefficient, [*range(node.rank), *itertools.chain(*groups)])

    def _sum(self, node: Add, index: Index) -> Steps:
        terms = []
        for slot in self._live_slots(node):
            terms.append((yield node.operands[slot], index))
        return add(terms, self._shape(node, index))

    def _product(self, node: Einsum, index: Index, without: Key | None = None) -> Steps:
        """Leibniz' rule; terms with the coefficient `without` are left out."""
        slots = self._live_slots(node)
        terms = []
        for parts, count in self._distributions(node, slots, index):
            coefficients: dict[int, tuple[Node, Index]] = {}
            for slot, part in zip(slots, parts, strict=True):
                if (node.operands[slot], part) == without:
                    break
                found = yield node.operands[slot], part
                if is_zero(found):
                    break
                coefficients[slot] = found, part
            else:
                terms.append(self._term(node, index, coefficients, count))
        return add(terms, self._shape(node, index))

    def _distributions(
        self, node: Einsum, slots: Sequence[int], index: Index
    ) -> tuple[tuple[tuple[Index, ...], int], ...]:
        """How the orders of an index are shared out to factors, and how often."""
        lifted = next(
            (
                (k, self._lifted[node.operands[slot]])
                for k, slot in enumerate(slots)
                if node.operands[slot] in self._lifted
            ),
            None,
        )
        factors = [(node.operands[slot], node.axes[slot]) for slot in slots]
        return distributions(index, tuple(map(factors.index, factors)), lifted)

    def _term(
        self, node: Einsum, index: Index, coefficients: Mapping[int, tuple[Node, Index]], count: int
    ) -> Node:
        """The product with coefficients of some factors instead of their values."""
        ranges = list(node.ranges)
        labels: dict[int, tuple[Axis, ...]] = {}
        for k in sorted({k for _, part in coefficients.values() for k in self.trail(part)}):
            labels[k] = plain_axes(len(self._parameters[k].directions), len(ranges))
            ranges += self._parameters[k].directions

        def trail(part: Index) -> tuple[Axis, ...]:
            return tuple(itertools.chain(*[labels[k] for k in self.trail(part)]))

        operands, axes = list(node.operands), list(node.axes)
        for slot, (coefficient, part) in coefficients.items():
            operands[slot], axes[slot] = coefficient, axes[slot] + trail(part)
        output = node.output + trail(index)
        return einsum(operands, axes, output, self._shape(node, index), ranges, node.scale * count)

    def _is_composed(self, node: Node, index: Index) -> bool:
        """Whether a node is a function of each entry of one operand that moves in many directions."""
        if self._by_recurrences:
            return False
        has_directions = any([parameter.directions for parameter in self._parameters])
        is_row = isinstance(node, Map) and node not in self._lifted and len(self._live_slots(node)) == 1
        return has_directions and is_row and sum(index) <= MOST_COMPOSED

    def _composition(self, node: Node, index: Index) -> Steps:
        """The formula of Faà di Bruno: a term for each partition of the differentiations."""
        (slot,) = self._live_slots(node)
        terms = []
        for parts, count in partitions(index):
            coefficients = []
            for part in parts:
                coefficients.append(((yield node.operands[slot], part), part))
            if not any([is_zero(found) for found, _ in coefficients]):
                slope = self._slope(node, slot, len(parts))
                terms.append(self._multiplied(slope, coefficients, index, count))
        return add(terms, self._shape(node, index))

    def _slope(self, node: Node, slot: int, order: int) -> Node:
        """The derivative of an order of an element-wise function of an operand."""
        point = node.operands[slot]
        # the operand is hidden: laws that look into it would leave nothing to differentiate by
        hidden = variable("an operand", point.shape, ["tangent"])
        operands = (*node.operands[:slot], hidden, *node.operands[slot + 1 :])
        fixed = {operand: operand for operand in operands if operand is not hidden}
        if node not in self._slopes:
            self._slopes[node] = [rebuild(node, operands)]
        slopes = self._slopes[node]
        while len(slopes) <= order:
            ones: dict[Node, Node] = {hidden: uniform(1.0, point.shape)}
            slopes += simplify([push_forward(slopes[-1], ones, (), fixed)])
        new: dict[Node, Node] = {hidden: point, **fixed}
        for part in topological([slopes[order]], new):
            new[part] = rebuild(part, tuple([new[operand] for operand in part.operands]))
        return new[slopes[order]]

    def _multiplied(
        self, slope: Node, factors: Sequence[tuple[Node, Index]], index: Index, count: int
    ) -> Node:
        """A slope times coefficients; those with directions in common that are summed over come first."""
        kept, trails = self.trail(index), [self.trail(part) for _, part in factors]
        parts: list[tuple[Node, list[int]]] = [(slope, [])]
        for group in linked([set(trail).difference(kept) for trail in trails]):
            members = [(factors[k][0], trails[k]) for k in group]
            own = sorted({k for _, trail in members for k in trail}.intersection(kept))
            parts.append((self.entrywise(slope.shape, members, own), own))
        return self.entrywise(slope.shape, parts, kept, count)

    def entrywise(
        self, shape: Shape, factors: Sequence[tuple[Node, list[int]]], kept: list[int], count: int = 1
    ) -> Node:
        """The product of tensors `[shape…, directions…]`, summed over the directions that are not kept."""
        ranges = list(shape)
        labels: dict[int, tuple[Axis, ...]] = {}
        for k in sorted({k for _, trail in factors for k in trail}):
            labels[k] = plain_axes(len(self._parameters[k].directions), len(ranges))
            ranges += self._parameters[k].directions
        own = plain_axes(len(shape))
        axes = [
            own + tuple(itertools.chain(*[labels[k] for k in trail])) for _, trail in (*factors, ((), kept))
        ]
        sizes = [ranges[axis.label] for axis in axes[-1]]
        return einsum([node for node, _ in factors], axes[:-1], axes[-1], sizes, ranges, float(count))

    def _solved(self, node: Node, equation: Equation, index: Index) -> Steps:
        """The coefficient from an equation: the terms that are known, and the solution for the rest of it."""
        if node not in self._products:
            self._products[node] = self._stated(node, equation)
        product, unknown = self._products[node]
        rest = yield from self._product(product, index, (unknown, index))
        residual = -rest
        if equation.slot is not None:
            residual = (yield node.operands[equation.slot], index) + residual
        change = variable("a residual", product.shape, ["tangent"])
        return push_forward(equation.solution(node, change), {change: residual}, self._directions(index))

    def _stated(self, node: Node, equation: Equation) -> tuple[Einsum, Node]:
        """The product of an equation and the factor in it that stands for the node."""
        factor = self._prepared(equation.factor(node))
        unknown, other = self._stand_in(node), self._stand_in(factor)
        self._stands_for[unknown], self._stands_for[other] = node, factor
        self._live[other] = self._live[factor]
        product = self._prepared(equation.product(unknown, other))
        assert isinstance(product, Einsum)
        return product, unknown


def _are_alike(parameters: Sequence[Parameter], seeds: Mapping[Node, Mapping[Index, Node]]) -> bool:
    """Whether the variables move in the same way with each of several parameters."""
    if len(parameters) < 2 or len(set(parameters)) > 1:
        return False
    units = [tuple([int(k == place) for k in range(len(parameters))]) for place in range(len(parameters))]
    return all(
        len({table.get(unit) for unit in units}) == 1 and set(table) <= set(units) for table in seeds.values()
    )


def _equation(node: Node) -> Equation | None:
    """The equation that a node is known to solve."""
    if isinstance(node, Map):
        return ELEMENTWISE[node.name].equation
    record = record_of(node) if isinstance(node, Apply) else None
    return record.equation if isinstance(record, General) else None
