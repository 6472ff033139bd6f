"""Differential operators on nodes: directional derivatives of high order, diagonals, Laplacians.

A directional derivative is made by Taylor mode, or one order after the other, whichever costs less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hesse.calculus.compositions import enter_compositions
from hesse.calculus.derivative import TAYLOR, Choice, differentiate
from hesse.calculus.modes import push_forward
from hesse.calculus.primals import replaced_rules, settled
from hesse.calculus.shares import Index
from hesse.calculus.taylor import Parameter, Propagation
from hesse.cost import estimate
from hesse.ir import (
    Node,
    add,
    are_shortcuts_wanted,
    broadcast,
    delta,
    keep_nodes,
    multiply,
    scale,
    substitute,
    variable,
    zero,
)
from hesse.rewrite import simplify

SAVED_SHARE = 0.1
"""What forward mode must save to be taken: unlike Taylor mode it takes longer to build with each order."""
SAVED_AGAIN = 1.5
"""By this factor less is a derivative by Taylor mode taken to cost that will be differentiated again."""
Direction = Mapping[Node, Node]
"""How the variables move."""


@keep_nodes()
def along(output: Node, directions: Sequence[tuple[Direction, int]], mode: str = "auto") -> Choice:
    """The derivative along each direction of an order, by Taylor mode or in forward mode again and again.

    The latter goes on as long as it is the cheaper one; a first derivative is the same in both.
    """
    steps = [k for k, (_, order) in enumerate(directions) for _ in range(order)]
    seeds: dict[Node, dict[Index, Node]] = {}
    for k, (direction, _) in enumerate(directions):
        for point, tangent in direction.items():
            seeds.setdefault(point, {})[_unit(k, len(directions))] = tangent
    propagation = Propagation([Parameter(order) for _, order in directions], seeds)

    def by_taylor(count: int) -> Node:
        index = tuple([steps[:count].count(k) for k in range(len(directions))])
        return simplify([propagation.coefficient(output, index)])[0]

    repeated = output
    has_series = not replaced_rules(output)
    for count, k in enumerate(steps, 1):
        if mode == TAYLOR and has_series:
            break
        (repeated,) = simplify(settled(repeated, [push_forward(repeated, directions[k][0])]))
        if (
            has_series
            and count > 1
            and (1.0 - SAVED_SHARE) * taylor_cost(by_taylor(count), count) <= estimate([repeated])
        ):
            break
    else:
        return Choice([repeated], "forward", {})
    enter_compositions(propagation)
    return Choice([by_taylor(len(steps))], TAYLOR, {})


def along_curve(
    outputs: Sequence[Node], curve: Mapping[Node, Mapping[Index, Node]], order: int
) -> list[Node]:
    """The outputs and their derivatives along a curve, one after the other, where there is no series."""
    time = variable("time along the curve", (), ["tangent"])
    moved: dict[Node, Node] = {}
    for point, rates in curve.items():
        powers = [[broadcast(time, point.shape, ())] * k for (k,) in rates]
        terms = [
            scale(multiply(rate, *power), 1.0 / math.factorial(len(power)))
            for rate, power in zip(rates.values(), powers, strict=True)
        ]
        moved[point] = add([point, *terms], point.shape)
    rows = [substitute(outputs, moved)]
    for _ in range(order):
        rows.append([simplify(differentiate(node, [time]))[0] for node in rows[-1]])
    return substitute([node for row in rows for node in row], {time: zero(())})


def taylor_cost(derivative: Node, order: int) -> float:
    """What a derivative by Taylor mode costs, to be compared with those of other modes.

    Reverse mode goes back through its series by shortcuts. For order two that does not decide: other modes
    have products in common with first derivatives, which a function with second ones often has, too.
    """
    cost = estimate([derivative])
    return cost / SAVED_AGAIN if order > 2 and are_shortcuts_wanted() else cost


def taylor_diagonal(output: Node, point: Node, order: int) -> Node:
    """The derivative of an order along each unit tensor: `[output…, point…]`."""
    return _along_units(output, [(point, Parameter(order, point.shape))])


def taylor_laplacian(output: Node, *points: Node) -> Node:
    """The sum of the second derivatives along all unit tensors, for each point, one after the other.

    Each is propagated as one coefficient. Of two points it is the Laplacian of the Laplacian.
    """
    return _along_units(output, [(point, Parameter(2, point.shape, is_summed=True)) for point in points])


def _along_units(output: Node, moves: Sequence[tuple[Node, Parameter]]) -> Node:
    """The derivative of the highest order in each parameter, with which a point moves along unit tensors."""
    seeds: dict[Node, dict[Index, Node]] = {}
    for k, (point, _) in enumerate(moves):
        seeds.setdefault(point, {})[_unit(k, len(moves))] = delta(point.shape)
    parameters = [parameter for _, parameter in moves]
    # recurrences have the coefficients of slopes, which shortcuts are made of
    by_recurrences = are_shortcuts_wanted() and not any([parameter.is_summed for parameter in parameters])
    propagation = Propagation(parameters, seeds, by_recurrences)
    found = propagation.coefficient(output, tuple([parameter.order for parameter in parameters]))
    enter_compositions(propagation)
    return found


def _unit(place: int, count: int) -> Index:
    return tuple([int(k == place) for k in range(count)])
