"""Differential operators: derivatives along directions, mixed partial ones, diagonals and Laplacians."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial as bound
from typing import Any

import numpy as np

from hesse.api.arguments import check_order, check_same_shape
from hesse.api.compiled import Derivative
from hesse.api.derivatives import Backend
from hesse.api.entries import Built, Options, Request
from hesse.api.layout import Layout, mapped, shifted
from hesse.calculus import (
    TAYLOR,
    Choice,
    Direction,
    Parameter,
    Propagation,
    along,
    along_curve,
    derivative_blocks,
    enter_compositions,
    taylor_cost,
    taylor_diagonal,
    taylor_laplacian,
)
from hesse.calculus.primals import replaced_rules
from hesse.cost import estimate
from hesse.errors import ArgumentError
from hesse.ir import Node, add, place, topological, uniform
from hesse.rewrite import simplify
from hesse.structured import formulas

Choices = tuple[Choice, ...]
TRIED_MODES = ("reverse", "auto", "forward")
"""The modes in which a whole derivative is made before a part of it is taken."""
LONG = 40
"""From so many nodes on it takes long to make it in all of them."""
CLEARLY = 1.5
"""If Taylor mode costs less than the first of them by this factor, the others are not tried then."""


def taylor(
    f: Callable[..., Any],
    order: int,
    argnums: int | tuple[int, ...] = 0,
    backend: Backend = None,
    curve: int = 1,
) -> Derivative:
    """The value and the derivatives of orders 1 to `order` along a direction, by Taylor propagation.

    `taylor(f, k)(x, v)` is the tuple of the derivatives of `t -> f(x + t*v)` at 0; they are not divided by
    factorials. `v` has the structure of what is differentiated by, as in `jvp`. With `curve=2` (or more) the
    first two derivatives of a curve are given: `taylor(f, k, curve=2)(x, v1, v2)` are the derivatives of
    `t -> f(x + t*v1 + t**2/2*v2)`.

    >>> import numpy as np, hesse
    >>> value, first, second, third = hesse.taylor(np.exp, 3)(0.0, 2.0)
    >>> print(value, first, second, third)
    1.0 2.0 4.0 8.0
    """
    highest, given = check_order(order), check_order(curve, "curve")

    def build(request: Request) -> Built:
        nodes, layout = request.output
        if any(map(replaced_rules, nodes)):
            roots = along_curve(nodes, _curve(request), highest)
        else:
            propagation = Propagation([Parameter(highest)], _curve(request))
            roots = [propagation.coefficient(node, (k,)) for k in range(highest + 1) for node in nodes]
            enter_compositions(propagation)
        layouts = tuple(shifted(layout, k * len(nodes)) for k in range(highest + 1))
        return Built(simplify(roots), layouts)

    extra = ("v",) if given == 1 else tuple(f"v{k}" for k in range(1, given + 1))
    return Derivative(f, build, Options(argnums, backend=backend), extra=extra)


def _curve(request: Request) -> dict[Node, dict[tuple[int, ...], Node]]:
    """The given derivatives of the variables."""
    names, nodes, _ = request.extra
    count = len(request.variables)
    seeds: dict[Node, dict[tuple[int, ...], Node]] = {node: {} for node in request.variables}
    for k, (name, node) in enumerate(zip(names, nodes, strict=True)):
        check_same_shape(name, node, request.names[k % count], request.variables[k % count])
        seeds[request.variables[k % count]][k // count + 1,] = node
    return seeds


def partial(
    f: Callable[..., Any],
    orders: int | Sequence[int],
    argnums: int = 0,
    backend: Backend = None,
) -> Derivative:
    """A mixed partial derivative: by entry k of the variable, `orders[k]` times.

    The variable is a vector with an entry for each order, or a number (`orders` may be an int then). Of an
    array with more axes the entries of the last axis are meant, for all rows together: where each row of the
    result depends on its own row only, that is the partial derivative at each row.

    >>> import numpy as np, hesse
    >>> f = lambda x: x[..., 0] ** 3 * x[..., 1] * np.exp(2.0 * x[..., 2])
    >>> print(hesse.partial(f, (2, 0, 2))(np.array([1.0, 0.5, 0.0])))
    12.0
    >>> hesse.partial(f, (2, 1, 0))(np.array([[1.0, 0.5, 0.0], [2.0, 0.5, 0.0]]))
    array([ 6., 12.])
    """
    index = _check_orders(orders)

    def build(request: Request) -> Built:
        if len(request.variables) != 1:
            raise ArgumentError(
                f"partial needs one array to differentiate by, not {', '.join(request.names) or 'none'}"
            )
        (point,), (name,) = request.variables, request.names
        if point.shape[-1:] != (len(index),) and (point.shape or len(index) > 1):
            raise ArgumentError(
                f"orders has {len(index)} entries, but {name} has shape {point.shape}: there must be one for "
                "each entry of the last axis"
            )
        steps: list[tuple[Direction, int]] = [
            ({point: _unit(point, k)}, order) for k, order in enumerate(index) if order
        ]
        choices = [along(output, steps) for output in request.output.nodes]
        roots = [root for choice in choices for root in choice.derivatives]
        return Built(simplify(roots), request.output.layout, choices=tuple(choices))

    return Derivative(f, build, Options(_one(argnums), backend=backend))


def _check_orders(orders: Any) -> tuple[int, ...]:
    given = (orders,) if isinstance(orders, int | np.integer) else orders
    found = tuple(given) if isinstance(given, Sequence | np.ndarray) else ()
    if not found or any(isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0 for k in found):
        raise ArgumentError(f"orders must be integers of at least 0, one for each entry, not {orders!r}")
    return tuple(map(int, found))


def _unit(point: Node, entry: int) -> Node:
    """Ones at an entry of the last axis, in all rows."""
    if not point.shape:
        return uniform(1.0)
    ones = uniform(1.0, (*point.shape[:-1], 1))
    return place(ones, point.shape, [0] * (point.rank - 1) + [entry])


def diagonal(
    f: Callable[..., Any], argnums: int = 0, mode: str = "auto", backend: Backend = None, order: int = 2
) -> Derivative:
    """The diagonal of the Hessian, or of a derivative of another order: made without anything larger.

    For a scalar function it has the shape of the variable; axes of a result come first. Of a sum over a batch
    of points, of which each has one number as its variable, it is the derivative at each point.

    >>> import numpy as np, hesse
    >>> hesse.diagonal(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    array([ 6., 12.])
    >>> hesse.diagonal(lambda x: np.sum(np.sin(x)), order=4)(np.array([0.0, np.pi / 2])).round(12)
    array([0., 1.])
    """
    highest = check_order(order)
    part = bound(formulas.diagonal, groups=highest)
    by_taylor = bound(taylor_diagonal, order=highest)

    def build(request: Request) -> Built:
        pairs = itertools.product(request.output.nodes, request.variables)
        found = [_contracted(*pair, highest, request.mode, part, by_taylor) for pair in pairs]
        count = len(request.variables)
        layout = mapped(request.output.layout, lambda k: shifted(request.layout, k * count))
        return _built(found, layout)

    return Derivative(f, build, Options(_one(argnums), mode, backend=backend, is_directional=True))


def laplacian(
    f: Callable[..., Any],
    argnums: int = 0,
    mode: str = "auto",
    backend: Backend = None,
    one_entry: bool = False,
) -> Derivative:
    """The trace of the Hessian, made without anything larger.

    With `one_entry` a result of the function of shape (1,) or (1, 1) is a number.

    >>> import numpy as np, hesse
    >>> print(hesse.laplacian(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0])))
    18.0
    """

    def build(request: Request) -> Built:
        found = [_laplacian(output, request.variables, request.mode) for output in request.output.nodes]
        return _built(found, request.output.layout)

    options = Options(_one(argnums), mode, backend=backend, is_directional=True, one_entry=one_entry)
    return Derivative(f, build, options)


def biharmonic(
    f: Callable[..., Any], argnums: int = 0, mode: str = "auto", backend: Backend = None
) -> Derivative:
    """The Laplacian of the Laplacian.

    >>> import numpy as np, hesse
    >>> print(hesse.biharmonic(lambda x: np.sum(x**2) ** 2)(np.array([1.0, 2.0])))
    64.0
    """

    def build(request: Request) -> Built:
        found = [_biharmonic(output, request.variables, request.mode) for output in request.output.nodes]
        return _built(found, request.output.layout)

    return Derivative(f, build, Options(_one(argnums), mode, backend=backend, is_directional=True))


def _built(found: Sequence[tuple[Node, Choices]], layout: Layout) -> Built:
    """The results and how they were made."""
    choices = tuple(itertools.chain(*[choices for _, choices in found]))
    return Built(simplify([node for node, _ in found]), layout, choices=choices)


def _biharmonic(output: Node, points: Sequence[Node], mode: str) -> tuple[Node, Choices]:
    """At once by Taylor mode, or as a Laplacian of a Laplacian."""
    candidates: list[tuple[Node, Choices]] = []
    has_series = not replaced_rules(output)
    if mode in ("auto", TAYLOR) and has_series:
        pairs = itertools.combinations_with_replacement(points, 2)
        terms = [taylor_laplacian(output, a, b) * (1.0 if a is b else 2.0) for a, b in pairs]
        (whole,) = simplify([add(terms, output.shape)])
        candidates.append((whole, (Choice([whole], TAYLOR, {}),)))
    if mode != TAYLOR or not has_series:
        inner, choices = _laplacian(output, points, mode)
        outer, further = _laplacian(inner, points, mode)
        candidates.append((outer, choices + further))
    return min(candidates, key=lambda candidate: estimate([candidate[0]]))


def _laplacian(output: Node, points: Sequence[Node], mode: str) -> tuple[Node, Choices]:
    found = [_contracted(output, point, 2, mode, formulas.trace, taylor_laplacian) for point in points]
    (total,) = simplify([add([node for node, _ in found], output.shape)])
    return total, tuple(itertools.chain(*[choices for _, choices in found]))


def _contracted(
    output: Node,
    point: Node,
    order: int,
    mode: str,
    part: Callable[[Node, int], Node],
    by_taylor: Callable[[Node, Node], Node],
) -> tuple[Node, Choices]:
    """A part of a derivative in the mode that makes it cheapest: of the whole, or directly by Taylor mode."""
    candidates: dict[str, tuple[Node, Choices]] = {}
    costs: dict[str, float] = {}

    def try_(name: str, node: Node, choices: Choices = ()) -> None:
        (found,) = simplify([node])
        cost = taylor_cost(found, order) if name == TAYLOR else estimate([found])
        candidates[name], costs[name] = (found, choices), cost

    has_series = not replaced_rules(output)
    if mode in ("auto", TAYLOR) and has_series:
        try_(TAYLOR, by_taylor(output, point))
    is_long = len(topological([output])) >= LONG
    modes = TRIED_MODES if mode == "auto" else {mode} - {TAYLOR}
    for name in modes if has_series else ("reverse",):
        blocks, choices = derivative_blocks(output, [point], order, name)
        try_(name, part(blocks[(0,) * order], point.rank), choices)
        if is_long and CLEARLY * costs.get(TAYLOR, math.inf) <= costs[name]:
            break
    best = min(costs, key=lambda name: (costs[name], name))  # of equal ones "auto" comes first, "taylor" last
    node, choices = candidates[best]
    return node, choices or (Choice([node], best, costs),)


def _one(argnums: Any) -> int:
    if isinstance(argnums, bool) or not isinstance(argnums, int | np.integer):
        raise ArgumentError(f"argnums must be one int here, not {argnums!r}")
    return int(argnums)
